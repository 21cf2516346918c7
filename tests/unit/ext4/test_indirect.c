/* SPDX-License-Identifier: MIT */
/* test_indirect.c - block maps up to three levels of pointers, checked by e2fsck */
#include "file_env.h"

#include <linux/falloc.h>

#include "ext4/balloc.h"
#include "ext4/map_private.h"

#define PTRS 256u /* per 1 KiB block */

/* Around each place where a level begins. */
static const uint64_t edges[] = { 0, 11, 12, 12 + PTRS - 1, 12 + PTRS, 12 + PTRS + PTRS - 1,
				  12 + PTRS + PTRS * PTRS - 1, 12 + PTRS + PTRS * PTRS,
				  12 + PTRS + PTRS * PTRS + 5 * PTRS * PTRS + 77,
				  12 + PTRS + PTRS * PTRS + PTRS * PTRS * PTRS - 1 };

static void write_edges(struct inode *inode)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(edges); i++)
		file_put_pattern(inode, edges[i] * 1024, 1024, (unsigned)i);
	assert_int_equal(file_fsync(inode, false), 0);
}

static void check_edges(struct inode *inode, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		assert_pattern(inode, edges[i] * 1024, 1024, (unsigned)i);
	assert_zeros(inode, 1024, 10 * 1024);
	assert_zeros(inode, (edges[4] + 1) * 1024, 100 * 1024);
}

static void sparse_files_reach_every_level(const char *mke2fs)
{
	struct image_env env = { 0 };
	uint64_t before, size;
	struct inode *inode;
	uint8_t byte = 1;
	size_t i;

	image_create(&env, mke2fs, 32);
	inode = image_mkfile(env.root, "sparse");
	before = balloc_free_count(env.fs);
	write_edges(inode);
	inode = file_reload(&env, inode);
	check_edges(inode, ARRAY_SIZE(edges));
	size = inode_size(inode);
	assert_int_equal(size, (edges[9] + 1) * 1024);
	assert_int_equal(file_put(inode, size, &byte, 1, 0), -EFBIG);
	image_put(inode);
	image_recheck(&env);
	inode = image_lookup(&env, env.root, "sparse");
	check_edges(inode, ARRAY_SIZE(edges));
	/* Shrinks level by level. */
	for (i = ARRAY_SIZE(edges) - 1; i > 5; i--) {
		assert_int_equal(file_resize(inode, edges[i] * 1024), 0);
		inode = file_reload(&env, inode);
		check_edges(inode, i);
	}
	image_put(inode);
	image_recheck(&env);
	inode = image_lookup(&env, env.root, "sparse");
	assert_int_equal(file_resize(inode, 0), 0);
	assert_int_equal(inode->blocks_512, 0);
	image_put(inode);
	image_recheck(&env);
	assert_int_equal(balloc_free_count(env.fs), before);
	image_destroy(&env);
}

static void ext3_sparse_files_reach_every_level(void **state)
{
	(void)state;
	sparse_files_reach_every_level("-t ext3 -b 1024");
}

static void ext2_sparse_files_reach_every_level(void **state)
{
	(void)state;
	sparse_files_reach_every_level("-t ext2 -b 1024");
}

static void holes_are_punched_at_every_level(void **state)
{
	struct image_env env = { 0 };
	int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	struct inode *inode;
	uint64_t size = 3000 * 1024;

	(void)state;
	image_create(&env, "-t ext3 -b 1024", 32);
	inode = image_mkfile(env.root, "holes");
	file_put_pattern(inode, 0, size, 1);
	assert_int_equal(file_flush(inode), 0);
	assert_int_equal(file_fallocate(inode, punch, 5 * 1024, 300 * 1024), 0);
	assert_int_equal(file_fallocate(inode, punch, 1000 * 1024 + 5, 1024 * 1024), 0);
	assert_int_equal(file_fallocate(inode, punch, 2999 * 1024, 5000), 0);
	image_put(inode);
	image_recheck(&env);
	inode = image_lookup(&env, env.root, "holes");
	assert_pattern(inode, 0, 5 * 1024, 1);
	assert_zeros(inode, 5 * 1024, 300 * 1024);
	assert_pattern(inode, 305 * 1024, 695 * 1024 + 5, 1);
	assert_zeros(inode, 1000 * 1024 + 5, 1024 * 1024);
	assert_pattern(inode, 2024 * 1024 + 5, 975 * 1024 - 5, 1);
	assert_zeros(inode, 2999 * 1024, 1024);
	file_put_pattern(inode, 0, size, 2);
	assert_int_equal(file_fsync(inode, true), 0);
	inode = file_reload(&env, inode);
	assert_pattern(inode, 0, size, 2);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

/* A run of blocks is one answer, and one entry of the extent status. */
static void lookups_find_runs(void **state)
{
	struct image_env env = { 0 };
	struct map_result r;
	struct inode *inode;

	(void)state;
	image_create(&env, "-t ext3 -b 1024", 32);
	inode = image_mkfile(env.root, "run");
	file_put_pattern(inode, 0, 200 * 1024, 1);
	assert_int_equal(file_flush(inode), 0);
	inode = file_reload(&env, inode);
	assert_int_equal(map_lookup(inode, 100, 1000, &r), 0);
	assert_int_equal(r.status, ES_WRITTEN);
	assert_true(r.es_len > 50);
	assert_int_equal(map_lookup(inode, 12 + PTRS + 5 * PTRS + 3, UINT32_MAX, &r), 0);
	assert_int_equal(r.status, ES_HOLE);
	assert_true(r.es_len >= PTRS);
	assert_int_equal(map_lookup(inode, UINT32_MAX - 1, 1, &r), 0);
	assert_int_equal(r.status, ES_HOLE);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

static void a_pointer_out_of_range_is_an_error(void **state)
{
	struct image_env env = { 0 };
	struct map_result r;
	struct inode *inode;

	(void)state;
	image_create(&env, "-t ext3 -b 1024", 16);
	inode = image_mkfile(env.root, "bad");
	file_put_pattern(inode, 0, 20 * 1024, 1);
	assert_int_equal(file_fsync(inode, false), 0);
	es_remove(inode, 0, UINT32_MAX);
	inode->i_block[3] = le32_make(1 << 30);
	inode->i_block[12] = inode->i_block[0]; /* a pattern: no pointers */
	inode->i_block[13] = le32_make(1); /* the superblock */
	assert_int_equal(map_lookup(inode, 3, 1, &r), -EUCLEAN);
	assert_int_equal(map_lookup(inode, 12, 1, &r), -EUCLEAN);
	assert_int_equal(map_lookup(inode, 12, 1, &r), -EUCLEAN);
	assert_int_equal(map_lookup(inode, 12 + PTRS, 1, &r), -EUCLEAN);
	assert_int_equal(map_lookup(inode, 2, 1, &r), 0);
	image_put(inode);
	image_put(env.root);
	ext4_unmount(env.fs);
	env.fs = NULL;
	image_destroy(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ext3_sparse_files_reach_every_level),
		cmocka_unit_test(ext2_sparse_files_reach_every_level),
		cmocka_unit_test(holes_are_punched_at_every_level),
		cmocka_unit_test(lookups_find_runs),
		cmocka_unit_test(a_pointer_out_of_range_is_an_error),
	};

	if (!image_tools_exist())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
