/* SPDX-License-Identifier: MIT */
/* namei.h - operations on names: create, link, unlink, rename; each one transaction (or a safe series) */
#ifndef UEXT4_EXT4_NAMEI_H
#define UEXT4_EXT4_NAMEI_H

#include "ext4/dir.h"

/*
 * Common: the caller (vfs) holds the rwsem of every directory involved exclusively, and of victims and moved inodes as said; has
 * checked permissions and name length; inodes are given loaded. Times and link counts are updated here as Linux does. With
 * DIRSYNC/SYNC flags the handle is synchronous. What needs blocks is told whether the caller may take those kept for root
 * ("root_blocks"). Errors: -EEXIST, -ENOENT, -ENOSPC, -EMLINK, -EROFS, -EIO, -EUCLEAN, -EPERM (immutable/append).
 */

struct create_args {
	uint16_t mode;             /* type and permission bits, umask not applied yet (ACLs decide) */
	uint16_t umask;
	uint32_t uid, gid;         /* of the caller; gid is replaced by the parent's under setgid or grpid */
	bool in_group_or_capable;  /* keep S_ISGID on a file of the caller's group */
	bool root_blocks;          /* see the head */
	bool unnamed;              /* it has no link yet: for namei_tmpfile() */
	dev_t rdev;
	const char *symlink_target; size_t symlink_len; /* S_IFLNK */
};
/* @inode: blank from inode_alloc(); on success numbered, linked, no longer INODE_NEW. On error it is the caller's to free; the number, if any was claimed, is freed. */
int namei_create(struct inode *dir, const struct name *name, const struct create_args *args, struct inode *inode);
/**
 * namei_tmpfile() - make a regular file without a name
 * @dir:   what the file inherits comes from here; not changed, so held shared or exclusive
 * @args:  unnamed
 * @inode: blank; afterwards an orphan without links, as one unlinked while open. With INODE_LINKABLE, set by the caller,
 *         namei_link() gives it its first name
 * Return: 0, or as namei_create(); -EPERM (@dir was removed)
 */
int namei_tmpfile(struct inode *dir, const struct create_args *args, struct inode *inode);
int namei_link(struct inode *inode, struct inode *dir, const struct name *name, bool root_blocks); /* inode->rwsem exclusive */
int namei_unlink(struct inode *dir, const struct name *name, struct inode *victim); /* victim->rwsem exclusive; orphaned at nlink 0 */
int namei_rmdir(struct inode *dir, const struct name *name, struct inode *victim);  /* -ENOTEMPTY; victim->rwsem exclusive */

#define RENAME_FLAG_NOREPLACE 1u
#define RENAME_FLAG_EXCHANGE  2u
#define RENAME_FLAG_WHITEOUT  4u
#define RENAME_FLAG_ROOT_BLOCKS 0x100u
/* @target: NULL if the new name is free. @whiteout: blank inode with WHITEOUT, else NULL. The ancestor check (EINVAL) is vfs's. */
int namei_rename(struct inode *old_dir, const struct name *old_name, struct inode *inode,
		 struct inode *new_dir, const struct name *new_name, struct inode *target,
		 unsigned flags, struct inode *whiteout);

struct setattr_args {
	unsigned valid;        /* SETATTR_* */
	uint16_t mode; uint32_t uid, gid; struct timespec atime, mtime, ctime;
	uint32_t projid, flags; /* on-disk i_flags, user-modifiable ones */
	bool root_blocks;       /* for the ACL */
};
#define SETATTR_MODE 0x1u
#define SETATTR_UID 0x2u
#define SETATTR_GID 0x4u
#define SETATTR_ATIME 0x8u
#define SETATTR_MTIME 0x10u
#define SETATTR_CTIME 0x20u   /* else ctime is now */
#define SETATTR_PROJID 0x40u
#define SETATTR_FLAGS 0x80u
/* Caller: inode->rwsem exclusive. Everything but size (file_truncate_locked). Mode changes update the access ACL. */
int namei_setattr(struct inode *inode, const struct setattr_args *args);

#endif
