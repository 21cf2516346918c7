/* SPDX-License-Identifier: MIT */
/* inode_table.c - where an inode lies in its table, and writing it there */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ext4/fs_private.h"
#include "ext4/group.h"
#include "ext4/inode_private.h"
#include "ext4/super.h"

/*
 * A table block that holds no live inode need not be read before the first is written to it: it is built of zeros. That
 * saves a read per block on new file systems and is required for tables that were never zeroed. Built blocks only
 * become visible under the buffer lock, and a live neighbour implies a set bit in the bitmap, which is set before
 * the neighbour's own first access to the block.
 */

struct slot {
	struct ext4_group *g;
	fsblk_t blk;
	uint32_t first_in_block; /* index in the group of the block's first inode */
	uint32_t index;          /* of the inode itself */
	uint32_t off;            /* bytes */
};

static int slot_find(struct ext4_fs *fs, ino_num ino, struct slot *slot)
{
	uint32_t per_block = fs->block_bytes / fs->inode_bytes;

	if (ino == 0 || ino > fs->inodes_count)
		return FS_ERROR(fs, -EUCLEAN, "inode number %u is out of range (there are %u)", ino, fs->inodes_count);
	slot->g = &fs->groups[fs_group_of_ino(fs, ino)];
	slot->index = (ino - 1) % fs->inodes_per_group;
	slot->first_in_block = round_down_to(slot->index, per_block);
	slot->off = (slot->index - slot->first_in_block) * fs->inode_bytes;
	slot->blk = slot->g->inode_table + slot->index / per_block;
	return 0;
}

/* Is every inode of the block free, but for the one at @slot if it is @is_new? */
static bool neighbours_are_free(struct ext4_fs *fs, const struct slot *slot, bool is_new)
{
	uint32_t per_block = fs->block_bytes / fs->inode_bytes;
	uint32_t end = min_of(slot->first_in_block + per_block, fs->inodes_per_group);
	struct buffer_head *bitmap;
	bool all_free = false;

	mutex_lock(&slot->g->lock);
	if (slot->first_in_block >= fs->inodes_per_group - slot->g->itable_unused) {
		all_free = true;
	} else if (is_new && (bitmap = buffer_find(fs->bc, slot->g->inode_bitmap))) {
		all_free = buffer_test(bitmap, BH_VERIFIED);
		for (uint32_t i = slot->first_in_block; all_free && i < end; i++)
			all_free = i == slot->index || !(bitmap->data[i / 8] & 1u << i % 8);
		buffer_put(bitmap);
	}
	mutex_unlock(&slot->g->lock);
	return all_free;
}

static int table_block_get(struct ext4_fs *fs, const struct slot *slot, bool is_new, struct buffer_head **bh_out)
{
	struct buffer_head *bh;
	int err;

	err = buffer_get(fs->bc, slot->blk, &bh);
	if (err)
		return err;
	if (!buffer_test(bh, BH_UPTODATE) && neighbours_are_free(fs, slot, is_new)) {
		buffer_lock(bh);
		if (!buffer_test(bh, BH_UPTODATE)) {
			memset(bh->data, 0, fs->block_bytes);
			buffer_set(bh, BH_UPTODATE);
		}
		buffer_unlock(bh);
	}
	if (!buffer_test(bh, BH_UPTODATE)) {
		buffer_put(bh);
		err = buffer_read(fs->bc, slot->blk, &bh);
		if (err)
			return err == -EIO ? FS_ERROR(fs, err, "cannot read block %" PRIu64 " of the inode table", slot->blk)
					   : err;
	}
	*bh_out = bh;
	return 0;
}

int inode_table_block(struct ext4_fs *fs, ino_num ino, struct buffer_head **bh_out, uint32_t *off_out)
{
	struct slot slot;
	int err;

	err = slot_find(fs, ino, &slot);
	if (!err)
		err = table_block_get(fs, &slot, false, bh_out);
	if (!err)
		*off_out = slot.off;
	return err;
}

int inode_raw_access(struct handle *h, struct inode *inode, struct buffer_head **bh_out, uint32_t *off_out)
{
	struct ext4_fs *fs = inode->fs;
	bool clear = inode_test(inode, INODE_NEW) && !inode_test(inode, INODE_RAW_CLEARED);
	struct buffer_head *bh;
	struct slot slot;
	int err;

	err = slot_find(fs, inode->ino, &slot);
	if (!err)
		err = table_block_get(fs, &slot, clear, &bh);
	if (err)
		return err;
	err = journal_get_write_access(h, bh);
	if (err) {
		buffer_put(bh);
		return err;
	}
	if (clear) {
		buffer_lock(bh);
		memset(bh->data + slot.off, 0, fs->inode_bytes);
		buffer_unlock(bh);
		inode_set(inode, INODE_RAW_CLEARED);
	}
	*bh_out = bh;
	*off_out = slot.off;
	return 0;
}

/* Sizes past 2 GiB need a feature that e2fsck and old kernels look for; mke2fs sets it nearly always. */
static int large_file_mark(struct handle *h, const struct inode *inode)
{
	if (likely(!S_ISREG(inode->mode) || inode->disksize_bytes <= INT32_MAX ||
		   fs_has_ro_compat(inode->fs, EXT4_FEATURE_RO_COMPAT_LARGE_FILE)))
		return 0;
	return super_set_ro_compat(h, inode->fs, EXT4_FEATURE_RO_COMPAT_LARGE_FILE);
}

/* The times go into the table now, so they are no longer owed. */
static int inode_pack(struct inode *inode, struct buffer_head *bh, uint32_t off)
{
	struct ext4_inode *raw = (struct ext4_inode *)(void *)(bh->data + off);
	int err;

	buffer_lock(bh);
	mutex_lock(&inode->raw_lock);
	inode_clear(inode, INODE_DIRTY_TIME);
	err = inode_raw_pack(inode, raw);
	if (!err)
		inode_raw_csum_set(inode, raw);
	mutex_unlock(&inode->raw_lock);
	buffer_unlock(bh);
	return err;
}

int inode_write(struct handle *h, struct inode *inode)
{
	bool lock_map = !rwsem_is_write_held(&inode->map_sem);
	struct buffer_head *bh;
	uint32_t off;
	int err;

	err = inode_raw_access(h, inode, &bh, &off);
	if (err)
		return err;
	if (lock_map)
		rwsem_read_lock(&inode->map_sem);
	err = large_file_mark(h, inode);
	if (!err)
		err = inode_pack(inode, bh, off);
	if (lock_map)
		rwsem_read_unlock(&inode->map_sem);
	if (!err)
		err = journal_dirty_metadata(h, bh);
	if (!err)
		atomic_store_explicit(&inode->sync_tid, h->tid, memory_order_release);
	buffer_put(bh);
	return err;
}

int inode_write_datasync(struct handle *h, struct inode *inode)
{
	int err = inode_write(h, inode);

	if (!err)
		atomic_store_explicit(&inode->datasync_tid, h->tid, memory_order_release);
	return err;
}

int inode_write_dtime(struct handle *h, struct inode *inode)
{
	struct ext4_inode *raw;
	struct buffer_head *bh;
	uint32_t off;
	int err;

	err = inode_raw_access(h, inode, &bh, &off);
	if (err)
		return err;
	raw = (struct ext4_inode *)(void *)(bh->data + off);
	buffer_lock(bh);
	raw->i_dtime = le32_make(atomic_load_explicit(&inode->dtime, memory_order_relaxed));
	inode_raw_csum_set(inode, raw);
	buffer_unlock(bh);
	err = journal_dirty_metadata(h, bh);
	buffer_put(bh);
	return err;
}
