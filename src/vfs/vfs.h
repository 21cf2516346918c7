/* SPDX-License-Identifier: MIT */
/* vfs.h - a mounted file system as callers use it: names, permissions, caches of inodes and names */
#ifndef UEXT4_VFS_VFS_H
#define UEXT4_VFS_VFS_H

#include "base/lock.h"
#include "ext4/inode.h"
#include "ext4/super.h"
#include "vfs/perm.h"

struct icache;
struct dcache;
struct iov_cursor;

/*
 * L1  A thread waits for the rwsem of a second directory only while it holds rename_lock; everyone else tries, and
 *     starts again under rename_lock when the try fails. So directories cannot deadlock, whatever order a damaged
 *     image makes of parents and children.
 * L2  Where a directory and something that is no directory are both locked, the directory comes first.
 * L3  Parents of directories change only under rename_lock, so a walk up by ".." under it sees one tree.
 * L4  The last reference to an inode is given back without any lock but rename_lock held: it may truncate and free
 *     the inode.
 */
struct vfs {
	struct ext4_fs *fs;          /* [const] */
	struct icache *icache;       /* [const] */
	struct dcache *dcache;       /* [const] */
	struct inode *root;          /* [const] held */
	struct mutex rename_lock;    /* RANK_RENAME */
	bool check_permissions;      /* [const] */
	_Atomic uint32_t open_files; /* [atomic] */
};

/* ---- mount ---- */

/**
 * vfs_mount() - mount what is on @dev and load its root
 * @dev: owned by the vfs afterwards, also when this fails
 * Return: 0, or an error of ext4_mount(); -EUCLEAN if the root is no directory
 */
int vfs_mount(struct block_device *dev, const struct ext4_options *opt, const struct log_sink *log, const char *name,
	      bool check_permissions, struct vfs **vfs_out);
/* Writes everything, evicts every inode, unmounts. Frees @vfs in every case. Returns the first error. */
int vfs_unmount(struct vfs *vfs);

static inline struct vfs *vfs_of(const struct inode *inode)
{
	return inode->fs->vfs_private;
}

/* ---- nodes ---- */

/**
 * vfs_node_get() - the inode a caller names by number, loaded if need be
 * Return: 0 with a reference; -ESTALE (no such inode, or one of the file system's own), -EUCLEAN, -EBADMSG, -EIO, -ENOMEM
 */
int vfs_node_get(struct vfs *vfs, uint64_t ino, struct inode **inode_out);

struct vfs_attr {
	uint64_t ino, size, blocks; /* of 512 bytes, delayed ones included */
	uint32_t mode, nlink, uid, gid, block_bytes, generation, flags, projid;
	dev_t rdev;
	struct timespec atime, mtime, ctime, crtime;
};

#define VFS_SET_MODE      0x001u
#define VFS_SET_UID       0x002u
#define VFS_SET_GID       0x004u
#define VFS_SET_SIZE      0x008u
#define VFS_SET_ATIME     0x010u
#define VFS_SET_MTIME     0x020u
#define VFS_SET_CTIME     0x040u
#define VFS_SET_FLAGS     0x080u
#define VFS_SET_PROJID    0x100u
#define VFS_SET_ATIME_NOW 0x200u
#define VFS_SET_MTIME_NOW 0x400u
#define VFS_SET_KILL_PRIV 0x800u  /* with SIZE: drop setuid, setgid and security.capability */
#define VFS_SET_OPENED    0x1000u /* with SIZE: through a file open for writing, so its mode was checked then */
#define VFS_SET_CACHED_TIMES 0x2000u /* with MTIME: of writes that were allowed, kept by the caller's cache */
#define VFS_SET_ALL       0x3fffu

void vfs_getattr(struct inode *inode, struct vfs_attr *attr_out);
/* Checks as Linux's notify_change() and ext4 do, then applies size and the rest. */
int vfs_setattr(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, const struct vfs_attr *attr,
		uint32_t which);

/* ---- names: @name of @len bytes, not NUL-terminated; inodes come back with a reference ---- */

int vfs_lookup(struct vfs *vfs, struct inode *dir, const char *name, size_t len, struct inode **inode_out);

struct vfs_make {
	uint32_t mode;       /* with type bits */
	dev_t rdev;
	const char *target;  /* of a symlink */
};
/* File, device, directory or symlink. -EEXIST comes before -EROFS, and that before permissions, as in Linux. */
int vfs_make(struct vfs *vfs, const struct vfs_cred *cred, struct inode *dir, const char *name, size_t len,
	     const struct vfs_make *make, struct inode **inode_out);
/* A regular file of permission bits @mode that no name leads to, as O_TMPFILE makes. @linkable: vfs_link() may give it one. */
int vfs_tmpfile(struct vfs *vfs, const struct vfs_cred *cred, struct inode *dir, uint32_t mode, bool linkable,
		struct inode **inode_out);
int vfs_link(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, struct inode *dir, const char *name,
	     size_t len);
int vfs_remove(struct vfs *vfs, const struct vfs_cred *cred, struct inode *dir, const char *name, size_t len,
	       bool is_rmdir);

struct vfs_rename {
	struct inode *old_dir, *new_dir;
	const char *old_name, *new_name;
	size_t old_len, new_len;
	unsigned flags;                /* RENAME_FLAG_* */
	bool old_slash, new_slash;     /* the paths ended in slashes: only a directory will do */
};
/* 0, or -EINVAL for flags that are unknown or exclude each other. */
int vfs_rename_check_flags(unsigned flags);
int vfs_rename(struct vfs *vfs, const struct vfs_cred *cred, const struct vfs_rename *rename);

/* ---- contents ---- */

int vfs_readlink(struct inode *inode, char *buf, size_t buf_bytes, size_t *len_out);
/* @flags: FILE_READ_*. */
ssize_t vfs_readv(struct inode *inode, const struct iovec *iov, int iov_count, int64_t pos, unsigned flags);
/* See iomap_splice_read(). */
int vfs_splice_read(struct inode *inode, int64_t pos, size_t len_bytes, int pipe_fd, int (*deliver)(void *arg), void *arg);
/* @flags: FILE_WRITE_*. *pos_out (may be NULL): where it went. */
ssize_t vfs_writev(struct inode *inode, const struct iovec *iov, int iov_count, int64_t pos, unsigned flags,
		   uint64_t *pos_out);
/*
 * By inode number, where nobody was asked whether he opens it to append: an append-only file takes only appends, -EPERM otherwise.
 * With FILE_WRITE_KEEP_TIMES pages of a cache above, which may repeat what it has.
 */
ssize_t vfs_writev_node(struct inode *inode, const struct iovec *iov, int iov_count, int64_t pos, unsigned flags);
int vfs_fallocate(struct inode *inode, int mode, int64_t pos, int64_t len);
int64_t vfs_seek(struct inode *inode, int64_t pos, int whence);
/* By inode number, where there is no open file to remember what was reported: once per node. */
int vfs_fsync_node(struct inode *inode, bool datasync);

struct vfs_dirent {
	uint64_t ino;
	uint64_t next_cookie;
	const char *name; /* NUL-terminated */
	uint8_t name_len;
	uint8_t type;
};
/* No lock is held while @emit runs. */
int vfs_readdir(struct inode *dir, uint64_t cookie, int (*emit)(void *arg, const struct vfs_dirent *entry), void *arg);
/* The same with each entry's inode, taken while the directory could not change; NULL for ".", ".." and what cannot be loaded. */
int vfs_readdir_plus(struct inode *dir, uint64_t cookie,
		     int (*emit)(void *arg, const struct vfs_dirent *entry, struct inode *inode), void *arg);

/* ---- extended attributes ---- */

ssize_t vfs_getxattr(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, const char *name, void *buf,
		     size_t buf_bytes);
ssize_t vfs_listxattr(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, char *buf, size_t buf_bytes);
/* @value NULL removes. @flags: XATTR_FLAG_*. */
int vfs_setxattr(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, const char *name,
		 const void *value, size_t len_bytes, unsigned flags);

#endif
