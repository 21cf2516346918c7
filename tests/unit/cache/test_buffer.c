/* SPDX-License-Identifier: MIT */
/* test_buffer.c - the metadata cache: sharing of reads, home writes from snapshots, pinning, errors */
#include "cache/buffer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"

#define BLOCK 4096u
#define DEVICE_BLOCKS 16384u

struct fixture {
	struct env *env;
	struct buffer_cache *bc;
};

static int setup_sized(void **state, uint32_t block_bytes)
{
	struct fixture *fx = calloc(1, sizeof(*fx));

	fx->env = env_create((uint64_t)DEVICE_BLOCKS * BLOCK, 16 * MIB);
	assert_int_equal(buffer_cache_create(fx->env->cache, fx->env->record, block_bytes, &fx->env->log, &fx->bc), 0);
	*state = fx;
	return 0;
}

static int setup(void **state) { return setup_sized(state, BLOCK); }
static int setup_1k(void **state) { return setup_sized(state, 1024); }

static int teardown(void **state)
{
	struct fixture *fx = *state;

	buffer_cache_destroy(fx->bc);
	assert_int_equal(env_counter(fx->env, CNT_CACHE_META_BYTES), 0);
	env_destroy(fx->env);
	free(fx);
	return 0;
}

static struct buffer_head *dirty_block(struct fixture *fx, fsblk_t blk, uint8_t byte)
{
	struct buffer_head *bh;

	assert_int_equal(buffer_get(fx->bc, blk, &bh), 0);
	buffer_lock(bh);
	memset(bh->data, byte, buffer_cache_block_bytes(fx->bc));
	buffer_set(bh, BH_UPTODATE);
	buffer_mark_dirty(bh);
	buffer_unlock(bh);
	return bh;
}

static void read_returns_device_bytes_once(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *a, *b;

	memset(env_device_bytes_mut(fx->env, 7 * BLOCK), 0x5a, BLOCK);
	assert_int_equal(buffer_read(fx->bc, 7, &a), 0);
	assert_int_equal(a->data[0], 0x5a);
	assert_int_equal(a->data[BLOCK - 1], 0x5a);
	assert_int_equal((uintptr_t)a->data % BLOCK, 0);
	assert_int_equal(buffer_read(fx->bc, 7, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(env_counter(fx->env, CNT_DEVICE_READS), 1);
	buffer_put(a);
	buffer_put(b);
}

static void block_past_the_device_is_corruption(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh;

	assert_int_equal(buffer_get(fx->bc, DEVICE_BLOCKS, &bh), -EUCLEAN);
	assert_int_equal(buffer_read(fx->bc, UINT64_MAX, &bh), -EUCLEAN);
	buffer_readahead(fx->bc, DEVICE_BLOCKS - 1, 100);
	assert_int_equal(env_counter(fx->env, CNT_DEVICE_READS), 1);
}

static void read_error_is_returned_and_not_cached(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh;

	env_fail(fx->env, BIO_READ, 0, 0, 1);
	assert_int_equal(buffer_read(fx->bc, 3, &bh), -EIO);
	assert_int_equal(buffer_read(fx->bc, 3, &bh), 0);
	buffer_put(bh);
}

static void readahead_merges_and_read_needs_no_io(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh;

	memset(env_device_bytes_mut(fx->env, 100 * BLOCK), 0x11, 32 * BLOCK);
	buffer_readahead(fx->bc, 100, 32);
	assert_int_equal(env_counter(fx->env, CNT_DEVICE_READS), 1);
	for (fsblk_t blk = 100; blk < 132; blk++) {
		assert_int_equal(buffer_read(fx->bc, blk, &bh), 0);
		assert_int_equal(bh->data[17], 0x11);
		buffer_put(bh);
	}
	assert_int_equal(env_counter(fx->env, CNT_DEVICE_READS), 1);
}

static void failed_readahead_is_read_again(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh;

	env_fail(fx->env, BIO_READ, 0, 0, 1);
	buffer_readahead(fx->bc, 10, 4);
	assert_int_equal(buffer_read(fx->bc, 10, &bh), 0);
	assert_int_equal(env_counter(fx->env, CNT_DEVICE_READS), 2);
	buffer_put(bh);
}

static void home_writes_are_sorted_and_merged(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bhs[64];

	for (unsigned i = 0; i < 64; i++)
		bhs[i] = dirty_block(fx, 200 + (i * 37) % 64, (uint8_t)((i * 37) % 64));
	assert_int_equal(buffers_write(fx->bc, bhs, 64), 0);
	assert_int_equal(env_writes(fx->env), 1);
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(env_device_bytes(fx->env, (200 + i) * BLOCK)[5], i);
		assert_false(buffer_test(bhs[i], BH_DIRTY | BH_WRITEBACK));
		buffer_put(bhs[i]);
	}
}

static void gaps_split_writes(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bhs[3] = { dirty_block(fx, 10, 1), dirty_block(fx, 11, 2), dirty_block(fx, 13, 3) };

	assert_int_equal(buffers_write(fx->bc, bhs, 3), 0);
	assert_int_equal(env_writes(fx->env), 2);
	assert_int_equal(env_written_bytes(fx->env), 3 * BLOCK);
	for (int i = 0; i < 3; i++)
		buffer_put(bhs[i]);
}

/* J2: neither the journal's list nor the flusher may write it. */
static void uncommitted_buffers_never_go_home(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bhs[2] = { dirty_block(fx, 10, 1), dirty_block(fx, 11, 2) };

	buffer_set(bhs[0], BH_JBDDIRTY);
	assert_int_equal(buffers_write(fx->bc, bhs, 2), 0);
	assert_int_equal(buffer_cache_sync(fx->bc), 0);
	assert_int_equal(env_written_bytes(fx->env), BLOCK);
	assert_int_equal(env_device_bytes(fx->env, 10 * BLOCK)[0], 0);
	assert_true(buffer_test(bhs[0], BH_DIRTY));
	buffer_clear(bhs[0], BH_JBDDIRTY);
	assert_int_equal(buffer_cache_sync(fx->bc), 0);
	assert_int_equal(env_device_bytes(fx->env, 10 * BLOCK)[0], 1);
	buffer_put(bhs[0]);
	buffer_put(bhs[1]);
}

static void cleaned_buffer_is_not_written(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh = dirty_block(fx, 10, 1);

	buffer_clean(bh);
	assert_int_equal(buffer_cache_sync(fx->bc), 0);
	assert_int_equal(env_writes(fx->env), 0);
	buffer_put(bh);
}

/* H3 */
static void failed_home_write_stays_dirty_and_is_reported_once(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh = dirty_block(fx, 10, 9);

	env_fail(fx->env, BIO_WRITE, 10 * BLOCK, BLOCK, 1);
	assert_int_equal(buffers_write(fx->bc, &bh, 1), -EIO);
	assert_true(buffer_test(bh, BH_DIRTY));
	assert_true(buffer_test(bh, BH_WRITE_ERR));
	assert_int_equal(buffer_cache_take_error(fx->bc), -EIO);
	assert_int_equal(buffer_cache_take_error(fx->bc), 0);
	assert_int_equal(buffer_cache_sync(fx->bc), 0);
	assert_false(buffer_test(bh, BH_DIRTY | BH_WRITE_ERR));
	assert_int_equal(env_device_bytes(fx->env, 10 * BLOCK)[0], 9);
	buffer_put(bh);
}

static void forget_drops_contents_and_dirt(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh;

	for (fsblk_t blk = 50; blk < 60; blk++)
		buffer_put(dirty_block(fx, blk, 7));
	buffer_forget_range(fx->bc, 52, 4);
	assert_null(buffer_find(fx->bc, 52));
	assert_null(buffer_find(fx->bc, 55));
	bh = buffer_find(fx->bc, 56);
	assert_non_null(bh);
	buffer_put(bh);
	buffer_forget_range(fx->bc, 0, DEVICE_BLOCKS); /* by walking the hash */
	assert_null(buffer_find(fx->bc, 56));
	assert_int_equal(buffer_cache_sync(fx->bc), 0);
	assert_int_equal(env_writes(fx->env), 0);
}

static void journal_head_pins_against_forget_and_shrink(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh = dirty_block(fx, 50, 7);

	buffer_clean(bh);
	atomic_store(&bh->jh, (struct journal_head *)fx);
	buffer_put(bh);
	buffer_forget_range(fx->bc, 50, 1);
	cache_shrink(fx->env->cache, 0);
	assert_ptr_equal(buffer_find(fx->bc, 50), bh);
	atomic_store(&bh->jh, NULL);
	buffer_put(bh);
	cache_shrink(fx->env->cache, 0);
	assert_null(buffer_find(fx->bc, 50));
}

static void dirty_and_referenced_buffers_survive_shrinking(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *held, *dirty = dirty_block(fx, 1, 1), *again;

	assert_int_equal(buffer_read(fx->bc, 2, &held), 0);
	assert_int_equal(buffer_read(fx->bc, 3, &again), 0);
	buffer_put(again);
	buffer_put(dirty);
	cache_shrink(fx->env->cache, 0);
	assert_int_equal(env_counter(fx->env, CNT_CACHE_META_BYTES), 2 * BLOCK);
	assert_null(buffer_find(fx->bc, 3));
	assert_int_equal(env_counter(fx->env, CNT_CACHE_EVICTIONS), 1);
	buffer_put(held);
}

static void clean_buffers_stay_within_the_limit(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh;

	for (fsblk_t blk = 0; blk < DEVICE_BLOCKS; blk++) {
		assert_int_equal(buffer_read(fx->bc, blk, &bh), 0);
		buffer_put(bh);
		assert_true(env_counter(fx->env, CNT_CACHE_META_BYTES) <= 16 * MIB + MIB);
	}
	assert_true(env_counter(fx->env, CNT_CACHE_EVICTIONS) > 0);
}

static void press(struct env *env)
{
}

/* An open handle may not be made to wait: allocation goes on above the limit, and the journal is told. */
static void pinned_buffers_overshoot_and_press(void **state)
{
	struct fixture *fx = *state;
	unsigned count = 20 * MIB / BLOCK;
	struct buffer_head **bhs = malloc(count * sizeof(*bhs));

	fx->env->on_pressure = press;
	for (unsigned i = 0; i < count; i++) {
		bhs[i] = dirty_block(fx, i, 1);
		buffer_set(bhs[i], BH_JBDDIRTY);
	}
	assert_int_equal(env_counter(fx->env, CNT_CACHE_META_BYTES), (uint64_t)count * BLOCK);
	while (!atomic_load(&fx->env->pressed))
		sched_yield();
	for (unsigned i = 0; i < count; i++) {
		buffer_clear(bhs[i], BH_JBDDIRTY);
		buffer_put(bhs[i]);
	}
	free(bhs);
	/* Now the flusher may write them, and reclaim has something to evict. */
	while (env_counter(fx->env, CNT_CACHE_META_BYTES) > 16 * MIB)
		sched_yield();
}

static void small_blocks_are_written_exactly(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh = dirty_block(fx, 33, 0xee);

	assert_int_equal(buffers_write(fx->bc, &bh, 1), 0);
	assert_int_equal(env_written_bytes(fx->env), 1024);
	assert_int_equal(env_device_bytes(fx->env, 33 * 1024)[1023], 0xee);
	assert_int_equal(env_device_bytes(fx->env, 34 * 1024)[0], 0);
	buffer_put(bh);
}

#define STRESS_THREADS 3
#define STRESS_BLOCKS 64u
#define STRESS_ROUNDS 3000u
#define PART_BYTES    (BLOCK / 4)

/* All bytes of a block are equal under the lock, so a torn home write would show on the device. */
static void *stress_writer(void *arg)
{
	struct fixture *fx = arg;

	for (unsigned i = 0; i < STRESS_ROUNDS; i++) {
		struct buffer_head *bh;

		assert_int_equal(buffer_read(fx->bc, (i * 7) % STRESS_BLOCKS, &bh), 0);
		buffer_lock(bh);
		memset(bh->data, (uint8_t)i, BLOCK);
		buffer_mark_dirty(bh);
		buffer_unlock(bh);
		buffer_put(bh);
		if (i % 64 == 0)
			assert_int_equal(buffer_cache_sync(fx->bc), 0);
		if (i % 100 == 0)
			cache_shrink(fx->env->cache, 0);
	}
	return NULL;
}

/* Each thread has a part of every block, and changes it without the lock, as a handle without a journal does. */
static void *stress_changer(void *arg)
{
	struct fixture *fx = arg;
	static _Atomic unsigned next_part;
	unsigned part = atomic_fetch_add(&next_part, 1) % STRESS_THREADS;

	for (unsigned i = 0; i < STRESS_ROUNDS; i++) {
		struct buffer_head *bh;

		assert_int_equal(buffer_read(fx->bc, (i * 7) % STRESS_BLOCKS, &bh), 0);
		buffer_changes_begin(fx->bc);
		memset(bh->data + part * PART_BYTES, (uint8_t)i, PART_BYTES);
		buffer_mark_dirty(bh);
		buffer_changes_end(fx->bc);
		buffer_put(bh);
		if (i % 64 == 0)
			assert_int_equal(buffer_cache_sync(fx->bc), 0);
	}
	return NULL;
}

static void run_stress(struct fixture *fx, void *(*func)(void *))
{
	pthread_t threads[STRESS_THREADS];

	for (int i = 0; i < STRESS_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, func, fx), 0);
	for (int i = 0; i < STRESS_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(buffer_cache_sync(fx->bc), 0);
}

/* Bytes of each unit of @bytes that was written are equal. */
static void assert_written_whole(struct fixture *fx, uint64_t bytes)
{
	for (size_t i = 0; i < record_count(fx->env->record); i++) {
		const struct record_entry *entry = record_get(fx->env->record, i);

		for (uint64_t off = 0; off < entry->len_bytes; off += bytes)
			assert_memory_equal(entry->bytes + off, entry->bytes + off + 1, bytes - 1);
	}
}

static void concurrent_use_never_tears_a_home_write(void **state)
{
	struct fixture *fx = *state;

	run_stress(fx, stress_writer);
	assert_written_whole(fx, BLOCK);
}

static void changes_without_a_journal_go_home_whole(void **state)
{
	struct fixture *fx = *state;

	run_stress(fx, stress_changer);
	assert_written_whole(fx, PART_BYTES);
}

/* While they are blocked home writes go on; who begins meanwhile waits. */
static void *change_once(void *arg)
{
	struct fixture *fx = arg;
	struct buffer_head *bh;

	buffer_changes_begin(fx->bc);
	bh = dirty_block(fx, 2, 2);
	buffer_changes_end(fx->bc);
	buffer_put(bh);
	return NULL;
}

static void blocked_changes_wait(void **state)
{
	struct fixture *fx = *state;
	struct buffer_head *bh = dirty_block(fx, 1, 1);
	pthread_t thread;

	buffer_changes_block(fx->bc);
	buffer_changes_block(fx->bc);
	assert_int_equal(pthread_create(&thread, NULL, change_once, fx), 0);
	assert_int_equal(buffer_cache_sync(fx->bc), 0);
	assert_int_equal(env_device_bytes(fx->env, BLOCK)[0], 1);
	buffer_changes_unblock(fx->bc);
	assert_null(buffer_find(fx->bc, 2));
	buffer_changes_unblock(fx->bc);
	pthread_join(thread, NULL);
	assert_int_equal(buffer_cache_sync(fx->bc), 0);
	assert_int_equal(env_device_bytes(fx->env, 2 * BLOCK)[0], 2);
	buffer_put(bh);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(read_returns_device_bytes_once),
		T(block_past_the_device_is_corruption),
		T(read_error_is_returned_and_not_cached),
		T(readahead_merges_and_read_needs_no_io),
		T(failed_readahead_is_read_again),
		T(home_writes_are_sorted_and_merged),
		T(gaps_split_writes),
		T(uncommitted_buffers_never_go_home),
		T(cleaned_buffer_is_not_written),
		T(failed_home_write_stays_dirty_and_is_reported_once),
		T(forget_drops_contents_and_dirt),
		T(journal_head_pins_against_forget_and_shrink),
		T(dirty_and_referenced_buffers_survive_shrinking),
		T(clean_buffers_stay_within_the_limit),
		T(pinned_buffers_overshoot_and_press),
		cmocka_unit_test_setup_teardown(small_blocks_are_written_exactly, setup_1k, teardown),
		T(concurrent_use_never_tears_a_home_write),
		T(changes_without_a_journal_go_home_whole),
		T(blocked_changes_wait),
	};

	return cmocka_run_group_tests_name("buffer", tests, NULL, NULL);
}
