/* SPDX-License-Identifier: MIT */
/*
 * balloc_buddy.c - the buddy system of one group
 *
 * B1  A block is in free_map exactly if it is covered by exactly one chunk of exactly one order.
 * B2  Two buddies of one order are never both free: they are one chunk of the next order.
 *
 * A chunk of order o starts at a multiple of 2^o; its bit in map[o] is its start >> o. The highest order is one that
 * the whole group fits in, so every largest chunk has a place.
 */
#include <stdlib.h>
#include <string.h>

#include "ext4/balloc_private.h"

static inline bool word_test(const uint64_t *map, uint32_t bit) { return (map[bit / 64] >> (bit % 64)) & 1; }
static inline void word_set(uint64_t *map, uint32_t bit) { map[bit / 64] |= 1ull << (bit % 64); }
static inline void word_clear(uint64_t *map, uint32_t bit) { map[bit / 64] &= ~(1ull << (bit % 64)); }

static inline uint32_t words_of(uint32_t bits) { return div_round_up(bits, 64u); }

/* First bit of value @value in [from, end), or @end. */
static uint32_t bits_next(const uint64_t *map, uint32_t from, uint32_t end, bool value)
{
	uint64_t flip = value ? 0 : ~0ull;
	uint32_t word = from / 64;
	uint64_t w;

	if (from >= end)
		return end;
	w = (map[word] ^ flip) & (~0ull << (from % 64));
	while (!w) {
		if (++word >= words_of(end))
			return end;
		w = map[word] ^ flip;
	}
	return min_of(word * 64 + (uint32_t)__builtin_ctzll(w), end);
}

static void bits_fill(uint64_t *map, uint32_t start, uint32_t len, bool value)
{
	while (len) {
		uint32_t bit = start % 64, n = min_of(64 - bit, len);
		uint64_t mask = (n == 64 ? ~0ull : (1ull << n) - 1) << bit;

		if (value)
			map[start / 64] |= mask;
		else
			map[start / 64] &= ~mask;
		start += n;
		len -= n;
	}
}

static void chunk_add(struct buddy *b, uint32_t order, uint32_t index)
{
	word_set(b->map[order], index);
	b->chunks[order]++;
}

static void chunk_remove(struct buddy *b, uint32_t order, uint32_t index)
{
	word_clear(b->map[order], index);
	b->chunks[order]--;
}

/* Largest order of a chunk that starts at @start and fits in @len. */
static uint32_t order_fitting(const struct buddy *b, uint32_t start, uint32_t len)
{
	uint32_t order = 31 - (uint32_t)__builtin_clz(len);

	if (start)
		order = min_of(order, (uint32_t)__builtin_ctz(start));
	return min_of(order, b->orders - 1);
}

/* Adds a chunk and unites it with its buddy as long as that is free too (B2). */
static void chunk_merge(struct buddy *b, uint32_t order, uint32_t index)
{
	while (order + 1 < b->orders && b->chunks[order] && word_test(b->map[order], index ^ 1)) {
		chunk_remove(b, order, index ^ 1);
		index >>= 1;
		order++;
	}
	chunk_add(b, order, index);
}

static void chunks_add(struct buddy *b, uint32_t start, uint32_t len)
{
	while (len) {
		uint32_t order = order_fitting(b, start, len);

		chunk_merge(b, order, start >> order);
		start += 1u << order;
		len -= 1u << order;
	}
}

/* Order of the free chunk that covers @start. */
static uint32_t chunk_order_at(const struct buddy *b, uint32_t start)
{
	uint32_t order;

	for (order = 0; order < b->orders; order++)
		if (b->chunks[order] && word_test(b->map[order], start >> order))
			break;
	UEXT4_ASSERT(order < b->orders); /* B1 */
	return order;
}

void buddy_take(struct buddy *b, uint32_t start, uint32_t len)
{
	uint32_t end = start + len;

	UEXT4_ASSERT(len > 0 && end <= b->blocks && buddy_run_at(b, start, len) == len);
	bits_fill(b->free_map, start, len, false);
	b->free -= len;
	while (start < end) {
		uint32_t order = chunk_order_at(b, start);
		uint32_t chunk = start >> order << order, chunk_end = chunk + (1u << order);

		chunk_remove(b, order, start >> order);
		chunks_add(b, chunk, start - chunk);
		if (chunk_end > end)
			chunks_add(b, end, chunk_end - end);
		start = chunk_end;
	}
}

void buddy_give(struct buddy *b, uint32_t start, uint32_t len)
{
	UEXT4_ASSERT(len > 0 && start + len <= b->blocks);
	UEXT4_ASSERT(bits_next(b->free_map, start, start + len, true) == start + len);
	bits_fill(b->free_map, start, len, true);
	b->free += len;
	chunks_add(b, start, len);
}

uint32_t buddy_run_at(const struct buddy *b, uint32_t start, uint32_t max)
{
	uint32_t end;

	if (start >= b->blocks)
		return 0;
	end = start + min_of(max, b->blocks - start);
	return bits_next(b->free_map, start, end, false) - start;
}

uint32_t buddy_run_before(const struct buddy *b, uint32_t start, uint32_t max)
{
	uint32_t first = start;

	max = min_of(max, start);
	while (start - first < max) {
		uint32_t left = max - (start - first), bit = (first - 1) % 64, n = min_of(bit + 1, left);
		uint64_t used = ~b->free_map[(first - 1) / 64] << (63 - bit); /* block first - 1 is the top bit */
		uint32_t run = used ? (uint32_t)__builtin_clzll(used) : 64;

		first -= min_of(run, n);
		if (run < n)
			break;
	}
	return start - first;
}

bool buddy_find(const struct buddy *b, uint32_t order, uint32_t from, uint32_t *start_out)
{
	for (; order < b->orders; order++) {
		uint32_t bits = div_round_up(b->blocks, 1u << order);
		uint32_t first = min_of(div_round_up(from, 1u << order), bits), bit;

		if (!b->chunks[order])
			continue;
		bit = bits_next(b->map[order], first, bits, true);
		if (bit == bits)
			bit = bits_next(b->map[order], 0, first, true);
		*start_out = bit << order;
		return true;
	}
	return false;
}

uint32_t buddy_largest(const struct buddy *b)
{
	uint32_t largest = b->orders;

	while (largest && !b->chunks[largest - 1])
		largest--;
	return largest;
}

/* Free runs are maximal, so their chunks need no merging, but merging finds nothing and costs little. */
static void buddy_fill(struct buddy *b, const uint8_t *bitmap)
{
	uint32_t word, start, end;

	for (word = 0; word < words_of(b->blocks); word++) {
		uint32_t bytes = min_of(8u, div_round_up(b->blocks, 8u) - word * 8);
		le64 raw = { 0 };

		memcpy(&raw, bitmap + word * 8, bytes);
		b->free_map[word] = ~le64_get(raw);
	}
	if (b->blocks % 64)
		b->free_map[b->blocks / 64] &= (1ull << (b->blocks % 64)) - 1;
	for (start = bits_next(b->free_map, 0, b->blocks, true); start < b->blocks;
	     start = bits_next(b->free_map, end, b->blocks, true)) {
		end = bits_next(b->free_map, start, b->blocks, false);
		b->free += end - start;
		chunks_add(b, start, end - start);
	}
}

struct buddy *buddy_create(const uint8_t *bitmap, uint32_t blocks)
{
	uint32_t orders = 1, order;
	size_t words = words_of(blocks);
	struct buddy *b;

	while (1u << (orders - 1) < blocks)
		orders++;
	UEXT4_ASSERT(orders <= BUDDY_ORDERS);
	/* One bit more than there are chunks: the buddy of the last one is looked at, and is never free. */
	for (order = 0; order < orders; order++)
		words += words_of(div_round_up(blocks, 1u << order) + 1);
	b = calloc(1, sizeof(*b) + words * sizeof(uint64_t));
	if (!b)
		return NULL;
	b->blocks = blocks;
	b->orders = orders;
	list_init(&b->pending);
	list_init(&b->preallocs);
	b->free_map = b->words;
	words = words_of(blocks);
	for (order = 0; order < orders; order++) {
		b->map[order] = b->words + words;
		words += words_of(div_round_up(blocks, 1u << order) + 1);
	}
	buddy_fill(b, bitmap);
	return b;
}

void buddy_free(struct buddy *b)
{
	if (!b)
		return;
	UEXT4_ASSERT(list_empty(&b->pending) && list_empty(&b->preallocs));
	buffer_put(b->bitmap_bh);
	free(b);
}
