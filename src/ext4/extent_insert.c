/* SPDX-License-Identifier: MIT */
/*
 * extent_insert.c - room for entries: split, grow, collapse; and inserting with merge
 *
 * A node is split only when its parent has room, so that each step leaves a sound tree: make_room() finds the lowest
 * full node under a node with room, splits it (or puts a level under a full root) and looks again. A split in the middle
 * leaves both halves half full; one at the end moves only the last entry, so that files written in order get full nodes.
 */
#include <errno.h>
#include <string.h>

#include "ext4/extent_private.h"
#include "ext4/map_private.h"

static void index_set(struct ext_level *l, int pos, lblk_t key, fsblk_t child)
{
	struct ext4_extent_idx *idx = &ext_indexes(l)[pos];

	idx->ei_block = le32_make(key);
	idx->ei_leaf_lo = le32_make((uint32_t)child);
	idx->ei_leaf_hi = le16_make((uint16_t)(child >> 32));
	idx->ei_unused = le16_make(0);
}

/* A new node of @depth that takes @count entries over; not yet in the tree. */
static int node_create(struct handle *h, struct inode *inode, fsblk_t goal, unsigned depth,
		       const struct ext4_extent *entries, int count, struct buffer_head **bh_out)
{
	struct ext_level l = { .max = ext_block_capacity(inode->fs) };
	int err;

	err = map_tree_block_alloc(h, inode, goal, &l.bh);
	if (err)
		return err;
	memset(l.bh->data, 0, inode->fs->block_bytes);
	l.hdr = (struct ext4_extent_header *)l.bh->data;
	l.hdr->eh_magic = le16_make(EXT4_EXT_MAGIC);
	l.hdr->eh_max = le16_make((uint16_t)l.max);
	l.hdr->eh_depth = le16_make((uint16_t)depth);
	l.hdr->eh_entries = le16_make((uint16_t)count);
	memcpy(l.hdr + 1, entries, (size_t)count * sizeof(*entries));
	buffer_set(l.bh, BH_UPTODATE | BH_VERIFIED);
	err = ext_level_dirty(h, inode, &l);
	if (err) {
		map_tree_block_free(h, inode, l.bh);
		return err;
	}
	*bh_out = l.bh;
	return 0;
}

/* Puts a level under the root, which is full: its entries move to a new node. */
static int tree_grow(struct handle *h, struct ext_path *path)
{
	struct ext_level *root = &path->level[0];
	struct inode *inode = path->inode;
	lblk_t key = ext_key(root, 0);
	struct buffer_head *bh;
	fsblk_t goal = 0;
	int err;

	if (path->depth == EXT4_EXT_MAX_DEPTH)
		return -EFBIG;
	if (path->depth == 0) {
		struct ext_extent e;

		ext_get(root, 0, &e);
		goal = e.pblk;
	}
	err = node_create(h, inode, goal, path->depth, ext_entries(root), ext_count(root), &bh);
	if (err)
		return err;
	ext_root_set_depth(root, path->depth + 1);
	root->hdr->eh_entries = le16_make(1);
	index_set(root, 0, key, bh->blk);
	buffer_put(bh);
	return 0;
}

/* Splits the node at @level, whose parent has room. */
static int node_split(struct handle *h, struct ext_path *path, unsigned level)
{
	struct ext_level *l = &path->level[level], *parent = l - 1;
	struct inode *inode = path->inode;
	int count = ext_count(l), at = l->pos == count - 1 ? count - 1 : count / 2;
	lblk_t key = ext_key(l, at);
	struct buffer_head *bh;
	int err;

	err = ext_level_access(h, l);
	if (!err)
		err = ext_level_access(h, parent);
	if (!err)
		err = node_create(h, inode, l->bh->blk, path->depth - level, &ext_entries(l)[at], count - at, &bh);
	if (err)
		return err;
	l->hdr->eh_entries = le16_make((uint16_t)at);
	ext_open(parent, parent->pos + 1);
	index_set(parent, parent->pos + 1, key, bh->blk);
	buffer_put(bh);
	err = ext_level_dirty(h, inode, l);
	return err ? err : ext_level_dirty(h, inode, parent);
}

int ext_make_room(struct handle *h, struct inode *inode, struct ext_path *path, lblk_t lblk, uint32_t need)
{
	unsigned level;
	int err = 0;

	while (ext_room(ext_leaf(path)) < need) {
		for (level = path->depth; level > 0 && ext_room(&path->level[level - 1]) == 0; level--)
			;
		err = level > 0 ? node_split(h, path, level) : tree_grow(h, path);
		ext_path_put(path);
		if (!err)
			err = ext_path_find(inode, lblk, path);
		if (err)
			break;
	}
	return err;
}

/* Joins the entries at @pos and @pos + 1 if they fit. */
static bool leaf_join(struct ext_level *leaf, int pos)
{
	struct ext_extent a, b;

	if (pos < 0 || pos + 1 >= ext_count(leaf))
		return false;
	ext_get(leaf, pos, &a);
	ext_get(leaf, pos + 1, &b);
	if (!ext_can_merge(&a, &b))
		return false;
	a.len += b.len;
	ext_set(leaf, pos, &a);
	ext_close(leaf, pos + 1, 1);
	return true;
}

/* Adds @e to one of its neighbours in the leaf. Access was had. */
static bool leaf_merge(struct ext_level *leaf, const struct ext_extent *e)
{
	struct ext_extent n;

	if (leaf->pos >= 0) {
		ext_get(leaf, leaf->pos, &n);
		if (ext_can_merge(&n, e)) {
			n.len += e->len;
			ext_set(leaf, leaf->pos, &n);
			leaf_join(leaf, leaf->pos);
			return true;
		}
	}
	if (leaf->pos + 1 < ext_count(leaf)) {
		ext_get(leaf, leaf->pos + 1, &n);
		if (ext_can_merge(e, &n)) {
			n.lblk = e->lblk;
			n.pblk = e->pblk;
			n.len += e->len;
			ext_set(leaf, leaf->pos + 1, &n);
			return true;
		}
	}
	return false;
}

/* @e must lie in the hole that @path leads to. */
static int check_free(struct ext_path *path, const struct ext_extent *e)
{
	struct ext_level *leaf = ext_leaf(path);
	struct ext_extent n = { 0 };

	if (leaf->pos >= 0)
		ext_get(leaf, leaf->pos, &n);
	if (ext_end(&n) > e->lblk ||
	    ext_end(e) > (leaf->pos + 1 < ext_count(leaf) ? ext_key(leaf, leaf->pos + 1) : leaf->end))
		return INODE_ERROR(path->inode, -EUCLEAN, e->pblk, "new extent at block %u overlaps another", e->lblk);
	return 0;
}

int ext_insert(struct handle *h, struct inode *inode, const struct ext_extent *e)
{
	struct ext_path path;
	struct ext_level *leaf;
	int err;

	err = ext_path_find(inode, e->lblk, &path);
	if (!err)
		err = check_free(&path, e);
	if (!err)
		err = ext_level_access(h, ext_leaf(&path));
	if (err)
		goto put;
	if (!leaf_merge(ext_leaf(&path), e)) {
		err = ext_make_room(h, inode, &path, e->lblk, 1);
		if (!err)
			err = ext_level_access(h, ext_leaf(&path));
		if (err)
			goto put;
		leaf = ext_leaf(&path);
		ext_open(leaf, leaf->pos + 1);
		ext_set(leaf, leaf->pos + 1, e);
	}
	err = ext_level_dirty(h, inode, ext_leaf(&path));
	if (!err)
		err = ext_fix_keys(h, &path, path.depth);
put:
	ext_path_put(&path);
	return err;
}

int ext_collapse(struct handle *h, struct inode *inode)
{
	struct ext_path path;
	struct ext_level *root = &path.level[0], *child = &path.level[1];
	int err, n;

	for (;;) {
		err = ext_path_find(inode, 0, &path);
		if (err || path.depth == 0 || ext_count(root) != 1 || ext_count(child) > (int)root->max)
			break;
		if (map_free_credits(h, inode, 0, 1))
			break; /* a deeper tree than need be is no error */
		n = ext_count(child);
		memcpy(ext_entries(root), ext_entries(child), (size_t)n * sizeof(struct ext4_extent));
		root->hdr->eh_entries = le16_make((uint16_t)n);
		ext_root_set_depth(root, path.depth - 1);
		err = map_tree_block_free(h, inode, child->bh);
		child->bh = NULL;
		ext_path_put(&path);
		if (err)
			return err;
	}
	ext_path_put(&path);
	return err;
}
