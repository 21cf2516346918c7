/* SPDX-License-Identifier: MIT */
/* seek.c - SEEK_DATA, SEEK_HOLE and fiemap: walks over a file's maps */
#include <errno.h>

#include "iomap/iomap_private.h"

/*
 * An unwritten extent holds data where the cache has dirty blocks over it, or blocks on their way to the device: the
 * extent is still unwritten while they are. Otherwise it reads as zeros, a hole.
 */
static bool block_has_data(struct folio *f, size_t off)
{
	size_t at = off, len;

	if (atomic_load(&f->flags) & FOLIO_WRITEBACK && folio_range_is_uptodate(f, off, 1))
		return true;
	return folio_next_dirty_range(f, &at, &len) && at == off;
}

/* The first position in [pos, end) whose block does (@want) or does not have data in the cache; @end: none. */
static uint64_t cache_seek(struct mapping *m, uint64_t pos, uint64_t end, bool want)
{
	while (pos < end) {
		uint64_t index = pos >> PAGE_SHIFT_BITS;
		struct folio *f;
		uint64_t folio_end;

		if (!mapping_find_tagged(m, &index, div_round_up(end, (uint64_t)PAGE_BYTES), TAG_ANY, &f, 1))
			return want ? end : pos;
		if (folio_pos(f) > pos) {
			uint64_t next = min_of(folio_pos(f), end);

			if (!want) {
				folio_put(f);
				return pos;
			}
			pos = next;
		}
		folio_lock(f);
		folio_end = min_of(folio_pos(f) + folio_bytes(f), end);
		while (pos < folio_end) {
			size_t off = block_floor(f, (size_t)(pos - folio_pos(f)));

			if ((f->mapping == m && block_has_data(f, off)) == want)
				break;
			pos = folio_pos(f) + off + block_bytes(m);
		}
		folio_unlock(f);
		folio_put(f);
		if (pos < folio_end)
			return pos;
		pos = max_of(pos, folio_end);
	}
	return end;
}

static int64_t iomap_seek(struct mapping *m, uint64_t pos, const struct iomap_ops *ops, bool data)
{
	uint64_t size = atomic_load(&m->size_bytes);

	if (pos >= size)
		return -ENXIO;
	while (pos < size) {
		struct iomap map;
		uint64_t end, found;
		int err;

		err = iomap_begin(m, ops, pos, size - pos, IOMAP_REPORT, &map);
		if (err)
			return err;
		end = min_of(iomap_end(&map), size);
		if (map.type == IOMAP_HOLE)
			found = data ? end : pos;
		else if (map.type == IOMAP_UNWRITTEN)
			found = cache_seek(m, pos, end, data);
		else
			found = data ? pos : end;
		if (found < end)
			return (int64_t)found;
		pos = end;
	}
	return data ? -ENXIO : (int64_t)size;
}

int64_t iomap_seek_data(struct mapping *m, uint64_t pos_bytes, const struct iomap_ops *ops)
{
	return iomap_seek(m, pos_bytes, ops, true);
}

int64_t iomap_seek_hole(struct mapping *m, uint64_t pos_bytes, const struct iomap_ops *ops)
{
	return iomap_seek(m, pos_bytes, ops, false);
}

/* One run is held back until the next is known, so that the last can be marked. */
int iomap_fiemap(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, const struct iomap_ops *ops,
		 int (*emit)(void *arg, const struct iomap *map), void *arg)
{
	uint64_t end = len_bytes > UINT64_MAX - pos_bytes ? UINT64_MAX : pos_bytes + len_bytes;
	struct iomap held = { .type = IOMAP_HOLE };
	struct iomap map;
	int err;

	while (pos_bytes < end) {
		err = iomap_begin(m, ops, pos_bytes, end - pos_bytes, IOMAP_REPORT, &map);
		if (err)
			return err;
		pos_bytes = iomap_end(&map);
		if (map.type == IOMAP_HOLE)
			continue;
		if (held.type != IOMAP_HOLE) {
			err = emit(arg, &held);
			if (err)
				return err < 0 ? err : 0;
		}
		held = map;
	}
	if (held.type == IOMAP_HOLE)
		return 0;
	held.flags |= IOMAP_F_LAST;
	err = emit(arg, &held);
	return err < 0 ? err : 0;
}
