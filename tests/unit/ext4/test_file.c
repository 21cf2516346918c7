/* SPDX-License-Identifier: MIT */
/* test_file.c - reads, writes, sizes, fallocate, seek and fiemap, checked by e2fsck */
#include "file_env.h"

#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <unistd.h>

#include "ext4/balloc.h"
#include "ext4/file_private.h"

static struct image_env env;
static const char *const kinds[] = { "-t ext4 -b 4096", "-t ext4 -b 1024", "-t ext4 -b 2048 -O ^has_journal",
				     "-t ext3 -b 1024", "-t ext2 -b 4096" };

/* The test runs on each kind of image. */
static void on_each(void (*test)(struct inode *inode))
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct inode *inode;

		memset(&env, 0, sizeof(env));
		image_create(&env, kinds[i], 48);
		inode = image_mkfile(env.root, "file");
		test(inode);
		image_put(inode);
		image_check(&env);
		image_destroy(&env);
	}
}

static void check_written(struct inode *inode)
{
	file_put_pattern(inode, 0, 3000000, 1);
	file_put_pattern(inode, 5000, 100, 2);
	assert_int_equal(inode_size(inode), 3000000);
	assert_pattern(inode, 0, 5000, 1);
	assert_pattern(inode, 5000, 100, 2);
	assert_pattern(inode, 5100, 2994900, 1);
	assert_int_equal(file_fsync(inode, false), 0);
	assert_int_equal(inode->disksize_bytes, 3000000);
	assert_int_equal(inode->reserved_blocks, 0);
	assert_int_equal(counter_read(env.fs->counters, CNT_JOURNAL_DATA_PAGES_BY_COMMIT), 0);
}

static void what_was_written_reads_back(void **state)
{
	(void)state;
	on_each(check_written);
}

static void data_survives_a_new_mount(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct inode *inode;

		memset(&env, 0, sizeof(env));
		image_create(&env, kinds[i], 48);
		inode = image_mkfile(env.root, "file");
		file_put_pattern(inode, 100, 1000000, 1);
		image_put(inode);
		image_recheck(&env);
		inode = image_lookup(&env, env.root, "file");
		assert_int_equal(inode_size(inode), 1000100);
		assert_zeros(inode, 0, 100);
		assert_pattern(inode, 100, 1000000, 1);
		image_put(inode);
		image_check(&env);
		image_destroy(&env);
	}
}

static ssize_t put_uncached(struct inode *inode, uint64_t pos, size_t len, unsigned tag)
{
	uint8_t *buf = aligned_alloc(4096, len);
	ssize_t n;

	assert_non_null(buf);
	pattern_fill(buf, pos, len, tag);
	n = file_put(inode, pos, buf, len, FILE_WRITE_UNCACHED);
	free(buf);
	return n;
}

static void assert_uncached_read(struct inode *inode, uint64_t pos, size_t len, unsigned tag)
{
	uint8_t *want = malloc(len), *got = aligned_alloc(4096, len);
	struct iovec iov = { got, len };
	struct iov_cursor to = { .iov = &iov, .iov_count = 1, .left_bytes = len };

	assert_non_null(want);
	assert_non_null(got);
	pattern_fill(want, pos, len, tag);
	assert_int_equal(file_read(inode, pos, &to, FILE_READ_UNCACHED), len);
	assert_memory_equal(got, want, len);
	free(want);
	free(got);
}

#define UNCACHED_BYTES (1u << 20)

/* Over holes, dirty folios, unwritten and written blocks; what is cached and what is not tells the same. */
static void check_uncached(struct inode *inode)
{
	bool extents = inode_has_extents(inode);

	file_put_pattern(inode, 0, 100000, 1);
	assert_int_equal(put_uncached(inode, 1 << 20, UNCACHED_BYTES, 2), UNCACHED_BYTES);
	assert_int_equal(inode_size(inode), 2 << 20);
	if (extents) {
		assert_int_equal(inode->disksize_bytes, 2 << 20);
		assert_int_equal(cache_dirty_bytes(env.fs->cache), 0);
	}
	assert_uncached_read(inode, 0, 98304, 1);
	assert_uncached_read(inode, 1 << 20, UNCACHED_BYTES, 2);
	assert_zeros(inode, 100000, (1 << 20) - 100000);

	file_put_pattern(inode, (1 << 20) + 5000, 300000, 3); /* dirty, and then written over */
	assert_uncached_read(inode, (1 << 20) + 8192, 262144, 3);
	assert_int_equal(put_uncached(inode, 1 << 20, 262144, 4), 262144);
	assert_pattern(inode, 1 << 20, 262144, 4);
	assert_pattern(inode, (1 << 20) + 262144, 305000 - 262144, 3);
	assert_pattern(inode, (1 << 20) + 305000, UNCACHED_BYTES - 305000, 2);
	if (extents) {
		assert_int_equal(file_fallocate(inode, FALLOC_FL_KEEP_SIZE, 4 << 20, 4 << 20), 0);
		assert_int_equal(put_uncached(inode, 5 << 20, UNCACHED_BYTES, 5), UNCACHED_BYTES);
		assert_zeros(inode, 4 << 20, 1 << 20);
	}
	assert_int_equal(file_fsync(inode, false), 0);
	assert_int_equal(inode->reserved_blocks, 0);
	inode = file_reload(&env, inode);
	assert_pattern(inode, 1 << 20, 262144, 4);
	assert_pattern(inode, (1 << 20) + 305000, UNCACHED_BYTES - 305000, 2);
	if (extents)
		assert_uncached_read(inode, 5 << 20, UNCACHED_BYTES, 5);
	image_put(inode);
}

static void uncached_reads_and_writes_agree_with_the_cache(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		memset(&env, 0, sizeof(env));
		image_create(&env, kinds[i], 48);
		check_uncached(image_mkfile(env.root, "file"));
		image_check(&env);
		image_destroy(&env);
	}
}

static void check_append(struct inode *inode)
{
	uint64_t pos = 0, at;
	uint8_t buf[777];
	unsigned i;

	for (i = 0; i < 300; i++) {
		struct iovec iov = { buf, sizeof(buf) };
		struct iov_cursor from = { .iov = &iov, .iov_count = 1, .left_bytes = sizeof(buf) };

		pattern_fill(buf, pos, sizeof(buf), 3);
		assert_int_equal(file_write(inode, 0, &from, FILE_WRITE_APPEND | (i % 50 ? 0 : FILE_WRITE_SYNC), &at),
				 sizeof(buf));
		assert_int_equal(at, pos);
		pos += sizeof(buf);
		if (i % 50 == 0)
			assert_int_equal(inode->disksize_bytes, pos);
	}
	assert_pattern(inode, 0, pos, 3);
}

static void appends_go_to_the_end(void **state)
{
	(void)state;
	on_each(check_append);
}

static void check_truncate(struct inode *inode)
{
	file_put_pattern(inode, 0, 100000, 4);
	assert_int_equal(file_flush(inode), 0);
	assert_int_equal(file_resize(inode, 5001), 0);
	assert_int_equal(inode_size(inode), 5001);
	assert_int_equal(inode->disksize_bytes, 5001);
	assert_int_equal(file_resize(inode, 200000), 0);
	assert_int_equal(inode->disksize_bytes, 200000);
	assert_pattern(inode, 0, 5001, 4);
	assert_zeros(inode, 5001, 194999);
	/* Never written: the delayed blocks go with their reservation. */
	file_put_pattern(inode, 100000, 100000, 5);
	assert_true(inode->reserved_blocks > 0);
	assert_int_equal(file_resize(inode, 100), 0);
	assert_int_equal(inode->reserved_blocks, 0);
	assert_int_equal(file_resize(inode, 0), 0);
	assert_int_equal(inode->blocks_512, 0);
	assert_int_equal(file_resize(inode, file_max_bytes(inode) + 1), -EFBIG);
	assert_false(inode_test(inode, INODE_ORPHAN));
}

static void truncate_shrinks_and_grows(void **state)
{
	(void)state;
	on_each(check_truncate);
}

/* Old bytes of the tail block never show again, whoever reads the disk. */
static void check_tail_on_disk(struct inode *inode)
{
	uint32_t bs = inode->fs->block_bytes;
	struct map_result r;
	uint8_t *raw = malloc(bs);
	uint32_t i;

	file_put_pattern(inode, 0, bs * 3, 6);
	assert_int_equal(file_fsync(inode, false), 0);
	assert_int_equal(file_resize(inode, bs + 100), 0);
	assert_int_equal(map_lookup(inode, 1, 1, &r), 0);
	assert_int_equal(r.status, ES_WRITTEN);
	assert_int_equal(block_read(inode->fs->dev, r.blk * bs, raw, bs), 0);
	for (i = 100; i < bs; i++)
		assert_int_equal(raw[i], 0);
	file_put_pattern(inode, bs * 2, 10, 6);
	assert_zeros(inode, bs + 100, bs - 100);
	free(raw);
}

static void the_cut_tail_is_zero_on_disk(void **state)
{
	(void)state;
	on_each(check_tail_on_disk);
}

/*
 * Goal:   a sync of all takes the size along, also where it has become the end of a hole and no I/O completes there.
 * Method: dirty data past the size on disk is punched, zeroed or cut away again.
 */
static void check_size_in_hole(struct inode *inode)
{
	int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	file_put_pattern(inode, 0, 1000, 8);
	file_put_pattern(inode, 50000, 20000, 8);
	assert_int_equal(file_fallocate(inode, punch, 40960, 100000), 0);
	assert_int_equal(ext4_sync(inode->fs), 0);
	assert_int_equal(inode->disksize_bytes, 70000);
	file_put_pattern(inode, 100000, 20000, 8);
	assert_int_equal(file_resize(inode, 90000), 0);
	assert_int_equal(ext4_sync(inode->fs), 0);
	assert_int_equal(inode->disksize_bytes, 90000);
	if (!inode_has_extents(inode))
		return;
	file_put_pattern(inode, 100000, 20000, 8);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_ZERO_RANGE, 90000, 30000), 0);
	assert_int_equal(ext4_sync(inode->fs), 0);
	assert_int_equal(inode->disksize_bytes, 120000);
}

static void the_size_on_disk_follows_into_holes(void **state)
{
	(void)state;
	on_each(check_size_in_hole);
}

static void check_fallocate(struct inode *inode)
{
	int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	file_put_pattern(inode, 0, 300000, 7);
	assert_int_equal(file_fallocate(inode, punch, 10001, 50000), 0);
	assert_int_equal(inode_size(inode), 300000);
	assert_pattern(inode, 0, 10001, 7);
	assert_zeros(inode, 10001, 50000);
	assert_pattern(inode, 60001, 239999, 7);
	assert_int_equal(file_flush(inode), 0);
	assert_int_equal(file_fallocate(inode, punch, 100001, 1000), 0);
	assert_int_equal(file_fallocate(inode, punch, 200001, 99999), 0);
	assert_zeros(inode, 200001, 99999);
	assert_pattern(inode, 101001, 99000, 7);
	assert_int_equal(file_fallocate(inode, punch, 400000, 1000), 0);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_PUNCH_HOLE, 0, 1), -EOPNOTSUPP);
	assert_int_equal(file_fallocate(inode, 0, 0, 0), -EINVAL);
	if (!inode_has_extents(inode)) {
		assert_int_equal(file_fallocate(inode, 0, 0, 1), -EOPNOTSUPP);
		assert_int_equal(file_fallocate(inode, FALLOC_FL_ZERO_RANGE, 0, 1), -EOPNOTSUPP);
		return;
	}
	assert_int_equal(file_fallocate(inode, FALLOC_FL_KEEP_SIZE, 500000, 100000), 0);
	assert_int_equal(inode_size(inode), 300000);
	assert_int_equal(file_fallocate(inode, 0, 500000, 100000), 0);
	assert_int_equal(inode_size(inode), 600000);
	assert_zeros(inode, 300000, 300000);
	file_put_pattern(inode, 550000, 10, 7);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_ZERO_RANGE, 101001, 50000), 0);
	assert_zeros(inode, 101001, 50000);
	assert_pattern(inode, 151001, 49000, 7);
	assert_pattern(inode, 550000, 10, 7);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_COLLAPSE_RANGE, 1, 4096), -EINVAL);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_INSERT_RANGE, 0, 1), -EINVAL);
}

static void fallocate_modes(void **state)
{
	(void)state;
	on_each(check_fallocate);
}

static void check_seek(struct inode *inode)
{
	uint32_t bs = inode->fs->block_bytes;

	file_put_pattern(inode, bs * 10, bs, 8);
	assert_int_equal(file_seek(inode, 0, SEEK_DATA) >> 12, (bs * 10) >> 12);
	assert_int_equal(file_flush(inode), 0);
	file_put_pattern(inode, bs * 100, 1, 8);
	assert_int_equal(file_flush(inode), 0);
	assert_int_equal(file_seek(inode, 0, SEEK_DATA), bs * 10);
	assert_int_equal(file_seek(inode, bs * 10, SEEK_HOLE), bs * 11);
	assert_int_equal(file_seek(inode, bs * 11, SEEK_DATA), bs * 100);
	assert_int_equal(file_seek(inode, bs * 100, SEEK_HOLE), bs * 100 + 1);
	assert_int_equal(file_seek(inode, bs * 100 + 1, SEEK_DATA), -ENXIO);
}

static void seek_finds_data_and_holes(void **state)
{
	(void)state;
	on_each(check_seek);
}

static void check_fiemap(struct inode *inode)
{
	uint32_t bs = inode->fs->block_bytes, count;
	struct file_extent e[4];

	file_put_pattern(inode, 0, bs * 2, 9);
	assert_int_equal(file_fiemap(inode, 0, INT64_MAX, false, e, 4, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(e[0].len_bytes, bs * 2);
	assert_true(e[0].flags & FIEMAP_EXTENT_DELALLOC && e[0].flags & FIEMAP_EXTENT_LAST);
	file_put_pattern(inode, bs * 8, bs, 9);
	assert_int_equal(file_fiemap(inode, 0, INT64_MAX, true, e, 4, &count), 0);
	assert_int_equal(count, 2);
	assert_false(e[0].flags & FIEMAP_EXTENT_LAST);
	assert_true(e[1].flags & FIEMAP_EXTENT_LAST);
	assert_int_equal(e[1].logical_bytes, bs * 8);
	assert_int_equal(!!(e[0].flags & FIEMAP_EXTENT_MERGED), !inode_has_extents(inode));
	assert_int_equal(file_fiemap(inode, 0, INT64_MAX, true, e, 1, &count), 0);
	assert_int_equal(count, 1);
	assert_false(e[0].flags & FIEMAP_EXTENT_LAST);
	if (!inode_has_extents(inode))
		return;
	assert_int_equal(file_fallocate(inode, FALLOC_FL_KEEP_SIZE, bs * 20, bs), 0);
	assert_int_equal(file_fiemap(inode, 0, INT64_MAX, true, e, 4, &count), 0);
	assert_int_equal(count, 3);
	assert_true(e[2].flags & FIEMAP_EXTENT_UNWRITTEN);
}

static void fiemap_names_every_extent(void **state)
{
	(void)state;
	on_each(check_fiemap);
}

/* ---- collapse and insert range ---- */

static void ranges_collapse_and_insert(void **state)
{
	struct inode *inode;
	uint32_t bs, i;

	(void)state;
	memset(&env, 0, sizeof(env));
	image_create(&env, "-t ext4 -b 1024", 64);
	bs = env.fs->block_bytes;
	inode = image_mkfile(env.root, "file");
	for (i = 0; i < 1000; i++) /* many leaves */
		file_put_pattern(inode, (uint64_t)i * 2 * bs, bs, i);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_COLLAPSE_RANGE, 2 * bs, 600 * bs), 0);
	assert_int_equal(inode_size(inode), (1999 - 600) * bs);
	for (i = 301; i < 1000; i++) {
		uint8_t want[1024], got[1024];

		pattern_fill(want, (uint64_t)i * 2 * bs, bs, i);
		assert_int_equal(file_get(inode, (uint64_t)(i * 2 - 600) * bs, got, bs), bs);
		assert_memory_equal(want, got, bs);
	}
	image_put(inode);
	image_recheck(&env);
	inode = image_lookup(&env, env.root, "file");
	assert_int_equal(file_fallocate(inode, FALLOC_FL_INSERT_RANGE, 2 * bs, 600 * bs), 0);
	assert_zeros(inode, 2 * bs, 600 * bs);
	for (i = 301; i < 1000; i++)
		assert_pattern(inode, (uint64_t)i * 2 * bs, bs, i);
	assert_pattern(inode, 0, bs, 0);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_INSERT_RANGE, inode_size(inode) / bs * bs + bs, bs), -EINVAL);
	assert_int_equal(file_fallocate(inode, FALLOC_FL_COLLAPSE_RANGE, 0, inode_size(inode)), -EINVAL);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

/* ---- overwrites, times, space ---- */

/* DAX: an overwrite of mapped, written blocks takes no handle. */
static void overwrites_take_no_handle(void **state)
{
	uint64_t handles;
	struct inode *inode;
	uint32_t i;

	(void)state;
	memset(&env, 0, sizeof(env));
	image_create(&env, "-t ext4 -b 4096", 32);
	inode = image_mkfile(env.root, "file");
	file_put_pattern(inode, 0, 1 << 20, 1);
	assert_int_equal(file_fsync(inode, false), 0);
	handles = counter_read(env.fs->counters, CNT_JOURNAL_HANDLES);
	for (i = 0; i < 200; i++)
		file_put_pattern(inode, (uint64_t)(i * 37 % 256) * 4096, 4096, 2);
	assert_int_equal(mapping_write_and_wait(&inode->mapping, 0, UINT64_MAX), 0);
	assert_int_equal(counter_read(env.fs->counters, CNT_JOURNAL_HANDLES), handles);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

/* ENOSPC at the write, never later; what was accepted is on disk. */
static void a_full_disk_fails_the_write(void **state)
{
	size_t chunk = 60000, k;
	uint8_t *buf = malloc(chunk);

	(void)state;
	for (k = 0; k < ARRAY_SIZE(kinds); k++) {
		uint64_t pos = 0;
		struct inode *inode;
		ssize_t n;

		memset(&env, 0, sizeof(env));
		image_create(&env, kinds[k], 16);
		inode = image_mkfile(env.root, "file");
		for (;;) {
			pattern_fill(buf, pos, chunk, 1);
			n = file_put(inode, pos, buf, chunk, 0);
			if (n <= 0)
				break;
			pos += (uint64_t)n;
		}
		assert_int_equal(n, -ENOSPC);
		assert_true(pos > 4 << 20);
		assert_int_equal(file_fsync(inode, false), 0);
		inode = file_reload(&env, inode);
		assert_int_equal(inode_size(inode), pos);
		assert_pattern(inode, 0, pos, 1);
		/* What is freed can be had again. */
		assert_int_equal(file_resize(inode, 0), 0);
		file_put_pattern(inode, 0, pos - (1 << 20), 2);
		assert_int_equal(file_fsync(inode, false), 0);
		image_put(inode);
		image_check(&env);
		image_destroy(&env);
	}
	free(buf);
}

/* Reservations all come back. */
static void nothing_stays_reserved(void **state)
{
	struct inode *inode;
	uint64_t before;
	uint32_t i;

	(void)state;
	memset(&env, 0, sizeof(env));
	image_create(&env, "-t ext4 -b 1024", 32);
	inode = image_mkfile(env.root, "file");
	before = balloc_free_count(env.fs);
	for (i = 0; i < 500; i++)
		file_put_pattern(inode, (uint64_t)(i * 7 % 1000) * 1500, 700, 1);
	assert_int_equal(file_flush(inode), 0);
	assert_int_equal(inode->io.reserved_meta, 0);
	assert_int_equal(inode->reserved_blocks, 0);
	assert_int_equal(balloc_free_count(env.fs), before - inode->blocks_512 / 2);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_reads_back),
		cmocka_unit_test(data_survives_a_new_mount),
		cmocka_unit_test(appends_go_to_the_end),
		cmocka_unit_test(uncached_reads_and_writes_agree_with_the_cache),
		cmocka_unit_test(truncate_shrinks_and_grows),
		cmocka_unit_test(the_cut_tail_is_zero_on_disk),
		cmocka_unit_test(the_size_on_disk_follows_into_holes),
		cmocka_unit_test(fallocate_modes),
		cmocka_unit_test(seek_finds_data_and_holes),
		cmocka_unit_test(fiemap_names_every_extent),
		cmocka_unit_test(ranges_collapse_and_insert),
		cmocka_unit_test(overwrites_take_no_handle),
		cmocka_unit_test(a_full_disk_fails_the_write),
		cmocka_unit_test(nothing_stays_reserved),
	};

	if (!image_tools_exist())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
