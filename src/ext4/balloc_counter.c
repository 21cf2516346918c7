/* SPDX-License-Identifier: MIT */
/* balloc_counter.c - tokens for blocks: cheap while there are many, exact when there are few */
#include "ext4/balloc_private.h"

void block_counter_init(struct block_counter *c, uint64_t free_blks, uint64_t root_blks)
{
	int64_t pool = (int64_t)min_of(free_blks, root_blks);
	unsigned i;

	for (i = 0; i < COUNTER_SHARDS; i++)
		atomic_init(&c->shard[i].blks, 0);
	c->root_target = (int64_t)root_blks;
	atomic_init(&c->root_pool, pool);
	atomic_init(&c->central, (int64_t)free_blks - pool);
	mutex_init(&c->lock, RANK_LEAF);
}

void block_counter_exit(struct block_counter *c)
{
	mutex_exit(&c->lock);
}

static bool take_if_at_least(_Atomic int64_t *from, int64_t take, int64_t at_least)
{
	int64_t have = atomic_load_explicit(from, memory_order_relaxed);

	while (have >= at_least)
		if (atomic_compare_exchange_weak(from, &have, have - take))
			return true;
	return false;
}

/* Caller: lock. Every token outside the root pool is in the centre for a moment. */
static void call_tokens_in(struct block_counter *c)
{
	unsigned i;

	for (i = 0; i < COUNTER_SHARDS; i++)
		atomic_fetch_add(&c->central, atomic_exchange(&c->shard[i].blks, 0));
}

/* Takes up to @want, all of it or nothing if @all. */
static int64_t take_up_to(_Atomic int64_t *from, int64_t want, bool all)
{
	int64_t have = atomic_load(from), take;

	do {
		take = min_of(have, want);
		if (take <= 0 || (all && take < want))
			return 0;
	} while (!atomic_compare_exchange_weak(from, &have, have - take));
	return take;
}

static uint64_t claim_slow(struct block_counter *c, int64_t want, bool root, bool all)
{
	int64_t got, more = 0;

	mutex_lock(&c->lock);
	call_tokens_in(c);
	got = take_up_to(&c->central, want, all && !root);
	if (root && got < want)
		more = take_up_to(&c->root_pool, want - got, all);
	if (all && got + more < want) {
		atomic_fetch_add(&c->central, got);
		got = more = 0;
	}
	mutex_unlock(&c->lock);
	return (uint64_t)(got + more);
}

/* Tokens on their way between centre and shard are seen by nobody, so they move under the lock. */
static bool refill_and_take(struct block_counter *c, _Atomic int64_t *shard, int64_t want)
{
	bool ok;

	if (atomic_load_explicit(&c->central, memory_order_relaxed) < want + 4 * BLOCK_COUNTER_BATCH)
		return false;
	mutex_lock(&c->lock);
	ok = take_if_at_least(&c->central, want + BLOCK_COUNTER_BATCH, want + 4 * BLOCK_COUNTER_BATCH);
	if (ok)
		atomic_fetch_add(shard, BLOCK_COUNTER_BATCH);
	mutex_unlock(&c->lock);
	return ok;
}

uint64_t block_counter_claim(struct block_counter *c, uint64_t blks, bool root, bool all)
{
	_Atomic int64_t *shard = &c->shard[counter_shard_index()].blks;
	int64_t want = (int64_t)blks;

	if (take_if_at_least(shard, want, want))
		return blks;
	if (want >= BLOCK_COUNTER_BATCH ? take_if_at_least(&c->central, want, want + BLOCK_COUNTER_BATCH) :
					  refill_and_take(c, shard, want))
		return blks;
	return claim_slow(c, want, root, all);
}

/* What root took from its pool comes back there first. Returns what is left over. */
static int64_t refill_root_pool(struct block_counter *c, int64_t blks)
{
	int64_t fill;

	mutex_lock(&c->lock);
	fill = min_of(c->root_target - atomic_load(&c->root_pool), blks); /* the pool is never above its target */
	atomic_fetch_add(&c->root_pool, fill);
	mutex_unlock(&c->lock);
	return blks - fill;
}

/* So that one shard does not gather what another thread needs. */
static void return_excess(struct block_counter *c, _Atomic int64_t *shard)
{
	int64_t have;

	mutex_lock(&c->lock);
	have = atomic_load(shard) - BLOCK_COUNTER_BATCH;
	if (have > 0 && take_if_at_least(shard, have, have))
		atomic_fetch_add(&c->central, have);
	mutex_unlock(&c->lock);
}

void block_counter_give(struct block_counter *c, uint64_t blks)
{
	_Atomic int64_t *shard = &c->shard[counter_shard_index()].blks;
	int64_t give = (int64_t)blks;

	if (unlikely(atomic_load_explicit(&c->root_pool, memory_order_relaxed) < c->root_target))
		give = refill_root_pool(c, give);
	if (!give)
		return;
	if (atomic_fetch_add(shard, give) + give > 4 * BLOCK_COUNTER_BATCH)
		return_excess(c, shard);
}

void block_counter_withdraw(struct block_counter *c, uint64_t blks)
{
	mutex_lock(&c->lock);
	call_tokens_in(c);
	atomic_fetch_sub(&c->central, (int64_t)blks);
	mutex_unlock(&c->lock);
}

int64_t block_counter_sum(const struct block_counter *c)
{
	int64_t sum = atomic_load(&c->central) + atomic_load(&c->root_pool);
	unsigned i;

	for (i = 0; i < COUNTER_SHARDS; i++)
		sum += atomic_load(&c->shard[i].blks);
	return sum;
}
