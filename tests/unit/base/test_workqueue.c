/* SPDX-License-Identifier: MIT */
/* test_workqueue.c - everything queued runs once; drain and stop wait for it */
#include <stdatomic.h>

#include "base/workqueue.h"
#include "unit.h"

#define ITEMS 1000

struct item {
	struct work work;
	struct workqueue *wq;
	int index;
	int runs;      /* plain: TSan sees if drain does not order it */
	int again;
};

static struct item item[ITEMS];
static int order[ITEMS];
static int order_count;

static void run_once(struct work *work)
{
	container_of(work, struct item, work)->runs++;
}

static void run_and_queue_again(struct work *work)
{
	struct item *it = container_of(work, struct item, work);

	it->runs++;
	if (it->again-- > 0)
		workqueue_add(it->wq, work);
}

static void note_order(struct work *work)
{
	order[order_count++] = container_of(work, struct item, work)->index;
}

static void queue_all(struct workqueue *wq, void (*func)(struct work *))
{
	for (int i = 0; i < ITEMS; i++) {
		item[i] = (struct item){ .wq = wq, .index = i, .again = 2 };
		work_init(&item[i].work, func);
		workqueue_add(wq, &item[i].work);
	}
}

static void everything_runs_once_before_drain_returns(void **state)
{
	struct workqueue *wq;

	assert_int_equal(workqueue_start("test", 4, &wq), 0);
	queue_all(wq, run_once);
	workqueue_drain(wq);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(item[i].runs, 1);
	workqueue_stop(wq);
}

static void an_item_may_queue_itself_again(void **state)
{
	struct workqueue *wq;

	assert_int_equal(workqueue_start("test", 4, &wq), 0);
	queue_all(wq, run_and_queue_again);
	workqueue_stop(wq);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(item[i].runs, 3);
}

static void one_thread_runs_in_order(void **state)
{
	struct workqueue *wq;

	order_count = 0;
	assert_int_equal(workqueue_start("test", 1, &wq), 0);
	queue_all(wq, note_order);
	workqueue_stop(wq);
	assert_int_equal(order_count, ITEMS);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(order[i], i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_runs_once_before_drain_returns),
		cmocka_unit_test(an_item_may_queue_itself_again),
		cmocka_unit_test(one_thread_runs_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
