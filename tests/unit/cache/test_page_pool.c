/* SPDX-License-Identifier: MIT */
/* test_page_pool.c - blocks do not overlap, are aligned, and their memory goes back */
#include "cache/page_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define MIB        (UINT64_C(1) << 20)
#define SLAB_BYTES (2 * MIB)

static void blocks_of_every_size_are_aligned_and_do_not_overlap(void **state)
{
	struct page_pool *pool;
	uint8_t *blocks[POOL_SHIFT_MAX + 1][3];

	assert_int_equal(page_pool_create(64 * MIB, 4 * MIB, &pool), 0);
	for (unsigned shift = POOL_SHIFT_MIN; shift <= POOL_SHIFT_MAX; shift++) {
		for (unsigned i = 0; i < 3; i++) {
			uint8_t *b = page_pool_alloc(pool, shift);

			assert_non_null(b);
			assert_int_equal((uintptr_t)b & ((UINT64_C(1) << (shift < 21 ? shift : 21)) - 1), 0);
			memset(b, (int)(shift * 3 + i), (size_t)1 << shift);
			blocks[shift][i] = b;
		}
	}
	for (unsigned shift = POOL_SHIFT_MIN; shift <= POOL_SHIFT_MAX; shift++) {
		for (unsigned i = 0; i < 3; i++) {
			uint8_t *b = blocks[shift][i];

			assert_int_equal(b[0], (uint8_t)(shift * 3 + i));
			assert_memory_equal(b, b + 1, ((size_t)1 << shift) - 1);
			page_pool_free(pool, b, shift);
		}
	}
	page_pool_destroy(pool);
}

static size_t resident_pages(uint8_t **blocks, size_t count)
{
	size_t resident = 0;
	unsigned char vec;

	for (size_t i = 0; i < count; i++)
		if (!mincore(blocks[i], 4096, &vec))
			resident += vec & 1;
	return resident;
}

/* @bytes in pages, touched, then all free again, scattered, so that slabs become empty late. */
static uint8_t **use_and_free(struct page_pool *pool, size_t bytes)
{
	size_t count = bytes / 4096;
	uint8_t **blocks = malloc(count * sizeof(*blocks));

	for (size_t i = 0; i < count; i++) {
		blocks[i] = page_pool_alloc(pool, 12);
		memset(blocks[i], 1, 4096);
	}
	for (size_t i = 0; i < count; i++)
		page_pool_free(pool, blocks[(i * 7919) % count], 12);
	return blocks;
}

/* P1 */
static void freed_memory_goes_back_when_it_has_aged(void **state)
{
	struct page_pool *pool;
	uint8_t **blocks;

	assert_int_equal(page_pool_create(64 * MIB, 2 * MIB, &pool), 0);
	blocks = use_and_free(pool, 32 * MIB);
	assert_true(resident_pages(blocks, 32 * MIB / 4096) >= 30 * MIB / 4096);
	page_pool_age(pool);
	assert_true(resident_pages(blocks, 32 * MIB / 4096) <= 18 * MIB / 4096);
	for (unsigned i = 0; i < 8; i++)
		page_pool_age(pool);
	assert_true(resident_pages(blocks, 32 * MIB / 4096) <= (2 * MIB + SLAB_BYTES) / 4096);
	free(blocks);
	page_pool_destroy(pool);
}

/* The mapping that @p lies in has @flag, two letters of VmFlags in proc(5). */
static bool has_flag(const void *p, const char *flag)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	bool inside = false, has = false;
	unsigned long from, end;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &end) == 2)
			inside = from <= (uintptr_t)p && (uintptr_t)p < end;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			has = strstr(line, flag) != NULL;
	}
	fclose(f);
	return has;
}

/* Of sixteen blocks from all over @blocks. */
static unsigned blocks_in_huge(uint8_t **blocks, size_t count)
{
	unsigned huge = 0;

	for (size_t i = 0; i < 16; i++)
		huge += has_flag(blocks[i * count / 16], " hg");
	return huge;
}

/* Huge pages for what grows; small ones for a slab of which parts went back (P1), until it serves as a whole again. */
static void slabs_are_huge_until_parts_go_back(void **state)
{
	enum { COUNT = 32 * MIB / 4096 };
	struct page_pool *pool;
	uint8_t **blocks = malloc(COUNT * sizeof(*blocks));

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		skip();
	assert_int_equal(page_pool_create(64 * MIB, MIB, &pool), 0);
	for (size_t i = 0; i < COUNT; i++)
		blocks[i] = page_pool_alloc(pool, 12);
	assert_true(has_flag(blocks[0], " nh"));
	assert_true(blocks_in_huge(blocks, COUNT) >= 8);
	for (size_t i = 0; i < COUNT; i++)
		if (i % 64)
			page_pool_free(pool, blocks[i], 12);
	for (unsigned i = 0; i < 8; i++)
		page_pool_age(pool);
	assert_true(blocks_in_huge(blocks, COUNT) <= 1);
	for (size_t i = 0; i < COUNT; i += 64)
		page_pool_free(pool, blocks[i], 12);
	for (size_t i = 0; i < COUNT; i++)
		blocks[i] = page_pool_alloc(pool, 12);
	assert_true(blocks_in_huge(blocks, COUNT) >= 8);
	for (size_t i = 0; i < COUNT; i++)
		page_pool_free(pool, blocks[i], 12);
	free(blocks);
	page_pool_destroy(pool);
}

/* P1 */
static void freed_memory_beyond_the_limit_goes_back_at_once(void **state)
{
	struct page_pool *pool;
	uint8_t **blocks;

	assert_int_equal(page_pool_create(16 * MIB, 2 * MIB, &pool), 0);
	blocks = use_and_free(pool, 32 * MIB);
	assert_true(resident_pages(blocks, 32 * MIB / 4096) <= (14 * MIB + SLAB_BYTES) / 4096);
	free(blocks);
	page_pool_destroy(pool);
}

/* A slab emptied of one size serves another: address space does not run out. */
static void sizes_can_follow_each_other_for_ever(void **state)
{
	struct page_pool *pool;
	void *blocks[64];

	assert_int_equal(page_pool_create(8 * MIB, MIB, &pool), 0);
	for (unsigned round = 0; round < 300; round++) {
		unsigned shift = 12 + round % 9;
		unsigned count = shift > 17 ? 8 : 64;

		for (unsigned i = 0; i < count; i++) {
			blocks[i] = page_pool_alloc(pool, shift);
			assert_non_null(blocks[i]);
			*(char *)blocks[i] = 1;
		}
		for (unsigned i = 0; i < count; i++)
			page_pool_free(pool, blocks[i], shift);
	}
	page_pool_destroy(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_every_size_are_aligned_and_do_not_overlap),
		cmocka_unit_test(freed_memory_goes_back_when_it_has_aged),
		cmocka_unit_test(slabs_are_huge_until_parts_go_back),
		cmocka_unit_test(freed_memory_beyond_the_limit_goes_back_at_once),
		cmocka_unit_test(sizes_can_follow_each_other_for_ever),
	};

	return cmocka_run_group_tests_name("page_pool", tests, NULL, NULL);
}
