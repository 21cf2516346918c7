/* SPDX-License-Identifier: MIT */
/*
 * balloc_free.c - freeing blocks, and when they may be used again
 *
 * F1  A block freed in transaction T is handed out again only after T is durable: a crash before that brings the old
 *     owner back, whose data or metadata must still be there.
 * F2  A metadata block is revoked in the transaction that frees it, before its bit is cleared.
 * F3  A block is discarded after T is durable and before it is handed out.
 *
 * A free clears the bit at once and notes the range in a pending_free, which pins the buddy. The commit's callback gives
 * the range to the buddy and its tokens to the counter. Frees of one transaction that touch are one pending_free. Where
 * there is no journal the range goes back at once, or after its discard.
 */
#include <errno.h>
#include <stdlib.h>

#include "ext4/balloc_private.h"
#include "ext4/inode.h"

/* Longer than any commit's callbacks take, short for somebody who waits for ENOSPC. */
#define PENDING_WAIT_NS 1000000000ull

/* ---- after the commit ---- */

/* @lost: the transaction was; the blocks stay out of use until the next mount finds out. */
static void pending_settle(struct pending_free *pf, bool lost)
{
	struct ext4_fs *fs = pf->fs;
	struct balloc *ba = fs->balloc;
	struct ext4_group *g = pf->g;
	bool give;

	mutex_lock(&g->lock);
	list_del(&pf->node);
	group_buddy(g)->pins--;
	give = !lost && !g->bad;
	if (give) {
		buddy_give(group_buddy(g), pf->start, pf->len);
		group_reindex(fs, g);
	}
	mutex_unlock(&g->lock);

	if (give)
		block_counter_give(&ba->counter, pf->len);
	atomic_fetch_sub(&ba->pending_blks, pf->len);
	free(pf);
	atomic_fetch_add(&ba->pending_settled, 1);
	if (atomic_load(&ba->pending_waiters)) { /* pair: pending_wait() announces itself, then looks */
		mutex_lock(&ba->pending_lock);
		cond_broadcast(&ba->pending_cond);
		mutex_unlock(&ba->pending_lock);
	}
}

static void pending_discard(struct work *work)
{
	struct pending_free *pf = container_of(work, struct pending_free, work);
	struct ext4_fs *fs = pf->fs;
	uint64_t pos_bytes = (group_first_block(fs, pf->g->group) + pf->start) << fs->block_bits;

	/* A hint to the device: that it cannot is nobody's error. */
	block_discard(fs->dev, pos_bytes, (uint64_t)pf->len << fs->block_bits);
	pending_settle(pf, false);
}

static void pending_committed(struct journal_callback *cb, int err)
{
	struct pending_free *pf = container_of(cb, struct pending_free, cb);
	struct workqueue *wq = pf->fs->balloc->discard_wq;

	if (!err && wq) {
		work_init(&pf->work, pending_discard);
		workqueue_add(wq, &pf->work);
	} else {
		pending_settle(pf, err != 0);
	}
}

/* ---- one group's part ---- */

/* Joins the range to one that this transaction has freed next to it. Caller: g->lock. */
static bool pending_extend(struct buddy *b, tid_t tid, uint32_t start, uint32_t len)
{
	struct pending_free *pf;

	if (list_empty(&b->pending))
		return false;
	pf = list_last(&b->pending, struct pending_free, node);
	if (pf->tid != tid)
		return false;
	if (pf->start + pf->len == start) {
		pf->len += len;
		return true;
	}
	if (start + len == pf->start) {
		pf->start = start;
		pf->len += len;
		return true;
	}
	return false;
}

/* Caller: g->lock. @pf: blank; taken over. The open handle keeps the transaction, and so what may be joined, running. */
static void pending_add(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, struct pending_free *pf,
			uint32_t start, uint32_t len)
{
	struct balloc *ba = fs->balloc;
	struct buddy *b = group_buddy(g);

	atomic_fetch_add(&ba->pending_blks, len);
	if (!journal_is_null(fs->journal) && pending_extend(b, h->tid, start, len)) {
		free(pf);
		return;
	}
	*pf = (struct pending_free){ .fs = fs, .g = g, .tid = h->tid, .start = start, .len = len };
	pf->cb.func = pending_committed;
	list_init(&pf->cb.node);
	list_add_tail(&pf->node, &b->pending);
	b->pins++;
	atomic_fetch_add(&ba->pending_created, 1);
	if (!journal_is_null(fs->journal))
		journal_add_callback(h, &pf->cb);
}

/* F2. */
static int revoke_range(struct handle *h, struct ext4_fs *fs, fsblk_t blk, uint32_t len)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < len && !err; i++)
		err = journal_revoke(h, blk + i, buffer_find(fs->bc, blk + i));
	return err;
}

static int free_locked(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, uint32_t start, uint32_t len,
		       unsigned flags)
{
	struct pending_free *pf;
	int err;

	err = group_range_check(fs, g, start, len, false);
	if (err)
		return err;
	pf = malloc(sizeof(*pf));
	if (!pf)
		return -ENOMEM;
	if (flags & BFREE_METADATA)
		err = revoke_range(h, fs, group_first_block(fs, g->group) + start, len);
	if (!err)
		err = group_bitmap_set(h, fs, g, start, len, false);
	if (err) {
		free(pf);
		/* Blocks that were revoked and stay in use would be lost by a replay: this transaction may not commit. */
		if (flags & BFREE_METADATA && !journal_is_null(fs->journal))
			journal_abort(fs->journal, err);
		return err;
	}
	pending_add(h, fs, g, pf, start, len);
	return 0;
}

static int free_in_group(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, uint32_t start, uint32_t len,
			 unsigned flags)
{
	struct pending_free *now = NULL;
	int err;

	if (group_is_withdrawn(g)) /* reported then; the blocks stay as they are until fsck has the last word */
		return 0;
	err = group_lock_buddy(fs, g, true);
	if (err)
		return err;
	err = free_locked(h, fs, g, start, len, flags);
	if (!err && journal_is_null(fs->journal))
		now = list_last(&group_buddy(g)->pending, struct pending_free, node);
	mutex_unlock(&g->lock);
	if (now)
		pending_committed(&now->cb, 0);
	return err;
}

int balloc_free(struct handle *h, struct inode *inode, fsblk_t blk, uint64_t count, unsigned flags)
{
	struct ext4_fs *fs = inode->fs;
	int err = 0;

	if (!fs_data_blocks_valid(fs, blk, count))
		return INODE_ERROR(inode, -EUCLEAN, blk, "freeing blocks %llu+%llu outside the data area",
				   (unsigned long long)blk, (unsigned long long)count);
	while (count && !err) {
		struct ext4_group *g = &fs->groups[fs_group_of_block(fs, blk)];
		uint32_t start = (uint32_t)(blk - group_first_block(fs, g->group));
		uint32_t len = (uint32_t)min_of((uint64_t)(group_block_count(fs, g->group) - start), count);

		err = free_in_group(h, fs, g, start, len, flags);
		blk += len;
		count -= len;
	}
	return err;
}

/* ---- the disk is full ---- */

/* The callbacks run beside whoever waits for the commit, so the waiter waits for them too; not for ever, should one hang. */
static void pending_wait(struct balloc *ba)
{
	uint64_t until = atomic_load(&ba->pending_created);

	atomic_fetch_add(&ba->pending_waiters, 1);
	mutex_lock(&ba->pending_lock);
	while (atomic_load(&ba->pending_settled) < until)
		if (!cond_wait_timeout(&ba->pending_cond, &ba->pending_lock, PENDING_WAIT_NS))
			break;
	mutex_unlock(&ba->pending_lock);
	atomic_fetch_sub(&ba->pending_waiters, 1);
}

int balloc_should_retry(struct ext4_fs *fs, int *retries)
{
	int err;

	if (*retries >= BALLOC_RETRIES || !atomic_load(&fs->balloc->pending_blks))
		return 0;
	++*retries;
	err = journal_force_commit(fs->journal);
	if (err)
		return err;
	pending_wait(fs->balloc);
	return 1;
}

void balloc_drain(struct ext4_fs *fs)
{
	pending_wait(fs->balloc);
}
