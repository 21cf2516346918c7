/* SPDX-License-Identifier: MIT */
/* test_block_counter.c - tokens for blocks: none lost, none invented, the last one can be had */
#include <pthread.h>
#include <stdlib.h>

#include "ext4/balloc_private.h"
#include "unit.h"

static struct block_counter counter;

static void claims_fail_only_when_the_tokens_are_gone(void **state)
{
	uint64_t left = 100000, want;

	block_counter_init(&counter, left, 0, 0);
	srand(3);
	while (left) {
		want = 1 + (uint64_t)rand() % 700;
		assert_int_equal(block_counter_claim(&counter, want, BLOCK_CLAIM_ALL), want <= left ? want : 0);
		left -= want <= left ? want : 0;
		assert_int_equal(block_counter_sum(&counter), left);
		if (left < 50 && left) {
			assert_int_equal(block_counter_claim(&counter, left + 1, BLOCK_CLAIM_ALL), 0);
			assert_int_equal(block_counter_claim(&counter, 1, BLOCK_CLAIM_ALL), 1);
			left--;
		}
	}
	assert_int_equal(block_counter_claim(&counter, 1, 0), 0);
	block_counter_give(&counter, 5);
	assert_int_equal(block_counter_claim(&counter, 9, 0), 5); /* a part will do */
	block_counter_exit(&counter);
}

static void pools_are_for_those_who_may(void **state)
{
	block_counter_init(&counter, 1000, 10, 100);
	assert_int_equal(block_counter_sum(&counter), 1000);
	assert_int_equal(block_counter_claim(&counter, 890, BLOCK_CLAIM_ALL), 890);
	assert_int_equal(block_counter_claim(&counter, 1, BLOCK_CLAIM_ALL), 0);
	assert_int_equal(block_counter_claim(&counter, 60, BLOCK_CLAIM_ALL | BLOCK_CLAIM_ROOT), 60);
	assert_int_equal(block_counter_claim(&counter, 41, BLOCK_CLAIM_ALL | BLOCK_CLAIM_ROOT), 0);
	assert_int_equal(block_counter_claim(&counter, 40, BLOCK_CLAIM_ALL | BLOCK_CLAIM_ROOT), 40);
	assert_int_equal(block_counter_claim(&counter, 1, BLOCK_CLAIM_ALL | BLOCK_CLAIM_ROOT), 0);
	assert_int_equal(block_counter_claim(&counter, 10, BLOCK_CLAIM_ALL | BLOCK_CLAIM_SPARE), 10);
	assert_int_equal(block_counter_sum(&counter), 0);
	block_counter_give(&counter, 110); /* fills the pools first */
	assert_int_equal(block_counter_claim(&counter, 1, BLOCK_CLAIM_ALL), 0);
	block_counter_give(&counter, 3);
	assert_int_equal(block_counter_claim(&counter, 4, BLOCK_CLAIM_ALL), 0);
	assert_int_equal(block_counter_claim(&counter, 3, BLOCK_CLAIM_ALL), 3);
	block_counter_exit(&counter);
}

static void a_nearly_full_disk_fills_the_pools_as_far_as_it_goes(void **state)
{
	block_counter_init(&counter, 50, 10, 100);
	assert_int_equal(block_counter_claim(&counter, 1, 0), 0);
	assert_int_equal(block_counter_claim(&counter, 40, BLOCK_CLAIM_ALL | BLOCK_CLAIM_ROOT), 40);
	block_counter_exit(&counter);
}

static void withdrawn_blocks_are_owed(void **state)
{
	block_counter_init(&counter, 10, 0, 0);
	assert_int_equal(block_counter_claim(&counter, 8, BLOCK_CLAIM_ALL), 8);
	block_counter_withdraw(&counter, 5);
	assert_int_equal(block_counter_claim(&counter, 1, 0), 0);
	block_counter_give(&counter, 3);
	assert_int_equal(block_counter_claim(&counter, 1, 0), 0);
	block_counter_give(&counter, 1);
	assert_int_equal(block_counter_claim(&counter, 1, BLOCK_CLAIM_ALL), 1);
	block_counter_exit(&counter);
}

#define THREADS 4
#define TOTAL   20000

/* Claims and gives back at random; what it still has at the end is its result. */
static void *claim_and_give(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg, step;
	uint64_t have = 0;

	for (step = 0; step < 100000; step++) {
		uint64_t n = 1 + (uint64_t)rand_r(&seed) % 300;

		if (rand_r(&seed) % 2) {
			have += block_counter_claim(&counter, n, rand_r(&seed) % 2 ? BLOCK_CLAIM_ALL : 0);
		} else {
			n = min_of(n, have);
			have -= n;
			if (n)
				block_counter_give(&counter, n);
		}
	}
	return (void *)(uintptr_t)have;
}

static void threads_share_exactly_what_there_is(void **state)
{
	pthread_t threads[THREADS];
	uint64_t have = 0, rest;
	void *result;
	unsigned i;

	block_counter_init(&counter, TOTAL, 100, 200);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, claim_and_give, (void *)(uintptr_t)(i + 1)), 0);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		have += (uintptr_t)result;
	}
	assert_int_equal(block_counter_sum(&counter) + (int64_t)have, TOTAL);
	rest = TOTAL - 300 - have;
	if (rest)
		assert_int_equal(block_counter_claim(&counter, rest, BLOCK_CLAIM_ALL), rest);
	assert_int_equal(block_counter_claim(&counter, 1, 0), 0);
	block_counter_exit(&counter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_fail_only_when_the_tokens_are_gone),
		cmocka_unit_test(pools_are_for_those_who_may),
		cmocka_unit_test(a_nearly_full_disk_fills_the_pools_as_far_as_it_goes),
		cmocka_unit_test(withdrawn_blocks_are_owed),
		cmocka_unit_test(threads_share_exactly_what_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
