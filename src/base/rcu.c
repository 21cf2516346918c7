/* SPDX-License-Identifier: MIT */
/* rcu.c - the RCU calls over liburcu-bp */
#include "base/rcu.h"

/*
 * Sections are entered some dozen times in each operation: their inline functions, not calls through the library's. Each has fewer
 * than ten lines, which the LGPL (section 5) lets any program include. UBSan finds that liburcu 0.13 puts its readers at addresses
 * less aligned than it declares them.
 */
#ifndef UEXT4_ASAN
#define _LGPL_SOURCE
#endif
/* Both name their structure rcu_head: theirs gets another name in this file. */
#define rcu_head urcu_bp_rcu_head
#include <urcu/urcu-bp.h>
#undef rcu_head

static_assert(sizeof(struct rcu_head) == sizeof(struct urcu_bp_rcu_head) &&
		      offsetof(struct rcu_head, func) == offsetof(struct urcu_bp_rcu_head, func),
	      "rcu_head has the layout of liburcu's");

void rcu_enter(void)
{
	urcu_bp_read_lock();
}

void rcu_leave(void)
{
	urcu_bp_read_unlock();
}

void rcu_synchronize(void)
{
	urcu_bp_synchronize_rcu();
}

void rcu_defer(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	/* One structure under two names: liburcu calls @func with the very pointer it was given. */
	urcu_bp_call_rcu((struct urcu_bp_rcu_head *)head, (void (*)(struct urcu_bp_rcu_head *))func);
}

void rcu_drain(void)
{
	urcu_bp_barrier();
}
