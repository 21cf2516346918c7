/* SPDX-License-Identifier: MIT */
/* test_write.c - buffered writes: what is read for them, what gets dirty, zeroing */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static int setup_64k(void **state)
{
	*state = toy_create(64 * MIB, 16);
	return 0;
}

static int teardown(void **state)
{
	toy_destroy(*state);
	return 0;
}

static void whole_blocks_are_written_without_reading(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 64, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 64 * 4096);
	assert_int_equal(toy_fill(toy, 4096, 0x22, 8 * 4096), 8 * 4096);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_READS), 0);
	assert_int_equal(env_counter(toy->env, CNT_FOLIO_READS_FOR_WRITE), 0);
	toy_expect(toy, 0, 0x11, 4096);
	toy_expect(toy, 4096, 0x22, 8 * 4096);
	toy_expect(toy, 9 * 4096, 0x11, 4096);
}

/* W1 */
static void partial_block_of_a_mapped_extent_reads_that_block_only(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 16, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 16 * 1024);
	assert_int_equal(toy_fill(toy, 1024 + 100, 0x22, 2048), 2048);
	assert_int_equal(env_counter(toy->env, CNT_FOLIO_READS_FOR_WRITE), 2);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_BYTES_READ), 2048);
	toy_expect(toy, 0, 0x11, 1124);
	toy_expect(toy, 1124, 0x22, 2048);
	toy_expect(toy, 1124 + 2048, 0x11, 16 * 1024 - 3172);
}

static void partial_write_to_hole_unwritten_or_past_eof_reads_nothing(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 8, 8, IOMAP_UNWRITTEN, 0x99);
	toy_set_blocks(toy, 16, 1, IOMAP_MAPPED, 0x99);
	toy_set_size(toy, 16 * 4096);
	assert_int_equal(toy_fill(toy, 100, 1, 50), 50);
	assert_int_equal(toy_fill(toy, 8 * 4096 + 100, 2, 50), 50);
	assert_int_equal(toy_fill(toy, 16 * 4096 + 100, 3, 50), 50);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_READS), 0);
	toy_expect(toy, 0, 0, 100);
	toy_expect(toy, 100, 1, 50);
	toy_expect(toy, 150, 0, 4096 - 150);
	toy_expect(toy, 8 * 4096, 0, 100);
	toy_expect(toy, 16 * 4096, 0, 100);
	toy_expect(toy, 16 * 4096 + 100, 3, 50);
	assert_int_equal(atomic_load(&toy->mapping.size_bytes), 16 * 4096 + 150);
}

static void overwriting_a_short_file_whole_reads_nothing(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 1, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 1000);
	assert_int_equal(toy_fill(toy, 0, 0x22, 1000), 1000);
	assert_int_equal(env_counter(toy->env, CNT_DEVICE_READS), 0);
	toy_expect(toy, 0, 0x22, 1000);
}

static void read_error_fails_the_write_and_dirties_nothing(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 4, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 4 * 4096);
	env_fail(toy->env, BIO_READ, 0, 0, 1);
	assert_int_equal(toy_fill(toy, 10, 0x22, 10), -EIO);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 0);
	toy_expect(toy, 0, 0x11, 4096);
}

static void no_space_is_reported_at_the_write(void **state)
{
	struct toy *toy = *state;

	toy->free_blocks = 3;
	assert_int_equal(toy_fill(toy, 0, 1, 5 * 4096), 3 * 4096);
	assert_int_equal(toy_fill(toy, 3 * 4096, 1, 4096), -ENOSPC);
	assert_int_equal(atomic_load(&toy->mapping.size_bytes), 3 * 4096);
	assert_int_equal(toy_sync(toy), 0);
}

static void large_writes_make_large_folios(void **state)
{
	struct toy *toy = *state;
	struct folio *f;

	assert_int_equal(toy_fill(toy, 0, 1, 4 * MIB), 4 * MIB);
	f = mapping_find(&toy->mapping, 0);
	assert_int_equal(f->order, toy->mapping.max_order);
	folio_put(f);
	assert_int_equal(toy_fill(toy, 4 * MIB + 4096, 1, 12 * 4096), 12 * 4096);
	f = mapping_find(&toy->mapping, (4 * MIB >> 12) + 1);
	assert_int_equal(f->order, 0); /* not aligned for more */
	folio_put(f);
	f = mapping_find(&toy->mapping, (4 * MIB >> 12) + 8);
	assert_int_equal(f->order, 2); /* only 5 pages left, aligned to 8 */
	folio_put(f);
	toy_expect(toy, 0, 1, 4 * MIB);
}

static void dirty_bytes_count_blocks_not_folios(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 1024, IOMAP_MAPPED, 0);
	toy_set_size(toy, MIB);
	assert_int_equal(toy_fill(toy, 0, 1, MIB), MIB);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 0);
	assert_int_equal(toy_fill(toy, 5 * 1024 + 1, 2, 1), 1);
	assert_int_equal(toy_fill(toy, 5 * 1024 + 2, 2, 1), 1);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 1024);
	assert_int_equal(env_counter(toy->env, CNT_WB_BYTES_DIRTIED), MIB + 1024);
}

static void blocks_larger_than_a_page_have_folios_no_smaller(void **state)
{
	struct toy *toy = *state;
	struct folio *f;

	assert_int_equal(toy_fill(toy, 70000, 7, 10), 10);
	f = mapping_find(&toy->mapping, 70000 / 4096);
	assert_int_equal(folio_bytes(f), 65536);
	folio_put(f);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), 65536);
	toy_drop_cache(toy);
	toy_expect(toy, 0, 0, 70000);
	toy_expect(toy, 70000, 7, 10);
}

static void zero_range_leaves_holes_and_clean_unwritten_alone(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 4, 4, IOMAP_UNWRITTEN, 0x99);
	toy_set_blocks(toy, 8, 4, IOMAP_MAPPED, 0x11);
	toy_set_size(toy, 16 * 4096);
	assert_int_equal(iomap_zero_range(&toy->mapping, 0, 10 * 4096 + 100, &toy_ops), 0);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 3 * 4096);
	toy_expect(toy, 0, 0, 10 * 4096 + 100);
	toy_expect(toy, 10 * 4096 + 100, 0x11, 2 * 4096 - 100);
	assert_int_equal(env_counter(toy->env, CNT_FOLIO_READS_FOR_WRITE), 1);
	assert_int_equal(toy_type(toy, 0), IOMAP_HOLE);
}

static void zero_range_zeroes_delayed_data(void **state)
{
	struct toy *toy = *state;

	assert_int_equal(toy_fill(toy, 0, 5, 3 * 4096), 3 * 4096);
	assert_int_equal(iomap_zero_range(&toy->mapping, 1000, 8000, &toy_ops), 0);
	toy_expect(toy, 0, 5, 1000);
	toy_expect(toy, 1000, 0, 8000);
	toy_expect(toy, 9000, 5, 3 * 4096 - 9000);
	assert_int_equal(toy_sync(toy), 0);
	toy_drop_cache(toy);
	toy_expect(toy, 1000, 0, 8000);
	toy_expect(toy, 9000, 5, 3 * 4096 - 9000);
}

static void vectors_are_copied_in_order(void **state)
{
	struct toy *toy = *state;
	char a[] = "hello", b[] = " ", c[] = "world", out[12] = { 0 };
	struct iovec iov[] = { { a, 5 }, { b, 1 }, { c, 0 }, { c, 5 } };
	struct iov_cursor from = { .iov = iov, .iov_count = 4, .left_bytes = 11 };
	struct iovec riov[] = { { out, 3 }, { out + 3, 8 } };
	struct iov_cursor to = { .iov = riov, .iov_count = 2, .left_bytes = 11 };

	assert_int_equal(iomap_buffered_write(&toy->mapping, 4090, &from, &toy_ops), 11);
	assert_int_equal(iomap_buffered_read(&toy->mapping, 4090, &to, &toy_ops), 11);
	assert_string_equal(out, "hello world");
}

#define T(name, blocks) cmocka_unit_test_setup_teardown(name, setup_##blocks, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(whole_blocks_are_written_without_reading, 4k),
		T(partial_block_of_a_mapped_extent_reads_that_block_only, 1k),
		T(partial_write_to_hole_unwritten_or_past_eof_reads_nothing, 4k),
		T(overwriting_a_short_file_whole_reads_nothing, 4k),
		T(read_error_fails_the_write_and_dirties_nothing, 4k),
		T(no_space_is_reported_at_the_write, 4k),
		T(large_writes_make_large_folios, 4k),
		T(dirty_bytes_count_blocks_not_folios, 1k),
		T(blocks_larger_than_a_page_have_folios_no_smaller, 64k),
		T(zero_range_leaves_holes_and_clean_unwritten_alone, 4k),
		T(zero_range_zeroes_delayed_data, 4k),
		T(vectors_are_copied_in_order, 4k),
	};

	return cmocka_run_group_tests_name("write", tests, NULL, NULL);
}
