/* SPDX-License-Identifier: MIT */
/* log_map.h - from blocks of the log to blocks of its device; reads and writes of runs of log blocks */
#ifndef UEXT4_JBD2_LOG_MAP_H
#define UEXT4_JBD2_LOG_MAP_H

#include "base/types.h"
#include "block/block.h"

struct journal_params;

/* Log blocks [index, index + count) lie at [blk, blk + count) of the device. */
struct log_extent {
	uint32_t index;
	uint32_t count;
	fsblk_t blk;
};

/* Built once at open, constant from then on. */
struct log_map {
	struct block_device *dev;
	uint32_t block_bytes;
	uint32_t count;             /* of extents, ascending by index, without holes between them */
	struct log_extent *extents;
};

/* Loads log blocks [first, end) with @params->map_log_block. -EUCLEAN: a block outside the device; -ENOMEM. */
int log_map_load(const struct journal_params *params, uint32_t first, uint32_t end, struct log_map *map);
void log_map_exit(struct log_map *map);
/* How many blocks from @index, at most @count, are contiguous on the device; 0 if @index is not mapped. */
uint32_t log_map_lookup(const struct log_map *map, uint32_t index, uint32_t count, fsblk_t *blk_out);

/* Reads [index, index + count), which must not wrap, into @buf; the pieces are in flight together. Waits. */
int log_map_read(const struct log_map *map, uint32_t index, uint32_t count, void *buf);
/* The same for writing; @flags as in bio.flags, for each piece. No flush follows. */
int log_map_write(const struct log_map *map, uint32_t index, uint32_t count, const void *buf, unsigned flags);

/*
 * Many pieces in flight, one wait. Starts with log_batch_init(); log_batch_add() submits; log_batch_wait() returns the
 * first error once all are done, and the batch may be used again.
 */
struct log_batch {
	const struct log_map *map;
	_Atomic uint32_t state;      /* [atomic] LOG_BATCH_BUSY | LOG_BATCH_WAITERS */
	_Atomic uint32_t in_flight;  /* [atomic] bios, and one for the submitter */
	_Atomic int err;             /* [atomic] the first */
};

void log_batch_init(struct log_batch *batch, const struct log_map *map);
/* @buf must stay until log_batch_wait(). Failing to submit counts as an error of the batch. Does not wrap. */
void log_batch_add(struct log_batch *batch, enum bio_op op, uint32_t index, uint32_t count, void *buf, unsigned flags);
int log_batch_wait(struct log_batch *batch);

#endif
