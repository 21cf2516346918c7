/* SPDX-License-Identifier: MIT */
/* open_file.h - open files: position, mode, and the write errors they have not seen yet */
#ifndef UEXT4_VFS_OPEN_FILE_H
#define UEXT4_VFS_OPEN_FILE_H

#include "base/lock.h"
#include "vfs/vfs.h"

struct vfs_file {
	struct vfs *vfs;          /* [const] */
	struct inode *inode;      /* [const] held */
	int flags;                /* [const] O_* */
	bool kill_priv;           /* [const] opened by somebody whose writes drop setuid and setgid */
	bool root_blocks;         /* [const] opened by somebody who may take the blocks kept for root */
	struct mutex pos_lock;    /* RANK_RENAME's place: taken before everything; two reads at one position take turns */
	int64_t pos;              /* [pos_lock] */
	_Atomic uint32_t wb_err;  /* [atomic] errseq sample */
};

/* As open(2). Regular files and directories; other types -ENXIO. */
int vfs_file_open(struct vfs *vfs, const struct vfs_cred *cred, const char *path, int flags, uint32_t mode,
		  struct vfs_file **file_out);
/* Frees it in every case; a write error that no fsync of this file has returned. */
int vfs_file_close(struct vfs_file *file);

ssize_t vfs_file_preadv(struct vfs_file *file, const struct iovec *iov, int iov_count, int64_t pos);
ssize_t vfs_file_pwritev(struct vfs_file *file, const struct iovec *iov, int iov_count, int64_t pos);
ssize_t vfs_file_read(struct vfs_file *file, void *buf, size_t len_bytes);
ssize_t vfs_file_write(struct vfs_file *file, const void *buf, size_t len_bytes);
int64_t vfs_file_seek(struct vfs_file *file, int64_t offset, int whence);
int vfs_file_fsync(struct vfs_file *file, bool datasync);
int vfs_file_truncate(struct vfs_file *file, int64_t size);
int vfs_file_fallocate(struct vfs_file *file, int mode, int64_t pos, int64_t len);

#endif
