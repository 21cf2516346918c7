/* SPDX-License-Identifier: MIT */
/*
 * keeper.c - a thread that keeps a processor from looking idle
 *
 * It spins at the lowest priority there is (SCHED_IDLE): whoever has anything to do takes the processor from it at once.
 * While it runs, the scheduler does not move a thread that wakes on another processor to this one "because it is idle",
 * and the processor does not halt. It sleeps when nobody has asked for it lately.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "fuse/keeper.h"

#define LOOPS_A_LOOK 100u

struct keeper {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	_Atomic uint64_t until_ns; /* [atomic] */
	_Atomic bool sleeping;     /* [atomic] set under lock */
	_Atomic bool stopping;     /* [atomic] set under lock */
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until_wanted(struct keeper *k)
{
	pthread_mutex_lock(&k->lock);
	k->sleeping = true;
	/* An extension that did not see us sleep is one we see here. */
	while (!k->stopping && now_ns() >= k->until_ns)
		pthread_cond_wait(&k->cond, &k->lock);
	k->sleeping = false;
	pthread_mutex_unlock(&k->lock);
}

static void *keeper_main(void *arg)
{
	struct keeper *k = arg;

	while (!k->stopping) {
		if (now_ns() >= k->until_ns)
			sleep_until_wanted(k);
		for (unsigned i = 0; i < LOOPS_A_LOOK; i++)
			__asm__ volatile("");
	}
	return NULL;
}

static void end_thread(struct keeper *k)
{
	pthread_mutex_lock(&k->lock);
	k->stopping = true;
	pthread_cond_signal(&k->cond);
	pthread_mutex_unlock(&k->lock);
	pthread_join(k->thread, NULL);
}

/* Asleep as it starts, it never runs at another priority. */
static int start_thread(struct keeper *k)
{
	const struct sched_param lowest = { .sched_priority = 0 };
	int err = pthread_create(&k->thread, NULL, keeper_main, k);

	if (err)
		return err;
	err = pthread_setschedparam(k->thread, SCHED_IDLE, &lowest);
	if (err)
		end_thread(k);
	return err;
}

static void free_keeper(struct keeper *k)
{
	pthread_cond_destroy(&k->cond);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

struct keeper *keeper_start(void)
{
	struct keeper *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->cond, NULL);
	if (start_thread(k)) {
		free_keeper(k);
		return NULL;
	}
	return k;
}

void keeper_stop(struct keeper *k)
{
	if (!k)
		return;
	end_thread(k);
	free_keeper(k);
}

void keeper_extend(struct keeper *k, uint64_t until_ns)
{
	k->until_ns = until_ns;
	if (!k->sleeping)
		return;
	pthread_mutex_lock(&k->lock);
	pthread_cond_signal(&k->cond);
	pthread_mutex_unlock(&k->lock);
}
