/* SPDX-License-Identifier: MIT */
/* buffer_private.h - the buffer cache's own parts, shared by buffer*.c */
#ifndef UEXT4_CACHE_BUFFER_PRIVATE_H
#define UEXT4_CACHE_BUFFER_PRIVATE_H

#include "base/lock.h"
#include "cache/buffer.h"
#include "cache/cache_private.h"

#define BUFFER_SHARDS 32u

/* One part of the hash and of the dirty buffers; chains are read under RCU. */
struct buffer_shard {
	struct mutex lock;                     /* RANK_MAPPING_TREE */
	_Atomic(struct buffer_head *) *chains; /* [lock] writes, RCU reads */
	struct list_head dirty;                /* [lock] by dirtied_ns */
} __attribute__((aligned(64)));

struct buffer_cache {
	struct cache *cache;              /* [const] */
	struct block_device *dev;         /* [const] */
	const struct log_sink *log;       /* [const] */
	uint32_t block_bytes;             /* [const] */
	uint8_t block_shift;              /* [const] */
	_Atomic(struct buffer_head *) *chains; /* [const] those of all shards */
	uint32_t chains_per_shard;        /* [const] a power of two */
	fsblk_t nr_blocks;                /* [const] of the device */
	struct list_head flusher_node;    /* [flusher.pass_lock] */
	_Atomic int write_err;            /* [atomic] first home write error nobody took yet */
	_Atomic uint64_t nr_buffers;      /* [atomic] */
	_Atomic uint64_t changes;         /* [atomic] who changes and who copies: buffer_changes.c */

	struct mutex write_lock;          /* RANK_WORK */
	struct cond write_cond;
	struct list_head writers;         /* [write_lock] home_write.node, oldest first */
	uint64_t write_seq;               /* [write_lock] */

	struct buffer_shard shard[BUFFER_SHARDS];
};

struct buffer_shard *buffer_shard_of(struct buffer_cache *bc, fsblk_t blk);
/* Makes membership of the dirty list follow BH_DIRTY; call after each change of the bit. */
void buffer_update_dirty_list(struct buffer_head *bh);
/* ---- buffer_changes.c: the copies of home writes ---- */

/* Keeps changers out that have not begun. False: some have, and buffer_copies_wait() comes before the first copy. */
bool buffer_copies_begin(struct buffer_cache *bc);
void buffer_copies_wait(struct buffer_cache *bc);
void buffer_copies_end(struct buffer_cache *bc);

/* A reference unless the buffer is being evicted. */
bool buffer_hold_unless_dead(struct buffer_head *bh);

#endif
