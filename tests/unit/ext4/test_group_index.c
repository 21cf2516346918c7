/* SPDX-License-Identifier: MIT */
/* test_group_index.c - groups are found by their largest chunk, nearest first */
#include <pthread.h>
#include <stdlib.h>

#include "ext4/balloc_private.h"
#include "unit.h"

#define GROUPS 10000u

static void nearest_group_of_the_order_is_found(void **state)
{
	static uint32_t largest[GROUPS];
	struct group_index ix = { 0 };
	group_t i, from, expect;
	uint32_t order;
	unsigned step;

	assert_int_equal(group_index_init(&ix, GROUPS), 0);
	srand(7);
	for (step = 0; step < 20000; step++) {
		uint32_t to = rand() % 20 ? 0 : 1 + (uint32_t)rand() % 16;

		i = (group_t)rand() % GROUPS;
		group_index_move(&ix, i, largest[i], to);
		largest[i] = to;
		if (step % 16)
			continue;
		from = (group_t)rand() % GROUPS;
		order = (uint32_t)rand() % 16;
		for (expect = from; expect < GROUPS && (!largest[expect] || largest[expect] - 1 < order);)
			expect++;
		assert_int_equal(group_index_next(&ix, order, from, GROUPS), expect);
	}
	for (i = 0, order = 0; i < GROUPS; i++)
		order = max_of(order, largest[i]);
	assert_int_equal(group_index_largest(&ix), order);
	group_index_exit(&ix);
}

static void the_end_bounds_the_search(void **state)
{
	struct group_index ix = { 0 };

	assert_int_equal(group_index_init(&ix, 200), 0);
	group_index_move(&ix, 150, 0, 4);
	assert_int_equal(group_index_next(&ix, 3, 0, 200), 150);
	assert_int_equal(group_index_next(&ix, 3, 0, 150), 150);
	assert_int_equal(group_index_next(&ix, 3, 0, 10), 10);
	assert_int_equal(group_index_next(&ix, 3, 151, 200), 200);
	assert_int_equal(group_index_next(&ix, 4, 0, 200), 200);
	assert_int_equal(group_index_largest(&ix), 4);
	group_index_move(&ix, 150, 4, 0);
	assert_int_equal(group_index_largest(&ix), 0);
	group_index_exit(&ix);
}

struct mover {
	struct group_index *ix;
	group_t first;
};

/* Each thread moves its own groups, as under their locks; they share words and summary bits. */
static void *move_own_groups(void *arg)
{
	struct mover *m = arg;
	uint32_t old[16] = { 0 };
	unsigned seed = m->first + 1, step;
	group_t i;

	for (step = 0; step < 50000; step++) {
		uint32_t to = (uint32_t)rand_r(&seed) % 3;

		i = (group_t)rand_r(&seed) % 16;
		group_index_move(m->ix, m->first + i * 4, old[i], to);
		old[i] = to;
	}
	for (i = 0; i < 16; i++)
		group_index_move(m->ix, m->first + i * 4, old[i], 3);
	return NULL;
}

static void neighbours_that_change_at_once_lose_no_bit(void **state)
{
	struct group_index ix = { 0 };
	struct mover movers[4];
	pthread_t threads[4];
	group_t i;

	assert_int_equal(group_index_init(&ix, 64), 0);
	for (i = 0; i < 4; i++) {
		movers[i] = (struct mover){ &ix, i };
		assert_int_equal(pthread_create(&threads[i], NULL, move_own_groups, &movers[i]), 0);
	}
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 64; i++)
		assert_int_equal(group_index_next(&ix, 2, i, 64), i);
	assert_int_equal(group_index_largest(&ix), 3);
	group_index_exit(&ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nearest_group_of_the_order_is_found),
		cmocka_unit_test(the_end_bounds_the_search),
		cmocka_unit_test(neighbours_that_change_at_once_lose_no_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
