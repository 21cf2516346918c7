/* SPDX-License-Identifier: MIT */
/* path.c - calls on paths */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "api/api_private.h"
#include "vfs/icache.h"
#include "vfs/open_file.h"
#include "vfs/walk.h"

/* The one who calls and what he names, for calls on an existing inode. */
struct target {
	struct vfs_cred cred;
	struct inode *inode; /* held */
};

static int target_get(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow,
		      struct target *target_out)
{
	target_out->cred = api_cred(fs, cred);
	return walk_path(fs->vfs, &target_out->cred, path, follow, &target_out->inode);
}

static int path_stat(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow,
		     struct uext4_attr *attr_out)
{
	struct target target;
	int err = target_get(fs, cred, path, follow, &target);

	if (err)
		return err;
	api_getattr(target.inode, attr_out);
	icache_put(target.inode);
	return 0;
}

int uext4_stat(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, struct uext4_attr *attr_out)
{
	return path_stat(fs, cred, path, true, attr_out);
}

int uext4_lstat(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, struct uext4_attr *attr_out)
{
	return path_stat(fs, cred, path, false, attr_out);
}

int uext4_resolve(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow,
		  uext4_ino *ino_out)
{
	struct target target;
	int err = target_get(fs, cred, path, follow, &target);

	if (err)
		return err;
	*ino_out = target.inode->ino;
	icache_put(target.inode);
	return 0;
}

int uext4_setattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow,
		  const struct uext4_attr *attr, uint32_t which)
{
	struct vfs_attr change;
	struct target target;
	int err = target_get(fs, cred, path, follow, &target);

	if (err)
		return err;
	api_attr_in(attr, &change);
	err = vfs_setattr(fs->vfs, &target.cred, target.inode, &change, which);
	icache_put(target.inode);
	return err;
}

int uext4_truncate(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, off_t size)
{
	struct uext4_attr attr = { .size = (uint64_t)size };

	return size < 0 ? -EINVAL : uext4_setattr(fs, cred, path, true, &attr, UEXT4_SET_SIZE);
}

int uext4_readlink(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, char *buf, size_t buf_bytes)
{
	struct target target;
	size_t len;
	int err = target_get(fs, cred, path, false, &target);

	if (err)
		return err;
	err = vfs_readlink(target.inode, buf, buf_bytes, &len);
	icache_put(target.inode);
	return err;
}

/* ---- names ---- */

/* Up to the last component; walk_end() in every case. */
static int walk_begin(struct uext4_fs *fs, const struct vfs_cred *cred, const char *path, struct walk *walk)
{
	int err = walk_start(walk, fs->vfs, cred, path);

	return err ? err : walk_to_last(walk);
}

static int path_make(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, const struct vfs_make *make)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *inode;
	struct walk walk;
	int err = walk_begin(fs, &who, path, &walk);

	if (!err && walk.type != LAST_NAME)
		err = -EEXIST;
	if (!err && walk.slash && !S_ISDIR(make->mode)) {
		/* "name/" could only be a directory: one that is there, or nothing. */
		err = walk_last_inode(&walk, &inode);
		if (!err) {
			icache_put(inode);
			err = -EEXIST;
		}
	}
	if (!err)
		err = vfs_make(fs->vfs, &who, walk.dir, walk.name, walk.len, make, &inode);
	if (!err)
		icache_put(inode);
	walk_end(&walk);
	return err;
}

int uext4_mkdir(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, mode_t mode)
{
	struct vfs_make make = { .mode = S_IFDIR | (mode & 07777) };

	return path_make(fs, cred, path, &make);
}

int uext4_mknod(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, mode_t mode, dev_t rdev)
{
	struct vfs_make make = { .mode = mode & S_IFMT ? mode : mode | S_IFREG, .rdev = rdev };

	if (S_ISDIR(make.mode))
		return -EPERM;
	if (S_ISLNK(make.mode))
		return -EINVAL;
	return path_make(fs, cred, path, &make);
}

int uext4_symlink(struct uext4_fs *fs, const struct uext4_cred *cred, const char *target, const char *path)
{
	struct vfs_make make = { .mode = S_IFLNK | 0777, .target = target };

	return path_make(fs, cred, path, &make);
}

static int link_to(struct uext4_fs *fs, const struct vfs_cred *cred, struct inode *inode, const char *new_path)
{
	struct walk walk;
	int err = walk_begin(fs, cred, new_path, &walk);

	if (!err && walk.type != LAST_NAME)
		err = -EEXIST;
	if (!err && walk.slash)
		err = -ENOENT;
	if (!err)
		err = vfs_link(fs->vfs, cred, inode, walk.dir, walk.name, walk.len);
	walk_end(&walk);
	return err;
}

int uext4_link(struct uext4_fs *fs, const struct uext4_cred *cred, const char *old_path, const char *new_path)
{
	struct target old;
	int err = target_get(fs, cred, old_path, false, &old);

	if (err)
		return err;
	err = link_to(fs, &old.cred, old.inode, new_path);
	icache_put(old.inode);
	return err;
}

int uext4_link_file(struct uext4_file *file, const struct uext4_cred *cred, const char *new_path)
{
	const struct vfs_file *old = (const struct vfs_file *)file;
	struct uext4_fs fs = { .vfs = old->vfs };
	struct vfs_cred who = api_cred(&fs, cred);

	return link_to(&fs, &who, old->inode, new_path);
}

/* What the removal of a path gets that does not end in a name. */
static int unremovable(enum walk_last type, bool is_rmdir)
{
	if (!is_rmdir)
		return -EISDIR;
	switch (type) {
	case LAST_DOT:
		return -EINVAL;
	case LAST_DOTDOT:
		return -ENOTEMPTY;
	default:
		return -EBUSY;
	}
}

/* unlink("name/"): says what is wrong with it. */
static int unlink_with_slash(struct walk *walk)
{
	struct inode *inode;
	int err = walk_last_inode(walk, &inode);

	if (err)
		return err;
	err = inode_is_dir(inode) ? -EISDIR : -ENOTDIR;
	icache_put(inode);
	return err;
}

static int path_remove(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool is_rmdir)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct walk walk;
	int err = walk_begin(fs, &who, path, &walk);

	if (!err && walk.type != LAST_NAME)
		err = unremovable(walk.type, is_rmdir);
	if (!err && walk.slash && !is_rmdir)
		err = unlink_with_slash(&walk);
	if (!err)
		err = vfs_remove(fs->vfs, &who, walk.dir, walk.name, walk.len, is_rmdir);
	walk_end(&walk);
	return err;
}

int uext4_unlink(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path)
{
	return path_remove(fs, cred, path, false);
}

int uext4_rmdir(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path)
{
	return path_remove(fs, cred, path, true);
}

int uext4_rename(struct uext4_fs *fs, const struct uext4_cred *cred, const char *old_path, const char *new_path,
		 uint32_t flags)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct walk old = { 0 }, new = { 0 };
	int err = vfs_rename_check_flags(flags); /* before the paths are looked at, as Linux does */

	if (!err)
		err = walk_begin(fs, &who, old_path, &old);
	if (!err)
		err = walk_begin(fs, &who, new_path, &new);
	if (!err && old.type != LAST_NAME)
		err = -EBUSY;
	if (!err && new.type != LAST_NAME)
		err = flags & UEXT4_RENAME_NOREPLACE ? -EEXIST : -EBUSY;
	if (!err) {
		struct vfs_rename rename = {
			.old_dir = old.dir, .old_name = old.name, .old_len = old.len, .old_slash = old.slash,
			.new_dir = new.dir, .new_name = new.name, .new_len = new.len, .new_slash = new.slash,
			.flags = flags,
		};

		err = vfs_rename(fs->vfs, &who, &rename);
	}
	walk_end(&new);
	walk_end(&old);
	return err;
}

/* ---- directories ---- */

int uext4_readdir(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path,
		  int (*emit)(void *arg, const struct uext4_dirent *entry), void *arg)
{
	struct target target;
	int err = target_get(fs, cred, path, true, &target);

	if (err)
		return err;
	err = inode_is_dir(target.inode) ? perm_check(&target.cred, target.inode, MAY_READ) : -ENOTDIR;
	if (!err)
		err = uext4_node_readdir(fs, target.inode->ino, 0, emit, arg);
	icache_put(target.inode);
	return err;
}

/* ---- extended attributes ---- */

ssize_t uext4_getxattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow,
		       const char *name, void *buf, size_t buf_bytes)
{
	struct target target;
	ssize_t len = target_get(fs, cred, path, follow, &target);

	if (len)
		return len;
	len = vfs_getxattr(fs->vfs, &target.cred, target.inode, name, buf, buf_bytes);
	icache_put(target.inode);
	return len;
}

ssize_t uext4_listxattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow, char *buf,
			size_t buf_bytes)
{
	struct target target;
	ssize_t len = target_get(fs, cred, path, follow, &target);

	if (len)
		return len;
	len = vfs_listxattr(fs->vfs, &target.cred, target.inode, buf, buf_bytes);
	icache_put(target.inode);
	return len;
}

static int path_setxattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow,
			 const char *name, const void *value, size_t len_bytes, int flags)
{
	struct target target;
	int err = target_get(fs, cred, path, follow, &target);

	if (err)
		return err;
	err = vfs_setxattr(fs->vfs, &target.cred, target.inode, name, value, len_bytes, (unsigned)flags);
	icache_put(target.inode);
	return err;
}

int uext4_setxattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow, const char *name,
		   const void *value, size_t len_bytes, int flags)
{
	return path_setxattr(fs, cred, path, follow, name, value ? value : "", len_bytes, flags);
}

int uext4_removexattr(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, bool follow,
		      const char *name)
{
	return path_setxattr(fs, cred, path, follow, name, NULL, 0, 0);
}
