/* SPDX-License-Identifier: MIT */
/* file.c - reading, writing, fsync, seek and fiemap */
#include <errno.h>
#include <linux/fiemap.h>
#include <unistd.h>

#include "base/counters.h"
#include "ext4/extent_private.h"
#include "ext4/file_private.h"
#include "ext4/xattr.h"

#define XATTR_INDEX_SECURITY 6u

ssize_t file_read(struct inode *inode, uint64_t pos, struct iov_cursor *to, unsigned flags)
{
	struct mapping *m = &inode->mapping;
	ssize_t n;

	if (flags & FILE_READ_UNCACHED)
		n = iomap_uncached_read(m, pos, to, &file_iomap_ops);
	else
		n = iomap_buffered_read(m, pos, to, &file_iomap_ops);

	if (n > 0 && !(flags & FILE_READ_KEEP_ATIME) && inode_needs_atime(inode))
		inode_stamp_lazy(inode, TIME_ATIME);
	return n;
}

int file_splice_read(struct inode *inode, uint64_t pos, uint64_t len, int pipe_fd, int (*deliver)(void *arg), void *arg)
{
	int err = iomap_splice_read(&inode->mapping, pos, len, pipe_fd, deliver, arg, &file_iomap_ops);

	if (!err && inode_needs_atime(inode))
		inode_stamp_lazy(inode, TIME_ATIME);
	return err;
}

/* ---- writing ---- */

/* Mode bits that an unprivileged write takes away. */
static uint16_t priv_bits(const struct inode *inode)
{
	uint16_t bits = inode->mode & S_ISUID;

	if ((inode->mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
		bits |= S_ISGID;
	return bits;
}

static bool has_capability(struct inode *inode)
{
	if (!inode->file_acl && !inode_test(inode, INODE_XATTR_IN_BODY))
		return false;
	return xattr_get(inode, "security.capability", NULL, 0) > 0;
}

/* Drops setuid, setgid and file capabilities. Caller: inode.rwsem exclusive. */
static int kill_priv(struct inode *inode)
{
	uint16_t bits = priv_bits(inode);
	bool capability = has_capability(inode);
	struct handle h;
	int err, stop_err;

	if (!bits && !capability)
		return 0;
	err = fs_handle_start(inode->fs, 1 + XATTR_CREDITS, 1, &h);
	if (err)
		return err;
	if (capability)
		err = xattr_set_handle(&h, inode, XATTR_INDEX_SECURITY, "capability", sizeof("capability") - 1, NULL, 0,
				       0);
	if (!err) {
		inode->mode &= (uint16_t)~bits;
		inode_stamp(inode, TIME_CTIME);
		err = inode_write(&h, inode);
	}
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

static void cursor_limit(struct iov_cursor *c, uint64_t max_bytes)
{
	if (c->left_bytes > max_bytes)
		c->left_bytes = (size_t)max_bytes;
}

/* Caller: inode.rwsem exclusive. */
static bool may_use_root_blocks(const struct inode *inode, unsigned flags)
{
	const struct ext4_options *opt = &inode->fs->opt;

	if (!(flags & FILE_WRITE_AS_OWNER))
		return (flags & FILE_WRITE_ROOT_BLOCKS) != 0;
	return inode->uid == 0 || inode->uid == opt->resuid || (opt->resgid && inode->gid == opt->resgid);
}

/* Caller: inode.rwsem exclusive. */
static ssize_t write_locked(struct inode *inode, uint64_t pos, struct iov_cursor *from, unsigned flags)
{
	uint64_t size = inode_size(inode), max = file_max_bytes(inode);
	bool root = may_use_root_blocks(inode, flags);
	ssize_t n = 0;
	int err = 0;

	if (pos >= max)
		return -EFBIG;
	cursor_limit(from, max - pos);
	if (flags & FILE_WRITE_KILL_PRIV)
		err = kill_priv(inode);
	if (!err && pos > size)
		err = file_zero_tail(inode, size, false);
	if (err)
		return err;
	if (!(flags & FILE_WRITE_KEEP_TIMES))
		inode_stamp_lazy(inode, TIME_MTIME | TIME_CTIME);
	if (flags & FILE_WRITE_UNCACHED)
		n = file_write_uncached(inode, pos, from, root);
	if (!n)
		n = iomap_buffered_write(&inode->mapping, pos, from, root ? &file_iomap_root_ops : &file_iomap_ops);
	if (n > 0)
		file_log_dirty(inode, pos, pos + (uint64_t)n);
	return n;
}

ssize_t file_write(struct inode *inode, uint64_t pos, struct iov_cursor *from, unsigned flags, uint64_t *pos_out)
{
	ssize_t n;
	int err;

	if (fs_is_read_only(inode->fs))
		return -EROFS;
	if (!from->left_bytes)
		return 0;
	rwsem_write_lock(&inode->rwsem);
	if (flags & FILE_WRITE_APPEND)
		pos = inode_size(inode);
	n = write_locked(inode, pos, from, flags);
	rwsem_write_unlock(&inode->rwsem);
	if (pos_out)
		*pos_out = pos;
	if (n > 0 && (flags & (FILE_WRITE_DSYNC | FILE_WRITE_SYNC))) {
		err = file_fsync(inode, !(flags & FILE_WRITE_SYNC));
		if (err)
			return err;
	}
	return n;
}

/* ---- fsync ---- */

/* The commit that holds the inode's changes, and the data below it, on stable storage. */
static int commit_and_flush(struct inode *inode, bool datasync)
{
	struct ext4_fs *fs = inode->fs;
	tid_t tid = atomic_load(datasync ? &inode->datasync_tid : &inode->sync_tid);
	bool flushed = false;
	int err;

	if (journal_is_null(fs->journal))
		err = buffer_cache_sync(fs->bc); /* whatever of the inode and its tree is only in memory */
	else
		err = journal_wait_commit(fs->journal, tid, &flushed);
	if (!err && !flushed && fs->opt.barrier)
		err = block_flush(fs->dev);
	return err;
}

int file_fsync(struct inode *inode, bool datasync)
{
	struct ext4_fs *fs = inode->fs;
	int err = 0, times_err = 0, commit_err;

	if (fs_is_read_only(fs))
		return journal_error(fs->journal) ? -EROFS : 0;
	if (S_ISREG(inode->mode))
		err = file_flush(inode);
	if (!datasync)
		times_err = inode_flush_times(inode);
	commit_err = commit_and_flush(inode, datasync);
	if (err)
		return err;
	return commit_err ? commit_err : times_err;
}

/* ---- seek ---- */

int64_t file_seek(struct inode *inode, uint64_t pos, int whence)
{
	switch (whence) {
	case SEEK_DATA:
		return iomap_seek_data(&inode->mapping, pos, &file_iomap_ops);
	case SEEK_HOLE:
		return iomap_seek_hole(&inode->mapping, pos, &file_iomap_ops);
	default:
		return -EINVAL;
	}
}

/* ---- fiemap ---- */

struct fiemap_state {
	struct file_extent *extents;
	uint32_t max, count; /* max 0: only count */
};

static uint32_t fiemap_flags(const struct iomap *map)
{
	uint32_t flags = map->flags & IOMAP_F_MERGED ? FIEMAP_EXTENT_MERGED : 0;

	if (map->flags & IOMAP_F_LAST)
		flags |= FIEMAP_EXTENT_LAST;
	if (map->type == IOMAP_UNWRITTEN)
		flags |= FIEMAP_EXTENT_UNWRITTEN;
	if (map->type == IOMAP_DELALLOC)
		flags |= FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNKNOWN;
	return flags;
}

static int fiemap_emit(void *arg, const struct iomap *map)
{
	struct fiemap_state *s = arg;

	if (s->max && s->count == s->max)
		return 1;
	if (s->max)
		s->extents[s->count] = (struct file_extent){ map->pos_bytes, map->addr_bytes, map->len_bytes,
							     fiemap_flags(map) };
	s->count++;
	return 0;
}

int file_fiemap(struct inode *inode, uint64_t pos, uint64_t len, bool sync, struct file_extent *extents, uint32_t max,
		uint32_t *count_out)
{
	struct fiemap_state s = { .extents = extents, .max = max };
	uint64_t end = (uint64_t)LBLK_END << inode->fs->block_bits;
	int err = 0;

	*count_out = 0;
	if (sync)
		err = mapping_write_and_wait(&inode->mapping, 0, UINT64_MAX);
	if (err || pos >= end)
		return err;
	err = iomap_fiemap(&inode->mapping, pos, min_of(len, end - pos), &file_iomap_ops, fiemap_emit, &s);
	*count_out = s.count;
	return err;
}
