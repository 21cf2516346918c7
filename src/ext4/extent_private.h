/* SPDX-License-Identifier: MIT */
/* extent_private.h - extent trees in memory: paths, and what map.c asks of extent*.c */
#ifndef UEXT4_EXT4_EXTENT_PRIVATE_H
#define UEXT4_EXT4_EXTENT_PRIVATE_H

#include "ext4/extent_format.h"
#include "ext4/inode.h"

#define LBLK_END UINT32_MAX /* one past the last block a file can have */

/* One extent, decoded. */
struct ext_extent {
	lblk_t lblk;
	uint32_t len;
	fsblk_t pblk;
	bool unwritten;
};

static inline uint64_t ext_end(const struct ext_extent *e)
{
	return (uint64_t)e->lblk + e->len;
}

/* A node on the way down. */
struct ext_level {
	struct buffer_head *bh;            /* NULL for the root */
	struct ext4_extent_header *hdr;
	uint32_t max;                      /* entries that memory has room for, whatever eh_max becomes */
	int pos;                           /* entry at or before the block looked for; -1: it is before the first */
	uint64_t end;                      /* file blocks from here on are not this node's */
};

/* From the root, level 0, to the leaf, level depth. */
struct ext_path {
	struct inode *inode;
	unsigned depth;
	struct ext_level level[EXT4_EXT_MAX_DEPTH + 1];
};

/* ---- extent.c: nodes and paths; caller holds map_sem ---- */

/**
 * ext_path_find() - the way from the root to the leaf where @lblk is or would be
 * Each node read is verified (checksum, order, bounds, depth); ext_path_put() it, also after an error.
 * Return: 0, -EUCLEAN, -EBADMSG, -EIO, -ENOMEM
 */
int ext_path_find(struct inode *inode, lblk_t lblk, struct ext_path *path);
void ext_path_put(struct ext_path *path);
/* NULL if @hdr is a sound node of @depth, else the rule it breaks. @max: room for entries; covers [start, end). */
const char *ext_node_verify(const struct inode *inode, const struct ext4_extent_header *hdr, uint32_t max,
			    unsigned depth, lblk_t start, uint64_t end);
/* Entries that fit one tree block of this file system. */
uint32_t ext_block_capacity(const struct ext4_fs *fs);
/*
 * Levels below the root. Without map_sem it may be a moment old, which is good enough for map_credits(): a tree that has
 * just gained a level has room in its root, and does not gain another one.
 */
unsigned ext_depth(const struct inode *inode);
/* The only way to change what ext_depth() says of a live tree. */
static inline void ext_root_set_depth(struct ext_level *root, unsigned depth)
{
	le16 raw = le16_make((uint16_t)depth);

	__atomic_store(&root->hdr->eh_depth, &raw, __ATOMIC_RELAXED);
}

static inline struct ext_level *ext_leaf(struct ext_path *path)
{
	return &path->level[path->depth];
}
static inline struct ext4_extent *ext_entries(const struct ext_level *l)
{
	return (struct ext4_extent *)(l->hdr + 1);
}
static inline struct ext4_extent_idx *ext_indexes(const struct ext_level *l)
{
	return (struct ext4_extent_idx *)(l->hdr + 1);
}
/* Never more than there is memory for. */
static inline int ext_count(const struct ext_level *l)
{
	return (int)min_of((uint32_t)le16_get(l->hdr->eh_entries), l->max);
}
static inline uint32_t ext_room(const struct ext_level *l)
{
	uint32_t max = min_of((uint32_t)le16_get(l->hdr->eh_max), l->max), count = (uint32_t)ext_count(l);

	return max > count ? max - count : 0;
}
/* First block of entry @pos; extents and indexes begin alike. */
static inline lblk_t ext_key(const struct ext_level *l, int pos)
{
	return le32_get(ext_entries(l)[pos].ee_block);
}
static inline fsblk_t ext_index_child(const struct ext4_extent_idx *idx)
{
	return (fsblk_t)le16_get(idx->ei_leaf_hi) << 32 | le32_get(idx->ei_leaf_lo);
}
void ext_get(const struct ext_level *leaf, int pos, struct ext_extent *out);
void ext_set(struct ext_level *leaf, int pos, const struct ext_extent *e);

/* Opens a gap at @pos for an entry, of which there is room, or closes one over @n entries. */
void ext_open(struct ext_level *l, int pos);
void ext_close(struct ext_level *l, int pos, int n);
/* Could @a, if it ends where @b begins, take @b in? */
bool ext_can_merge(const struct ext_extent *a, const struct ext_extent *b);

/* Journal write access to a node; the root needs none, its inode is written by map.c. */
int ext_level_access(struct handle *h, struct ext_level *l);
/* After a change: checksum and journal. */
int ext_level_dirty(struct handle *h, const struct inode *inode, struct ext_level *l);
/* Makes the indexes above say where @level now begins. */
int ext_fix_keys(struct handle *h, struct ext_path *path, unsigned level);

/**
 * ext_lookup() - the extent that covers @lblk, or the hole around it
 * Return: 1 an extent, 0 a hole (its bounds in lblk and len), negative errno as ext_path_find()
 */
int ext_lookup(struct inode *inode, lblk_t lblk, struct ext_extent *out);
/* Preferred place on disk for @lblk next to what is mapped; 0 in an empty tree. */
int ext_goal(struct inode *inode, lblk_t lblk, fsblk_t *goal_out);

/* ---- extent_insert.c: caller holds map_sem exclusive and writes the inode afterwards ---- */

/* Adds @e, merged with its neighbours where they fit. -EUCLEAN (overlap), -ENOSPC, -EIO ... Nothing changed on error. */
int ext_insert(struct handle *h, struct inode *inode, const struct ext_extent *e);
/* Makes the leaf where @lblk belongs have room for @need more entries; @path is found again. */
int ext_make_room(struct handle *h, struct inode *inode, struct ext_path *path, lblk_t lblk, uint32_t need);
/* Pulls the root's only child into it while it fits. */
int ext_collapse(struct handle *h, struct inode *inode);

/* ---- extent_convert.c ---- */

/**
 * ext_set_state() - make the extents in [*start, end) unwritten or written, as far as credits go
 * The extent status follows. *start moves past what was done.
 * Return: 0 all done; 1 more credits are needed; negative errno
 */
int ext_set_state(struct handle *h, struct inode *inode, lblk_t *start, uint64_t end, bool unwritten);

/* ---- extent_remove.c ---- */

/**
 * ext_remove() - free what is mapped in [start, *end), from the right, as far as credits go
 * The tree is consistent after each step, *end says how far it came. The extent status becomes a hole.
 * Return: 0 all done; 1 more credits are needed; negative errno
 */
int ext_remove(struct handle *h, struct inode *inode, lblk_t start, uint64_t *end);

/* The same, but the blocks stay in use: they are another inode's now. */
int ext_detach(struct handle *h, struct inode *inode, lblk_t start, uint64_t *end);

/**
 * ext_shift() - move the extents of the leaf around *from by @delta blocks (collapse and insert range)
 * @from: left shift (delta < 0): the leaf where *from lies, extents from there on; right shift: the last leaf before *from
 * @stop: right shift only: extents that begin before it stay
 * Extents do not cross *from or @stop, and the room they move into is a hole.
 * Return: 1 there is another leaf, *from names it; 0 done; negative errno
 */
int ext_shift(struct handle *h, struct inode *inode, lblk_t *from, lblk_t stop, int64_t delta);
/* Splits the extent that covers both @lblk - 1 and @lblk, if any, in two. */
int ext_split_at(struct handle *h, struct inode *inode, lblk_t lblk);

#endif
