/* SPDX-License-Identifier: MIT */
/* table.c - tables that are not small get a mapping of their own, populated by one call */
#include "base/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/aligned_map.h"

#define SMALL_BYTES     (128u << 10)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

void *table_alloc(size_t bytes)
{
	bool is_huge = bytes >= HUGE_PAGE_BYTES;
	void *table;

	if (bytes < SMALL_BYTES) {
		table = aligned_alloc(64, round_up_to(bytes, 64));
		return table ? memset(table, 0, bytes) : NULL;
	}
	table = aligned_map(round_up_to(bytes, SMALL_BYTES), is_huge ? HUGE_PAGE_BYTES : SMALL_BYTES);
	if (!table)
		return NULL;
	if (is_huge)
		madvise(table, round_up_to(bytes, SMALL_BYTES), MADV_HUGEPAGE);
	madvise(table, round_up_to(bytes, SMALL_BYTES), MADV_POPULATE_WRITE); /* both advice: without it, by faults */
	return table;
}

void table_free(void *table, size_t bytes)
{
	if (bytes < SMALL_BYTES)
		free(table);
	else if (table)
		munmap(table, round_up_to(bytes, SMALL_BYTES));
}
