/* SPDX-License-Identifier: MIT */
/* test_dir_hash.c - names hash as e2fsprogs hashes them */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ext4/dir_private.h"

static const char *const names[] = { "a", "hello.c", "0123456789012345678901234567890123456789", "na\xefve\xff" };
static const uint32_t seeds[2][4] = { { 0 }, { 0x11111111, 0x2468ace0, 0xdeadbeef, 0x80000001 } };

/* From ext2fs_dirhash() of e2fsprogs 1.47.0; the signed ones agree with `debugfs -R "dx_hash ..."`. */
static const struct vector {
	unsigned seed;
	uint8_t version;
	unsigned name;
	uint32_t hash, minor;
} vectors[] = {
	{ 0, 0, 0, 0xe74b53e2, 0x00000000 },
	{ 0, 0, 1, 0xf1e65f9a, 0x00000000 },
	{ 0, 0, 2, 0x7c4ff9ee, 0x00000000 },
	{ 0, 0, 3, 0x37c222f2, 0x00000000 },
	{ 0, 1, 0, 0xd5fa7d7a, 0xacb48187 },
	{ 0, 1, 1, 0x8cebc3c0, 0xab3f9850 },
	{ 0, 1, 2, 0x3aae8528, 0xb7a040c8 },
	{ 0, 1, 3, 0xf3e7ec52, 0xd56f5cb1 },
	{ 0, 2, 0, 0x6d0ea4c0, 0xc18922df },
	{ 0, 2, 1, 0x773c1884, 0xa32140de },
	{ 0, 2, 2, 0xcb539f50, 0x5b842ef7 },
	{ 0, 2, 3, 0x3ef2c9b2, 0x5bc0d68e },
	{ 0, 3, 0, 0xe74b53e2, 0x00000000 },
	{ 0, 3, 1, 0xf1e65f9a, 0x00000000 },
	{ 0, 3, 2, 0x7c4ff9ee, 0x00000000 },
	{ 0, 3, 3, 0x7751faf2, 0x00000000 },
	{ 0, 4, 0, 0xd5fa7d7a, 0xacb48187 },
	{ 0, 4, 1, 0x8cebc3c0, 0xab3f9850 },
	{ 0, 4, 2, 0x3aae8528, 0xb7a040c8 },
	{ 0, 4, 3, 0xadcb32bc, 0x64cd710c },
	{ 0, 5, 0, 0x6d0ea4c0, 0xc18922df },
	{ 0, 5, 1, 0x773c1884, 0xa32140de },
	{ 0, 5, 2, 0xcb539f50, 0x5b842ef7 },
	{ 0, 5, 3, 0xbd13ff46, 0x7b532980 },
	{ 1, 0, 0, 0xe74b53e2, 0x00000000 },
	{ 1, 0, 1, 0xf1e65f9a, 0x00000000 },
	{ 1, 0, 2, 0x7c4ff9ee, 0x00000000 },
	{ 1, 0, 3, 0x37c222f2, 0x00000000 },
	{ 1, 1, 0, 0x48cd5428, 0x4e8249b3 },
	{ 1, 1, 1, 0xcfa16b7c, 0xce161cb5 },
	{ 1, 1, 2, 0x16cacf98, 0xc7770784 },
	{ 1, 1, 3, 0x2b280c30, 0xb0b2d4e1 },
	{ 1, 2, 0, 0x75c78906, 0x17726ad4 },
	{ 1, 2, 1, 0xf57ca918, 0x86938a0f },
	{ 1, 2, 2, 0x1607f900, 0xfe562097 },
	{ 1, 2, 3, 0x1109a0dc, 0x6d1c68bc },
	{ 1, 3, 0, 0xe74b53e2, 0x00000000 },
	{ 1, 3, 1, 0xf1e65f9a, 0x00000000 },
	{ 1, 3, 2, 0x7c4ff9ee, 0x00000000 },
	{ 1, 3, 3, 0x7751faf2, 0x00000000 },
	{ 1, 4, 0, 0x48cd5428, 0x4e8249b3 },
	{ 1, 4, 1, 0xcfa16b7c, 0xce161cb5 },
	{ 1, 4, 2, 0x16cacf98, 0xc7770784 },
	{ 1, 4, 3, 0x4622b960, 0x5a5a8931 },
	{ 1, 5, 0, 0x75c78906, 0x17726ad4 },
	{ 1, 5, 1, 0xf57ca918, 0x86938a0f },
	{ 1, 5, 2, 0x1607f900, 0xfe562097 },
	{ 1, 5, 3, 0x351c795a, 0xd86cd349 },
};

static void every_version_matches_e2fsprogs(void **state)
{
	static struct ext4_fs fs;

	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		const struct vector *v = &vectors[i];
		uint32_t hash, minor;

		memcpy(fs.hash_seed, seeds[v->seed], sizeof(fs.hash_seed));
		assert_int_equal(dir_hash(&fs, v->version, names[v->name], strlen(names[v->name]), &hash, &minor), 0);
		if (hash != v->hash || minor != v->minor)
			fail_msg("seed %u version %u name %u: %08x %08x", v->seed, v->version, v->name, hash, minor);
	}
}

static void the_superblock_flag_selects_the_unsigned_versions(void **state)
{
	struct ext4_fs fs = { .hash_unsigned = true };

	assert_int_equal(dir_hash_version(&fs, DX_HASH_HALF_MD4), DX_HASH_HALF_MD4_UNSIGNED);
	fs.hash_unsigned = false;
	assert_int_equal(dir_hash_version(&fs, DX_HASH_TEA), DX_HASH_TEA);
}

static void an_unknown_version_is_refused(void **state)
{
	static struct ext4_fs fs;
	uint32_t hash, minor;

	assert_int_equal(dir_hash(&fs, 6, "a", 1, &hash, &minor), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version_matches_e2fsprogs),
		cmocka_unit_test(the_superblock_flag_selects_the_unsigned_versions),
		cmocka_unit_test(an_unknown_version_is_refused),
	};

	return cmocka_run_group_tests_name("ext4/dir_hash", tests, NULL, NULL);
}
