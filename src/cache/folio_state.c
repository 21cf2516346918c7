/* SPDX-License-Identifier: MIT */
/*
 * folio_state.c - which blocks of a folio are uptodate, and which are dirty
 *
 * Most folios are wholly uptodate and wholly clean or dirty: two flags say so, and no map is kept. Otherwise there are
 * two maps of a bit per block. Up to 32 blocks both fit folio.inline_state; for more, a struct folio_state is
 * allocated. Its maps carry a summary, a bit per word for "some bit set" and one for "all set", so that the ends of
 * a run are found by looking at a few words, however large the folio (16 MiB of 1 KiB blocks: 256 words, 4 + 4 summary).
 *
 * S1  FOLIO_UPTODATE: every block is uptodate, whatever the map says (it is dropped).
 * S2  FOLIO_DIRTY with an empty dirty map, or without state: every block is dirty. So state that is lost or cannot be
 *     had makes writeback write too much, never too little.
 * S3  Dirty blocks are uptodate. So S2 only ever applies to folios with FOLIO_UPTODATE.
 * S4  State is freed as soon as the flags say it all: uptodate, and clean or all dirty.
 *
 * The folio lock protects all of it, except that FOLIO_UPTODATE and the inline uptodate map only gain bits, with
 * release order, so readers may trust a set bit without the lock. (Setting the flag comes before dropping the map.)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache_private.h"
#include "cache/mapping_private.h"

#define INLINE_BLOCKS 32u
#define WORD_BITS 64u
#define MAP_WORDS_MAX 256u /* 16 MiB of 1 KiB blocks */

struct block_map {
	uint32_t nr_set;
	uint64_t any[MAP_WORDS_MAX / WORD_BITS];  /* per word: some bit is set */
	uint64_t full[MAP_WORDS_MAX / WORD_BITS]; /* per word: all are */
	uint64_t *words;
};

struct folio_state {
	uint32_t nr_words;
	struct block_map uptodate, dirty;
	uint64_t words[];
};

/* ---- one map ---- */

static uint64_t bits_mask(unsigned first, unsigned count)
{
	return (count == WORD_BITS ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1) << first;
}

static void map_word_changed(struct block_map *map, unsigned w)
{
	uint64_t bit = UINT64_C(1) << (w % WORD_BITS);
	uint64_t word = map->words[w];

	map->any[w / WORD_BITS] = word ? map->any[w / WORD_BITS] | bit : map->any[w / WORD_BITS] & ~bit;
	map->full[w / WORD_BITS] = word == ~UINT64_C(0) ? map->full[w / WORD_BITS] | bit
							 : map->full[w / WORD_BITS] & ~bit;
}

static void map_change_range(struct block_map *map, unsigned first, unsigned end, bool set)
{
	while (first < end) {
		unsigned w = first / WORD_BITS, bit = first % WORD_BITS;
		unsigned count = min_of(end - first, WORD_BITS - bit);
		uint64_t mask = bits_mask(bit, count);
		uint64_t old = map->words[w];

		map->words[w] = set ? old | mask : old & ~mask;
		map->nr_set += (uint32_t)__builtin_popcountll(map->words[w]) - (uint32_t)__builtin_popcountll(old);
		map_word_changed(map, w);
		first += count;
	}
}

/* The first word from @w on whose summary bit is set (@want) or clear; @nr_words: none. */
static unsigned summary_next(const uint64_t *summary, unsigned w, unsigned nr_words, bool want)
{
	while (w < nr_words) {
		uint64_t bits = (want ? summary[w / WORD_BITS] : ~summary[w / WORD_BITS]) >> (w % WORD_BITS);

		if (bits)
			return min_of(w + (unsigned)__builtin_ctzll(bits), nr_words);
		w = (w / WORD_BITS + 1) * WORD_BITS;
	}
	return nr_words;
}

static unsigned map_next_set(const struct block_map *map, unsigned first, unsigned nr_words)
{
	unsigned w = first / WORD_BITS;
	uint64_t bits;

	if (w >= nr_words)
		return nr_words * WORD_BITS;
	bits = map->words[w] >> (first % WORD_BITS);
	if (bits)
		return first + (unsigned)__builtin_ctzll(bits);
	w = summary_next(map->any, w + 1, nr_words, true);
	return w * WORD_BITS + (w < nr_words ? (unsigned)__builtin_ctzll(map->words[w]) : 0);
}

static unsigned map_next_clear(const struct block_map *map, unsigned first, unsigned nr_words)
{
	unsigned w = first / WORD_BITS;
	uint64_t bits;

	if (w >= nr_words)
		return nr_words * WORD_BITS;
	bits = ~map->words[w] >> (first % WORD_BITS);
	if (bits)
		return first + (unsigned)__builtin_ctzll(bits);
	w = summary_next(map->full, w + 1, nr_words, false);
	return w * WORD_BITS + (w < nr_words ? (unsigned)__builtin_ctzll(~map->words[w]) : 0);
}

/* ---- a folio's state ---- */

static unsigned nr_blocks(const struct folio *f)
{
	return (unsigned)(folio_bytes(f) >> f->block_bits);
}

static bool has_flag(const struct folio *f, uint32_t flag)
{
	return atomic_load_explicit(&f->flags, memory_order_acquire) & flag;
}

static struct folio_state *state_of(const struct folio *f)
{
	return atomic_load_explicit(&f->state, memory_order_acquire);
}

static uint32_t inline_uptodate(const struct folio *f)
{
	return (uint32_t)atomic_load_explicit(&f->inline_state, memory_order_acquire);
}

static uint32_t inline_dirty(const struct folio *f)
{
	return (uint32_t)(atomic_load_explicit(&f->inline_state, memory_order_relaxed) >> 32);
}

static void inline_store(struct folio *f, uint32_t dirty, uint32_t uptodate)
{
	uint64_t old = atomic_load_explicit(&f->inline_state, memory_order_relaxed);

	if (!old && (dirty | uptodate))
		counter_add(f->cache->options.counters, CNT_FOLIO_STATES_INLINE, 1);
	atomic_store_explicit(&f->inline_state, (uint64_t)dirty << 32 | uptodate, memory_order_release);
}

static uint32_t inline_mask(unsigned first, unsigned end)
{
	return (uint32_t)bits_mask(first, end - first);
}

static size_t state_bytes(unsigned nr_words)
{
	return sizeof(struct folio_state) + 2 * nr_words * sizeof(uint64_t);
}

/* The state, allocated if there was none, saying what the flags said. NULL: no memory. */
static struct folio_state *state_get(struct folio *f)
{
	struct folio_state *state = state_of(f);
	unsigned blocks = nr_blocks(f), nr_words = blocks / WORD_BITS;

	if (state)
		return state;
	state = calloc(1, state_bytes(nr_words));
	if (!state)
		return NULL;
	state->nr_words = nr_words;
	state->uptodate.words = state->words;
	state->dirty.words = state->words + nr_words;
	if (has_flag(f, FOLIO_UPTODATE))
		map_change_range(&state->uptodate, 0, blocks, true);
	if (has_flag(f, FOLIO_DIRTY)) {
		UEXT4_ASSERT(has_flag(f, FOLIO_UPTODATE)); /* S3 */
		map_change_range(&state->dirty, 0, blocks, true);
	}
	cache_charge(f->cache, CACHE_DATA, 0, state_bytes(nr_words));
	counter_add(f->cache->options.counters, CNT_FOLIO_STATES_ALLOCATED, 1);
	atomic_store_explicit(&f->state, state, memory_order_release);
	return state;
}

void folio_state_free(struct folio *f)
{
	struct folio_state *state = state_of(f);

	if (!state)
		return;
	atomic_store_explicit(&f->state, NULL, memory_order_release);
	cache_uncharge(f->cache, CACHE_DATA, 0, state_bytes(state->nr_words));
	free(state);
}

/* S4 */
static void state_settle(struct folio *f)
{
	const struct folio_state *state = state_of(f);

	if (state && has_flag(f, FOLIO_UPTODATE) &&
	    (!has_flag(f, FOLIO_DIRTY) || state->dirty.nr_set == nr_blocks(f)))
		folio_state_free(f);
}

static unsigned dirty_blocks(const struct folio *f)
{
	const struct folio_state *state = state_of(f);

	if (!has_flag(f, FOLIO_DIRTY))
		return 0;
	if (state)
		return state->dirty.nr_set;
	if (inline_dirty(f))
		return (unsigned)__builtin_popcount(inline_dirty(f));
	return nr_blocks(f); /* S2 */
}

/* S2: FOLIO_DIRTY and no map that says otherwise. */
static bool is_all_dirty(const struct folio *f)
{
	return has_flag(f, FOLIO_DIRTY) && !state_of(f) && !inline_dirty(f);
}

/* ---- uptodate ---- */

static bool range_is_uptodate(const struct folio *f, size_t off, size_t len, const struct folio_state *state)
{
	unsigned first = (unsigned)(off >> f->block_bits);
	unsigned end = (unsigned)div_round_up(off + len, (size_t)1 << f->block_bits);
	uint32_t mask;

	if (nr_blocks(f) <= INLINE_BLOCKS) {
		mask = inline_mask(first, end);
		return (inline_uptodate(f) & mask) == mask;
	}
	return state && map_next_clear(&state->uptodate, first, state->nr_words) >= end;
}

bool folio_range_is_uptodate(const struct folio *f, size_t off, size_t len)
{
	return has_flag(f, FOLIO_UPTODATE) || range_is_uptodate(f, off, len, state_of(f));
}

bool folio_range_is_uptodate_unlocked(const struct folio *f, size_t off, size_t len)
{
	return has_flag(f, FOLIO_UPTODATE) || range_is_uptodate(f, off, len, NULL);
}

/* S1: the flag first, for readers without the lock. */
void folio_mark_uptodate(struct folio *f)
{
	UEXT4_ASSERT(folio_is_locked(f));
	atomic_fetch_or_explicit(&f->flags, FOLIO_UPTODATE, memory_order_acq_rel);
	if (inline_uptodate(f))
		inline_store(f, inline_dirty(f) == inline_mask(0, nr_blocks(f)) ? 0 : inline_dirty(f), 0);
	state_settle(f);
}

int folio_mark_range_uptodate(struct folio *f, size_t off, size_t len)
{
	unsigned first = (unsigned)div_round_up(off, (size_t)1 << f->block_bits);
	unsigned end = (unsigned)((off + len) >> f->block_bits);
	unsigned blocks = nr_blocks(f);
	struct folio_state *state;

	UEXT4_ASSERT(folio_is_locked(f) && end <= blocks);
	if (has_flag(f, FOLIO_UPTODATE) || first >= end)
		return 0;
	if (first == 0 && end == blocks) {
		folio_mark_uptodate(f);
		return 0;
	}
	if (blocks <= INLINE_BLOCKS) {
		uint32_t map = inline_uptodate(f) | inline_mask(first, end);

		inline_store(f, inline_dirty(f), map);
		if (map == inline_mask(0, blocks))
			folio_mark_uptodate(f);
		return 0;
	}
	state = state_get(f);
	if (!state)
		return -ENOMEM;
	map_change_range(&state->uptodate, first, end, true);
	if (state->uptodate.nr_set == blocks)
		folio_mark_uptodate(f);
	return 0;
}

/* ---- dirty ---- */

/* After the maps have changed: the flag, the tag, the accounts. */
static void dirty_changed(struct folio *f, unsigned blocks_before)
{
	struct mapping *m = f->mapping;
	uint64_t bytes = (uint64_t)(dirty_blocks(f) - blocks_before) << f->block_bits;

	if (blocks_before == 0) {
		mutex_lock(&m->tree_lock);
		tree_tag_set(m, f, TAG_DIRTY);
		mutex_unlock(&m->tree_lock);
	}
	if (bytes) {
		atomic_fetch_add(&m->dirty_bytes, bytes);
		cache_account_dirtied(f->cache, bytes);
		flusher_add_mapping(f->cache, m);
	}
}

/* Without maps, as S2 has it. */
static void set_all_dirty(struct folio *f)
{
	atomic_fetch_or_explicit(&f->flags, FOLIO_DIRTY, memory_order_acq_rel);
	atomic_store_explicit(&f->inline_state, 0, memory_order_relaxed);
	folio_state_free(f);
}

static void inline_mark_dirty(struct folio *f, uint32_t mask)
{
	uint32_t all = inline_mask(0, nr_blocks(f));
	uint32_t map;

	if (is_all_dirty(f))
		return;
	map = (has_flag(f, FOLIO_DIRTY) ? inline_dirty(f) : 0) | mask;
	if (map == all && has_flag(f, FOLIO_UPTODATE))
		map = 0;
	inline_store(f, map, inline_uptodate(f));
	if (!has_flag(f, FOLIO_DIRTY))
		atomic_fetch_or_explicit(&f->flags, FOLIO_DIRTY, memory_order_acq_rel);
}

static int state_mark_dirty(struct folio *f, unsigned first, unsigned end)
{
	struct folio_state *state;

	if (is_all_dirty(f))
		return 0;
	state = state_get(f);
	if (!state) {
		if (!has_flag(f, FOLIO_UPTODATE))
			return -ENOMEM;
		set_all_dirty(f); /* S2: rather too much */
		return 0;
	}
	map_change_range(&state->dirty, first, end, true);
	if (!has_flag(f, FOLIO_DIRTY))
		atomic_fetch_or_explicit(&f->flags, FOLIO_DIRTY, memory_order_acq_rel);
	state_settle(f);
	return 0;
}

/* Ablation: a folio is dirty as a whole, as far as it is uptodate. */
static void mark_uptodate_dirty(struct folio *f)
{
	struct folio_state *state = state_of(f);
	unsigned first = 0, end;

	if (has_flag(f, FOLIO_UPTODATE)) {
		set_all_dirty(f);
		return;
	}
	if (nr_blocks(f) <= INLINE_BLOCKS) {
		inline_mark_dirty(f, inline_uptodate(f));
		return;
	}
	while (state && (first = map_next_set(&state->uptodate, first, state->nr_words)) < nr_blocks(f)) {
		end = map_next_clear(&state->uptodate, first, state->nr_words);
		map_change_range(&state->dirty, first, end, true);
		first = end;
	}
}

int folio_mark_range_dirty(struct folio *f, size_t off, size_t len)
{
	unsigned first = (unsigned)(off >> f->block_bits);
	unsigned end = (unsigned)div_round_up(off + len, (size_t)1 << f->block_bits);
	unsigned before = dirty_blocks(f);
	int err = 0;

	UEXT4_ASSERT(folio_is_locked(f) && f->mapping && end <= nr_blocks(f));
	UEXT4_DEBUG_ASSERT(folio_range_is_uptodate(f, off, len)); /* S3 */
	if (!len)
		return 0;
	if (first == 0 && end == nr_blocks(f))
		set_all_dirty(f);
	else if (nr_blocks(f) <= INLINE_BLOCKS)
		inline_mark_dirty(f, inline_mask(first, end));
	else
		err = state_mark_dirty(f, first, end);
	if (err)
		return err;
	if (unlikely(atomic_load_explicit(&f->mapping->private_flags, memory_order_relaxed) & MAPPING_WHOLE_DIRTY))
		mark_uptodate_dirty(f);
	dirty_changed(f, before);
	return 0;
}

void folio_mark_dirty(struct folio *f)
{
	unsigned before = dirty_blocks(f);

	UEXT4_ASSERT(folio_is_locked(f) && f->mapping && has_flag(f, FOLIO_UPTODATE));
	set_all_dirty(f);
	dirty_changed(f, before);
}

/* The maps without [first, end); false: no memory for state, nothing done (S2). */
static bool clear_blocks(struct folio *f, unsigned first, unsigned end)
{
	unsigned blocks = nr_blocks(f);
	struct folio_state *state;

	if (blocks <= INLINE_BLOCKS) {
		uint32_t map = is_all_dirty(f) ? inline_mask(0, blocks) : inline_dirty(f);

		map &= ~inline_mask(first, end);
		if (!map)
			atomic_fetch_and_explicit(&f->flags, ~FOLIO_DIRTY, memory_order_acq_rel);
		inline_store(f, map, inline_uptodate(f));
		return true;
	}
	if (first == 0 && end == blocks && !state_of(f)) {
		atomic_fetch_and_explicit(&f->flags, ~FOLIO_DIRTY, memory_order_acq_rel);
		return true;
	}
	state = state_get(f);
	if (!state)
		return false;
	map_change_range(&state->dirty, first, end, false);
	if (!state->dirty.nr_set)
		atomic_fetch_and_explicit(&f->flags, ~FOLIO_DIRTY, memory_order_acq_rel);
	state_settle(f);
	return true;
}

void folio_clear_range_dirty(struct folio *f, size_t off, size_t len)
{
	unsigned first = (unsigned)div_round_up(off, (size_t)1 << f->block_bits);
	unsigned end = (unsigned)((off + len) >> f->block_bits);
	unsigned before = dirty_blocks(f);
	struct mapping *m = f->mapping;
	uint64_t bytes;

	UEXT4_ASSERT(folio_is_locked(f) && m && end <= nr_blocks(f));
	if (!before || first >= end || !clear_blocks(f, first, end))
		return;
	bytes = (uint64_t)(before - dirty_blocks(f)) << f->block_bits;
	if (!has_flag(f, FOLIO_DIRTY)) {
		mutex_lock(&m->tree_lock);
		tree_tag_clear(m, f, TAG_DIRTY);
		mutex_unlock(&m->tree_lock);
	}
	if (has_flag(f, FOLIO_WRITEBACK)) {
		f->writeback_bytes += bytes;
		atomic_fetch_add(&m->writeback_bytes, bytes);
		cache_account_writeback_begin(f->cache, bytes);
	} else {
		cache_account_cleaned(f->cache, bytes);
	}
	atomic_fetch_sub(&m->dirty_bytes, bytes);
}

bool folio_next_dirty_range(const struct folio *f, size_t *off, size_t *len)
{
	const struct folio_state *state = state_of(f);
	unsigned first = (unsigned)(*off >> f->block_bits), blocks = nr_blocks(f), end;

	if (!has_flag(f, FOLIO_DIRTY) || first >= blocks)
		return false;
	if (state) {
		first = map_next_set(&state->dirty, first, state->nr_words);
		end = first < blocks ? map_next_clear(&state->dirty, first, state->nr_words) : blocks;
	} else if (inline_dirty(f)) {
		uint64_t bits = (uint64_t)inline_dirty(f) >> first;

		first = bits ? first + (unsigned)__builtin_ctzll(bits) : blocks;
		end = bits ? first + (unsigned)__builtin_ctzll(~((uint64_t)inline_dirty(f) >> first)) : blocks;
	} else {
		end = blocks;
	}
	if (first >= blocks)
		return false;
	*off = (size_t)first << f->block_bits;
	*len = (size_t)(end - first) << f->block_bits;
	return true;
}
