/* SPDX-License-Identifier: MIT */
/*
 * read_bio.c - filling new folios from the device, many per request
 *
 * First the maps of the whole range are collected, since begin() may not be called with a folio locked; then folios
 * are created, locked, and each map that covers a part of them is checked under that lock. A folio cut by an extent's end
 * is filled by several requests: reads_in_flight counts its parts, and the last to end makes it uptodate and unlocks it. A
 * folio of which anything failed is left not uptodate: its reader then reads the blocks he needs himself.
 */
#include <errno.h>
#include <stdlib.h>

#include "iomap/iomap_private.h"

/* More extents than this make the range shorter: it is fragmented, and readahead worth less. */
#define MAPS_MAX 32u
/* Parts of a request; the device splits what the system cannot take. */
#define PARTS_MAX 128u

struct map_list {
	struct iomap maps[MAPS_MAX];
	unsigned count;
	uint64_t end_bytes; /* covered up to here */
};

struct read_part {
	struct folio *folio;
	uint32_t off, len;
};

struct read_bio {
	struct bio bio;
	uint64_t eof_bytes;      /* bytes past it become zeros, whatever the device holds */
	unsigned count;
	struct read_part parts[PARTS_MAX];
	struct iovec iov[PARTS_MAX];
};

/* State of one read_folios(). */
struct read_ctx {
	struct mapping *m;
	const struct iomap_ops *ops;
	const struct map_list *list;
	struct read_bio *rb;     /* being filled */
	uint64_t eof_bytes;
	bool wait;
};

static int collect_maps(struct mapping *m, uint64_t pos, uint64_t end, const struct iomap_ops *ops,
			struct map_list *list)
{
	list->count = 0;
	while (pos < end && list->count < MAPS_MAX) {
		int err = iomap_begin(m, ops, pos, end - pos, 0, &list->maps[list->count]);

		if (err && !list->count)
			return err;
		if (err)
			break;
		pos = iomap_end(&list->maps[list->count++]);
	}
	list->end_bytes = min_of(pos, end);
	return 0;
}

static const struct iomap *map_at(const struct map_list *list, uint64_t pos)
{
	for (unsigned i = 0; i < list->count; i++)
		if (iomap_covers(&list->maps[i], pos))
			return &list->maps[i];
	return NULL;
}

/* One part of the folio is there, or failed. The last one ends the read. */
static void folio_part_done(struct folio *f, bool failed)
{
	if (failed)
		atomic_fetch_or(&f->flags, FOLIO_ERROR);
	if (atomic_fetch_sub(&f->reads_in_flight, 1) != 1)
		return;
	if (!(atomic_fetch_and(&f->flags, ~FOLIO_ERROR) & FOLIO_ERROR))
		folio_mark_uptodate(f);
	folio_unlock_passed(f);
}

static void read_bio_done(struct bio *bio, int err)
{
	struct read_bio *rb = bio->private_data;

	for (unsigned i = 0; i < rb->count; i++) {
		struct read_part *part = &rb->parts[i];
		struct folio *f = part->folio;

		if (!err)
			iomap_zero_past(f, part->off, part->len, rb->eof_bytes);
		folio_part_done(f, err != 0);
	}
	free(rb);
}

static void read_bio_submit(struct read_ctx *ctx)
{
	struct read_bio *rb = ctx->rb;
	struct bio *bio;
	int err;

	if (!rb)
		return;
	ctx->rb = NULL;
	bio = &rb->bio;
	if (ctx->wait) {
		err = block_rwv(bio->dev, BIO_READ, bio->pos_bytes, rb->iov, rb->count, 0);
		read_bio_done(bio, err);
	} else {
		bio->iov_count = rb->count;
		block_submit(bio);
	}
}

/* Adds a part, to the request being filled if it goes on where that ends. False: no memory. */
static bool read_add(struct read_ctx *ctx, struct folio *f, size_t off, size_t len, uint64_t addr)
{
	struct read_bio *rb = ctx->rb;

	if (rb && (rb->count == PARTS_MAX || rb->bio.pos_bytes + rb->bio.len_bytes != addr)) {
		read_bio_submit(ctx);
		rb = NULL;
	}
	if (!rb) {
		rb = malloc(sizeof(*rb));
		if (!rb)
			return false;
		rb->bio = (struct bio){
			.dev = ctx->m->dev, .op = BIO_READ, .pos_bytes = addr, .iov = rb->iov,
			.end_io = read_bio_done, .private_data = rb,
		};
		rb->eof_bytes = ctx->eof_bytes;
		rb->count = 0;
		ctx->rb = rb;
	}
	rb->parts[rb->count] = (struct read_part){ f, (uint32_t)off, (uint32_t)len };
	rb->iov[rb->count++] = (struct iovec){ f->data + off, len };
	rb->bio.len_bytes += len;
	atomic_fetch_add(&f->reads_in_flight, 1);
	return true;
}

/* One map's part of the folio. False: it cannot be filled now. */
static bool read_mapped_part(struct read_ctx *ctx, struct folio *f, size_t off, size_t len, const struct iomap *map)
{
	if (!iomap_still_valid(ctx->m, ctx->ops, map))
		return false;
	if (map->type != IOMAP_MAPPED) {
		memset(f->data + off, 0, len);
		return true;
	}
	if (map->fetch) {
		if (iomap_read_mapped(f, off, len, map))
			return false;
		iomap_zero_past(f, off, len, ctx->eof_bytes);
		return true;
	}
	return read_add(ctx, f, off, len, map->addr_bytes + (folio_pos(f) + off - map->pos_bytes));
}

/* A new, locked folio; its lock passes on, and the caller's reference is put. False: stop here. */
static bool read_folio(struct read_ctx *ctx, struct folio *f)
{
	size_t off = 0, bytes = folio_bytes(f);
	bool ok = true;

	atomic_store(&f->reads_in_flight, 1); /* ours, while parts are added */
	folio_lock_pass(f);
	while (off < bytes && ok) {
		uint64_t pos = folio_pos(f) + off;
		const struct iomap *map;
		size_t len;

		if (pos >= ctx->eof_bytes) {
			memset(f->data + off, 0, bytes - off);
			break;
		}
		map = map_at(ctx->list, pos);
		if (!map) {
			ok = false;
			break;
		}
		/* Whole blocks, up to the one that holds the end of the file. */
		len = (size_t)min_of((uint64_t)(bytes - off), iomap_end(map) - pos);
		if (pos + len > ctx->eof_bytes)
			len = block_ceil(f, off + (size_t)(ctx->eof_bytes - pos)) - off;
		ok = read_mapped_part(ctx, f, off, len, map);
		off += len;
	}
	folio_part_done(f, !ok);
	folio_put(f);
	return ok;
}

int read_folios(struct mapping *m, uint64_t index, uint64_t end_index, uint64_t mark_index, uint8_t max_order, bool wait,
		const struct iomap_ops *ops)
{
	struct map_list list;
	struct read_ctx ctx = {
		.m = m, .ops = ops, .list = &list, .eof_bytes = atomic_load(&m->size_bytes), .wait = wait,
	};
	uint8_t most = min_of(max_order, m->max_order);
	int err;

	end_index = min_of(end_index, div_round_up(ctx.eof_bytes, (uint64_t)PAGE_BYTES));
	if (index >= end_index)
		return 0;
	err = collect_maps(m, index << PAGE_SHIFT_BITS, end_index << PAGE_SHIFT_BITS, ops, &list);
	if (err)
		return err;
	end_index = min_of(end_index, div_round_up(list.end_bytes, (uint64_t)PAGE_BYTES));
	if (!wait)
		block_plug(m->dev);
	while (index < end_index) {
		struct folio *f;
		bool ok;

		err = mapping_create_folio(m, index, iomap_folio_order(index, end_index - index, most), &f);
		if (err)
			break;
		if (index <= mark_index && mark_index < f->index + (UINT64_C(1) << f->order)) {
			atomic_fetch_or(&f->flags, FOLIO_READAHEAD);
			mark_index = UINT64_MAX;
		}
		index = f->index + (UINT64_C(1) << f->order);
		ok = read_folio(&ctx, f);
		if (!ok)
			break;
	}
	read_bio_submit(&ctx);
	if (!wait)
		block_unplug(m->dev);
	return err == -EEXIST ? 0 : err;
}
