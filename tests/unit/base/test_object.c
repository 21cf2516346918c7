/* SPDX-License-Identifier: MIT */
/* test_object.c - objects that one thread makes and another frees: zeroed, never two owners, any size */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/object.h"
#include "rounds.h"
#include "unit.h"

#define MAKERS 3u
#define QUEUE  256u

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

#if !defined(UEXT4_ASAN) && !defined(UEXT4_TSAN)
/* What the trim leaves is less than a tenth of what was in use. */
static void test_trimmed(void **state)
{
	enum { COUNT = 20000, BYTES = 256 };
	static void *p[COUNT];
	size_t before = mallinfo2().uordblks, after;

	for (unsigned i = 0; i < COUNT; i++)
		p[i] = object_alloc(BYTES);
	for (unsigned i = 0; i < COUNT; i++)
		object_free(p[i], BYTES);
	assert_true(mallinfo2().uordblks > before + (size_t)COUNT * BYTES / 2); /* kept */
	objects_trim();
	after = mallinfo2().uordblks;
	assert_true(after < before + (size_t)COUNT * BYTES / 10);
}
#endif

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
		cmocka_unit_test(test_zeroed_again),
		cmocka_unit_test(test_many),
#if !defined(UEXT4_ASAN) && !defined(UEXT4_TSAN)
		cmocka_unit_test(test_trimmed),
#endif
		cmocka_unit_test(test_one_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
