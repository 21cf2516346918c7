/* SPDX-License-Identifier: MIT */
/*
 * page_pool.c - memory for folios and buffers
 *
 * malloc() is no good for a cache: page-aligned blocks fragment its heap, freed ones stay resident, and large
 * ones are mapped and unmapped each time. So the pool owns one range of address space, cut into slabs of 2 MiB.
 * A slab holds blocks of one size; larger blocks take a run of slabs.
 *
 * What costs is the system: a page fault per page used first, a TLB shootdown per range given back. So memory comes a
 * slab at a time (populated with one call, but for the first few), free memory is kept for some seconds, up to a reserve for ever, and
 * what goes back goes in large pieces: idle slabs first, then all free blocks of a slab of the size that has most of them to spare.
 * A slab is a huge page where the system has one. Under a hypervisor that keeps page tables of its own, even a populated small
 * page costs microseconds when it is touched first.
 *
 * P1  A free block is "warm" while it is resident; warm_bytes is their sum. Beyond reserve_bytes there are warm blocks only as long
 *     as they and the blocks in use are below keep_bytes, and half of those go back each time that the pool is aged. So resident
 *     memory is at most the larger of keep_bytes and the blocks in use + reserve_bytes, + a slab + what magazines hold.
 *     Blocks smaller than a page go back by whole pages. A slab of which parts went back is not made a huge page again before it
 *     is idle: that would bring them back.
 * P2  A slab with some blocks free is on partial[shift]. One with all blocks free is on idle, oldest first, and may
 *     become one of any size, warm as it is. One that was given back whole has its bit in slab_used clear.
 *
 * In front of the slabs lies a magazine of free 4 KiB blocks per thread shard, since that is the size
 * allocated by the hundred thousand per second.
 *
 * Locks: magazine.lock (RANK_WORK), then pool.lock (RANK_LEAF); nothing else is taken under them.
 */
#include "cache/page_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/counters.h"
#include "base/list.h"
#include "base/lock.h"

#define SLAB_SHIFT 21 /* a huge page on most systems */
#define SLAB_BYTES (UINT64_C(1) << SLAB_SHIFT)
#define SLAB_BLOCKS_MAX (1u << (SLAB_SHIFT - POOL_SHIFT_MIN))
#define PAGE_SHIFT 12
/* The first slabs are not populated: a cache that stays small, of a file system mounted for a moment, touches few pages. */
#define SLABS_BY_FAULT 4
/* Of the limit, for what counts towards it besides blocks. */
#define KEEP_LESS_SHARE 8
#define CLASSES (SLAB_SHIFT - POOL_SHIFT_MIN + 1)
/* Half of it moves at a time: 32 pages per lock of the pool. */
#define MAGAZINE_PAGES 64u

struct slab {
	struct list_head node;                 /* [pool.lock] partial or idle */
	uint64_t free_map[SLAB_BLOCKS_MAX / 64];
	uint64_t warm_map[SLAB_BLOCKS_MAX / 64]; /* free and resident */
	uint32_t index;                        /* [const] */
	uint16_t nr_free;
	uint8_t shift;
	bool mapped;                           /* readable and writable */
	bool huge;                             /* the system is to give it a huge page */
};

struct magazine {
	struct mutex lock;
	unsigned count;
	void *pages[MAGAZINE_PAGES];
} __attribute__((aligned(64)));

struct page_pool {
	uint8_t *base;                   /* [const] aligned to SLAB_BYTES */
	void *map;                       /* [const] as mmap() returned it */
	size_t map_bytes;                /* [const] */
	uint32_t nr_slabs;               /* [const] */
	uint64_t reserve_bytes;          /* [const] */
	uint64_t keep_bytes;             /* [const] P1 */
	struct slab **slabs;             /* [pool.lock] allocated on first use */
	uint64_t *slab_used;             /* [pool.lock] bit per slab */
	uint32_t slab_hint;              /* [pool.lock] where to look for a free slab first */
	uint64_t used_bytes;             /* [pool.lock] in blocks that are in use, or in magazines */
	uint64_t warm_bytes;             /* [pool.lock] free and resident */
	uint64_t class_warm[CLASSES];    /* [pool.lock] the same by size, without idle slabs */
	struct list_head partial[CLASSES]; /* [pool.lock] by shift - POOL_SHIFT_MIN */
	struct list_head idle;           /* [pool.lock] */
	struct mutex lock;
	struct magazine magazine[COUNTER_SHARDS];
};

static bool bit_test(const uint64_t *map, uint32_t bit) { return map[bit / 64] >> (bit % 64) & 1; }
static void bit_set(uint64_t *map, uint32_t bit) { map[bit / 64] |= UINT64_C(1) << (bit % 64); }
static void bit_clear(uint64_t *map, uint32_t bit) { map[bit / 64] &= ~(UINT64_C(1) << (bit % 64)); }

static unsigned slab_blocks(unsigned shift)
{
	return 1u << (SLAB_SHIFT - shift);
}

/* First set bit below @blocks, or -1. */
static int map_first(const uint64_t *map, unsigned blocks)
{
	for (unsigned i = 0; i < div_round_up(blocks, 64u); i++)
		if (map[i])
			return (int)(i * 64 + (unsigned)__builtin_ctzll(map[i]));
	return -1;
}

int page_pool_create(uint64_t limit_bytes, uint64_t reserve_bytes, struct page_pool **pool_out)
{
	/* Four times the limit: room for slabs of each size class partly used, and for going over the limit. */
	uint64_t bytes = round_up_to(limit_bytes, SLAB_BYTES) * 4 + 256 * SLAB_BYTES;
	struct page_pool *pool;
	uintptr_t start;

	pool = aligned_alloc(64, round_up_to(sizeof(*pool), 64));
	if (!pool)
		return -ENOMEM;
	memset(pool, 0, sizeof(*pool));
	pool->nr_slabs = (uint32_t)(bytes >> SLAB_SHIFT);
	pool->reserve_bytes = reserve_bytes;
	pool->keep_bytes = limit_bytes - limit_bytes / KEEP_LESS_SHARE;
	pool->slabs = calloc(pool->nr_slabs, sizeof(*pool->slabs));
	pool->slab_used = calloc(div_round_up(pool->nr_slabs, 64u), sizeof(uint64_t));
	if (!pool->slabs || !pool->slab_used)
		goto free_pool;
	pool->map_bytes = bytes + SLAB_BYTES;
	pool->map = mmap(NULL, pool->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pool->map == MAP_FAILED)
		goto free_pool;
	madvise(pool->map, pool->map_bytes, MADV_NOHUGEPAGE); /* until slab_advise() */
	start = round_up_to((uintptr_t)pool->map, SLAB_BYTES);
	pool->base = (uint8_t *)start;
	mutex_init(&pool->lock, RANK_LEAF);
	for (unsigned i = 0; i < CLASSES; i++)
		list_init(&pool->partial[i]);
	list_init(&pool->idle);
	for (unsigned i = 0; i < COUNTER_SHARDS; i++)
		mutex_init(&pool->magazine[i].lock, RANK_WORK);
	*pool_out = pool;
	return 0;
free_pool:
	free(pool->slabs);
	free(pool->slab_used);
	free(pool);
	return -ENOMEM;
}

void page_pool_destroy(struct page_pool *pool)
{
	if (!pool)
		return;
	munmap(pool->map, pool->map_bytes);
	for (unsigned i = 0; i < COUNTER_SHARDS; i++)
		mutex_exit(&pool->magazine[i].lock);
	for (uint32_t i = 0; i < pool->nr_slabs; i++)
		free(pool->slabs[i]);
	mutex_exit(&pool->lock);
	free(pool->slabs);
	free(pool->slab_used);
	free(pool);
}

static uint8_t *slab_address(const struct page_pool *pool, uint32_t index)
{
	return pool->base + ((uint64_t)index << SLAB_SHIFT);
}

/* The slab's header, made on first use. NULL: no memory. */
static struct slab *slab_header(struct page_pool *pool, uint32_t index)
{
	struct slab *slab = pool->slabs[index];

	if (slab)
		return slab;
	slab = calloc(1, sizeof(*slab));
	if (!slab)
		return NULL;
	list_init(&slab->node);
	slab->index = index;
	pool->slabs[index] = slab;
	return slab;
}

/* Advice only: where the system does not take it, pages of any size do. */
static void slab_advise(const struct page_pool *pool, struct slab *slab, bool huge)
{
	if (slab->huge != huge)
		madvise(slab_address(pool, slab->index), SLAB_BYTES, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	slab->huge = huge;
}

/* Makes the slab accessible. Belongs to the caller, so the pool need not be locked. */
static int slab_map(struct page_pool *pool, struct slab *slab, unsigned shift)
{
	uint8_t *addr = slab_address(pool, slab->index);

	if (!slab->mapped) {
		if (mprotect(addr, SLAB_BYTES, PROT_READ | PROT_WRITE))
			return -ENOMEM;
		slab->mapped = true;
	}
	slab_advise(pool, slab, slab->index >= SLABS_BY_FAULT);
	slab->shift = (uint8_t)shift;
	return 0;
}

/* Tells the system that the memory is free; the next use finds zeros. */
static void memory_give_back(void *addr, size_t len_bytes)
{
	madvise(addr, len_bytes, MADV_DONTNEED);
}

/* First index of @count free slabs in a row, marked used; -1: none. */
static int64_t slab_run_take(struct page_pool *pool, uint32_t count)
{
	uint32_t run = 0;

	for (uint32_t seen = 0, i = count == 1 ? pool->slab_hint : 0; seen < pool->nr_slabs; seen++, i++) {
		if (i == pool->nr_slabs)
			i = run = 0;
		run = bit_test(pool->slab_used, i) ? 0 : run + 1;
		if (run == count) {
			for (uint32_t j = i + 1 - count; j <= i; j++)
				bit_set(pool->slab_used, j);
			if (count == 1)
				pool->slab_hint = i;
			return (int64_t)i + 1 - count;
		}
	}
	return -1;
}

static void slab_run_give(struct page_pool *pool, uint32_t index, uint32_t count)
{
	for (uint32_t i = index; i < index + count; i++)
		bit_clear(pool->slab_used, i);
	pool->slab_hint = min_of(pool->slab_hint, index);
}

static unsigned map_count(const uint64_t *map, unsigned blocks)
{
	unsigned count = 0;

	for (unsigned i = 0; i < div_round_up(blocks, 64u); i++)
		count += (unsigned)__builtin_popcountll(map[i]);
	return count;
}

static void map_fill(uint64_t *map, unsigned blocks)
{
	memset(map, 0, SLAB_BLOCKS_MAX / 8);
	for (unsigned i = 0; i < blocks; i++)
		bit_set(map, i);
}

static void warm_change(struct page_pool *pool, unsigned shift, int64_t bytes)
{
	pool->warm_bytes += (uint64_t)bytes;
	pool->class_warm[shift - POOL_SHIFT_MIN] += (uint64_t)bytes;
}

/* All blocks free; all of them warm, or none. Pool locked. */
static void slab_open(struct page_pool *pool, struct slab *slab, unsigned shift, bool warm)
{
	unsigned blocks = slab_blocks(shift);

	slab->shift = (uint8_t)shift;
	slab->nr_free = (uint16_t)blocks;
	map_fill(slab->free_map, blocks);
	map_fill(slab->warm_map, warm ? blocks : 0);
	if (warm)
		warm_change(pool, shift, SLAB_BYTES);
	list_add(&slab->node, &pool->partial[shift - POOL_SHIFT_MIN]);
}

/* The youngest idle slab, for blocks of another size. Cold parts count as warm from now on, which errs to the safe side. */
static struct slab *slab_reuse_idle(struct page_pool *pool, unsigned shift)
{
	struct slab *slab = list_last(&pool->idle, struct slab, node);

	list_del(&slab->node);
	pool->warm_bytes -= (uint64_t)map_count(slab->warm_map, slab_blocks(slab->shift)) << slab->shift;
	slab_map(pool, slab, shift); /* it is mapped: only advice */
	slab_open(pool, slab, shift, true);
	return slab;
}

/* Pool locked; drops the lock while the system finds memory. NULL: none. */
static struct slab *slab_new(struct page_pool *pool, unsigned shift)
{
	struct slab *slab;
	int64_t index;
	bool warm;

	if (!list_empty(&pool->idle))
		return slab_reuse_idle(pool, shift);
	index = slab_run_take(pool, 1);
	if (index < 0)
		return NULL;
	slab = slab_header(pool, (uint32_t)index);
	mutex_unlock(&pool->lock);
	if (slab && slab_map(pool, slab, shift))
		slab = NULL;
	/* One call instead of a fault per page; kernels before 5.14 do not know it. */
	warm = slab && index >= SLABS_BY_FAULT && !madvise(slab_address(pool, slab->index), SLAB_BYTES, MADV_POPULATE_WRITE);
	mutex_lock(&pool->lock);
	if (slab)
		slab_open(pool, slab, shift, warm);
	else
		slab_run_give(pool, (uint32_t)index, 1);
	return slab;
}

static struct slab *slab_of_block(const struct page_pool *pool, const void *block)
{
	uint64_t index = ((uintptr_t)block - (uintptr_t)pool->base) >> SLAB_SHIFT;

	UEXT4_ASSERT(index < pool->nr_slabs && pool->slabs[index]);
	return pool->slabs[index];
}

static void *slab_take_block(struct page_pool *pool, struct slab *slab, unsigned shift)
{
	int bit = map_first(slab->warm_map, slab_blocks(shift));

	if (bit >= 0) {
		bit_clear(slab->warm_map, (uint32_t)bit);
		warm_change(pool, shift, -(INT64_C(1) << shift));
	} else {
		bit = map_first(slab->free_map, slab_blocks(shift));
	}
	UEXT4_ASSERT(bit >= 0);
	bit_clear(slab->free_map, (uint32_t)bit);
	if (--slab->nr_free == 0)
		list_del(&slab->node);
	return slab_address(pool, slab->index) + ((uint64_t)bit << shift);
}

static void *pool_alloc_locked(struct page_pool *pool, unsigned shift)
{
	struct list_head *partial = &pool->partial[shift - POOL_SHIFT_MIN];
	struct slab *slab = list_empty(partial) ? slab_new(pool, shift) : list_first(partial, struct slab, node);

	if (!slab)
		return NULL;
	pool->used_bytes += UINT64_C(1) << shift;
	return slab_take_block(pool, slab, shift);
}

/* ---- giving memory back ---- */

static void trim_idle(struct page_pool *pool)
{
	struct slab *slab = list_first(&pool->idle, struct slab, node);

	list_del(&slab->node);
	pool->warm_bytes -= (uint64_t)map_count(slab->warm_map, slab_blocks(slab->shift)) << slab->shift;
	memory_give_back(slab_address(pool, slab->index), SLAB_BYTES);
	slab_run_give(pool, slab->index, 1);
}

/* All whole pages of warm blocks of a slab, neighbours together. Returns the bytes given back. */
static uint64_t trim_slab(struct page_pool *pool, struct slab *slab)
{
	unsigned blocks = slab_blocks(slab->shift), shift = slab->shift;
	unsigned per_page = shift < PAGE_SHIFT ? 1u << (PAGE_SHIFT - shift) : 1;
	uint64_t bytes = 0;

	slab_advise(pool, slab, false); /* P1 */
	for (unsigned at = 0, first, end; at < blocks; at = end + 1) {
		for (end = at; end < blocks && bit_test(slab->warm_map, end); end++)
			;
		first = round_up_to(at, per_page);
		if (first >= round_down_to(end, per_page))
			continue;
		for (unsigned i = first; i < round_down_to(end, per_page); i++)
			bit_clear(slab->warm_map, i);
		memory_give_back(slab_address(pool, slab->index) + ((uint64_t)first << shift),
				 (size_t)(round_down_to(end, per_page) - first) << shift);
		bytes += (uint64_t)(round_down_to(end, per_page) - first) << shift;
	}
	warm_change(pool, shift, -(int64_t)bytes);
	return bytes;
}

/* A slab with warm blocks, of the size that has most of them. NULL: none. */
static struct slab *trim_choose(struct page_pool *pool)
{
	unsigned most = 0;
	struct slab *slab;

	for (unsigned i = 1; i < CLASSES; i++)
		if (pool->class_warm[i] > pool->class_warm[most])
			most = i;
	list_for_each(slab, &pool->partial[most], node)
		if (map_first(slab->warm_map, slab_blocks(slab->shift)) >= 0)
			return slab;
	return NULL;
}

/* Pool locked. Gives back a slab, or the free part of one. False where a page holds a small block that is in use. */
static bool trim_some(struct page_pool *pool)
{
	struct slab *slab;
	uint64_t bytes;

	if (!list_empty(&pool->idle)) {
		trim_idle(pool);
		return true;
	}
	slab = trim_choose(pool);
	if (!slab)
		return false;
	bytes = trim_slab(pool, slab);
	/* Not the first to allocate from any more: others have warm blocks. */
	list_move_tail(&slab->node, &pool->partial[slab->shift - POOL_SHIFT_MIN]);
	return bytes != 0;
}

/* Pool locked. P1 */
static bool pool_is_over(const struct page_pool *pool)
{
	return pool->warm_bytes > pool->reserve_bytes && pool->used_bytes + pool->warm_bytes > pool->keep_bytes;
}

void page_pool_age(struct page_pool *pool)
{
	uint64_t target_bytes = 0;
	bool more = true;

	while (more) {
		mutex_lock(&pool->lock); /* for one slab at a time: others allocate meanwhile */
		if (!target_bytes)
			target_bytes = pool->reserve_bytes + (max_of(pool->warm_bytes, pool->reserve_bytes) - pool->reserve_bytes) / 2;
		more = pool->warm_bytes > target_bytes && trim_some(pool);
		mutex_unlock(&pool->lock);
	}
}

static void pool_free_locked(struct page_pool *pool, void *block, unsigned shift)
{
	struct slab *slab = slab_of_block(pool, block);
	uint32_t bit = (uint32_t)(((uintptr_t)block & (SLAB_BYTES - 1)) >> shift);

	UEXT4_ASSERT(slab->shift == shift && !bit_test(slab->free_map, bit));
	bit_set(slab->free_map, bit);
	bit_set(slab->warm_map, bit);
	warm_change(pool, shift, INT64_C(1) << shift);
	/* Used next before slabs that have more free, so that those can become idle. */
	if (slab->nr_free++ == 0)
		list_add(&slab->node, &pool->partial[shift - POOL_SHIFT_MIN]);
	if (slab->nr_free == slab_blocks(shift)) { /* P2 */
		pool->class_warm[shift - POOL_SHIFT_MIN] -=
			(uint64_t)map_count(slab->warm_map, slab_blocks(shift)) << shift;
		list_move_tail(&slab->node, &pool->idle);
	}
	pool->used_bytes -= UINT64_C(1) << shift;
	while (pool_is_over(pool) && trim_some(pool))
		;
}

/* Blocks larger than a slab: a run of slabs, given back to the system when freed. */
static void *pool_alloc_run(struct page_pool *pool, unsigned shift)
{
	uint32_t count = 1u << (shift - SLAB_SHIFT);
	int64_t index = slab_run_take(pool, count);

	if (index < 0)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		struct slab *slab = slab_header(pool, (uint32_t)index + i);

		if (!slab || slab_map(pool, slab, shift)) {
			slab_run_give(pool, (uint32_t)index, count);
			return NULL;
		}
	}
	pool->used_bytes += UINT64_C(1) << shift;
	return slab_address(pool, (uint32_t)index);
}

static void pool_free_run(struct page_pool *pool, void *block, unsigned shift)
{
	pool->used_bytes -= UINT64_C(1) << shift;
	memory_give_back(block, (size_t)1 << shift);
	slab_run_give(pool, slab_of_block(pool, block)->index, 1u << (shift - SLAB_SHIFT));
}

static void *magazine_alloc(struct page_pool *pool)
{
	struct magazine *mag = &pool->magazine[counter_shard_index()];
	void *page = NULL;

	mutex_lock(&mag->lock);
	if (mag->count == 0) {
		mutex_lock(&pool->lock);
		while (mag->count < MAGAZINE_PAGES / 2) {
			void *p = pool_alloc_locked(pool, PAGE_SHIFT);

			if (!p)
				break;
			mag->pages[mag->count++] = p;
		}
		mutex_unlock(&pool->lock);
	}
	if (mag->count > 0)
		page = mag->pages[--mag->count];
	mutex_unlock(&mag->lock);
	return page;
}

static void magazine_free(struct page_pool *pool, void *page)
{
	struct magazine *mag = &pool->magazine[counter_shard_index()];

	mutex_lock(&mag->lock);
	if (mag->count == MAGAZINE_PAGES) {
		mutex_lock(&pool->lock);
		while (mag->count > MAGAZINE_PAGES / 2)
			pool_free_locked(pool, mag->pages[--mag->count], PAGE_SHIFT);
		mutex_unlock(&pool->lock);
	}
	mag->pages[mag->count++] = page;
	mutex_unlock(&mag->lock);
}

void *page_pool_alloc(struct page_pool *pool, unsigned shift)
{
	void *block;

	UEXT4_ASSERT(shift >= POOL_SHIFT_MIN && shift <= POOL_SHIFT_MAX);
	if (shift == PAGE_SHIFT)
		return magazine_alloc(pool);
	mutex_lock(&pool->lock);
	block = shift > SLAB_SHIFT ? pool_alloc_run(pool, shift) : pool_alloc_locked(pool, shift);
	mutex_unlock(&pool->lock);
	return block;
}

void page_pool_free(struct page_pool *pool, void *block, unsigned shift)
{
	if (shift == PAGE_SHIFT) {
		magazine_free(pool, block);
		return;
	}
	mutex_lock(&pool->lock);
	if (shift > SLAB_SHIFT)
		pool_free_run(pool, block, shift);
	else
		pool_free_locked(pool, block, shift);
	mutex_unlock(&pool->lock);
}
