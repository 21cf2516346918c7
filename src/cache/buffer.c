/* SPDX-License-Identifier: MIT */
/*
 * buffer.c - the hash of buffer heads: lookup, creation, eviction, dirty lists
 *
 * Lookups walk a hash chain under RCU and take a reference with a compare-and-swap; no lock and no write but the
 * reference itself. Insertion and removal take the shard's lock.
 *
 * B1  A buffer in the hash has refs >= 0. Eviction freezes an idle one by moving refs from 0 to BUFFER_DEAD; lookups
 *     treat it as absent, take the shard's lock, and so wait until it is gone or thawed.
 * B2  BH_DIRTY, BH_WRITEBACK or a journal head pin a buffer. They are set only by holders of a reference (or of the
 *     journal head), so after a successful freeze they cannot appear.
 * B3  A buffer is on its shard's dirty list if BH_DIRTY is set, as soon as whoever changed the bit has left
 *     buffer_update_dirty_list().
 */
#include "cache/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/object.h"
#include "base/table.h"
#include "cache/buffer_private.h"

#define BUFFER_DEAD INT32_MIN
#define CHAINS_MAX (UINT32_C(1) << 18)
#define OVERHEAD_BYTES sizeof(struct buffer_head)
/* Milliseconds that the last reads ahead may take: longer than any device's time-out. */
#define DISCARD_TRIES 120000u

/* Blocks that follow each other share a cache line of chains, and a shard. */
#define CHAIN_RUN 8u

static uint64_t blk_hash(fsblk_t blk)
{
	return blk / CHAIN_RUN * UINT64_C(0x9E3779B97F4A7C15);
}

struct buffer_shard *buffer_shard_of(struct buffer_cache *bc, fsblk_t blk)
{
	return &bc->shard[blk_hash(blk) >> 59];
}

static_assert(BUFFER_SHARDS == 1u << (64 - 59), "the hash's five top bits name the shard");

static _Atomic(struct buffer_head *) *buffer_chain(struct buffer_cache *bc, fsblk_t blk)
{
	uint64_t hash = blk_hash(blk);

	return &bc->shard[hash >> 59].chains[((hash >> 32) * CHAIN_RUN + blk % CHAIN_RUN) & (bc->chains_per_shard - 1)];
}

/* ---- life of a cache ---- */

/* For a quarter of the memory, or all of a small device. */
static uint32_t chains_wanted(const struct cache *cache, const struct buffer_cache *bc)
{
	uint64_t buffers = min_of(cache->options.limit_bytes / bc->block_bytes / 4, bc->nr_blocks);
	uint32_t chains = 16;

	while (chains < CHAINS_MAX / BUFFER_SHARDS && (uint64_t)chains * BUFFER_SHARDS < buffers)
		chains *= 2;
	return chains;
}

static size_t chains_bytes(const struct buffer_cache *bc)
{
	return (size_t)BUFFER_SHARDS * bc->chains_per_shard * sizeof(*bc->chains);
}

static int shards_init(struct buffer_cache *bc)
{
	bc->chains = table_alloc(chains_bytes(bc));
	if (!bc->chains)
		return -ENOMEM;
	for (unsigned i = 0; i < BUFFER_SHARDS; i++) {
		struct buffer_shard *shard = &bc->shard[i];

		shard->chains = bc->chains + (size_t)i * bc->chains_per_shard;
		mutex_init(&shard->lock, RANK_MAPPING_TREE);
		list_init(&shard->dirty);
	}
	return 0;
}

int buffer_cache_create(struct cache *cache, struct block_device *dev, uint32_t block_bytes,
			const struct log_sink *log, struct buffer_cache **cache_out)
{
	struct buffer_cache *bc;
	int err;

	UEXT4_ASSERT(block_bytes >= 1024 && block_bytes <= 65536 && (block_bytes & (block_bytes - 1)) == 0);
	bc = aligned_alloc(64, round_up_to(sizeof(*bc), 64));
	if (!bc)
		return -ENOMEM;
	memset(bc, 0, sizeof(*bc));
	bc->cache = cache;
	bc->dev = dev;
	bc->log = log;
	bc->block_bytes = block_bytes;
	bc->block_shift = (uint8_t)__builtin_ctz(block_bytes);
	bc->nr_blocks = dev->size_bytes >> bc->block_shift;
	bc->chains_per_shard = chains_wanted(cache, bc);
	err = shards_init(bc);
	if (err) {
		free(bc);
		return err;
	}
	mutex_init(&bc->write_lock, RANK_WORK);
	cond_init(&bc->write_cond);
	list_init(&bc->writers);
	mutex_lock(&cache->flusher.pass_lock);
	list_add_tail(&bc->flusher_node, &cache->flusher.buffer_caches);
	mutex_unlock(&cache->flusher.pass_lock);
	*cache_out = bc;
	return 0;
}

struct list_head *buffer_cache_flusher_node(struct buffer_cache *bc)
{
	return &bc->flusher_node;
}

struct buffer_cache *buffer_cache_of_flusher_node(struct list_head *node)
{
	return list_entry(node, struct buffer_cache, flusher_node);
}

uint32_t buffer_cache_block_bytes(const struct buffer_cache *bc)
{
	return bc->block_bytes;
}

struct block_device *buffer_cache_device(const struct buffer_cache *bc)
{
	return bc->dev;
}

/* ---- references and locks ---- */

bool buffer_hold_unless_dead(struct buffer_head *bh)
{
	int32_t refs = atomic_load_explicit(&bh->refs, memory_order_relaxed);

	while (refs >= 0)
		if (atomic_compare_exchange_weak_explicit(&bh->refs, &refs, refs + 1, memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

void buffer_hold(struct buffer_head *bh)
{
	int32_t old = atomic_fetch_add_explicit(&bh->refs, 1, memory_order_relaxed);

	UEXT4_ASSERT(old >= 0);
}

void buffer_put(struct buffer_head *bh)
{
	int32_t old;

	if (!bh)
		return;
	old = atomic_fetch_sub_explicit(&bh->refs, 1, memory_order_release);
	UEXT4_ASSERT(old > 0);
}

void buffer_lock(struct buffer_head *bh)
{
	lock_rank_enter(RANK_BUFFER);
	word_bit_lock(&bh->state, BH_LOCKED, BH_WAITERS);
}

bool buffer_trylock(struct buffer_head *bh)
{
	if (!word_bit_trylock(&bh->state, BH_LOCKED))
		return false;
	lock_rank_enter_try(RANK_BUFFER);
	return true;
}

void buffer_unlock(struct buffer_head *bh)
{
	UEXT4_ASSERT(buffer_test(bh, BH_LOCKED));
	word_bit_unlock(&bh->state, BH_LOCKED, BH_WAITERS);
	lock_rank_leave(RANK_BUFFER);
}

void buffer_wait_writeback(struct buffer_head *bh)
{
	word_bit_wait_clear(&bh->state, BH_WRITEBACK, BH_WAITERS);
}

/* ---- lookup and creation ---- */

static void buffer_touch(struct buffer_head *bh)
{
	if (!buffer_test(bh, BH_REFERENCED))
		atomic_fetch_or_explicit(&bh->state, BH_REFERENCED, memory_order_relaxed);
}

/* RCU section or the shard's lock held. */
static struct buffer_head *chain_find(_Atomic(struct buffer_head *) *chain, fsblk_t blk)
{
	struct buffer_head *bh = atomic_load_explicit(chain, memory_order_acquire);

	while (bh && bh->blk != blk)
		bh = atomic_load_explicit(&bh->hash_next, memory_order_acquire);
	return bh;
}

/* An eviction has frozen it; it may be thawed, so only the lock tells whether it is there (B1). */
static struct buffer_head *buffer_find_locked(struct buffer_cache *bc, fsblk_t blk)
{
	struct buffer_shard *shard = buffer_shard_of(bc, blk);
	struct buffer_head *bh;

	mutex_lock(&shard->lock);
	bh = chain_find(buffer_chain(bc, blk), blk);
	if (bh)
		buffer_hold(bh);
	mutex_unlock(&shard->lock);
	return bh;
}

struct buffer_head *buffer_find(struct buffer_cache *bc, fsblk_t blk)
{
	struct buffer_head *bh;
	bool dead;

	rcu_enter();
	bh = chain_find(buffer_chain(bc, blk), blk);
	dead = bh && !buffer_hold_unless_dead(bh);
	rcu_leave();
	if (unlikely(dead))
		bh = buffer_find_locked(bc, blk);
	if (bh)
		buffer_touch(bh);
	return bh;
}

static struct buffer_head *buffer_alloc(struct buffer_cache *bc, fsblk_t blk)
{
	struct buffer_head *bh;

	cache_make_room(bc->cache, bc->block_bytes + OVERHEAD_BYTES);
	bh = object_alloc(sizeof(*bh));
	if (!bh)
		return NULL;
	bh->data = page_pool_alloc(bc->cache->pool, bc->block_shift);
	if (!bh->data) {
		object_free(bh, sizeof(*bh));
		return NULL;
	}
	bh->blk = blk;
	bh->cache = bc;
	atomic_init(&bh->note, 0);
	atomic_init(&bh->state, BH_NEW);
	atomic_init(&bh->refs, 1);
	list_init(&bh->lru);
	list_init(&bh->dirty_node);
	cache_charge(bc->cache, CACHE_META, bc->block_bytes, OVERHEAD_BYTES);
	return bh;
}

static void buffer_free_deferred(struct rcu_head *head)
{
	object_free(container_of(head, struct buffer_head, rcu), sizeof(struct buffer_head));
}

/* Nobody can reach it but RCU readers, who look at its number and references only. */
static void buffer_free(struct buffer_cache *bc, struct buffer_head *bh)
{
	page_pool_free(bc->cache->pool, bh->data, bc->block_shift);
	cache_uncharge(bc->cache, CACHE_META, bc->block_bytes, OVERHEAD_BYTES);
	rcu_defer(&bh->rcu, buffer_free_deferred);
}

/* Out of the hash, frozen. The count goes down last: once it is 0, buffer_cache_destroy() frees @bc. */
static void buffer_release(struct buffer_cache *bc, struct buffer_head *bh)
{
	lru_del(&bc->cache->buffers, &bh->lru);
	buffer_free(bc, bh);
	atomic_fetch_sub_explicit(&bc->nr_buffers, 1, memory_order_release);
}

/* Puts @fresh into the hash unless somebody was faster; returns the one that is there, referenced. */
static struct buffer_head *buffer_insert(struct buffer_cache *bc, struct buffer_head *fresh)
{
	struct buffer_shard *shard = buffer_shard_of(bc, fresh->blk);
	_Atomic(struct buffer_head *) *chain = buffer_chain(bc, fresh->blk);
	struct buffer_head *bh;

	mutex_lock(&shard->lock);
	bh = chain_find(chain, fresh->blk);
	if (bh) {
		buffer_hold(bh); /* B1: frozen only within the shard's lock */
		mutex_unlock(&shard->lock);
		return bh;
	}
	atomic_store_explicit(&fresh->hash_next, atomic_load_explicit(chain, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_fetch_add_explicit(&bc->nr_buffers, 1, memory_order_relaxed);
	atomic_store_explicit(chain, fresh, memory_order_release);
	lru_add(&bc->cache->buffers, &fresh->lru);
	mutex_unlock(&shard->lock);
	return fresh;
}

int buffer_get(struct buffer_cache *bc, fsblk_t blk, struct buffer_head **bh_out)
{
	struct buffer_head *bh, *fresh;

	if (blk >= bc->nr_blocks)
		return -EUCLEAN;
	bh = buffer_find(bc, blk);
	if (likely(bh)) {
		*bh_out = bh;
		return 0;
	}
	fresh = buffer_alloc(bc, blk);
	if (!fresh)
		return -ENOMEM;
	bh = buffer_insert(bc, fresh);
	if (bh != fresh)
		buffer_free(bc, fresh);
	*bh_out = bh;
	return 0;
}

/* ---- eviction ---- */

/* Shard locked. */
static void chain_remove(_Atomic(struct buffer_head *) *chain, struct buffer_head *bh)
{
	_Atomic(struct buffer_head *) *link = chain;
	struct buffer_head *at;

	while ((at = atomic_load_explicit(link, memory_order_relaxed)) != bh)
		link = &at->hash_next;
	/* Readers on @bh still find the way on: its own link stays. */
	atomic_store_explicit(link, atomic_load_explicit(&bh->hash_next, memory_order_relaxed),
			      memory_order_release);
}

/* B2: with refs frozen, nothing that pins it can be added any more. */
static bool buffer_is_pinned(const struct buffer_head *bh)
{
	/* The journal lets go of a buffer after it has marked it dirty: look in the same order. */
	if (atomic_load_explicit(&bh->jh, memory_order_acquire))
		return true;
	return buffer_test(bh, BH_DIRTY | BH_JBDDIRTY | BH_WRITEBACK | BH_LOCKED);
}

/* Removes @bh if @refs, the caller's own, are all there are and nothing pins it. */
static bool buffer_try_evict(struct buffer_head *bh, int32_t refs)
{
	struct buffer_cache *bc = bh->cache;
	struct buffer_shard *shard = buffer_shard_of(bc, bh->blk);

	mutex_lock(&shard->lock);
	if (!atomic_compare_exchange_strong(&bh->refs, &refs, BUFFER_DEAD)) {
		mutex_unlock(&shard->lock);
		return false;
	}
	if (buffer_is_pinned(bh)) {
		atomic_store_explicit(&bh->refs, refs, memory_order_release);
		mutex_unlock(&shard->lock);
		return false;
	}
	chain_remove(buffer_chain(bc, bh->blk), bh);
	list_del(&bh->dirty_node); /* the bit is clear: whoever cleared it may not have come to the list yet */
	mutex_unlock(&shard->lock);
	buffer_release(bc, bh);
	return true;
}

static bool buffer_lru_isolate(struct list_head *node)
{
	struct buffer_head *bh = list_entry(node, struct buffer_head, lru);

	if (buffer_test(bh, BH_REFERENCED)) {
		buffer_clear(bh, BH_REFERENCED);
		return false;
	}
	if (atomic_load_explicit(&bh->refs, memory_order_relaxed) != 0 || buffer_is_pinned(bh))
		return false;
	return buffer_hold_unless_dead(bh);
}

static uint64_t buffer_lru_evict(struct list_head *node)
{
	struct buffer_head *bh = list_entry(node, struct buffer_head, lru);
	struct cache *cache = bh->cache->cache;
	uint64_t bytes = bh->cache->block_bytes + OVERHEAD_BYTES;

	if (!buffer_try_evict(bh, 1)) {
		buffer_put(bh);
		return 0;
	}
	counter_add(cache->options.counters, CNT_CACHE_EVICTIONS, 1);
	return bytes;
}

const struct lru_ops buffer_lru_ops = { .isolate = buffer_lru_isolate, .evict = buffer_lru_evict };

static void buffer_forget(struct buffer_head *bh)
{
	if (!atomic_load_explicit(&bh->jh, memory_order_acquire)) {
		buffer_lock(bh); /* a read ahead in flight would bring the old contents back */
		buffer_clean(bh);
		buffer_wait_writeback(bh);
		buffer_clear(bh, BH_UPTODATE | BH_VERIFIED | BH_WRITE_ERR);
		buffer_unlock(bh);
		if (buffer_try_evict(bh, 1))
			return;
	}
	buffer_put(bh);
}

/* One buffer of @shard in the range, referenced, or NULL. Chains from *chain on. */
static struct buffer_head *shard_find_in_range(struct buffer_cache *bc, struct buffer_shard *shard, uint32_t *chain,
					       fsblk_t blk, uint64_t count)
{
	struct buffer_head *bh = NULL;

	mutex_lock(&shard->lock);
	for (; *chain < bc->chains_per_shard; ++*chain) {
		bh = atomic_load_explicit(&shard->chains[*chain], memory_order_relaxed);
		while (bh && (bh->blk - blk >= count || atomic_load_explicit(&bh->jh, memory_order_acquire) ||
			      !buffer_test(bh, BH_UPTODATE | BH_DIRTY | BH_WRITEBACK | BH_LOCKED)))
			bh = atomic_load_explicit(&bh->hash_next, memory_order_relaxed);
		if (bh)
			break;
	}
	if (bh)
		buffer_hold(bh);
	mutex_unlock(&shard->lock);
	return bh;
}

void buffer_forget_range(struct buffer_cache *bc, fsblk_t blk, uint64_t count)
{
	struct buffer_head *bh;

	/* Freed file data was never here: for long ranges it is cheaper to ask the few buffers than each block. */
	if (count / 4 <= atomic_load_explicit(&bc->nr_buffers, memory_order_relaxed) + bc->chains_per_shard) {
		for (uint64_t i = 0; i < count; i++)
			if ((bh = buffer_find(bc, blk + i)) != NULL)
				buffer_forget(bh);
		return;
	}
	for (unsigned i = 0; i < BUFFER_SHARDS; i++) {
		uint32_t chain = 0;

		while ((bh = shard_find_in_range(bc, &bc->shard[i], &chain, blk, count)) != NULL)
			buffer_forget(bh);
	}
}

/* ---- dirty ---- */

void buffer_update_dirty_list(struct buffer_head *bh)
{
	struct buffer_shard *shard = buffer_shard_of(bh->cache, bh->blk);
	bool dirty;

	mutex_lock(&shard->lock);
	dirty = buffer_test(bh, BH_DIRTY);
	if (dirty && list_empty(&bh->dirty_node)) {
		bh->dirtied_ns = cache_now_ns();
		list_add_tail(&bh->dirty_node, &shard->dirty);
	} else if (!dirty) {
		list_del(&bh->dirty_node);
	}
	mutex_unlock(&shard->lock);
}

void buffer_mark_dirty(struct buffer_head *bh)
{
	if (!buffer_test(bh, BH_DIRTY) && !(buffer_set(bh, BH_DIRTY) & BH_DIRTY))
		buffer_update_dirty_list(bh);
}

void buffer_clean(struct buffer_head *bh)
{
	if (buffer_clear(bh, BH_DIRTY) & BH_DIRTY)
		buffer_update_dirty_list(bh);
}

/* ---- end of a cache ---- */

/* Takes one buffer of the chain out of the hash, frozen, if nobody refers to it; NULL: all are in use, or none is left. */
static struct buffer_head *chain_take(struct buffer_shard *shard, _Atomic(struct buffer_head *) *chain)
{
	struct buffer_head *bh;
	int32_t refs = 0;

	mutex_lock(&shard->lock);
	bh = atomic_load_explicit(chain, memory_order_relaxed);
	while (bh && !atomic_compare_exchange_strong(&bh->refs, &refs, BUFFER_DEAD)) {
		bh = atomic_load_explicit(&bh->hash_next, memory_order_relaxed);
		refs = 0;
	}
	if (bh) {
		chain_remove(chain, bh);
		list_del(&bh->dirty_node);
	}
	mutex_unlock(&shard->lock);
	return bh;
}

static void shard_discard(struct buffer_cache *bc, struct buffer_shard *shard)
{
	struct buffer_head *bh;

	for (uint32_t i = 0; i < bc->chains_per_shard; i++)
		while ((bh = chain_take(shard, &shard->chains[i])) != NULL)
			buffer_release(bc, bh);
}

/* References still there belong to reads ahead in flight, or to reclaim looking at a buffer; both end soon. */
static void buffers_discard(struct buffer_cache *bc)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (unsigned tries = 0;; tries++) {
		for (unsigned i = 0; i < BUFFER_SHARDS; i++)
			shard_discard(bc, &bc->shard[i]);
		if (atomic_load_explicit(&bc->nr_buffers, memory_order_acquire) == 0)
			return;
		UEXT4_ASSERT(tries < DISCARD_TRIES); /* else somebody has forgotten a buffer_put() */
		nanosleep(&pause, NULL);
	}
}

void buffer_cache_destroy(struct buffer_cache *bc)
{
	if (!bc)
		return;
	mutex_lock(&bc->cache->flusher.pass_lock);
	list_del(&bc->flusher_node);
	mutex_unlock(&bc->cache->flusher.pass_lock);
	buffers_discard(bc);
	for (unsigned i = 0; i < BUFFER_SHARDS; i++)
		mutex_exit(&bc->shard[i].lock);
	table_free(bc->chains, chains_bytes(bc));
	UEXT4_ASSERT(list_empty(&bc->writers));
	cond_exit(&bc->write_cond);
	mutex_exit(&bc->write_lock);
	free(bc);
}
