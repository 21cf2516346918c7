/* SPDX-License-Identifier: MIT */
/* test_commit.c - what a commit leaves in the log, byte by byte, and what it means for waiters and callbacks */
#include "log_parse.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/checksum.h"

static struct parsed_transaction parsed;

static const struct toy_options plain_32 = {
	.block_bytes = 1024, .log_blocks = 1024, .home_blocks = 600, .first_tid = 7,
};
static const struct toy_options v3_64 = {
	.block_bytes = 1024, .log_blocks = 1024, .home_blocks = 600, .first_tid = 7, .csum_v3 = true, .is_64bit = true,
};
static const struct toy_options v3_32 = {
	.block_bytes = 4096, .log_blocks = 1024, .home_blocks = 600, .first_tid = 7, .csum_v3 = true,
};
static const struct toy_options async_v1 = {
	.block_bytes = 1024, .log_blocks = 1024, .home_blocks = 600, .first_tid = 7, .async_commit = true,
};

static bool parsed_has(fsblk_t blk)
{
	for (uint32_t i = 0; i < parsed.blocks; i++)
		if (parsed.block[i].blk == blk)
			return true;
	return false;
}

/* Commits @count written and @revokes freed blocks in one transaction and parses it. */
static void commit_and_parse(struct toy *toy, uint32_t count, uint32_t revokes)
{
	struct handle h;

	assert_int_equal(journal_start(toy->j, count, revokes, &h), 0);
	for (uint32_t n = 0; n < count; n++)
		assert_int_equal(toy_write(toy, &h, n, 1), 0);
	for (uint32_t n = 0; n < revokes; n++)
		assert_int_equal(toy_free(toy, &h, count + n), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(journal_wait_commit(toy->j, h.tid, NULL), 0);
	parse_transaction(toy, toy->image, be32_get(parsed_super(toy, toy->image)->s_start), h.tid, &parsed);
}

static void expect_layout(const struct toy_options *opt)
{
	struct toy toy;

	toy_open(&toy, opt);
	commit_and_parse(&toy, 200, 300);
	assert_int_equal(parsed.blocks, 200);
	assert_int_equal(parsed.revokes, 300);
	for (uint32_t n = 0; n < 200; n++)
		assert_true(parsed_has(toy_home(&toy, n)));
	assert_int_equal(be32_get(parsed_super(&toy, toy.image)->s_sequence), parsed.tid);
	assert_true(be64_get(parsed.commit.h_commit_sec) > 0);
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: each variant of the format is what its feature bits say, however many descriptors it takes. */
static void layout_of_each_format(void **state)
{
	expect_layout(&plain_32);
	expect_layout(&v3_64);
	expect_layout(&v3_32);
	expect_layout(&async_v1);
}

/* Goal: with async_commit and no other checksum, the commit block sums up descriptors and blocks. */
static void v1_checksum_covers_transaction(void **state)
{
	uint32_t crc = ~0u;
	struct toy toy;

	toy_open(&toy, &async_v1);
	commit_and_parse(&toy, 100, 1);
	/* After the one revoke block, all up to the commit block. */
	for (uint32_t i = parsed.start + 1; i < parsed.end - 1; i++)
		crc = crc32_be(crc, parsed_log_block(&toy, toy.image, i), 1024);
	assert_int_equal(parsed.commit.h_chksum_type, JBD2_CRC32_CHKSUM);
	assert_int_equal(parsed.commit.h_chksum_size, 4);
	assert_int_equal(be32_get(parsed.commit.h_chksum[0]), crc);
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: a block that begins like a log block is escaped in the log and whole at home. */
static void magic_is_escaped(void **state)
{
	const be32 magic = be32_make(JBD2_MAGIC);
	struct buffer_head *bh;
	struct handle h;
	struct toy toy;

	toy_open(&toy, &v3_64);
	assert_int_equal(journal_start(toy.j, 1, 0, &h), 0);
	assert_int_equal(buffer_read(toy.bc, toy_home(&toy, 5), &bh), 0);
	assert_int_equal(journal_get_write_access(&h, bh), 0);
	memset(bh->data, 0x5a, 1024);
	memcpy(bh->data, &magic, sizeof(magic));
	assert_int_equal(journal_dirty_metadata(&h, bh), 0);
	buffer_put(bh);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(journal_force_commit(toy.j), 0);
	parse_transaction(&toy, toy.image, be32_get(parsed_super(&toy, toy.image)->s_start), h.tid, &parsed);
	assert_int_equal(parsed.blocks, 1);
	assert_true(parsed.block[0].escaped);
	assert_memory_equal(parsed.block[0].bytes, "\0\0\0\0\x5a", 5);
	assert_int_equal(journal_checkpoint_all(toy.j), 0);
	assert_memory_equal(toy.image + toy_home(&toy, 5) * 1024, &magic, sizeof(magic));
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: a block freed in the transaction that changed it is not logged, and never goes home. */
static void freed_block_is_not_logged(void **state)
{
	struct handle h;
	struct toy toy;

	toy_open(&toy, &v3_64);
	assert_int_equal(journal_start(toy.j, 2, 1, &h), 0);
	assert_int_equal(toy_write(&toy, &h, 1, 1), 0);
	assert_int_equal(toy_write(&toy, &h, 2, 1), 0);
	assert_int_equal(toy_free(&toy, &h, 1), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(journal_force_commit(toy.j), 0);
	parse_transaction(&toy, toy.image, be32_get(parsed_super(&toy, toy.image)->s_start), h.tid, &parsed);
	assert_int_equal(parsed.blocks, 1);
	assert_int_equal(parsed.block[0].blk, toy_home(&toy, 2));
	assert_int_equal(parsed.revokes, 1);
	assert_int_equal(parsed.revoke[0], toy_home(&toy, 1));
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: a block freed and allocated again in one transaction is logged and not revoked. */
static void reallocated_block_cancels_revoke(void **state)
{
	struct handle h;
	struct toy toy;

	toy_open(&toy, &v3_64);
	toy_write_one(&toy, 1, 1);
	assert_int_equal(journal_checkpoint_all(toy.j), 0);
	assert_int_equal(journal_start(toy.j, 1, 1, &h), 0);
	assert_int_equal(toy_free(&toy, &h, 1), 0);
	assert_int_equal(toy_create(&toy, &h, 1, 2), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(journal_force_commit(toy.j), 0);
	parse_transaction(&toy, toy.image, be32_get(parsed_super(&toy, toy.image)->s_start), h.tid, &parsed);
	assert_int_equal(parsed.blocks, 1);
	assert_int_equal(parsed.revokes, 0);
	assert_int_equal(toy_close(&toy), 0);
	assert_int_equal(parsed.block[0].escaped, false);
}

/* Goal: J2. A block that was only looked at is not logged; if it was dirty from before, it still goes home. */
static void access_without_change_is_not_logged(void **state)
{
	struct buffer_head *bh;
	struct handle h;
	struct toy toy;

	toy_open(&toy, &v3_64);
	toy_write_one(&toy, 1, 1);
	assert_int_equal(journal_force_commit(toy.j), 0);
	assert_int_equal(journal_start(toy.j, 2, 0, &h), 0);
	assert_int_equal(buffer_read(toy.bc, toy_home(&toy, 1), &bh), 0);
	assert_int_equal(journal_get_write_access(&h, bh), 0);
	assert_true(buffer_test(bh, BH_JBDDIRTY));
	assert_int_equal(toy_write(&toy, &h, 2, 1), 0);
	assert_int_equal(journal_stop(&h), 0);
	buffer_put(bh);
	assert_int_equal(journal_checkpoint_all(toy.j), 0);
	assert_int_equal(toy_count(&toy, CNT_JOURNAL_BLOCKS_LOGGED), 2);
	assert_int_equal(toy_version_in(&toy, toy.image, 1), 1);
	assert_int_equal(toy_close(&toy), 0);
}

/*
 * Goal:   J6, what the next transaction changes in a block that is still to be logged does not show in the log.
 * Method: the first commit marks the superblock before it copies blocks; that write is slow, so that the change of
 *         the next transaction comes in between.
 */
static void next_transaction_does_not_leak_into_commit(void **state)
{
	struct toy_options opt = v3_64;
	struct handle next;
	uint64_t version;
	struct toy toy;
	tid_t tid;

	opt.fault = true;
	toy_open(&toy, &opt);
	assert_int_equal(fault_add_rule(toy.fault, &(struct fault_rule){
		.ops = FAULT_OP(BIO_WRITE), .start_bytes = toy_log_blk(&toy, 0) * 1024, .len_bytes = 1024, .nth = 1,
		.count = 1, .action = FAULT_DELAY, .delay_ns = 200000000 }), 0);
	tid = toy_write_one(&toy, 3, 1);
	assert_int_equal(journal_start_commit(toy.j, tid), 0);
	do
		assert_int_equal(journal_start(toy.j, 1, 0, &next), 0);
	while (next.tid == tid && (journal_stop(&next), true));
	assert_int_equal(toy_write(&toy, &next, 3, 2), 0);
	assert_int_equal(journal_wait_commit(toy.j, tid, NULL), 0);
	parse_transaction(&toy, toy.image, be32_get(parsed_super(&toy, toy.image)->s_start), tid, &parsed);
	assert_int_equal(parsed.blocks, 1);
	memcpy(&version, parsed.block[0].bytes, sizeof(version));
	assert_int_equal(version & 0xffff, 1);
	assert_int_equal(journal_stop(&next), 0);
	assert_int_equal(toy_close(&toy), 0);
}

struct counted_callback {
	struct journal_callback cb;
	unsigned runs;
	int err;
};

static void counted_run(struct journal_callback *cb, int err)
{
	struct counted_callback *cc = container_of(cb, struct counted_callback, cb);

	cc->runs++;
	cc->err = err;
}

/* Goal: callbacks run once, with the commit's fate. */
static void callbacks_run_once(void **state)
{
	struct counted_callback done = { .cb.func = counted_run }, lost = { .cb.func = counted_run };
	struct handle h;
	struct toy toy;

	toy_open(&toy, &v3_64);
	assert_int_equal(journal_start(toy.j, 1, 0, &h), 0);
	assert_int_equal(toy_write(&toy, &h, 1, 1), 0);
	journal_add_callback(&h, &done.cb);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(done.runs, 0);
	assert_int_equal(journal_checkpoint_all(toy.j), 0);
	assert_int_equal(done.runs, 1);
	assert_int_equal(done.err, 0);
	assert_int_equal(journal_start(toy.j, 1, 0, &h), 0);
	journal_add_callback(&h, &lost.cb);
	journal_abort(toy.j, -EIO);
	journal_stop(&h);
	toy_close(&toy);
	assert_int_equal(lost.runs, 1);
	assert_true(lost.err < 0);
}

/* Goal: data lost in ordered mode with data_err=abort fails the commit. */
static void lost_data_fails_commit(void **state)
{
	struct journal_data_wait wait;
	struct handle h;
	struct toy toy;

	toy_open(&toy, &v3_64);
	assert_int_equal(journal_start(toy.j, 1, 0, &h), 0);
	assert_int_equal(toy_write(&toy, &h, 1, 1), 0);
	journal_wait_begin(&h, &wait);
	assert_int_equal(journal_stop(&h), 0);
	journal_wait_end(toy.j, &wait, -EIO);
	assert_int_equal(journal_wait_commit(toy.j, h.tid, NULL), -EIO);
	assert_int_equal(journal_error(toy.j), -EIO);
	assert_int_equal(toy_close(&toy), -EIO);
}

/* Goal: a commit tells whether its flush covers what the caller wrote before; one already durable does not. */
static void wait_tells_of_the_flush(void **state)
{
	bool flushed = false;
	struct toy toy;
	tid_t tid;

	toy_open(&toy, &v3_64);
	tid = toy_write_one(&toy, 1, 1);
	assert_int_equal(journal_wait_commit(toy.j, tid, &flushed), 0);
	assert_true(flushed);
	assert_int_equal(journal_wait_commit(toy.j, tid, &flushed), 0);
	assert_false(flushed);
	assert_int_equal(toy_close(&toy), 0);
}

/* Goal: without barriers nobody is told of a flush, and none is sent. */
static void no_barriers_no_flush(void **state)
{
	struct toy_options opt = v3_64;
	bool flushed = true;
	struct toy toy;

	opt.no_barriers = true;
	toy_open(&toy, &opt);
	assert_int_equal(journal_wait_commit(toy.j, toy_write_one(&toy, 1, 1), &flushed), 0);
	assert_false(flushed);
	assert_int_equal(toy_count(&toy, CNT_JOURNAL_FLUSHES), 0);
	assert_int_equal(toy_close(&toy), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout_of_each_format),
		cmocka_unit_test(v1_checksum_covers_transaction),
		cmocka_unit_test(magic_is_escaped),
		cmocka_unit_test(freed_block_is_not_logged),
		cmocka_unit_test(reallocated_block_cancels_revoke),
		cmocka_unit_test(access_without_change_is_not_logged),
		cmocka_unit_test(next_transaction_does_not_leak_into_commit),
		cmocka_unit_test(callbacks_run_once),
		cmocka_unit_test(lost_data_fails_commit),
		cmocka_unit_test(wait_tells_of_the_flush),
		cmocka_unit_test(no_barriers_no_flush),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
