/* SPDX-License-Identifier: MIT */
/* test_extent.c - extent trees of every shape, checked by e2fsck */
#include "file_env.h"

#include <linux/falloc.h>

#include "ext4/balloc.h"
#include "ext4/extent_private.h"

/* Writes every second block, in one order or another, then fills the gaps. */
static void alternate(struct image_env *env, uint32_t blks, bool backwards, unsigned min_depth)
{
	uint32_t bs = env->fs->block_bytes, i;
	struct inode *inode = image_mkfile(env->root, "alternate");

	for (i = 0; i < blks; i++) {
		uint32_t at = backwards ? blks - 1 - i : i;

		file_put_pattern(inode, (uint64_t)at * 2 * bs, bs, 1);
		if (i % 128 == 127)
			assert_int_equal(file_flush(inode), 0);
	}
	assert_int_equal(file_flush(inode), 0);
	assert_true(extent_count(inode) > blks / 2);
	assert_true(ext_depth(inode) >= min_depth);
	inode = file_reload(env, inode);
	for (i = 0; i < blks; i++) {
		assert_pattern(inode, (uint64_t)i * 2 * bs, bs, 1);
		if (i + 1 < blks)
			assert_zeros(inode, (uint64_t)i * 2 * bs + bs, bs);
	}
	image_put(inode);
	image_recheck(env);
	inode = image_lookup(env, env->root, "alternate");
	for (i = 0; i + 1 < blks; i++)
		file_put_pattern(inode, (uint64_t)i * 2 * bs + bs, bs, 2);
	assert_int_equal(file_fsync(inode, false), 0);
	inode = file_reload(env, inode);
	for (i = 0; i < blks; i++)
		assert_pattern(inode, (uint64_t)i * 2 * bs, bs, 1);
	for (i = 0; i + 1 < blks; i++)
		assert_pattern(inode, (uint64_t)i * 2 * bs + bs, bs, 2);
	image_put(inode);
	image_recheck(env);
}

static void alternate_blocks_forwards(void **state)
{
	struct image_env env = { 0 };

	(void)state;
	image_create(&env, "-t ext4 -b 4096", 64);
	alternate(&env, 1500, false, 1);
	image_destroy(&env);
}

static void alternate_blocks_backwards(void **state)
{
	struct image_env env = { 0 };

	(void)state;
	image_create(&env, "-t ext4 -b 4096", 64);
	alternate(&env, 1500, true, 1);
	image_destroy(&env);
}

/* 84 extents a block: two levels of indexes. */
static void small_blocks_make_deep_trees(void **state)
{
	struct image_env env = { 0 };

	(void)state;
	image_create(&env, "-t ext4 -b 1024", 64);
	alternate(&env, 4000, false, 2);
	image_destroy(&env);
}

static void truncating_a_deep_tree_gives_all_blocks_back(void **state)
{
	struct image_env env = { 0 };
	struct inode *inode;
	uint64_t free_before;
	uint32_t i;

	(void)state;
	image_create(&env, "-t ext4 -b 1024 -O ^metadata_csum,^64bit", 64);
	inode = image_mkfile(env.root, "deep");
	free_before = balloc_free_count(env.fs);
	for (i = 0; i < 3000; i++)
		file_put_pattern(inode, (uint64_t)i * 2048, 1024, 3);
	assert_int_equal(file_fsync(inode, false), 0);
	assert_true(ext_depth(inode) >= 2);
	assert_int_equal(file_resize(inode, 1000 * 2048 + 10), 0);
	image_put(inode);
	image_recheck(&env);
	inode = image_lookup(&env, env.root, "deep");
	assert_pattern(inode, 999 * 2048, 1024, 3);
	assert_pattern(inode, 1000 * 2048, 10, 3);
	assert_int_equal(file_resize(inode, 0), 0);
	assert_int_equal(ext_depth(inode), 0);
	assert_int_equal(inode->blocks_512, 0);
	image_put(inode);
	image_recheck(&env);
	assert_int_equal(balloc_free_count(env.fs), free_before);
	image_destroy(&env);
}

static void punching_every_second_block_splits(void **state)
{
	struct image_env env = { 0 };
	struct inode *inode;
	uint32_t i;

	(void)state;
	image_create(&env, "-t ext4 -b 1024", 32);
	inode = image_mkfile(env.root, "sieve");
	file_put_pattern(inode, 0, 2000 * 1024, 4);
	assert_int_equal(file_flush(inode), 0);
	for (i = 1; i < 2000; i += 2)
		assert_int_equal(file_fallocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, i * 1024, 1024), 0);
	assert_int_equal(extent_count(inode), 1000);
	image_put(inode);
	image_recheck(&env);
	inode = image_lookup(&env, env.root, "sieve");
	for (i = 0; i < 2000; i += 2) {
		assert_pattern(inode, i * 1024, 1024, 4);
		assert_zeros(inode, i * 1024 + 1024, 1024);
	}
	/* From the left and from the right until nothing is left. */
	assert_int_equal(file_fallocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1000 * 1024), 0);
	image_put(inode);
	image_recheck(&env);
	inode = image_lookup(&env, env.root, "sieve");
	assert_int_equal(extent_count(inode), 500);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2000 * 1024), 0);
	assert_int_equal(inode->blocks_512, 0);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

/* ES: one lookup of any block makes all blocks of its extent hits, in the root too. */
static void a_lookup_caches_the_whole_extent(void **state)
{
	struct image_env env = { 0 };
	struct inode *inode;
	struct map_result r;
	uint64_t misses;
	uint32_t i;

	(void)state;
	image_create(&env, "-t ext4 -b 4096", 64);
	inode = image_mkfile(env.root, "whole");
	file_put_pattern(inode, 0, 4096 * 1000, 5);
	assert_int_equal(file_flush(inode), 0);
	inode = file_reload(&env, inode);
	assert_int_equal(ext_depth(inode), 0);
	misses = counter_read(env.fs->counters, CNT_ES_MISSES);
	for (i = 0; i < 1000; i++)
		assert_int_equal(map_lookup(inode, i * 7 % 1000, 1, &r), 0);
	assert_true(counter_read(env.fs->counters, CNT_ES_MISSES) - misses <= extent_count(inode));
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

/* Lengths at the limits of both kinds of extents, which differ by one. */
static void extents_longer_than_one_entry_holds(void **state)
{
	struct image_env env = { 0 };
	struct inode *inode;

	(void)state;
	image_create(&env, "-t ext4 -b 1024 -O flex_bg", 160);
	inode = image_mkfile(env.root, "long");
	assert_int_equal(file_fallocate(inode, 0, 0, 100000 * UINT64_C(1024)), 0);
	image_put(inode);
	image_recheck(&env);
	inode = image_lookup(&env, env.root, "long");
	file_put_pattern(inode, 0, 70000 * 1024, 6);
	assert_int_equal(file_flush(inode), 0);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_ZERO_RANGE, 1024, 65000 * UINT64_C(1024)), 0);
	assert_pattern(inode, 0, 1024, 6);
	assert_zeros(inode, 1024, 65000 * 1024);
	assert_pattern(inode, 65001 * 1024, 4999 * 1024, 6);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

/* ---- corrupt trees ---- */

static void corrupt_and_read(const char *what, size_t off, uint8_t value, int want)
{
	struct image_env env = { 0 };
	struct buffer_head *bh;
	struct ext_path path;
	struct inode *inode;
	struct map_result r;
	uint32_t i;

	image_create(&env, "-t ext4 -b 1024 -O ^metadata_csum", 16);
	inode = image_mkfile(env.root, "bad");
	for (i = 0; i < 200; i++)
		file_put_pattern(inode, i * 2048, 1024, 7);
	assert_int_equal(file_fsync(inode, false), 0);
	rwsem_read_lock(&inode->map_sem);
	assert_int_equal(ext_path_find(inode, 0, &path), 0);
	assert_int_equal(path.depth, 1);
	bh = path.level[1].bh;
	buffer_lock(bh);
	bh->data[off] = value;
	buffer_clear(bh, BH_VERIFIED);
	buffer_unlock(bh);
	ext_path_put(&path);
	rwsem_read_unlock(&inode->map_sem);
	es_remove(inode, 0, LBLK_END);
	if (map_lookup(inode, 5, 1, &r) != want)
		fail_msg("%s is not found out", what);
	assert_true(env.errors > 0);
	/* The image is beyond repair by us: nothing more is asked of it. */
	image_put(inode);
	image_put(env.root);
	ext4_unmount(env.fs);
	env.fs = NULL;
	image_destroy(&env);
}

static void corrupt_nodes_are_errors(void **state)
{
	(void)state;
	corrupt_and_read("magic", 0, 0, -EUCLEAN);
	corrupt_and_read("entry count", 3, 0xff, -EUCLEAN);
	corrupt_and_read("no entries", 2, 0, -EUCLEAN);
	corrupt_and_read("room", 5, 0xff, -EUCLEAN);
	corrupt_and_read("depth", 6, 1, -EUCLEAN);
	corrupt_and_read("length 0", 12 + 4, 0, -EUCLEAN);
	corrupt_and_read("overlap", 12 + 4, 9, -EUCLEAN);
	corrupt_and_read("order", 12 + 3, 0x7f, -EUCLEAN);
	corrupt_and_read("block number", 12 + 11, 0x7f, -EUCLEAN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alternate_blocks_forwards),
		cmocka_unit_test(alternate_blocks_backwards),
		cmocka_unit_test(small_blocks_make_deep_trees),
		cmocka_unit_test(truncating_a_deep_tree_gives_all_blocks_back),
		cmocka_unit_test(punching_every_second_block_splits),
		cmocka_unit_test(a_lookup_caches_the_whole_extent),
		cmocka_unit_test(extents_longer_than_one_entry_holds),
		cmocka_unit_test(corrupt_nodes_are_errors),
	};

	if (!image_tools_exist())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
