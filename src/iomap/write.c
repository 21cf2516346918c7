/* SPDX-License-Identifier: MIT */
/*
 * write.c - buffered writes and zeroing
 *
 * W1  No read for what will be overwritten: only the first and the last block of a write can need their old bytes, and
 *     only if they are written in part, not cached, mapped and not past the end of the file.
 * W2  Bytes become uptodate after they are all there, and the file grows before the folio is unlocked: so readers never see
 *     memory's old contents, and writeback never takes a dirty folio for one past the end.
 * W3  begin() is called with no folio locked, so the map may be stale by the time the folio is: is_valid() is asked
 *     under the lock, and the piece starts over.
 */
#include <errno.h>

#include "iomap/iomap_private.h"

/* Between two looks at the throttle; also what one begin() is asked for. */
#define PIECE_BYTES (UINT64_C(4) << 20)
#define EMAPSTALE 1000 /* within this file: ask for the map again */

/* W1: the block at @off gets its old bytes unless it has them. */
static int fill_edge(struct folio *f, size_t off, const struct iomap *map)
{
	size_t block = (size_t)1 << f->block_bits;

	off = block_floor(f, off);
	if (folio_range_is_uptodate(f, off, block))
		return 0;
	if (map->type == IOMAP_MAPPED && !(map->flags & IOMAP_F_NEW) &&
	    folio_pos(f) + off < atomic_load(&f->mapping->size_bytes))
		counter_add(cache_counters(f->cache), CNT_FOLIO_READS_FOR_WRITE, 1);
	return iomap_fill_range(f, off, block, map);
}

static int fill_edges(struct folio *f, size_t off, size_t len, const struct iomap *map)
{
	size_t end = off + len, last = block_floor(f, end);
	int err = 0;

	if (block_floor(f, off) != off)
		err = fill_edge(f, off, map);
	if (err || last == end)
		return err;
	/* The last block from its start on, up to the end of the file or more: there is nothing old to keep. */
	if (last >= off && folio_pos(f) + end >= atomic_load(&f->mapping->size_bytes) &&
	    !folio_range_is_uptodate(f, last, 1)) {
		memset(f->data + end, 0, block_ceil(f, end) - end);
		return 0;
	}
	return fill_edge(f, last, map);
}

/*
 * A folio under writeback may be changed: its blocks become dirty again and are written once more, so what the device
 * picked up in between does not matter. To ThreadSanitizer that is a race with devices in memory, so its builds wait.
 */
static void wait_until_stable(struct folio *f)
{
#ifdef UEXT4_TSAN
	folio_wait_writeback(f);
#endif
}

/* What goes into a folio: bytes of the caller, or zeros when @from is NULL. */
static void put_bytes(struct folio *f, size_t off, size_t len, struct iov_cursor *from)
{
	if (from)
		cursor_copy_in(from, f->data + off, len);
	else
		memset(f->data + off, 0, len);
}

/* Folio locked, map valid. On error nothing is dirty and @from is where it was. */
static int folio_write(struct folio *f, size_t off, size_t len, const struct iomap *map, struct iov_cursor *from)
{
	size_t first = block_floor(f, off), end = block_ceil(f, off + len);
	struct iov_cursor before = { 0 };
	int err;

	if (!folio_range_is_uptodate(f, first, end - first)) {
		err = fill_edges(f, off, len, map);
		if (err)
			return err;
	}
	if (from)
		before = *from;
	wait_until_stable(f);
	put_bytes(f, off, len, from);
	err = folio_mark_range_uptodate(f, first, end - first);
	if (!err)
		err = folio_mark_range_dirty(f, off, len);
	if (err && from)
		*from = before;
	return err;
}

static void grow_size(struct mapping *m, uint64_t end_bytes)
{
	if (end_bytes > atomic_load(&m->size_bytes))
		atomic_store(&m->size_bytes, end_bytes);
}

/* One folio's part of [pos, pos + len). *done_out: its bytes. */
static int write_one_folio(struct mapping *m, uint64_t pos, uint64_t len, const struct iomap_ops *ops,
			   const struct iomap *map, struct iov_cursor *from, uint64_t *done_out)
{
	uint64_t pages = (len + pos % PAGE_BYTES) / PAGE_BYTES;
	struct folio *f;
	size_t off, n;
	int err;

	err = mapping_get_folio(m, pos >> PAGE_SHIFT_BITS,
				iomap_folio_order(pos >> PAGE_SHIFT_BITS, pages, m->max_order), &f);
	if (err)
		return err;
	off = (size_t)(pos - folio_pos(f));
	n = (size_t)min_of(len, (uint64_t)folio_bytes(f) - off);
	if (!iomap_still_valid(m, ops, map)) {
		err = -EMAPSTALE; /* W3 */
	} else {
		err = folio_write(f, off, n, map, from);
		if (!err && from)
			grow_size(m, pos + n); /* W2 */
	}
	folio_unlock(f);
	folio_put(f);
	*done_out = err ? 0 : n;
	return err;
}

/* Bytes within one map. *done_out counts what was written also when an error stops it. */
static int write_mapped(struct mapping *m, uint64_t pos, uint64_t len, const struct iomap_ops *ops,
			const struct iomap *map, struct iov_cursor *from, uint64_t *done_out)
{
	uint64_t done = 0, n;
	int err = 0;

	while (done < len && !err) {
		err = write_one_folio(m, pos + done, len - done, ops, map, from, &n);
		done += n;
	}
	*done_out = done;
	return err == -EMAPSTALE ? 0 : err;
}

/* One begin() and end(). 0 with *done_out 0: the map was stale, try again. */
static int write_piece(struct mapping *m, uint64_t pos, uint64_t len, struct iov_cursor *from,
		       const struct iomap_ops *ops, uint64_t *done_out)
{
	struct iomap map;
	int err, end_err;

	*done_out = 0;
	err = iomap_begin(m, ops, pos, len, IOMAP_WRITE, &map);
	if (err)
		return err;
	len = min_of(len, iomap_end(&map) - pos);
	err = write_mapped(m, pos, len, ops, &map, from, done_out);
	end_err = iomap_finish(m, ops, pos, len, *done_out, IOMAP_WRITE, &map);
	return err ? err : end_err;
}

ssize_t iomap_buffered_write(struct mapping *m, uint64_t pos_bytes, struct iov_cursor *from, const struct iomap_ops *ops)
{
	uint64_t total = 0, done;
	int err = 0;

	while (from->left_bytes && !err) {
		cache_throttle_dirty(m->cache);
		err = write_piece(m, pos_bytes + total, min_of((uint64_t)from->left_bytes, PIECE_BYTES), from, ops,
				  &done);
		total += done;
	}
	return total ? (ssize_t)total : err;
}

/* ---- zeroing ---- */

/* Nothing on disk to overwrite: only dirty bytes of cached folios have to go. */
static void zero_dirty_in_folio(struct folio *f, uint64_t start, uint64_t end)
{
	size_t from = start > folio_pos(f) ? (size_t)(start - folio_pos(f)) : 0;
	size_t to = (size_t)min_of(end - folio_pos(f), (uint64_t)folio_bytes(f));
	size_t off = block_floor(f, from), len;

	while (folio_next_dirty_range(f, &off, &len) && off < to) {
		size_t a = max_of(off, from), b = min_of(off + len, to);

		if (a < b)
			memset(f->data + a, 0, b - a);
		off += len;
	}
}

/*
 * A hole, a delayed or an unwritten extent. Data on its way to the device will make it a written one: wait, and
 * look again. Clean folios hold zeros.
 */
static int zero_unmapped(struct mapping *m, uint64_t pos, uint64_t end, const struct iomap_ops *ops,
			 const struct iomap *map)
{
	uint64_t index = pos >> PAGE_SHIFT_BITS;
	struct folio *f;
	int err = 0;

	while (!err && mapping_find_tagged(m, &index, div_round_up(end, (uint64_t)PAGE_BYTES), TAG_ANY, &f, 1)) {
		folio_lock(f);
		if (f->mapping == m) {
			folio_wait_writeback(f);
			if (iomap_still_valid(m, ops, map))
				zero_dirty_in_folio(f, pos, end);
			else
				err = -EMAPSTALE;
		}
		folio_unlock(f);
		folio_put(f);
	}
	return err;
}

static int zero_piece(struct mapping *m, uint64_t pos, uint64_t len, const struct iomap_ops *ops, uint64_t *done_out)
{
	struct iomap map;
	int err, end_err;

	*done_out = 0;
	err = iomap_begin(m, ops, pos, len, IOMAP_ZERO, &map);
	if (err)
		return err;
	len = min_of(len, iomap_end(&map) - pos);
	if (map.type == IOMAP_MAPPED) {
		len = min_of(len, PIECE_BYTES);
		err = write_mapped(m, pos, len, ops, &map, NULL, done_out);
	} else {
		err = zero_unmapped(m, pos, pos + len, ops, &map);
		*done_out = err ? 0 : len;
		err = err == -EMAPSTALE ? 0 : err;
	}
	end_err = iomap_finish(m, ops, pos, len, *done_out, IOMAP_ZERO, &map);
	return err ? err : end_err;
}

int iomap_zero_range(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, const struct iomap_ops *ops)
{
	uint64_t end = pos_bytes + len_bytes, done;
	int err = 0;

	while (pos_bytes < end && !err) {
		err = zero_piece(m, pos_bytes, end - pos_bytes, ops, &done);
		pos_bytes += done;
	}
	return err;
}
