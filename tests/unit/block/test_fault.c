/* SPDX-License-Identifier: MIT */
/* test_fault.c - rules hit what they name, and do what they say */
#include "block/fault.h"

#include <errno.h>

#include "harness.h"

#define BYTES 65536

static char bytes[BYTES];

static struct block_device *open_fault(uint64_t seed)
{
	struct block_device *lower, *fault;

	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(block_open_memory(BYTES, bytes, &lower), 0);
	assert_int_equal(block_open_fault(lower, seed, &fault), 0);
	return fault;
}

static int write_at(struct block_device *dev, uint64_t pos_bytes)
{
	char *buf = aligned_buffer(4096);
	int err;

	pattern_fill(buf, 4096, 1);
	err = block_write(dev, pos_bytes, buf, 4096, 0);
	free(buf);
	return err;
}

static void the_nth_and_its_followers_fail_and_others_do_not(void **state)
{
	struct block_device *dev = open_fault(1);
	struct fault_rule rule = { .ops = FAULT_OP(BIO_WRITE), .nth = 2, .count = 2, .action = FAULT_FAIL, .err = -EIO };

	assert_int_equal(fault_add_rule(dev, &rule), 0);
	assert_int_equal(write_at(dev, 0), 0);
	assert_int_equal(block_flush(dev), 0);
	assert_int_equal(write_at(dev, 4096), -EIO);
	assert_int_equal(write_at(dev, 4096), -EIO);
	assert_int_equal(write_at(dev, 8192), 0);
	expect_pattern(bytes, 4096, 1);
	expect_zeros(bytes + 4096, 4096);
	expect_pattern(bytes + 8192, 4096, 1);
	assert_int_equal(fault_hits(dev), 2);
	assert_int_equal(fault_requests(dev, BIO_WRITE), 4);
	assert_int_equal(fault_requests(dev, BIO_FLUSH), 1);
	assert_int_equal(block_close(dev), 0);
}

static void only_the_named_range_fails(void **state)
{
	struct block_device *dev = open_fault(1);
	struct fault_rule rule = { .ops = FAULT_ANY_OP, .start_bytes = 8192, .len_bytes = 4096, .nth = 1,
				   .action = FAULT_FAIL, .err = -ENOSPC };

	assert_int_equal(fault_add_rule(dev, &rule), 0);
	assert_int_equal(write_at(dev, 4096), 0);
	assert_int_equal(write_at(dev, 12288), 0);
	assert_int_equal(block_flush(dev), 0);
	assert_int_equal(write_at(dev, 8192), -ENOSPC);
	fault_clear_rules(dev);
	assert_int_equal(write_at(dev, 8192), 0);
	assert_int_equal(block_close(dev), 0);
}

static void a_short_write_leaves_its_first_half(void **state)
{
	struct block_device *dev = open_fault(1);
	struct fault_rule rule = { .ops = FAULT_OP(BIO_WRITE), .nth = 1, .action = FAULT_SHORT, .err = -EIO };

	assert_int_equal(fault_add_rule(dev, &rule), 0);
	assert_int_equal(write_at(dev, 0), -EIO);
	expect_pattern(bytes, 2048, 1);
	expect_zeros(bytes + 2048, 2048);
	assert_int_equal(block_close(dev), 0);
}

static void a_torn_write_leaves_whole_sectors_and_may_lie(void **state)
{
	static char wanted[4096];
	struct block_device *dev = open_fault(7);
	struct fault_rule rule = { .ops = FAULT_OP(BIO_WRITE), .nth = 1, .action = FAULT_TEAR, .err = 0 };
	unsigned arrived = 0;

	pattern_fill(wanted, 4096, 1);
	assert_int_equal(fault_add_rule(dev, &rule), 0);
	assert_int_equal(write_at(dev, 0), 0);
	for (unsigned at = 0; at < 4096; at += 512) {
		if (memcmp(bytes + at, wanted + at, 512))
			expect_zeros(bytes + at, 512);
		else
			arrived++;
	}
	assert_in_range(arrived, 1, 7);
	assert_int_equal(block_close(dev), 0);
}

static uint64_t hits_by_chance(uint64_t seed, uint64_t *mask_out)
{
	struct block_device *dev = open_fault(seed);
	struct fault_rule rule = { .ops = FAULT_OP(BIO_WRITE), .chance_ppm = 250000, .action = FAULT_FAIL, .err = -EIO };
	uint64_t hits;

	*mask_out = 0;
	assert_int_equal(fault_add_rule(dev, &rule), 0);
	for (int i = 0; i < 64; i++)
		*mask_out |= (uint64_t)(write_at(dev, 0) == -EIO) << i;
	hits = fault_hits(dev);
	assert_int_equal(block_close(dev), 0);
	return hits;
}

static void chance_repeats_by_seed(void **state)
{
	uint64_t first, again, other;

	assert_in_range(hits_by_chance(3, &first), 1, 63);
	hits_by_chance(3, &again);
	hits_by_chance(4, &other);
	assert_true(first == again);
	assert_true(first != other);
}

static void a_delayed_request_is_done_in_full(void **state)
{
	struct block_device *dev = open_fault(1);
	struct fault_rule rule = { .ops = FAULT_ANY_OP, .nth = 1, .action = FAULT_DELAY, .delay_ns = 1000000 };

	assert_int_equal(fault_add_rule(dev, &rule), 0);
	assert_int_equal(write_at(dev, 0), 0);
	expect_pattern(bytes, 4096, 1);
	assert_int_equal(block_flush(dev), 0);
	assert_int_equal(fault_hits(dev), 2);
	assert_int_equal(block_close(dev), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_and_its_followers_fail_and_others_do_not),
		cmocka_unit_test(only_the_named_range_fails),
		cmocka_unit_test(a_short_write_leaves_its_first_half),
		cmocka_unit_test(a_torn_write_leaves_whole_sectors_and_may_lie),
		cmocka_unit_test(chance_repeats_by_seed),
		cmocka_unit_test(a_delayed_request_is_done_in_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
