/* SPDX-License-Identifier: MIT */
/* test_buddy.c - the buddy system agrees with a plain bitmap whatever is taken and given back */
#include <stdlib.h>
#include <string.h>

#include "ext4/balloc_private.h"
#include "unit.h"

#define BLOCKS 32768u

static uint8_t bitmap[BLOCKS / 8];

static void bit_set(uint32_t bit, bool used)
{
	if (used)
		bitmap[bit / 8] |= (uint8_t)(1u << bit % 8);
	else
		bitmap[bit / 8] &= (uint8_t)~(1u << bit % 8);
}

static bool is_free(uint32_t bit) { return !(bitmap[bit / 8] & 1u << bit % 8); }

/* B1 and B2: each free block in exactly one chunk, no two free buddies, all counts right. */
static void check_invariants(const struct buddy *b)
{
	uint8_t *covered = calloc(1, b->blocks);
	uint32_t order, i, j, free_blks = 0;

	assert_non_null(covered);
	for (order = 0; order < b->orders; order++) {
		uint32_t chunks = 0, count = div_round_up(b->blocks, 1u << order);

		for (i = 0; i < count; i++) {
			if (!(b->map[order][i / 64] >> (i % 64) & 1))
				continue;
			chunks++;
			assert_true((i + 1) << order <= b->blocks);
			for (j = i << order; j < (i + 1) << order; j++)
				assert_int_equal(covered[j]++, 0);
			if (order + 1 < b->orders)
				assert_false(b->map[order][(i ^ 1) / 64] >> ((i ^ 1) % 64) & 1);
		}
		assert_int_equal(chunks, b->chunks[order]);
	}
	for (i = 0; i < b->blocks; i++) {
		assert_int_equal(covered[i], is_free(i));
		assert_int_equal(b->free_map[i / 64] >> (i % 64) & 1, is_free(i));
		free_blks += is_free(i);
	}
	assert_int_equal(b->free, free_blks);
	free(covered);
}

static uint32_t run_in_bitmap(uint32_t start, uint32_t blocks, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && start + n < blocks && is_free(start + n))
		n++;
	return n;
}

static uint32_t run_before_in_bitmap(uint32_t start, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && n < start && is_free(start - n - 1))
		n++;
	return n;
}

static void random_walk(uint32_t blocks, unsigned seed, unsigned steps)
{
	struct buddy *b;
	uint32_t i, start, len, n;

	srand(seed);
	memset(bitmap, 0, sizeof(bitmap));
	for (i = 0; i < blocks; i++)
		bit_set(i, rand() % 100 < (int)(seed % 90));
	b = buddy_create(bitmap, blocks);
	assert_non_null(b);
	check_invariants(b);
	while (steps--) {
		start = (uint32_t)rand() % blocks;
		len = 1 + (uint32_t)rand() % (rand() % 8 ? 40 : 5000);
		assert_int_equal(buddy_run_at(b, start, len), run_in_bitmap(start, blocks, len));
		assert_int_equal(buddy_run_before(b, start, len), run_before_in_bitmap(start, len));
		n = run_in_bitmap(start, blocks, len);
		if (n) {
			buddy_take(b, start, n);
			for (i = start; i < start + n; i++)
				bit_set(i, true);
		} else {
			for (n = 0; n < len && start + n < blocks && !is_free(start + n); n++)
				bit_set(start + n, false);
			buddy_give(b, start, n);
		}
		if (steps % 64 == 0)
			check_invariants(b);
	}
	check_invariants(b);
	buddy_free(b);
}

static void takes_and_gives_keep_it_equal_to_a_bitmap(void **state)
{
	random_walk(BLOCKS, 1, 400);
	random_walk(BLOCKS, 50, 400);
	random_walk(BLOCKS, 89, 400);
}

static void odd_sizes_of_groups_work(void **state)
{
	static const uint32_t sizes[] = { 1, 7, 8, 63, 64, 65, 1000, 8192, 12345, 32760 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		random_walk(sizes[i], 20 + (unsigned)i, 200);
}

static void find_gives_a_chunk_of_the_order_and_misses_none(void **state)
{
	uint32_t start, order;
	struct buddy *b;

	memset(bitmap, 0xff, sizeof(bitmap));
	for (start = 5000; start < 5040; start++) /* aligned chunks in it: 5000+8, 5008+16, 5024+16 */
		bit_set(start, false);
	bit_set(9, false);
	b = buddy_create(bitmap, BLOCKS);
	assert_non_null(b);
	assert_int_equal(buddy_largest(b), 5);
	assert_true(buddy_find(b, 0, 0, &start));
	assert_int_equal(start, 9);
	assert_true(buddy_find(b, 1, 0, &start));
	assert_int_equal(start, 5000);
	assert_true(buddy_find(b, 4, 5009, &start)); /* at or after */
	assert_int_equal(start, 5024);
	assert_true(buddy_find(b, 4, 5025, &start)); /* around the end */
	assert_int_equal(start, 5008);
	for (order = 5; order < b->orders; order++)
		assert_false(buddy_find(b, order, 0, &start));
	buddy_free(b);
}

static void a_full_group_finds_nothing(void **state)
{
	struct buddy *b;
	uint32_t start;

	memset(bitmap, 0xff, sizeof(bitmap));
	b = buddy_create(bitmap, BLOCKS);
	assert_non_null(b);
	assert_int_equal(b->free, 0);
	assert_int_equal(buddy_largest(b), 0);
	assert_false(buddy_find(b, 0, 77, &start));
	buddy_give(b, 0, BLOCKS);
	assert_int_equal(buddy_largest(b), 16);
	buddy_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_and_gives_keep_it_equal_to_a_bitmap),
		cmocka_unit_test(odd_sizes_of_groups_work),
		cmocka_unit_test(find_gives_a_chunk_of_the_order_and_misses_none),
		cmocka_unit_test(a_full_group_finds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
