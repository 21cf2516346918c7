/* SPDX-License-Identifier: MIT */
/* test_batching.c - group commit, the barrier against new transactions, journals without a log */
#include "toy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static const struct toy_options options = {
	.block_bytes = 4096, .log_blocks = 1024, .home_blocks = 600, .first_tid = 1, .csum_v3 = true, .is_64bit = true,
};

struct fsyncer {
	struct toy *toy;
	pthread_t thread;
	uint32_t n;
	unsigned rounds;
	int err;
	_Atomic unsigned *stopped;
};

static void *fsyncer_run(void *arg)
{
	struct fsyncer *f = arg;

	for (unsigned i = 1; i <= f->rounds && !f->err; i++) {
		struct handle h;

		f->err = journal_start(f->toy->j, 1, 0, &h);
		if (f->err)
			break;
		f->err = toy_write(f->toy, &h, f->n, i);
		f->err = journal_stop(&h) ?: f->err;
		if (!f->err)
			f->err = journal_wait_commit(f->toy->j, h.tid, NULL);
	}
	if (f->stopped)
		atomic_fetch_add(f->stopped, 1);
	return NULL;
}

/* Goal: sixteen threads that fsync their own blocks share commits: at most one for five of them. */
static void concurrent_fsyncs_share_commits(void **state)
{
	struct toy_options opt = options;
	struct fsyncer f[16];
	struct toy toy;

	opt.fault = true; /* a memory device is too fast for two threads to meet on it */
	toy_open(&toy, &opt);
	assert_int_equal(fault_add_rule(toy.fault, &(struct fault_rule){
		.ops = FAULT_OP(BIO_WRITE), .nth = 1, .action = FAULT_DELAY, .delay_ns = 3000000 }), 0);
	for (unsigned i = 0; i < 16; i++) {
		f[i] = (struct fsyncer){ .toy = &toy, .n = i, .rounds = 50 };
		assert_int_equal(pthread_create(&f[i].thread, NULL, fsyncer_run, &f[i]), 0);
	}
	for (unsigned i = 0; i < 16; i++) {
		pthread_join(f[i].thread, NULL);
		assert_int_equal(f[i].err, 0);
	}
	assert_int_equal(toy_count(&toy, CNT_JOURNAL_FSYNCS), 16 * 50);
	assert_true(toy_count(&toy, CNT_JOURNAL_COMMITS) <= 16 * 50 / 5);
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: one thread alone gets a commit for each fsync, and one flush for each commit after the first. */
static void lone_fsync_costs_one_flush(void **state)
{
	struct toy toy;
	uint64_t flushes;
	struct fsyncer f = { .toy = &toy, .n = 1, .rounds = 20 };

	toy_open(&toy, &options);
	assert_int_equal(journal_wait_commit(toy.j, toy_write_one(&toy, 1, 1), NULL), 0);
	flushes = toy_count(&toy, CNT_JOURNAL_FLUSHES);
	fsyncer_run(&f);
	assert_int_equal(f.err, 0);
	assert_int_equal(toy_count(&toy, CNT_JOURNAL_COMMITS), 21);
	assert_int_equal(toy_count(&toy, CNT_JOURNAL_FLUSHES) - flushes, 20);
	assert_int_equal(toy_close(&toy), 0);
}

struct placed_callback {
	struct journal_callback cb;
	pthread_t where;
	bool ran;
};

static void note_place(struct journal_callback *cb, int err)
{
	struct placed_callback *p = container_of(cb, struct placed_callback, cb);

	p->where = pthread_self();
	p->ran = !err;
}

static void write_with_callback(struct toy *toy, struct placed_callback *p, tid_t *tid_out)
{
	struct handle h;

	*p = (struct placed_callback){ .cb.func = note_place };
	assert_int_equal(journal_start(toy->j, 1, 0, &h), 0);
	assert_int_equal(toy_write(toy, &h, 1, 1), 0);
	journal_add_callback(&h, &p->cb);
	assert_int_equal(journal_stop(&h), 0);
	*tid_out = h.tid;
}

/* Goal: who waits for a commit does it; what nobody waits for is the commit thread's. */
static void who_waits_commits(void **state)
{
	struct placed_callback p;
	struct toy toy;
	tid_t tid;

	toy_open(&toy, &options);
	write_with_callback(&toy, &p, &tid);
	assert_int_equal(journal_wait_commit(toy.j, tid, NULL), 0);
	assert_true(p.ran);
	assert_true(pthread_equal(p.where, pthread_self()));
	write_with_callback(&toy, &p, &tid);
	assert_int_equal(journal_start_commit(toy.j, tid), 0);
	assert_int_equal(journal_lock_updates(toy.j), 0); /* until it is refiled */
	journal_unlock_updates(toy.j);
	assert_true(p.ran);
	assert_false(pthread_equal(p.where, pthread_self()));
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: in company a leader waits for others; one who is left alone by them still gets his commit. */
static void company_comes_and_goes(void **state)
{
	struct toy_options opt = options;
	struct fsyncer f[4];
	struct toy toy;

	opt.fault = true;
	toy_open(&toy, &opt);
	assert_int_equal(fault_add_rule(toy.fault, &(struct fault_rule){
		.ops = FAULT_OP(BIO_WRITE), .nth = 1, .action = FAULT_DELAY, .delay_ns = 3000000 }), 0);
	for (int round = 0; round < 3; round++) {
		uint64_t commits = toy_count(&toy, CNT_JOURNAL_COMMITS);

		for (unsigned i = 0; i < 4; i++) {
			f[i] = (struct fsyncer){ .toy = &toy, .n = i + 2, .rounds = 10 + i };
			assert_int_equal(pthread_create(&f[i].thread, NULL, fsyncer_run, &f[i]), 0);
		}
		for (unsigned i = 0; i < 4; i++) {
			pthread_join(f[i].thread, NULL);
			assert_int_equal(f[i].err, 0);
		}
		assert_true(toy_count(&toy, CNT_JOURNAL_COMMITS) - commits < 46);
		for (unsigned i = 0; i < 12; i++)
			assert_int_equal(journal_wait_commit(toy.j, toy_write_one(&toy, 1, i), NULL), 0);
	}
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: while updates are locked no transaction begins and the log is empty on disk; then life goes on. */
static void locked_updates_keep_handles_out(void **state)
{
	_Atomic unsigned stopped = 0;
	struct toy toy;
	struct fsyncer f = { .toy = &toy, .n = 1, .rounds = 1, .stopped = &stopped };
	struct journal_superblock *sb;

	toy_open(&toy, &options);
	toy_write_one(&toy, 2, 1);
	assert_int_equal(journal_lock_updates(toy.j), 0);
	sb = (void *)(toy.image + toy_log_blk(&toy, 0) * 4096);
	assert_int_equal(be32_get(sb->s_start), 0);
	assert_int_equal(toy_version_in(&toy, toy.image, 2), 1);
	assert_int_equal(pthread_create(&f.thread, NULL, fsyncer_run, &f), 0);
	assert_int_equal(journal_force_commit(toy.j), 0);
	assert_int_equal(atomic_load(&stopped), 0);
	assert_int_equal(toy_count(&toy, CNT_JOURNAL_COMMITS), 1);
	journal_unlock_updates(toy.j);
	pthread_join(f.thread, NULL);
	assert_int_equal(f.err, 0);
	assert_int_equal(toy_count(&toy, CNT_JOURNAL_COMMITS), 2);
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: handles that ask for more than there is are told so, and the journal lives on. */
static void too_large_requests_are_refused(void **state)
{
	struct handle h, reserved;
	struct toy toy;

	toy_open(&toy, &options);
	assert_int_equal(journal_start(toy.j, journal_max_credits(toy.j) + 1, 0, &h), -ENOSPC);
	assert_int_equal(journal_reserve(toy.j, journal_max_credits(toy.j), &reserved), -ENOSPC);
	assert_int_equal(journal_start(toy.j, 1, 0, &h), 0);
	assert_int_equal(journal_extend(&h, journal_max_credits(toy.j), 0), 1);
	assert_int_equal(toy_write(&toy, &h, 1, 1), 0);
	assert_int_equal(toy_write(&toy, &h, 2, 1), -ENOSPC); /* no credit left */
	assert_int_equal(toy_free(&toy, &h, 3), -ENOSPC);     /* no revoke credit */
	assert_int_equal(journal_extend(&h, 1, 1), 0);
	assert_int_equal(toy_write(&toy, &h, 2, 1), 0);
	assert_int_equal(toy_free(&toy, &h, 3), 0);
	assert_int_equal(journal_restart(&h, 1, 0), 0);
	assert_int_equal(toy_write(&toy, &h, 2, 2), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: credits that handles do not use return: a transaction takes any number of handles that change little. */
static void unused_credits_return(void **state)
{
	struct toy toy;

	toy_open(&toy, &options);
	for (unsigned i = 1; i <= 1000; i++) {
		struct handle h;

		assert_int_equal(journal_start(toy.j, 100, 100, &h), 0);
		assert_int_equal(toy_write(&toy, &h, i % 10, i), 0);
		assert_int_equal(journal_stop(&h), 0);
	}
	assert_true(toy_count(&toy, CNT_JOURNAL_COMMITS) <= 1);
	assert_int_equal(toy_close(&toy), 0);
}

struct flag_callback {
	struct journal_callback cb;
	bool ran;
};

static void callback_sets(struct journal_callback *cb, int err)
{
	container_of(cb, struct flag_callback, cb)->ran = true;
}

/* Goal: without a journal the same calls dirty the buffer at once and run callbacks at the handle's end. */
static void null_journal_dirties_at_once(void **state)
{
	struct flag_callback fc = { .cb.func = callback_sets };
	struct buffer_head *bh;
	struct journal *null;
	struct handle h;
	struct toy toy;

	toy_open(&toy, &options);
	assert_int_equal(journal_create_null(toy.bc, toy.counters, &null), 0);
	assert_true(journal_is_null(null));
	assert_int_equal(journal_start(null, 1, 0, &h), 0);
	assert_int_equal(toy_write(&toy, &h, 1, 1), 0);
	journal_add_callback(&h, &fc.cb);
	assert_int_equal(buffer_read(toy.bc, toy_home(&toy, 1), &bh), 0);
	assert_true(buffer_test(bh, BH_DIRTY));
	assert_false(fc.ran);
	assert_int_equal(journal_stop(&h), 0);
	assert_true(fc.ran);
	assert_int_equal(journal_start(null, 1, 1, &h), 0);
	assert_int_equal(journal_revoke(&h, toy_home(&toy, 1), bh), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(buffer_cache_sync(toy.bc), 0);
	assert_int_equal(toy_version_in(&toy, toy.image, 1), 0); /* freed before it went home */
	assert_int_equal(journal_close(null), 0);
	assert_int_equal(toy_close(&toy), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(concurrent_fsyncs_share_commits),
		cmocka_unit_test(lone_fsync_costs_one_flush),
		cmocka_unit_test(who_waits_commits),
		cmocka_unit_test(company_comes_and_goes),
		cmocka_unit_test(locked_updates_keep_handles_out),
		cmocka_unit_test(too_large_requests_are_refused),
		cmocka_unit_test(unused_credits_return),
		cmocka_unit_test(null_journal_dirties_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
