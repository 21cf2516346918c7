/* SPDX-License-Identifier: MIT */
/* counters.c - hands shards to threads in turn, sums them for readers */
#include "base/counters.h"

__thread unsigned counter_shard_tls;

static atomic_uint next_shard;

unsigned counter_shard_assign(void)
{
	unsigned shard = atomic_fetch_add_explicit(&next_shard, 1, memory_order_relaxed) % COUNTER_SHARDS;

	counter_shard_tls = shard + 1;
	return shard;
}

uint64_t counter_read(const struct counters *c, enum counter_id id)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < COUNTER_SHARDS; i++)
		sum += atomic_load_explicit(&c->shard[i].v[id], memory_order_relaxed);
	return sum;
}
