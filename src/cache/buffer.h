/* SPDX-License-Identifier: MIT */
/* buffer.h - the metadata cache: one buffer head per file-system block */
#ifndef UEXT4_CACHE_BUFFER_H
#define UEXT4_CACHE_BUFFER_H

#include "base/list.h"
#include "base/rcu.h"
#include "base/types.h"
#include "block/block.h"
#include "cache/cache.h"

struct buffer_cache;
struct journal_head; /* jbd2's part of a buffer; see jbd2 */

/* Bits of buffer_head.state. */
#define BH_LOCKED    0x0001u /* bit lock: one thread changes the bytes or has I/O in flight on them */
#define BH_WAITERS   0x0002u /* somebody sleeps on the word */
#define BH_UPTODATE  0x0004u /* data holds the block's current contents */
#define BH_DIRTY     0x0008u /* to be written home; the flusher may do so at any time */
#define BH_JBDDIRTY  0x0010u /* changed in a transaction that has not committed: must not be written home (J2) */
#define BH_VERIFIED  0x0020u /* a block-type verifier has accepted the contents since they were read */
#define BH_WRITE_ERR 0x0040u /* the last write home failed; contents in memory are the good copy */
#define BH_FREED     0x0080u /* freed by the running transaction: after commit it is dropped, not checkpointed */
#define BH_REVOKED   0x0100u /* jbd2: revoke state of the running transaction is set */
#define BH_REVOKE_VALID 0x0200u /* jbd2: BH_REVOKED above is known */
#define BH_NEW       0x0400u /* was created by buffer_get() and never read */
#define BH_WRITEBACK 0x0800u /* being written home from a snapshot or in place */
#define BH_UNWRITTEN_ORDERED 0x1000u /* reserved for jbd2 */
#define BH_REFERENCED 0x2000u /* used since the reclaim scan last came by */
#define BH_JBD_PRIVATE_SHIFT 16 /* bits 16.. belong to jbd2 */

/*
 * Home writes go out from a snapshot. The writer takes the buffer lock, skips the buffer unless BH_DIRTY is set and
 * BH_JBDDIRTY is not, copies the bytes, clears BH_DIRTY, sets BH_WRITEBACK and unlocks; the I/O runs without the
 * lock. So whoever is going to change the bytes of a buffer that may be BH_DIRTY takes the buffer lock once, before the first
 * change, and sets BH_JBDDIRTY under it (journal_get_write_access() does so, the first time in a transaction): from
 * then on no half-changed bytes can be copied, and the change never waits for I/O. BH_DIRTY may stay set meanwhile. A second
 * home write of the same buffer waits for the first one's completion, so an older copy cannot overtake a newer.
 */
struct buffer_head {
	fsblk_t blk;                          /* [const] */
	uint8_t *data;                        /* [const] block_bytes bytes, aligned to block_bytes; contents: BH_LOCKED or the owner's rules */
	_Atomic uint32_t state;               /* [atomic] BH_* */
	_Atomic int32_t refs;                 /* [atomic] */
	struct buffer_cache *cache;           /* [const] */
	_Atomic uint32_t note;                /* [as the contents] what the owner knows of them; 0 in a new buffer */
	_Atomic(struct journal_head *) jh;    /* [journal_head.lock] NULL when jbd2 holds nothing; pins the buffer */
	/* private to cache/ below */
	_Atomic(struct buffer_head *) hash_next;
	struct list_head lru;
	struct list_head dirty_node;
	uint64_t dirtied_ns;
	struct rcu_head rcu;
};

/* @block_bytes: 1024 to 65536. The counters of cache count meta_bytes. */
int buffer_cache_create(struct cache *cache, struct block_device *dev, uint32_t block_bytes,
			const struct log_sink *log, struct buffer_cache **cache_out);
/* No buffer is referenced or dirty any more (or the caller gives their contents up). */
void buffer_cache_destroy(struct buffer_cache *bc);
uint32_t buffer_cache_block_bytes(const struct buffer_cache *bc);
struct block_device *buffer_cache_device(const struct buffer_cache *bc);

/**
 * buffer_get() - the buffer over @blk, contents not necessarily read
 * Return: 0 with a reference in *bh_out, or -ENOMEM, -EUCLEAN (@blk past the device)
 */
int buffer_get(struct buffer_cache *bc, fsblk_t blk, struct buffer_head **bh_out);
/* buffer_get() and read it unless BH_UPTODATE. Lock-free when cached. -EIO, -ENOMEM, -EUCLEAN. */
int buffer_read(struct buffer_cache *bc, fsblk_t blk, struct buffer_head **bh_out);
/* The cached buffer or NULL; never reads, never allocates. */
struct buffer_head *buffer_find(struct buffer_cache *bc, fsblk_t blk);
/* Starts reads of @count blocks from @blk that are not cached; does not wait. */
void buffer_readahead(struct buffer_cache *bc, fsblk_t blk, uint32_t count);
void buffer_hold(struct buffer_head *bh);
void buffer_put(struct buffer_head *bh); /* NULL: nothing */

void buffer_lock(struct buffer_head *bh);   /* RANK_BUFFER */
bool buffer_trylock(struct buffer_head *bh);
void buffer_unlock(struct buffer_head *bh);

static inline bool buffer_test(const struct buffer_head *bh, uint32_t bits)
{
	return (__atomic_load_n((const uint32_t *)&bh->state, __ATOMIC_ACQUIRE) & bits) != 0;
}
/* Returns the old state. */
static inline uint32_t buffer_set(struct buffer_head *bh, uint32_t bits)
{
	return __atomic_fetch_or((uint32_t *)&bh->state, bits, __ATOMIC_ACQ_REL);
}
static inline uint32_t buffer_clear(struct buffer_head *bh, uint32_t bits)
{
	return __atomic_fetch_and((uint32_t *)&bh->state, ~bits, __ATOMIC_ACQ_REL);
}

/* Sets BH_DIRTY and puts the buffer on the flusher's list. Contents stable while the caller holds BH_LOCKED or better. */
void buffer_mark_dirty(struct buffer_head *bh);
/* Clears BH_DIRTY without writing: the contents are no longer wanted (block freed, or logged again). */
void buffer_clean(struct buffer_head *bh);

/*
 * Without a journal nothing sets BH_JBDDIRTY: blocks change between buffer_changes_begin() and buffer_changes_end(), and
 * home writes copy while nobody is in between, so a block on disk is never half changed. One atomic operation each; begin
 * waits while copies are made, never for I/O. RANK_HANDLE. In between a thread may not write home or begin again.
 */
void buffer_changes_begin(struct buffer_cache *bc);
void buffer_changes_end(struct buffer_cache *bc);
/* Waits until nobody is in between and keeps all out; home writes go on. Any number of threads may do so at once. */
void buffer_changes_block(struct buffer_cache *bc);
void buffer_changes_unblock(struct buffer_cache *bc);

/*
 * Writes the dirty ones among @bhs home: sorted by block, neighbours merged into vectored writes, all in flight at
 * once; waits. Takes buffer locks while snapshotting; BH_JBDDIRTY ones are skipped. A failed one gets BH_WRITE_ERR and
 * stays dirty. Those under BH_WRITEBACK by somebody else are waited for, so on return each was home once, or failed.
 * The caller keeps the buffers from going away (a reference, or a journal head). Returns the first error. No flush is sent.
 * Not under a block_plug() of the caller: it would hold back what is waited for.
 */
int buffers_write(struct buffer_cache *bc, struct buffer_head **bhs, size_t count);
/* Waits until no home write of @bh is in flight. */
void buffer_wait_writeback(struct buffer_head *bh);
/* Writes every dirty buffer that is not BH_JBDDIRTY, and waits for those in flight too; no device flush. */
int buffer_cache_sync(struct buffer_cache *bc);
/* Buffers that failed to be written home since the last call? Returns the error once, then 0. */
int buffer_cache_take_error(struct buffer_cache *bc);
/*
 * Drops cached contents of [blk, blk + count) that jbd2 does not hold; dirty ones are cleaned first, and home writes in
 * flight are waited for. Call when blocks are freed, or at the latest before they are written as data: an old home write
 * must not land on top.
 */
void buffer_forget_range(struct buffer_cache *bc, fsblk_t blk, uint64_t count);

#endif
