/* SPDX-License-Identifier: MIT */
/* test_counters.c - nothing is lost between threads */
#include <pthread.h>

#include "base/counters.h"
#include "unit.h"

#define THREADS 8
#define ROUNDS  20000

static struct counters counters;

static void *count_up(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		counter_add(&counters, CNT_DEVICE_READS, 1);
	return NULL;
}

static void adds_of_many_threads_sum_up(void **state)
{
	pthread_t thread[THREADS];

	memset(&counters, 0, sizeof(counters));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count_up, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(counter_read(&counters, CNT_DEVICE_READS), THREADS * ROUNDS);
	assert_int_equal(counter_read(&counters, CNT_DEVICE_WRITES), 0);
}

static void *take_back(void *arg)
{
	counter_add(&counters, CNT_ES_ENTRIES, -5);
	return NULL;
}

static void a_gauge_goes_down_on_another_thread(void **state)
{
	pthread_t thread;

	memset(&counters, 0, sizeof(counters));
	counter_add(&counters, CNT_ES_ENTRIES, 7);
	assert_int_equal(pthread_create(&thread, NULL, take_back, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(counter_read(&counters, CNT_ES_ENTRIES), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adds_of_many_threads_sum_up),
		cmocka_unit_test(a_gauge_goes_down_on_another_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
