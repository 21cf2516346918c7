/* SPDX-License-Identifier: MIT */
/* namei_private.h - shared by the files of name operations */
#ifndef UEXT4_EXT4_NAMEI_PRIVATE_H
#define UEXT4_EXT4_NAMEI_PRIVATE_H

#include "ext4/dir_private.h"
#include "ext4/namei.h"

/* Must a change of names in @dir be durable when the call returns? */
static inline bool dir_is_sync(const struct inode *dir)
{
	return (dir->flags & (EXT4_SYNC_FL | EXT4_DIRSYNC_FL)) != 0;
}

/* May @inode get a name in @dir? Directories that hand their project down take only inodes of that project. */
static inline bool dir_takes_project(const struct inode *dir, const struct inode *inode)
{
	return !(dir->flags & EXT4_PROJINHERIT_FL) || dir->projid == inode->projid;
}

/* Stamps and writes a directory whose entries changed; what fdatasync of it needs too. */
int dir_changed(struct handle *h, struct inode *dir);

/* Credits and revoke records for create_inode() and create_undo(). */
uint32_t create_credits(struct inode *dir, uint16_t mode, uint32_t *revokes_out);
/**
 * create_inode() - claim a number, set owner, mode, ACLs and contents, write the inode
 * @inode: blank; unchanged in what a second call with the same arguments needs
 *
 * It has its links already, so the caller must add its name in the same handle, or call create_undo().
 * Return: 0; otherwise no number is held
 */
int create_inode(struct handle *h, struct inode *dir, const struct create_args *args, struct inode *inode);
/* Gives the number back in the same handle. The contents, if any, must not be on the device: see create_inode(). */
void create_undo(struct handle *h, struct inode *inode);

#endif
