/* SPDX-License-Identifier: MIT */
/*
 * uext4.h - ext4 in user space: the public interface
 *
 * Every function returns 0 (or a count) or a negative errno; nothing touches errno, signals, standard streams
 * or the process's credentials. A struct uext4_fs may be used from any number of threads at once. Structures that may
 * grow begin with struct_bytes: the caller sets it to sizeof the structure it was compiled with.
 *
 * Two sets of calls: *path* calls on names and open files, as POSIX has them; and *node* calls on inode numbers, for
 * servers (FUSE, NFS, 9P). Node numbers stay valid while the server holds a lookup on them.
 */
#ifndef UEXT4_H
#define UEXT4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UEXT4_API __attribute__((visibility("default")))

struct uext4_fs;
struct uext4_file;
typedef uint64_t uext4_ino;
#define UEXT4_ROOT_INO ((uext4_ino)2)

/* ---- opening a file system ---- */

struct uext4_options {
	size_t struct_bytes;
	const char *mount_options;  /* as `-o`: "ro,commit=1,cache_size=64M,partition=2"; NULL: defaults */
	/* Messages, one line each without newline; level as syslog (3 error, 4 warning, 6 info). Any thread. NULL: dropped. */
	void (*log)(void *arg, int level, const char *text);
	void *log_arg;
	bool check_permissions;     /* check callers' credentials as Linux does; else every call is allowed */
};

/**
 * uext4_open_fs() - open an ext2, ext3 or ext4 image or block device
 * Replays the journal, processes orphans. Read-write unless "ro". One read-write user per image.
 * Return: 0; -ENOENT (also: no such partition), -ENODATA (no partition table), -EACCES, -EISDIR, -EBUSY (in use),
 *         -EROFS (read-only file opened read-write), -EINVAL (no ext4 there, bad option: said in the log), -EOPNOTSUPP (unsupported feature, named in the log), -EUCLEAN or -EBADMSG (corrupt), -EIO, -ENOMEM
 */
UEXT4_API int uext4_open_fs(const char *image, const struct uext4_options *options, struct uext4_fs **fs_out);

/* A device of the caller's. All calls may come from several threads at once. Positions and lengths are multiples of 512. */
struct uext4_device_ops {
	size_t struct_bytes;
	int (*read)(void *device, void *buf, size_t len_bytes, uint64_t pos_bytes);
	int (*write)(void *device, const void *buf, size_t len_bytes, uint64_t pos_bytes); /* NULL: read-only */
	int (*flush)(void *device);                                                         /* NULL: writes are durable at once */
	int (*discard)(void *device, uint64_t len_bytes, uint64_t pos_bytes);               /* NULL: none */
	void (*close)(void *device);                                                        /* NULL: none */
};
UEXT4_API int uext4_open_device(const struct uext4_device_ops *ops, void *device, uint64_t size_bytes,
				const struct uext4_options *options, struct uext4_fs **fs_out);
/* An image in memory that the caller keeps; changes are made in place. */
UEXT4_API int uext4_open_memory(void *image, uint64_t size_bytes, const struct uext4_options *options,
				struct uext4_fs **fs_out);
/* Everything on disk and the image clean, or an error. Open files must be closed. Frees @fs in every case. */
UEXT4_API int uext4_close_fs(struct uext4_fs *fs);
UEXT4_API bool uext4_is_read_only(const struct uext4_fs *fs);
UEXT4_API const char *uext4_version(void);

/* ---- attributes ---- */

/* Who calls. NULL in its place: the superuser. */
struct uext4_cred {
	uint32_t uid, gid;
	const uint32_t *groups;
	uint32_t group_count;
	uint32_t umask;          /* applied to new files unless the parent has a default ACL */
};

struct uext4_attr {
	uint64_t ino, size, blocks; /* blocks of 512 bytes */
	uint32_t mode, nlink, uid, gid, block_bytes, generation;
	uint32_t flags;             /* FS_*_FL as FS_IOC_GETFLAGS */
	uint32_t projid;
	dev_t rdev;
	struct timespec atime, mtime, ctime, crtime;
};

#define UEXT4_SET_MODE   0x01u
#define UEXT4_SET_UID    0x02u
#define UEXT4_SET_GID    0x04u
#define UEXT4_SET_SIZE   0x08u
#define UEXT4_SET_ATIME  0x10u
#define UEXT4_SET_MTIME  0x20u
#define UEXT4_SET_CTIME  0x40u
#define UEXT4_SET_FLAGS  0x80u
#define UEXT4_SET_PROJID 0x100u
#define UEXT4_SET_ATIME_NOW 0x200u
#define UEXT4_SET_MTIME_NOW 0x400u
#define UEXT4_SET_KILL_PRIV 0x800u  /* with SIZE: drop setuid, setgid and security.capability */
#define UEXT4_SET_OPENED    0x1000u /* with SIZE: through a file open for writing, whose mode was checked then */
#define UEXT4_SET_CACHED_TIMES 0x2000u /* with MTIME: the caller kept it of writes that were allowed (FUSE writeback cache) */

struct uext4_statfs {
	uint64_t blocks, blocks_free, blocks_available, inodes, inodes_free, fsid;
	uint64_t inodes_orphaned;   /* without a name and still in use, or being cut: they will give space back */
	uint32_t block_bytes, name_max;
	uint32_t time_gran_ns;      /* times are kept to a multiple of it: 1, or a second on inodes of 128 bytes */
};

/* ---- node calls ---- */

/**
 * uext4_has_root_blocks() - is @cred one of those that the superblock keeps blocks for (mkfs -m)?
 * Root, the user resuid, and members of the group resgid if that is not 0 (mount options, or the superblock's). Everybody else is
 * told -ENOSPC while these blocks are still free: by whatever takes a cred, as it needs blocks for directories, symbolic links,
 * extended attributes; by the files that he opens by path; by writes to nodes, which are told with UEXT4_WRITE_ROOT_BLOCKS.
 * Whether permissions are checked does not matter, neither here nor there. Cheap, takes no lock.
 */
UEXT4_API bool uext4_has_root_blocks(const struct uext4_fs *fs, const struct uext4_cred *cred);

struct uext4_entry {
	uext4_ino ino;
	uint32_t generation;
	struct uext4_attr attr;
};

/* Each success that fills an entry adds one lookup to its node, to be given back with uext4_node_forget(). The root needs none. */
UEXT4_API int uext4_node_lookup(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name, struct uext4_entry *entry_out);
UEXT4_API void uext4_node_forget(struct uext4_fs *fs, uext4_ino ino, uint64_t lookups);
UEXT4_API int uext4_node_getattr(struct uext4_fs *fs, uext4_ino ino, struct uext4_attr *attr_out);
/* @which: UEXT4_SET_*; @attr_out may be NULL. */
UEXT4_API int uext4_node_setattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, const struct uext4_attr *attr, uint32_t which, struct uext4_attr *attr_out);
UEXT4_API int uext4_node_access(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, int mask);
UEXT4_API int uext4_node_readlink(struct uext4_fs *fs, uext4_ino ino, char *buf, size_t buf_bytes); /* NUL-terminated */
/* Any type but directory and symlink; mode with type bits (0: regular). -EEXIST. */
UEXT4_API int uext4_node_mknod(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name, uint32_t mode, dev_t rdev, struct uext4_entry *entry_out);
/**
 * uext4_node_tmpfile() - a regular file that no name leads to, as O_TMPFILE makes
 * @parent: the directory that group, ACLs, flags and project are inherited from
 * @mode:   permission bits
 *
 * It is gone with its last lookup, or at the next mount after a crash, unless uext4_node_link() has given it a name.
 * Return: 0; -EACCES, -EPERM (@parent is immutable or was removed), -ENOTDIR, -EROFS, -ENOSPC, -ESTALE, -EUCLEAN, -EIO, -ENOMEM
 */
UEXT4_API int uext4_node_tmpfile(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, uint32_t mode, struct uext4_entry *entry_out);
UEXT4_API int uext4_node_mkdir(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name, uint32_t mode, struct uext4_entry *entry_out);
UEXT4_API int uext4_node_symlink(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name, const char *target, struct uext4_entry *entry_out);
UEXT4_API int uext4_node_link(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, uext4_ino parent, const char *name, struct uext4_entry *entry_out);
UEXT4_API int uext4_node_unlink(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name);
UEXT4_API int uext4_node_rmdir(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name);
#define UEXT4_RENAME_NOREPLACE 1u
#define UEXT4_RENAME_EXCHANGE  2u
#define UEXT4_RENAME_WHITEOUT  4u
UEXT4_API int uext4_node_rename(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino old_parent, const char *old_name, uext4_ino new_parent, const char *new_name, uint32_t flags);

/* For a caller who caches what he reads: what is not in memory is read into his, and not kept. All of iov may be written to. */
#define UEXT4_READ_UNCACHED 0x1u
UEXT4_API ssize_t uext4_node_readv(struct uext4_fs *fs, uext4_ino ino, const struct iovec *iov, int iov_count, off_t pos, uint32_t flags);
/**
 * uext4_node_splice_read() - a range of a file into a pipe without copying it
 * @pos, @len_bytes: the range
 * @pipe_fd:  the writing end of a pipe; it is not waited for, so there has to be room for the range: a slot for each page of the image
 * @deliver:  called once the whole range is in the pipe: takes it out, and returns what this function is to return. The
 *            blocks stay this file's until then. It must not call back into the file system
 * @arg:      for @deliver
 *
 * For servers that hand on what they read. All or nothing: images whose bytes are in no memory that can be shared, and
 * ranges that are in part cached, sparse, not written or past the end give -EOPNOTSUPP, and uext4_node_readv() reads them.
 *
 * Return: @deliver's; -EOPNOTSUPP; -EAGAIN (no room in the pipe); -EINVAL, -EISDIR, -EIO, -EUCLEAN, -ENOMEM. Where
 *         @deliver was not called, the pipe may hold a part of the range
 */
UEXT4_API int uext4_node_splice_read(struct uext4_fs *fs, uext4_ino ino, off_t pos, size_t len_bytes, int pipe_fd, int (*deliver)(void *arg), void *arg);
#define UEXT4_WRITE_APPEND 0x1u
#define UEXT4_WRITE_DSYNC  0x2u
#define UEXT4_WRITE_SYNC   0x4u
#define UEXT4_WRITE_KILL_PRIV 0x8u   /* drop setuid, setgid and security.capability */
#define UEXT4_WRITE_KEEP_TIMES 0x10u /* pages of the caller's cache (FUSE writeback): it sets mtime itself */
#define UEXT4_WRITE_UNCACHED 0x20u   /* the caller caches the data: large pieces go to the device before the call returns, which may be short */
#define UEXT4_WRITE_ROOT_BLOCKS 0x40u /* of somebody who has them: uext4_has_root_blocks() */
#define UEXT4_WRITE_AS_OWNER 0x80u   /* nobody knows who wrote it: the file's owner and group decide whether it may take root's blocks */
/*
 * Up to the length of @iov, or a negative errno. -EPERM: immutable, or append-only and not at its end; pages of a cache may repeat
 * what an append-only file has. -ENOSPC, -EFBIG, -EROFS, -EIO, -EUCLEAN, -EINVAL, -EISDIR, -ESTALE, -ENOMEM.
 */
UEXT4_API ssize_t uext4_node_writev(struct uext4_fs *fs, uext4_ino ino, const struct iovec *iov, int iov_count, off_t pos, uint32_t flags);
UEXT4_API int uext4_node_fsync(struct uext4_fs *fs, uext4_ino ino, bool datasync);   /* directories too */
#define UEXT4_FALLOC_KEEP_TIMES 0x40000000 /* in mode: the caller sets mtime itself (FUSE writeback cache) */
#define UEXT4_FALLOC_ROOT_BLOCKS 0x20000000 /* in mode: as UEXT4_WRITE_ROOT_BLOCKS */
UEXT4_API int uext4_node_fallocate(struct uext4_fs *fs, uext4_ino ino, int mode, off_t pos, off_t len);
UEXT4_API off_t uext4_node_lseek(struct uext4_fs *fs, uext4_ino ino, off_t pos, int whence); /* SEEK_DATA, SEEK_HOLE */
/* Lets go of clean cached data: somebody above caches it. */
UEXT4_API void uext4_node_drop_cache(struct uext4_fs *fs, uext4_ino ino, off_t pos, off_t len);

struct uext4_extent {
	uint64_t logical, physical, length; /* bytes */
	uint32_t flags;                     /* FIEMAP_EXTENT_* */
};
UEXT4_API int uext4_node_fiemap(struct uext4_fs *fs, uext4_ino ino, uint64_t pos, uint64_t len, bool sync, struct uext4_extent *extents, uint32_t max, uint32_t *count_out);

struct uext4_dirent {
	uext4_ino ino;
	uint8_t type;          /* DT_* */
	uint8_t name_len;
	const char *name;      /* NUL-terminated, valid during the call */
	uint64_t next_cookie;
};
/* Emits entries from @cookie (0: start; any next_cookie later) until @emit returns non-zero; the entry it refused comes again next time. */
UEXT4_API int uext4_node_readdir(struct uext4_fs *fs, uext4_ino ino, uint64_t cookie, int (*emit)(void *arg, const struct uext4_dirent *entry), void *arg);

/*
 * The same with each entry's node and one lookup more on it, saving a uext4_node_lookup() for each. @entry is NULL
 * for "." and "..", and for what cannot be loaded. An entry that @emit refuses has no lookup added.
 */
UEXT4_API int uext4_node_readdirplus(struct uext4_fs *fs, uext4_ino ino, uint64_t cookie, int (*emit)(void *arg, const struct uext4_dirent *dirent, const struct uext4_entry *entry), void *arg);

#define UEXT4_XATTR_CREATE  1
#define UEXT4_XATTR_REPLACE 2
UEXT4_API ssize_t uext4_node_getxattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, const char *name, void *buf, size_t buf_bytes);
UEXT4_API ssize_t uext4_node_listxattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, char *buf, size_t buf_bytes);
UEXT4_API int uext4_node_setxattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, const char *name, const void *value, size_t len_bytes, int flags);
UEXT4_API int uext4_node_removexattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, const char *name);

UEXT4_API int uext4_statfs(struct uext4_fs *fs, struct uext4_statfs *statfs_out);
UEXT4_API int uext4_sync(struct uext4_fs *fs);

/* ---- path calls ---- */
/* Paths start at the root, with or without "/". Symlinks are followed as POSIX does (40 at most: -ELOOP), inside the image. */

/* As open(2), O_TMPFILE too. */
UEXT4_API int uext4_open(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, int flags, mode_t mode, struct uext4_file **file_out);
UEXT4_API int uext4_close(struct uext4_file *file);   /* returns a write error not yet seen by fsync */
UEXT4_API uext4_ino uext4_file_ino(const struct uext4_file *file);
UEXT4_API ssize_t uext4_pread(struct uext4_file *file, void *buf, size_t len_bytes, off_t pos);
UEXT4_API ssize_t uext4_pwrite(struct uext4_file *file, const void *buf, size_t len_bytes, off_t pos);
UEXT4_API ssize_t uext4_preadv(struct uext4_file *file, const struct iovec *iov, int iov_count, off_t pos);
UEXT4_API ssize_t uext4_pwritev(struct uext4_file *file, const struct iovec *iov, int iov_count, off_t pos);
UEXT4_API ssize_t uext4_read(struct uext4_file *file, void *buf, size_t len_bytes);        /* at the file's own position */
UEXT4_API ssize_t uext4_write(struct uext4_file *file, const void *buf, size_t len_bytes);
UEXT4_API off_t uext4_lseek(struct uext4_file *file, off_t offset, int whence);
UEXT4_API int uext4_fsync(struct uext4_file *file);
UEXT4_API int uext4_fdatasync(struct uext4_file *file);
UEXT4_API int uext4_ftruncate(struct uext4_file *file, off_t size);
UEXT4_API int uext4_fallocate(struct uext4_file *file, int mode, off_t pos, off_t len);
UEXT4_API int uext4_fstat(struct uext4_file *file, struct uext4_attr *attr_out);

UEXT4_API int uext4_stat(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, struct uext4_attr *attr_out);
UEXT4_API int uext4_lstat(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, struct uext4_attr *attr_out);
/* The node a path names, without a lookup count held; follow: also a last symlink. */
UEXT4_API int uext4_resolve(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow, uext4_ino *ino_out);
UEXT4_API int uext4_setattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow, const struct uext4_attr *attr, uint32_t which);
UEXT4_API int uext4_truncate(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, off_t size);
UEXT4_API int uext4_mkdir(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, mode_t mode);
UEXT4_API int uext4_mknod(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, mode_t mode, dev_t rdev);
UEXT4_API int uext4_symlink(struct uext4_fs *fs, const struct uext4_cred *cred, const char *target, const char *path);
UEXT4_API int uext4_link(struct uext4_fs *fs, const struct uext4_cred *cred, const char *old_path, const char *new_path);
/* A name for an open file, as linkat(2) with AT_EMPTY_PATH: also the first one of O_TMPFILE without O_EXCL; else -ENOENT if it has none. */
UEXT4_API int uext4_link_file(struct uext4_file *file, const struct uext4_cred *cred, const char *new_path);
UEXT4_API int uext4_unlink(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path);
UEXT4_API int uext4_rmdir(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path);
UEXT4_API int uext4_rename(struct uext4_fs *fs, const struct uext4_cred *cred, const char *old_path, const char *new_path, uint32_t flags);
UEXT4_API int uext4_readlink(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, char *buf, size_t buf_bytes);
UEXT4_API int uext4_readdir(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, int (*emit)(void *arg, const struct uext4_dirent *entry), void *arg);
UEXT4_API ssize_t uext4_getxattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow, const char *name, void *buf, size_t buf_bytes);
UEXT4_API ssize_t uext4_listxattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow, char *buf, size_t buf_bytes);
UEXT4_API int uext4_setxattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow, const char *name, const void *value, size_t len_bytes, int flags);
UEXT4_API int uext4_removexattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow, const char *name);

/* ---- counters ---- */

#define UEXT4_STATS_MAX 128
struct uext4_stat_item {
	const char *section, *key; /* static strings: "journal", "commits" */
	uint64_t value;
};
struct uext4_stats {
	size_t struct_bytes;
	uint32_t count;
	struct uext4_stat_item items[UEXT4_STATS_MAX];
};
UEXT4_API int uext4_stats(struct uext4_fs *fs, struct uext4_stats *stats_out);
/* The same as one JSON object: {"es":{"entries":...},...}. Returns the length needed, as snprintf. */
UEXT4_API int uext4_stats_json(struct uext4_fs *fs, char *buf, size_t buf_bytes);

#ifdef __cplusplus
}
#endif
#endif
