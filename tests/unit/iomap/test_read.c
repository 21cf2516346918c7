/* SPDX-License-Identifier: MIT */
/* test_read.c - buffered reads and readahead */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "toy.h"

static int setup_4k(void **state)
{
	*state = toy_create(64 * MIB, 12);
	return 0;
}

static int setup_1k(void **state)
{
	*state = toy_create(64 * MIB, 10);
	return 0;
}

static int teardown(void **state)
{
	toy_destroy(*state);
	return 0;
}

static void holes_and_unwritten_extents_read_as_zeros(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 4, 4, IOMAP_UNWRITTEN, 0x99);
	toy_set_size(toy, 8 * 4096);
	toy_expect(toy, 0, 0, 8 * 4096);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_READS), 0);
}

static void reads_end_at_end_of_file(void **state)
{
	struct toy *toy = *state;
	uint8_t buf[8192];

	toy_set_blocks(toy, 0, 2, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 5000);
	assert_int_equal(toy_read(toy, 4990, buf, 100), 10);
	assert_int_equal(toy_read(toy, 5000, buf, 100), 0);
	assert_int_equal(toy_read(toy, 1 * MIB, buf, 100), 0);
}

/* The device may hold anything behind the end of the file. */
static void bytes_past_eof_in_the_last_block_are_zeros_when_the_file_grows(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 2, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 5000);
	toy_expect(toy, 0, 0x11, 5000);
	toy_set_size(toy, 8192);
	toy_expect(toy, 5000, 0, 8192 - 5000);
}

static void cached_bytes_need_no_device(void **state)
{
	struct toy *toy = *state;
	uint64_t reads;

	toy_set_blocks(toy, 0, 64, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 64 * 4096);
	toy_expect(toy, 0, 0x11, 64 * 4096);
	reads = env_counter(toy->env, CNT_DEVICE_READS);
	toy_expect(toy, 0, 0x11, 64 * 4096);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_READS), reads);
}

static void random_reads_read_what_they_need(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 4096, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 16 * MIB);
	for (unsigned i = 1; i < 40; i++)
		toy_expect(toy, (uint64_t)(i * 1237 % 4000) * 4096, 0x11, 4096);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_READS), 39);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_BYTES_READ), 39 * 4096);
}

static void sequential_reads_grow_to_large_requests(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 4096, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 16 * MIB);
	for (uint64_t pos = 0; pos < 16 * MIB; pos += 4096)
		toy_expect(toy, pos, 0x11, 4096);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_BYTES_READ), 16 * MIB);
	assert_true(env_counter(toy->env, CNT_DEVICE_READS) <= 16);
	assert_true(env_counter(toy->env, CNT_FOLIO_LARGE_FOLIOS) > 0);
}

static void several_sequential_streams_are_told_apart(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 4096, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 16 * MIB);
	for (uint64_t pos = 0; pos < 4 * MIB; pos += 4096)
		for (unsigned stream = 0; stream < 4; stream++)
			toy_expect(toy, stream * 4 * MIB + pos, 0x11, 4096);
	assert_true(env_counter(toy->env, CNT_DEVICE_READS) <= 48);
}

static void fragmented_files_are_read_right(void **state)
{
	struct toy *toy = *state;

	for (uint32_t i = 0; i < 512; i++)
		toy_set_blocks(toy, (i * 37) % 512, 1, i % 5 == 4 ? IOMAP_HOLE : IOMAP_MAPPED, (uint8_t)i);
	toy_set_size(toy, 512 * 1024);
	for (uint32_t i = 0; i < 512; i++)
		toy_expect(toy, (uint64_t)((i * 37) % 512) * 1024, i % 5 == 4 ? 0 : (uint8_t)i, 1024);
	toy_drop_cache(toy);
	for (uint32_t i = 0; i < 512; i++) {
		uint32_t blk = i; /* sequentially, so that readahead crosses the extents */
		uint32_t n = 0;

		while ((n * 37) % 512 != blk)
			n++;
		toy_expect(toy, (uint64_t)blk * 1024, n % 5 == 4 ? 0 : (uint8_t)n, 1024);
	}
}

static void read_errors_reach_the_reader_and_are_not_cached(void **state)
{
	struct toy *toy = *state;
	uint8_t buf[4096];

	toy_set_blocks(toy, 0, 64, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 64 * 4096);
	env_fail(toy->env, BIO_READ, 0, 0, 0);
	assert_int_equal(toy_read(toy, 0, buf, 4096), -EIO);
	assert_int_equal(toy_read(toy, 20 * 4096, buf, 4096), -EIO);
	env_heal(toy->env);
	toy_expect(toy, 0, 0x11, 64 * 4096);
}

/* One bad block in a window of good ones: only its reader sees the error. */
static void failed_readahead_hurts_only_the_bad_block(void **state)
{
	struct toy *toy = *state;
	uint8_t buf[4096];
	uint64_t bad;

	toy_set_blocks(toy, 0, 256, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, MIB);
	bad = (uint64_t)toy->blocks[20].addr_blk * 4096;
	env_fail(toy->env, BIO_READ, bad, 4096, 0);
	for (unsigned i = 0; i < 256; i++) {
		if (i == 20)
			assert_int_equal(toy_read(toy, i * 4096, buf, 4096), -EIO);
		else
			toy_expect(toy, i * 4096, 0x11, 4096);
	}
}

static void parts_written_before_survive_a_read_of_the_rest(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 1024, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, MIB);
	assert_int_equal(toy_fill(toy, 3 * 1024, 0x22, 1024), 1024);
	assert_int_equal(toy_fill(toy, 9 * 1024 + 5, 0x33, 10), 10);
	toy_expect(toy, 0, 0x11, 3 * 1024);
	toy_expect(toy, 3 * 1024, 0x22, 1024);
	toy_expect(toy, 4 * 1024, 0x11, 5 * 1024 + 5);
	toy_expect(toy, 9 * 1024 + 5, 0x33, 10);
	toy_expect(toy, 9 * 1024 + 15, 0x11, MIB - 9 * 1024 - 15);
}

/* A folio with allocated state, some of its blocks missing, is read by the blocks that are missing. */
static void missing_blocks_of_a_large_folio_are_read_alone(void **state)
{
	struct toy *toy = *state;
	struct folio *f;

	toy_set_blocks(toy, 0, 1024, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, MIB);
	assert_int_equal(mapping_get_folio(&toy->mapping, 0, 6, &f), 0);
	folio_unlock(f);
	folio_put(f);
	assert_int_equal(toy_fill(toy, 100 * 1024, 0x22, 50 * 1024), 50 * 1024);
	toy_expect(toy, 100 * 1024, 0x22, 50 * 1024);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_READS), 0);
	toy_expect(toy, 99 * 1024, 0x11, 1024);
	toy_expect(toy, 150 * 1024, 0x11, 1024);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_BYTES_READ), 2 * 1024);
	toy_expect(toy, 98 * 1024, 0x11, 2 * 1024);
	toy_expect(toy, 0, 0x11, 98 * 1024);
	toy_expect(toy, 151 * 1024, 0x11, 105 * 1024);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_BYTES_READ), (256 - 50) * 1024);
}

static void a_map_that_changed_meanwhile_is_asked_again(void **state)
{
	struct toy *toy = *state;

	/* One block per map, and every begin() makes all maps before it stale. */
	toy_set_blocks(toy, 0, 8, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 8 * 4096);
	toy->run_max = 1;
	toy_expect(toy, 0, 0x11, 8 * 4096);
}

static int deliver_nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* Whatever way is asked for: the device holds older bytes. */
static void fetched_bytes_come_through_folios(void **state)
{
	struct toy *toy = *state;
	uint8_t *buf = aligned_alloc(4096, 256 * KIB);
	struct iovec iov = { buf, 256 * KIB };
	struct iov_cursor to = { .iov = &iov, .iov_count = 1, .left_bytes = 256 * KIB };
	int fds[2];

	assert_non_null(buf);
	toy_set_blocks(toy, 0, 1024, IOMAP_MAPPED, 1);
	toy_set_size(toy, 256 * KIB);
	toy_log_data(toy, MIB);
	assert_int_equal(toy_fill(toy, 64 * KIB + 100, 2, 64 * KIB), 64 * KIB);
	assert_int_equal(toy_sync(toy), 0);
	toy_drop_cache(toy);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(iomap_splice_read(&toy->mapping, 0, 4096, fds[1], deliver_nothing, NULL, &toy_ops), -EOPNOTSUPP);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(iomap_uncached_read(&toy->mapping, 0, &to, &toy_ops), 256 * KIB);
	for (size_t i = 0; i < 256 * KIB; i++)
		assert_int_equal(buf[i], i >= 64 * KIB + 100 && i < 128 * KIB + 100 ? 2 : 1);
	toy_drop_cache(toy);
	toy_expect(toy, 0, 1, 64 * KIB + 100);
	toy_expect(toy, 64 * KIB + 100, 2, 64 * KIB);
	toy_expect(toy, 128 * KIB + 100, 1, 128 * KIB - 100);
	free(buf);
}

#define T(name, blocks) cmocka_unit_test_setup_teardown(name, setup_##blocks, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(holes_and_unwritten_extents_read_as_zeros, 4k),
		T(reads_end_at_end_of_file, 4k),
		T(bytes_past_eof_in_the_last_block_are_zeros_when_the_file_grows, 4k),
		T(cached_bytes_need_no_device, 4k),
		T(random_reads_read_what_they_need, 4k),
		T(sequential_reads_grow_to_large_requests, 4k),
		T(several_sequential_streams_are_told_apart, 4k),
		T(fragmented_files_are_read_right, 1k),
		T(read_errors_reach_the_reader_and_are_not_cached, 4k),
		T(failed_readahead_hurts_only_the_bad_block, 4k),
		T(parts_written_before_survive_a_read_of_the_rest, 1k),
		T(missing_blocks_of_a_large_folio_are_read_alone, 1k),
		T(a_map_that_changed_meanwhile_is_asked_again, 4k),
		T(fetched_bytes_come_through_folios, 4k),
		T(fetched_bytes_come_through_folios, 1k),
	};

	return cmocka_run_group_tests_name("read", tests, NULL, NULL);
}
