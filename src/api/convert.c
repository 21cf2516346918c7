/* SPDX-License-Identifier: MIT */
/* convert.c - public structures to vfs's and back */
#include "api/api_private.h"

#include "ext4/file.h"
#include "ext4/namei.h"
#include "ext4/xattr.h"

/* Flags go through as they are. */
static_assert(UEXT4_SET_MODE == VFS_SET_MODE && UEXT4_SET_UID == VFS_SET_UID && UEXT4_SET_GID == VFS_SET_GID &&
		      UEXT4_SET_SIZE == VFS_SET_SIZE && UEXT4_SET_ATIME == VFS_SET_ATIME &&
		      UEXT4_SET_MTIME == VFS_SET_MTIME && UEXT4_SET_CTIME == VFS_SET_CTIME &&
		      UEXT4_SET_FLAGS == VFS_SET_FLAGS && UEXT4_SET_PROJID == VFS_SET_PROJID &&
		      UEXT4_SET_ATIME_NOW == VFS_SET_ATIME_NOW && UEXT4_SET_MTIME_NOW == VFS_SET_MTIME_NOW &&
		      UEXT4_SET_KILL_PRIV == VFS_SET_KILL_PRIV && UEXT4_SET_OPENED == VFS_SET_OPENED && UEXT4_SET_CACHED_TIMES == VFS_SET_CACHED_TIMES,
	      "UEXT4_SET_* are VFS_SET_*");
static_assert(UEXT4_WRITE_APPEND == FILE_WRITE_APPEND && UEXT4_WRITE_DSYNC == FILE_WRITE_DSYNC &&
		      UEXT4_WRITE_SYNC == FILE_WRITE_SYNC && UEXT4_WRITE_KILL_PRIV == FILE_WRITE_KILL_PRIV &&
		      UEXT4_WRITE_KEEP_TIMES == FILE_WRITE_KEEP_TIMES && UEXT4_WRITE_UNCACHED == FILE_WRITE_UNCACHED &&
		      UEXT4_WRITE_ROOT_BLOCKS == FILE_WRITE_ROOT_BLOCKS && UEXT4_WRITE_AS_OWNER == FILE_WRITE_AS_OWNER,
	      "UEXT4_WRITE_* are FILE_WRITE_*");
static_assert(UEXT4_FALLOC_KEEP_TIMES == FILE_FALLOC_KEEP_TIMES && UEXT4_FALLOC_ROOT_BLOCKS == FILE_FALLOC_ROOT_BLOCKS,
	      "UEXT4_FALLOC_* are FILE_FALLOC_*");
static_assert(UEXT4_RENAME_NOREPLACE == RENAME_FLAG_NOREPLACE && UEXT4_RENAME_EXCHANGE == RENAME_FLAG_EXCHANGE &&
		      UEXT4_RENAME_WHITEOUT == RENAME_FLAG_WHITEOUT,
	      "UEXT4_RENAME_* are RENAME_FLAG_*");
static_assert(UEXT4_XATTR_CREATE == XATTR_FLAG_CREATE && UEXT4_XATTR_REPLACE == XATTR_FLAG_REPLACE,
	      "UEXT4_XATTR_* are XATTR_FLAG_*");

struct vfs_cred api_cred(const struct uext4_fs *fs, const struct uext4_cred *cred)
{
	struct vfs_cred out = { .is_root = true, .checked = fs->vfs->check_permissions };

	if (cred) {
		out.uid = cred->uid;
		out.gid = cred->gid;
		out.groups = cred->groups;
		out.group_count = cred->groups ? cred->group_count : 0;
		out.umask = cred->umask;
		out.is_root = cred->uid == 0;
	}
	out.privileged = out.is_root || !out.checked;
	return out;
}

void api_attr_out(const struct vfs_attr *from, struct uext4_attr *to)
{
	*to = (struct uext4_attr){
		.ino = from->ino,
		.size = from->size,
		.blocks = from->blocks,
		.mode = from->mode,
		.nlink = from->nlink,
		.uid = from->uid,
		.gid = from->gid,
		.block_bytes = from->block_bytes,
		.generation = from->generation,
		.flags = from->flags,
		.projid = from->projid,
		.rdev = from->rdev,
		.atime = from->atime,
		.mtime = from->mtime,
		.ctime = from->ctime,
		.crtime = from->crtime,
	};
}

void api_attr_in(const struct uext4_attr *from, struct vfs_attr *to)
{
	*to = (struct vfs_attr){
		.size = from->size,
		.mode = from->mode,
		.uid = from->uid,
		.gid = from->gid,
		.flags = from->flags,
		.projid = from->projid,
		.atime = from->atime,
		.mtime = from->mtime,
		.ctime = from->ctime,
	};
}

void api_getattr(struct inode *inode, struct uext4_attr *attr_out)
{
	struct vfs_attr attr;

	vfs_getattr(inode, &attr);
	api_attr_out(&attr, attr_out);
}
