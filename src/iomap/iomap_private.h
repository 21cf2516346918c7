/* SPDX-License-Identifier: MIT */
/* iomap_private.h - what the files of iomap/ share */
#ifndef UEXT4_IOMAP_IOMAP_PRIVATE_H
#define UEXT4_IOMAP_IOMAP_PRIVATE_H

#include <string.h>

#include "iomap/iomap.h"

static inline uint64_t iomap_end(const struct iomap *map)
{
	return map->pos_bytes + map->len_bytes;
}

static inline bool iomap_covers(const struct iomap *map, uint64_t pos_bytes)
{
	return pos_bytes >= map->pos_bytes && pos_bytes - map->pos_bytes < map->len_bytes;
}

static inline bool iomap_still_valid(struct mapping *m, const struct iomap_ops *ops, const struct iomap *map)
{
	return !ops->is_valid || ops->is_valid(m, map);
}

static inline size_t block_bytes(const struct mapping *m)
{
	return (size_t)1 << m->block_bits;
}

static inline size_t block_floor(const struct folio *f, size_t off)
{
	return off >> f->block_bits << f->block_bits;
}

static inline size_t block_ceil(const struct folio *f, size_t off)
{
	return block_floor(f, off + ((size_t)1 << f->block_bits) - 1);
}

/* begin() with what every caller has to check: the map covers @pos and moves on. */
int iomap_begin(struct mapping *m, const struct iomap_ops *ops, uint64_t pos_bytes, uint64_t len_bytes, unsigned flags,
		struct iomap *map_out);
int iomap_finish(struct mapping *m, const struct iomap_ops *ops, uint64_t pos_bytes, uint64_t len_bytes,
		 uint64_t written_bytes, unsigned flags, struct iomap *map);

/* Order of a new folio at page @index inside a run of @pages: as large as alignment and run allow, at most @most. */
uint8_t iomap_folio_order(uint64_t index, uint64_t pages, uint8_t most);

/* Copies @len bytes; the cursor has them. */
void cursor_copy_in(struct iov_cursor *from, uint8_t *dst, size_t len_bytes);
/* Out of a folio that others may be writing to: bytes of a racing write come in any mixture, as POSIX leaves open. */
void cursor_copy_out(struct iov_cursor *to, const uint8_t *src, size_t len_bytes);

/*
 * Makes the blocks of [off, off + len) uptodate that are not, from @map, which covers them: reads them, at once, or
 * zeroes them where there is nothing on disk or the file ends before. Folio locked, map valid. -EIO, -ENOMEM.
 */
int iomap_fill_range(struct folio *f, size_t off, size_t len, const struct iomap *map);

/* Zeroes of [off, off + len) of the folio what lies at or past the end of the file, @size_bytes. */
void iomap_zero_past(struct folio *f, size_t off, size_t len, uint64_t size_bytes);
/* What the map, MAPPED, has for [off, off + len) of a locked folio, read on this thread; whole blocks. */
int iomap_read_mapped(struct folio *f, size_t off, size_t len, const struct iomap *map);

/* ---- read.c ---- */

/* Bytes copied from the folio that covers @pos; 0: it had to be read first, look again; or an error. No lock held. */
ssize_t iomap_read_step(struct mapping *m, uint64_t pos, uint64_t want, struct iov_cursor *to, const struct iomap_ops *ops);

/* Bytes from @pos on, at most @want, none past the end of the file; 0: look again; or an error. */
typedef ssize_t (*iomap_read_fn)(struct mapping *m, uint64_t pos, uint64_t want, struct iov_cursor *to,
				 const struct iomap_ops *ops);

/* Steps until the memory is full or the file ends. An error counts only if nothing came before it. */
static inline ssize_t iomap_read_steps(struct mapping *m, uint64_t pos, struct iov_cursor *to,
				       const struct iomap_ops *ops, iomap_read_fn step)
{
	uint64_t total = 0, size;
	ssize_t n = 0;

	while (to->left_bytes && (size = atomic_load(&m->size_bytes)) > pos + total) {
		n = step(m, pos + total, min_of((uint64_t)to->left_bytes, size - pos - total), to, ops);
		if (n < 0)
			break;
		total += (uint64_t)n;
	}
	return total ? (ssize_t)total : n < 0 ? n : 0;
}

/* ---- read_uncached.c ---- */

/* Where the first folio in [pos, end) begins, or @end. A folio that covers @pos gives @pos. */
uint64_t iomap_first_folio(struct mapping *m, uint64_t pos, uint64_t end);

/* ---- readahead.c ---- */

/*
 * No folio at @pos: decides how much to read, and starts it. At least the folio at @pos has been inserted on success, unless
 * somebody else did; its reads may be in flight, holding its lock. Context: no folio lock; takes invalidate_lock.
 */
int readahead_miss(struct mapping *m, uint64_t pos_bytes, uint64_t want_bytes, const struct iomap_ops *ops);
/* @index carried the mark: starts the window after the present one, without waiting. */
void readahead_marker(struct mapping *m, uint64_t index, const struct iomap_ops *ops);

/* ---- read_bio.c ---- */

/*
 * Inserts folios for pages [index, end_index) and reads them, in as few requests as the maps allow; stops at what it
 * cannot do. @mark_index: the folio there gets FOLIO_READAHEAD; UINT64_MAX: none. @wait: on this thread; else it returns
 * once all is submitted. Caller holds invalidate_lock shared. 0, or an error before anything was inserted.
 */
int read_folios(struct mapping *m, uint64_t index, uint64_t end_index, uint64_t mark_index, uint8_t max_order, bool wait,
		const struct iomap_ops *ops);

#endif
