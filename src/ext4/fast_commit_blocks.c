/* SPDX-License-Identifier: MIT */
/* fast_commit_blocks.c - which blocks change hands, and whether they may (K3) */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "ext4/fast_commit_private.h"
#include "ext4/group.h"
#include "ext4/map_private.h"

static int fc_owner_error(struct fast_commit *fc, const struct fc_inode *n, fsblk_t blk, const char *what)
{
	return FS_ERROR(fc->fs, -EUCLEAN, "fast commits: block %llu of inode #%u is %s", (unsigned long long)blk, n->ino, what);
}

/* What the base inode gives up. Only a file's data is not revoked, so only that may be data of another at once. */
static int removed_add(const struct fc_inode *n, struct fc_runs *removed)
{
	static const struct fc_ranges none;
	const struct fc_ranges *now = n->inode == n->base ? &n->now : &none;
	struct ext_extent was, is;
	uint64_t lblk = 0;
	int err = 0;

	if (!n->base || !S_ISREG(n->base->mode))
		return 0;
	while (!err && fc_ranges_next_diff(&n->old, now, &lblk, &was, &is))
		if (was.len && (!is.len || is.pblk != was.pblk))
			err = fc_runs_add(removed, was.pblk, was.len);
	return err;
}

/* An indirect map has no unwritten state, 32-bit pointers, and an end. */
static bool fits_map(const struct fc_inode *n, const struct ext_extent *e)
{
	return inode_has_extents(n->inode) ||
	       (!e->unwritten && e->pblk + e->len - 1 <= UINT32_MAX && ext_end(e) <= ind_max_lblk(n->inode->fs));
}

static int owned_add(struct fast_commit *fc, const struct fc_inode *n)
{
	int err = 0;

	for (size_t i = 0; n->inode && !err && i < n->now.count; i++) {
		const struct ext_extent *e = &n->now.at[i];

		if (!fits_map(n, e))
			return fc_owner_error(fc, n, e->pblk, "out of place in an indirect map");
		err = fc_runs_add(&fc->owned, e->pblk, e->len);
	}
	return err;
}

/* Is any block of [blk, blk + len), which lies in one group, in use? */
static int group_run_in_use(struct ext4_fs *fs, struct ext4_group *g, fsblk_t blk, uint32_t len)
{
	uint32_t start = (uint32_t)(blk - group_first_block(fs, g->group));
	struct buffer_head *bh;
	int err = group_block_bitmap(fs, g, &bh), used = 0;

	if (err)
		return err;
	for (uint32_t i = start; i < start + len && !used; i++)
		used = bh->data[i / 8] >> i % 8 & 1;
	buffer_put(bh);
	return used;
}

static int claim_add(struct fast_commit *fc, const struct fc_inode *n, fsblk_t blk, uint32_t len)
{
	struct ext4_fs *fs = fc->fs;

	while (len) {
		struct ext4_group *g = &fs->groups[fs_group_of_block(fs, blk)];
		fsblk_t end = group_first_block(fs, g->group) + group_block_count(fs, g->group);
		uint32_t part = (uint32_t)min_of(end - blk, (uint64_t)len);
		int err = group_run_in_use(fs, g, blk, part);

		if (err > 0)
			return fc_owner_error(fc, n, blk, "in use by others");
		if (!err)
			err = fc_runs_add(&fc->claimed, blk, part);
		if (err)
			return err;
		blk += part;
		len -= part;
	}
	return 0;
}

/* What @n maps and did not: from those that gave blocks up, or free. */
static int added_check(struct fast_commit *fc, const struct fc_inode *n, const struct fc_runs *removed)
{
	static const struct fc_ranges none;
	const struct fc_ranges *old = n->inode == n->base ? &n->old : &none;
	struct ext_extent was, is;
	uint64_t lblk = 0;
	int err = 0;

	while (n->inode && !err && fc_ranges_next_diff(old, &n->now, &lblk, &was, &is)) {
		if (was.len && is.len && was.pblk == is.pblk)
			continue;
		while (!err && is.len) {
			bool given;
			uint32_t len = fc_runs_piece(removed, is.pblk, is.len, &given);

			if (!given)
				err = claim_add(fc, n, is.pblk, len);
			is.pblk += len;
			is.len -= len;
		}
	}
	return err;
}

int fc_blocks_check(struct fast_commit *fc)
{
	struct fc_runs removed = { 0 };
	int err = 0;

	for (size_t i = 0; !err && i < fc->inode_count; i++) {
		err = removed_add(fc->inodes[i], &removed);
		if (!err)
			err = owned_add(fc, fc->inodes[i]);
	}
	if (!err && (!fc_runs_sort(&removed) || !fc_runs_sort(&fc->owned)))
		err = FS_ERROR(fc->fs, -EUCLEAN, "fast commits: two files share blocks");
	for (size_t i = 0; !err && i < fc->inode_count; i++)
		err = added_check(fc, fc->inodes[i], &removed);
	free(removed.at);
	return err;
}
