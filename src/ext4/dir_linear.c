/* SPDX-License-Identifier: MIT */
/* dir_linear.c - directories without an index: searched and filled block by block */
#include <errno.h>

#include "ext4/dir_private.h"

/*
 * Two hints in the inode keep this from being a full scan each time. A search starts at the block where the last
 * one ended well (dir_start_lookup): names are often asked for in the order they lie in. A new entry goes to
 * dir_insert_hint or behind: the blocks before it had no room when they were last tried, and a removal lowers the hint.
 */

static uint32_t lookup_start(const struct inode *dir, lblk_t blocks)
{
	uint32_t start = __atomic_load_n(&dir->dir_start_lookup, __ATOMIC_RELAXED);

	return start < blocks ? start : 0;
}

/* Blocks [start, end). */
static int find_between(struct inode *dir, const struct name *name, lblk_t start, lblk_t end, struct dir_pos *pos)
{
	for (lblk_t lblk = start; lblk < end;) {
		int64_t hole;
		int err;

		if ((lblk - start) % DIR_READAHEAD_BLKS == 0)
			dir_block_readahead(dir, lblk, min_of(end - lblk, DIR_READAHEAD_BLKS));
		err = dir_block_read(dir, lblk, DIR_BLOCK_ANY, &pos->bh);
		if (err)
			return err;
		if (!pos->bh) {
			hole = dir_hole_len(dir, lblk, end);
			if (hole < 0)
				return (int)hole;
			lblk += (lblk_t)hole;
			continue;
		}
		pos->lblk = lblk;
		err = dir_block_find(dir, name, pos);
		if (!err)
			return 0;
		dir_pos_put(pos);
		if (err != -ENOENT)
			return err;
		lblk++;
	}
	return -ENOENT;
}

int dir_linear_find(struct inode *dir, const struct name *name, struct dir_pos *pos_out)
{
	lblk_t blocks = dir_blocks(dir), start = lookup_start(dir, blocks);
	int err = find_between(dir, name, start, blocks, pos_out);

	if (err == -ENOENT)
		err = find_between(dir, name, 0, start, pos_out);
	if (!err)
		__atomic_store_n(&dir->dir_start_lookup, pos_out->lblk, __ATOMIC_RELAXED);
	return err;
}

/* The first room in blocks from the insertion hint on. */
static int find_room(struct inode *dir, uint32_t need_bytes, struct dir_pos *pos)
{
	lblk_t end = dir_blocks(dir);

	for (lblk_t lblk = dir->dir_insert_hint; lblk < end;) {
		int64_t hole;
		int err = dir_block_read(dir, lblk, DIR_BLOCK_ANY, &pos->bh);

		if (err)
			return err;
		if (!pos->bh) {
			hole = dir_hole_len(dir, lblk, end);
			if (hole < 0)
				return (int)hole;
			lblk += (lblk_t)hole;
			continue;
		}
		pos->lblk = lblk;
		err = dir_block_find_room(dir, need_bytes, pos);
		if (!err) {
			dir->dir_insert_hint = lblk;
			return 0;
		}
		dir_pos_put(pos);
		if (err != -ENOSPC)
			return err;
		lblk++;
	}
	return -ENOSPC;
}

static int reserve_in_new_block(struct handle *h, struct inode *dir, struct dir_pos *pos)
{
	int err = dir_block_append(h, dir, &pos->lblk, &pos->bh);

	if (err)
		return err;
	dir_leaf_init(dir->fs, pos->bh);
	err = dir_leaf_dirty(h, dir, pos->bh);
	if (err) {
		dir_pos_put(pos);
		return err;
	}
	pos->off = 0;
	dir->dir_insert_hint = pos->lblk;
	return 0;
}

int dir_linear_reserve(struct handle *h, struct inode *dir, const struct name *name, struct dir_pos *pos_out)
{
	int err = find_room(dir, dir_rec_bytes(name->len), pos_out);

	if (!err) {
		err = journal_get_write_access(h, pos_out->bh);
		if (err)
			dir_pos_put(pos_out);
		return err;
	}
	if (err != -ENOSPC)
		return err;
	if (dir_blocks(dir) == 1 && dir_index_is_wanted(dir)) {
		err = dir_index_create(h, dir);
		return err ? err : dir_index_reserve(h, dir, name, pos_out);
	}
	return reserve_in_new_block(h, dir, pos_out);
}
