/* SPDX-License-Identifier: MIT */
/* iomap.c - what reads, writes and zeroing share: maps, cursors, filling blocks of a locked folio */
#include "iomap/iomap.h"

#include <errno.h>

#include "iomap/iomap_private.h"

int iomap_begin(struct mapping *m, const struct iomap_ops *ops, uint64_t pos_bytes, uint64_t len_bytes, unsigned flags,
		struct iomap *map_out)
{
	int err;

	*map_out = (struct iomap){ 0 };
	err = ops->begin(m, pos_bytes, len_bytes, flags, map_out);
	if (err)
		return err;
	UEXT4_ASSERT(iomap_covers(map_out, pos_bytes));
	return 0;
}

int iomap_finish(struct mapping *m, const struct iomap_ops *ops, uint64_t pos_bytes, uint64_t len_bytes,
		 uint64_t written_bytes, unsigned flags, struct iomap *map)
{
	return ops->end ? ops->end(m, pos_bytes, len_bytes, written_bytes, flags, map) : 0;
}

uint8_t iomap_folio_order(uint64_t index, uint64_t pages, uint8_t most)
{
	unsigned order = most;

	if (index)
		order = min_of(order, (unsigned)__builtin_ctzll(index));
	while (order > 0 && UINT64_C(1) << order > pages)
		order--;
	return (uint8_t)order;
}

/* ---- cursors ---- */

void iov_cursor_skip(struct iov_cursor *cur, size_t len_bytes)
{
	cur->left_bytes -= len_bytes;
	cur->iov_off += len_bytes;
	while (cur->iov_count && cur->iov_off >= cur->iov->iov_len) {
		cur->iov_off -= cur->iov->iov_len;
		cur->iov++;
		cur->iov_count--;
	}
}

static size_t cursor_piece(const struct iov_cursor *cur, size_t len_bytes)
{
	UEXT4_ASSERT(cur->iov_count);
	return min_of(len_bytes, cur->iov->iov_len - cur->iov_off);
}

void cursor_copy_in(struct iov_cursor *from, uint8_t *dst, size_t len_bytes)
{
	while (len_bytes) {
		size_t n = cursor_piece(from, len_bytes);

		memcpy(dst, (const uint8_t *)from->iov->iov_base + from->iov_off, n);
		iov_cursor_skip(from, n);
		dst += n;
		len_bytes -= n;
	}
}

#ifdef UEXT4_TSAN
/* Out of sight of the sanitizer: this race is meant, and only this one. */
__attribute__((no_sanitize("thread"), noinline)) static void racy_copy(uint8_t *dst, const uint8_t *src, size_t len)
{
	const volatile uint8_t *from = src;

	for (size_t i = 0; i < len; i++)
		dst[i] = from[i];
}
#else
static void racy_copy(uint8_t *dst, const uint8_t *src, size_t len)
{
	memcpy(dst, src, len);
}
#endif

void cursor_copy_out(struct iov_cursor *to, const uint8_t *src, size_t len_bytes)
{
	while (len_bytes) {
		size_t n = cursor_piece(to, len_bytes);

		racy_copy((uint8_t *)to->iov->iov_base + to->iov_off, src, n);
		iov_cursor_skip(to, n);
		src += n;
		len_bytes -= n;
	}
}

/* ---- filling ---- */

void iomap_zero_past(struct folio *f, size_t off, size_t len, uint64_t size_bytes)
{
	uint64_t pos = folio_pos(f) + off;

	if (pos + len <= size_bytes)
		return;
	if (pos >= size_bytes)
		memset(f->data + off, 0, len);
	else
		memset(f->data + off + (size_t)(size_bytes - pos), 0, len - (size_t)(size_bytes - pos));
}

int iomap_read_mapped(struct folio *f, size_t off, size_t len, const struct iomap *map)
{
	uint64_t pos = folio_pos(f) + off, addr = map->addr_bytes + (pos - map->pos_bytes);

	UEXT4_ASSERT(pos >= map->pos_bytes && pos + len <= iomap_end(map));
	if (map->fetch)
		return map->fetch(f->mapping, addr, f->data + off, len);
	return block_read(f->mapping->dev, addr, f->data + off, len);
}

/* Whole blocks, none of them uptodate. */
static int fill_run(struct folio *f, size_t off, size_t len, const struct iomap *map)
{
	uint64_t pos = folio_pos(f) + off;
	uint64_t size = atomic_load(&f->mapping->size_bytes);
	int err;

	if (map->type != IOMAP_MAPPED || map->flags & IOMAP_F_NEW || pos >= size) {
		memset(f->data + off, 0, len);
	} else {
		err = iomap_read_mapped(f, off, len, map);
		if (err)
			return err;
		iomap_zero_past(f, off, len, size);
	}
	return folio_mark_range_uptodate(f, off, len);
}

int iomap_fill_range(struct folio *f, size_t off, size_t len, const struct iomap *map)
{
	size_t block = (size_t)1 << f->block_bits;
	size_t at = block_floor(f, off), end = block_ceil(f, off + len);
	int err;

	while (at < end) {
		size_t run = 0;

		while (at + run < end && !folio_range_is_uptodate(f, at + run, block))
			run += block;
		if (run) {
			err = fill_run(f, at, run, map);
			if (err)
				return err;
		}
		at += run + block;
	}
	return 0;
}
