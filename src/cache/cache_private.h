/* SPDX-License-Identifier: MIT */
/* cache_private.h - what the files of cache/ share: the cache itself, LRU lists, accounting, the flusher */
#ifndef UEXT4_CACHE_CACHE_PRIVATE_H
#define UEXT4_CACHE_CACHE_PRIVATE_H

#include <pthread.h>

#include "base/list.h"
#include "base/lock.h"
#include "cache/cache.h"
#include "cache/page_pool.h"

struct mapping;

/* Held over one pass of the flusher or of cache_writeback_all(); below folio locks and handles, which they take. */
#define RANK_FLUSH_PASS ((enum lock_rank)15)

/* ---- LRU lists with a second chance ---- */

#define LRU_SHARDS 8u

struct lru_shard {
	struct mutex lock;     /* RANK_CACHE_LRU */
	struct list_head list; /* [lock] oldest first */
	uint64_t count;        /* [lock] */
} __attribute__((aligned(64)));

/* An object's shard follows from its address, so a hit needs no lock: it only sets the object's referenced bit. */
struct lru {
	struct lru_shard shard[LRU_SHARDS];
	_Atomic unsigned hand; /* [atomic] shard to scan next */
	const struct lru_ops *ops; /* [const] */
};

struct lru_ops {
	/*
	 * With the shard locked. Takes a reference for evict() and returns true; or false, having cleared the
	 * referenced bit of an object used lately, or because it cannot go now.
	 */
	bool (*isolate)(struct list_head *node);
	/* Nothing locked. Frees the object if it is still idle and drops the reference; returns the bytes that come free. */
	uint64_t (*evict)(struct list_head *node);
};

void lru_init(struct lru *lru, const struct lru_ops *ops);
void lru_exit(struct lru *lru);
void lru_add(struct lru *lru, struct list_head *node);
void lru_del(struct lru *lru, struct list_head *node); /* harmless when it is on none */
/* Looks at up to @max_scan objects, until about @want_bytes came free. Never waits for I/O. Returns the bytes freed. */
uint64_t lru_scan(struct lru *lru, uint64_t want_bytes, uint64_t max_scan);
uint64_t lru_count(struct lru *lru);

/* ---- the cache ---- */

enum cache_kind { CACHE_DATA, CACHE_META };

struct reclaimer {
	struct mutex lock; /* RANK_WORK */
	struct cond wake;
	_Atomic bool kicked; /* [atomic] set by whoever goes above the high mark, cleared by the thread */
	bool stop;           /* [lock] */
	pthread_t thread;
};

struct flusher {
	struct mutex pass_lock;      /* RANK_FLUSH_PASS: one walk over dirty_mappings at a time */
	struct mutex dirty_lock;     /* RANK_CACHE_LRU */
	struct list_head dirty_mappings; /* [dirty_lock] mappings with dirty or writeback bytes, oldest first */
	uint64_t dirty_count;        /* [dirty_lock] */
	struct list_head buffer_caches; /* [pass_lock] */
	uint64_t pass;               /* [pass_lock] number of the current walk of cache_writeback_all() */
	bool pass_pressure;          /* [pass_lock] the current pass is for reclaim */

	struct mutex lock;           /* RANK_WORK */
	struct cond wake;            /* the thread waits for work */
	struct cond progress;        /* throttled callers wait for less dirty data */
	_Atomic unsigned throttled;  /* [atomic] how many wait on progress */
	_Atomic bool kicked;         /* [atomic] */
	_Atomic bool pressure;       /* [atomic] reclaim found nothing clean: write everything that may be written */
	bool stop;                   /* [lock] */
	pthread_t thread;
};

struct cache {
	struct cache_options options;    /* [const] */
	uint64_t high_bytes, low_bytes;  /* [const] reclaim starts above high and ends at low */
	uint64_t background_bytes, throttle_bytes; /* [const] of dirty data */
	struct page_pool *pool;
	struct lru folios, buffers;
	struct reclaimer reclaimer;
	struct flusher flusher;
	_Atomic uint64_t used_bytes[2] __attribute__((aligned(64))); /* [atomic] by cache_kind, overhead included */
	_Atomic uint64_t dirty_bytes __attribute__((aligned(64)));   /* [atomic] dirty, not yet under writeback */
	_Atomic uint64_t writeback_bytes;                            /* [atomic] */
};

uint64_t cache_now_ns(void); /* CLOCK_MONOTONIC */

static inline uint64_t cache_used(const struct cache *cache)
{
	return atomic_load_explicit(&cache->used_bytes[CACHE_DATA], memory_order_relaxed) +
	       atomic_load_explicit(&cache->used_bytes[CACHE_META], memory_order_relaxed);
}

/* Call before allocating: evicts clean objects when the limit is near, never waits; may leave memory above the limit. */
void cache_make_room(struct cache *cache, uint64_t bytes);
/* @block_bytes shows in the counters; @overhead_bytes (structures) only in the limit. */
void cache_charge(struct cache *cache, enum cache_kind kind, uint64_t block_bytes, uint64_t overhead_bytes);
void cache_uncharge(struct cache *cache, enum cache_kind kind, uint64_t block_bytes, uint64_t overhead_bytes);

int reclaim_start(struct cache *cache);
void reclaim_stop(struct cache *cache);
void reclaim_kick(struct cache *cache);

int flusher_start(struct cache *cache);
void flusher_stop(struct cache *cache);
void flusher_kick(struct cache *cache);
/* @m has dirty bytes: puts it on the flusher's list unless it is there. */
void flusher_add_mapping(struct cache *cache, struct mapping *m);
/* Waits until the flusher is not about to grab it, and takes it off the list. */
void flusher_remove_mapping(struct cache *cache, struct mapping *m);

/* Data went from clean to dirty, from dirty to writeback, or became clean. Any thread, also end_io. */
void cache_account_dirtied(struct cache *cache, uint64_t bytes);
void cache_account_cleaned(struct cache *cache, uint64_t bytes);
void cache_account_writeback_begin(struct cache *cache, uint64_t bytes);
void cache_account_writeback_end(struct cache *cache, uint64_t bytes);

/* ---- what cache.c and flusher.c know of folios and buffers ---- */

extern const struct lru_ops folio_lru_ops;
extern const struct lru_ops buffer_lru_ops;

struct buffer_cache;
/* Writes home what was dirtied at or before @dirtied_before_ns and may be written; waits. First error. */
int buffer_cache_write_old(struct buffer_cache *bc, uint64_t dirtied_before_ns);
struct list_head *buffer_cache_flusher_node(struct buffer_cache *bc);
struct buffer_cache *buffer_cache_of_flusher_node(struct list_head *node);

#endif
