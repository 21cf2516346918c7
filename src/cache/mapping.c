/* SPDX-License-Identifier: MIT */
/* mapping.c - address spaces: finding and creating folios, eviction, writing and waiting by range */
#include "cache/mapping.h"

#include <errno.h>

#include "cache/cache_private.h"
#include "cache/mapping_private.h"

/* Largest folio unless the owner says otherwise: 1 MiB, one large I/O. */
#define DEFAULT_MAX_ORDER 8
/* A folio is at most this part of the limit, else a few dirty ones exhaust it. */
#define LIMIT_PART 64
/* Folios per gathering; their references are all that is held. */
#define BATCH 32u

void mapping_init(struct mapping *m, struct cache *cache, struct block_device *dev, const struct mapping_ops *ops,
		  void *host, uint8_t block_bits)
{
	UEXT4_ASSERT(block_bits >= POOL_SHIFT_MIN && block_bits <= 16);
	*m = (struct mapping){ .ops = ops, .host = host, .cache = cache, .dev = dev, .block_bits = block_bits };
	m->max_order = DEFAULT_MAX_ORDER;
	while (m->max_order > mapping_min_order(m) &&
	       ((uint64_t)PAGE_BYTES << m->max_order) > cache->options.limit_bytes / LIMIT_PART)
		m->max_order--;
	rwsem_init(&m->invalidate_lock, RANK_INVALIDATE);
	mutex_init(&m->tree_lock, RANK_MAPPING_TREE);
	list_init(&m->dirty_node);
}

void mapping_exit(struct mapping *m)
{
	flusher_remove_mapping(m->cache, m);
	/* Reclaim that has just taken the last folio out is still about to unlock the tree. */
	mutex_lock(&m->tree_lock);
	UEXT4_ASSERT(atomic_load(&m->nr_pages) == 0 && !atomic_load(&m->root));
	mutex_unlock(&m->tree_lock);
	UEXT4_ASSERT(atomic_load(&m->dirty_bytes) == 0 && atomic_load(&m->writeback_bytes) == 0);
	mutex_exit(&m->tree_lock);
	rwsem_exit(&m->invalidate_lock);
}

void mapping_set_whole_folio_dirty(struct mapping *m)
{
	atomic_fetch_or(&m->private_flags, MAPPING_WHOLE_DIRTY);
}

/* ---- finding and creating ---- */

struct folio *mapping_find(struct mapping *m, uint64_t index)
{
	struct folio *f = tree_lookup(m, index);

	/* A hit on a hot folio only reads the flags. */
	if (f && !(atomic_load_explicit(&f->flags, memory_order_relaxed) & FOLIO_REFERENCED))
		atomic_fetch_or_explicit(&f->flags, FOLIO_REFERENCED, memory_order_relaxed);
	return f;
}

int mapping_create_folio(struct mapping *m, uint64_t index, uint8_t order_hint, struct folio **folio_out)
{
	uint8_t min_order = mapping_min_order(m);
	uint8_t wanted = min_of(order_hint, m->max_order);
	uint8_t most = max_of(min_order, wanted);
	struct folio *f = NULL;
	int order, err;

	mutex_lock(&m->tree_lock);
	order = tree_vacant_order(m, index, most, min_order);
	mutex_unlock(&m->tree_lock);
	if (order < 0)
		return order;
	for (; order >= min_order; order--) {
		f = folio_alloc(m, index >> order << order, (uint8_t)order);
		if (f)
			break;
	}
	if (!f)
		return -ENOMEM;
	mutex_lock(&m->tree_lock);
	err = tree_insert(m, f);
	if (!err)
		atomic_store_explicit(&m->nr_pages,
				      atomic_load_explicit(&m->nr_pages, memory_order_relaxed) + (1u << f->order),
				      memory_order_relaxed);
	mutex_unlock(&m->tree_lock);
	if (err) {
		lock_rank_leave(RANK_FOLIO);
		folio_free(f);
		return err;
	}
	if (f->order)
		counter_add(m->cache->options.counters, CNT_FOLIO_LARGE_FOLIOS, 1);
	lru_add(&m->cache->folios, &f->lru);
	*folio_out = f;
	return 0;
}

int mapping_get_folio(struct mapping *m, uint64_t index, uint8_t order_hint, struct folio **folio_out)
{
	int err;

	for (;;) {
		struct folio *f = mapping_find(m, index);

		if (f) {
			folio_lock(f);
			if (likely(f->mapping == m)) {
				*folio_out = f;
				return 0;
			}
			folio_unlock(f);
			folio_put(f);
			continue;
		}
		err = mapping_create_folio(m, index, order_hint, folio_out);
		if (err != -EEXIST)
			return err;
	}
}

unsigned mapping_find_tagged(struct mapping *m, uint64_t *index, uint64_t end_index, enum folio_tag tag,
			     struct folio **folios_out, unsigned max)
{
	unsigned count = 0;

	mutex_lock(&m->tree_lock);
	while (count < max && *index < end_index) {
		struct folio *f = tree_next(m, *index, tag);

		if (!f || f->index >= end_index)
			break;
		*index = f->index + (UINT64_C(1) << f->order);
		/* Reclaim freezes references to 0 only with the tree locked, and takes the folio out at once. */
		folio_hold(f);
		folios_out[count++] = f;
	}
	mutex_unlock(&m->tree_lock);
	return count;
}

/* ---- taking out ---- */

/* Tree locked. */
static void mapping_forget_pages(struct mapping *m, struct folio *f)
{
	tree_remove(m, f);
	atomic_store_explicit(&m->nr_pages,
			      atomic_load_explicit(&m->nr_pages, memory_order_relaxed) - (1u << f->order),
			      memory_order_relaxed);
}

void mapping_remove_folio(struct folio *f)
{
	struct mapping *m = f->mapping;

	UEXT4_ASSERT(folio_is_locked(f));
	mutex_lock(&m->tree_lock);
	mapping_forget_pages(m, f);
	mutex_unlock(&m->tree_lock);
	f->mapping = NULL;
	lru_del(&f->cache->folios, &f->lru);
	folio_put(f);
}

uint64_t mapping_evict_folio(struct folio *f)
{
	struct mapping *m = f->mapping;
	uint64_t bytes = folio_bytes(f);
	int32_t refs = 2; /* the tree's and the caller's: nobody else is looking at it */

	if (!m || (atomic_load(&f->flags) & (FOLIO_DIRTY | FOLIO_WRITEBACK)))
		goto busy;
	mutex_lock(&m->tree_lock);
	if (!atomic_compare_exchange_strong(&f->refs, &refs, 0)) {
		mutex_unlock(&m->tree_lock);
		goto busy;
	}
	mapping_forget_pages(m, f);
	mutex_unlock(&m->tree_lock); /* the last touch of the mapping, see mapping_exit() */
	lru_del(&f->cache->folios, &f->lru);
	lock_rank_leave(RANK_FOLIO);
	folio_free(f);
	return bytes;
busy:
	folio_unlock(f);
	folio_put(f);
	return 0;
}

static uint64_t end_index_of(uint64_t end_bytes)
{
	return end_bytes == UINT64_MAX ? UINT64_MAX : div_round_up(end_bytes, (uint64_t)PAGE_BYTES);
}

uint64_t mapping_drop_clean(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes)
{
	uint64_t index = start_bytes >> PAGE_SHIFT_BITS, end_index = end_index_of(end_bytes);
	struct folio *batch[BATCH];
	uint64_t dropped = 0;
	unsigned count;

	while ((count = mapping_find_tagged(m, &index, end_index, TAG_ANY, batch, BATCH)) > 0) {
		for (unsigned i = 0; i < count; i++) {
			if (folio_trylock(batch[i]))
				dropped += mapping_evict_folio(batch[i]) / PAGE_BYTES;
			else
				folio_put(batch[i]);
		}
	}
	return dropped;
}

/* ---- writing and waiting by range ---- */

void mapping_wait_writeback(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes)
{
	uint64_t index = start_bytes >> PAGE_SHIFT_BITS, end_index = end_index_of(end_bytes);
	struct folio *batch[BATCH];
	unsigned count;

	while ((count = mapping_find_tagged(m, &index, end_index, TAG_WRITEBACK, batch, BATCH)) > 0) {
		for (unsigned i = 0; i < count; i++) {
			folio_wait_writeback(batch[i]);
			folio_put(batch[i]);
		}
	}
}

int mapping_write_range(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes)
{
	struct writeback_control wbc = {
		.start_bytes = start_bytes,
		.end_bytes = end_bytes,
		.wait_for_writeback = true,
		.budget_bytes = INT64_MAX,
	};

	if (!atomic_load(&m->dirty_bytes))
		return 0;
	return m->ops->writepages(m, &wbc);
}

int mapping_wait_range(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes)
{
	uint32_t mark = mapping_error_mark(m);

	mapping_wait_writeback(m, start_bytes, end_bytes);
	return mapping_error_since(m, mark);
}

int mapping_write_and_wait(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes)
{
	uint32_t mark = mapping_error_mark(m);
	int err = mapping_write_range(m, start_bytes, end_bytes);

	mapping_wait_writeback(m, start_bytes, end_bytes);
	return err ? err : mapping_error_since(m, mark);
}
