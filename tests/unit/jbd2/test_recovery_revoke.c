/* SPDX-License-Identifier: MIT */
/* test_recovery_revoke.c - the set of revoke records in a log: right, and in time and memory that follow their number */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "jbd2/recovery_private.h"

#define MILLION UINT64_C(1000000)
/* Three quarters full a table of random keys needs 8.5 steps on average to a free slot. */
#define STEPS_MAX 12u
#define ROOM_MAX 4u /* slots for each record */

static fsblk_t nth_block(unsigned pattern, uint64_t n)
{
	switch (pattern) {
	case 0:
		return n;
	case 1:
		return n * 32768 + 7;     /* one of each group */
	case 2:
		return n << 32 | n;       /* a large device */
	default:
		return n * UINT64_C(0x9e3779b97f4a7c15) >> 20;
	}
}

/* Steps from each slot to the next free one, together: what looking up all keys that are not there would cost. */
static uint64_t steps_to_free(const struct replay_revokes *revokes)
{
	uint64_t start = 0, steps = 0, run = 0;

	while (revokes->slots[start].key)
		start++;
	for (uint64_t i = 1; i <= revokes->room; i++) {
		if (revokes->slots[(start + i) % revokes->room].key) {
			run++;
			continue;
		}
		steps += run * (run + 1) / 2;
		run = 0;
	}
	return steps;
}

static void check_count(unsigned pattern, uint64_t count)
{
	struct replay_revokes revokes;

	replay_revokes_init(&revokes);
	for (uint64_t n = 0; n < count; n++)
		assert_int_equal(replay_revokes_add(&revokes, nth_block(pattern, n), 5), 0);
	assert_int_equal(revokes.count, count);
	assert_true(revokes.room <= ROOM_MAX * count);
	assert_true(steps_to_free(&revokes) <= STEPS_MAX * revokes.room);
	for (uint64_t n = 0; n < count; n += 997) {
		assert_true(replay_revokes_covers(&revokes, nth_block(pattern, n), 5));
		assert_false(replay_revokes_covers(&revokes, nth_block(pattern, n), 6));
	}
	replay_revokes_exit(&revokes);
}

/* Goal: whatever blocks they name, a million records, and two, cost a bounded number of steps and slots each. */
static void millions_of_records_cost_the_same_each(void **state)
{
	for (unsigned pattern = 0; pattern < 4; pattern++) {
		check_count(pattern, MILLION);
		check_count(pattern, 2 * MILLION);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(millions_of_records_cost_the_same_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
