/* SPDX-License-Identifier: MIT */
/* name_ops.c - making, linking and removing names */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "vfs/dcache.h"
#include "vfs/icache.h"
#include "vfs/names.h"
#include "vfs/vfs.h"

/* ---- making ---- */

/*
 * May @name be made in @dir? In Linux's order of answers: search permission, -EEXIST, -EROFS, write permission.
 * Caller: dir->rwsem exclusive.
 */
static int check_new_name(struct vfs *vfs, const struct vfs_cred *cred, struct inode *dir, const struct name *name)
{
	ino_num ino;
	int err = perm_check(cred, dir, MAY_EXEC);

	if (err)
		return err;
	if (name_is_dot(name->str, name->len) || name_is_dotdot(name->str, name->len))
		return -EEXIST;
	if (dir->nlink == 0)
		return -ENOENT;
	err = name_find_ino(vfs, dir, name, &ino);
	if (err != -ENOENT)
		return err ? err : -EEXIST;
	if (fs_is_read_only(vfs->fs))
		return -EROFS;
	return perm_may_create(cred, dir);
}

/* Anybody may make a whiteout, device 0:0; other device nodes are root's. */
static int check_type(const struct vfs_cred *cred, const struct vfs_make *make)
{
	switch (make->mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFLNK:
		return 0;
	case S_IFCHR:
		if (make->rdev == makedev(0, 0))
			return 0;
		return cred->privileged ? 0 : -EPERM;
	case S_IFBLK:
		return cred->privileged ? 0 : -EPERM;
	default:
		return -EINVAL;
	}
}

static void create_args_fill(const struct vfs_cred *cred, const struct inode *dir, const struct vfs_make *make,
			     struct create_args *args)
{
	*args = (struct create_args){
		.mode = (uint16_t)make->mode,
		.umask = (uint16_t)(cred->umask & 0777),
		.uid = cred->uid,
		.gid = cred->gid,
		.root_blocks = cred_has_root_blocks(cred, dir->fs),
		.in_group_or_capable = cred->privileged || cred_in_group(cred, dir->gid),
		.rdev = make->rdev,
		.symlink_target = make->target,
		.symlink_len = make->target ? strlen(make->target) : 0,
	};
	if (S_ISDIR(make->mode))
		args->mode &= S_IFMT | 0777 | S_ISVTX;
	if (S_ISLNK(make->mode)) {
		args->mode = S_IFLNK | 0777;
		args->umask = 0;
	}
}

static int make_locked(struct vfs *vfs, const struct vfs_cred *cred, struct inode *dir, const struct name *name,
		       const struct vfs_make *make, struct inode *inode)
{
	struct create_args args;
	int err = check_new_name(vfs, cred, dir, name);

	if (err)
		return err;
	err = check_type(cred, make);
	if (err)
		return err;
	create_args_fill(cred, dir, make, &args);
	err = namei_create(dir, name, &args, inode);
	if (err)
		return err;
	icache_insert_new(vfs->icache, inode);
	dcache_set(vfs->dcache, dir->ino, name->str, name->len, inode->ino);
	return 0;
}

int vfs_make(struct vfs *vfs, const struct vfs_cred *cred, struct inode *dir, const char *name, size_t len,
	     const struct vfs_make *make, struct inode **inode_out)
{
	struct inode *inode;
	struct name checked;
	int err = name_check(dir, name, len, &checked);

	if (err)
		return err;
	if (S_ISLNK(make->mode) && (!make->target[0] || strlen(make->target) >= PATH_MAX))
		return make->target[0] ? -ENAMETOOLONG : -ENOENT;
	inode = inode_alloc(vfs->fs);
	if (!inode)
		return -ENOMEM;
	rwsem_write_lock(&dir->rwsem);
	err = make_locked(vfs, cred, dir, &checked, make, inode);
	rwsem_write_unlock(&dir->rwsem);
	if (err)
		inode_free(inode);
	else
		*inode_out = inode;
	return err;
}

/* Caller: dir->rwsem. */
static int tmpfile_locked(const struct vfs_cred *cred, struct inode *dir, uint32_t mode, struct inode *inode)
{
	struct vfs_make make = { .mode = S_IFREG | (mode & 07777) };
	struct create_args args;
	int err = perm_check(cred, dir, MAY_WRITE | MAY_EXEC);

	if (err)
		return err;
	create_args_fill(cred, dir, &make, &args);
	args.unnamed = true;
	return namei_tmpfile(dir, &args, inode);
}

int vfs_tmpfile(struct vfs *vfs, const struct vfs_cred *cred, struct inode *dir, uint32_t mode, bool linkable,
		struct inode **inode_out)
{
	struct inode *inode;
	int err;

	if (!inode_is_dir(dir))
		return -ENOTDIR;
	inode = inode_alloc(vfs->fs);
	if (!inode)
		return -ENOMEM;
	rwsem_read_lock(&dir->rwsem);
	err = tmpfile_locked(cred, dir, mode, inode);
	rwsem_read_unlock(&dir->rwsem);
	if (err) {
		inode_free(inode);
		return err;
	}
	if (linkable)
		inode_set(inode, INODE_LINKABLE);
	icache_insert_new(vfs->icache, inode);
	*inode_out = inode;
	return 0;
}

/* ---- linking ---- */

static int link_locked(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, struct inode *dir,
		       const struct name *name)
{
	int err = check_new_name(vfs, cred, dir, name);

	if (err)
		return err;
	if (inode->flags & (EXT4_APPEND_FL | EXT4_IMMUTABLE_FL))
		return -EPERM;
	if (inode_is_dir(inode))
		return -EPERM;
	rwsem_write_lock(&inode->rwsem);
	err = namei_link(inode, dir, name, cred_has_root_blocks(cred, dir->fs));
	rwsem_write_unlock(&inode->rwsem);
	if (!err)
		dcache_set(vfs->dcache, dir->ino, name->str, name->len, inode->ino);
	return err;
}

int vfs_link(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, struct inode *dir, const char *name,
	     size_t len)
{
	struct name checked;
	int err = name_check(dir, name, len, &checked);

	if (err)
		return err;
	rwsem_write_lock(&dir->rwsem);
	err = link_locked(vfs, cred, inode, dir, &checked);
	rwsem_write_unlock(&dir->rwsem);
	return err;
}

/* ---- removing ---- */

/* What a removal of "." or ".." gets; 0 for other names. */
static int check_removable(const char *name, size_t len, bool is_rmdir)
{
	if (name_is_dot(name, len))
		return is_rmdir ? -EINVAL : -EISDIR;
	if (name_is_dotdot(name, len))
		return is_rmdir ? -ENOTEMPTY : -EISDIR;
	return 0;
}

/* Caller: both locked. */
static int remove_locked(struct vfs *vfs, struct inode *dir, const struct name *name, struct inode *victim,
			 bool is_rmdir)
{
	int err;

	dcache_drop(vfs->dcache, dir->ino, name->str, name->len);
	err = is_rmdir ? namei_rmdir(dir, name, victim) : namei_unlink(dir, name, victim);
	if (err)
		return err;
	dcache_set(vfs->dcache, dir->ino, name->str, name->len, DENTRY_NEGATIVE);
	if (is_rmdir)
		dcache_drop_dir(vfs->dcache, victim->ino);
	return 0;
}

#define REMOVE_SERIALLY 1 /* a directory was not free for the taking: again, under rename_lock (L1) */

/* Caller: dir->rwsem exclusive. The victim comes back with a reference in every case, or NULL. */
static int remove_from(struct vfs *vfs, const struct vfs_cred *cred, struct inode *dir, const struct name *name,
		       bool is_rmdir, bool serial, struct inode **victim_out)
{
	struct inode *victim;
	int err = perm_check(cred, dir, MAY_EXEC);

	if (err)
		return err;
	if (dir->nlink == 0)
		return -ENOENT;
	err = name_find(vfs, dir, name, &victim);
	if (err)
		return err;
	*victim_out = victim;
	err = perm_may_delete(cred, dir, victim, is_rmdir);
	if (err)
		return err;
	if (victim == dir)
		return INODE_ERROR(dir, -EUCLEAN, 0, "directory contains itself");
	if (!is_rmdir || serial)
		rwsem_write_lock(&victim->rwsem);
	else if (!rwsem_write_trylock(&victim->rwsem))
		return REMOVE_SERIALLY;
	err = remove_locked(vfs, dir, name, victim, is_rmdir);
	rwsem_write_unlock(&victim->rwsem);
	return err;
}

int vfs_remove(struct vfs *vfs, const struct vfs_cred *cred, struct inode *dir, const char *name, size_t len,
	       bool is_rmdir)
{
	struct name checked;
	bool serial = false;
	int err = check_removable(name, len, is_rmdir);

	if (err)
		return err;
	if (fs_is_read_only(vfs->fs))
		return -EROFS;
	err = name_check(dir, name, len, &checked);
	if (err)
		return err;
	for (;;) {
		struct inode *victim = NULL;

		if (serial)
			mutex_lock(&vfs->rename_lock);
		rwsem_write_lock(&dir->rwsem);
		err = remove_from(vfs, cred, dir, &checked, is_rmdir, serial, &victim);
		rwsem_write_unlock(&dir->rwsem);
		if (serial)
			mutex_unlock(&vfs->rename_lock);
		icache_put(victim);
		if (err != REMOVE_SERIALLY)
			return err;
		serial = true;
	}
}
