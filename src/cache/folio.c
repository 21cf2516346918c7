/* SPDX-License-Identifier: MIT */
/* folio.c - life, references, locks and writeback marks of folios */
#include "cache/folio.h"

#include "base/object.h"
#include "cache/cache_private.h"
#include "cache/mapping_private.h"

#define OVERHEAD_BYTES sizeof(struct folio)

struct folio *folio_alloc(struct mapping *m, uint64_t index, uint8_t order)
{
	struct cache *cache = m->cache;
	struct folio *f;

	cache_make_room(cache, ((uint64_t)PAGE_BYTES << order) + OVERHEAD_BYTES);
	f = object_alloc(sizeof(*f));
	if (!f)
		return NULL;
	f->data = page_pool_alloc(cache->pool, PAGE_SHIFT_BITS + order);
	if (!f->data) {
		object_free(f, sizeof(*f));
		return NULL;
	}
	f->mapping = m;
	f->cache = cache;
	f->index = index;
	f->order = order;
	f->block_bits = m->block_bits;
	atomic_init(&f->flags, FOLIO_LOCKED);
	atomic_init(&f->refs, 2);
	list_init(&f->lru);
	lock_rank_enter_try(RANK_FOLIO); /* nobody else can hold it yet */
	cache_charge(cache, CACHE_DATA, folio_bytes(f), OVERHEAD_BYTES);
	return f;
}

static void folio_free_deferred(struct rcu_head *head)
{
	object_free(container_of(head, struct folio, rcu), sizeof(struct folio));
}

/* The bytes go at once: RCU readers look at them with a reference only. */
void folio_free(struct folio *f)
{
	UEXT4_ASSERT(!(atomic_load(&f->flags) & (FOLIO_DIRTY | FOLIO_WRITEBACK)));
	folio_state_free(f);
	page_pool_free(f->cache->pool, f->data, PAGE_SHIFT_BITS + f->order);
	cache_uncharge(f->cache, CACHE_DATA, folio_bytes(f), OVERHEAD_BYTES);
	rcu_defer(&f->rcu, folio_free_deferred);
}

bool folio_hold_unless_zero(struct folio *f)
{
	int32_t refs = atomic_load_explicit(&f->refs, memory_order_relaxed);

	while (refs > 0)
		if (atomic_compare_exchange_weak_explicit(&f->refs, &refs, refs + 1, memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

void folio_hold(struct folio *f)
{
	int32_t old = atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);

	UEXT4_ASSERT(old > 0);
}

void folio_put(struct folio *f)
{
	int32_t old = atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel);

	UEXT4_ASSERT(old > 0);
	if (old == 1)
		folio_free(f);
}

void folio_lock(struct folio *f)
{
	lock_rank_enter(RANK_FOLIO);
	word_bit_lock(&f->flags, FOLIO_LOCKED, FOLIO_WAITERS);
}

bool folio_trylock(struct folio *f)
{
	if (!word_bit_trylock(&f->flags, FOLIO_LOCKED))
		return false;
	lock_rank_enter_try(RANK_FOLIO);
	return true;
}

void folio_unlock(struct folio *f)
{
	UEXT4_ASSERT(folio_is_locked(f));
	word_bit_unlock(&f->flags, FOLIO_LOCKED, FOLIO_WAITERS);
	lock_rank_leave(RANK_FOLIO);
}

void folio_lock_pass(struct folio *f)
{
	UEXT4_ASSERT(folio_is_locked(f));
	lock_rank_leave(RANK_FOLIO);
}

void folio_unlock_passed(struct folio *f)
{
	word_bit_unlock(&f->flags, FOLIO_LOCKED, FOLIO_WAITERS);
}

bool folio_is_locked(const struct folio *f)
{
	return atomic_load_explicit(&f->flags, memory_order_relaxed) & FOLIO_LOCKED;
}

void folio_wait_writeback(struct folio *f)
{
	if (atomic_load_explicit(&f->flags, memory_order_acquire) & FOLIO_WRITEBACK)
		word_bit_wait_clear(&f->flags, FOLIO_WRITEBACK, FOLIO_WAITERS);
}

void folio_begin_writeback(struct folio *f)
{
	struct mapping *m = f->mapping;
	uint32_t old;

	UEXT4_ASSERT(folio_is_locked(f));
	old = atomic_fetch_or_explicit(&f->flags, FOLIO_WRITEBACK, memory_order_acq_rel);
	UEXT4_ASSERT(!(old & FOLIO_WRITEBACK));
	f->writeback_bytes = 0;
	mutex_lock(&m->tree_lock);
	tree_tag_set(m, f, TAG_WRITEBACK);
	mutex_unlock(&m->tree_lock);
}

/*
 * Everything that needs the mapping or the cache comes before the bit is cleared: from then on truncate may take
 * the folio out, and the mapping and the cache may go.
 */
void folio_end_writeback(struct folio *f)
{
	struct mapping *m = f->mapping;
	uint64_t bytes = f->writeback_bytes;

	UEXT4_ASSERT(atomic_load_explicit(&f->flags, memory_order_relaxed) & FOLIO_WRITEBACK);
	f->writeback_bytes = 0;
	mutex_lock(&m->tree_lock);
	tree_tag_clear(m, f, TAG_WRITEBACK);
	mutex_unlock(&m->tree_lock);
	atomic_fetch_sub(&m->writeback_bytes, bytes);
	cache_account_writeback_end(f->cache, bytes);
	word_bit_unlock(&f->flags, FOLIO_WRITEBACK, FOLIO_WAITERS);
}

/* ---- reclaim ---- */

static bool folio_lru_isolate(struct list_head *node)
{
	struct folio *f = list_entry(node, struct folio, lru);
	uint32_t flags = atomic_load_explicit(&f->flags, memory_order_relaxed);

	if (flags & FOLIO_REFERENCED) {
		atomic_fetch_and_explicit(&f->flags, ~FOLIO_REFERENCED, memory_order_relaxed);
		return false;
	}
	if (flags & (FOLIO_DIRTY | FOLIO_WRITEBACK | FOLIO_LOCKED))
		return false;
	return folio_hold_unless_zero(f);
}

static uint64_t folio_lru_evict(struct list_head *node)
{
	struct folio *f = list_entry(node, struct folio, lru);
	struct cache *cache = f->cache;
	uint64_t bytes;

	if (!folio_trylock(f)) {
		folio_put(f);
		return 0;
	}
	bytes = mapping_evict_folio(f);
	if (bytes)
		counter_add(cache->options.counters, CNT_CACHE_EVICTIONS, 1);
	return bytes;
}

const struct lru_ops folio_lru_ops = { .isolate = folio_lru_isolate, .evict = folio_lru_evict };
