/* SPDX-License-Identifier: MIT */
/* crowd.h - do several callers send requests side by side? */
#ifndef UEXT4_FUSE_CROWD_H
#define UEXT4_FUSE_CROWD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CROWD_SLOW_NS 20000u /* a request of so long has waited for something, or copied much */

/* Shared by all workers, who may lose each other's updates: it is an estimate. */
struct crowd {
	bool enabled;                 /* [const] */
	_Atomic bool is_one;          /* [atomic] */
	_Atomic uint32_t last_caller; /* [atomic] */
	_Atomic unsigned score;       /* [atomic] */
	_Atomic uint32_t service_ns;  /* [atomic] average time that a request takes, of late */
};

void crowd_init(struct crowd *c);

/* A request has come; @caller: its thread id, 0 counts for nothing. Is there a crowd now? */
bool crowd_note(struct crowd *c, uint32_t caller);

/* A request of a crowd was answered in @took_ns. */
void crowd_served(struct crowd *c, uint64_t took_ns);

static inline bool crowd_is_one(const struct crowd *c)
{
	return atomic_load_explicit(&c->is_one, memory_order_relaxed);
}

/* More workers than processors are of use: they wait for devices or locks, or copy. */
static inline bool crowd_is_slow(const struct crowd *c)
{
	return atomic_load_explicit(&c->service_ns, memory_order_relaxed) > CROWD_SLOW_NS;
}

#endif
