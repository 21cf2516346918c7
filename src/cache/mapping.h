/* SPDX-License-Identifier: MIT */
/* mapping.h - an address space: the folios of one file, with dirty and writeback tags */
#ifndef UEXT4_CACHE_MAPPING_H
#define UEXT4_CACHE_MAPPING_H

#include "base/lock.h"
#include "cache/cache.h"
#include "cache/folio.h"

struct writeback_control {
	uint64_t start_bytes, end_bytes; /* half-open; UINT64_MAX: to the end. On return start is where it stopped */
	bool wait_for_writeback;         /* data integrity: wait for folios already under writeback, skip nothing */
	uint64_t ordered_from_bytes;     /* set by writepages(): folios that end past it are written in order, none left behind */
	int64_t budget_bytes;            /* background: stop after about so much; INT64_MAX: all. Returns what is left */
};

struct mapping_ops {
	/* Submits writes for dirty folios in the range; does not wait for them. First error of submission. */
	int (*writepages)(struct mapping *m, struct writeback_control *wbc);
	/*
	 * Pins the owner against eviction, false if it is going away. The flusher brackets its work so; drop() may
	 * evict the owner and end in mapping_exit().
	 */
	bool (*grab)(struct mapping *m);
	void (*drop)(struct mapping *m);
};

struct folio_node; /* radix tree node; private */

struct mapping {
	const struct mapping_ops *ops;     /* [const] */
	void *host;                        /* [const] the owner: an inode */
	struct cache *cache;               /* [const] */
	struct block_device *dev;          /* [const] where data goes */
	uint8_t block_bits;                /* [const] log2 of the file-system block size, 10..16 */
	uint8_t max_order;                 /* [const] largest folio order */
	_Atomic uint64_t size_bytes;       /* [inode.rwsem writes; atomic reads] i_size */
	struct rwsem invalidate_lock;      /* RANK_INVALIDATE: folio insertion (shared) against truncate, punch (exclusive) */
	struct mutex tree_lock;            /* RANK_MAPPING_TREE: writers of the tree and tags */
	_Atomic(struct folio_node *) root; /* [tree_lock writes; RCU reads] */
	_Atomic uint64_t nr_pages;         /* [tree_lock writes] */
	_Atomic uint64_t dirty_bytes, writeback_bytes; /* [atomic] */
	_Atomic uint32_t wb_err;           /* [atomic] errseq: error and sequence, see mapping_record_error() */
	_Atomic uint64_t ra_slots[8];      /* readahead streams; private to iomap/readahead.c */
	_Atomic uint32_t ra_next;          /* the same */
	struct list_head dirty_node;       /* [cache dirty lock] */
	uint64_t dirtied_ns;               /* [cache dirty lock] when the oldest dirty data came */
	uint64_t wb_pass;                  /* [cache dirty lock] last cache_writeback_all() that came by */
	uint64_t wb_cursor_bytes;          /* [flusher's pass] where background writeback goes on */
	_Atomic uint32_t private_flags;    /* cache's own */
};

void mapping_init(struct mapping *m, struct cache *cache, struct block_device *dev, const struct mapping_ops *ops,
		  void *host, uint8_t block_bits);
/* Dirtying a part of a folio dirties all its uptodate blocks: the behaviour before sub-folio state (ablation). */
void mapping_set_whole_folio_dirty(struct mapping *m);
/* All folios are gone (mapping_truncate(m, 0) at least); nothing under I/O. */
void mapping_exit(struct mapping *m);

/* The smallest order that a folio of @m may have: a block is never larger than its folio. */
static inline uint8_t mapping_min_order(const struct mapping *m)
{
	return m->block_bits > PAGE_SHIFT_BITS ? (uint8_t)(m->block_bits - PAGE_SHIFT_BITS) : 0;
}

/* The folio that covers page @index, referenced, or NULL. Lock-free; recheck f->mapping under the folio lock. */
struct folio *mapping_find(struct mapping *m, uint64_t index);
/**
 * mapping_get_folio() - find or create the folio over @index, locked and referenced
 * @order_hint: order to create with (lowered to fit alignment, neighbours and memory)
 * Return: 0, -ENOMEM
 */
int mapping_get_folio(struct mapping *m, uint64_t index, uint8_t order_hint, struct folio **folio_out);
/* The same, but -EEXIST when there is one: for readahead, which waits for nobody. */
int mapping_create_folio(struct mapping *m, uint64_t index, uint8_t order_hint, struct folio **folio_out);
/* TAG_ANY: every folio. Up to @max folios with the tag from *index on, referenced, ascending; *index moves past the last. */
enum folio_tag { TAG_DIRTY, TAG_WRITEBACK, TAG_ANY };
unsigned mapping_find_tagged(struct mapping *m, uint64_t *index, uint64_t end_index, enum folio_tag tag,
			     struct folio **folios_out, unsigned max);

/*
 * Start, wait for, or both: all dirty data in [start, end). mapping_write_range() returns the first error of its
 * submissions; the waiting ones also an error of I/O that ended meanwhile. Neither takes it from mapping_check_error().
 */
int mapping_write_range(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes);
int mapping_wait_range(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes);
int mapping_write_and_wait(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes);

/*
 * Drops folios wholly at or beyond @new_size (waiting for their writeback) and zeroes the tail of the one it cuts; dirty
 * state past it is dropped. Caller: invalidate_lock exclusive, size_bytes set already.
 */
void mapping_truncate(struct mapping *m, uint64_t new_size_bytes);
/* The same for a hole [start, end): whole folios dropped, cut ones zeroed in place, zeroed whole blocks become clean. */
void mapping_punch(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes);
/* Drops clean, unlocked, unreferenced folios in the range; returns pages dropped. After a FUSE read, posix_fadvise. */
uint64_t mapping_drop_clean(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes);

/* errseq: a write error is seen once by everyone who sampled before it. */
void mapping_record_error(struct mapping *m, int err);
uint32_t mapping_sample_error(const struct mapping *m);
int mapping_check_error(struct mapping *m, uint32_t *since);

#endif
