/* SPDX-License-Identifier: MIT */
/* test_inode_raw.c - what is packed into a raw inode comes back, at every inode size */
#include <setjmp.h>
#include <stdarg.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "ext4/inode_private.h"

/* A file system of which only the geometry exists: packing touches nothing else. */
struct env {
	struct ext4_fs fs;
	struct inode in, out;
	union {
		struct ext4_inode raw;
		uint8_t bytes[1024];
	} slot;
};

static struct env *env_make(uint32_t inode_bytes)
{
	struct env *env = calloc(1, sizeof(*env));

	assert_non_null(env);
	env->fs.block_bytes = 4096;
	env->fs.block_bits = 12;
	env->fs.inode_bytes = inode_bytes;
	env->fs.has_metadata_csum = true;
	env->fs.csum_seed = 0x12345678;
	env->fs.incompat = EXT4_FEATURE_INCOMPAT_64BIT | EXT4_FEATURE_INCOMPAT_EXTENTS;
	env->fs.ro_compat = EXT4_FEATURE_RO_COMPAT_HUGE_FILE | EXT4_FEATURE_RO_COMPAT_PROJECT;
	env->in.fs = env->out.fs = &env->fs;
	env->in.ino = env->out.ino = 77;
	env->in.mode = S_IFREG | 0640;
	env->in.extra_isize = inode_bytes > 128 ? 32 : 0;
	return env;
}

static void round_trip(struct env *env)
{
	assert_int_equal(inode_raw_pack(&env->in, &env->slot.raw), 0);
	inode_raw_csum_set(&env->in, &env->slot.raw);
	assert_null(inode_raw_verify(&env->fs, &env->slot.raw));
	inode_raw_unpack(&env->out, &env->slot.raw);
	assert_true(inode_raw_csum_is_right(&env->out, &env->slot.raw));
}

static const uint32_t sizes[] = { 128, 256, 512, 1024 };

static void all_fields_come_back(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct env *env = env_make(sizes[i]);
		struct inode *in = &env->in, *out = &env->out;

		in->uid = 100000;
		in->gid = 200000;
		in->projid = sizes[i] > 128 ? 4242 : 0;
		in->nlink = 3;
		in->flags = EXT4_EXTENTS_FL | EXT4_NOATIME_FL;
		in->generation = 0xCAFEF00D;
		in->disksize_bytes = (UINT64_C(5) << 32) + 17;
		in->blocks_512 = UINT64_C(0x123456789A);
		in->file_acl = UINT64_C(0x123456789A);
		in->iversion = sizes[i] > 128 ? UINT64_C(0x1122334455667788) : 0x55667788;
		atomic_store(&in->dtime, 99);
		memset(in->i_block, 0x5A, sizeof(in->i_block));
		round_trip(env);
		assert_int_equal(out->mode, in->mode);
		assert_int_equal(out->uid, in->uid);
		assert_int_equal(out->gid, in->gid);
		assert_int_equal(out->projid, in->projid);
		assert_int_equal(out->nlink, in->nlink);
		assert_int_equal(out->flags, in->flags);
		assert_int_equal(out->generation, in->generation);
		assert_int_equal(out->disksize_bytes, in->disksize_bytes);
		assert_int_equal(inode_size(out), in->disksize_bytes);
		assert_int_equal(out->blocks_512, in->blocks_512);
		assert_int_equal(out->file_acl, in->file_acl);
		assert_int_equal(out->iversion, in->iversion);
		assert_int_equal(atomic_load(&out->dtime), 99);
		assert_int_equal(out->extra_isize, in->extra_isize);
		assert_memory_equal(out->i_block, in->i_block, sizeof(in->i_block));
		free(env);
	}
}

/* Seconds that need each value of the epoch bits, and both sides of 0. */
static const int64_t moments[] = {
	-2147483648, -1, 0, 1, 2147483647, 2147483648, 2147558400, 4294967295, 4294967296, 6442450943, 6442450944,
	10737418239, 10737418240, 15032385535,
};

static void times_from_1901_to_2446_keep_their_nanoseconds(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(moments); i++) {
		struct env *env = env_make(256);
		struct timespec t = { .tv_sec = moments[i], .tv_nsec = 999999999 - (long)i };

		assert_int_equal(inode_clamp_time(&env->in, t).tv_sec, t.tv_sec);
		env->in.atime = env->in.mtime = env->in.ctime = env->in.crtime = t;
		round_trip(env);
		assert_int_equal(env->out.atime.tv_sec, t.tv_sec);
		assert_int_equal(env->out.mtime.tv_sec, t.tv_sec);
		assert_int_equal(env->out.ctime.tv_sec, t.tv_sec);
		assert_int_equal(env->out.crtime.tv_sec, t.tv_sec);
		assert_int_equal(env->out.mtime.tv_nsec, t.tv_nsec);
		free(env);
	}
}

static void times_outside_are_clamped_to_what_the_inode_holds(void **state)
{
	struct env *small = env_make(128), *large = env_make(256);
	struct timespec late = { .tv_sec = INT64_C(1) << 40, .tv_nsec = 5 }, early = { .tv_sec = -(INT64_C(1) << 40) };

	assert_int_equal(inode_clamp_time(&small->in, late).tv_sec, INT32_MAX);
	assert_int_equal(inode_clamp_time(&small->in, early).tv_sec, INT32_MIN);
	assert_int_equal(inode_clamp_time(&small->in, (struct timespec){ 5, 6 }).tv_nsec, 0);
	assert_int_equal(inode_clamp_time(&large->in, late).tv_sec, 15032385535);
	assert_int_equal(inode_clamp_time(&large->in, early).tv_sec, INT32_MIN);
	free(small);
	free(large);
}

static void device_numbers_use_the_old_form_where_they_fit(void **state)
{
	static const struct { unsigned major, minor; bool old; } devices[] = {
		{ 1, 3, true }, { 255, 255, true }, { 256, 0, false }, { 8, 256, false }, { 4095, 1048575, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		struct env *env = env_make(256);

		env->in.mode = S_IFBLK | 0600;
		env->in.rdev = makedev(devices[i].major, devices[i].minor);
		round_trip(env);
		assert_int_equal(env->out.rdev, env->in.rdev);
		assert_int_equal(le32_get(env->slot.raw.i_block[0]) != 0, devices[i].old);
		free(env);
	}
}

static void huge_files_count_in_blocks(void **state)
{
	struct env *env = env_make(256);

	env->in.blocks_512 = UINT64_C(1) << 48;
	round_trip(env);
	assert_true(le32_get(env->slot.raw.i_flags) & EXT4_HUGE_FILE_FL);
	assert_int_equal(env->out.blocks_512, env->in.blocks_512);
	env->fs.ro_compat &= ~EXT4_FEATURE_RO_COMPAT_HUGE_FILE;
	assert_int_equal(inode_raw_pack(&env->in, &env->slot.raw), -EFBIG);
	free(env);
}

static void any_changed_byte_breaks_the_checksum(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct env *env = env_make(sizes[i]);

		round_trip(env);
		for (uint32_t byte = 0; byte < sizes[i]; byte++) {
			/* The high half of the checksum is no part of it; extra_isize decides whether there is one. */
			if (byte >= offsetof(struct ext4_inode, i_extra_isize) && byte < 132 && sizes[i] > 128)
				continue;
			env->slot.bytes[byte] ^= 0x10;
			assert_false(inode_raw_csum_is_right(&env->out, &env->slot.raw));
			env->slot.bytes[byte] ^= 0x10;
		}
		free(env);
	}
}

static void bytes_past_the_known_fields_are_left_alone(void **state)
{
	struct env *env = env_make(512);

	memset(env->slot.bytes, 0xEE, sizeof(env->slot.bytes));
	env->in.extra_isize = 40; /* a newer version's fields */
	assert_int_equal(inode_raw_pack(&env->in, &env->slot.raw), 0);
	for (uint32_t byte = sizeof(struct ext4_inode); byte < 512; byte++)
		assert_int_equal(env->slot.bytes[byte], 0xEE);
	free(env);
}

static void extra_isize_outside_the_inode_is_refused(void **state)
{
	struct env *env = env_make(256);

	env->slot.raw.i_extra_isize = le16_make(132);
	assert_non_null(inode_raw_verify(&env->fs, &env->slot.raw));
	env->slot.raw.i_extra_isize = le16_make(30);
	assert_non_null(inode_raw_verify(&env->fs, &env->slot.raw));
	env->slot.raw.i_extra_isize = le16_make(128);
	assert_null(inode_raw_verify(&env->fs, &env->slot.raw));
	free(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_fields_come_back),
		cmocka_unit_test(times_from_1901_to_2446_keep_their_nanoseconds),
		cmocka_unit_test(times_outside_are_clamped_to_what_the_inode_holds),
		cmocka_unit_test(device_numbers_use_the_old_form_where_they_fit),
		cmocka_unit_test(huge_files_count_in_blocks),
		cmocka_unit_test(any_changed_byte_breaks_the_checksum),
		cmocka_unit_test(bytes_past_the_known_fields_are_left_alone),
		cmocka_unit_test(extra_isize_outside_the_inode_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
