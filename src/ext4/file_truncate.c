/* SPDX-License-Identifier: MIT */
/*
 * file_truncate.c - changing a file's size
 *
 * To shrink:
 *   1. the tail of the block that the new end cuts is zeroed, and on disk before anything else (no old byte may show
 *      when the file grows again, under whatever driver)
 *   2. one transaction: on the orphan list, new size on disk and in memory
 *   3. folios past the end are dropped, their I/O waited for
 *   4. blocks are freed, in as many transactions as it takes
 *   5. one transaction: off the orphan list
 * A crash after 2 leaves an orphan with the new size, which the next mount truncates again.
 */
#include <errno.h>

#include "ext4/extent_private.h"
#include "ext4/file_private.h"
#include "ext4/orphan.h"

/* Step 2. */
static int size_cut(struct inode *inode, uint64_t size_bytes)
{
	struct handle h;
	int err, stop_err;

	err = fs_handle_start(inode->fs, ORPHAN_CREDITS + DISKSIZE_CREDITS, 0, &h);
	if (err)
		return err;
	err = orphan_add(&h, inode);
	if (!err) {
		rwsem_write_lock(&inode->map_sem);
		inode_size_set(inode, size_bytes);
		atomic_fetch_add(&inode->io.shrinks, 1);
		err = file_disksize_set(&h, inode, min_of(file_disksize(inode), size_bytes));
		rwsem_write_unlock(&inode->map_sem);
	}
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

/* Step 5: an inode without a name stays listed. */
static int off_orphan_list(struct inode *inode)
{
	struct handle h;
	int err, stop_err;

	if (!inode->nlink)
		return 0;
	err = fs_handle_start(inode->fs, ORPHAN_CREDITS + 1, 0, &h);
	if (err)
		return err;
	err = orphan_del(&h, inode);
	if (!err)
		err = inode_write_datasync(&h, inode);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

/* Steps 2 to 5. */
static int shrink(struct inode *inode, uint64_t size_bytes)
{
	struct mapping *m = &inode->mapping;
	int err, del_err;

	err = size_cut(inode, size_bytes);
	if (err)
		return err;
	rwsem_write_lock(&m->invalidate_lock);
	mapping_truncate(m, size_bytes);
	err = map_truncate(inode, file_lblk_up(inode, size_bytes));
	rwsem_write_unlock(&m->invalidate_lock);
	file_reserve_settle(inode, 0);
	if (err)
		return err; /* still an orphan: the next mount tries again */
	del_err = off_orphan_list(inode);
	return err ? err : del_err;
}

/* Is there anything to free past the end, such as fallocate with KEEP_SIZE leaves? */
static int blocks_past_end(struct inode *inode, uint64_t size_bytes)
{
	return map_any(inode, file_lblk_up(inode, size_bytes), LBLK_END);
}

int file_truncate_locked(struct inode *inode, uint64_t size_bytes)
{
	uint64_t size = inode_size(inode);
	int err;

	lock_assert_held(&inode->rwsem);
	if (size_bytes > file_max_bytes(inode))
		return -EFBIG;
	if (fs_is_read_only(inode->fs))
		return -EROFS;
	inode_stamp(inode, TIME_MTIME | TIME_CTIME);
	if (size_bytes > size) {
		err = file_zero_tail(inode, size, true);
		return err ? err : file_grow(inode, size_bytes);
	}
	if (size_bytes == size) {
		err = blocks_past_end(inode, size);
		if (err == 0)
			inode_stamp_lazy(inode, TIME_MTIME | TIME_CTIME);
		return err > 0 ? shrink(inode, size) : err;
	}
	err = file_zero_tail(inode, size_bytes, true); /* step 1 */
	if (!err && file_disksize(inode) < size_bytes)
		err = file_flush(inode); /* no I/O may be left that moves the size on disk to a new end in a hole (S2) */
	return err ? err : shrink(inode, size_bytes);
}
