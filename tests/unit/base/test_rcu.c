/* SPDX-License-Identifier: MIT */
/* test_rcu.c - readers never see what has been freed; deferred functions run once */
#include <pthread.h>
#include <stdatomic.h>

#include "base/rcu.h"
#include "unit.h"

#define READERS 3
#define UPDATES 200
#define ALIVE   0x600D600Du

struct object {
	struct rcu_head rcu;
	uint32_t magic;   /* plain: TSan sees a missing grace period */
};

static _Atomic(struct object *) published;
static atomic_bool stop;
static atomic_uint freed;
static atomic_uint bad_reads;

static struct object *object_make(void)
{
	struct object *obj = malloc(sizeof(*obj));

	obj->magic = ALIVE;
	return obj;
}

static void object_free(struct rcu_head *head)
{
	struct object *obj = container_of(head, struct object, rcu);

	obj->magic = 0;
	free(obj);
	atomic_fetch_add(&freed, 1);
}

static void *reader(void *arg)
{
	while (!atomic_load(&stop)) {
		rcu_enter();
		rcu_enter();
		rcu_leave();
		if (atomic_load_explicit(&published, memory_order_acquire)->magic != ALIVE)
			atomic_fetch_add(&bad_reads, 1);
		rcu_leave();
	}
	return NULL;
}

static void with_readers(void (*update)(struct object *old))
{
	pthread_t thread[READERS];

	atomic_store(&stop, false);
	atomic_store(&freed, 0);
	atomic_store(&published, object_make());
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, reader, NULL), 0);
	for (int i = 0; i < UPDATES; i++)
		update(atomic_exchange(&published, object_make()));
	atomic_store(&stop, true);
	for (int i = 0; i < READERS; i++)
		pthread_join(thread[i], NULL);
	free(atomic_load(&published));
	assert_int_equal(atomic_load(&bad_reads), 0);
}

static void update_deferred(struct object *old)
{
	rcu_defer(&old->rcu, object_free);
}

static void update_synchronous(struct object *old)
{
	rcu_synchronize();
	object_free(&old->rcu);
}

static void deferred_frees_wait_for_readers_and_all_run(void **state)
{
	with_readers(update_deferred);
	rcu_drain();
	assert_int_equal(atomic_load(&freed), UPDATES);
}

static void synchronize_waits_for_readers(void **state)
{
	with_readers(update_synchronous);
	assert_int_equal(atomic_load(&freed), UPDATES);
}

static void a_section_may_defer(void **state)
{
	struct object *obj = object_make();

	atomic_store(&freed, 0);
	rcu_enter();
	rcu_defer(&obj->rcu, object_free);
	assert_int_equal(obj->magic, ALIVE);
	assert_int_equal(atomic_load(&freed), 0);
	rcu_leave();
	rcu_drain();
	assert_int_equal(atomic_load(&freed), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deferred_frees_wait_for_readers_and_all_run),
		cmocka_unit_test(synchronize_waits_for_readers),
		cmocka_unit_test(a_section_may_defer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
