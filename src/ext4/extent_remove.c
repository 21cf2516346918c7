/* SPDX-License-Identifier: MIT */
/*
 * extent_remove.c - freeing ranges, and shifting what is right of them
 *
 * Removal goes from the right to the left, an extent at a time, and stops before any that the handle has no credits
 * for: the caller then writes the inode, restarts the handle without map_sem, and goes on. At each such point the tree is
 * sound and what was taken off it is free, so a crash leaves a file that the orphan list truncates further.
 */
#include <errno.h>
#include <string.h>

#include "ext4/extent_private.h"
#include "ext4/map_private.h"

/* Takes the empty node at @level off the tree, and those above it that become empty. */
static int node_remove(struct handle *h, struct ext_path *path, unsigned level)
{
	struct inode *inode = path->inode;
	struct ext_level *parent;
	int err = 0;

	for (; level > 0 && !err; level--) {
		parent = &path->level[level - 1];
		err = ext_level_access(h, parent);
		if (err)
			return err;
		ext_close(parent, parent->pos, 1);
		err = map_tree_block_free(h, inode, path->level[level].bh);
		path->level[level].bh = NULL;
		if (err)
			return err;
		if (ext_count(parent) > 0) {
			err = ext_level_dirty(h, inode, parent);
			if (!err && parent->pos == 0)
				err = ext_fix_keys(h, path, level - 1);
			return err;
		}
	}
	ext_root_set_depth(&path->level[0], 0);
	return err;
}

/* Takes [start, end), all of it or one side, off the extent at pos. */
static int trim_entry(struct handle *h, struct ext_path *path, struct ext_extent *e, lblk_t start, uint64_t end)
{
	struct ext_level *leaf = ext_leaf(path);
	int err;

	err = ext_level_access(h, leaf);
	if (err)
		return err;
	if (start == e->lblk && end == ext_end(e)) {
		ext_close(leaf, leaf->pos, 1);
		if (ext_count(leaf) == 0)
			return node_remove(h, path, path->depth);
	} else if (start == e->lblk) {
		e->pblk += end - start;
		e->len -= (uint32_t)(end - start);
		e->lblk = (lblk_t)end;
		ext_set(leaf, leaf->pos, e);
	} else {
		e->len = start - e->lblk;
		ext_set(leaf, leaf->pos, e);
	}
	err = ext_level_dirty(h, path->inode, leaf);
	return err ? err : ext_fix_keys(h, path, path->depth);
}

/* Cuts the extent at pos in two at @lblk, in its middle; @path then leads to the first part. */
static int split_entry(struct handle *h, struct ext_path *path, struct ext_extent *e, lblk_t lblk)
{
	struct ext_extent right = *e;
	struct ext_level *leaf;
	int err;

	err = ext_make_room(h, path->inode, path, e->lblk, 1);
	if (!err)
		err = ext_level_access(h, ext_leaf(path));
	if (err)
		return err;
	leaf = ext_leaf(path);
	right.pblk += lblk - e->lblk;
	right.len = (uint32_t)(ext_end(e) - lblk);
	right.lblk = lblk;
	e->len = lblk - e->lblk;
	ext_set(leaf, leaf->pos, e);
	ext_open(leaf, leaf->pos + 1);
	ext_set(leaf, leaf->pos + 1, &right);
	return ext_level_dirty(h, path->inode, leaf);
}

/* Takes [start, end) of the extent @e at pos off the map, and frees it or not. */
static int remove_part(struct handle *h, struct ext_path *path, struct ext_extent *e, lblk_t start, uint64_t end, bool frees)
{
	struct inode *inode = path->inode;
	fsblk_t blk = e->pblk + (start - e->lblk);
	int err = 0;

	if (start > e->lblk && end < ext_end(e))
		err = split_entry(h, path, e, (lblk_t)end);
	if (!err)
		err = trim_entry(h, path, e, start, end);
	if (err)
		return err;
	es_set(inode, &(struct es_extent){ start, (uint32_t)(end - start), 0, ES_HOLE });
	if (frees)
		return map_data_free(h, inode, blk, (uint32_t)(end - start));
	inode_add_blocks(inode, -(int64_t)(end - start));
	return 0;
}

/* One extent's part of [start, *end), the rightmost. As ext_remove(); *end becomes @start when nothing is left. */
static int remove_step(struct handle *h, struct inode *inode, lblk_t start, uint64_t *end, bool frees)
{
	struct ext_path path;
	struct ext_level *leaf;
	struct ext_extent e;
	uint64_t stop;
	int err;

	err = ext_path_find(inode, (lblk_t)(*end - 1), &path);
	if (err)
		goto put;
	leaf = ext_leaf(&path);
	if (leaf->pos < 0) { /* a corrupt tree may have a gap between a leaf and its index: go on before the index */
		stop = path.depth ? ext_key(leaf - 1, (leaf - 1)->pos) : 0;
		stop = min_of(stop, *end - 1);
		*end = max_of((uint64_t)start, stop);
		goto put;
	}
	ext_get(leaf, leaf->pos, &e);
	stop = min_of(*end, ext_end(&e));
	if (stop <= start) {
		*end = start;
		goto put;
	}
	start = max_of(start, e.lblk);
	if (stop - start > map_free_max(inode))
		start = (lblk_t)(stop - map_free_max(inode));
	err = map_free_credits(h, inode, (uint32_t)(stop - start), path.depth + 1);
	if (err)
		goto put;
	*end = start;
	err = remove_part(h, &path, &e, start, stop, frees);
put:
	ext_path_put(&path);
	return err;
}

static int remove_steps(struct handle *h, struct inode *inode, lblk_t start, uint64_t *end, bool frees)
{
	int err;

	while (*end > start) {
		err = remove_step(h, inode, start, end, frees);
		if (err)
			return err;
	}
	return ext_collapse(h, inode);
}

int ext_remove(struct handle *h, struct inode *inode, lblk_t start, uint64_t *end)
{
	return remove_steps(h, inode, start, end, true);
}

int ext_detach(struct handle *h, struct inode *inode, lblk_t start, uint64_t *end)
{
	return remove_steps(h, inode, start, end, false);
}

int ext_split_at(struct handle *h, struct inode *inode, lblk_t lblk)
{
	struct ext_path path;
	struct ext_level *leaf;
	struct ext_extent e;
	int err;

	err = ext_path_find(inode, lblk, &path);
	leaf = ext_leaf(&path);
	if (!err && leaf->pos >= 0) {
		ext_get(leaf, leaf->pos, &e);
		if (e.lblk < lblk && ext_end(&e) > lblk)
			err = split_entry(h, &path, &e, lblk);
	}
	ext_path_put(&path);
	return err;
}

/* Adds @delta to the blocks of entries [first, count) of the leaf, and to the indexes above it. */
static int leaf_shift(struct handle *h, struct ext_path *path, int first, int64_t delta)
{
	struct ext_level *leaf = ext_leaf(path);
	struct ext_extent e;
	int i, err;

	err = ext_level_access(h, leaf);
	if (err)
		return err;
	for (i = first; i < ext_count(leaf); i++) {
		ext_get(leaf, i, &e);
		e.lblk = (lblk_t)(e.lblk + delta);
		ext_set(leaf, i, &e);
	}
	err = ext_level_dirty(h, path->inode, leaf);
	return err || first > 0 ? err : ext_fix_keys(h, path, path->depth);
}

/* Extents of the leaf from *from on go left. */
static int shift_left(struct handle *h, struct ext_path *path, lblk_t *from, int64_t delta)
{
	struct ext_level *leaf = ext_leaf(path);
	uint64_t next = leaf->end;
	int first = leaf->pos, err = 0;

	if (first < 0 || ext_key(leaf, first) < *from)
		first++;
	if (first < ext_count(leaf))
		err = leaf_shift(h, path, first, delta);
	*from = (lblk_t)next;
	return err ? err : next < LBLK_END;
}

/* Extents of the last leaf before *from that begin at or after @stop go right. */
static int shift_right(struct handle *h, struct ext_path *path, lblk_t *from, lblk_t stop, int64_t delta)
{
	struct ext_level *leaf = ext_leaf(path);
	int first = leaf->pos, err;

	if (first < 0 || ext_key(leaf, first) < stop)
		return 0;
	while (first > 0 && ext_key(leaf, first - 1) >= stop)
		first--;
	*from = ext_key(leaf, first);
	err = leaf_shift(h, path, first, delta);
	return err ? err : first == 0 && *from > stop;
}

int ext_shift(struct handle *h, struct inode *inode, lblk_t *from, lblk_t stop, int64_t delta)
{
	struct ext_path path;
	int err;

	err = ext_path_find(inode, delta < 0 ? *from : *from - 1, &path);
	if (!err)
		err = delta < 0 ? shift_left(h, &path, from, delta) : shift_right(h, &path, from, stop, delta);
	ext_path_put(&path);
	return err;
}
