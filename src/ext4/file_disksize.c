/* SPDX-License-Identifier: MIT */
/*
 * file_disksize.c - the size on disk
 *
 * S1  disksize is never larger than i_size, and moves only past bytes that are on disk or were never written: after a
 *     crash no zeros stand for bytes that an application wrote below the size that survived.
 * S2  A completion moves it to the end of what it wrote, once all before it are complete (file_ioend.c).
 * S3  fsync moves it to what i_size was when it began: all that was dirty then is on disk by then.
 */
#include <errno.h>

#include "ext4/file_private.h"

int file_disksize_set(struct handle *h, struct inode *inode, uint64_t size_bytes)
{
	lock_assert_held(&inode->map_sem);
	__atomic_store_n(&inode->disksize_bytes, size_bytes, __ATOMIC_RELAXED);
	return inode_write_datasync(h, inode);
}

int file_disksize_raise(struct handle *h, struct inode *inode, uint64_t size_bytes)
{
	int err = 0;

	if (size_bytes <= file_disksize(inode))
		return 0;
	rwsem_write_lock(&inode->map_sem);
	size_bytes = min_of(size_bytes, inode_size(inode));
	if (size_bytes > file_disksize(inode))
		err = file_disksize_set(h, inode, size_bytes);
	rwsem_write_unlock(&inode->map_sem);
	return err;
}

/* All data below @size_bytes is on disk, unless the file was cut since @shrinks was read. */
static int disksize_settle(struct inode *inode, uint64_t size_bytes, uint32_t shrinks)
{
	struct handle h;
	int err, stop_err;

	if (file_disksize(inode) >= size_bytes)
		return 0;
	err = fs_handle_start(inode->fs, DISKSIZE_CREDITS, 0, &h);
	if (err)
		return err;
	rwsem_write_lock(&inode->map_sem);
	size_bytes = min_of(size_bytes, inode_size(inode));
	if (shrinks == atomic_load(&inode->io.shrinks) && file_disksize(inode) < size_bytes)
		err = file_disksize_set(&h, inode, size_bytes);
	rwsem_write_unlock(&inode->map_sem);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

int file_flush(struct inode *inode)
{
	uint32_t shrinks = atomic_load(&inode->io.shrinks);
	uint64_t size = inode_size(inode);
	int err = 0;

	if (atomic_load(&inode->mapping.nr_pages))
		err = mapping_write_and_wait(&inode->mapping, 0, UINT64_MAX);
	if (!err)
		file_reserve_settle(inode, 0);
	return err ? err : disksize_settle(inode, size, shrinks);
}

int file_grow(struct inode *inode, uint64_t size_bytes)
{
	struct handle h;
	int err, stop_err;

	if (file_disksize(inode) < inode_size(inode)) {
		err = file_flush(inode); /* S1 */
		if (err)
			return err;
	}
	err = fs_handle_start(inode->fs, DISKSIZE_CREDITS, 0, &h);
	if (err)
		return err;
	rwsem_write_lock(&inode->map_sem);
	inode_size_set(inode, size_bytes);
	err = file_disksize_set(&h, inode, size_bytes);
	rwsem_write_unlock(&inode->map_sem);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

int file_zero_tail(struct inode *inode, uint64_t size_bytes, bool write_out)
{
	uint64_t end = file_block_up(inode, size_bytes);
	struct map_result r;
	int err;

	if (end == size_bytes)
		return 0;
	err = iomap_zero_range(&inode->mapping, size_bytes, end - size_bytes, &file_iomap_ops);
	if (err || !(write_out || inode_logs_data(inode)))
		return err;
	err = map_lookup(inode, file_lblk(inode, size_bytes), 1, &r);
	if (err || r.status != ES_WRITTEN)
		return err; /* a new block gets its zeros when it is first written */
	return mapping_write_and_wait(&inode->mapping, file_block_down(inode, size_bytes), end);
}
