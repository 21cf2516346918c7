/* SPDX-License-Identifier: MIT */
/* file_falloc.c - fallocate: preallocation, punching holes, zeroing, collapsing and inserting ranges */
#include <errno.h>
#include <linux/falloc.h>

#include "ext4/balloc.h"
#include "ext4/extent_private.h"
#include "ext4/file_private.h"

/* Blocks that [pos, end) covers in whole: [first, last) in bytes, empty if none. */
static void whole_blocks(const struct inode *inode, uint64_t pos, uint64_t end, uint64_t *first, uint64_t *last)
{
	*first = file_block_up(inode, pos);
	*last = max_of(file_block_down(inode, end), *first);
}

/* Zeroes what of [pos, end) is not whole blocks. */
static int zero_edges(struct inode *inode, uint64_t pos, uint64_t end)
{
	struct mapping *m = &inode->mapping;
	uint64_t first, last;
	int err;

	whole_blocks(inode, pos, end, &first, &last);
	if (first >= end) /* within one block */
		return iomap_zero_range(m, pos, end - pos, &file_iomap_ops);
	err = iomap_zero_range(m, pos, first - pos, &file_iomap_ops);
	if (err || last >= end)
		return err;
	return iomap_zero_range(m, last, end - last, &file_iomap_ops);
}

/*
 * Zeroes the edges of [pos, end), whose whole blocks are going to be dropped. Dirty data past the size on disk is written
 * first: dropped, it would complete no I/O that moves that size over it (S2), and a sync would leave it behind.
 */
static int begin_drop(struct inode *inode, uint64_t pos, uint64_t end)
{
	int err = zero_edges(inode, pos, end);

	if (!err)
		file_log_dirty(inode, pos, end);
	if (!err && file_disksize(inode) < min_of(end, inode_size(inode)))
		err = file_flush(inode);
	return err;
}

/* ---- preallocation ---- */

/* One run; *len_out: blocks from @lblk on that have blocks now. */
static int allocate_run(struct inode *inode, int mode, lblk_t lblk, uint32_t len, uint32_t *len_out)
{
	bool root = mode & FILE_FALLOC_ROOT_BLOCKS;
	int retries = 0, err, stop_err;
	struct map_result r;
	struct handle h;

	do {
		err = fs_handle_start_for(inode->fs, root, map_credits(inode, len), 0, &h);
		if (err)
			return err;
		err = map_blocks(&h, inode, lblk, min_of(len, EXT4_EXT_UNWRITTEN_MAX), MAP_CREATE | MAP_UNWRITTEN, &r);
		stop_err = journal_stop(&h);
		if (!err)
			err = stop_err;
	} while (err == -ENOSPC && balloc_should_retry(inode->fs, &retries) > 0);
	*len_out = err ? 0 : r.len;
	return err;
}

/* Gives every block of [pos, end) a place on disk. *done_out: how far it came, in bytes. */
static int allocate_range(struct inode *inode, int mode, uint64_t pos, uint64_t end, uint64_t *done_out)
{
	lblk_t lblk = file_lblk(inode, pos), stop = file_lblk_up(inode, end);
	uint32_t len = 0;
	int err = 0;

	while (lblk < stop && !err) {
		err = allocate_run(inode, mode, lblk, stop - lblk, &len);
		lblk += len;
	}
	*done_out = min_of((uint64_t)lblk << inode->fs->block_bits, end);
	return err;
}

/* The file ends at @end from now on, if that is more than before. */
static int extend_to(struct inode *inode, uint64_t end)
{
	uint64_t size = inode_size(inode);
	int err;

	if (end <= size)
		return 0;
	err = file_zero_tail(inode, size, true);
	return err ? err : file_grow(inode, end);
}

static int preallocate(struct inode *inode, int mode, uint64_t pos, uint64_t end)
{
	uint64_t done;
	int err, size_err = 0;

	if (!inode_has_extents(inode))
		return -EOPNOTSUPP;
	err = allocate_range(inode, mode, pos, end, &done);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && done > pos)
		size_err = extend_to(inode, done);
	return err ? err : size_err;
}

/* ---- punch hole ---- */

static int punch_hole(struct inode *inode, uint64_t pos, uint64_t end)
{
	struct mapping *m = &inode->mapping;
	uint64_t size = inode_size(inode), first, last;
	int err;

	if (pos >= size)
		return 0;
	if (end >= size)
		end = round_up_to(size, max_of((uint64_t)PAGE_BYTES, (uint64_t)inode->fs->block_bytes)); /* as Linux */
	err = begin_drop(inode, pos, end);
	whole_blocks(inode, pos, end, &first, &last);
	if (err || first == last)
		return err;
	rwsem_write_lock(&m->invalidate_lock);
	mapping_punch(m, first, last);
	err = map_remove_range(inode, file_lblk(inode, first), file_lblk(inode, last));
	rwsem_write_unlock(&m->invalidate_lock);
	file_reserve_settle(inode, 0);
	return err;
}

/* ---- zero range ---- */

/* Written extents in [start, end) become unwritten. */
static int unwrite_range(struct inode *inode, lblk_t start, lblk_t end)
{
	uint32_t credits = map_credits(inode, end - start) + DISKSIZE_CREDITS;
	struct handle h;
	int err, stop_err;

	err = fs_handle_start(inode->fs, credits, 0, &h);
	if (err)
		return err;
	do {
		err = map_set_state(&h, inode, &start, end, true);
	} while (err == 1 && !(err = journal_restart(&h, credits, 0)) && start < end);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

static int zero_range(struct inode *inode, int mode, uint64_t pos, uint64_t end)
{
	struct mapping *m = &inode->mapping;
	uint64_t first, last, done;
	int err;

	if (!inode_has_extents(inode))
		return -EOPNOTSUPP;
	err = begin_drop(inode, pos, end);
	whole_blocks(inode, pos, end, &first, &last);
	if (!err && first < last) {
		rwsem_write_lock(&m->invalidate_lock);
		mapping_punch(m, first, last);
		map_forget_delayed(inode, file_lblk(inode, first), file_lblk(inode, last));
		err = unwrite_range(inode, file_lblk(inode, first), file_lblk(inode, last));
		rwsem_write_unlock(&m->invalidate_lock);
	}
	if (!err)
		err = allocate_range(inode, mode, pos, end, &done);
	if (!err && !(mode & FALLOC_FL_KEEP_SIZE))
		err = extend_to(inode, end);
	return err;
}

/* ---- collapse and insert range ---- */

/* All data on disk and nothing of the file cached: what moves is on disk alone. Caller: inode.rwsem exclusive. */
static int begin_shift(struct inode *inode)
{
	struct mapping *m = &inode->mapping;
	int err;

	err = file_flush(inode);
	if (err)
		return err;
	rwsem_write_lock(&m->invalidate_lock);
	mapping_punch(m, 0, UINT64_MAX);
	return 0;
}

/*
 * The shift is durable before the call returns: whatever is written next goes in place, to where the blocks are now. After a
 * crash it would show where they were before.
 */
static int end_shift(struct inode *inode, int err)
{
	rwsem_write_unlock(&inode->mapping.invalidate_lock);
	return err ? err : journal_force_commit(inode->fs->journal);
}

/* i_size and the size on disk move together: all data is on disk. */
static int set_both_sizes(struct handle *h, struct inode *inode, uint64_t size_bytes)
{
	int err = map_renew(h, DISKSIZE_CREDITS, 0);

	if (err)
		return err;
	rwsem_write_lock(&inode->map_sem);
	inode_size_set(inode, size_bytes);
	atomic_fetch_add(&inode->io.shrinks, 1);
	err = file_disksize_set(h, inode, size_bytes);
	rwsem_write_unlock(&inode->map_sem);
	return err;
}

static int check_shift(const struct inode *inode, uint64_t pos, uint64_t len)
{
	if (!inode_has_extents(inode))
		return -EOPNOTSUPP;
	return (pos | len) & (inode->fs->block_bytes - 1) ? -EINVAL : 0;
}

static int collapse_range(struct inode *inode, uint64_t pos, uint64_t len)
{
	struct handle h;
	int err, stop_err;

	err = check_shift(inode, pos, len);
	if (!err && pos + len >= inode_size(inode))
		err = -EINVAL;
	if (!err)
		err = begin_shift(inode);
	if (err)
		return err;
	err = fs_handle_start(inode->fs, DISKSIZE_CREDITS, 0, &h);
	if (err)
		return end_shift(inode, err);
	err = map_collapse(&h, inode, file_lblk(inode, pos), file_lblk(inode, pos + len));
	if (!err)
		err = set_both_sizes(&h, inode, inode_size(inode) - len);
	stop_err = journal_stop(&h);
	return end_shift(inode, err ? err : stop_err);
}

/* Extents past the end of file move too: none may leave the range of block numbers. */
static int check_insert(struct inode *inode, uint64_t pos, uint64_t len)
{
	uint64_t size = inode_size(inode);
	lblk_t blks = file_lblk(inode, len);
	int err;

	err = check_shift(inode, pos, len);
	if (err)
		return err;
	if (len > file_max_bytes(inode) - size)
		return -EFBIG;
	if (pos >= size)
		return -EINVAL;
	err = map_any(inode, LBLK_END - blks, LBLK_END);
	return err > 0 ? -EINVAL : err;
}

static int insert_range(struct inode *inode, uint64_t pos, uint64_t len)
{
	struct handle h;
	int err, stop_err;

	err = check_insert(inode, pos, len);
	if (!err)
		err = begin_shift(inode);
	if (err)
		return err;
	err = fs_handle_start(inode->fs, DISKSIZE_CREDITS, 0, &h);
	if (err)
		return end_shift(inode, err);
	err = set_both_sizes(&h, inode, inode_size(inode) + len);
	if (!err)
		err = map_insert(&h, inode, file_lblk(inode, pos), file_lblk(inode, len));
	stop_err = journal_stop(&h);
	return end_shift(inode, err ? err : stop_err);
}

/* ---- the call ---- */

/* What Linux's VFS refuses before ext4 is asked. */
static int check_mode(int mode)
{
	const int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_COLLAPSE_RANGE |
			  FALLOC_FL_INSERT_RANGE;

	if (mode & ~known)
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_PUNCH_HOLE) && mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_COLLAPSE_RANGE) && mode != FALLOC_FL_COLLAPSE_RANGE)
		return -EINVAL;
	if ((mode & FALLOC_FL_INSERT_RANGE) && mode != FALLOC_FL_INSERT_RANGE)
		return -EINVAL;
	return 0;
}

static int check_file(const struct inode *inode, uint64_t pos, uint64_t len)
{
	if (S_ISFIFO(inode->mode))
		return -ESPIPE;
	if (S_ISDIR(inode->mode))
		return -EISDIR;
	if (!S_ISREG(inode->mode))
		return -ENODEV;
	if (pos > file_max_bytes(inode) || len > file_max_bytes(inode) - pos)
		return -EFBIG;
	return fs_is_read_only(inode->fs) ? -EROFS : 0;
}

/* Caller: inode.rwsem exclusive. */
static int falloc_locked(struct inode *inode, int mode, uint64_t pos, uint64_t len)
{
	if (mode & FALLOC_FL_PUNCH_HOLE)
		return punch_hole(inode, pos, pos + len);
	if (mode & FALLOC_FL_ZERO_RANGE)
		return zero_range(inode, mode, pos, pos + len);
	if (mode & FALLOC_FL_COLLAPSE_RANGE)
		return collapse_range(inode, pos, len);
	if (mode & FALLOC_FL_INSERT_RANGE)
		return insert_range(inode, pos, len);
	return preallocate(inode, mode, pos, pos + len);
}

int file_fallocate(struct inode *inode, int mode, uint64_t pos, uint64_t len)
{
	int flags = mode & (FILE_FALLOC_KEEP_TIMES | FILE_FALLOC_ROOT_BLOCKS), err;

	mode &= ~flags;
	if (!len || pos > INT64_MAX || len > INT64_MAX)
		return -EINVAL;
	err = check_mode(mode);
	if (!err)
		err = check_file(inode, pos, len);
	if (err)
		return err;
	rwsem_write_lock(&inode->rwsem);
	if (!(flags & FILE_FALLOC_KEEP_TIMES))
		inode_stamp_lazy(inode, TIME_MTIME | TIME_CTIME);
	err = falloc_locked(inode, mode | flags, pos, len);
	rwsem_write_unlock(&inode->rwsem);
	return err;
}
