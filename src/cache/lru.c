/* SPDX-License-Identifier: MIT */
/*
 * lru.c - which objects to evict: a clock per shard
 *
 * A new object goes to the end without its referenced bit. A hit sets the bit (if it is not set: a hot object's cache
 * line stays shared). The scan looks at the oldest object: with the bit it loses the bit and goes to the end, without it
 * it is evicted if idle. So what is used again between two scans stays, and what was streamed through once goes.
 *
 * Isolated objects stay on their list, rotated to its end; a reference keeps them from being freed while the shard is
 * unlocked for the eviction, which needs locks that rank before this one.
 */
#include "cache/cache_private.h"

/* Evictions per lock of the shard. */
#define LRU_BATCH 32u
/* Objects looked at per lock: bounds how long a shard is locked when nothing can go. */
#define LRU_SCAN_CHUNK 128u

static struct lru_shard *lru_shard_of(struct lru *lru, const struct list_head *node)
{
	uintptr_t addr = (uintptr_t)node;

	/* Structures come from malloc with sizes of 100 to 200 bytes: bits below 8 say little. */
	return &lru->shard[((addr >> 8) ^ (addr >> 14)) % LRU_SHARDS];
}

void lru_init(struct lru *lru, const struct lru_ops *ops)
{
	for (unsigned i = 0; i < LRU_SHARDS; i++) {
		mutex_init(&lru->shard[i].lock, RANK_CACHE_LRU);
		list_init(&lru->shard[i].list);
		lru->shard[i].count = 0;
	}
	atomic_init(&lru->hand, 0);
	lru->ops = ops;
}

void lru_exit(struct lru *lru)
{
	for (unsigned i = 0; i < LRU_SHARDS; i++) {
		UEXT4_ASSERT(list_empty(&lru->shard[i].list));
		mutex_exit(&lru->shard[i].lock);
	}
}

void lru_add(struct lru *lru, struct list_head *node)
{
	struct lru_shard *shard = lru_shard_of(lru, node);

	mutex_lock(&shard->lock);
	list_add_tail(node, &shard->list);
	shard->count++;
	mutex_unlock(&shard->lock);
}

void lru_del(struct lru *lru, struct list_head *node)
{
	struct lru_shard *shard = lru_shard_of(lru, node);

	mutex_lock(&shard->lock);
	if (!list_empty(node)) {
		list_del(node);
		shard->count--;
	}
	mutex_unlock(&shard->lock);
}

uint64_t lru_count(struct lru *lru)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < LRU_SHARDS; i++) {
		mutex_lock(&lru->shard[i].lock);
		count += lru->shard[i].count;
		mutex_unlock(&lru->shard[i].lock);
	}
	return count;
}

/* Fills @batch from the shard's old end; returns how many. *scanned_out: objects looked at, 0 when it is empty. */
static unsigned lru_isolate_batch(struct lru *lru, struct lru_shard *shard, struct list_head **batch,
				  unsigned *scanned_out)
{
	unsigned count = 0, scanned = 0;

	mutex_lock(&shard->lock);
	while (count < LRU_BATCH && scanned < LRU_SCAN_CHUNK && scanned < shard->count) {
		struct list_head *node = shard->list.next;

		scanned++;
		list_move_tail(node, &shard->list);
		if (lru->ops->isolate(node))
			batch[count++] = node;
	}
	mutex_unlock(&shard->lock);
	*scanned_out = scanned;
	return count;
}

uint64_t lru_scan(struct lru *lru, uint64_t want_bytes, uint64_t max_scan)
{
	struct list_head *batch[LRU_BATCH];
	uint64_t freed = 0, total_scanned = 0;
	unsigned empty_shards = 0;

	while (freed < want_bytes && total_scanned < max_scan && empty_shards < LRU_SHARDS) {
		unsigned hand = atomic_fetch_add_explicit(&lru->hand, 1, memory_order_relaxed);
		unsigned count, scanned;

		count = lru_isolate_batch(lru, &lru->shard[hand % LRU_SHARDS], batch, &scanned);
		for (unsigned i = 0; i < count; i++)
			freed += lru->ops->evict(batch[i]);
		total_scanned += scanned;
		empty_shards = scanned ? 0 : empty_shards + 1;
	}
	return freed;
}
