/* SPDX-License-Identifier: MIT */
/* es.h - extent status: what is known of a file's blocks, looked up without a lock */
#ifndef UEXT4_EXT4_ES_H
#define UEXT4_EXT4_ES_H

#include "base/list.h"
#include "base/lock.h"
#include "base/types.h"

struct ext4_fs;
struct inode;

enum es_status { ES_WRITTEN = 1, ES_UNWRITTEN = 2, ES_DELAYED = 3, ES_HOLE = 4 };

struct es_extent {
	lblk_t lblk;
	uint32_t len;      /* blocks */
	fsblk_t pblk;      /* WRITTEN and UNWRITTEN */
	enum es_status status;
};

struct es_map; /* the ordered map; private to es.c */

struct es_tree {
	_Atomic uint32_t seq;           /* [lock writes] odd while the map changes; readers look again */
	_Atomic bool referenced;        /* [atomic] looked up since the shrinker came by */
	_Atomic bool listed;            /* [shrinker's lock writes] on its list */
	_Atomic(struct es_map *) map;   /* [lock writes; RCU reads] NULL: empty */
	struct mutex lock;              /* RANK_ES */
	struct list_head lru;           /* private to es_shrink.c */
};

static inline uint64_t es_end(const struct es_extent *es)
{
	return (uint64_t)es->lblk + es->len;
}

void es_init(struct es_tree *tree);
void es_exit(struct inode *inode); /* forgets everything; gives reservations of delayed blocks back */

/**
 * es_lookup() - what is known of block @lblk
 * @inode: any
 * @lblk:  file block
 * @out:   the whole entry that covers it
 *
 * Context: lock-free; a caller that wants to be sure that the answer stays true holds map_sem or compares map_seq.
 * Return: true if something is known
 */
bool es_lookup(struct inode *inode, lblk_t lblk, struct es_extent *out);

/* The first entry that ends after @from, or false. Takes es.lock. */
bool es_next(struct inode *inode, lblk_t from, struct es_extent *out);
/* The first delayed entry that ends after @from and begins before @end, or false. Takes es.lock. */
bool es_next_delayed(struct inode *inode, lblk_t from, uint64_t end, struct es_extent *out);

/**
 * es_set() - @es is the truth from now on, whatever was known of its range
 * Merges with neighbours. Waits for memory if there is none: the old entry must not survive.
 *
 * Context: map_sem exclusive, except that holes may become delayed under inode.rwsem. Takes es.lock.
 * Return: how many delayed blocks were replaced; their reservation is the caller's now
 */
uint32_t es_set(struct inode *inode, const struct es_extent *es);

/**
 * es_cache() - remember what was read from the disk's tree
 * Never replaces delayed blocks, which lie in what is a hole on disk. Without memory nothing is remembered.
 *
 * Context: map_sem held (shared is enough), so that the tree has not changed since. Takes es.lock.
 */
void es_cache(struct inode *inode, const struct es_extent *es);

/* Forgets [start, end). Returns delayed blocks forgotten, as es_set(). */
uint32_t es_remove(struct inode *inode, lblk_t start, uint64_t end);

/* The shrinker: bounds the entries of all inodes of @fs to @limit_bytes. -ENOMEM. */
int es_shrinker_init(struct ext4_fs *fs, uint64_t limit_bytes);
void es_shrinker_exit(struct ext4_fs *fs);
/* Drops clean entries of least recently used inodes until at most @target_bytes are in use. Returns entries dropped. */
uint64_t es_shrink(struct ext4_fs *fs, uint64_t target_bytes);

#endif
