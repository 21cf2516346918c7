/* SPDX-License-Identifier: MIT */
/*
 * read_uncached.c - reads for somebody who keeps what he reads, as the kernel above a FUSE server does
 *
 * What a folio holds is read from the folio. The rest comes from the device straight into the caller's memory, and no folio
 * is made for it.
 *
 * U1  First the folios are looked for, then the map is asked, all under invalidate_lock. Data written before the read
 *     began is then in a folio that is seen, or was written back and is where the map says.
 * U2  The device gives whole sectors. A range that is no such multiple, or has no room for the last sector of the
 *     file, goes through the cache.
 */
#include <errno.h>

#include "iomap/iomap_private.h"

/* Pieces for the device and what they add up to. */
struct gather {
	struct iomap_piece pieces[IOMAP_PIECES_MAX];
	unsigned count;
	uint64_t bytes;      /* of the file, from the start; zeros included */
};

uint64_t iomap_first_folio(struct mapping *m, uint64_t pos, uint64_t end)
{
	uint64_t index = pos >> PAGE_SHIFT_BITS, start;
	struct folio *f;

	if (!atomic_load_explicit(&m->nr_pages, memory_order_acquire) ||
	    !mapping_find_tagged(m, &index, div_round_up(end, (uint64_t)PAGE_BYTES), TAG_ANY, &f, 1))
		return end;
	start = max_of(folio_pos(f), pos);
	folio_put(f);
	return min_of(start, end);
}

/* Up to @len bytes that the map has at @pos, and that fit the memory at the cursor. False: no more can be gathered (U2). */
static bool gather_map(struct gather *g, const struct mapping *m, const struct iov_cursor *to, const struct iomap *map,
		       uint64_t pos, uint64_t len)
{
	uint8_t *buf = (uint8_t *)to->iov->iov_base + to->iov_off;
	uint64_t room = to->iov->iov_len - to->iov_off, n = min_of(len, room);
	uint64_t addr = map->addr_bytes + (pos - map->pos_bytes), sectors;

	if (map->type == IOMAP_DELALLOC || map->fetch)
		return false; /* its folio came a moment ago; or the device may not have it */
	if (map->type != IOMAP_MAPPED) {
		memset(buf, 0, n);
	} else {
		sectors = round_up_to(n, (uint64_t)m->dev->sector_bytes);
		if (addr % m->dev->sector_bytes || sectors > room || (n < len && sectors != n) ||
		    g->count == IOMAP_PIECES_MAX)
			return false;
		g->pieces[g->count++] = (struct iomap_piece){ buf, sectors, addr };
	}
	g->bytes += n;
	return true;
}

/* Everything of [pos, end) that can go in one transfer. */
static int gather_range(struct gather *g, struct mapping *m, uint64_t pos, uint64_t end, struct iov_cursor to,
			const struct iomap_ops *ops)
{
	struct iomap map = { 0 };

	while (pos + g->bytes < end) {
		uint64_t at = pos + g->bytes, before = g->bytes;
		int err;

		if (!iomap_covers(&map, at)) {
			err = iomap_begin(m, ops, at, end - at, 0, &map);
			if (err)
				return g->bytes ? 0 : err;
		}
		if (!gather_map(g, m, &to, &map, at, min_of(end, iomap_end(&map)) - at))
			return 0;
		iov_cursor_skip(&to, (size_t)(g->bytes - before));
	}
	return 0;
}

/* Bytes that came without the cache; 0: the ones at @pos have to go through it. */
static ssize_t read_bypassing(struct mapping *m, uint64_t pos, uint64_t want, struct iov_cursor *to,
			      const struct iomap_ops *ops)
{
	struct gather g = { .count = 0 };
	uint64_t end;
	int err;

	rwsem_read_lock(&m->invalidate_lock);
	end = iomap_first_folio(m, pos, pos + want);
	err = gather_range(&g, m, pos, end, *to, ops);
	if (!err && g.count)
		err = iomap_transfer(m->dev, BIO_READ, g.pieces, g.count);
	rwsem_read_unlock(&m->invalidate_lock);
	if (err)
		return err;
	iov_cursor_skip(to, (size_t)g.bytes);
	return (ssize_t)g.bytes;
}

static ssize_t uncached_step(struct mapping *m, uint64_t pos, uint64_t want, struct iov_cursor *to,
			     const struct iomap_ops *ops)
{
	ssize_t n = read_bypassing(m, pos, want, to, ops);

	return n ? n : iomap_read_step(m, pos, want, to, ops);
}

ssize_t iomap_uncached_read(struct mapping *m, uint64_t pos_bytes, struct iov_cursor *to, const struct iomap_ops *ops)
{
	return iomap_read_steps(m, pos_bytes, to, ops, uncached_step);
}
