/* SPDX-License-Identifier: MIT */
/* attr.c - attributes of inodes */
#include <errno.h>

#include "ext4/file.h"
#include "ext4/namei.h"
#include "ext4/xattr.h"
#include "vfs/append_only.h"
#include "vfs/vfs.h"

#define SECTOR_BYTES 512u

void vfs_getattr(struct inode *inode, struct vfs_attr *attr_out)
{
	struct ext4_fs *fs = inode->fs;
	uint64_t delayed = atomic_load_explicit(&inode->reserved_blocks, memory_order_relaxed);

	*attr_out = (struct vfs_attr){
		.ino = inode->ino,
		.size = inode_size(inode),
		.mode = inode->mode,
		.nlink = inode->nlink,
		.uid = inode->uid,
		.gid = inode->gid,
		.projid = inode->projid,
		.block_bytes = fs->block_bytes,
		.generation = inode->generation,
		.flags = inode->flags & EXT4_FL_USER_VISIBLE,
		.rdev = inode->rdev,
	};
	mutex_lock(&inode->raw_lock);
	attr_out->blocks = inode->blocks_512 + delayed * (fs->block_bytes / SECTOR_BYTES);
	attr_out->atime = inode->atime;
	attr_out->mtime = inode->mtime;
	attr_out->ctime = inode->ctime;
	attr_out->crtime = inode->crtime;
	mutex_unlock(&inode->raw_lock);
}

/* ---- checks ---- */

#define SET_TIMES_GIVEN (VFS_SET_ATIME | VFS_SET_MTIME | VFS_SET_CTIME)
#define SET_TIMES_NOW   (VFS_SET_ATIME_NOW | VFS_SET_MTIME_NOW)

static int check_frozen_flags(const struct inode *inode, uint32_t which)
{
	if (which & VFS_SET_CACHED_TIMES)
		which &= ~SET_TIMES_GIVEN;
	if ((which & (VFS_SET_MODE | VFS_SET_UID | VFS_SET_GID | SET_TIMES_GIVEN)) &&
	    (inode->flags & (EXT4_IMMUTABLE_FL | EXT4_APPEND_FL)))
		return -EPERM;
	if ((which & SET_TIMES_NOW) && (inode->flags & EXT4_IMMUTABLE_FL))
		return -EPERM;
	return 0;
}

static int check_chown(const struct vfs_cred *cred, const struct inode *inode, const struct vfs_attr *attr,
		       uint32_t which)
{
	if (cred->privileged)
		return 0;
	if ((which & VFS_SET_UID) && (cred->uid != inode->uid || attr->uid != inode->uid))
		return -EPERM;
	if ((which & VFS_SET_GID) &&
	    (cred->uid != inode->uid || (attr->gid != inode->gid && !cred_in_group(cred, attr->gid))))
		return -EPERM;
	return 0;
}

static int check_times(const struct vfs_cred *cred, struct inode *inode, uint32_t which)
{
	if (cred_owns(cred, inode))
		return 0;
	if (which & SET_TIMES_GIVEN)
		return -EPERM;
	/* Touching is allowed to whoever may write. */
	return which & SET_TIMES_NOW ? perm_check(cred, inode, MAY_WRITE) : 0;
}

/* Only root turns the two flags on or off that bind root too, or has data journalled. */
static int check_flags(const struct vfs_cred *cred, const struct inode *inode, const struct vfs_attr *attr)
{
	uint32_t changed = (attr->flags ^ inode->flags) & EXT4_FL_USER_MODIFIABLE;

	if (!cred_owns(cred, inode))
		return -EPERM;
	if ((changed & (EXT4_APPEND_FL | EXT4_IMMUTABLE_FL | EXT4_JOURNAL_DATA_FL)) && !cred->privileged)
		return -EPERM;
	return 0;
}

static int check_size(const struct vfs_cred *cred, struct inode *inode, const struct vfs_attr *attr, uint32_t which)
{
	int err;

	if (inode_is_dir(inode))
		return -EISDIR;
	if (!S_ISREG(inode->mode))
		return -EINVAL;
	err = which & VFS_SET_OPENED ? 0 : perm_check(cred, inode, MAY_WRITE);
	if (err)
		return err;
	if (inode->flags & (EXT4_APPEND_FL | EXT4_IMMUTABLE_FL))
		return -EPERM;
	return attr->size > INT64_MAX ? -EINVAL : 0;
}

static int setattr_check(const struct vfs_cred *cred, struct inode *inode, const struct vfs_attr *attr,
			 uint32_t which)
{
	int err = 0;

	if (fs_is_read_only(inode->fs))
		return -EROFS;
	if (which & VFS_SET_SIZE)
		err = check_size(cred, inode, attr, which);
	if (!err)
		err = check_frozen_flags(inode, which);
	if (!err)
		err = check_chown(cred, inode, attr, which);
	if (!err && (which & VFS_SET_MODE) && !cred_owns(cred, inode))
		err = -EPERM;
	if (!err)
		err = check_times(cred, inode, which);
	if (!err && (which & VFS_SET_FLAGS))
		err = check_flags(cred, inode, attr);
	if (!err && (which & VFS_SET_PROJID) && !cred_owns(cred, inode))
		err = -EPERM;
	return err;
}

/* ---- changes ---- */

static void fill_mode(const struct vfs_cred *cred, const struct inode *inode, const struct vfs_attr *attr,
		      uint32_t which, struct setattr_args *args)
{
	uint16_t type = inode->mode & S_IFMT;
	uint16_t mode = inode->mode & 07777;

	if (which & VFS_SET_MODE) {
		uint32_t gid = which & VFS_SET_GID ? attr->gid : inode->gid;

		mode = (uint16_t)(attr->mode & 07777);
		if (!cred->privileged && !cred_in_group(cred, gid))
			mode &= (uint16_t)~S_ISGID;
	} else if ((which & (VFS_SET_UID | VFS_SET_GID)) && !S_ISDIR(type)) {
		mode = perm_mode_without_suid(cred, mode, inode->gid);
	} else if (which & VFS_SET_KILL_PRIV) {
		mode = perm_mode_without_suid(cred, mode, inode->gid);
	}
	if ((which & VFS_SET_MODE) || (type | mode) != inode->mode) {
		args->valid |= SETATTR_MODE;
		args->mode = type | mode;
	}
}

static void fill_owner(const struct vfs_attr *attr, uint32_t which, struct setattr_args *args)
{
	if (which & VFS_SET_UID)
		args->valid |= SETATTR_UID;
	if (which & VFS_SET_GID)
		args->valid |= SETATTR_GID;
	if (which & VFS_SET_PROJID)
		args->valid |= SETATTR_PROJID;
	args->uid = attr->uid;
	args->gid = attr->gid;
	args->projid = attr->projid;
}

static void fill_times(const struct inode *inode, const struct vfs_attr *attr, uint32_t which,
		       struct setattr_args *args)
{
	struct timespec now = fs_now(inode->fs);

	if (which & (VFS_SET_ATIME | VFS_SET_ATIME_NOW)) {
		args->valid |= SETATTR_ATIME;
		args->atime = which & VFS_SET_ATIME_NOW ? now : inode_clamp_time(inode, attr->atime);
	}
	if (which & (VFS_SET_MTIME | VFS_SET_MTIME_NOW)) {
		args->valid |= SETATTR_MTIME;
		args->mtime = which & VFS_SET_MTIME_NOW ? now : inode_clamp_time(inode, attr->mtime);
	}
	if (which & VFS_SET_CTIME) {
		args->valid |= SETATTR_CTIME;
		args->ctime = inode_clamp_time(inode, attr->ctime);
	}
}

/* Extended attributes take a handle of their own; a file without the capability has nothing to lose. */
static int drop_capability(struct inode *inode)
{
	int err;

	if (inode_test(inode, INODE_NO_XATTR) || xattr_get(inode, "security.capability", NULL, 0) < 0)
		return 0;
	err = xattr_set(inode, "security.capability", NULL, 0, XATTR_FLAG_ROOT_BLOCKS); /* not the caller's wish */
	return err == -ENODATA ? 0 : err;
}

static int setattr_locked(const struct vfs_cred *cred, struct inode *inode, const struct vfs_attr *attr,
			  uint32_t which)
{
	struct setattr_args args = { .root_blocks = cred_has_root_blocks(cred, inode->fs) };
	int err = setattr_check(cred, inode, attr, which);

	if (err)
		return err;
	fill_mode(cred, inode, attr, which, &args);
	fill_owner(attr, which, &args);
	fill_times(inode, attr, which, &args);
	if (which & VFS_SET_FLAGS) {
		args.valid |= SETATTR_FLAGS;
		args.flags = attr->flags & EXT4_FL_USER_MODIFIABLE;
	}
	if (S_ISREG(inode->mode) && (which & (VFS_SET_UID | VFS_SET_GID | VFS_SET_KILL_PRIV)))
		err = drop_capability(inode);
	if (!err && (which & VFS_SET_SIZE))
		err = file_truncate_locked(inode, attr->size);
	if (!err && args.valid)
		err = namei_setattr(inode, &args);
	if (!err && (which & VFS_SET_FLAGS))
		append_only_restart(inode);
	return err;
}

int vfs_setattr(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, const struct vfs_attr *attr,
		uint32_t which)
{
	int err;

	if (which & ~VFS_SET_ALL)
		return -EINVAL;
	/* Whoever may not keep setuid files as he writes them does not keep them as he cuts them either. */
	if ((which & VFS_SET_SIZE) && !cred->privileged)
		which |= VFS_SET_KILL_PRIV;
	rwsem_write_lock(&inode->rwsem);
	err = setattr_locked(cred, inode, attr, which);
	rwsem_write_unlock(&inode->rwsem);
	return err;
}
