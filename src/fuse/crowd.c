/* SPDX-License-Identifier: MIT */
/*
 * crowd.c - do several callers send requests side by side?
 *
 * Where they take turns, almost every second request is of another thread than the one before; where one works at a time,
 * few are. A score rises with each change of callers and falls with each request without: high it makes a crowd, and
 * at zero there is none.
 */
#include <sched.h>

#include "fuse/crowd.h"

#define SCORE_RISE  4u   /* so that one change in five requests holds the score */
#define SCORE_ENTER 128u
#define SCORE_MAX   256u

#define AVERAGE_SHIFT 5 /* over some 32 requests */

void crowd_init(struct crowd *c)
{
	cpu_set_t usable;

	*c = (struct crowd){ .enabled = !sched_getaffinity(0, sizeof(usable), &usable) && CPU_COUNT(&usable) == 2 };
}

bool crowd_note(struct crowd *c, uint32_t caller)
{
	unsigned score;

	if (!c->enabled || !caller)
		return crowd_is_one(c);
	score = atomic_load_explicit(&c->score, memory_order_relaxed);
	if (atomic_load_explicit(&c->last_caller, memory_order_relaxed) == caller) {
		if (!score)
			return false;
		score--;
	} else {
		atomic_store_explicit(&c->last_caller, caller, memory_order_relaxed);
		score = score + SCORE_RISE < SCORE_MAX ? score + SCORE_RISE : SCORE_MAX;
	}
	atomic_store_explicit(&c->score, score, memory_order_relaxed);
	if (score >= SCORE_ENTER)
		atomic_store_explicit(&c->is_one, true, memory_order_relaxed);
	else if (!score)
		atomic_store_explicit(&c->is_one, false, memory_order_relaxed);
	return crowd_is_one(c);
}

void crowd_served(struct crowd *c, uint64_t took_ns)
{
	uint32_t took = took_ns < UINT32_MAX ? (uint32_t)took_ns : UINT32_MAX;
	uint32_t average = atomic_load_explicit(&c->service_ns, memory_order_relaxed);

	average += (took >> AVERAGE_SHIFT) - (average >> AVERAGE_SHIFT);
	atomic_store_explicit(&c->service_ns, average, memory_order_relaxed);
}
