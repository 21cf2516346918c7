/* SPDX-License-Identifier: MIT */
/* test_super.c - superblocks that are refused, feature names, mount options */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ext4/features.h"
#include "ext4/fs_private.h"
#include "ext4/super.h"

#define DEV_BYTES (UINT64_C(256) << 20)

/* A sound superblock of two groups with 4 KiB blocks and 256-byte inodes. */
static struct ext4_super_block sound_super(void)
{
	struct ext4_super_block es = {
		.s_magic = le16_make(EXT4_SUPER_MAGIC),
		.s_rev_level = le32_make(EXT4_REV_DYNAMIC),
		.s_log_block_size = le32_make(2), .s_log_cluster_size = le32_make(2),
		.s_blocks_per_group = le32_make(32768), .s_clusters_per_group = le32_make(32768),
		.s_blocks_count_lo = le32_make(65536),
		.s_inodes_per_group = le32_make(8192), .s_inodes_count = le32_make(16384),
		.s_first_ino = le32_make(11), .s_inode_size = le16_make(256),
		.s_want_extra_isize = le16_make(32), .s_min_extra_isize = le16_make(32),
		.s_feature_incompat = le32_make(EXT4_FEATURE_INCOMPAT_64BIT), .s_desc_size = le16_make(64),
		.s_feature_ro_compat = le32_make(EXT4_FEATURE_RO_COMPAT_METADATA_CSUM),
		.s_checksum_type = EXT4_CHECKSUM_CRC32C,
	};

	super_csum_set(&es);
	return es;
}

static int verify(struct ext4_super_block *es, char why[256])
{
	super_csum_set(es);
	return super_verify(es, DEV_BYTES, why);
}

static void a_sound_superblock_is_accepted(void **state)
{
	struct ext4_super_block es = sound_super();
	char why[256];

	assert_int_equal(super_verify(&es, DEV_BYTES, why), 0);
}

static void a_wrong_magic_is_no_file_system(void **state)
{
	struct ext4_super_block es = sound_super();
	char why[256];

	es.s_magic = le16_make(0x1234);
	assert_int_equal(super_verify(&es, DEV_BYTES, why), -EINVAL);
	assert_non_null(strstr(why, "0x1234"));
}

static void a_wrong_checksum_is_told_from_corruption(void **state)
{
	struct ext4_super_block es = sound_super();
	char why[256];

	es.s_uuid[3] ^= 1;
	assert_int_equal(super_verify(&es, DEV_BYTES, why), -EBADMSG);
}

static void a_truncated_image_is_named_with_both_sizes(void **state)
{
	struct ext4_super_block es = sound_super();
	char why[256];

	assert_int_equal(super_verify(&es, DEV_BYTES - 4096, why), -EUCLEAN);
	assert_non_null(strstr(why, "268435456"));
	assert_non_null(strstr(why, "268431360"));
}

static void each_field_out_of_range_is_refused(void **state)
{
	static const struct { size_t offset; unsigned bytes; uint32_t value; } bad[] = {
		{ offsetof(struct ext4_super_block, s_log_block_size), 4, 7 },
		{ offsetof(struct ext4_super_block, s_log_block_size), 4, 0xFFFFFFFF },
		{ offsetof(struct ext4_super_block, s_log_cluster_size), 4, 3 },
		{ offsetof(struct ext4_super_block, s_first_data_block), 4, 1 },
		{ offsetof(struct ext4_super_block, s_blocks_per_group), 4, 0 },
		{ offsetof(struct ext4_super_block, s_blocks_per_group), 4, 32776 },
		{ offsetof(struct ext4_super_block, s_blocks_per_group), 4, 12 },
		{ offsetof(struct ext4_super_block, s_inodes_per_group), 4, 0 },
		{ offsetof(struct ext4_super_block, s_inodes_per_group), 4, 32776 },
		{ offsetof(struct ext4_super_block, s_inodes_count), 4, 16385 },
		{ offsetof(struct ext4_super_block, s_inode_size), 2, 64 },
		{ offsetof(struct ext4_super_block, s_inode_size), 2, 300 },
		{ offsetof(struct ext4_super_block, s_inode_size), 2, 8192 },
		{ offsetof(struct ext4_super_block, s_first_ino), 4, 3 },
		{ offsetof(struct ext4_super_block, s_first_ino), 4, 16384 },
		{ offsetof(struct ext4_super_block, s_want_extra_isize), 2, 132 },
		{ offsetof(struct ext4_super_block, s_desc_size), 2, 32 },
		{ offsetof(struct ext4_super_block, s_desc_size), 2, 0 },
		{ offsetof(struct ext4_super_block, s_desc_size), 2, 96 },
		{ offsetof(struct ext4_super_block, s_reserved_gdt_blocks), 2, 1025 },
		{ offsetof(struct ext4_super_block, s_log_groups_per_flex), 1, 32 },
		{ offsetof(struct ext4_super_block, s_blocks_count_lo), 4, 0 },
		{ offsetof(struct ext4_super_block, s_blocks_count_hi), 4, 0xFFFFFFFF },
		{ offsetof(struct ext4_super_block, s_rev_level), 4, 2 },
		{ offsetof(struct ext4_super_block, s_checksum_type), 1, 9 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ext4_super_block es = sound_super();
		le32 value = le32_make(bad[i].value);
		char why[256] = "";

		memcpy((char *)&es + bad[i].offset, &value, bad[i].bytes);
		assert_int_equal(verify(&es, why), -EUCLEAN);
		assert_true(why[0] != '\0');
	}
}

static void random_superblocks_never_pass_with_impossible_geometry(void **state)
{
	srand(1);
	for (int round = 0; round < 20000; round++) {
		struct ext4_super_block es = sound_super();
		struct ext4_fs fs = { .block_bytes = 0 };
		char why[256];

		for (int n = rand() % 4; n >= 0; n--)
			((uint8_t *)&es)[rand() % 0x180] = (uint8_t)rand();
		es.s_magic = le16_make(EXT4_SUPER_MAGIC);
		if (verify(&es, why))
			continue;
		super_decode(&fs, &es);
		assert_true(fs.blocks_count << fs.block_bits <= DEV_BYTES);
		assert_true(fs.group_count > 0 && fs.descs_per_block > 0 && fs.inode_table_blocks > 0);
		assert_true((uint64_t)fs.group_count * fs.inodes_per_group == fs.inodes_count);
		assert_true(fs.inode_bytes <= fs.block_bytes);
	}
}

static void features_have_the_names_of_e2fsprogs(void **state)
{
	char text[128];

	features_to_text(FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_ENCRYPT | EXT4_FEATURE_INCOMPAT_EXTENTS | 1u << 30, text,
			 sizeof(text));
	assert_string_equal(text, "extent,encrypt,FEATURE_I30");
	features_to_text(FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_QUOTA | 1u << 20, text, 9);
	assert_string_equal(text, "quota,FE");
	assert_int_equal(features_unsupported(FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_INLINE_DATA |
					      EXT4_FEATURE_INCOMPAT_FLEX_BG), EXT4_FEATURE_INCOMPAT_INLINE_DATA);
	assert_int_equal(features_unsupported(FEATURE_COMPAT, UINT32_MAX), 0);
}

static void options_set_what_they_say(void **state)
{
	struct ext4_options opt;
	char error[256];

	options_init(&opt);
	assert_int_equal(options_parse(&opt, "ro,noload,cache_size=64M,errors=remount-ro,data=journal,commit=30,noatime,"
				       "nobarrier,noacl,journal_path=/dev/x,offset=1048576,sb=32768,ablate=es-root,"
				       "ablate=folio-dirty:dax-overwrite,lazytime,stripe=16", error), 0);
	assert_true(opt.read_only && opt.noload && opt.noatime && !opt.relatime && !opt.barrier && !opt.acl);
	assert_int_equal(opt.cache_bytes, 64 << 20);
	assert_int_equal(opt.errors, ERRORS_REMOUNT_RO);
	assert_int_equal(opt.data, DATA_JOURNAL);
	assert_int_equal(opt.commit_interval_ms, 30000);
	assert_int_equal(opt.offset_bytes, 1048576);
	assert_int_equal(opt.sb_blk, 32768);
	assert_int_equal(opt.ablate, ABLATE_ES_ROOT | ABLATE_FOLIO_DIRTY | ABLATE_DAX_OVERWRITE);
	assert_string_equal(opt.journal_path, "/dev/x");
	options_exit(&opt);
}

static void a_bad_option_is_named(void **state)
{
	static const char *const bad[][2] = {
		{ "ro,frobnicate", "frobnicate" }, { "errors=explode", "explode" }, { "cache_size=12Q", "12Q" },
		{ "commit=9999999", "9999999" },   { "ro=1", "ro" },               { "partition=0", "partition" },
		{ "ablate=everything", "everything" }, { "commit", "commit" }, { "cache_size=-1", "-1" },
		{ "commit=4294968", "from 0 to 4294967" }, { "resuid=4294967295", "from 0 to 4294967294" },
		{ "cache_size=2T", "from 0 to 1099511627776" }, { "offset=8388608T", "from 0 to 9223372036854775807" },
		{ "sb=18014398509481985", "from 0 to 9007199254740991" }, /* times 1024 it wraps to 1024 */
		{ "max_batch_time=4294967296", "from 0 to 4294967295" }, { "partition=1025", "from 1 to 1024" },
		{ "stripe=", "stripe=: want" }, { "journal_ioprio=8", "from 0 to 7" }, { "lazytime=1", "no value" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ext4_options opt;
		char error[256];

		options_init(&opt);
		assert_int_equal(options_parse(&opt, bad[i][0], error), -EINVAL);
		assert_non_null(strstr(error, bad[i][1]));
		options_exit(&opt);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sound_superblock_is_accepted),
		cmocka_unit_test(a_wrong_magic_is_no_file_system),
		cmocka_unit_test(a_wrong_checksum_is_told_from_corruption),
		cmocka_unit_test(a_truncated_image_is_named_with_both_sizes),
		cmocka_unit_test(each_field_out_of_range_is_refused),
		cmocka_unit_test(random_superblocks_never_pass_with_impossible_geometry),
		cmocka_unit_test(features_have_the_names_of_e2fsprogs),
		cmocka_unit_test(options_set_what_they_say),
		cmocka_unit_test(a_bad_option_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
