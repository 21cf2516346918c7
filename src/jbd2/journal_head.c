/* SPDX-License-Identifier: MIT */
/* journal_head.c - a buffer's place in the journal: lock, creation, membership of transactions */
#include <errno.h>

#include "base/object.h"
#include "jbd2/jbd2_private.h"

void jh_lock(struct buffer_head *bh)
{
	lock_rank_enter(RANK_JH);
	word_bit_lock(&bh->state, BH_JH_LOCK, BH_WAITERS);
}

void jh_unlock(struct buffer_head *bh)
{
	word_bit_unlock(&bh->state, BH_JH_LOCK, BH_WAITERS);
	lock_rank_leave(RANK_JH);
}

int jh_lock_get(struct buffer_head *bh, struct journal_head **jh_out)
{
	struct journal_head *jh, *fresh = NULL;

	if (!atomic_load_explicit(&bh->jh, memory_order_relaxed)) {
		fresh = object_alloc(sizeof(*fresh));
		if (!fresh)
			return -ENOMEM;
	}
	jh_lock(bh);
	jh = atomic_load_explicit(&bh->jh, memory_order_relaxed);
	if (!jh && !fresh) {
		/* It went away between the look and the lock: rare enough to allocate under it. */
		fresh = object_alloc(sizeof(*fresh));
		if (!fresh) {
			jh_unlock(bh);
			return -ENOMEM;
		}
	}
	if (!jh) {
		jh = fresh;
		fresh = NULL;
		jh->bh = bh;
		list_init(&jh->cp_node);
		buffer_hold(bh);
		atomic_store_explicit(&bh->jh, jh, memory_order_release);
	}
	object_free(fresh, sizeof(*fresh));
	*jh_out = jh;
	return 0;
}

static void jh_free(struct rcu_head *head)
{
	object_free(container_of(head, struct journal_head, rcu), sizeof(struct journal_head));
}

bool jh_detach_if_idle(struct journal_head *jh)
{
	struct buffer_head *bh = jh->bh;

	if (jh_transaction(jh) || jh->cp_transaction)
		return false;
	UEXT4_ASSERT(!jh_next_transaction(jh) && !jh->frozen && list_empty(&jh->cp_node));
	atomic_store_explicit(&bh->jh, NULL, memory_order_release);
	rcu_defer(&jh->rcu, jh_free); /* fast paths may be looking at it */
	return true;
}

static void transaction_push(struct transaction *t, struct journal_head *jh)
{
	struct journal_head *first = atomic_load_explicit(&t->buffers, memory_order_relaxed);

	do
		jh->t_next = first;
	while (!atomic_compare_exchange_weak_explicit(&t->buffers, &first, jh, memory_order_release,
						      memory_order_relaxed));
}

void jh_join(struct journal_head *jh, struct transaction *t)
{
	if (jh_transaction(jh)) {
		UEXT4_ASSERT(!jh_next_transaction(jh));
		atomic_store_explicit(&jh->next_transaction, t, memory_order_release);
		return; /* goes to its list when the committing transaction is done with it */
	}
	transaction_push(t, jh);
	atomic_store_explicit(&jh->transaction, t, memory_order_release);
}

uint32_t buffer_flags_in(struct buffer_head *bh, const struct transaction *t)
{
	struct journal_head *jh;
	uint32_t flags = 0;

	rcu_enter();
	jh = atomic_load_explicit(&bh->jh, memory_order_acquire);
	if (jh) {
		/* A refiling commit stores flags before transaction: flags seen after it are of that owner or newer. */
		int slot = jh_slot(jh, t);

		if (slot >= 0)
			flags = (atomic_load_explicit(&jh->flags, memory_order_acquire) >> slot) & JH_SLOT_MASK;
	}
	rcu_leave();
	return flags;
}
