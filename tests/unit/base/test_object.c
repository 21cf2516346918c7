/* SPDX-License-Identifier: MIT */
/* test_object.c - objects that one thread makes and another frees: zeroed, never two owners, any size */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/object.h"
#include "rounds.h"
#include "unit.h"

#define MAKERS 3u
#define QUEUE  256u

/* Sanitizers keep what is freed, or have memory of their own. */
#if defined(UEXT4_ASAN) || defined(UEXT4_TSAN)
#define MEASURES_MEMORY false
#else
#define MEASURES_MEMORY true
#endif

static const size_t sizes[] = { 0, 1, 63, 64, 65, 200, 1216, OBJECT_BYTES_MAX, OBJECT_BYTES_MAX + 1, 100000 };

static void assert_zero(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(p[i], 0);
}

static void test_zeroed_again(void **state)
{
	for (unsigned round = 0; round < 3; round++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			uint8_t *p = object_alloc(sizes[i]);

			assert_non_null(p);
			assert_int_equal((uintptr_t)p % 16, 0);
			assert_zero(p, sizes[i]);
			memset(p, 0xff, sizes[i]);
			object_free(p, sizes[i]);
		}
	object_free(NULL, 64);
	objects_trim();
}

/* More than is ever kept: the rest goes back at once, and what is kept can be had again. */
static void test_many(void **state)
{
	enum { COUNT = 100000, BYTES = 192 };
	static uint8_t *p[COUNT];

	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < COUNT; i++) {
			p[i] = object_alloc(BYTES);
			assert_non_null(p[i]);
			assert_zero(p[i], BYTES);
			memset(p[i], (int)(i % 251) + 1, BYTES);
		}
		for (unsigned i = 0; i < COUNT; i++) {
			assert_int_equal(p[i][0], i % 251 + 1);
			assert_int_equal(p[i][BYTES - 1], i % 251 + 1);
			object_free(p[i], BYTES);
		}
	}
	objects_trim();
}

/* Resident memory of this process, counted page by page: what statm says may be off by some hundred. */
static size_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	unsigned long resident_kib = 0;
	char line[256];

	assert_non_null(f);
	while (!resident_kib && fgets(line, sizeof(line), f))
		sscanf(line, "Rss: %lu kB", &resident_kib);
	fclose(f);
	assert_true(resident_kib != 0);
	return resident_kib * 1024;
}

enum { TRIM_COUNT = 200000, TRIM_BYTES = 256 };
static void *trim_object[TRIM_COUNT];

static void fill_objects(void)
{
	for (unsigned i = 0; i < TRIM_COUNT; i++)
		if (!trim_object[i]) {
			trim_object[i] = object_alloc(TRIM_BYTES);
			assert_non_null(trim_object[i]);
		}
}

/* All but each @keep th; 0: all. */
static void drop_objects(unsigned keep)
{
	for (unsigned i = 0; i < TRIM_COUNT; i++)
		if (!keep || i % keep) {
			object_free(trim_object[i], TRIM_BYTES);
			trim_object[i] = NULL;
		}
}

/* What nobody has touched yet is given back untouched. First of all: these slabs are not populated as a whole. */
static void test_trim_touches_nothing(void **state)
{
	enum { KINDS = 12 };
	void *p[KINDS];
	size_t before;

	if (!MEASURES_MEMORY)
		skip();
	for (size_t i = 0; i < KINDS; i++)
		assert_non_null(p[i] = object_alloc((i + 1) * 64));
	before = resident_bytes();
	objects_trim();
	assert_true(resident_bytes() < before + (512u << 10));
	for (size_t i = 0; i < KINDS; i++)
		object_free(p[i], (i + 1) * 64);
	objects_trim();
}

/* What is kept is bounded: most of the memory goes back without a trim, and with it nearly all. */
static void test_given_back(void **state)
{
	const size_t used = (size_t)TRIM_COUNT * TRIM_BYTES;
	size_t before = resident_bytes();

	if (!MEASURES_MEMORY)
		skip();
	fill_objects();
	assert_true(resident_bytes() >= before + used);
	drop_objects(0);
	assert_true(resident_bytes() < before + used / 2);
	objects_trim();
	assert_true(resident_bytes() < before + used / 20);
}

/* Slabs that are in use here and there are filled up before there are new ones. */
static void test_gaps_are_filled(void **state)
{
	size_t full;

	if (!MEASURES_MEMORY)
		skip();
	fill_objects();
	full = resident_bytes();
	drop_objects(100);
	fill_objects();
	assert_true(resident_bytes() < full + full / 20);
	drop_objects(0);
	objects_trim();
}

struct queue {
	_Atomic(uint64_t *) slot[QUEUE];
	atomic_bool stop;
	atomic_uint overlaps;
};

struct maker {
	struct queue *queue;
	uint64_t tag;
};

/* Marks an object as its own, looks whether it stays so, and leaves it to the thread that frees. */
static void *maker_main(void *arg)
{
	struct maker *maker = arg;
	unsigned rounds = SERIAL_ROUNDS(200000);

	for (unsigned i = 0; i < rounds; i++) {
		uint64_t *p = object_alloc(192), *old;

		if (!p || p[0] || p[20])
			atomic_fetch_add(&maker->queue->overlaps, 1);
		p[0] = p[20] = maker->tag;
		old = atomic_exchange(&maker->queue->slot[i % QUEUE], p);
		if (old && (!old[0] || old[0] != old[20]))
			atomic_fetch_add(&maker->queue->overlaps, 1);
		object_free(old, 192);
	}
	return NULL;
}

static void *freer_main(void *arg)
{
	struct queue *queue = arg;

	while (!atomic_load(&queue->stop))
		for (unsigned i = 0; i < QUEUE; i++) {
			uint64_t *p = atomic_exchange(&queue->slot[i], NULL);

			if (p && (!p[0] || p[0] != p[20]))
				atomic_fetch_add(&queue->overlaps, 1);
			object_free(p, 192);
			if (i == 7)
				objects_trim();
		}
	return NULL;
}

static void test_one_owner(void **state)
{
	static struct queue queue;
	struct maker makers[MAKERS];
	pthread_t threads[MAKERS], freer;

	assert_int_equal(pthread_create(&freer, NULL, freer_main, &queue), 0);
	for (unsigned i = 0; i < MAKERS; i++) {
		makers[i] = (struct maker){ .queue = &queue, .tag = i + 1 };
		assert_int_equal(pthread_create(&threads[i], NULL, maker_main, &makers[i]), 0);
	}
	for (unsigned i = 0; i < MAKERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&queue.stop, true);
	pthread_join(freer, NULL);
	for (unsigned i = 0; i < QUEUE; i++)
		object_free(atomic_load(&queue.slot[i]), 192);
	objects_trim();
	assert_int_equal(atomic_load(&queue.overlaps), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trim_touches_nothing),
		cmocka_unit_test(test_zeroed_again),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_gaps_are_filled),
		cmocka_unit_test(test_one_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
