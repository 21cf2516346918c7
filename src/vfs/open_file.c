/* SPDX-License-Identifier: MIT */
/* open_file.c - opening files, and calls on open ones */
#include "vfs/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "ext4/file.h"
#include "vfs/icache.h"
#include "vfs/walk.h"

/* O_TMPFILE has O_DIRECTORY in it. */
#define TMPFILE_BIT (O_TMPFILE & ~O_DIRECTORY)

static bool opens_for_write(int flags)
{
	return (flags & O_ACCMODE) == O_WRONLY || (flags & O_ACCMODE) == O_RDWR;
}

static bool opens_for_read(int flags)
{
	return (flags & O_ACCMODE) == O_RDONLY || (flags & O_ACCMODE) == O_RDWR;
}

/* ---- opening ---- */

/* What the last component leads to while it is looked at by open_last(). */
struct opening {
	struct walk walk;
	int flags;
	uint32_t mode;
	bool created;
	struct inode *inode; /* held; of O_TMPFILE at first the directory */
};

static int open_create(struct opening *o)
{
	struct walk *w = &o->walk;
	struct vfs_make make = { .mode = S_IFREG | (o->mode & 07777) };
	int err = vfs_make(w->vfs, w->cred, w->dir, w->name, w->len, &make, &o->inode);

	if (!err)
		o->created = true;
	return err;
}

/* The last component, made if it is missing and O_CREAT says so; a symlink is not followed yet. */
static int open_last(struct opening *o)
{
	struct walk *w = &o->walk;
	int err;

	if ((o->flags & O_CREAT) && w->type == LAST_NAME && w->slash)
		return -EISDIR;
	for (;;) {
		err = walk_last_inode(w, &o->inode);
		if (err != -ENOENT || !(o->flags & O_CREAT) || w->type != LAST_NAME || !inode_is_dir(w->dir))
			return err;
		err = open_create(o);
		/* Somebody else made it between the two: then it is opened, unless it had to be ours. */
		if (err != -EEXIST || (o->flags & O_EXCL))
			return err;
	}
}

static bool must_follow(const struct opening *o)
{
	if (!S_ISLNK(o->inode->mode))
		return false;
	if ((o->flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return false;
	return o->walk.slash || !(o->flags & O_NOFOLLOW);
}

static int open_resolve(struct opening *o)
{
	int err = walk_to_last(&o->walk);

	if (!err)
		err = open_last(o);
	while (!err && must_follow(o)) {
		struct inode *link = o->inode;

		o->inode = NULL;
		err = walk_follow(&o->walk, link);
		icache_put(link);
		if (!err)
			err = open_last(o);
	}
	return err;
}

/* O_TMPFILE with its O_DIRECTORY, without O_CREAT, and for writing. */
static int check_tmpfile_flags(int flags)
{
	if (!(flags & TMPFILE_BIT))
		return 0;
	return (flags & (O_TMPFILE | O_CREAT)) == O_TMPFILE && opens_for_write(flags) ? 0 : -EINVAL;
}

static int open_tmpfile(struct opening *o)
{
	struct inode *dir = o->inode;
	int err;

	o->inode = NULL;
	err = vfs_tmpfile(o->walk.vfs, o->walk.cred, dir, o->mode, !(o->flags & O_EXCL), &o->inode);
	icache_put(dir);
	o->created = !err;
	return err;
}

/* Type against flags, in Linux's order. */
static int check_openable(const struct opening *o)
{
	uint16_t mode = o->inode->mode;
	bool is_dir = S_ISDIR(mode);

	if ((o->flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) && !o->created)
		return -EEXIST;
	if ((o->flags & O_CREAT) && is_dir)
		return -EISDIR;
	if (S_ISLNK(mode))
		return o->flags & O_DIRECTORY ? -ENOTDIR : -ELOOP;
	if (((o->flags & O_DIRECTORY) || o->walk.slash) && !is_dir)
		return -ENOTDIR;
	if (is_dir && (opens_for_write(o->flags) || (o->flags & O_TRUNC)))
		return -EISDIR;
	return is_dir || S_ISREG(mode) ? 0 : -ENXIO;
}

static int check_open_permission(const struct opening *o)
{
	const struct vfs_cred *cred = o->walk.cred;
	struct inode *inode = o->inode;
	bool append_only = (inode->flags & EXT4_APPEND_FL) != 0;
	unsigned want = 0;
	int err = 0;

	if (opens_for_read(o->flags))
		want |= MAY_READ;
	if (opens_for_write(o->flags) || (o->flags & O_TRUNC))
		want |= MAY_WRITE;
	if (!o->created) /* who makes a file may open it, whatever its mode */
		err = perm_check(cred, inode, want);
	if (err)
		return err;
	if (append_only && ((opens_for_write(o->flags) && !(o->flags & O_APPEND)) || (o->flags & O_TRUNC)))
		return -EPERM;
	return (o->flags & O_NOATIME) && !cred_owns(cred, inode) ? -EPERM : 0;
}

static int open_truncate(const struct opening *o)
{
	struct vfs_attr attr = { .size = 0 };

	if (!(o->flags & O_TRUNC) || o->created || !S_ISREG(o->inode->mode))
		return 0;
	return vfs_setattr(o->walk.vfs, o->walk.cred, o->inode, &attr, VFS_SET_SIZE | VFS_SET_OPENED);
}

/* Takes the reference to the inode over. */
static int file_make(const struct opening *o, struct vfs_file **file_out)
{
	const struct vfs_cred *cred = o->walk.cred;
	struct vfs_file *file = malloc(sizeof(*file));

	if (!file)
		return -ENOMEM;
	*file = (struct vfs_file){
		.vfs = o->walk.vfs,
		.inode = o->inode,
		.flags = o->flags,
		.kill_priv = !cred->privileged,
		.root_blocks = cred_has_root_blocks(cred, o->inode->fs),
	};
	mutex_init(&file->pos_lock, RANK_RENAME);
	atomic_init(&file->wb_err, mapping_sample_error(&o->inode->mapping));
	atomic_fetch_add_explicit(&file->vfs->open_files, 1, memory_order_relaxed);
	*file_out = file;
	return 0;
}

int vfs_file_open(struct vfs *vfs, const struct vfs_cred *cred, const char *path, int flags, uint32_t mode,
		  struct vfs_file **file_out)
{
	struct opening o = { .flags = flags, .mode = mode };
	int err = check_tmpfile_flags(flags);

	if (err)
		return err;
	err = walk_start(&o.walk, vfs, cred, path);
	if (!err)
		err = open_resolve(&o);
	if (!err)
		err = flags & TMPFILE_BIT ? open_tmpfile(&o) : check_openable(&o);
	if (!err)
		err = check_open_permission(&o);
	if (!err)
		err = open_truncate(&o);
	if (!err)
		err = file_make(&o, file_out);
	walk_end(&o.walk);
	if (err)
		icache_put(o.inode);
	return err;
}

/* ---- write errors ---- */

/* The first error since this file was opened or last asked, once. */
static int file_take_error(struct vfs_file *file)
{
	uint32_t since = atomic_load(&file->wb_err);
	uint32_t seen = since;
	int err = mapping_check_error(&file->inode->mapping, &seen);

	if (seen != since)
		atomic_compare_exchange_strong(&file->wb_err, &since, seen);
	return err;
}

/* A reader is told nothing: he did not ask, and what he saw would be kept from the writer who opens the file to sync it. */
int vfs_file_close(struct vfs_file *file)
{
	int err = opens_for_write(file->flags) ? file_take_error(file) : 0;

	atomic_fetch_sub_explicit(&file->vfs->open_files, 1, memory_order_relaxed);
	mutex_exit(&file->pos_lock);
	icache_put(file->inode);
	free(file);
	return err;
}

int vfs_file_fsync(struct vfs_file *file, bool datasync)
{
	int err = file_fsync(file->inode, datasync);
	int old_err = file_take_error(file);

	return err ? err : old_err;
}

/* ---- reading and writing ---- */

static unsigned write_flags(const struct vfs_file *file)
{
	unsigned flags = 0;

	if (file->flags & O_APPEND)
		flags |= FILE_WRITE_APPEND;
	if (file->flags & O_DSYNC) /* O_SYNC contains it */
		flags |= (file->flags & O_SYNC) == O_SYNC ? FILE_WRITE_SYNC : FILE_WRITE_DSYNC;
	if (file->kill_priv)
		flags |= FILE_WRITE_KILL_PRIV;
	if (file->root_blocks)
		flags |= FILE_WRITE_ROOT_BLOCKS;
	return flags;
}

ssize_t vfs_file_preadv(struct vfs_file *file, const struct iovec *iov, int iov_count, int64_t pos)
{
	if (!opens_for_read(file->flags))
		return -EBADF;
	return vfs_readv(file->inode, iov, iov_count, pos, 0);
}

ssize_t vfs_file_pwritev(struct vfs_file *file, const struct iovec *iov, int iov_count, int64_t pos)
{
	if (!opens_for_write(file->flags))
		return -EBADF;
	return vfs_writev(file->inode, iov, iov_count, pos, write_flags(file), NULL);
}

ssize_t vfs_file_read(struct vfs_file *file, void *buf, size_t len_bytes)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len_bytes };
	ssize_t done;

	mutex_lock(&file->pos_lock);
	done = vfs_file_preadv(file, &iov, 1, file->pos);
	if (done > 0)
		file->pos += done;
	mutex_unlock(&file->pos_lock);
	return done;
}

ssize_t vfs_file_write(struct vfs_file *file, const void *buf, size_t len_bytes)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len_bytes };
	uint64_t where;
	ssize_t done;

	if (!opens_for_write(file->flags))
		return -EBADF;
	mutex_lock(&file->pos_lock);
	where = (uint64_t)file->pos;
	done = vfs_writev(file->inode, &iov, 1, file->pos, write_flags(file), &where);
	if (done > 0)
		file->pos = (int64_t)where + done;
	mutex_unlock(&file->pos_lock);
	return done;
}

/* Where @offset leads, or a negative errno. Caller: pos_lock. */
static int64_t seek_target(const struct vfs_file *file, int64_t offset, int whence)
{
	int64_t base = 0, target;

	switch (whence) {
	case SEEK_DATA:
	case SEEK_HOLE:
		return vfs_seek(file->inode, offset, whence);
	case SEEK_CUR:
		base = file->pos;
		break;
	case SEEK_END:
		base = (int64_t)inode_size(file->inode);
		break;
	case SEEK_SET:
		break;
	default:
		return -EINVAL;
	}
	if (__builtin_add_overflow(base, offset, &target))
		return -EOVERFLOW;
	return target < 0 ? -EINVAL : target;
}

int64_t vfs_file_seek(struct vfs_file *file, int64_t offset, int whence)
{
	int64_t target;

	mutex_lock(&file->pos_lock);
	target = seek_target(file, offset, whence);
	if (target >= 0)
		file->pos = target;
	mutex_unlock(&file->pos_lock);
	return target;
}

int vfs_file_truncate(struct vfs_file *file, int64_t size)
{
	struct vfs_attr attr = { .size = (uint64_t)size };
	struct vfs_cred cred = { .privileged = !file->kill_priv };

	if (size < 0 || !opens_for_write(file->flags))
		return -EINVAL;
	return vfs_setattr(file->vfs, &cred, file->inode, &attr, VFS_SET_SIZE | VFS_SET_OPENED);
}

int vfs_file_fallocate(struct vfs_file *file, int mode, int64_t pos, int64_t len)
{
	if (!opens_for_write(file->flags))
		return -EBADF;
	if (mode & FILE_FALLOC_ROOT_BLOCKS) /* not the caller's to say */
		return -EOPNOTSUPP;
	return vfs_fallocate(file->inode, file->root_blocks ? mode | FILE_FALLOC_ROOT_BLOCKS : mode, pos, len);
}
