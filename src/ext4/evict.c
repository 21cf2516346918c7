/* SPDX-License-Identifier: MIT */
/* evict.c - what becomes of an inode when its last reference is gone */
#include <errno.h>
#include <string.h>

#include "ext4/balloc.h"
#include "ext4/file.h"
#include "ext4/fs_private.h"
#include "ext4/ialloc.h"
#include "ext4/inode_private.h"
#include "ext4/map.h"
#include "ext4/orphan.h"
#include "ext4/xattr.h"

/*
 * An inode without a name is on the orphan list, so that each of the following may be cut off by a crash and is then
 * done again at the next mount:
 *   1. its blocks are freed, in as many transactions as it takes
 *   2. in one transaction: xattr block dropped, off the orphan list, i_dtime set, number freed
 * Nobody else can reach it any more, so that no lock but those of the callees is needed.
 */

static bool can_write(const struct ext4_fs *fs)
{
	return !fs_is_read_only(fs) && !atomic_load(&fs->shutdown) && !journal_error(fs->journal);
}

static void drop_data(struct inode *inode)
{
	rwsem_write_lock(&inode->mapping.invalidate_lock);
	mapping_truncate(&inode->mapping, 0);
	rwsem_write_unlock(&inode->mapping.invalidate_lock);
}

static void give_prealloc_back(struct inode *inode)
{
	if (!inode->prealloc)
		return;
	rwsem_write_lock(&inode->map_sem);
	balloc_discard_prealloc(inode);
	rwsem_write_unlock(&inode->map_sem);
}

static int evict_linked(struct inode *inode)
{
	int err = 0, times_err = 0;

	if (can_write(inode->fs)) {
		if (S_ISREG(inode->mode))
			err = file_flush(inode);
		times_err = inode_flush_times(inode);
	}
	if (err)
		log_print(&inode->fs->log, LOG_ERROR, "%s: inode #%u: data lost, cannot be written: %s", inode->fs->name,
			  inode->ino, strerror(-err));
	give_prealloc_back(inode);
	drop_data(inode);
	return err ? err : times_err;
}

static bool owns_blocks(const struct inode *inode)
{
	if (S_ISREG(inode->mode))
		return inode->blocks_512 || inode->reserved_blocks;
	return S_ISDIR(inode->mode) || (S_ISLNK(inode->mode) && !inode_is_fast_symlink(inode));
}

static int free_blocks(struct inode *inode)
{
	if (!owns_blocks(inode))
		return 0;
	rwsem_write_lock(&inode->map_sem);
	inode_size_set(inode, 0);
	inode->disksize_bytes = 0;
	rwsem_write_unlock(&inode->map_sem);
	return map_truncate(inode, 0);
}

static int free_number_in(struct handle *h, struct inode *inode)
{
	int err = 0;

	if (inode->file_acl)
		err = xattr_free_all(h, inode);
	if (!err)
		err = orphan_del(h, inode);
	if (err)
		return err;
	atomic_store(&inode->dtime, (uint32_t)fs_now(inode->fs).tv_sec);
	err = inode_write(h, inode);
	return err ? err : ialloc_free(h, inode);
}

static int free_number(struct inode *inode)
{
	uint32_t credits = 1 + ORPHAN_CREDITS + IALLOC_CREDITS + (inode->file_acl ? BALLOC_CREDITS + 1 : 0);
	struct handle h;
	int err, stop_err;

	err = fs_handle_start(inode->fs, credits, 1, &h);
	if (err)
		return err;
	err = free_number_in(&h, inode);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

static int evict_unlinked(struct inode *inode)
{
	int err;

	give_prealloc_back(inode);
	drop_data(inode);
	if (!can_write(inode->fs))
		return -EROFS;
	err = free_blocks(inode);
	if (!err)
		err = free_number(inode);
	if (err && can_write(inode->fs))
		INODE_ERROR(inode, err, 0, "cannot be freed: %s", strerror(-err));
	return err;
}

int inode_evict(struct inode *inode)
{
	int err = 0;

	if (inode_test(inode, INODE_NEW | INODE_BAD)) {
		give_prealloc_back(inode);
		drop_data(inode);
	} else {
		err = inode->nlink ? evict_linked(inode) : evict_unlinked(inode);
	}
	/* What could not be freed stays an orphan on disk, but nobody in memory may point to it. */
	if (inode_test(inode, INODE_ORPHAN))
		orphan_del(NULL, inode);
	orphan_uncount(inode);
	inode_times_forget(inode);
	return err;
}
