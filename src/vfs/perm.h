/* SPDX-License-Identifier: MIT */
/* perm.h - who may do what, decided as Linux does */
#ifndef UEXT4_VFS_PERM_H
#define UEXT4_VFS_PERM_H

#include "ext4/inode.h"

#define MAY_EXEC  1u
#define MAY_WRITE 2u
#define MAY_READ  4u

struct vfs_cred {
	uint32_t uid, gid;
	const uint32_t *groups;
	uint32_t group_count;
	uint32_t umask;
	bool is_root;    /* uid 0 */
	bool privileged; /* passes every check of ownership and mode: is_root, or nobody is checked at all */
	bool checked;    /* the file system checks permissions */
};

bool cred_in_group(const struct vfs_cred *cred, uint32_t gid);
/* Owner, or may act as one. */
bool cred_owns(const struct vfs_cred *cred, const struct inode *inode);

/*
 * One of those that the superblock keeps blocks for, as ext4 of Linux has it: root, the user resuid, the group resgid if that is
 * not 0. Whether callers are checked is not asked.
 */
bool cred_has_root_blocks(const struct vfs_cred *cred, const struct ext4_fs *fs);

/**
 * perm_check() - may @cred do @want (MAY_*) with @inode?
 * Mode bits, the access ACL, what root is spared; read-only file system and immutable flag for writes.
 * Return: 0; -EACCES, -EROFS, -EPERM (immutable), or an error of reading the ACL
 */
int perm_check(const struct vfs_cred *cred, struct inode *inode, unsigned want);

/* A new name in @dir (rwsem held): -ENOENT if it was removed meanwhile. */
int perm_may_create(const struct vfs_cred *cred, struct inode *dir);
/* The name of @victim goes from @dir (rwsem held): mode, sticky bit, append and immutable flags, type. */
int perm_may_delete(const struct vfs_cred *cred, struct inode *dir, struct inode *victim, bool is_rmdir);

/* Would a file with @mode lose its setuid or setgid bit when somebody unprivileged writes to it? Returns the mode without them. */
uint16_t perm_mode_without_suid(const struct vfs_cred *cred, uint16_t mode, uint32_t gid);

/* Extended attribute name spaces. @want: MAY_READ or MAY_WRITE. */
int perm_xattr(const struct vfs_cred *cred, struct inode *inode, const char *name, unsigned want);

#endif
