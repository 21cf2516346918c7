/* SPDX-License-Identifier: MIT */
/* workqueue.c - a pool of threads that run queued functions */
#include "base/workqueue.h"

#include <errno.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/thread.h"

struct workqueue {
	struct mutex lock;
	struct cond work_cond;      /* work was queued, or stopping */
	struct cond idle_cond;      /* nothing queued and nothing running */
	struct list_head queue;     /* [lock] struct work, oldest first */
	unsigned running;           /* [lock] items being run */
	unsigned sleeping;          /* [lock] threads waiting for work_cond */
	bool stopping;              /* [lock] */
	unsigned thread_count;      /* [const] once started */
	pthread_t thread[];         /* [const] once started */
};

static void workqueue_run_first(struct workqueue *wq)
{
	struct work *work = list_first(&wq->queue, struct work, node);

	lock_assert_held(&wq->lock);
	list_del(&work->node);
	wq->running++;
	mutex_unlock(&wq->lock);
	work->func(work);
	mutex_lock(&wq->lock);
	wq->running--;
	if (!wq->running && list_empty(&wq->queue))
		cond_broadcast(&wq->idle_cond);
}

static void *workqueue_thread(void *arg)
{
	struct workqueue *wq = arg;

	mutex_lock(&wq->lock);
	for (;;) {
		if (!list_empty(&wq->queue)) {
			workqueue_run_first(wq);
		} else if (wq->stopping) {
			break;
		} else {
			wq->sleeping++;
			cond_wait(&wq->work_cond, &wq->lock);
			wq->sleeping--;
		}
	}
	mutex_unlock(&wq->lock);
	return NULL;
}

static void workqueue_end(struct workqueue *wq)
{
	mutex_lock(&wq->lock);
	wq->stopping = true;
	cond_broadcast(&wq->work_cond);
	mutex_unlock(&wq->lock);
	for (unsigned i = 0; i < wq->thread_count; i++)
		pthread_join(wq->thread[i], NULL);
	cond_exit(&wq->idle_cond);
	cond_exit(&wq->work_cond);
	mutex_exit(&wq->lock);
	free(wq);
}

int workqueue_start(const char *name, unsigned threads, struct workqueue **wq_out)
{
	struct workqueue *wq = calloc(1, sizeof(*wq) + threads * sizeof(wq->thread[0]));
	int err;

	UEXT4_ASSERT(threads > 0);
	if (!wq)
		return -ENOMEM;
	mutex_init(&wq->lock, RANK_WORK);
	cond_init(&wq->work_cond);
	cond_init(&wq->idle_cond);
	list_init(&wq->queue);
	while (wq->thread_count < threads) {
		err = thread_start(name, workqueue_thread, wq, &wq->thread[wq->thread_count]);
		if (err) {
			workqueue_end(wq);
			return err;
		}
		wq->thread_count++;
	}
	*wq_out = wq;
	return 0;
}

void workqueue_add(struct workqueue *wq, struct work *work)
{
	mutex_lock(&wq->lock);
	list_add_tail(&work->node, &wq->queue);
	if (wq->sleeping)
		cond_signal(&wq->work_cond);
	mutex_unlock(&wq->lock);
}

void workqueue_drain(struct workqueue *wq)
{
	mutex_lock(&wq->lock);
	while (wq->running || !list_empty(&wq->queue))
		cond_wait(&wq->idle_cond, &wq->lock);
	mutex_unlock(&wq->lock);
}

void workqueue_stop(struct workqueue *wq)
{
	if (!wq)
		return;
	workqueue_drain(wq);
	workqueue_end(wq);
}
