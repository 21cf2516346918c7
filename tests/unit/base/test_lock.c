/* SPDX-License-Identifier: MIT */
/* test_lock.c - mutual exclusion, ownership and waiting of every lock kind */
#include "base/lock.h"

#include <sched.h>

#include "unit.h"

#define THREADS 4
#define ROUNDS  5000

#define WORD_LOCK    1u
#define WORD_WAITERS 2u
#define WORD_OTHER   4u

static struct {
	struct mutex mutex;
	struct rwsem rwsem;
	struct cond cond;
	_Atomic uint32_t word;
	long value;             /* under whichever lock is tested: plain, so that TSan sees a missing one */
	int ready;
} shared;

static void run_threads(void *(*func)(void *))
{
	pthread_t thread[THREADS];

	for (long i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, func, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static int setup(void **state)
{
	mutex_init(&shared.mutex, RANK_WORK);
	rwsem_init(&shared.rwsem, RANK_MAP);
	cond_init(&shared.cond);
	atomic_store(&shared.word, 0);
	shared.value = 0;
	shared.ready = 0;
	return 0;
}

static int teardown(void **state)
{
	cond_exit(&shared.cond);
	rwsem_exit(&shared.rwsem);
	mutex_exit(&shared.mutex);
	return 0;
}

static void *mutex_adder(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		mutex_lock(&shared.mutex);
		shared.value++;
		mutex_unlock(&shared.mutex);
	}
	return NULL;
}

static void a_mutex_excludes(void **state)
{
	run_threads(mutex_adder);
	assert_int_equal(shared.value, THREADS * ROUNDS);
}

static void *mutex_other_thread(void *arg)
{
	bool *seen = arg;

	seen[0] = mutex_is_held(&shared.mutex);
	seen[1] = mutex_trylock(&shared.mutex);
	return NULL;
}

static void only_the_holder_of_a_mutex_holds_it(void **state)
{
	bool seen[2] = { true, true };
	pthread_t thread;

	assert_false(mutex_is_held(&shared.mutex));
	mutex_lock(&shared.mutex);
	assert_true(mutex_is_held(&shared.mutex));
	assert_int_equal(pthread_create(&thread, NULL, mutex_other_thread, seen), 0);
	pthread_join(thread, NULL);
	assert_false(seen[0]);
	assert_false(seen[1]);
	mutex_unlock(&shared.mutex);
	assert_false(mutex_is_held(&shared.mutex));
}

static void *rwsem_mixed(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (i % 4) {
			long before;

			rwsem_read_lock(&shared.rwsem);
			before = shared.value;
			assert_int_equal(shared.value, before);
			rwsem_read_unlock(&shared.rwsem);
		} else {
			rwsem_write_lock(&shared.rwsem);
			shared.value++;
			rwsem_write_unlock(&shared.rwsem);
		}
	}
	return NULL;
}

static void a_writer_excludes_readers_and_writers(void **state)
{
	run_threads(rwsem_mixed);
	assert_int_equal(shared.value, THREADS * ROUNDS / 4);
}

static void readers_share_and_keep_writers_out(void **state)
{
	rwsem_read_lock(&shared.rwsem);
	assert_true(rwsem_read_trylock(&shared.rwsem));
	assert_false(rwsem_write_trylock(&shared.rwsem));
	rwsem_read_unlock(&shared.rwsem);
	rwsem_read_unlock(&shared.rwsem);
	assert_true(rwsem_write_trylock(&shared.rwsem));
	assert_true(rwsem_is_write_held(&shared.rwsem));
	assert_false(rwsem_read_trylock(&shared.rwsem));
	rwsem_write_unlock(&shared.rwsem);
	assert_false(rwsem_is_write_held(&shared.rwsem));
}

static void *cond_setter(void *arg)
{
	mutex_lock(&shared.mutex);
	shared.ready = 1;
	cond_signal(&shared.cond);
	mutex_unlock(&shared.mutex);
	return NULL;
}

static void a_signal_wakes_a_waiter_that_owns_the_mutex_again(void **state)
{
	pthread_t thread;

	mutex_lock(&shared.mutex);
	assert_int_equal(pthread_create(&thread, NULL, cond_setter, NULL), 0);
	while (!shared.ready)
		cond_wait(&shared.cond, &shared.mutex);
	assert_true(mutex_is_held(&shared.mutex));
	mutex_unlock(&shared.mutex);
	pthread_join(thread, NULL);
}

static void a_wait_that_nobody_answers_times_out(void **state)
{
	mutex_lock(&shared.mutex);
	while (cond_wait_timeout(&shared.cond, &shared.mutex, 1000000))
		;
	assert_true(mutex_is_held(&shared.mutex));
	mutex_unlock(&shared.mutex);
}

static void *word_adder(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		word_bit_lock(&shared.word, WORD_LOCK, WORD_WAITERS);
		shared.value++;
		word_bit_unlock(&shared.word, WORD_LOCK, WORD_WAITERS);
	}
	return NULL;
}

static void a_word_bit_excludes_and_leaves_other_bits_alone(void **state)
{
	atomic_store(&shared.word, WORD_OTHER);
	run_threads(word_adder);
	assert_int_equal(shared.value, THREADS * ROUNDS);
	assert_int_equal(atomic_load(&shared.word), WORD_OTHER);
}

static void *word_waiter(void *arg)
{
	word_bit_wait_clear(&shared.word, arg ? WORD_OTHER : WORD_LOCK, WORD_WAITERS);
	return NULL;
}

static void sleepers_for_two_bits_share_one_waiters_bit(void **state)
{
	pthread_t first, second;

	atomic_store(&shared.word, WORD_LOCK | WORD_OTHER);
	assert_int_equal(pthread_create(&first, NULL, word_waiter, NULL), 0);
	assert_int_equal(pthread_create(&second, NULL, word_waiter, &shared), 0);
	while (!(atomic_load(&shared.word) & WORD_WAITERS))
		sched_yield();
	word_bit_unlock(&shared.word, WORD_LOCK, WORD_WAITERS);
	pthread_join(first, NULL);
	word_bit_unlock(&shared.word, WORD_OTHER, WORD_WAITERS);
	pthread_join(second, NULL);
	assert_int_equal(atomic_load(&shared.word), 0);
}

int main(void)
{
#define LOCK_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		LOCK_TEST(a_mutex_excludes),
		LOCK_TEST(only_the_holder_of_a_mutex_holds_it),
		LOCK_TEST(a_writer_excludes_readers_and_writers),
		LOCK_TEST(readers_share_and_keep_writers_out),
		LOCK_TEST(a_signal_wakes_a_waiter_that_owns_the_mutex_again),
		LOCK_TEST(a_wait_that_nobody_answers_times_out),
		LOCK_TEST(a_word_bit_excludes_and_leaves_other_bits_alone),
		LOCK_TEST(sleepers_for_two_bits_share_one_waiters_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
