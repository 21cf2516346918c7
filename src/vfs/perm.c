/* SPDX-License-Identifier: MIT */
/* perm.c - permission checks */
#include "vfs/perm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/xattr.h"

bool cred_in_group(const struct vfs_cred *cred, uint32_t gid)
{
	if (cred->gid == gid)
		return true;
	for (uint32_t i = 0; i < cred->group_count; i++) {
		if (cred->groups[i] == gid)
			return true;
	}
	return false;
}

bool cred_owns(const struct vfs_cred *cred, const struct inode *inode)
{
	return cred->privileged || cred->uid == inode->uid;
}

bool cred_has_root_blocks(const struct vfs_cred *cred, const struct ext4_fs *fs)
{
	const struct ext4_options *opt = &fs->opt;

	return cred->is_root || cred->uid == opt->resuid || (opt->resgid && cred_in_group(cred, opt->resgid));
}

/* The caller's groups in one array, as the ACL check wants them. */
static int acl_check_groups(const struct vfs_cred *cred, const struct acl *acl, const struct inode *inode,
			    unsigned want)
{
	uint32_t few[33];
	uint32_t *gids = few;
	int err;

	if (cred->group_count >= ARRAY_SIZE(few)) {
		gids = malloc((cred->group_count + (size_t)1) * sizeof(*gids));
		if (!gids)
			return -ENOMEM;
	}
	gids[0] = cred->gid;
	if (cred->group_count)
		memcpy(gids + 1, cred->groups, cred->group_count * sizeof(*gids));
	err = acl_permission(acl, inode, cred->uid, gids, cred->group_count + 1, want);
	if (gids != few)
		free(gids);
	return err;
}

/* 0 or -EACCES where an ACL decides; 1: there is none. */
static int perm_check_acl(const struct vfs_cred *cred, struct inode *inode, unsigned want)
{
	struct acl *acl = NULL;
	int err;

	/* Without any group bit the mask is empty: the ACL could not grant more than the mode does. */
	if (!inode->fs->opt.acl || inode_test(inode, INODE_NO_ACL) || S_ISLNK(inode->mode) || !(inode->mode & S_IRWXG))
		return 1;
	err = acl_read(inode, ACL_ACCESS, &acl);
	if (err)
		return err;
	if (!acl)
		return 1;
	err = acl_check_groups(cred, acl, inode, want);
	free(acl);
	return err;
}

static int perm_check_mode(const struct vfs_cred *cred, struct inode *inode, unsigned want)
{
	unsigned mode = inode->mode;
	int err;

	if (cred->uid == inode->uid)
		return (want & ~(mode >> 6)) & 7 ? -EACCES : 0;
	err = perm_check_acl(cred, inode, want);
	if (err <= 0)
		return err;
	if (cred_in_group(cred, inode->gid))
		mode >>= 3;
	return (want & ~mode) & 7 ? -EACCES : 0;
}

int perm_check(const struct vfs_cred *cred, struct inode *inode, unsigned want)
{
	if (want & MAY_WRITE) {
		bool on_disk = S_ISREG(inode->mode) || S_ISDIR(inode->mode) || S_ISLNK(inode->mode);

		if (on_disk && fs_is_read_only(inode->fs))
			return -EROFS;
		if (inode->flags & EXT4_IMMUTABLE_FL)
			return -EPERM;
	}
	if (!cred->privileged)
		return perm_check_mode(cred, inode, want);
	/* Root may do anything but execute what nobody may. */
	if (cred->checked && (want & MAY_EXEC) && !inode_is_dir(inode) && !(inode->mode & 0111))
		return -EACCES;
	return 0;
}

int perm_may_create(const struct vfs_cred *cred, struct inode *dir)
{
	if (dir->nlink == 0)
		return -ENOENT;
	return perm_check(cred, dir, MAY_WRITE | MAY_EXEC);
}

/* In a sticky directory only the owner of the file or of the directory may remove it. */
static bool perm_sticky_forbids(const struct vfs_cred *cred, const struct inode *dir, const struct inode *victim)
{
	return (dir->mode & S_ISVTX) && !cred_owns(cred, victim) && !cred_owns(cred, dir);
}

int perm_may_delete(const struct vfs_cred *cred, struct inode *dir, struct inode *victim, bool is_rmdir)
{
	int err = perm_check(cred, dir, MAY_WRITE | MAY_EXEC);

	if (err)
		return err;
	if (dir->flags & EXT4_APPEND_FL)
		return -EPERM;
	if (perm_sticky_forbids(cred, dir, victim) || (victim->flags & (EXT4_APPEND_FL | EXT4_IMMUTABLE_FL)))
		return -EPERM;
	if (is_rmdir && !inode_is_dir(victim))
		return -ENOTDIR;
	if (is_rmdir && victim->ino == EXT4_ROOT_INO)
		return -EBUSY;
	if (!is_rmdir && inode_is_dir(victim))
		return -EISDIR;
	return dir->nlink == 0 ? -ENOENT : 0;
}

uint16_t perm_mode_without_suid(const struct vfs_cred *cred, uint16_t mode, uint32_t gid)
{
	uint16_t kept = mode & (uint16_t)~S_ISUID;

	/* setgid without group execution marks mandatory locking, and stays for the group's own members. */
	if ((mode & S_ISGID) && ((mode & S_IXGRP) || !(cred->privileged || cred_in_group(cred, gid))))
		kept &= (uint16_t)~S_ISGID;
	return kept;
}

static bool has_prefix(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

static int perm_xattr_acl(const struct vfs_cred *cred, struct inode *inode, unsigned want)
{
	if (S_ISLNK(inode->mode))
		return -EOPNOTSUPP;
	return (want & MAY_WRITE) && !cred_owns(cred, inode) ? -EPERM : 0;
}

static int perm_xattr_user(const struct vfs_cred *cred, struct inode *inode, unsigned want)
{
	bool is_dir = inode_is_dir(inode);

	if (!inode->fs->opt.user_xattr)
		return -EOPNOTSUPP;
	if (!S_ISREG(inode->mode) && !is_dir)
		return want & MAY_WRITE ? -EPERM : -ENODATA;
	if (is_dir && (inode->mode & S_ISVTX) && (want & MAY_WRITE) && !cred_owns(cred, inode))
		return -EPERM;
	return perm_check(cred, inode, want);
}

int perm_xattr(const struct vfs_cred *cred, struct inode *inode, const char *name, unsigned want)
{
	bool write = (want & MAY_WRITE) != 0;

	if (write && fs_is_read_only(inode->fs))
		return -EROFS;
	if (write && (inode->flags & (EXT4_IMMUTABLE_FL | EXT4_APPEND_FL)))
		return -EPERM;
	if (has_prefix(name, "system."))
		return perm_xattr_acl(cred, inode, want);
	if (has_prefix(name, "security."))
		return write && !cred->privileged ? -EPERM : 0;
	if (has_prefix(name, "trusted.")) {
		if (!cred->privileged)
			return write ? -EPERM : -ENODATA;
		return 0;
	}
	if (has_prefix(name, "user."))
		return perm_xattr_user(cred, inode, want);
	return perm_check(cred, inode, want);
}
