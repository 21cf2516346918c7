/* SPDX-License-Identifier: MIT */
/* test_writeback.c - what is written, how, and what becomes of errors */
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

static int teardown(void **state)
{
	toy_destroy(*state);
	return 0;
}

static void write_all_1s(struct toy *toy, uint64_t bytes)
{
	assert_int_equal(toy_fill(toy, 0, 1, bytes), bytes);
	assert_int_equal(toy_sync(toy), 0);
	record_reset(toy->env->record);
}

static void a_new_file_goes_out_in_one_ioend(void **state)
{
	struct toy *toy = *state;

	assert_int_equal(toy_fill(toy, 0, 1, 4 * MIB), 4 * MIB);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), 4 * MIB);
	assert_int_equal(env_counter(toy->env, CNT_WB_IOENDS), 1);
	assert_int_equal(env_counter(toy->env, CNT_WB_MAP_CALLS), 1);
	assert_int_equal(env_counter(toy->env, CNT_WB_BYTES_WRITTEN), 4 * MIB);
	assert_int_equal(env_counter(toy->env, CNT_WB_DATA_PAGES_BY_FLUSHER), 1024);
	assert_int_equal(env_counter(toy->env, CNT_JOURNAL_DATA_PAGES_BY_COMMIT), 0);
	assert_int_equal(toy_type(toy, 0), IOMAP_MAPPED);
	assert_int_equal(toy_type(toy, 1023), IOMAP_MAPPED);
	toy_drop_cache(toy);
	toy_expect(toy, 0, 1, 4 * MIB);
}

static void small_folios_are_gathered_into_large_requests(void **state)
{
	struct toy *toy = *state;

	for (uint64_t pos = 0; pos < 4 * MIB; pos += 4096)
		assert_int_equal(toy_fill(toy, pos, (uint8_t)(pos >> 12), 4096), 4096);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_counter(toy->env, CNT_WB_IOENDS), 1);
	assert_true(env_writes(toy->env) <= 8);
	toy_drop_cache(toy);
	for (uint64_t pos = 0; pos < 4 * MIB; pos += 4096)
		toy_expect(toy, pos, (uint8_t)(pos >> 12), 4096);
}

/* The FOLIO rule: a 4 KiB change in a large folio costs 4 KiB. */
static void only_dirty_blocks_are_written(void **state)
{
	struct toy *toy = *state;
	const struct record_entry *entry;

	write_all_1s(toy, 4 * MIB);
	assert_int_equal(toy_fill(toy, 1 * MIB + 64 * KIB, 2, 4096), 4096);
	assert_int_equal(toy_fill(toy, 1 * MIB + 128 * KIB + 1, 3, 10), 10);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_writes(toy->env), 2);
	assert_int_equal(env_written_bytes(toy->env), 2 * 4096);
	entry = record_get(toy->env->record, 0);
	assert_int_equal(entry->len_bytes, 4096);
	assert_int_equal(entry->bytes[0], 2);
	assert_int_equal(entry->bytes[4095], 2);
	entry = record_get(toy->env->record, 1);
	assert_int_equal(entry->bytes[0], 1);
	assert_int_equal(entry->bytes[1], 3);
	assert_int_equal(entry->bytes[11], 1);
	toy_drop_cache(toy);
	toy_expect(toy, 1 * MIB + 64 * KIB, 2, 4096);
	toy_expect(toy, 1 * MIB + 68 * KIB, 1, 60 * KIB + 1);
	toy_expect(toy, 1 * MIB + 128 * KIB + 1, 3, 10);
}

static void small_blocks_of_a_page_are_written_alone(void **state)
{
	struct toy *toy = *state;

	write_all_1s(toy, 64 * KIB);
	assert_int_equal(toy_fill(toy, 5 * KIB + 7, 2, 3), 3);
	assert_int_equal(toy_fill(toy, 7 * KIB, 2, KIB), KIB);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), 2 * KIB);
	assert_int_equal(env_writes(toy->env), 2);
}

static void a_second_sync_writes_nothing(void **state)
{
	struct toy *toy = *state;

	write_all_1s(toy, MIB);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_writes(toy->env), 0);
}

/* K4 */
static void the_tail_of_the_last_block_is_written_as_zeros(void **state)
{
	struct toy *toy = *state;
	struct folio *f;

	assert_int_equal(toy_fill(toy, 0, 1, 2 * KIB + 100), 2 * KIB + 100);
	f = mapping_find(&toy->mapping, 0);
	memset(f->data + 2 * KIB + 100, 0xff, KIB); /* as through a direct pointer */
	folio_put(f);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), 3 * KIB);
	assert_int_equal(toy_device(toy, 2)[99], 1);
	assert_int_equal(toy_device(toy, 2)[100], 0);
	assert_int_equal(toy_device(toy, 2)[KIB - 1], 0);
}

static void blocks_past_eof_are_never_written(void **state)
{
	struct toy *toy = *state;

	toy_set_blocks(toy, 0, 256, IOMAP_MAPPED, 0x77);
	assert_int_equal(toy_fill(toy, 0, 1, MIB), MIB);
	toy_set_size(toy, 10 * 4096 + 1); /* truncated, the cache not yet */
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), 11 * 4096);
	assert_int_equal(toy_device(toy, 11)[0], 0x77);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 0);
}

/* A folio dirtied as a whole, as by mmap, has all its blocks dirty. */
static void a_folio_dirtied_as_a_whole_is_written_whole(void **state)
{
	struct toy *toy = *state;
	struct folio *f;

	write_all_1s(toy, MIB);
	f = mapping_find(&toy->mapping, 0);
	folio_lock(f);
	folio_mark_dirty(f);
	folio_unlock(f);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), folio_bytes(f));
	folio_put(f);
}

static void whole_folio_ablation_writes_the_folio(void **state)
{
	struct toy *toy = *state;

	mapping_set_whole_folio_dirty(&toy->mapping);
	write_all_1s(toy, MIB);
	assert_int_equal(toy_fill(toy, 4096, 2, 10), 10);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), 1u << (12 + toy->mapping.max_order));
}

static void discontiguous_blocks_make_several_ioends(void **state)
{
	struct toy *toy = *state;

	toy->reverse = true;
	assert_int_equal(toy_fill(toy, 0, 1, 16 * KIB), 16 * KIB);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_counter(toy->env, CNT_WB_IOENDS), 16);
	toy_drop_cache(toy);
	toy_expect(toy, 0, 1, 16 * KIB);
}

/* Credits run short: the folio is written in parts, and nothing is lost. */
static void out_of_credits_writes_the_rest_later(void **state)
{
	struct toy *toy = *state;

	toy->run_max = 3;
	assert_int_equal(toy_fill(toy, 0, 7, 16 * 4096), 16 * 4096);
	atomic_store(&toy->map_again, 3);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 0);
	assert_int_equal(env_written_bytes(toy->env), 16 * 4096);
	toy_drop_cache(toy);
	toy_expect(toy, 0, 7, 16 * 4096);
}

static void background_pass_leaves_what_has_no_credits_dirty(void **state)
{
	struct toy *toy = *state;
	struct writeback_control wbc = { .end_bytes = UINT64_MAX, .budget_bytes = INT64_MAX };

	assert_int_equal(toy_fill(toy, 0, 7, 16 * 4096), 16 * 4096);
	atomic_store(&toy->map_again, 1);
	assert_int_equal(toy->mapping.ops->writepages(&toy->mapping, &wbc), 0);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 16 * 4096);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 0);
}

static void budget_stops_and_says_where(void **state)
{
	struct toy *toy = *state;
	struct writeback_control wbc = { .end_bytes = UINT64_MAX, .budget_bytes = MIB };

	assert_int_equal(toy_fill(toy, 0, 7, 4 * MIB), 4 * MIB);
	assert_int_equal(toy->mapping.ops->writepages(&toy->mapping, &wbc), 0);
	assert_true(wbc.budget_bytes <= 0);
	assert_int_equal(wbc.start_bytes, MIB);
	mapping_wait_range(&toy->mapping, 0, UINT64_MAX);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 3 * MIB);
}

static void range_sync_writes_that_range(void **state)
{
	struct toy *toy = *state;

	write_all_1s(toy, 64 * 4096);
	for (unsigned i = 0; i < 64; i += 8)
		assert_int_equal(toy_fill(toy, i * 4096, 2, 4096), 4096);
	toy->mapping.max_order = 0;
	assert_int_equal(toy_fill(toy, MIB, 2, 64 * 4096), 64 * 4096);
	record_reset(toy->env->record);
	assert_int_equal(mapping_write_and_wait(&toy->mapping, MIB + 8 * 4096, MIB + 16 * 4096), 0);
	assert_int_equal(env_written_bytes(toy->env), 8 * 4096);
}

static void a_write_error_is_told_once_to_each_that_sampled(void **state)
{
	struct toy *toy = *state;
	uint32_t a = mapping_sample_error(&toy->mapping), b = a, late;

	assert_int_equal(toy_fill(toy, 0, 1, 4096), 4096);
	env_fail(toy->env, BIO_WRITE, 0, 0, 1);
	assert_int_equal(toy_sync(toy), -EIO);
	assert_int_equal(mapping_check_error(&toy->mapping, &a), -EIO);
	assert_int_equal(mapping_check_error(&toy->mapping, &a), 0);
	assert_int_equal(mapping_check_error(&toy->mapping, &b), -EIO);
	assert_int_equal(mapping_check_error(&toy->mapping, &b), 0);
	late = mapping_sample_error(&toy->mapping);
	assert_int_equal(mapping_check_error(&toy->mapping, &late), 0);
	assert_int_equal(toy_type(toy, 0), IOMAP_UNWRITTEN); /* nothing stale may show */
}

static void mapping_and_submit_errors_are_kept(void **state)
{
	struct toy *toy = *state;
	uint32_t since = mapping_sample_error(&toy->mapping);

	assert_int_equal(toy_fill(toy, 0, 1, 4096), 4096);
	atomic_store(&toy->map_error, -EROFS);
	assert_int_equal(toy_sync(toy), -EROFS);
	assert_int_equal(mapping_check_error(&toy->mapping, &since), -EROFS);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 0);
	assert_int_equal(toy_fill(toy, 0, 1, 4096), 4096);
	atomic_store(&toy->submit_error, -ENOMEM);
	assert_int_equal(toy_sync(toy), -ENOMEM);
	assert_int_equal(mapping_check_error(&toy->mapping, &since), -ENOMEM);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 0);
	assert_int_equal(env_writes(toy->env), 0);
}

static void truncate_drops_what_is_past_it(void **state)
{
	struct toy *toy = *state;

	write_all_1s(toy, MIB);
	assert_int_equal(toy_fill(toy, 0, 2, MIB), MIB);
	toy_set_size(toy, 6 * 4096 + 10);
	rwsem_write_lock(&toy->mapping.invalidate_lock);
	mapping_truncate(&toy->mapping, 6 * 4096 + 10);
	rwsem_write_unlock(&toy->mapping.invalidate_lock);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), 7 * 4096);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), 7 * 4096);
	toy_set_blocks(toy, 7, 200, IOMAP_HOLE, 0);
	toy_set_size(toy, 64 * 4096);
	toy_expect(toy, 0, 2, 6 * 4096 + 10);
	toy_expect(toy, 6 * 4096 + 10, 0, 58 * 4096 - 10);
}

static void punch_zeroes_in_place_and_cleans_whole_blocks(void **state)
{
	struct toy *toy = *state;

	write_all_1s(toy, MIB);
	assert_int_equal(toy_fill(toy, 0, 2, MIB), MIB);
	rwsem_write_lock(&toy->mapping.invalidate_lock);
	mapping_punch(&toy->mapping, 2 * 4096 + 5, 600 * KIB);
	toy_set_blocks(toy, 3, 147, IOMAP_HOLE, 0);
	rwsem_write_unlock(&toy->mapping.invalidate_lock);
	toy_expect(toy, 0, 2, 2 * 4096 + 5);
	toy_expect(toy, 2 * 4096 + 5, 0, 600 * KIB - 2 * 4096 - 5);
	toy_expect(toy, 600 * KIB, 2, MIB - 600 * KIB);
	assert_int_equal(cache_dirty_bytes(toy->env->cache), MIB - 600 * KIB + 3 * 4096);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), MIB - 600 * KIB + 3 * 4096);
}

static void what_is_kept_back_goes_out_for_the_commit(void **state)
{
	struct toy *toy = *state;
	struct writeback_control wbc = { .end_bytes = UINT64_MAX, .budget_bytes = INT64_MAX };

	toy->hold = true;
	assert_int_equal(toy_fill(toy, 0, 1, 5 * 4096), 5 * 4096);
	assert_int_equal(toy->mapping.ops->writepages(&toy->mapping, &wbc), 0);
	assert_non_null(toy->held);
	assert_int_equal(env_written_bytes(toy->env), 0);
	iomap_ioend_issue(toy->held, &toy->env->counters);
	assert_int_equal(mapping_wait_range(&toy->mapping, 0, UINT64_MAX), 0);
	assert_int_equal(env_written_bytes(toy->env), 5 * 4096);
	assert_int_equal(env_counter(toy->env, CNT_JOURNAL_DATA_PAGES_BY_COMMIT), 5);
	assert_int_equal(env_counter(toy->env, CNT_WB_DATA_PAGES_BY_FLUSHER), 0);
}

/* Overwrites gathered before an allocation that a commit waits for may not go out in its name. */
static void announced_io_goes_out_alone_before_the_next_map(void **state)
{
	struct toy *toy = *state;

	toy->alloc_written = true;
	write_all_1s(toy, 8 * 4096);
	for (unsigned blk = 0; blk < 16; blk += 2) /* written blocks, then delayed ones */
		assert_int_equal(toy_fill(toy, blk * 4096, 2, 4096), 4096);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_written_bytes(toy->env), 8 * 4096);
	assert_int_equal(toy_fill(toy, 15 * 4096, 3, 64 * 4096), 64 * 4096);
	assert_int_equal(toy_sync(toy), 0);
	toy_drop_cache(toy);
	toy_expect(toy, 14 * 4096, 2, 4096);
	toy_expect(toy, 15 * 4096, 3, 64 * 4096);
}

static void ioends_may_end_on_another_thread(void **state)
{
	struct toy *toy = *state;

	assert_int_equal(workqueue_start("toy-end", 2, &toy->wq), 0);
	for (int round = 0; round < 20; round++) {
		assert_int_equal(toy_fill(toy, 0, (uint8_t)round, MIB), MIB);
		assert_int_equal(toy_sync(toy), 0);
		assert_int_equal(cache_dirty_bytes(toy->env->cache), 0);
	}
	toy_drop_cache(toy);
	toy_expect(toy, 0, 19, MIB);
}

/* K5 */
static void stored_bytes_see_no_io(void **state)
{
	struct toy *toy = *state;

	toy_log_data(toy, 64 * KIB);
	assert_int_equal(toy_fill(toy, 0, 1, MIB + 100), MIB + 100);
	assert_int_equal(toy_sync(toy), 0);
	assert_in_range(atomic_load(&toy->stores), 17, 40);
	assert_int_equal(toy_fill(toy, 5000, 2, 100), 100);
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(env_writes(toy->env), 0);
	assert_int_equal(env_counter(toy->env, CNT_WB_IOENDS), 0);
	assert_int_equal(atomic_load(&toy->mapping.dirty_bytes), 0);
	assert_int_equal(atomic_load(&toy->mapping.writeback_bytes), 0);
	toy_drop_cache(toy);
	toy_expect(toy, 0, 1, 5000);
	toy_expect(toy, 5000, 2, 100);
	toy_expect(toy, 5100, 1, MIB - 5000);
	toy_set_size(toy, MIB + 5000);
	toy_expect(toy, MIB + 100, 0, 4900); /* the tail was stored as zeros */
}

static void what_is_not_stored_stays_dirty(void **state)
{
	struct toy *toy = *state;
	struct writeback_control wbc = { .end_bytes = UINT64_MAX, .budget_bytes = INT64_MAX };

	toy_log_data(toy, MIB);
	assert_int_equal(toy_fill(toy, 0, 1, 64 * KIB), 64 * KIB);
	atomic_store(&toy->store_again, 1);
	assert_int_equal(toy->mapping.ops->writepages(&toy->mapping, &wbc), 0);
	assert_in_range(atomic_load(&toy->mapping.dirty_bytes), 1, 64 * KIB - 1);
	atomic_store(&toy->store_again, 1);
	assert_int_equal(toy_sync(toy), 0); /* it tries again */
	assert_int_equal(atomic_load(&toy->mapping.dirty_bytes), 0);
	toy_drop_cache(toy);
	toy_expect(toy, 0, 1, 64 * KIB);
}

#define T(name, blocks) cmocka_unit_test_setup_teardown(name, setup_##blocks, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_new_file_goes_out_in_one_ioend, 4k),
		T(small_folios_are_gathered_into_large_requests, 4k),
		T(only_dirty_blocks_are_written, 4k),
		T(small_blocks_of_a_page_are_written_alone, 1k),
		T(a_second_sync_writes_nothing, 4k),
		T(the_tail_of_the_last_block_is_written_as_zeros, 1k),
		T(blocks_past_eof_are_never_written, 4k),
		T(a_folio_dirtied_as_a_whole_is_written_whole, 4k),
		T(whole_folio_ablation_writes_the_folio, 4k),
		T(discontiguous_blocks_make_several_ioends, 1k),
		T(out_of_credits_writes_the_rest_later, 4k),
		T(background_pass_leaves_what_has_no_credits_dirty, 4k),
		T(budget_stops_and_says_where, 4k),
		T(range_sync_writes_that_range, 4k),
		T(a_write_error_is_told_once_to_each_that_sampled, 4k),
		T(mapping_and_submit_errors_are_kept, 4k),
		T(truncate_drops_what_is_past_it, 4k),
		T(punch_zeroes_in_place_and_cleans_whole_blocks, 4k),
		T(what_is_kept_back_goes_out_for_the_commit, 4k),
		T(announced_io_goes_out_alone_before_the_next_map, 4k),
		T(stored_bytes_see_no_io, 4k), T(stored_bytes_see_no_io, 1k),
		T(what_is_not_stored_stays_dirty, 4k), T(what_is_not_stored_stays_dirty, 1k),
		T(ioends_may_end_on_another_thread, 4k),
	};

	return cmocka_run_group_tests_name("writeback", tests, NULL, NULL);
}
