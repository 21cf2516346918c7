/* SPDX-License-Identifier: MIT */
/*
 * refile.c - where the buffers of a committed transaction go
 *
 *   logged         to the transaction's checkpoint list, off any older one (J7), and BH_DIRTY: may go home now (J2)
 *   freed          off all lists; the contents are nobody's
 *   not changed    where it was before; dirty again if it was
 *   lost (abort)   never home: the transaction is not in the log
 *
 * and, in each case, to the next transaction if that has it too; then BH_JBDDIRTY stays.
 */
#include <stdlib.h>

#include "jbd2/commit.h"
#include "jbd2/jbd2_private.h"

/* jh lock held. Returns whether the contents, as far as committed, still have to go home. */
static bool move_checkpoint(struct journal_head *jh, struct transaction *t, uint32_t flags)
{
	if (t->err)
		return false;
	if (flags & JH_FORGET) {
		checkpoint_remove(jh);
		return false;
	}
	if (flags & JH_DIRTIED) {
		checkpoint_remove(jh);
		checkpoint_insert(jh, t);
		return true;
	}
	return flags & JH_WAS_DIRTY;
}

/* jh lock held. Nobody changes the bytes in a transaction any more. */
static void release_buffer(struct buffer_head *bh, bool dirty, bool freed, bool lost)
{
	if (dirty)
		buffer_mark_dirty(bh);
	if (freed || lost)
		buffer_clean(bh); /* a write home that failed may have marked it anew */
	if (freed)
		buffer_clear(bh, BH_FREED | BH_UPTODATE | BH_VERIFIED);
	buffer_clear(bh, BH_JBDDIRTY);
}

static void jh_refile(struct journal_head *jh, struct transaction *t)
{
	struct buffer_head *bh = jh->bh;
	struct transaction *next;
	uint32_t flags;
	bool dirty, idle;

	/* A write home of a freed block must not land on its next use. No new one begins: it is BH_JBDDIRTY. */
	if (atomic_load_explicit(&jh->flags, memory_order_relaxed) & JH_FORGET)
		buffer_wait_writeback(bh);
	jh_lock(bh);
	flags = atomic_load_explicit(&jh->flags, memory_order_relaxed);
	next = jh_next_transaction(jh);
	free(jh->frozen);
	jh->frozen = NULL;
	dirty = move_checkpoint(jh, t, flags);
	atomic_store_explicit(&jh->flags, ((flags >> JH_NEXT_SHIFT) & JH_SLOT_MASK) | (next && dirty ? JH_WAS_DIRTY : 0),
			      memory_order_release);
	if (!next)
		release_buffer(bh, dirty, flags & JH_FORGET, t->err && (flags & JH_DIRTIED));
	atomic_store_explicit(&jh->next_transaction, NULL, memory_order_release);
	atomic_store_explicit(&jh->transaction, NULL, memory_order_release);
	if (next)
		jh_join(jh, next);
	idle = jh_detach_if_idle(jh);
	jh_unlock(bh);
	if (idle)
		buffer_put(bh);
}

void transaction_refile(struct transaction *t)
{
	struct journal_head *jh = atomic_load_explicit(&t->buffers, memory_order_acquire), *next;

	if (!t->err)
		checkpoint_begin_transaction(t);
	for (; jh; jh = next) {
		next = jh->t_next; /* it may be on another list, or gone, after this */
		jh_refile(jh, t);
	}
	if (!t->err)
		checkpoint_end_transaction(t);
}
