/* SPDX-License-Identifier: MIT */
/*
 * forget.c - freed metadata blocks
 *
 * A freed block must not be logged by the transaction that frees it, nor written home after it. It stays on the
 * checkpoint list of the older transaction that logged it until the freeing one has committed: after a crash before
 * that, the block is in use as it was, and replay must still find it in the log (J7).
 */
#include <errno.h>

#include "jbd2/jbd2_private.h"

/* Buffer and jh lock held. */
static void forget_join(struct journal_head *jh, struct transaction *t)
{
	int slot = jh_slot(jh, t);

	if (slot < 0) {
		slot = jh_transaction(jh) ? JH_NEXT_SHIFT : 0;
		if (!slot)
			jh_take_over_dirty(jh);
		jh_join(jh, t); /* without a credit: it takes no room in the log */
	}
	atomic_fetch_and_explicit(&jh->flags, ~(JH_DIRTIED << slot), memory_order_relaxed);
	atomic_fetch_or_explicit(&jh->flags, JH_FORGET << slot, memory_order_release);
	buffer_set(jh->bh, BH_FREED);
}

int journal_forget(struct handle *h, struct buffer_head *bh)
{
	struct journal_head *jh;

	if (unlikely(h->journal->is_null))
		return null_forget(h, bh);
	if (unlikely(!h->transaction || journal_error(h->journal))) {
		buffer_put(bh);
		return -EROFS;
	}
	buffer_lock(bh);
	jh_lock(bh);
	jh = atomic_load_explicit(&bh->jh, memory_order_relaxed);
	if (jh) {
		forget_join(jh, h->transaction);
	} else {
		buffer_clean(bh);
		buffer_clear(bh, BH_UPTODATE | BH_VERIFIED); /* the next life of the block may be file data */
	}
	jh_unlock(bh);
	buffer_unlock(bh);
	buffer_put(bh);
	return 0;
}

static int revoke_record(struct handle *h, fsblk_t blk)
{
	struct journal *j = h->journal;
	int err;

	if (unlikely(!h->transaction || journal_error(j)))
		return -EROFS;
	if (unlikely(blk == 0 || blk >= j->params.fs_blocks)) {
		log_print(j->params.log, LOG_ERROR, "journal: block %llu to revoke is outside the file system",
			  (unsigned long long)blk);
		return -EUCLEAN;
	}
	if (unlikely(h->revokes <= 0)) {
		log_print(j->params.log, LOG_ERROR, "journal: a handle has no revoke credit left for block %llu",
			  (unsigned long long)blk);
		return -ENOSPC;
	}
	err = revoke_table_insert(h->transaction, blk);
	if (err < 0)
		return err;
	h->revokes--;
	counter_add(j->counters, CNT_JOURNAL_REVOKES, 1);
	return 0;
}

int journal_revoke(struct handle *h, fsblk_t blk, struct buffer_head *bh)
{
	struct journal *j = h->journal;
	int err = j->is_null ? 0 : revoke_record(h, blk);

	if (err) {
		buffer_put(bh);
		return err;
	}
	if (!bh)
		bh = buffer_find(j->bc, blk);
	return bh ? journal_forget(h, bh) : 0;
}
