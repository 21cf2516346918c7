/* SPDX-License-Identifier: MIT */
/*
 * indirect.c - ext2's block maps: twelve direct pointers, and trees of one, two and three levels of pointer blocks
 *
 * A pointer of 0 is a hole, at every level. There is no unwritten state and no checksum. A pointer block is checked once
 * per read: every pointer must lead to a block that may hold data.
 *
 * Locks: map_sem, shared to read, exclusive to change.
 */
#include <errno.h>
#include <string.h>

#include "ext4/balloc.h"
#include "ext4/map_private.h"

#define IND_DIRECT 12u
#define IND_LEVELS 4u

static uint32_t ptrs_per_block(const struct ext4_fs *fs)
{
	return fs->block_bytes / (uint32_t)sizeof(le32);
}

/* File blocks below one pointer at @height (0: a data block). */
static uint64_t span(const struct ext4_fs *fs, unsigned height)
{
	uint64_t blks = 1;

	while (height--)
		blks *= ptrs_per_block(fs);
	return blks;
}

/* First file block of the tree at i_block[12 + height - 1]. */
static uint64_t tree_base(const struct ext4_fs *fs, unsigned height)
{
	uint64_t base = IND_DIRECT;
	unsigned i;

	for (i = 1; i < height; i++)
		base += span(fs, i);
	return base;
}

uint64_t ind_max_lblk(const struct ext4_fs *fs)
{
	return min_of(tree_base(fs, 4), (uint64_t)LBLK_END);
}

/* The way from i_block to the pointer of one block. */
struct ind_path {
	unsigned levels;                      /* pointers on the way, the data block's included */
	uint32_t off[IND_LEVELS];             /* of each pointer in its array */
	struct buffer_head *bh[IND_LEVELS];   /* whose array; [0] is i_block: NULL */
	unsigned found;                       /* pointers that are there: levels, or the first that is 0 */
	le32 *slots[IND_LEVELS];              /* arrays of levels 0 to min(found, levels - 1) */
};

static void path_locate(const struct ext4_fs *fs, lblk_t lblk, struct ind_path *path)
{
	uint64_t rest = lblk;
	unsigned height, i;

	memset(path, 0, sizeof(*path));
	if (lblk < IND_DIRECT) {
		path->levels = 1;
		path->off[0] = lblk;
		return;
	}
	rest -= IND_DIRECT;
	for (height = 1; rest >= span(fs, height); height++)
		rest -= span(fs, height);
	path->levels = height + 1;
	path->off[0] = IND_DIRECT + height - 1;
	for (i = 1; i <= height; i++)
		path->off[i] = (uint32_t)(rest / span(fs, height - i) % ptrs_per_block(fs));
}

/* Reads a pointer block and checks its pointers. *bh_out is untouched after an error. */
static int block_read_checked(struct inode *inode, fsblk_t blk, struct buffer_head **bh_out)
{
	const struct ext4_fs *fs = inode->fs;
	struct buffer_head *bh;
	const le32 *p;
	uint32_t i;
	int err;

	if (!fs_data_blocks_valid(fs, blk, 1))
		return INODE_ERROR(inode, -EUCLEAN, blk, "indirect block is metadata or outside the file system");
	err = buffer_read(fs->bc, blk, &bh);
	if (err)
		return err;
	p = (const le32 *)bh->data;
	for (i = 0; !buffer_test(bh, BH_VERIFIED) && i < ptrs_per_block(fs); i++) {
		fsblk_t ptr = le32_get(p[i]);

		if (ptr && !fs_data_blocks_valid(fs, ptr, 1)) {
			buffer_put(bh);
			return INODE_ERROR(inode, -EUCLEAN, blk, "indirect block: pointer %u leads to block %llu", i,
					   (unsigned long long)ptr);
		}
	}
	buffer_set(bh, BH_VERIFIED);
	*bh_out = bh;
	return 0;
}

static void path_put(struct ind_path *path)
{
	unsigned i;

	for (i = 1; i < IND_LEVELS; i++)
		buffer_put(path->bh[i]);
}

/* Walks as far as there are pointers. path_put() it, also after an error. */
static int path_find(struct inode *inode, lblk_t lblk, struct ind_path *path)
{
	unsigned i;
	int err;

	path_locate(inode->fs, lblk, path);
	path->slots[0] = inode->i_block;
	for (i = 0; i < path->levels; i++) {
		fsblk_t blk = le32_get(path->slots[i][path->off[i]]);

		if (!blk)
			break;
		if (i + 1 == path->levels) {
			if (!fs_data_blocks_valid(inode->fs, blk, 1))
				return INODE_ERROR(inode, -EUCLEAN, blk, "block %u is mapped to metadata or outside", lblk);
		} else {
			err = block_read_checked(inode, blk, &path->bh[i + 1]);
			if (err)
				return err;
			path->slots[i + 1] = (le32 *)path->bh[i + 1]->data;
		}
	}
	path->found = i;
	return 0;
}

/* Entries of the array at the last level. */
static uint32_t leaf_count(const struct ext4_fs *fs, const struct ind_path *path)
{
	return path->levels == 1 ? IND_DIRECT : ptrs_per_block(fs);
}

/* Could slot @i + 1 continue slot @i in one run? */
static bool slots_join(const struct ext4_fs *fs, const le32 *slots, uint32_t i)
{
	uint32_t a = le32_get(slots[i]), b = le32_get(slots[i + 1]);

	if (!a || !b)
		return !a && !b;
	return b == a + 1 && fs_data_blocks_valid(fs, b, 1);
}

/* The run of like slots around the one looked for. */
static void leaf_run(const struct ext4_fs *fs, const struct ind_path *path, lblk_t lblk, struct ext_extent *out)
{
	const le32 *slots = path->slots[path->levels - 1];
	uint32_t at = path->off[path->levels - 1], first = at, last = at;

	while (first > 0 && slots_join(fs, slots, first - 1))
		first--;
	while (last + 1 < leaf_count(fs, path) && slots_join(fs, slots, last))
		last++;
	out->lblk = lblk - (at - first);
	out->len = last - first + 1;
	out->pblk = le32_get(slots[first]);
}

int ind_lookup(struct inode *inode, lblk_t lblk, struct ext_extent *out)
{
	const struct ext4_fs *fs = inode->fs;
	uint64_t start, blks;
	struct ind_path path;
	int err;

	memset(out, 0, sizeof(*out));
	if (lblk >= ind_max_lblk(fs)) {
		out->lblk = (lblk_t)ind_max_lblk(fs);
		out->len = LBLK_END - out->lblk;
		return 0;
	}
	err = path_find(inode, lblk, &path);
	if (err)
		goto put;
	if (path.found + 1 >= path.levels) {
		leaf_run(fs, &path, lblk, out);
		err = out->pblk != 0;
	} else { /* a whole subtree is missing */
		blks = span(fs, path.levels - 1 - path.found);
		start = tree_base(fs, path.levels - 1);
		start += (lblk - start) / blks * blks;
		out->lblk = (lblk_t)start;
		out->len = (uint32_t)(min_of(start + blks, (uint64_t)LBLK_END) - start);
	}
put:
	path_put(&path);
	return err;
}

/* ---- allocation ---- */

/* Near the block before in the file, else near the pointer block. */
static fsblk_t alloc_goal(const struct inode *inode, const struct ind_path *path)
{
	unsigned level = min_of(path->found, path->levels - 1);
	const le32 *slots = path->slots[level];
	uint32_t at = path->off[level];

	if (path->found + 1 == path->levels || path->levels == 1) {
		while (at-- > 0) {
			if (le32_get(slots[at]))
				return (fsblk_t)le32_get(slots[at]) + (path->off[level] - at);
		}
	}
	return path->bh[level] ? path->bh[level]->blk + 1 : balloc_inode_goal(inode);
}

/* Free slots from the one looked for on, at most @max. */
static uint32_t alloc_room(const struct ext4_fs *fs, const struct ind_path *path, uint32_t max)
{
	uint32_t at = path->off[path->levels - 1], room = leaf_count(fs, path) - at, n = 1;

	room = min_of(room, max);
	if (path->found + 1 < path->levels)
		return room;
	while (n < room && !le32_get(path->slots[path->levels - 1][at + n]))
		n++;
	return n;
}

/* New pointer blocks for the levels that are missing: path->bh[found + 1 ...], each pointing to the next. */
static int branch_alloc(struct handle *h, struct inode *inode, struct ind_path *path, fsblk_t goal)
{
	unsigned i;
	int err;

	for (i = path->found + 1; i < path->levels; i++) {
		err = map_tree_block_alloc(h, inode, goal, &path->bh[i]);
		if (err)
			return err;
		if (path->bh[i]->blk > UINT32_MAX)
			return -ENOSPC;
		memset(path->bh[i]->data, 0, inode->fs->block_bytes);
		buffer_set(path->bh[i], BH_UPTODATE | BH_VERIFIED);
		path->slots[i] = (le32 *)path->bh[i]->data;
		if (i > path->found + 1)
			path->slots[i - 1][path->off[i - 1]] = le32_make((uint32_t)path->bh[i]->blk);
		goal = path->bh[i]->blk + 1;
	}
	return 0;
}

static void branch_free(struct handle *h, struct inode *inode, struct ind_path *path)
{
	unsigned i;

	for (i = path->found + 1; i < path->levels && path->bh[i]; i++) {
		map_tree_block_free(h, inode, path->bh[i]);
		path->bh[i] = NULL;
	}
}

/* Enters the data blocks and hangs the new branch into the tree. */
static int branch_link(struct handle *h, struct ind_path *path, const struct map_alloc *a)
{
	unsigned leaf = path->levels - 1, i;
	uint32_t n;
	int err = 0;

	for (n = 0; n < a->got; n++)
		path->slots[leaf][path->off[leaf] + n] = le32_make((uint32_t)a->blk + n);
	for (i = path->found + 1; i < path->levels && !err; i++)
		err = journal_dirty_metadata(h, path->bh[i]);
	if (path->found < leaf)
		path->slots[path->found][path->off[path->found]] = le32_make((uint32_t)path->bh[path->found + 1]->blk);
	if (!err && path->bh[path->found])
		err = journal_dirty_metadata(h, path->bh[path->found]);
	return err;
}

int ind_alloc(struct handle *h, struct inode *inode, struct map_alloc *a)
{
	struct ind_path path;
	fsblk_t goal;
	int err;

	if (a->lblk >= ind_max_lblk(inode->fs))
		return -EFBIG;
	err = path_find(inode, a->lblk, &path);
	if (!err && path.found == path.levels)
		err = INODE_ERROR(inode, -EUCLEAN, 0, "block %u is mapped already", a->lblk);
	if (!err && path.bh[path.found])
		err = journal_get_write_access(h, path.bh[path.found]);
	if (err)
		goto put;
	goal = alloc_goal(inode, &path);
	a->len = alloc_room(inode->fs, &path, a->len);
	err = branch_alloc(h, inode, &path, goal);
	if (err)
		goto free_branch;
	if (path.found + 1 < path.levels)
		goal = path.bh[path.levels - 1]->blk + 1;
	err = map_data_alloc(h, inode, goal, a);
	if (!err && a->blk + a->got - 1 > UINT32_MAX) {
		map_data_unalloc(h, inode, a); /* pointers have 32 bits */
		err = -ENOSPC;
	}
	if (err)
		goto free_branch;
	err = branch_link(h, &path, a);
	goto put;
free_branch:
	branch_free(h, inode, &path);
put:
	path_put(&path);
	return err;
}

/* ---- removal, from the right to the left ---- */

/* What the steps of one removal share. */
struct ind_removal {
	struct handle *h;
	struct inode *inode;
	lblk_t start;
	uint64_t *end;
};

static int array_remove(const struct ind_removal *r, struct buffer_head *bh, le32 *slots, uint32_t count,
			unsigned height, uint64_t base);

/* Frees slots [first, last] of a leaf array, a run on disk. */
static int run_remove(const struct ind_removal *r, struct buffer_head *bh, le32 *slots, uint32_t first, uint32_t last,
		      uint64_t base)
{
	uint32_t len = last - first + 1;
	fsblk_t blk = le32_get(slots[first]);
	int err;

	err = map_free_credits(r->h, r->inode, len, 1);
	if (!err && bh)
		err = journal_get_write_access(r->h, bh);
	if (err)
		return err;
	memset(&slots[first], 0, len * sizeof(*slots));
	if (bh)
		err = journal_dirty_metadata(r->h, bh);
	if (err)
		return err;
	es_set(r->inode, &(struct es_extent){ (lblk_t)(base + first), len, 0, ES_HOLE });
	return map_data_free(r->h, r->inode, blk, len);
}

/* Data pointers of one array that lie in the range. */
static int leaf_remove(const struct ind_removal *r, struct buffer_head *bh, le32 *slots, uint32_t count, uint64_t base)
{
	uint32_t low = r->start > base ? (uint32_t)(r->start - base) : 0, max = map_free_max(r->inode);
	uint32_t last, first;
	int err;

	while (*r->end > base + low) {
		last = (uint32_t)min_of(*r->end - base, (uint64_t)count) - 1;
		first = last;
		if (le32_get(slots[last])) {
			while (first > low && last - first + 1 < max &&
			       le32_get(slots[first - 1]) + 1 == le32_get(slots[first]) && le32_get(slots[first - 1]))
				first--;
			err = run_remove(r, bh, slots, first, last, base);
			if (err)
				return err;
		}
		*r->end = base + first;
	}
	return 0;
}

static bool block_is_empty(const struct ext4_fs *fs, const struct buffer_head *bh)
{
	const le32 *p = (const le32 *)bh->data;
	uint32_t i;

	for (i = 0; i < ptrs_per_block(fs); i++) {
		if (p[i].raw)
			return false;
	}
	return true;
}

/* What hangs below the pointer @slot of @parent (NULL: i_block), whose pointer block has @height >= 1. */
static int branch_remove(const struct ind_removal *r, struct buffer_head *parent, le32 *slot, unsigned height,
			 uint64_t base)
{
	struct buffer_head *bh;
	int err;

	if (!le32_get(*slot)) {
		*r->end = max_of(base, (uint64_t)r->start);
		return 0;
	}
	err = block_read_checked(r->inode, le32_get(*slot), &bh);
	if (err)
		return err;
	err = array_remove(r, bh, (le32 *)bh->data, ptrs_per_block(r->inode->fs), height - 1, base);
	if (err || !block_is_empty(r->inode->fs, bh))
		goto put;
	err = map_free_credits(r->h, r->inode, 0, 1);
	if (!err && parent)
		err = journal_get_write_access(r->h, parent);
	if (err) {
		if (err > 0)
			*r->end = max_of(base, (uint64_t)r->start) + 1; /* come back for the empty block */
		goto put;
	}
	*slot = le32_make(0);
	if (parent)
		err = journal_dirty_metadata(r->h, parent);
	if (!err)
		return map_tree_block_free(r->h, r->inode, bh);
put:
	buffer_put(bh);
	return err;
}

/* The pointers of one array, which begins at file block @base, right to left. */
static int array_remove(const struct ind_removal *r, struct buffer_head *bh, le32 *slots, uint32_t count,
			unsigned height, uint64_t base)
{
	uint64_t unit = span(r->inode->fs, height), sub;
	uint32_t i;
	int err;

	if (height == 0)
		return leaf_remove(r, bh, slots, count, base);
	while (*r->end > max_of(base, (uint64_t)r->start)) {
		i = (uint32_t)min_of((*r->end - 1 - base) / unit, (uint64_t)count - 1);
		sub = base + i * unit;
		*r->end = min_of(*r->end, sub + unit);
		err = branch_remove(r, bh, &slots[i], height, sub);
		if (err)
			return err;
		*r->end = max_of(sub, (uint64_t)r->start);
	}
	return 0;
}

int ind_remove(struct handle *h, struct inode *inode, lblk_t start, uint64_t *end)
{
	const struct ind_removal r = { h, inode, start, end };
	unsigned height;
	int err;

	*end = min_of(*end, ind_max_lblk(inode->fs));
	*end = max_of(*end, (uint64_t)start);
	for (height = 3; height >= 1; height--) {
		uint64_t base = tree_base(inode->fs, height);

		if (*end <= max_of(base, (uint64_t)start))
			continue;
		err = branch_remove(&r, NULL, &inode->i_block[IND_DIRECT + height - 1], height, base);
		if (err)
			return err;
		*end = max_of(base, (uint64_t)start);
	}
	return *end > start ? leaf_remove(&r, NULL, inode->i_block, IND_DIRECT, 0) : 0;
}
