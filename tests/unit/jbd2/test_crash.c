/* SPDX-License-Identifier: MIT */
/*
 * test_crash.c - power cuts: after recovery the blocks are as one operation left them, and none that was durable is lost
 *
 * A seeded workload of one thread runs on a recorded device. The state after each operation is known. For each cut, with
 * the writes that were not flushed kept, dropped, or lost, torn and reordered at random, the log is recovered; the home
 * blocks must then be in the state after some operation, and not before the last one that was known to be durable.
 */
#include "toy.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"

#define BLOCKS 48u
#define OPS 120u
#define WRITES_MAX 12u

struct run {
	struct toy_options opt;
	struct toy toy;
	uint64_t state[OPS + 1][BLOCKS]; /* version of each block after each operation */
};

static void do_op(struct run *run, unsigned op)
{
	struct toy *toy = &run->toy;
	unsigned writes = 1 + rand() % WRITES_MAX;
	struct handle h;

	memcpy(run->state[op], run->state[op - 1], sizeof(run->state[op]));
	assert_int_equal(journal_start(toy->j, writes + 1, 1, &h), 0);
	for (unsigned i = 0; i < writes; i++) {
		uint32_t n = rand() % BLOCKS;

		assert_int_equal(toy_write(toy, &h, n, op), 0);
		run->state[op][n] = op;
	}
	if (rand() % 4 == 0) {
		/* Freed and used again in the same transaction, so that it keeps a defined version. */
		uint32_t n = rand() % BLOCKS;

		assert_int_equal(toy_free(toy, &h, n), 0);
		assert_int_equal(toy_create(toy, &h, n, op), 0);
		run->state[op][n] = op;
	}
	assert_int_equal(journal_stop(&h), 0);
	switch (rand() % 8) {
	case 0:
	case 1:
		assert_int_equal(journal_wait_commit(toy->j, h.tid, NULL), 0);
		break;
	case 2:
		assert_int_equal(journal_checkpoint_all(toy->j), 0);
		break;
	case 3:
		assert_int_equal(journal_start_commit(toy->j, h.tid), 0);
		return;
	default:
		return;
	}
	assert_int_equal(record_mark(toy->record, "durable", op), 0);
}

/* The last operation that was known to be durable before entry @cut. */
static unsigned durable_at(struct run *run, size_t cut)
{
	unsigned op = 0;

	for (size_t i = 0; i < cut; i++) {
		const struct record_entry *e = record_get(run->toy.record, i);

		if (e->is_mark)
			op = (unsigned)e->mark_value;
	}
	return op;
}

/* The operation that left the blocks as they are in @image, at least @at_least; -1: none. */
static int state_of(const struct run *run, const uint8_t *image, unsigned at_least)
{
	uint64_t versions[BLOCKS];

	for (uint32_t n = 0; n < BLOCKS; n++)
		versions[n] = toy_version_in(&run->toy, image, n);
	for (unsigned op = at_least; op <= OPS; op++)
		if (!memcmp(versions, run->state[op], sizeof(versions)))
			return (int)op;
	return -1;
}

static void check_cut(struct run *run, size_t cut, enum record_cut_kind kind, uint64_t seed)
{
	struct toy_options opt = run->opt;
	uint8_t *image = toy_cut(&run->toy, cut, kind, seed);
	unsigned durable = durable_at(run, cut);
	struct toy after;

	opt.record = false;
	opt.cache = run->toy.cache; /* without threads of its own a case is quick */
	toy_open_image(&after, &opt, image, true, NULL);
	if (state_of(run, after.image, durable) < 0)
		fail_msg("cut %zu, kind %d, seed %llu: not the state after any operation from %u on", cut, kind,
			 (unsigned long long)seed, durable);
	assert_int_equal(toy_close(&after), 0);
	image_memory_free(image);
}

static void explore(const struct toy_options *opt, unsigned seed, size_t step)
{
	struct run *run = calloc(1, sizeof(*run));
	size_t end;

	run->opt = *opt;
	run->opt.home_blocks = BLOCKS;
	run->opt.record = true;
	toy_open(&run->toy, &run->opt);
	srand(seed);
	for (unsigned op = 1; op <= OPS; op++)
		do_op(run, op);
	assert_int_equal(journal_checkpoint_all(run->toy.j), 0);
	end = record_count(run->toy.record);
	for (size_t cut = 0; cut <= end; cut += step) {
		check_cut(run, cut, RECORD_CUT_KEEPS_ALL, 0);
		check_cut(run, cut, RECORD_CUT_DROPS_UNFLUSHED, 0);
		check_cut(run, cut, RECORD_CUT_RANDOM, cut * 2 + 1);
		check_cut(run, cut, RECORD_CUT_RANDOM, cut * 2 + 2);
	}
	assert_int_equal(toy_close(&run->toy), 0);
	free(run);
}

static void cuts_with_checksums(void **state)
{
	explore(&(struct toy_options){ .block_bytes = 1024, .log_blocks = 1024, .first_tid = 5, .csum_v3 = true,
				       .is_64bit = true }, 1, 3);
}

static void cuts_without_checksums(void **state)
{
	explore(&(struct toy_options){ .block_bytes = 1024, .log_blocks = 1024, .first_tid = 5 }, 2, 8);
}

static void cuts_with_async_commit(void **state)
{
	explore(&(struct toy_options){ .block_bytes = 1024, .log_blocks = 1024, .first_tid = 5, .csum_v3 = true,
				       .async_commit = true }, 3, 8);
}

static void cuts_with_async_commit_v1(void **state)
{
	explore(&(struct toy_options){ .block_bytes = 1024, .log_blocks = 1024, .first_tid = 5,
				       .async_commit = true }, 4, 8);
}

static void cuts_while_sequence_wraps(void **state)
{
	explore(&(struct toy_options){ .block_bytes = 4096, .log_blocks = 1024, .first_tid = 0xffffffe0,
				       .csum_v3 = true }, 5, 12);
}

/* ---- J3 ---- */

#define DATA_VERSION 1000u

static void write_data(struct toy *toy, uint32_t n)
{
	uint8_t *data = aligned_alloc(4096, 4096);

	toy_fill(toy, data, n, DATA_VERSION);
	assert_int_equal(block_write(toy->dev, toy_home(toy, n) * toy->opt.block_bytes, data, toy->opt.block_bytes,
				     BIO_FUA), 0);
	free(data);
}

/*
 * Goal:   J3, a revoked block does not overwrite its later use as file data.
 * Method: journal a block twice, free it, commit, write it as data; cut power at each request; recover; compare.
 */
static void reused_block_keeps_file_data(void **state)
{
	const struct toy_options opt = {
		.block_bytes = 1024, .log_blocks = 1024, .home_blocks = 8, .first_tid = 5, .csum_v3 = true, .record = true,
	};
	struct toy_options after_opt = opt;
	struct handle h;
	struct toy toy;
	size_t reused;

	toy_open(&toy, &opt);
	assert_int_equal(journal_wait_commit(toy.j, toy_write_one(&toy, 3, 1), NULL), 0);
	assert_int_equal(journal_wait_commit(toy.j, toy_write_one(&toy, 3, 2), NULL), 0);
	assert_int_equal(journal_start(toy.j, 1, 1, &h), 0);
	assert_int_equal(toy_free(&toy, &h, 3), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(journal_wait_commit(toy.j, h.tid, NULL), 0);
	write_data(&toy, 3);
	reused = record_count(toy.record);
	for (uint64_t i = 1; i <= 5; i++)
		assert_int_equal(journal_wait_commit(toy.j, toy_write_one(&toy, 4, i), NULL), 0);
	assert_int_equal(journal_checkpoint_all(toy.j), 0);
	after_opt.record = false;
	for (size_t cut = reused; cut <= record_count(toy.record); cut++) {
		uint8_t *image = toy_cut(&toy, cut, RECORD_CUT_DROPS_UNFLUSHED, 0);
		struct toy after;

		toy_open_image(&after, &after_opt, image, true, NULL);
		assert_int_equal(toy_version_in(&after, after.image, 3), DATA_VERSION);
		assert_int_equal(toy_close(&after), 0);
		image_memory_free(image);
	}
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: J7, a block whose freeing did not become durable still has its last committed contents after a crash. */
static void free_that_was_lost_leaves_the_block(void **state)
{
	const struct toy_options opt = {
		.block_bytes = 1024, .log_blocks = 1024, .home_blocks = 8, .first_tid = 5, .csum_v3 = true, .record = true,
	};
	struct toy_options after_opt = opt;
	struct handle h;
	struct toy toy, after;
	uint8_t *image;

	toy_open(&toy, &opt);
	assert_int_equal(journal_wait_commit(toy.j, toy_write_one(&toy, 3, 7), NULL), 0);
	assert_int_equal(journal_start(toy.j, 1, 1, &h), 0);
	assert_int_equal(toy_free(&toy, &h, 3), 0);
	assert_int_equal(buffer_cache_sync(toy.bc), 0);
	image = toy_cut(&toy, record_count(toy.record), RECORD_CUT_KEEPS_ALL, 0);
	assert_int_equal(journal_stop(&h), 0);
	after_opt.record = false;
	toy_open_image(&after, &after_opt, image, true, NULL);
	assert_int_equal(toy_version_in(&after, after.image, 3), 7);
	assert_int_equal(toy_close(&after), 0);
	image_memory_free(image);
	assert_int_equal(toy_close(&toy), 0);
}

/* ---- J4 ---- */

#define CHECKPOINTS 150u
#define VERSIONS_EACH 10u   /* changes while one checkpoint runs */
#define VERSIONS_MAX (CHECKPOINTS * VERSIONS_EACH)
#define TAIL_MOVES_MIN 50u

static _Atomic unsigned checkpoints_asked, checkpoints_done;

static bool moves_tail(const struct toy *toy, const struct record_entry *e)
{
	return !e->is_mark && e->op == BIO_WRITE && e->pos_bytes == toy_log_blk(toy, 0) * toy->opt.block_bytes;
}

static uint64_t durable_version(const struct toy *toy, size_t cut)
{
	uint64_t version = 0;

	for (size_t i = 0; i < cut; i++)
		if (record_get(toy->record, i)->is_mark)
			version = record_get(toy->record, i)->mark_value;
	return version;
}

static void expect_version(const struct toy *toy, size_t cut, enum record_cut_kind kind, uint64_t at_least)
{
	struct toy_options opt = toy->opt;
	uint8_t *image = toy_cut((struct toy *)toy, cut, kind, cut);
	struct toy after;
	uint64_t version;

	opt.record = false;
	opt.cache = toy->cache;
	toy_open_image(&after, &opt, image, true, NULL);
	version = toy_version_in(&after, after.image, 0);
	if (version < at_least || version > VERSIONS_MAX)
		fail_msg("cut %zu, kind %d: version %llu, and %llu was durable", cut, kind, (unsigned long long)version,
			 (unsigned long long)at_least);
	assert_int_equal(toy_close(&after), 0);
	image_memory_free(image);
}

static void *checkpoint_when_asked(void *arg)
{
	struct toy *toy = arg;
	int err = 0;

	for (unsigned i = 0; i < CHECKPOINTS; i++) {
		while (atomic_load(&checkpoints_asked) == i)
			sched_yield();
		err = err ? err : journal_checkpoint_all(toy->j);
		atomic_store(&checkpoints_done, i + 1);
	}
	return err ? "a checkpoint failed" : NULL;
}

static void change_version(struct toy *toy, uint64_t version)
{
	tid_t tid = toy_write_one(toy, 0, version);

	toy_write_one(toy, 1 + version % 7, version);
	if (version % 3)
		return;
	assert_int_equal(journal_wait_commit(toy->j, tid, NULL), 0);
	assert_int_equal(record_mark(toy->record, "durable", version), 0);
}

/* Commits while checkpoints run beside. */
static void change_one_block(struct toy *toy)
{
	pthread_t checkpoints;
	void *wrong;

	atomic_store(&checkpoints_asked, 0);
	atomic_store(&checkpoints_done, 0);
	assert_int_equal(thread_start("checkpoints", checkpoint_when_asked, toy, &checkpoints), 0);
	for (uint64_t version = 1; version <= VERSIONS_MAX; version++) {
		change_version(toy, version);
		if (version % VERSIONS_EACH)
			continue;
		while (atomic_load(&checkpoints_done) != atomic_load(&checkpoints_asked))
			sched_yield();
		atomic_fetch_add(&checkpoints_asked, 1);
	}
	pthread_join(checkpoints, &wrong);
	assert_null(wrong);
}

/*
 * Goal:   J4, a block that every transaction changes, as one of the inode table may be, is in the log or at home at any time.
 * Method: the smallest log goes round while one block changes, and is emptied again and again; cut before and after
 *         each request that moves the tail, and before the one after.
 */
static void block_changed_by_every_transaction_is_never_lost(void **state)
{
	const struct toy_options opt = {
		.block_bytes = 1024, .log_blocks = 1024, .home_blocks = 8, .first_tid = 5, .csum_v3 = true, .record = true,
	};
	unsigned moves = 0;
	struct toy toy;

	toy_open(&toy, &opt);
	change_one_block(&toy);
	for (size_t i = 2; i < record_count(toy.record); i++) {
		if (!moves_tail(&toy, record_get(toy.record, i)))
			continue;
		moves++;
		for (size_t cut = i; cut <= i + 2 && cut <= record_count(toy.record); cut++)
			for (int kind = RECORD_CUT_KEEPS_ALL; kind <= RECORD_CUT_RANDOM; kind++)
				expect_version(&toy, cut, (enum record_cut_kind)kind, durable_version(&toy, cut));
	}
	assert_true(moves >= TAIL_MOVES_MIN);
	assert_int_equal(toy_close(&toy), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_with_checksums),
		cmocka_unit_test(cuts_without_checksums),
		cmocka_unit_test(cuts_with_async_commit),
		cmocka_unit_test(cuts_with_async_commit_v1),
		cmocka_unit_test(cuts_while_sequence_wraps),
		cmocka_unit_test(reused_block_keeps_file_data),
		cmocka_unit_test(free_that_was_lost_leaves_the_block),
		cmocka_unit_test(block_changed_by_every_transaction_is_never_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
