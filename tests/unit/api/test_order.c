/* SPDX-License-Identifier: MIT */
/* test_order.c - who writes data: not the commit, unless that is asked for to measure the difference (docs/ORDER.md) */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "image.h"

#define MIB ((size_t)1 << 20)
#define OLD_WAY "ablate=ordered-extents"

static struct image img;

static int make(void **state)
{
	image_make(&img, "-t ext4", 256);
	return 0;
}

static int stop(void **state)
{
	image_check(&img);
	image_remove(&img);
	return 0;
}

static uint64_t counter(const char *section, const char *key)
{
	int len = uext4_stats_json(img.fs, NULL, 0) + 256;
	char *text = malloc((size_t)len), quoted[64], *at;
	uint64_t value;

	assert_true(uext4_stats_json(img.fs, text, (size_t)len) < len);
	snprintf(quoted, sizeof(quoted), "\"%s\"", section);
	at = strstr(text, quoted);
	assert_non_null(at);
	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	at = strstr(at, quoted);
	assert_non_null(at);
	value = strtoull(at + strlen(quoted), NULL, 10);
	free(text);
	return value;
}

/* A stream, holes filled in, overwrites, a cut in the middle of a block; each made durable. Returns pages that were written. */
static uint64_t all_kinds_of_writes(void)
{
	struct uext4_file *file = image_open_file(&img, "/f", O_RDWR | O_CREAT);
	uint64_t pages = 0;

	for (off_t pos = 0; pos < (off_t)(32 * MIB); pos += (off_t)MIB)
		image_write(file, 1, pos, MIB);
	assert_int_equal(uext4_fsync(file), 0);
	pages += 32 * MIB / 4096;
	for (off_t blk = 0; blk < 64; blk++)
		image_write(file, 1, (off_t)(40 * MIB) + blk * 2 * 4096, 4096);
	assert_int_equal(uext4_fsync(file), 0);
	for (off_t blk = 0; blk < 64; blk++)
		image_write(file, 1, (off_t)(40 * MIB) + (blk * 2 + 1) * 4096, 4096);
	assert_int_equal(uext4_fsync(file), 0);
	pages += 128;
	image_write(file, 1, 0, MIB);
	assert_int_equal(uext4_fsync(file), 0);
	pages += MIB / 4096;
	assert_int_equal(uext4_ftruncate(file, (off_t)(16 * MIB) + 100), 0);
	assert_int_equal(uext4_fsync(file), 0);
	image_expect(file, 1, 0, 16 * MIB + 100);
	assert_int_equal(uext4_close(file), 0);
	return pages;
}

static void the_commit_writes_no_data(void **state)
{
	uint64_t pages;

	image_open(&img, NULL, false);
	pages = all_kinds_of_writes();
	assert_int_equal(counter("journal", "data_pages_by_commit"), 0);
	assert_true(counter("writeback", "data_pages_by_flusher") >= pages);
	assert_true(counter("journal", "commits") >= 4); /* the overwrite has none to wait for if its times are those before */
}

static void the_old_way_leaves_new_blocks_to_the_commit(void **state)
{
	struct uext4_file *file;

	image_open(&img, OLD_WAY, false);
	all_kinds_of_writes();
	assert_true(counter("journal", "data_pages_by_commit") > 0);
	assert_int_equal(uext4_close_fs(img.fs), 0);
	image_open(&img, NULL, false);
	file = image_open_file(&img, "/f", O_RDWR | O_CREAT);
	image_expect(file, 1, 0, 16 * MIB + 100);
	assert_int_equal(uext4_close(file), 0);
}

#define WRITERS 4

static void *writer(void *arg)
{
	uintptr_t id = (uintptr_t)arg;
	char path[16];

	snprintf(path, sizeof(path), "/w%u", (unsigned)id);
	for (unsigned round = 0; round < 6; round++) {
		struct uext4_file *file = image_open_file(&img, path, O_RDWR | O_CREAT);

		for (off_t pos = 0; pos < (off_t)(4 * MIB); pos += 50000)
			image_write(file, id, pos, 50000);
		if (round % 2)
			assert_int_equal(uext4_fsync(file), 0);
		assert_int_equal(uext4_ftruncate(file, (off_t)(round * 12345)), 0);
		image_expect(file, id, 0, round * 12345);
		assert_int_equal(uext4_close(file), 0);
	}
	return NULL;
}

/* Little memory, so that writeback is waited for; cuts and ends of files race with commits that issue their I/O. */
static void the_old_way_survives_company(void **state)
{
	pthread_t thread[WRITERS];

	image_open(&img, OLD_WAY ",cache_size=8M", false);
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, writer, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(uext4_sync(img.fs), 0);
}

int main(void)
{
#define ON_IMAGE(test) cmocka_unit_test_setup_teardown(test, make, stop)
	const struct CMUnitTest tests[] = {
		ON_IMAGE(the_commit_writes_no_data),
		ON_IMAGE(the_old_way_leaves_new_blocks_to_the_commit),
		ON_IMAGE(the_old_way_survives_company),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
