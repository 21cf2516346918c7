/* SPDX-License-Identifier: MIT */
/* names.h - checking names and finding them in locked directories; for this folder */
#ifndef UEXT4_VFS_NAMES_H
#define UEXT4_VFS_NAMES_H

#include "ext4/dir.h"
#include "ext4/namei.h"

struct vfs;

/* -ENOTDIR (@dir is none), -ENOENT (empty), -ENAMETOOLONG, -EINVAL (a slash or NUL in it). */
int name_check(struct inode *dir, const char *name, size_t len, struct name *name_out);
bool name_is_dot(const char *name, size_t len);
bool name_is_dotdot(const char *name, size_t len);

/* Caller: dir->rwsem, shared or exclusive. Through the name cache, which learns the answer. -ENOENT, -EUCLEAN ... */
int name_find_ino(struct vfs *vfs, struct inode *dir, const struct name *name, ino_num *ino_out);
/* The same with the inode, loaded, with a reference. */
int name_find(struct vfs *vfs, struct inode *dir, const struct name *name, struct inode **inode_out);

#endif
