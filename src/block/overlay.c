/* SPDX-License-Identifier: MIT */
/* overlay.c - copy on write in memory over a device that stays untouched */
#include "block/overlay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "block/block_private.h"
#include "block/iov.h"

/*
 * A table of two levels: leaves of LEAF_CHUNKS pointers to chunks of 4 KiB, each with a bit per 512-byte
 * sector that is ours. A read is sent to the lower device whole, and our sectors are copied over the result;
 * it stays in memory if all of its sectors are ours.
 */
#define CHUNK_BYTES   4096u
#define SECTOR_BYTES  512u
#define CHUNK_SECTORS (CHUNK_BYTES / SECTOR_BYTES)
#define CHUNK_ALL     0xFFu
#define LEAF_CHUNKS   4096u
#define LOCK_COUNT    64u

struct overlay_chunk {
	uint8_t ours;             /* [chunk lock] a bit per sector */
	char bytes[CHUNK_BYTES];  /* [chunk lock] */
};

/* Stands for a chunk of zeros that is all ours; never written. */
static struct overlay_chunk zero_chunk = { .ours = CHUNK_ALL };

struct overlay_leaf {
	struct overlay_chunk *chunk[LEAF_CHUNKS]; /* [chunk lock of its index] */
};

struct overlay_device {
	struct block_device dev;
	struct block_device *lower;           /* [const] owned */
	uint64_t leaf_count;                  /* [const] */
	_Atomic(struct overlay_leaf *) *leaf; /* [atomic] set once: published with release, read with acquire */
	atomic_uint_fast64_t bytes;           /* [atomic] */
	struct mutex lock[LOCK_COUNT];        /* of chunk index modulo LOCK_COUNT */
};

/* The part of a request that lies in one chunk. */
struct overlay_span {
	uint64_t index;
	unsigned from_bytes;
	unsigned len_bytes;
};

static struct overlay_device *overlay_of(struct block_device *dev)
{
	return container_of(dev, struct overlay_device, dev);
}

static struct overlay_span overlay_span_at(uint64_t pos_bytes, uint64_t len_bytes)
{
	unsigned from = (unsigned)(pos_bytes % CHUNK_BYTES);

	return (struct overlay_span){
		.index = pos_bytes / CHUNK_BYTES,
		.from_bytes = from,
		.len_bytes = (unsigned)min_of(len_bytes, (uint64_t)(CHUNK_BYTES - from)),
	};
}

static uint8_t span_sectors(const struct overlay_span *span)
{
	unsigned first = span->from_bytes / SECTOR_BYTES;
	unsigned end = div_round_up(span->from_bytes + span->len_bytes, SECTOR_BYTES);

	return (uint8_t)(((1u << end) - 1) & ~((1u << first) - 1));
}

static struct mutex *chunk_lock(struct overlay_device *ov, uint64_t index)
{
	return &ov->lock[index % LOCK_COUNT];
}

/* Where the chunk's pointer is; NULL while nothing near it was written. */
static struct overlay_chunk **chunk_slot(struct overlay_device *ov, uint64_t index)
{
	struct overlay_leaf *leaf = atomic_load_explicit(&ov->leaf[index / LEAF_CHUNKS], memory_order_acquire);

	return leaf ? &leaf->chunk[index % LEAF_CHUNKS] : NULL;
}

static struct overlay_chunk **chunk_slot_make(struct overlay_device *ov, uint64_t index)
{
	struct overlay_chunk **slot = chunk_slot(ov, index);
	struct overlay_leaf *made, *expected = NULL;

	if (slot)
		return slot;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	if (!atomic_compare_exchange_strong(&ov->leaf[index / LEAF_CHUNKS], &expected, made))
		free(made); /* another thread was first */
	return chunk_slot(ov, index);
}

static struct overlay_chunk *chunk_make(struct overlay_device *ov)
{
	struct overlay_chunk *chunk = calloc(1, sizeof(*chunk));

	if (chunk)
		atomic_fetch_add_explicit(&ov->bytes, CHUNK_BYTES, memory_order_relaxed);
	return chunk;
}

static void chunk_free(struct overlay_device *ov, struct overlay_chunk *chunk)
{
	if (!chunk || chunk == &zero_chunk)
		return;
	atomic_fetch_sub_explicit(&ov->bytes, CHUNK_BYTES, memory_order_relaxed);
	free(chunk);
}

/* The chunk with memory of its own, its sectors as they were; NULL without memory. */
static struct overlay_chunk *chunk_writable(struct overlay_device *ov, struct overlay_chunk **slot)
{
	struct overlay_chunk *chunk = *slot;

	if (chunk && chunk != &zero_chunk)
		return chunk;
	*slot = chunk_make(ov);
	if (!*slot) {
		*slot = chunk;
		return NULL;
	}
	if (chunk == &zero_chunk)
		(*slot)->ours = CHUNK_ALL;
	return *slot;
}

static int span_write(struct overlay_device *ov, const struct overlay_span *span, struct iov_cursor *cur)
{
	struct overlay_chunk **slot = chunk_slot_make(ov, span->index);
	struct overlay_chunk *chunk;

	if (!slot)
		return -ENOMEM;
	mutex_lock(chunk_lock(ov, span->index));
	chunk = chunk_writable(ov, slot);
	if (chunk) {
		iov_copy_from(cur, chunk->bytes + span->from_bytes, span->len_bytes);
		chunk->ours |= span_sectors(span);
	}
	mutex_unlock(chunk_lock(ov, span->index));
	return chunk ? 0 : -ENOMEM;
}

static int span_zero(struct overlay_device *ov, const struct overlay_span *span)
{
	struct overlay_chunk **slot = chunk_slot_make(ov, span->index);
	struct overlay_chunk *chunk;

	if (!slot)
		return -ENOMEM;
	mutex_lock(chunk_lock(ov, span->index));
	if (span->len_bytes == CHUNK_BYTES) {
		chunk_free(ov, *slot);
		chunk = *slot = &zero_chunk;
	} else {
		chunk = chunk_writable(ov, slot);
		if (chunk) {
			memset(chunk->bytes + span->from_bytes, 0, span->len_bytes);
			chunk->ours |= span_sectors(span);
		}
	}
	mutex_unlock(chunk_lock(ov, span->index));
	return chunk ? 0 : -ENOMEM;
}

/* Requests are whole sectors by contract; anything less would claim bytes that were never written. */
static bool bio_is_whole_sectors(const struct bio *bio)
{
	return !((bio->pos_bytes | bio->len_bytes) % SECTOR_BYTES);
}

static int overlay_change(struct bio *bio)
{
	struct overlay_device *ov = overlay_of(bio->dev);
	struct iov_cursor cur = iov_cursor_make(bio->iov, bio->iov_count, 0);
	uint64_t pos = bio->pos_bytes, left = bio->len_bytes;
	int err = 0;

	if (bio->op != BIO_WRITE && bio->op != BIO_WRITE_ZEROES)
		return 0; /* flush: memory has no cache; discard: ignored */
	if (!bio_is_whole_sectors(bio))
		return -EINVAL;
	while (left && !err) {
		struct overlay_span span = overlay_span_at(pos, left);

		err = bio->op == BIO_WRITE ? span_write(ov, &span, &cur) : span_zero(ov, &span);
		pos += span.len_bytes;
		left -= span.len_bytes;
	}
	return err;
}

/* Copies our sectors over what was read; returns true if every sector of the span is ours. */
static bool span_patch(struct overlay_device *ov, const struct overlay_span *span, struct iov_cursor cur)
{
	struct overlay_chunk **slot = chunk_slot(ov, span->index);
	uint8_t wanted = span_sectors(span), ours = 0;

	if (!slot)
		return false;
	mutex_lock(chunk_lock(ov, span->index));
	if (*slot)
		ours = (*slot)->ours & wanted;
	if (ours == wanted) {
		iov_copy_to(&cur, (*slot)->bytes + span->from_bytes, span->len_bytes);
	} else {
		for (unsigned at = span->from_bytes; ours && at < span->from_bytes + span->len_bytes; at += SECTOR_BYTES) {
			if (ours & (1u << (at / SECTOR_BYTES)))
				iov_copy_to(&cur, (*slot)->bytes + at, SECTOR_BYTES);
			else
				iov_cursor_advance(&cur, SECTOR_BYTES);
		}
	}
	mutex_unlock(chunk_lock(ov, span->index));
	return ours == wanted;
}

static bool overlay_patch(struct bio *bio)
{
	struct overlay_device *ov = overlay_of(bio->dev);
	struct iov_cursor cur = iov_cursor_make(bio->iov, bio->iov_count, 0);
	uint64_t pos = bio->pos_bytes, left = bio->len_bytes;
	bool complete = true;

	while (left) {
		struct overlay_span span = overlay_span_at(pos, left);

		complete &= span_patch(ov, &span, cur);
		iov_cursor_advance(&cur, span.len_bytes);
		pos += span.len_bytes;
		left -= span.len_bytes;
	}
	return complete;
}

static void overlay_read_end_io(struct bio *bio, int err)
{
	if (!err)
		overlay_patch(bio_clone_of(bio)->orig);
	bio_clone_end(bio, err);
}

static int overlay_read_done(struct bio *bio)
{
	return 0;
}

static void overlay_submit_read(struct overlay_device *ov, struct bio *bio)
{
	struct bio_clone *clone;

	if (overlay_patch(bio)) {
		bio_run_inline(bio, overlay_read_done);
		return;
	}
	clone = bio_clone_alloc(bio, ov->lower, overlay_read_end_io);
	if (clone)
		block_submit(&clone->bio);
	else
		bio->end_io(bio, -ENOMEM);
}

static void overlay_submit(struct block_device *dev, struct bio *bio)
{
	if (bio->op == BIO_READ)
		overlay_submit_read(overlay_of(dev), bio);
	else
		bio_run_inline(bio, overlay_change);
}

static int overlay_submit_sync(struct block_device *dev, struct bio *bio)
{
	int err;

	if (bio->op != BIO_READ)
		return overlay_change(bio);
	if (overlay_patch(bio))
		return 0;
	err = block_rwv(overlay_of(dev)->lower, BIO_READ, bio->pos_bytes, bio->iov, bio->iov_count, 0);
	if (!err)
		overlay_patch(bio);
	return err;
}

static void overlay_plug(struct block_device *dev)
{
	block_plug(overlay_of(dev)->lower);
}

static void overlay_unplug(struct block_device *dev)
{
	block_unplug(overlay_of(dev)->lower);
}

static void leaf_free(struct overlay_device *ov, struct overlay_leaf *leaf)
{
	for (unsigned i = 0; leaf && i < LEAF_CHUNKS; i++)
		chunk_free(ov, leaf->chunk[i]);
	free(leaf);
}

static int overlay_close(struct block_device *dev)
{
	struct overlay_device *ov = overlay_of(dev);
	int err = block_close(ov->lower);

	for (uint64_t i = 0; i < ov->leaf_count; i++)
		leaf_free(ov, atomic_load(&ov->leaf[i]));
	for (unsigned i = 0; i < LOCK_COUNT; i++)
		mutex_exit(&ov->lock[i]);
	free(ov->leaf);
	free(ov);
	return err;
}

static const struct block_device_ops overlay_ops = {
	.name = "overlay",
	.submit = overlay_submit,
	.submit_sync = overlay_submit_sync,
	.plug = overlay_plug,
	.unplug = overlay_unplug,
	.close = overlay_close,
};

int block_open_overlay(struct block_device *lower, struct block_device **dev_out)
{
	struct overlay_device *ov = calloc(1, sizeof(*ov));

	if (!ov)
		return -ENOMEM;
	ov->leaf_count = div_round_up(lower->size_bytes, (uint64_t)CHUNK_BYTES * LEAF_CHUNKS);
	ov->leaf = calloc(ov->leaf_count + 1, sizeof(*ov->leaf)); /* an empty device has a table, too */
	if (!ov->leaf) {
		free(ov);
		return -ENOMEM;
	}
	ov->lower = lower;
	ov->dev = *lower;
	ov->dev.ops = &overlay_ops;
	ov->dev.read_only = false;
	ov->dev.volatile_cache = false;
	lower->counters = NULL;
	for (unsigned i = 0; i < LOCK_COUNT; i++)
		mutex_init(&ov->lock[i], RANK_DEVICE);
	*dev_out = &ov->dev;
	return 0;
}

uint64_t overlay_bytes(struct block_device *dev)
{
	return atomic_load_explicit(&overlay_of(dev)->bytes, memory_order_relaxed);
}
