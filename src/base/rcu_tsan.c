/* SPDX-License-Identifier: MIT */
/* rcu_tsan.c - the RCU calls over reader-writer locks, for ThreadSanitizer */
#include "base/rcu.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/counters.h"

/*
 * A reader holds its thread's shard shared; a grace period takes each shard exclusively in turn. That gives
 * TSan the two edges RCU promises: what a reader did in its section happens before the grace period ends,
 * and what the updater did before the grace period happens before any section that starts after it.
 *
 * Deferred functions run in order on one thread, a batch per grace period. It is started on first use
 * and stays for the life of the process, as liburcu's does.
 */
#define RCU_SHARDS COUNTER_SHARDS

static struct {
	pthread_once_t once;
	pthread_rwlock_t shard[RCU_SHARDS];
	pthread_mutex_t lock;
	pthread_cond_t queued_cond;
	pthread_cond_t done_cond;
	struct rcu_head *first;  /* [lock] */
	struct rcu_head **last;  /* [lock] */
	uint64_t queued;         /* [lock] functions ever deferred */
	uint64_t done;           /* [lock] functions that have run */
} rcu = { .once = PTHREAD_ONCE_INIT };

static __thread unsigned nesting;

static struct rcu_head *rcu_take_batch(void)
{
	struct rcu_head *batch;

	pthread_mutex_lock(&rcu.lock);
	while (!rcu.first)
		pthread_cond_wait(&rcu.queued_cond, &rcu.lock);
	batch = rcu.first;
	rcu.first = NULL;
	rcu.last = &rcu.first;
	pthread_mutex_unlock(&rcu.lock);
	return batch;
}

static uint64_t rcu_run_batch(struct rcu_head *batch)
{
	uint64_t count = 0;

	while (batch) {
		struct rcu_head *next = batch->next; /* func frees it */

		batch->func(batch);
		batch = next;
		count++;
	}
	return count;
}

static void *rcu_thread(void *arg)
{
	for (;;) {
		struct rcu_head *batch = rcu_take_batch();
		uint64_t count;

		rcu_synchronize();
		count = rcu_run_batch(batch);
		pthread_mutex_lock(&rcu.lock);
		rcu.done += count;
		pthread_cond_broadcast(&rcu.done_cond);
		pthread_mutex_unlock(&rcu.lock);
	}
	return NULL;
}

static void rcu_init(void)
{
	pthread_rwlockattr_t attr;
	pthread_t thread;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	for (unsigned i = 0; i < RCU_SHARDS; i++)
		pthread_rwlock_init(&rcu.shard[i], &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&rcu.lock, NULL);
	pthread_cond_init(&rcu.queued_cond, NULL);
	pthread_cond_init(&rcu.done_cond, NULL);
	rcu.last = &rcu.first;
	if (pthread_create(&thread, NULL, rcu_thread, NULL))
		abort();
	pthread_detach(thread);
}

void rcu_enter(void)
{
	pthread_once(&rcu.once, rcu_init);
	if (nesting++ == 0)
		pthread_rwlock_rdlock(&rcu.shard[counter_shard_index()]);
}

void rcu_leave(void)
{
	UEXT4_ASSERT(nesting > 0);
	if (--nesting == 0)
		pthread_rwlock_unlock(&rcu.shard[counter_shard_index()]);
}

void rcu_synchronize(void)
{
	pthread_once(&rcu.once, rcu_init);
	UEXT4_ASSERT(nesting == 0);
	for (unsigned i = 0; i < RCU_SHARDS; i++) {
		pthread_rwlock_wrlock(&rcu.shard[i]);
		pthread_rwlock_unlock(&rcu.shard[i]);
	}
}

void rcu_defer(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	pthread_once(&rcu.once, rcu_init);
	head->next = NULL;
	head->func = func;
	pthread_mutex_lock(&rcu.lock);
	*rcu.last = head;
	rcu.last = &head->next;
	rcu.queued++;
	pthread_cond_signal(&rcu.queued_cond);
	pthread_mutex_unlock(&rcu.lock);
}

void rcu_drain(void)
{
	uint64_t target;

	pthread_once(&rcu.once, rcu_init);
	pthread_mutex_lock(&rcu.lock);
	target = rcu.queued;
	while (rcu.done < target)
		pthread_cond_wait(&rcu.done_cond, &rcu.lock);
	pthread_mutex_unlock(&rcu.lock);
}
