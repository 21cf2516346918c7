/* SPDX-License-Identifier: MIT */
/*
 * test_invariants.c - J1, J2 and J4, read off the sequence of device requests
 *
 * A seeded workload changes blocks in handles and notes, for each version of each block, the transaction it belongs
 * to. Afterwards each request to the device is looked at: what had completed when it was submitted?
 */
#include "toy.h"

#include <stdlib.h>

#define BLOCKS 300u
#define OPS 1500u

struct run {
	struct toy toy;
	tid_t tid_of_version[OPS + 1];     /* version number = number of the operation that wrote it */
	uint32_t block_of[OPS + 1][4];     /* blocks that it wrote */
	/* Of the log of requests: */
	size_t commit_entry[OPS * 2];      /* by tid: index of its commit block's write, or SIZE_MAX */
};

static void run_workload(struct run *run, unsigned seed)
{
	srand(seed);
	for (unsigned op = 1; op <= OPS; op++) {
		struct handle h;

		assert_int_equal(journal_start(run->toy.j, 4, 0, &h), 0);
		for (unsigned i = 0; i < 4; i++) {
			/* Some blocks are changed all the time, most now and then. */
			uint32_t n = rand() % 4 ? rand() % BLOCKS : rand() % 5;

			run->block_of[op][i] = n;
			assert_int_equal(toy_write(&run->toy, &h, n, op), 0);
		}
		run->tid_of_version[op] = h.tid;
		assert_int_equal(journal_stop(&h), 0);
		if (rand() % 4 == 0)
			assert_int_equal(journal_wait_commit(run->toy.j, h.tid, NULL), 0);
	}
}

/* Of log block in a request: which, or UINT32_MAX. Requests of log blocks never reach beyond the journal. */
static bool is_log(const struct toy *toy, const struct record_entry *e)
{
	return e->op == BIO_WRITE && e->pos_bytes / toy->opt.block_bytes < toy_home(toy, 0);
}

static bool is_super(const struct toy *toy, const struct record_entry *e)
{
	return is_log(toy, e) && e->pos_bytes == toy_log_blk(toy, 0) * toy->opt.block_bytes;
}

static uint32_t block_type(const uint8_t *bytes, tid_t *tid_out)
{
	const struct journal_header *h = (const void *)bytes;

	if (be32_get(h->h_magic) != JBD2_MAGIC)
		return 0;
	*tid_out = be32_get(h->h_sequence);
	return be32_get(h->h_blocktype);
}

static void find_commits(struct run *run)
{
	struct toy *toy = &run->toy;

	memset(run->commit_entry, 0xff, sizeof(run->commit_entry));
	for (size_t i = 0; i < record_count(toy->record); i++) {
		const struct record_entry *e = record_get(toy->record, i);
		tid_t tid;

		if (is_log(toy, e) && block_type(e->bytes, &tid) == JBD2_COMMIT_BLOCK) {
			assert_int_equal(e->len_bytes, toy->opt.block_bytes);
			assert_true(tid < ARRAY_SIZE(run->commit_entry));
			run->commit_entry[tid] = i;
		}
	}
}

/*
 * J1: the commit block is submitted with PREFLUSH and FUA once all other blocks of its transaction had completed. The journal's
 * superblock is none of them: the checkpoint thread writes it when it moves the tail (J4), beside a commit perhaps.
 */
static void check_j1(struct run *run)
{
	struct toy *toy = &run->toy;
	size_t last_commit = 0, commits = 0;

	for (size_t i = 0; i < record_count(toy->record); i++) {
		const struct record_entry *e = record_get(toy->record, i);
		tid_t tid;

		if (!is_log(toy, e) || is_super(toy, e) || block_type(e->bytes, &tid) != JBD2_COMMIT_BLOCK)
			continue;
		assert_int_equal(e->flags & (BIO_PREFLUSH | BIO_FUA), BIO_PREFLUSH | BIO_FUA);
		for (size_t k = last_commit; k < i; k++) {
			const struct record_entry *before = record_get(toy->record, k);

			if (is_log(toy, before) && !is_super(toy, before)) {
				assert_true(before->completed != 0);
				assert_true(before->completed < e->submitted);
			}
		}
		last_commit = i;
		commits++;
	}
	assert_true(commits > 100);
}

static uint64_t version_of(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return value & 0xffffffff;
}

/* J2: each version that goes home belongs to a transaction whose commit block had completed. */
static void check_j2(struct run *run)
{
	struct toy *toy = &run->toy;
	size_t home_blocks = 0;

	for (size_t i = 0; i < record_count(toy->record); i++) {
		const struct record_entry *e = record_get(toy->record, i);

		if (e->op != BIO_WRITE || is_log(toy, e))
			continue;
		for (uint64_t pos = 0; pos < e->len_bytes; pos += toy->opt.block_bytes) {
			tid_t tid = run->tid_of_version[version_of(e->bytes + pos)];
			const struct record_entry *commit;

			assert_true(run->commit_entry[tid] != SIZE_MAX);
			commit = record_get(toy->record, run->commit_entry[tid]);
			assert_true(commit->completed != 0 && commit->completed < e->submitted);
			home_blocks++;
		}
	}
	assert_true(home_blocks > BLOCKS);
}

/* The newest version of each block among transactions before @tid. */
static void newest_before(const struct run *run, tid_t tid, uint64_t *versions)
{
	memset(versions, 0, BLOCKS * sizeof(*versions));
	for (unsigned op = 1; op <= OPS && tid_gt(tid, run->tid_of_version[op]); op++)
		for (unsigned i = 0; i < 4; i++)
			versions[run->block_of[op][i]] = op;
}

/* J7: block @n is also in a transaction from @tail on that was committed when @e was submitted. */
static bool is_logged_after(const struct run *run, uint32_t n, tid_t tail, const struct record_entry *e)
{
	for (unsigned op = 1; op <= OPS; op++) {
		tid_t tid = run->tid_of_version[op];
		const struct record_entry *commit;

		if (!tid_geq(tid, tail) || run->commit_entry[tid] == SIZE_MAX)
			continue;
		commit = record_get(run->toy.record, run->commit_entry[tid]);
		for (unsigned i = 0; i < 4; i++)
			if (run->block_of[op][i] == n && commit->completed && commit->completed < e->submitted)
				return true;
	}
	return false;
}

/*
 * J4: when the superblock moves the tail to a transaction, all before it had come home, or lie in the log behind the
 * new tail, and a flush goes with it.
 */
static void check_j4(struct run *run)
{
	struct toy *toy = &run->toy;
	uint64_t home[BLOCKS] = { 0 }, wanted[BLOCKS];
	size_t moves = 0;
	tid_t tail_tid = 1;

	for (size_t i = 0; i < record_count(toy->record); i++) {
		const struct record_entry *e = record_get(toy->record, i);
		const struct journal_superblock *sb = (const void *)e->bytes;

		if (e->op != BIO_WRITE || !is_super(toy, e) || !tid_gt(be32_get(sb->s_sequence), tail_tid))
			continue;
		assert_int_equal(e->flags & (BIO_PREFLUSH | BIO_FUA), BIO_PREFLUSH | BIO_FUA);
		for (size_t k = 0; k < i; k++) {
			const struct record_entry *w = record_get(toy->record, k);

			if (w->op != BIO_WRITE || is_log(toy, w) || !w->completed || w->completed > e->submitted)
				continue;
			for (uint64_t pos = 0; pos < w->len_bytes; pos += toy->opt.block_bytes) {
				uint64_t n = (w->pos_bytes + pos) / toy->opt.block_bytes - toy_home(toy, 0);

				home[n] = version_of(w->bytes + pos);
			}
		}
		tail_tid = be32_get(sb->s_sequence);
		newest_before(run, tail_tid, wanted);
		for (uint32_t n = 0; n < BLOCKS; n++)
			assert_true(home[n] >= wanted[n] || is_logged_after(run, n, tail_tid, e));
		moves++;
	}
	assert_true(moves > 3);
}

static void invariants_hold(void **state)
{
	const struct toy_options opt = {
		.block_bytes = 1024, .log_blocks = 1024, .home_blocks = BLOCKS, .first_tid = 0, .csum_v3 = true,
		.is_64bit = true, .record = true,
	};
	struct run *run = calloc(1, sizeof(*run));

	toy_open(&run->toy, &opt);
	run_workload(run, 1);
	assert_int_equal(journal_checkpoint_all(run->toy.j), 0);
	find_commits(run);
	check_j1(run);
	check_j2(run);
	check_j4(run);
	assert_int_equal(toy_close(&run->toy), 0);
	free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(invariants_hold) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
