/* SPDX-License-Identifier: MIT */
/*
 * readahead.c - how much to read before it is asked for
 *
 * A mapping remembers a few streams. A stream is where its last window ends and how large that was, in one word, so that
 * it is read and changed without a lock; a race costs at most a window of the wrong size. A miss where a stream ends, or
 * at the start of the file, is sequential: the window doubles. The first folio after what was asked for is marked, and
 * reaching the mark starts the next window, so a steady reader always has one window in flight. Any other miss reads
 * what was asked for, on the caller's thread, and opens a stream that the next miss may continue.
 *
 * Hits look at a flag of the folio that they have in hand; streams are touched at misses and marks only.
 */
#include <errno.h>

#include "iomap/iomap_private.h"

#define STREAMS ARRAY_SIZE(((struct mapping *)NULL)->ra_slots)
#define INIT_PAGES 32u   /* 128 KiB */
#define MAX_PAGES  512u  /* 2 MiB */
/* Larger folios make the reader wait for more than it needs first. */
#define READAHEAD_ORDER 6
/* A request of more is cut: the rest comes with the next miss. */
#define REQUEST_PAGES_MAX 1024u

#define END_BITS 48u

struct stream {
	uint64_t end;   /* page after the last window */
	uint32_t pages; /* of the last window; 0: one miss so far */
};

static uint64_t stream_pack(struct stream s)
{
	return (uint64_t)s.pages << END_BITS | (s.end & ((UINT64_C(1) << END_BITS) - 1));
}

static struct stream stream_get(struct mapping *m, unsigned slot)
{
	uint64_t word = atomic_load_explicit(&m->ra_slots[slot], memory_order_relaxed);

	return (struct stream){ word & ((UINT64_C(1) << END_BITS) - 1), (uint32_t)(word >> END_BITS) };
}

static void stream_set(struct mapping *m, unsigned slot, struct stream s)
{
	atomic_store_explicit(&m->ra_slots[slot], stream_pack(s), memory_order_relaxed);
}

/* The stream that ends at page @index, or -1. Page 0 ends none: a slot of zeros is unused. */
static int stream_ending_at(struct mapping *m, uint64_t index)
{
	for (unsigned i = 0; index && i < STREAMS; i++)
		if (stream_get(m, i).end == index)
			return (int)i;
	return -1;
}

/* The stream whose last window holds page @index, or -1. */
static int stream_around(struct mapping *m, uint64_t index)
{
	for (unsigned i = 0; i < STREAMS; i++) {
		struct stream s = stream_get(m, i);

		if (s.pages && index < s.end && index + s.pages >= s.end)
			return (int)i;
	}
	return -1;
}

static unsigned stream_replace(struct mapping *m)
{
	return atomic_fetch_add_explicit(&m->ra_next, 1, memory_order_relaxed) % STREAMS;
}

/* The next window of a stream; smaller where the cache is small (max_order follows its limit). */
static uint32_t window_grow(const struct mapping *m, uint32_t pages)
{
	uint32_t most = min_of(MAX_PAGES, 4u << m->max_order);

	return pages ? min_of(pages * 2, most) : min_of(INIT_PAGES, most);
}

int readahead_miss(struct mapping *m, uint64_t pos_bytes, uint64_t want_bytes, const struct iomap_ops *ops)
{
	uint64_t index = pos_bytes >> PAGE_SHIFT_BITS;
	uint64_t want_end = div_round_up(pos_bytes + want_bytes, (uint64_t)PAGE_BYTES);
	uint32_t need = (uint32_t)min_of(want_end - index, (uint64_t)REQUEST_PAGES_MAX);
	int slot = stream_ending_at(m, index);
	struct stream s = { index + need, 0 };
	uint64_t file_end = div_round_up(atomic_load(&m->size_bytes), (uint64_t)PAGE_BYTES);
	uint64_t mark = UINT64_MAX;
	bool wait;
	int err;

	if (slot >= 0 || index == 0) {
		s.pages = window_grow(m, slot >= 0 ? stream_get(m, (unsigned)slot).pages : 0);
		if (s.pages <= need)
			s.pages += need; /* a large request: keep the device busy while it is copied */
		s.end = index + s.pages;
		mark = index + need;
	}
	if (slot < 0)
		slot = (int)stream_replace(m);
	stream_set(m, (unsigned)slot, s);
	/* Nothing beyond what is needed now, as in a small file: no hop to another thread for it. */
	wait = min_of(s.end, file_end) <= index + need;
	rwsem_read_lock(&m->invalidate_lock);
	err = read_folios(m, index, s.end, mark, READAHEAD_ORDER, wait, ops);
	rwsem_read_unlock(&m->invalidate_lock);
	return err;
}

void readahead_marker(struct mapping *m, uint64_t index, const struct iomap_ops *ops)
{
	int slot = stream_around(m, index);
	struct stream s;
	uint64_t start;

	if (slot < 0)
		return;
	s = stream_get(m, (unsigned)slot);
	start = s.end;
	s.pages = window_grow(m, s.pages);
	s.end = start + s.pages;
	stream_set(m, (unsigned)slot, s);
	/* A truncate in progress: what would be read ahead is about to go. */
	if (!rwsem_read_trylock(&m->invalidate_lock))
		return;
	read_folios(m, start, s.end, start, READAHEAD_ORDER, false, ops); /* a reader will see errors again */
	rwsem_read_unlock(&m->invalidate_lock);
}
