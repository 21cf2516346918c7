/* SPDX-License-Identifier: MIT */
/* workqueue.h - a pool of threads that run queued functions */
#ifndef UEXT4_BASE_WORKQUEUE_H
#define UEXT4_BASE_WORKQUEUE_H

#include "base/list.h"
#include "base/types.h"

struct workqueue; /* opaque; fields in workqueue.c */

/* Embedded in what is to be worked on. Belongs to the queue from workqueue_add() until func is called. */
struct work {
	struct list_head node;
	void (*func)(struct work *work); /* may free @work, may block, may queue it again */
};

static inline void work_init(struct work *work, void (*func)(struct work *work))
{
	list_init(&work->node);
	work->func = func;
}

/**
 * workqueue_start() - start a pool
 * @name:        of its threads, as ps and debuggers show it; at most 15 bytes are kept
 * @threads:     how many, at least 1
 * @wq_out:      the pool; workqueue_stop() it
 *
 * Work is started first in, first out, and one item at a time per thread, so a pool of one thread runs
 * everything in order. Signals are blocked in the threads: they are not the embedding program's.
 *
 * Context: blocks. Return: 0, or -ENOMEM, -EAGAIN (no thread).
 */
int workqueue_start(const char *name, unsigned threads, struct workqueue **wq_out);

/* Any context where a lock of RANK_WORK may be taken; never fails. @work must not be queued already. */
void workqueue_add(struct workqueue *wq, struct work *work);

/* Waits until everything queued before the call, and what that queued in turn, has run. Not from a work item. */
void workqueue_drain(struct workqueue *wq);

/* Drains, ends the threads and frees @wq. NULL is fine. Nobody else may use it any more. */
void workqueue_stop(struct workqueue *wq);

#endif
