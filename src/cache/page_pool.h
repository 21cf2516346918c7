/* SPDX-License-Identifier: MIT */
/* page_pool.h - memory for folios and buffers: aligned blocks of a power of two, with a bounded reserve */
#ifndef UEXT4_CACHE_PAGE_POOL_H
#define UEXT4_CACHE_PAGE_POOL_H

#include "base/types.h"

struct page_pool; /* opaque; fields in page_pool.c */

#define POOL_SHIFT_MIN 10 /* 1 KiB, the smallest file-system block */
#define POOL_SHIFT_MAX 24 /* 16 MiB, the largest folio */

/**
 * page_pool_create() - reserve address space for blocks
 * @limit_bytes:   what the blocks in use add up to, more or less; address space is several times that
 * @reserve_bytes: free memory kept resident for reuse; what is freed beyond goes back to the system, at once where with the blocks
 *                 in use it is about the limit, else by and by (page_pool_age())
 * Return: 0 or -ENOMEM
 */
int page_pool_create(uint64_t limit_bytes, uint64_t reserve_bytes, struct page_pool **pool_out);
/* Every block has been freed. NULL: nothing. */
void page_pool_destroy(struct page_pool *pool);

/**
 * page_pool_alloc() - a block of 1 << @shift bytes, not cleared
 * @shift: POOL_SHIFT_MIN to POOL_SHIFT_MAX
 *
 * Aligned to its size up to 2 MiB, so that any of 4 KiB or more suits O_DIRECT.
 *
 * Context: any; takes leaf locks. Return: NULL when there is no memory.
 */
void *page_pool_alloc(struct page_pool *pool, unsigned shift);
/* @shift as it was allocated with. Context: any, also end_io. */
void page_pool_free(struct page_pool *pool, void *block, unsigned shift);
/* Gives back half of the free memory beyond the reserve: to be called now and then. */
void page_pool_age(struct page_pool *pool);

#endif
