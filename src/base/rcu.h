/* SPDX-License-Identifier: MIT */
/* rcu.h - read-copy-update over liburcu's bulletproof flavour, which needs no thread registration */
#ifndef UEXT4_BASE_RCU_H
#define UEXT4_BASE_RCU_H

#include "base/types.h"

/*
 * ThreadSanitizer does not understand liburcu's barriers. Builds with it use a reader-writer lock per
 * shard behind the same calls, so that every ordering we rely on is one that it can see. Pointers that
 * readers follow are _Atomic and published with release stores, in both.
 */
struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};

void rcu_enter(void);   /* read-side section; may nest; must not block for long */
void rcu_leave(void);
void rcu_synchronize(void); /* waits until all sections running now have left; not within a section */

/**
 * rcu_defer() - call @func(@head) once every section that runs now has left
 * Context: any, also within a section. @func runs on the RCU thread: short, may free, may take leaf locks.
 */
void rcu_defer(struct rcu_head *head, void (*func)(struct rcu_head *head));
void rcu_drain(void); /* waits until everything deferred so far has run */

#endif
