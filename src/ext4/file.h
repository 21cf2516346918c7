/* SPDX-License-Identifier: MIT */
/* file.h - file data: read, write, truncate, fallocate, fsync, seek, fiemap; ext4's side of iomap */
#ifndef UEXT4_EXT4_FILE_H
#define UEXT4_EXT4_FILE_H

#include "ext4/inode.h"
#include "iomap/iomap.h"

extern const struct mapping_ops file_mapping_ops;   /* for inode_alloc() */

/* Context of all: the caller holds no lock; each takes inode.rwsem as needed (see each). Sizes and positions in bytes. */

#define FILE_READ_UNCACHED 0x1u  /* the caller keeps what he reads: what is not cached stays so (iomap_uncached_read()) */
#define FILE_READ_KEEP_ATIME 0x2u
/* inode.rwsem not held by the caller; readers run without it. Updates atime lazily. */
ssize_t file_read(struct inode *inode, uint64_t pos, struct iov_cursor *to, unsigned flags);
/* The whole range by reference, or -EOPNOTSUPP: see iomap_splice_read(). Updates atime lazily. */
int file_splice_read(struct inode *inode, uint64_t pos, uint64_t len, int pipe_fd, int (*deliver)(void *arg), void *arg);

#define FILE_WRITE_APPEND 0x1u   /* at the end of the file, whatever pos says; *pos_out gets where */
#define FILE_WRITE_DSYNC  0x2u   /* durable on return, with the size (O_DSYNC, O_SYNC) */
#define FILE_WRITE_SYNC   0x4u
#define FILE_WRITE_KILL_PRIV 0x8u /* drop setuid/setgid and security.capability, as Linux does for unprivileged writers */
#define FILE_WRITE_KEEP_TIMES 0x10u /* the caller (a FUSE kernel with writeback cache) sets the times itself */
#define FILE_WRITE_UNCACHED 0x20u /* the caller keeps the data: large pieces go to the device before the call returns */
#define FILE_WRITE_ROOT_BLOCKS 0x40u /* may take the blocks kept for root (s_r_blocks_count) */
#define FILE_WRITE_AS_OWNER 0x80u /* nobody knows who wrote it: the file's owner and group decide that */
ssize_t file_write(struct inode *inode, uint64_t pos, struct iov_cursor *from, unsigned flags, uint64_t *pos_out);

/* Caller holds inode.rwsem exclusive. Grows or shrinks; does not touch mode, and stamps mtime/ctime. -EFBIG, -ENOSPC, -EIO. */
int file_truncate_locked(struct inode *inode, uint64_t size_bytes);

/* mode: FALLOC_FL_* as Linux: 0, KEEP_SIZE, PUNCH_HOLE|KEEP_SIZE, ZERO_RANGE, COLLAPSE_RANGE, INSERT_RANGE; others -EOPNOTSUPP. */
#define FILE_FALLOC_KEEP_TIMES 0x40000000 /* in mode: the caller sets the times himself */
#define FILE_FALLOC_ROOT_BLOCKS 0x20000000 /* in mode: as FILE_WRITE_ROOT_BLOCKS */
int file_fallocate(struct inode *inode, int mode, uint64_t pos, uint64_t len);

/* Writes all dirty data and waits for it; then the size on disk is at least what it was in memory when the call began. */
int file_flush(struct inode *inode);

/* Data written and waited for, then the commit of the inode's tid (one shared with others), device flushed. Also for directories. */
int file_fsync(struct inode *inode, bool datasync);

int64_t file_seek(struct inode *inode, uint64_t pos, int whence); /* SEEK_DATA, SEEK_HOLE */

/*
 * Before and after the flags of @inode change so that inode_logs_data() does: what the old way has in flight is on disk, or in
 * the log; nothing that the new way does can be undone by it. Caller holds inode.rwsem exclusive.
 */
int file_logging_change_begin(struct inode *inode);
void file_flags_set(struct inode *inode, uint32_t flags);

struct file_extent {
	uint64_t logical_bytes, physical_bytes, len_bytes;
	uint32_t flags; /* FIEMAP_EXTENT_* of linux/fiemap.h */
};
/* From @pos on up to @max extents; *count_out filled. @sync writes delayed data first (FIEMAP_FLAG_SYNC). */
int file_fiemap(struct inode *inode, uint64_t pos, uint64_t len, bool sync, struct file_extent *extents, uint32_t max, uint32_t *count_out);

/* Slow symlinks longer than a block map: whole target of a symlink, fast or slow; NUL-terminated; *len_out without it. */
int symlink_read(struct inode *inode, char *buf, size_t buf_bytes, size_t *len_out);

#endif
