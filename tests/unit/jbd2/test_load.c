/* SPDX-License-Identifier: MIT */
/* test_load.c - small logs under heavy load: no deadlock, nothing lost, the log wraps many times */
#include "toy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define THREADS 4u
#define HOT_BLOCKS 4u /* changed by all threads, all the time */

struct worker {
	struct toy *toy;
	pthread_t thread;
	unsigned id;
	unsigned rounds;
	uint32_t blocks_per_round;
	unsigned sync_every;      /* 0: never */
	bool frees;
	bool reserves;
	int err;
	uint64_t *versions;       /* [owner thread] of its own blocks */
};

struct load {
	struct toy_options opt;
	unsigned rounds;
	uint32_t blocks_per_round;
	unsigned sync_every;
	bool frees, reserves;
};

static uint32_t own_blocks(const struct toy *toy)
{
	return (toy->opt.home_blocks - HOT_BLOCKS) / THREADS;
}

static uint32_t own_block(const struct worker *w, uint32_t i)
{
	return HOT_BLOCKS + w->id * own_blocks(w->toy) + i % own_blocks(w->toy);
}

static int touch_hot(struct worker *w, struct handle *h)
{
	struct buffer_head *bh;
	int err = buffer_read(w->toy->bc, toy_home(w->toy, w->id % HOT_BLOCKS), &bh);

	if (err)
		return err;
	err = journal_get_write_access(h, bh);
	if (!err) {
		uint64_t value;

		buffer_lock(bh);
		memcpy(&value, bh->data, sizeof(value));
		toy_fill(w->toy, bh->data, w->id % HOT_BLOCKS, (value & 0xffffffffffff) + 1);
		buffer_unlock(bh);
		err = journal_dirty_metadata(h, bh);
	}
	buffer_put(bh);
	return err;
}

static int do_round(struct worker *w, unsigned round)
{
	struct handle h, reserved;
	int err = w->reserves ? journal_reserve(w->toy->j, 4, &reserved) : 0;

	if (err)
		return err;
	err = journal_start(w->toy->j, w->blocks_per_round + 2, w->frees ? 1 : 0, &h);
	if (err)
		return err;
	err = touch_hot(w, &h);
	for (uint32_t i = 0; i < w->blocks_per_round && !err; i++) {
		uint32_t at = (round * w->blocks_per_round + i) % own_blocks(w->toy);

		err = toy_write(w->toy, &h, own_block(w, at), ++w->versions[at]);
	}
	if (w->frees && !err && round % 3 == 0) {
		uint32_t at = (round * 7) % own_blocks(w->toy);

		err = toy_free(w->toy, &h, own_block(w, at));
		if (!err)
			err = toy_create(w->toy, &h, own_block(w, at), ++w->versions[at]);
	}
	err = journal_stop(&h) ?: err;
	if (w->reserves) {
		if (!err)
			err = journal_start_reserved(&reserved);
		else
			journal_unreserve(&reserved);
		if (!err) {
			err = touch_hot(w, &reserved);
			err = journal_stop(&reserved) ?: err;
		}
	}
	if (!err && w->sync_every && round % w->sync_every == 0)
		err = journal_wait_commit(w->toy->j, h.tid, NULL);
	return err;
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;

	for (unsigned round = 0; round < w->rounds && !w->err; round++)
		w->err = do_round(w, round);
	return NULL;
}

static void run_load(const struct load *load)
{
	struct worker workers[THREADS];
	struct toy toy;

	toy_open(&toy, &load->opt);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.toy = &toy, .id = i, .rounds = load->rounds, .blocks_per_round = load->blocks_per_round,
			.sync_every = load->sync_every, .frees = load->frees, .reserves = load->reserves,
			.versions = calloc(own_blocks(&toy), sizeof(uint64_t)),
		};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].err, 0);
	}
	assert_int_equal(journal_checkpoint_all(toy.j), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		for (uint32_t at = 0; at < own_blocks(&toy); at++)
			assert_int_equal(toy_version_in(&toy, toy.image, own_block(&workers[i], at)),
					 workers[i].versions[at]);
		free(workers[i].versions);
	}
	for (uint32_t n = 0; n < HOT_BLOCKS; n++)
		assert_int_equal(toy_version_in(&toy, toy.image, n), load->rounds * (load->reserves ? 2 : 1));
	/* It wrapped: more was logged than fits. */
	assert_true(toy_count(&toy, CNT_JOURNAL_BLOCKS_LOGGED) > 2 * load->opt.log_blocks);
	assert_int_equal(atomic_load(&toy.logged_errors), 0);
	assert_int_equal(toy_close(&toy), 0);
}

#define SMALL_LOG .block_bytes = 1024, .log_blocks = 1024, .home_blocks = 4000

/* Goal: a log of 1,024 blocks serves four threads that fsync all the time. */
static void small_log_with_fsyncs(void **state)
{
	run_load(&(struct load){ .opt = { SMALL_LOG, .csum_v3 = true, .is_64bit = true },
				 .rounds = 1500, .blocks_per_round = 3, .sync_every = 2 });
}

/* Goal: transactions as large as the log allows, one after the other, never wait for each other in a circle. */
static void small_log_with_large_handles(void **state)
{
	run_load(&(struct load){ .opt = { SMALL_LOG }, .rounds = 300, .blocks_per_round = 100, .sync_every = 50 });
}

/* Goal: frees, reallocations and reservations under pressure for log space. */
static void small_log_with_frees_and_reservations(void **state)
{
	run_load(&(struct load){ .opt = { SMALL_LOG, .csum_v3 = true }, .rounds = 1500, .blocks_per_round = 10,
				 .sync_every = 20, .frees = true, .reserves = true });
}

/* Goal: a fast-commit area at the log's end is left alone while the log wraps before it. */
static void log_wraps_before_fast_commit_area(void **state)
{
	run_load(&(struct load){ .opt = { .block_bytes = 4096, .log_blocks = 1280, .home_blocks = 1000,
					  .first_tid = 1, .fc_blocks = 256, .csum_v3 = true, .is_64bit = true },
				 .rounds = 400, .blocks_per_round = 20, .sync_every = 10 });
}

/* Goal: sequence numbers pass 0xffffffff and 0 like any others. */
static void sequence_wraps(void **state)
{
	run_load(&(struct load){ .opt = { SMALL_LOG, .csum_v3 = true, .first_tid = 0xffffffe0 },
				 .rounds = 400, .blocks_per_round = 10, .sync_every = 1 });
}

/* Goal: a cache much smaller than the working set still holds what the journal pins. */
static void small_cache(void **state)
{
	run_load(&(struct load){ .opt = { .block_bytes = 4096, .log_blocks = 1024, .home_blocks = 6000, .first_tid = 1,
					  .csum_v3 = true, .cache_bytes = UINT64_C(8) << 20 },
				 .rounds = 500, .blocks_per_round = 10, .sync_every = 30 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_log_with_fsyncs),
		cmocka_unit_test(small_log_with_large_handles),
		cmocka_unit_test(small_log_with_frees_and_reservations),
		cmocka_unit_test(log_wraps_before_fast_commit_area),
		cmocka_unit_test(sequence_wraps),
		cmocka_unit_test(small_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
