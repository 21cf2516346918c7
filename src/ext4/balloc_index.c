/* SPDX-License-Identifier: MIT */
/*
 * balloc_index.c - groups by their largest free chunk
 *
 * Each order has a bitmap of groups and a bitmap of that bitmap's words that are not zero, so finding the next group
 * costs a few words whatever the number of groups. Bits of one group change under its lock only. Two groups of one word
 * may change at once: a summary bit is cleared before the word is looked at again, and set again if a bit has come
 * in (pair: set the bit, then the summary bit).
 */
#include <stdlib.h>

#include <errno.h>
#include "ext4/balloc_private.h"

int group_index_init(struct group_index *ix, group_t groups)
{
	ix->groups = groups;
	ix->words = div_round_up(groups, 64u);
	ix->summary_words = div_round_up(ix->words, 64u);
	ix->map = calloc((size_t)BUDDY_ORDERS * ix->words, sizeof(uint64_t));
	ix->summary = calloc((size_t)BUDDY_ORDERS * ix->summary_words, sizeof(uint64_t));
	if (ix->map && ix->summary)
		return 0;
	group_index_exit(ix);
	return -ENOMEM;
}

void group_index_exit(struct group_index *ix)
{
	free((void *)ix->map);
	free((void *)ix->summary);
	ix->map = NULL;
	ix->summary = NULL;
}

static void index_set(struct group_index *ix, uint32_t order, group_t group)
{
	uint32_t word = group / 64;

	atomic_fetch_or(&ix->map[(size_t)order * ix->words + word], 1ull << (group % 64));
	atomic_fetch_or(&ix->summary[(size_t)order * ix->summary_words + word / 64], 1ull << (word % 64));
	atomic_fetch_add(&ix->count[order], 1);
}

static void index_clear(struct group_index *ix, uint32_t order, group_t group)
{
	uint32_t word = group / 64;
	_Atomic uint64_t *map = &ix->map[(size_t)order * ix->words + word];
	_Atomic uint64_t *summary = &ix->summary[(size_t)order * ix->summary_words + word / 64];
	uint64_t bit = 1ull << (group % 64);

	atomic_fetch_sub(&ix->count[order], 1);
	if (atomic_fetch_and(map, ~bit) & ~bit)
		return;
	atomic_fetch_and(summary, ~(1ull << (word % 64)));
	if (atomic_load(map))
		atomic_fetch_or(summary, 1ull << (word % 64));
}

void group_index_move(struct group_index *ix, group_t group, uint32_t old_largest, uint32_t new_largest)
{
	if (old_largest == new_largest)
		return;
	if (new_largest)
		index_set(ix, new_largest - 1, group);
	if (old_largest)
		index_clear(ix, old_largest - 1, group);
}

/* First word that may be non-zero in [from, words), or words. */
static uint32_t summary_next(const struct group_index *ix, uint32_t order, uint32_t from)
{
	const _Atomic uint64_t *summary = ix->summary + (size_t)order * ix->summary_words;
	uint32_t i = from / 64;
	uint64_t w;

	if (from >= ix->words)
		return ix->words;
	w = atomic_load_explicit(&summary[i], memory_order_relaxed) & (~0ull << (from % 64));
	while (!w) {
		if (++i >= ix->summary_words)
			return ix->words;
		w = atomic_load_explicit(&summary[i], memory_order_relaxed);
	}
	return i * 64 + (uint32_t)__builtin_ctzll(w);
}

static group_t order_next(const struct group_index *ix, uint32_t order, group_t from, group_t end)
{
	const _Atomic uint64_t *map = ix->map + (size_t)order * ix->words;
	uint32_t word = from / 64;
	uint64_t w = atomic_load_explicit(&map[word], memory_order_relaxed) & (~0ull << (from % 64));

	while (!w) {
		word = summary_next(ix, order, word + 1);
		if (word * 64ull >= end)
			return end;
		w = atomic_load_explicit(&map[word], memory_order_relaxed);
	}
	return min_of(word * 64 + (group_t)__builtin_ctzll(w), end);
}

group_t group_index_next(const struct group_index *ix, uint32_t min_order, group_t from, group_t end)
{
	uint32_t order;

	for (order = min_order; order < BUDDY_ORDERS && from < end; order++)
		if (atomic_load_explicit(&ix->count[order], memory_order_relaxed) > 0)
			end = order_next(ix, order, from, end);
	return end;
}

uint32_t group_index_largest(const struct group_index *ix)
{
	uint32_t order;

	for (order = BUDDY_ORDERS; order > 0; order--)
		if (atomic_load_explicit(&ix->count[order - 1], memory_order_relaxed) > 0)
			break;
	return order;
}
