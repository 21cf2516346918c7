/* SPDX-License-Identifier: MIT */
/* namei_setattr.c - mode, owner, times, project and flags */
#include <errno.h>

#include "ext4/file.h"
#include "ext4/inode_format.h"
#include "ext4/inode_private.h"
#include "ext4/namei_private.h"
#include "ext4/xattr.h"

/* Flags that mean nothing on anything but directories; and all that device nodes, fifos and symlinks can have. */
#define FLAGS_OF_DIRS   (EXT4_DIRSYNC_FL | EXT4_TOPDIR_FL | EXT4_CASEFOLD_FL | EXT4_PROJINHERIT_FL)
#define FLAGS_OF_OTHERS (EXT4_NODUMP_FL | EXT4_NOATIME_FL)

static bool flags_fit_type(uint16_t mode, uint32_t flags)
{
	if (S_ISDIR(mode))
		return true;
	if (S_ISREG(mode))
		return !(flags & FLAGS_OF_DIRS);
	return !(flags & ~FLAGS_OF_OTHERS);
}

static int check_flags(const struct inode *inode, uint32_t flags)
{
	uint32_t changed = (inode->flags ^ flags) & EXT4_FL_USER_MODIFIABLE;

	if (!flags_fit_type(inode->mode, flags & EXT4_FL_USER_MODIFIABLE))
		return -EOPNOTSUPP;
	if (changed & EXT4_EXTENTS_FL) /* another mapping of all blocks: not done in place */
		return -EOPNOTSUPP;
	if ((changed & EXT4_CASEFOLD_FL) && !fs_has_incompat(inode->fs, EXT4_FEATURE_INCOMPAT_CASEFOLD))
		return -EOPNOTSUPP;
	return 0;
}

static int check_projid(const struct inode *inode, uint32_t projid)
{
	if (projid == inode->projid)
		return 0;
	if (!fs_has_ro_compat(inode->fs, EXT4_FEATURE_RO_COMPAT_PROJECT))
		return -EOPNOTSUPP;
	return EXT4_INODE_HAS_FIELD(inode->extra_isize, i_projid) ? 0 : -EOVERFLOW;
}

static int setattr_check(const struct inode *inode, const struct setattr_args *args)
{
	int err = 0;

	if (args->valid & SETATTR_FLAGS)
		err = check_flags(inode, args->flags);
	if (!err && (args->valid & SETATTR_PROJID))
		err = check_projid(inode, args->projid);
	return err;
}

static int switch_data_journalling(struct inode *inode, const struct setattr_args *args)
{
	if (!(args->valid & SETATTR_FLAGS) || !((inode->flags ^ args->flags) & EXT4_JOURNAL_DATA_FL) || !S_ISREG(inode->mode))
		return 0;
	return file_logging_change_begin(inode);
}

static void apply_times(struct inode *inode, const struct setattr_args *args)
{
	inode_stamp(inode, TIME_CTIME);
	mutex_lock(&inode->raw_lock);
	if (args->valid & SETATTR_ATIME)
		inode_time_set(&inode->atime, inode_clamp_time(inode, args->atime));
	if (args->valid & SETATTR_MTIME)
		inode_time_set(&inode->mtime, inode_clamp_time(inode, args->mtime));
	if (args->valid & SETATTR_CTIME)
		inode_time_set(&inode->ctime, inode_clamp_time(inode, args->ctime));
	mutex_unlock(&inode->raw_lock);
}

static void apply_fields(struct inode *inode, const struct setattr_args *args)
{
	if (args->valid & SETATTR_UID)
		inode->uid = args->uid;
	if (args->valid & SETATTR_GID)
		inode->gid = args->gid;
	if (args->valid & SETATTR_MODE)
		inode->mode = (uint16_t)((inode->mode & S_IFMT) | (args->mode & 07777u));
	if (args->valid & SETATTR_PROJID)
		inode->projid = args->projid;
	if (args->valid & SETATTR_FLAGS)
		file_flags_set(inode, (inode->flags & ~EXT4_FL_USER_MODIFIABLE) | (args->flags & EXT4_FL_USER_MODIFIABLE));
}

int namei_setattr(struct inode *inode, const struct setattr_args *args)
{
	bool changes_acl = (args->valid & SETATTR_MODE) && !S_ISLNK(inode->mode) && !inode_test(inode, INODE_NO_ACL);
	struct handle h;
	int err, err2;

	err = setattr_check(inode, args);
	if (!err)
		err = switch_data_journalling(inode, args);
	if (!err)
		err = fs_handle_start_for(inode->fs, args->root_blocks, 1 + (changes_acl ? XATTR_CREDITS : 0),
					  changes_acl ? XATTR_REVOKES : 0, &h);
	if (err)
		return err;
	h.sync = (inode->flags & EXT4_SYNC_FL) || (inode_is_dir(inode) && dir_is_sync(inode));
	apply_fields(inode, args);
	if (changes_acl)
		err = acl_chmod(&h, inode);
	apply_times(inode, args);
	err2 = inode_write(&h, inode);
	err = err ? err : err2;
	err2 = journal_stop(&h);
	return err ? err : err2;
}
