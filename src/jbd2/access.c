/* SPDX-License-Identifier: MIT */
/*
 * access.c - the right to change a block, and the word that it was changed
 *
 * The first access in a transaction makes the buffer part of it: under the buffer lock, so that a write home in the
 * making has its consistent copy first, BH_DIRTY gives way to BH_JBDDIRTY and the block stays away from home until the
 * commit (J2). Further accesses see that without a lock.
 *
 * If the committing transaction has the block too, its version of the bytes is frozen in a copy, unless the commit
 * thread has its own already (J6).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jbd2/jbd2_private.h"

/* jh lock held. The owner, another transaction than the one that wants to write, keeps its version. */
static int jh_freeze(struct journal_head *jh)
{
	uint32_t flags = atomic_load_explicit(&jh->flags, memory_order_relaxed);
	uint32_t block_bytes = buffer_cache_block_bytes(jh->bh->cache);

	if ((flags & (JH_DIRTIED | JH_FORGET | JH_COPIED)) != JH_DIRTIED || jh->frozen)
		return 0;
	jh->frozen = malloc(block_bytes);
	if (!jh->frozen)
		return -ENOMEM;
	memcpy(jh->frozen, jh->bh->data, block_bytes);
	return 0;
}

void jh_take_over_dirty(struct journal_head *jh)
{
	if (buffer_set(jh->bh, BH_JBDDIRTY) & BH_DIRTY) {
		buffer_clean(jh->bh);
		atomic_fetch_or_explicit(&jh->flags, JH_WAS_DIRTY, memory_order_relaxed);
	}
}

/* Buffer and jh lock held. */
static int access_join(struct handle *h, struct journal_head *jh)
{
	struct transaction *t = h->transaction;
	int slot = jh_slot(jh, t);
	int err;

	if (jh_transaction(jh) && jh_transaction(jh) != t) {
		err = jh_freeze(jh);
		if (err)
			return err;
	}
	if (slot < 0) {
		slot = jh_transaction(jh) ? JH_NEXT_SHIFT : 0;
		if (!slot)
			jh_take_over_dirty(jh);
		jh_join(jh, t);
	}
	if (!(atomic_load_explicit(&jh->flags, memory_order_relaxed) & (JH_CREDITED << slot)))
		h->credits--;
	if (atomic_load_explicit(&jh->flags, memory_order_relaxed) & (JH_FORGET << slot)) {
		atomic_fetch_and_explicit(&jh->flags, ~(JH_FORGET << slot), memory_order_relaxed);
		buffer_clear(jh->bh, BH_FREED);
	}
	atomic_fetch_or_explicit(&jh->flags, JH_CREDITED << slot, memory_order_release);
	return 0;
}

static int access_slow(struct handle *h, struct buffer_head *bh)
{
	struct journal_head *jh;
	bool idle = false;
	int err;

	if (unlikely(h->credits <= 0)) {
		log_print(h->journal->params.log, LOG_ERROR, "journal: a handle has no credit left for block %llu",
			  (unsigned long long)bh->blk);
		return -ENOSPC;
	}
	buffer_lock(bh);
	err = jh_lock_get(bh, &jh);
	if (!err) {
		err = access_join(h, jh);
		idle = err && jh_detach_if_idle(jh);
		jh_unlock(bh);
	}
	buffer_unlock(bh);
	if (idle)
		buffer_put(bh);
	/* About to be logged again: an older copy may be replayed, this one comes after it. */
	if (!err && unlikely(atomic_load_explicit(&h->transaction->revokes.count, memory_order_acquire)))
		revoke_table_remove(h->transaction, bh->blk);
	return err;
}

static int get_access(struct handle *h, struct buffer_head *bh)
{
	struct journal *j = h->journal;

	if (unlikely(j->is_null))
		return null_get_access(h, bh);
	if (unlikely(!h->transaction || journal_error(j)))
		return -EROFS;
	if ((buffer_flags_in(bh, h->transaction) & (JH_CREDITED | JH_FORGET)) == JH_CREDITED)
		return 0;
	return access_slow(h, bh);
}

int journal_get_write_access(struct handle *h, struct buffer_head *bh)
{
	return get_access(h, bh);
}

int journal_get_create_access(struct handle *h, struct buffer_head *bh)
{
	int err = get_access(h, bh);

	if (!err)
		buffer_clear(bh, BH_WRITE_ERR | BH_VERIFIED); /* of the contents that it had in an earlier life */
	return err;
}

int journal_dirty_metadata(struct handle *h, struct buffer_head *bh)
{
	struct transaction *t = h->transaction;
	struct journal_head *jh;
	int slot;

	if (unlikely(h->journal->is_null))
		return null_dirty_metadata(h, bh);
	if (unlikely(!t || journal_error(h->journal)))
		return -EROFS;
	if (buffer_flags_in(bh, t) & JH_DIRTIED)
		return 0;
	jh_lock(bh);
	jh = atomic_load_explicit(&bh->jh, memory_order_relaxed);
	slot = jh ? jh_slot(jh, t) : -1;
	UEXT4_ASSERT(slot >= 0); /* no write access in this transaction */
	atomic_fetch_or_explicit(&jh->flags, JH_DIRTIED << slot, memory_order_release);
	jh_unlock(bh);
	return 0;
}
