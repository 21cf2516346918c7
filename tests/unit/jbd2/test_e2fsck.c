/* SPDX-License-Identifier: MIT */
/*
 * test_e2fsck.c - e2fsprogs replays what we left in the log of a real ext4 image
 *
 * The blocks of one file serve as home blocks. Many small transactions change them, with escaped blocks and revokes, while
 * the log wraps; then the journal is dropped as by a crash. e2fsck must recover it, find the image clean, and the file's
 * bytes must be those of the last commit.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "toy.h"

#define FILE_BLOCKS 200u
#define COMMITS 250u

struct e2 {
	char dir[64];
	uint32_t block_bytes;
	uint64_t *log, *home;
	size_t log_count, home_count;
	uint8_t *expected;
	struct block_device *dev;
	struct counters *counters;
	struct cache *cache;
	struct buffer_cache *bc;
	struct journal *j;
};

static int run(const char *fmt, const char *dir, const char *arg)
{
	char cmd[1024];

	snprintf(cmd, sizeof(cmd), fmt, dir, arg);
	return system(cmd);
}

static uint64_t *load_blocks(const char *dir, const char *inode, size_t *count_out)
{
	uint64_t *blocks = malloc(65536 * sizeof(*blocks));
	char cmd[256];
	FILE *pipe;

	snprintf(cmd, sizeof(cmd), "debugfs -R 'blocks %s' %s/img 2>/dev/null", inode, dir);
	pipe = popen(cmd, "r");
	*count_out = 0;
	while (*count_out < 65536 && fscanf(pipe, "%lu", &blocks[*count_out]) == 1)
		++*count_out;
	pclose(pipe);
	return blocks;
}

static int map_log(void *arg, uint32_t index, fsblk_t *blk_out)
{
	const struct e2 *e2 = arg;

	*blk_out = e2->log[index];
	return 0;
}

static void make_image(struct e2 *e2, uint32_t block_bytes, const char *features)
{
	char size[128];

	e2->block_bytes = block_bytes;
	snprintf(e2->dir, sizeof(e2->dir), "/tmp/uext4-jbd2-XXXXXX");
	assert_non_null(mkdtemp(e2->dir));
	snprintf(size, sizeof(size), "-b %u -J size=%u -O %s", block_bytes, block_bytes / 1024, features);
	assert_int_equal(run("mke2fs -q -F -t ext4 %2$s %1$s/img 64M >/dev/null 2>&1", e2->dir, size), 0);
	snprintf(size, sizeof(size), "%u", block_bytes * FILE_BLOCKS);
	assert_int_equal(run("head -c %2$s /dev/zero > %1$s/zero", e2->dir, size), 0);
	assert_int_equal(run("debugfs -w -R 'write %1$s/zero f' %1$s/img >/dev/null 2>&1", e2->dir, ""), 0);
	/* Zeros become a hole: have it allocated. */
	snprintf(size, sizeof(size), "fallocate /f 0 %u", FILE_BLOCKS - 1);
	assert_int_equal(run("debugfs -w -R '%2$s' %1$s/img >/dev/null 2>&1", e2->dir, size), 0);
	assert_int_equal(run("debugfs -w -R 'feature needs_recovery' %1$s/img >/dev/null 2>&1", e2->dir, ""), 0);
	e2->log = load_blocks(e2->dir, "<8>", &e2->log_count);
	e2->home = load_blocks(e2->dir, "/f", &e2->home_count);
	assert_int_equal(e2->home_count, FILE_BLOCKS);
	e2->expected = calloc(FILE_BLOCKS, block_bytes);
}

static void open_image(struct e2 *e2, bool csum_v3, bool is_64bit)
{
	static const struct log_sink quiet;
	struct cache_options co = { .limit_bytes = UINT64_C(32) << 20, .log = &quiet };
	struct journal_params params = { .map_log_block = map_log, .map_arg = e2, .barriers = true, .log = &quiet };
	char path[128];

	snprintf(path, sizeof(path), "%s/img", e2->dir);
	assert_int_equal(block_open_file(path, BLOCK_OPEN_BUFFERED, &quiet, &e2->dev), 0);
	e2->counters = aligned_alloc(64, sizeof(*e2->counters));
	memset(e2->counters, 0, sizeof(*e2->counters));
	co.counters = params.counters = e2->counters;
	assert_int_equal(cache_create(&co, &e2->cache), 0);
	assert_int_equal(buffer_cache_create(e2->cache, e2->dev, e2->block_bytes, &quiet, &e2->bc), 0);
	params.log_dev = e2->dev;
	params.log_blocks = (uint32_t)e2->log_count;
	params.block_bytes = e2->block_bytes;
	params.bc = e2->bc;
	params.fs_blocks = e2->dev->size_bytes / e2->block_bytes;
	assert_int_equal(journal_open(&params, &e2->j), 0);
	assert_int_equal(journal_start_running(e2->j, csum_v3, is_64bit), 0);
}

static void change(struct e2 *e2, struct handle *h, unsigned commit)
{
	const be32 magic = be32_make(JBD2_MAGIC);
	uint32_t n = rand() % FILE_BLOCKS;
	struct buffer_head *bh;

	assert_int_equal(buffer_get(e2->bc, e2->home[n], &bh), 0);
	assert_int_equal(journal_get_create_access(h, bh), 0);
	memset(bh->data, (int)commit, e2->block_bytes);
	memcpy(bh->data + 8, &n, sizeof(n));
	if (commit % 3 == 0)
		memcpy(bh->data, &magic, sizeof(magic));
	buffer_set(bh, BH_UPTODATE);
	assert_int_equal(journal_dirty_metadata(h, bh), 0);
	memcpy(e2->expected + (size_t)n * e2->block_bytes, bh->data, e2->block_bytes);
	buffer_put(bh);
}

/* Freed in a transaction of its own, then used for data, which replay must not touch (J3). */
static void reuse(struct e2 *e2)
{
	uint8_t *data = aligned_alloc(4096, round_up_to(e2->block_bytes, 4096));
	uint32_t n = rand() % FILE_BLOCKS;
	struct handle h;

	assert_int_equal(journal_start(e2->j, 0, 1, &h), 0);
	assert_int_equal(journal_revoke(&h, e2->home[n], NULL), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(journal_wait_commit(e2->j, h.tid, NULL), 0);
	memset(data, 0xEE, e2->block_bytes);
	assert_int_equal(block_write(e2->dev, e2->home[n] * e2->block_bytes, data, e2->block_bytes, 0), 0);
	memcpy(e2->expected + (size_t)n * e2->block_bytes, data, e2->block_bytes);
	free(data);
}

static void run_workload(struct e2 *e2)
{
	srand(1);
	for (unsigned commit = 1; commit <= COMMITS; commit++) {
		struct handle h;

		assert_int_equal(journal_start(e2->j, 16, 0, &h), 0);
		for (int i = rand() % 16; i >= 0; i--)
			change(e2, &h, commit);
		assert_int_equal(journal_stop(&h), 0);
		assert_int_equal(journal_wait_commit(e2->j, h.tid, NULL), 0);
		if (commit % 10 == 0)
			reuse(e2);
	}
}

/* As after a crash, but for memory. The superblock then names an error; the image was copied before. */
static void drop(struct e2 *e2)
{
	assert_int_equal(run("cp %1$s/img %1$s/cut", e2->dir, ""), 0);
	journal_abort(e2->j, -EIO);
	journal_close(e2->j);
	buffer_cache_destroy(e2->bc);
	cache_destroy(e2->cache);
	block_close(e2->dev);
	free(e2->counters);
}

static void expect_recovered(struct e2 *e2)
{
	size_t bytes = (size_t)FILE_BLOCKS * e2->block_bytes;
	uint8_t *found = malloc(bytes);
	char path[128];
	FILE *file;
	int status = run("e2fsck -fy %1$s/cut > %1$s/out 2>&1", e2->dir, "");

	assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
	assert_int_equal(run("grep -q 'recovering journal' %1$s/out", e2->dir, ""), 0);
	assert_int_equal(run("e2fsck -fn %1$s/cut > /dev/null 2>&1", e2->dir, ""), 0);
	for (uint32_t n = 0; n < FILE_BLOCKS; n++) {
		snprintf(path, sizeof(path), "%s/cut", e2->dir);
		file = fopen(path, "rb");
		assert_non_null(file);
		assert_int_equal(fseeko(file, (off_t)(e2->home[n] * e2->block_bytes), SEEK_SET), 0);
		assert_int_equal(fread(found, 1, e2->block_bytes, file), e2->block_bytes);
		fclose(file);
		assert_memory_equal(found, e2->expected + (size_t)n * e2->block_bytes, e2->block_bytes);
	}
	free(found);
}

static void check_format(uint32_t block_bytes, const char *features, bool csum_v3, bool is_64bit)
{
	struct e2 e2 = { 0 };

	if (system("command -v mke2fs debugfs e2fsck > /dev/null 2>&1")) {
		print_message("SKIPPED: e2fsprogs is not installed\n");
		skip();
	}
	make_image(&e2, block_bytes, features);
	open_image(&e2, csum_v3, is_64bit);
	run_workload(&e2);
	drop(&e2);
	expect_recovered(&e2);
	run("rm -r %1$s", e2.dir, "");
	free(e2.expected);
	free(e2.log);
	free(e2.home);
}

static void csum_v3_64bit(void **state)
{
	check_format(4096, "metadata_csum,64bit", true, true);
}

static void csum_v3_32bit(void **state)
{
	check_format(1024, "metadata_csum,^64bit", true, false);
}

static void no_checksums(void **state)
{
	check_format(2048, "^metadata_csum,^64bit", false, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csum_v3_64bit),
		cmocka_unit_test(csum_v3_32bit),
		cmocka_unit_test(no_checksums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
