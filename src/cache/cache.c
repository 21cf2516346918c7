/* SPDX-License-Identifier: MIT */
/* cache.c - the cache object: limits and accounting of memory and of dirty data */
#include "cache/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/object.h"
#include "base/rcu.h"
#include "cache/cache_private.h"

#define LIMIT_MIN_BYTES (UINT64_C(8) << 20)
#define DIRTY_EXPIRE_NS UINT64_C(5000000000)
/* Free blocks kept for reuse; a part of what the process may use beyond the limit. */
#define POOL_RESERVE_BYTES (UINT64_C(32) << 20)

uint64_t cache_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void cache_set_limits(struct cache *cache, const struct cache_options *options)
{
	uint64_t limit = max_of(options->limit_bytes, LIMIT_MIN_BYTES);

	cache->options = *options;
	cache->options.limit_bytes = limit;
	if (!options->dirty_expire_ns)
		cache->options.dirty_expire_ns = DIRTY_EXPIRE_NS;
	cache->high_bytes = limit - limit / 32;
	cache->low_bytes = limit - limit / 16;
	cache->throttle_bytes = limit / 5;
	cache->background_bytes = limit / 10;
}

int cache_create(const struct cache_options *options, struct cache **cache_out)
{
	struct cache *cache = aligned_alloc(64, round_up_to(sizeof(*cache), 64));
	int err;

	if (!cache)
		return -ENOMEM;
	memset(cache, 0, sizeof(*cache));
	cache_set_limits(cache, options);
	lru_init(&cache->folios, &folio_lru_ops);
	lru_init(&cache->buffers, &buffer_lru_ops);
	err = page_pool_create(cache->options.limit_bytes, min_of(POOL_RESERVE_BYTES, cache->options.limit_bytes / 4),
			       &cache->pool);
	if (err)
		goto free_cache;
	err = flusher_start(cache);
	if (err)
		goto destroy_pool;
	err = reclaim_start(cache);
	if (err)
		goto stop_flusher;
	counter_add(options->counters, CNT_CACHE_LIMIT_BYTES, (int64_t)cache->options.limit_bytes);
	*cache_out = cache;
	return 0;
stop_flusher:
	flusher_stop(cache);
destroy_pool:
	page_pool_destroy(cache->pool);
free_cache:
	lru_exit(&cache->folios);
	lru_exit(&cache->buffers);
	free(cache);
	return err;
}

void cache_destroy(struct cache *cache)
{
	if (!cache)
		return;
	reclaim_stop(cache);
	flusher_stop(cache);
	rcu_drain(); /* what was deferred may still uncharge */
	objects_trim();
	UEXT4_ASSERT(atomic_load(&cache->dirty_bytes) == 0 && atomic_load(&cache->writeback_bytes) == 0);
	lru_exit(&cache->folios);
	lru_exit(&cache->buffers);
	page_pool_destroy(cache->pool);
	counter_add(cache->options.counters, CNT_CACHE_LIMIT_BYTES, -(int64_t)cache->options.limit_bytes);
	free(cache);
}

/* ---- memory ---- */

static enum counter_id kind_counter(enum cache_kind kind)
{
	return kind == CACHE_DATA ? CNT_CACHE_DATA_BYTES : CNT_CACHE_META_BYTES;
}

void cache_charge(struct cache *cache, enum cache_kind kind, uint64_t block_bytes, uint64_t overhead_bytes)
{
	atomic_fetch_add_explicit(&cache->used_bytes[kind], block_bytes + overhead_bytes, memory_order_relaxed);
	if (block_bytes)
		counter_add(cache->options.counters, kind_counter(kind), (int64_t)block_bytes);
}

void cache_uncharge(struct cache *cache, enum cache_kind kind, uint64_t block_bytes, uint64_t overhead_bytes)
{
	uint64_t bytes = block_bytes + overhead_bytes;
	uint64_t old = atomic_fetch_sub_explicit(&cache->used_bytes[kind], bytes, memory_order_relaxed);

	UEXT4_ASSERT(old >= bytes);
	if (block_bytes)
		counter_add(cache->options.counters, kind_counter(kind), -(int64_t)block_bytes);
}

/* ---- dirty data ---- */

void cache_account_dirtied(struct cache *cache, uint64_t bytes)
{
	uint64_t dirty = atomic_fetch_add_explicit(&cache->dirty_bytes, bytes, memory_order_relaxed) + bytes;

	counter_add(cache->options.counters, CNT_WB_BYTES_DIRTIED, (int64_t)bytes);
	if (dirty > cache->background_bytes)
		flusher_kick(cache);
}

/* Throttled callers sleep until less is dirty; most of the time there are none. */
static void wake_throttled(struct cache *cache)
{
	struct flusher *fl = &cache->flusher;

	if (likely(!atomic_load(&fl->throttled)))
		return;
	if (cache_dirty_bytes(cache) > cache->throttle_bytes)
		return;
	mutex_lock(&fl->lock);
	cond_broadcast(&fl->progress);
	mutex_unlock(&fl->lock);
}

void cache_account_cleaned(struct cache *cache, uint64_t bytes)
{
	uint64_t old = atomic_fetch_sub(&cache->dirty_bytes, bytes);

	UEXT4_ASSERT(old >= bytes);
	wake_throttled(cache);
}

void cache_account_writeback_begin(struct cache *cache, uint64_t bytes)
{
	uint64_t old;

	atomic_fetch_add(&cache->writeback_bytes, bytes);
	old = atomic_fetch_sub(&cache->dirty_bytes, bytes);
	UEXT4_ASSERT(old >= bytes);
}

void cache_account_writeback_end(struct cache *cache, uint64_t bytes)
{
	uint64_t old = atomic_fetch_sub(&cache->writeback_bytes, bytes);

	UEXT4_ASSERT(old >= bytes);
	wake_throttled(cache);
}

struct counters *cache_counters(const struct cache *cache)
{
	return cache->options.counters;
}

uint64_t cache_dirty_bytes(const struct cache *cache)
{
	return atomic_load(&cache->dirty_bytes) + atomic_load(&cache->writeback_bytes);
}
