/* SPDX-License-Identifier: MIT */
/* test_abort.c - each write of a workload fails in turn: the journal aborts, says so, and the image recovers */
#include "toy.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCKS 32u
#define OPS 40u
#define WRITES 3u

struct run {
	struct toy_options opt;
	uint64_t state[OPS + 1][BLOCKS];
	unsigned durable; /* last operation reported so */
	bool failed;      /* some call returned an error */
};

static int do_op(struct run *run, struct toy *toy, unsigned op)
{
	struct handle h;
	int err;

	memcpy(run->state[op], run->state[op - 1], sizeof(run->state[op]));
	for (unsigned i = 0; i < WRITES; i++)
		run->state[op][(op * 5 + i * 7) % BLOCKS] = op;
	err = journal_start(toy->j, WRITES, 0, &h);
	if (err)
		return err;
	for (unsigned i = 0; i < WRITES && !err; i++)
		err = toy_write(toy, &h, (op * 5 + i * 7) % BLOCKS, op);
	err = journal_stop(&h) ?: err;
	if (!err && op % 3 == 0) {
		err = journal_wait_commit(toy->j, h.tid, NULL);
		if (!err)
			run->durable = op;
	}
	if (!err && op % 10 == 0)
		err = journal_checkpoint_all(toy->j);
	return err;
}

static void expect_aborted(struct toy *toy)
{
	struct handle h;

	assert_true(journal_error(toy->j) < 0);
	assert_int_equal(atomic_load(&toy->aborted), journal_error(toy->j));
	assert_int_equal(journal_start(toy->j, 1, 0, &h), -EROFS);
	assert_int_equal(journal_reserve(toy->j, 1, &h), -EROFS);
	assert_true(journal_checkpoint_all(toy->j) < 0);
}

static void expect_recovers(struct run *run, const uint8_t *image)
{
	struct toy_options opt = run->opt;
	uint64_t versions[BLOCKS];
	struct toy after;
	bool found = false;

	opt.fault = false;
	toy_open_image(&after, &opt, image, true, NULL);
	for (uint32_t n = 0; n < BLOCKS; n++)
		versions[n] = toy_version_in(&after, after.image, n);
	for (unsigned op = run->durable; op <= OPS && !found; op++)
		found = !memcmp(versions, run->state[op], sizeof(versions));
	assert_true(found);
	assert_int_equal(toy_close(&after), 0);
}

/* Returns whether the @nth write exists. */
static bool fail_write(const struct toy_options *opt, uint64_t nth, enum fault_action action)
{
	struct run *run = calloc(1, sizeof(*run));
	struct toy toy;
	uint8_t *image;
	bool hit;
	int err;

	run->opt = *opt;
	toy_open(&toy, opt);
	assert_int_equal(fault_add_rule(toy.fault, &(struct fault_rule){
		.ops = FAULT_OP(BIO_WRITE), .nth = nth, .count = 1, .action = action, .err = -EIO }), 0);
	for (unsigned op = 1; op <= OPS && !run->failed; op++)
		run->failed = do_op(run, &toy, op) != 0;
	hit = fault_hits(toy.fault) > 0;
	if (hit) {
		if (!run->failed)
			run->failed = journal_checkpoint_all(toy.j) != 0;
		assert_true(run->failed);
		expect_aborted(&toy);
	}
	err = journal_close(toy.j);
	assert_int_equal(err < 0, hit);
	toy.j = NULL;
	image = image_memory_copy(toy.image, toy.image_bytes);
	assert_int_equal(toy_close(&toy), 0);
	expect_recovers(run, image);
	image_memory_free(image);
	free(run);
	return hit;
}

static const struct toy_options options = {
	.block_bytes = 1024, .log_blocks = 1024, .home_blocks = BLOCKS, .first_tid = 1, .csum_v3 = true, .fault = true,
};

/* Goal: no write is dispensable; whichever fails, nothing that was reported durable is lost. */
static void each_write_fails(void **state)
{
	uint64_t nth = 1;

	while (fail_write(&options, nth, FAULT_FAIL))
		nth++;
	assert_true(nth > 40);
}

/* Goal: the same when the write is torn between sectors. */
static void each_write_is_torn(void **state)
{
	uint64_t nth = 1;

	while (fail_write(&options, nth, FAULT_TEAR))
		nth++;
	assert_true(nth > 40);
}

/* Goal: why it aborted is in the superblock, survives, and can be cleared. */
static void error_is_noted_on_disk(void **state)
{
	struct journal_params params;
	struct journal *j;
	struct toy toy;

	toy_open(&toy, &options);
	toy_write_one(&toy, 1, 1);
	assert_int_equal(journal_checkpoint_all(toy.j), 0);
	params = toy.j->params;
	journal_abort(toy.j, -EUCLEAN);
	assert_int_equal(journal_close(toy.j), -EUCLEAN);
	assert_int_equal(journal_open(&params, &j), 0);
	assert_int_equal(journal_errno_on_disk(j), -EUCLEAN);
	assert_int_equal(journal_clear_error(j), 0);
	assert_int_equal(journal_close(j), 0);
	assert_int_equal(journal_open(&params, &toy.j), 0);
	assert_int_equal(journal_errno_on_disk(toy.j), 0);
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: an open handle of an aborted journal ends quietly, and nothing it changed goes home (J2). */
static void open_handle_survives_abort(void **state)
{
	struct handle h, reserved;
	struct toy toy;

	toy_open(&toy, &options);
	assert_int_equal(journal_reserve(toy.j, 2, &reserved), 0);
	assert_int_equal(journal_start(toy.j, 4, 1, &h), 0);
	assert_int_equal(toy_write(&toy, &h, 1, 1), 0);
	journal_abort(toy.j, -EIO);
	assert_int_equal(toy_write(&toy, &h, 2, 1), -EROFS);
	assert_int_equal(toy_free(&toy, &h, 3), -EROFS);
	assert_int_equal(journal_extend(&h, 1, 0), -EROFS);
	assert_int_equal(journal_restart(&h, 1, 0), -EROFS);
	assert_int_equal(journal_stop(&h), -EROFS);
	assert_int_equal(journal_start_reserved(&reserved), -EROFS);
	assert_int_equal(journal_wait_commit(toy.j, h.tid, NULL), -EIO);
	assert_int_equal(buffer_cache_sync(toy.bc), 0);
	assert_int_equal(toy_version_in(&toy, toy.image, 1), 0);
	assert_int_equal(toy_close(&toy), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_write_fails),
		cmocka_unit_test(each_write_is_torn),
		cmocka_unit_test(error_is_noted_on_disk),
		cmocka_unit_test(open_handle_survives_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
