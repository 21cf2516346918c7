/* SPDX-License-Identifier: MIT */
/* test_record.c - what the log says may be lost, and what may not */
#include "block/record.h"

#include <sched.h>

#include "block/fault.h"
#include "harness.h"

#define BYTES 65536

static char image[BYTES];

static struct block_device *open_record(void)
{
	struct block_device *lower, *rec;

	assert_int_equal(block_open_memory(BYTES, NULL, &lower), 0);
	assert_int_equal(block_open_record(lower, &rec), 0);
	return rec;
}

static void write_tagged(struct block_device *dev, uint64_t pos_bytes, unsigned tag, unsigned flags)
{
	char *buf = aligned_buffer(4096);

	pattern_fill(buf, 4096, tag);
	assert_int_equal(block_write(dev, pos_bytes, buf, 4096, flags), 0);
	free(buf);
}

static void build(struct block_device *rec, size_t cut, enum record_cut_kind kind, uint64_t seed)
{
	memset(image, 0, sizeof(image));
	record_build_image(rec, cut, kind, seed, image);
}

static void writes_are_logged_with_bytes_and_order_and_reads_are_not(void **state)
{
	struct block_device *rec = open_record();
	char *buf = aligned_buffer(4096);

	write_tagged(rec, 4096, 1, BIO_FUA);
	assert_int_equal(block_read(rec, 4096, buf, 4096), 0);
	expect_pattern(buf, 4096, 1);
	assert_int_equal(record_mark(rec, "half way", 42), 0);
	assert_int_equal(block_flush(rec), 0);
	assert_int_equal(record_count(rec), 3);
	assert_int_equal(record_get(rec, 0)->op, BIO_WRITE);
	assert_int_equal(record_get(rec, 0)->flags, BIO_FUA);
	assert_int_equal(record_get(rec, 0)->pos_bytes, 4096);
	expect_pattern(record_get(rec, 0)->bytes, 4096, 1);
	assert_true(record_get(rec, 1)->is_mark);
	assert_string_equal(record_get(rec, 1)->mark, "half way");
	assert_int_equal(record_get(rec, 1)->mark_value, 42);
	assert_int_equal(record_get(rec, 2)->op, BIO_FLUSH);
	assert_true(record_get(rec, 0)->completed < record_get(rec, 1)->submitted);
	free(buf);
	assert_int_equal(block_close(rec), 0);
}

static void only_flushed_or_fua_writes_are_durable(void **state)
{
	struct block_device *rec = open_record();

	write_tagged(rec, 0, 1, 0);
	assert_int_equal(block_flush(rec), 0);
	write_tagged(rec, 4096, 2, 0);
	write_tagged(rec, 8192, 3, BIO_FUA);
	assert_false(record_is_durable(rec, 0, 1));
	assert_true(record_is_durable(rec, 0, 2));
	assert_true(record_is_durable(rec, 0, 4));
	assert_false(record_is_durable(rec, 2, 4));
	assert_true(record_is_durable(rec, 3, 4));
	assert_int_equal(block_close(rec), 0);
}

static void a_preflush_makes_earlier_writes_durable(void **state)
{
	struct block_device *rec = open_record();

	write_tagged(rec, 0, 1, 0);
	write_tagged(rec, 4096, 2, BIO_PREFLUSH);
	assert_true(record_is_durable(rec, 0, 2));
	assert_false(record_is_durable(rec, 1, 2));
	assert_int_equal(block_close(rec), 0);
}

struct held {
	struct bio bio;
	struct iovec iov;
	_Atomic int done;
};

static void held_end_io(struct bio *bio, int err)
{
	container_of(bio, struct held, bio)->done = 1;
}

/* A flush covers only what had completed before it was submitted. */
static void a_write_in_flight_during_a_flush_is_not_durable(void **state)
{
	struct fault_rule slow = { .ops = FAULT_OP(BIO_WRITE), .nth = 1, .count = 1, .action = FAULT_DELAY,
				   .delay_ns = 100000000 };
	struct block_device *lower, *fault, *rec;
	struct held held = { 0 };
	size_t cut;

	assert_int_equal(block_open_memory(BYTES, NULL, &lower), 0);
	assert_int_equal(block_open_fault(lower, 1, &fault), 0);
	assert_int_equal(block_open_record(fault, &rec), 0);
	assert_int_equal(fault_add_rule(fault, &slow), 0);
	held.iov = (struct iovec){ aligned_buffer(4096), 4096 };
	held.bio = (struct bio){ .dev = rec, .op = BIO_WRITE, .len_bytes = 4096, .iov = &held.iov, .iov_count = 1,
				 .end_io = held_end_io };
	block_submit(&held.bio);
	assert_int_equal(block_flush(rec), 0);
	cut = record_count(rec);
	while (!held.done)
		sched_yield();
	assert_int_equal(record_mark(rec, "write completed", 0), 0);
	if (record_get(rec, 0)->completed > record_get(rec, 1)->submitted)
		assert_false(record_is_durable(rec, 0, cut));
	else
		print_message("[  NOTE  ] the machine was too slow to overlap write and flush\n");
	free(held.iov.iov_base);
	assert_int_equal(block_close(rec), 0);
}

/* A write with a flush before it that arrives, in whole or torn, does so after that flush. */
static void a_preflush_in_flight_arrives_after_its_flush(void **state)
{
	struct fault_rule slow = { .ops = FAULT_OP(BIO_WRITE), .nth = 2, .count = 1, .action = FAULT_DELAY,
				   .delay_ns = 100000000 };
	struct block_device *lower, *fault, *rec;
	struct held held = { 0 };
	bool saw_lost = false, saw_arrive = false;

	assert_int_equal(block_open_memory(BYTES, NULL, &lower), 0);
	assert_int_equal(block_open_fault(lower, 1, &fault), 0);
	assert_int_equal(block_open_record(fault, &rec), 0);
	assert_int_equal(fault_add_rule(fault, &slow), 0);
	write_tagged(rec, 0, 1, 0);
	held.iov = (struct iovec){ aligned_buffer(4096), 4096 };
	memset(held.iov.iov_base, 0xFF, 4096);
	held.bio = (struct bio){ .dev = rec, .op = BIO_WRITE, .flags = BIO_PREFLUSH | BIO_FUA, .pos_bytes = 8192, .len_bytes = 4096,
				 .iov = &held.iov, .iov_count = 1, .end_io = held_end_io };
	block_submit(&held.bio);
	assert_int_equal(record_mark(rec, "in flight", 0), 0);
	for (uint64_t seed = 0; seed < 64; seed++) {
		bool arrives = false;

		build(rec, 2, RECORD_CUT_RANDOM, seed);
		for (unsigned at = 0; at < 4096; at++)
			arrives |= image[8192 + at] != 0;
		if (arrives)
			expect_pattern(image, 4096, 1);
		saw_arrive |= arrives;
		saw_lost |= !arrives && !image[0] && !image[4095];
	}
	assert_true(saw_arrive && saw_lost);
	while (!held.done)
		sched_yield();
	free(held.iov.iov_base);
	assert_int_equal(block_close(rec), 0);
}

static void cuts_keep_all_or_drop_what_was_not_flushed(void **state)
{
	struct block_device *rec = open_record();

	write_tagged(rec, 0, 1, 0);
	assert_int_equal(block_flush(rec), 0);
	write_tagged(rec, 0, 2, 0);
	write_tagged(rec, 4096, 3, 0);
	build(rec, 4, RECORD_CUT_KEEPS_ALL, 0);
	expect_pattern(image, 4096, 2);
	expect_pattern(image + 4096, 4096, 3);
	build(rec, 3, RECORD_CUT_KEEPS_ALL, 0);
	expect_zeros(image + 4096, 4096);
	build(rec, 4, RECORD_CUT_DROPS_UNFLUSHED, 0);
	expect_pattern(image, 4096, 1);
	expect_zeros(image + 4096, 4096);
	assert_int_equal(block_close(rec), 0);
}

/* Each sector of the image is one that was written there, and the durable bytes never go. */
static void random_cuts_mix_old_and_new_by_sector_and_repeat_by_seed(void **state)
{
	static char again[BYTES], older[4096], newer[4096];
	struct block_device *rec = open_record();
	bool saw_torn = false;

	pattern_fill(older, 4096, 1);
	pattern_fill(newer, 4096, 2);
	write_tagged(rec, 0, 1, BIO_FUA);
	write_tagged(rec, 0, 2, 0);
	for (uint64_t seed = 0; seed < 64; seed++) {
		unsigned new_sectors = 0;

		build(rec, 2, RECORD_CUT_RANDOM, seed);
		memcpy(again, image, BYTES);
		build(rec, 2, RECORD_CUT_RANDOM, seed);
		assert_memory_equal(again, image, BYTES);
		for (unsigned at = 0; at < 4096; at += 512) {
			bool is_new = !memcmp(image + at, newer + at, 512);

			assert_true(is_new || !memcmp(image + at, older + at, 512));
			new_sectors += is_new;
		}
		saw_torn |= new_sectors > 0 && new_sectors < 8;
	}
	assert_true(saw_torn);
	assert_int_equal(block_close(rec), 0);
}

static void zeroing_is_part_of_the_image(void **state)
{
	struct block_device *rec = open_record();

	write_tagged(rec, 0, 1, 0);
	assert_int_equal(block_write_zeroes(rec, 0, 4096), 0);
	build(rec, 2, RECORD_CUT_KEEPS_ALL, 0);
	expect_zeros(image, 4096);
	build(rec, 1, RECORD_CUT_KEEPS_ALL, 0);
	expect_pattern(image, 4096, 1);
	record_reset(rec);
	assert_int_equal(record_count(rec), 0);
	assert_int_equal(block_close(rec), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_are_logged_with_bytes_and_order_and_reads_are_not),
		cmocka_unit_test(only_flushed_or_fua_writes_are_durable),
		cmocka_unit_test(a_preflush_makes_earlier_writes_durable),
		cmocka_unit_test(a_write_in_flight_during_a_flush_is_not_durable),
		cmocka_unit_test(a_preflush_in_flight_arrives_after_its_flush),
		cmocka_unit_test(cuts_keep_all_or_drop_what_was_not_flushed),
		cmocka_unit_test(random_cuts_mix_old_and_new_by_sector_and_repeat_by_seed),
		cmocka_unit_test(zeroing_is_part_of_the_image),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
