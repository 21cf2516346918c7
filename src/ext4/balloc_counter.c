/* SPDX-License-Identifier: MIT */
/* balloc_counter.c - tokens for blocks: cheap while there are many, exact when there are few */
#include "ext4/balloc_private.h"

void block_counter_init(struct block_counter *c, uint64_t free_blks, uint64_t spare_blks, uint64_t root_blks)
{
	uint64_t target[BLOCK_POOLS] = { [BLOCK_POOL_SPARE] = spare_blks, [BLOCK_POOL_ROOT] = root_blks };
	unsigned i;

	for (i = 0; i < COUNTER_SHARDS; i++)
		atomic_init(&c->shard[i].blks, 0);
	for (i = 0; i < BLOCK_POOLS; i++) {
		uint64_t fill = min_of(free_blks, target[i]);

		c->pool_target[i] = (int64_t)target[i];
		atomic_init(&c->pool[i], (int64_t)fill);
		free_blks -= fill;
	}
	atomic_init(&c->central, (int64_t)free_blks);
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

static int64_t take_up_to(_Atomic int64_t *from, int64_t want)
{
	int64_t have = atomic_load(from), take;

	do {
		take = min_of(have, want);
		if (take <= 0)
			return 0;
	} while (!atomic_compare_exchange_weak(from, &have, have - take));
	return take;
}

/* Every token outside the pools is called in; then what the centre and the pools that @flags allow have is all there is. */
static uint64_t claim_slow(struct block_counter *c, int64_t want, unsigned flags)
{
	int64_t central, root = 0, spare = 0;

	mutex_lock(&c->lock);
	call_tokens_in(c);
	central = take_up_to(&c->central, want);
	if (flags & BLOCK_CLAIM_ROOT)
		root = take_up_to(&c->pool[BLOCK_POOL_ROOT], want - central);
	if (flags & BLOCK_CLAIM_SPARE)
		spare = take_up_to(&c->pool[BLOCK_POOL_SPARE], want - central - root);
	if (flags & BLOCK_CLAIM_ALL && central + root + spare < want) {
		atomic_fetch_add(&c->central, central);
		atomic_fetch_add(&c->pool[BLOCK_POOL_ROOT], root);
		atomic_fetch_add(&c->pool[BLOCK_POOL_SPARE], spare);
		central = root = spare = 0;
	}
	mutex_unlock(&c->lock);
	return (uint64_t)(central + root + spare);
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

uint64_t block_counter_claim(struct block_counter *c, uint64_t blks, unsigned flags)
{
	_Atomic int64_t *shard = &c->shard[counter_shard_index()].blks;
	int64_t want = (int64_t)blks;

	if (take_if_at_least(shard, want, want))
		return blks;
	if (want >= BLOCK_COUNTER_BATCH ? take_if_at_least(&c->central, want, want + BLOCK_COUNTER_BATCH) :
					  refill_and_take(c, shard, want))
		return blks;
	return claim_slow(c, want, flags);
}

/* The pools are full, and no more was withdrawn than there was. */
static bool owes_nothing(const struct block_counter *c)
{
	unsigned i;

	if (atomic_load_explicit(&c->central, memory_order_relaxed) < 0)
		return false;
	for (i = 0; i < BLOCK_POOLS; i++)
		if (atomic_load_explicit(&c->pool[i], memory_order_relaxed) < c->pool_target[i])
			return false;
	return true;
}

/* Debts come first, then what was taken from the pools. Returns what is left over. */
static int64_t pay_debts(struct block_counter *c, int64_t blks)
{
	int64_t central, debt;
	unsigned i;

	mutex_lock(&c->lock);
	central = atomic_load(&c->central); /* below 0 it changes under the lock only */
	debt = central < 0 ? min_of(-central, blks) : 0;
	atomic_fetch_add(&c->central, debt);
	blks -= debt;
	for (i = 0; i < BLOCK_POOLS; i++) {
		int64_t fill = min_of(c->pool_target[i] - atomic_load(&c->pool[i]), blks); /* never above its target */

		atomic_fetch_add(&c->pool[i], fill);
		blks -= fill;
	}
	mutex_unlock(&c->lock);
	return blks;
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

	if (unlikely(!owes_nothing(c)))
		give = pay_debts(c, give);
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
	int64_t sum = atomic_load(&c->central);
	unsigned i;

	for (i = 0; i < BLOCK_POOLS; i++)
		sum += atomic_load(&c->pool[i]);
	for (i = 0; i < COUNTER_SHARDS; i++)
		sum += atomic_load(&c->shard[i].blks);
	return sum;
}
