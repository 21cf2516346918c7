/* SPDX-License-Identifier: MIT */
/* folio.h - one or more contiguous pages of one mapping, with sub-folio uptodate and dirty state */
#ifndef UEXT4_CACHE_FOLIO_H
#define UEXT4_CACHE_FOLIO_H

#include "base/list.h"
#include "base/rcu.h"
#include "base/types.h"

#define PAGE_SHIFT_BITS 12
#define PAGE_BYTES      4096u
#define FOLIO_MAX_ORDER 12 /* 16 MiB */

struct mapping;
struct folio_state; /* per-block maps beyond what fits the inline word; private to folio_state.c */

/* Bits of folio.flags. Sub-folio state is behind folio_*_range accessors only. */
#define FOLIO_LOCKED    0x01u
#define FOLIO_WAITERS   0x02u
#define FOLIO_UPTODATE  0x04u /* every byte below end of file is valid */
#define FOLIO_DIRTY     0x08u /* some block is dirty */
#define FOLIO_WRITEBACK 0x10u /* write in flight, completion not yet processed */
#define FOLIO_ERROR     0x20u
#define FOLIO_READAHEAD 0x40u /* reaching it starts the next readahead window */
#define FOLIO_REFERENCED 0x80u

struct cache;

struct folio {
	struct mapping *mapping;        /* [folio lock] NULL once truncated from it; stable under FOLIO_WRITEBACK too */
	struct cache *cache;            /* [const] */
	uint64_t index;                 /* [const] in pages; multiple of 1 << order */
	uint8_t order;                  /* [const] */
	uint8_t block_bits;             /* [const] log2 of the block size that its state is kept in */
	_Atomic uint32_t flags;         /* [atomic] */
	_Atomic int32_t refs;           /* [atomic] the mapping holds one */
	uint8_t *data;                  /* [const] page-aligned; bytes: folio lock */
	_Atomic uint64_t inline_state;  /* [folio lock] up to 32 blocks: dirty map << 32 | uptodate map; meaning in folio_state.c */
	_Atomic(struct folio_state *) state; /* [folio lock] NULL until needed */
	_Atomic int32_t writes_in_flight, reads_in_flight; /* [atomic] parts of it under I/O */
	uint64_t writeback_bytes;       /* [folio lock, then the end of writeback] */
	struct list_head lru;
	struct rcu_head rcu;
};

static inline size_t folio_bytes(const struct folio *f) { return (size_t)PAGE_BYTES << f->order; }
static inline uint64_t folio_pos(const struct folio *f) { return f->index << PAGE_SHIFT_BITS; }

void folio_hold(struct folio *f);
void folio_put(struct folio *f);
void folio_lock(struct folio *f);       /* RANK_FOLIO, ascending index */
bool folio_trylock(struct folio *f);
void folio_unlock(struct folio *f);
bool folio_is_locked(const struct folio *f);
/*
 * A lock that passes from the thread to the I/O it submits: give it away before submitting, unlock when the I/O is done. A
 * locked folio stays in its mapping, so the I/O needs no reference; the unlock is its last touch.
 */
void folio_lock_pass(struct folio *f);
void folio_unlock_passed(struct folio *f);
void folio_wait_writeback(struct folio *f);
void folio_begin_writeback(struct folio *f);  /* folio locked; sets the mapping's writeback tag */
/* Any thread, also from end_io. The last touch of @f for callers without a reference: writeback pins it in its mapping. */
void folio_end_writeback(struct folio *f);

/*
 * Sub-folio state, in bytes relative to the folio; ranges are rounded to the mapping's block size by the
 * callee: uptodate and clean inward, dirty outward. All need the folio lock. A folio that is wholly uptodate and wholly clean
 * or dirty has no state. Lost state (memory pressure, partial truncate) reads as "all dirty" when FOLIO_DIRTY.
 */
bool folio_range_is_uptodate(const struct folio *f, size_t off, size_t len);
/* The same without the folio lock, for readers that hold a reference. False may mean "ask again with the lock". */
bool folio_range_is_uptodate_unlocked(const struct folio *f, size_t off, size_t len);
/* The last read into a new folio, whose lock it holds, has filled it: every block is valid. */
void folio_mark_uptodate(struct folio *f);
int  folio_mark_range_uptodate(struct folio *f, size_t off, size_t len);  /* -ENOMEM: state needed, not had */
int  folio_mark_range_dirty(struct folio *f, size_t off, size_t len);     /* also tags mapping, accounts, may wake flusher */
void folio_mark_dirty(struct folio *f);                                    /* as a whole, as by a direct pointer */
/*
 * Between folio_begin_writeback() and folio_end_writeback() the bytes count as under writeback, else as clean. When
 * state is needed and there is no memory for it, all stays dirty.
 */
void folio_clear_range_dirty(struct folio *f, size_t off, size_t len);
/* First dirty run at or after *off: sets *off and *len. False: none. */
bool folio_next_dirty_range(const struct folio *f, size_t *off, size_t *len);

#endif
