/* SPDX-License-Identifier: MIT */
/*
 * reclaim.c - keeps memory within the limit
 *
 * Above the high mark the reclaim thread evicts clean objects down to the low mark. Above the limit itself whoever
 * allocates evicts too, a few objects for each that he adds, but never waits: he may hold a journal handle, and what he
 * would wait for may need that handle closed. So memory may go over the limit by what open handles pin. When nothing is
 * clean the thread has dirty data and old metadata written, and tells the journal (meta_pressure) to commit and
 * checkpoint, since blocks of uncommitted transactions may not be written by anybody else.
 */
#include "base/thread.h"
#include "cache/cache_private.h"

/* What one direct reclaim may look at: bounded work for a caller in a hurry. */
#define DIRECT_SCAN 256u
#define DIRECT_MIN_BYTES (UINT64_C(128) << 10)
#define RECLAIM_STEP_BYTES (UINT64_C(1) << 20)
/* Less metadata than this part of the limit is not what keeps memory high: no commit for it. */
#define META_PRESSURE_PART 16
/* Between attempts while nothing can be evicted: about one I/O's time first, then less often. */
#define RETRY_MIN_NS UINT64_C(5000000)
#define RETRY_MAX_NS UINT64_C(200000000)

/* Takes more from the kind that has more; metadata is worth keeping longer, so it counts half. */
static uint64_t reclaim_scan(struct cache *cache, uint64_t want_bytes, uint64_t max_scan)
{
	uint64_t data = atomic_load_explicit(&cache->used_bytes[CACHE_DATA], memory_order_relaxed);
	uint64_t meta = atomic_load_explicit(&cache->used_bytes[CACHE_META], memory_order_relaxed) / 2;
	uint64_t meta_want = data + meta ? want_bytes * (meta >> 10) / (((data + meta) >> 10) + 1) : 0;
	uint64_t freed = 0;

	if (meta_want < want_bytes)
		freed += lru_scan(&cache->folios, want_bytes - meta_want, max_scan);
	if (freed < want_bytes)
		freed += lru_scan(&cache->buffers, want_bytes - freed, max_scan);
	if (freed < want_bytes && meta_want >= want_bytes)
		freed += lru_scan(&cache->folios, want_bytes - freed, max_scan);
	return freed;
}

void reclaim_kick(struct cache *cache)
{
	struct reclaimer *r = &cache->reclaimer;

	if (atomic_load_explicit(&r->kicked, memory_order_relaxed))
		return;
	if (atomic_exchange(&r->kicked, true))
		return;
	mutex_lock(&r->lock);
	cond_signal(&r->wake);
	mutex_unlock(&r->lock);
}

void cache_make_room(struct cache *cache, uint64_t bytes)
{
	uint64_t used = cache_used(cache) + bytes;

	if (likely(used <= cache->high_bytes))
		return;
	reclaim_kick(cache);
	if (used > cache->options.limit_bytes)
		reclaim_scan(cache, max_of(bytes, DIRECT_MIN_BYTES), DIRECT_SCAN);
}

/* Nothing clean: has others make something clean. */
static void reclaim_press(struct cache *cache)
{
	atomic_store(&cache->flusher.pressure, true);
	flusher_kick(cache);
	if (cache->options.meta_pressure &&
	    atomic_load(&cache->used_bytes[CACHE_META]) > cache->options.limit_bytes / META_PRESSURE_PART)
		cache->options.meta_pressure(cache->options.arg);
}

/* One whole look at both lists suffices to find what can go: twice round, since the first clears referenced bits. */
static uint64_t reclaim_step(struct cache *cache)
{
	uint64_t most = 2 * (lru_count(&cache->folios) + lru_count(&cache->buffers)) + 1;

	return reclaim_scan(cache, RECLAIM_STEP_BYTES, most);
}

static bool reclaim_wait(struct reclaimer *r, uint64_t timeout_ns)
{
	bool stop;

	mutex_lock(&r->lock);
	if (!r->stop)
		cond_wait_timeout(&r->wake, &r->lock, timeout_ns);
	stop = r->stop;
	mutex_unlock(&r->lock);
	return stop;
}

static void reclaim_to_low(struct cache *cache)
{
	uint64_t retry_ns = RETRY_MIN_NS;

	while (cache_used(cache) > cache->low_bytes) {
		if (reclaim_step(cache) > 0) {
			retry_ns = RETRY_MIN_NS;
			continue;
		}
		if (cache_used(cache) <= cache->high_bytes)
			return;
		reclaim_press(cache);
		if (reclaim_wait(&cache->reclaimer, retry_ns))
			return;
		retry_ns = min_of(retry_ns * 2, RETRY_MAX_NS);
	}
}

static void *reclaim_thread(void *arg)
{
	struct cache *cache = arg;
	struct reclaimer *r = &cache->reclaimer;

	for (;;) {
		mutex_lock(&r->lock);
		while (!atomic_load(&r->kicked) && !r->stop)
			cond_wait(&r->wake, &r->lock);
		if (r->stop) {
			mutex_unlock(&r->lock);
			return NULL;
		}
		mutex_unlock(&r->lock);
		atomic_store(&r->kicked, false);
		reclaim_to_low(cache);
	}
}

int reclaim_start(struct cache *cache)
{
	struct reclaimer *r = &cache->reclaimer;
	int err;

	mutex_init(&r->lock, RANK_WORK);
	cond_init(&r->wake);
	atomic_init(&r->kicked, false);
	r->stop = false;
	err = thread_start("uext4-reclaim", reclaim_thread, cache, &r->thread);
	if (err) {
		cond_exit(&r->wake);
		mutex_exit(&r->lock);
	}
	return err;
}

void reclaim_stop(struct cache *cache)
{
	struct reclaimer *r = &cache->reclaimer;

	mutex_lock(&r->lock);
	r->stop = true;
	cond_signal(&r->wake);
	mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	cond_exit(&r->wake);
	mutex_exit(&r->lock);
}

void cache_shrink(struct cache *cache, uint64_t target_bytes)
{
	while (cache_used(cache) > target_bytes && reclaim_step(cache) > 0)
		;
}
