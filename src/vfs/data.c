/* SPDX-License-Identifier: MIT */
/* data.c - contents of inodes: checks that belong to the calls, then the file layer */
#include <errno.h>
#include <limits.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "ext4/file.h"
#include "vfs/append_only.h"
#include "vfs/vfs.h"

/* As Linux: more is transferred in several calls. */
#define RW_MAX_BYTES ((size_t)0x7ffff000)

static int cursor_init(const struct iovec *iov, int iov_count, struct iov_cursor *cursor_out)
{
	size_t total = 0;

	if (iov_count < 0 || iov_count > IOV_MAX)
		return -EINVAL;
	for (int i = 0; i < iov_count; i++) {
		if (iov[i].iov_len > SSIZE_MAX - total)
			return -EINVAL;
		total += iov[i].iov_len;
	}
	*cursor_out = (struct iov_cursor){
		.iov = iov,
		.iov_count = (unsigned)iov_count,
		.left_bytes = min_of(total, RW_MAX_BYTES),
	};
	return 0;
}

static int check_regular(const struct inode *inode)
{
	if (inode_is_dir(inode))
		return -EISDIR;
	return S_ISREG(inode->mode) ? 0 : -EINVAL;
}

ssize_t vfs_readv(struct inode *inode, const struct iovec *iov, int iov_count, int64_t pos, unsigned flags)
{
	struct iov_cursor cursor;
	int err = check_regular(inode);

	if (!err && pos < 0)
		err = -EINVAL;
	if (!err)
		err = cursor_init(iov, iov_count, &cursor);
	if (err || cursor.left_bytes == 0)
		return err;
	return file_read(inode, (uint64_t)pos, &cursor, flags);
}

int vfs_splice_read(struct inode *inode, int64_t pos, size_t len_bytes, int pipe_fd, int (*deliver)(void *arg), void *arg)
{
	int err = check_regular(inode);

	if (!err && pos < 0)
		err = -EINVAL;
	return err ? err : file_splice_read(inode, (uint64_t)pos, len_bytes, pipe_fd, deliver, arg);
}

ssize_t vfs_writev(struct inode *inode, const struct iovec *iov, int iov_count, int64_t pos, unsigned flags,
		   uint64_t *pos_out)
{
	struct iov_cursor cursor;
	uint64_t where;
	int err = check_regular(inode);

	if (!err && pos < 0 && !(flags & FILE_WRITE_APPEND))
		err = -EINVAL;
	if (!err)
		err = cursor_init(iov, iov_count, &cursor);
	if (!err && fs_is_read_only(inode->fs))
		err = -EROFS;
	if (!err && (inode->flags & EXT4_IMMUTABLE_FL))
		err = -EPERM;
	if (err || cursor.left_bytes == 0)
		return err;
	return file_write(inode, (uint64_t)pos, &cursor, flags, pos_out ? pos_out : &where);
}

ssize_t vfs_writev_node(struct inode *inode, const struct iovec *iov, int iov_count, int64_t pos, unsigned flags)
{
	bool append_only = (inode->flags & EXT4_APPEND_FL) && !(flags & FILE_WRITE_APPEND) && pos >= 0;
	ssize_t done = 0;

	if (append_only && S_ISREG(inode->mode))
		done = append_only_check(inode, iov, iov_count, (uint64_t)pos, flags & FILE_WRITE_KEEP_TIMES);
	if (!done)
		done = vfs_writev(inode, iov, iov_count, pos, flags, NULL);
	if (append_only && done > 0)
		append_only_note(inode, (uint64_t)pos, (uint64_t)done);
	return done;
}

int vfs_fallocate(struct inode *inode, int mode, int64_t pos, int64_t len)
{
	const int may_append = FALLOC_FL_KEEP_SIZE | FILE_FALLOC_KEEP_TIMES | FILE_FALLOC_ROOT_BLOCKS;

	if (pos < 0 || len <= 0)
		return -EINVAL;
	if (fs_is_read_only(inode->fs))
		return -EROFS;
	if ((inode->flags & EXT4_APPEND_FL) && (mode & ~may_append))
		return -EPERM;
	if (inode->flags & EXT4_IMMUTABLE_FL)
		return -EPERM;
	if (inode_is_dir(inode))
		return -EISDIR;
	if (S_ISFIFO(inode->mode))
		return -ESPIPE;
	if (!S_ISREG(inode->mode))
		return -ENODEV;
	if (pos > INT64_MAX - len)
		return -EFBIG;
	return file_fallocate(inode, mode, (uint64_t)pos, (uint64_t)len);
}

int64_t vfs_seek(struct inode *inode, int64_t pos, int whence)
{
	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	if (inode_is_dir(inode))
		return -EISDIR;
	if (!S_ISREG(inode->mode))
		return -ESPIPE;
	return pos < 0 ? -ENXIO : file_seek(inode, (uint64_t)pos, whence);
}

int vfs_fsync_node(struct inode *inode, bool datasync)
{
	uint32_t since = atomic_load(&inode->node_wb_err);
	uint32_t seen = since;
	int err = file_fsync(inode, datasync);
	int old_err = mapping_check_error(&inode->mapping, &seen);

	/* Another fsync of this node may report it at the same time: both were waiting for it. */
	if (seen != since)
		atomic_compare_exchange_strong(&inode->node_wb_err, &since, seen);
	return err ? err : old_err;
}

int vfs_readlink(struct inode *inode, char *buf, size_t buf_bytes, size_t *len_out)
{
	int err;

	if (!S_ISLNK(inode->mode))
		return -EINVAL;
	err = symlink_read(inode, buf, buf_bytes, len_out);
	if (!err && inode_needs_atime(inode))
		inode_stamp_lazy(inode, TIME_ATIME);
	return err;
}
