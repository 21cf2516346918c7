/* SPDX-License-Identifier: MIT */
/* log_map.c - from blocks of the log to blocks of its device; reads and writes of runs of log blocks */
#include <errno.h>
#include <stdlib.h>

#include "base/lock.h"
#include "jbd2/jbd2.h"
#include "jbd2/log_map.h"

#define LOG_BATCH_BUSY    1u
#define LOG_BATCH_WAITERS 2u

static int log_map_grow(struct log_map *map, uint32_t *room)
{
	uint32_t new_room = *room ? *room * 2 : 16;
	struct log_extent *extents = realloc(map->extents, (size_t)new_room * sizeof(*extents));

	if (!extents)
		return -ENOMEM;
	map->extents = extents;
	*room = new_room;
	return 0;
}

static int log_map_add(struct log_map *map, uint32_t *room, uint32_t index, fsblk_t blk)
{
	struct log_extent *last = map->count ? &map->extents[map->count - 1] : NULL;

	if (last && last->index + last->count == index && last->blk + last->count == blk) {
		last->count++;
		return 0;
	}
	if (map->count == *room) {
		int err = log_map_grow(map, room);

		if (err)
			return err;
	}
	map->extents[map->count++] = (struct log_extent){ .index = index, .count = 1, .blk = blk };
	return 0;
}

int log_map_load(const struct journal_params *params, uint32_t first, uint32_t end, struct log_map *map)
{
	fsblk_t dev_blocks = params->log_dev->size_bytes / params->block_bytes;
	uint32_t room = 0;
	int err = 0;

	*map = (struct log_map){ .dev = params->log_dev, .block_bytes = params->block_bytes };
	for (uint32_t index = first; index < end && !err; index++) {
		fsblk_t blk = 0;

		err = params->map_log_block(params->map_arg, index, &blk);
		if (!err && (blk == 0 || blk >= dev_blocks)) {
			log_print(params->log, LOG_ERROR, "journal: log block %u lies at block %llu, outside the device",
				  index, (unsigned long long)blk);
			err = -EUCLEAN;
		}
		if (!err)
			err = log_map_add(map, &room, index, blk);
	}
	if (err)
		log_map_exit(map);
	return err;
}

void log_map_exit(struct log_map *map)
{
	free(map->extents);
	map->extents = NULL;
	map->count = 0;
}

uint32_t log_map_lookup(const struct log_map *map, uint32_t index, uint32_t count, fsblk_t *blk_out)
{
	uint32_t low = 0, high = map->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const struct log_extent *e = &map->extents[mid];

		if (index < e->index) {
			high = mid;
		} else if (index - e->index >= e->count) {
			low = mid + 1;
		} else {
			*blk_out = e->blk + (index - e->index);
			return min_of(count, e->count - (index - e->index));
		}
	}
	return 0;
}

/* ---- batches ---- */

/* One piece in flight; freed at completion. */
struct log_bio {
	struct bio bio;
	struct iovec iov;
	struct log_batch *batch;
};

static void log_batch_put(struct log_batch *batch, int err)
{
	int none = 0;

	if (err)
		atomic_compare_exchange_strong(&batch->err, &none, err);
	if (atomic_fetch_sub(&batch->in_flight, 1) == 1)
		word_bit_unlock(&batch->state, LOG_BATCH_BUSY, LOG_BATCH_WAITERS);
}

static void log_bio_end(struct bio *bio, int err)
{
	struct log_bio *lb = container_of(bio, struct log_bio, bio);
	struct log_batch *batch = lb->batch;

	free(lb);
	log_batch_put(batch, err);
}

void log_batch_init(struct log_batch *batch, const struct log_map *map)
{
	batch->map = map;
	atomic_store_explicit(&batch->state, LOG_BATCH_BUSY, memory_order_relaxed);
	atomic_store_explicit(&batch->in_flight, 1, memory_order_relaxed);
	atomic_store_explicit(&batch->err, 0, memory_order_relaxed);
}

void log_batch_add(struct log_batch *batch, enum bio_op op, uint32_t index, uint32_t count, void *buf, unsigned flags)
{
	const struct log_map *map = batch->map;
	uint8_t *bytes = buf;

	while (count > 0) {
		fsblk_t blk;
		uint32_t run = log_map_lookup(map, index, count, &blk);
		size_t len_bytes = (size_t)run * map->block_bytes;
		struct log_bio *lb = run ? calloc(1, sizeof(*lb)) : NULL;

		atomic_fetch_add(&batch->in_flight, 1);
		if (!lb) {
			log_batch_put(batch, run ? -ENOMEM : -EUCLEAN);
			return;
		}
		lb->iov = (struct iovec){ bytes, len_bytes };
		lb->batch = batch;
		lb->bio = (struct bio){
			.dev = map->dev, .op = op, .flags = flags, .pos_bytes = blk * map->block_bytes,
			.len_bytes = len_bytes, .iov = &lb->iov, .iov_count = 1, .end_io = log_bio_end,
		};
		block_submit(&lb->bio);
		index += run;
		count -= run;
		bytes += len_bytes;
	}
}

int log_batch_wait(struct log_batch *batch)
{
	int err;

	log_batch_put(batch, 0);
	word_bit_wait_clear(&batch->state, LOG_BATCH_BUSY, LOG_BATCH_WAITERS);
	err = atomic_load(&batch->err);
	log_batch_init(batch, batch->map);
	return err;
}

static int log_map_transfer(const struct log_map *map, enum bio_op op, uint32_t index, uint32_t count, void *buf,
			    unsigned flags)
{
	struct log_batch batch;
	fsblk_t blk;

	if (log_map_lookup(map, index, count, &blk) == count) {
		struct iovec iov = { buf, (size_t)count * map->block_bytes };

		return block_rwv(map->dev, op, blk * map->block_bytes, &iov, 1, flags);
	}
	log_batch_init(&batch, map);
	block_plug(map->dev);
	log_batch_add(&batch, op, index, count, buf, flags);
	block_unplug(map->dev);
	return log_batch_wait(&batch);
}

int log_map_read(const struct log_map *map, uint32_t index, uint32_t count, void *buf)
{
	return log_map_transfer(map, BIO_READ, index, count, buf, 0);
}

int log_map_write(const struct log_map *map, uint32_t index, uint32_t count, const void *buf, unsigned flags)
{
	return log_map_transfer(map, BIO_WRITE, index, count, (void *)(uintptr_t)buf, flags);
}
