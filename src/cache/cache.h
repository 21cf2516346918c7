/* SPDX-License-Identifier: MIT */
/* cache.h - one memory limit for folios and buffers: LRU, reclaim, dirty accounting, throttling */
#ifndef UEXT4_CACHE_CACHE_H
#define UEXT4_CACHE_CACHE_H

#include "base/counters.h"
#include "base/log.h"
#include "base/types.h"

struct cache;

struct cache_options {
	uint64_t limit_bytes;           /* data and metadata together; at least 8 MiB */
	uint64_t dirty_expire_ns;       /* dirty data older than this is written; 0: 5 s */
	struct counters *counters;      /* kept; not NULL */
	const struct log_sink *log;     /* kept; not NULL */
	/*
	 * Called on the reclaim thread when metadata pinned by the journal keeps memory above the limit: start a
	 * commit and a checkpoint; may block. NULL: none.
	 */
	void (*meta_pressure)(void *arg);
	/*
	 * Called every second on the flusher thread, for lazy times and the like. Takes no inode.rwsem: a throttled
	 * writer holds his while he waits for this thread. NULL: none.
	 */
	void (*tick)(void *arg);
	void *arg;
};

/* Starts the reclaim and flusher threads. -ENOMEM, -EAGAIN (no thread). */
int cache_create(const struct cache_options *options, struct cache **cache_out);
/* All mappings and buffer caches on it are gone by now. Stops the threads. */
void cache_destroy(struct cache *cache);

/*
 * Waits while dirty data is above its share of the limit (20%), waking the flusher; background writeback
 * starts at half of that. Call with no folio lock and no handle; inode.rwsem may be held.
 */
void cache_throttle_dirty(struct cache *cache);

/* Writes all dirty data of all mappings and, if @wait, waits for it. Returns the first error seen. */
int cache_writeback_all(struct cache *cache, bool wait);

struct counters *cache_counters(const struct cache *cache);
/* Data bytes dirty or under writeback. */
uint64_t cache_dirty_bytes(const struct cache *cache);
/* Frees clean folios and buffers until at most @target_bytes are in use or nothing more can go. For tests and drop_caches. */
void cache_shrink(struct cache *cache, uint64_t target_bytes);

#endif
