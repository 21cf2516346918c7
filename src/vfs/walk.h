/* SPDX-License-Identifier: MIT */
/* walk.h - from a path to an inode, or to the directory and the name of its last component */
#ifndef UEXT4_VFS_WALK_H
#define UEXT4_VFS_WALK_H

#include "vfs/vfs.h"

#define WALK_LINKS_MAX 40u

enum walk_last { LAST_NAME, LAST_DOT, LAST_DOTDOT, LAST_ROOT };

/* A symlink's target in the middle of a path, and where the path goes on after it. */
struct walk_frame {
	char *target;       /* malloc'd */
	const char *resume;
};

/*
 * A walk that stands before its last component: in @dir, with @name still to do. walk_start(), walk_to_last(), then
 * walk_follow() as often as the last component is a symlink to be followed; walk_end() always.
 */
struct walk {
	struct vfs *vfs;
	const struct vfs_cred *cred;
	struct inode *dir;    /* held */
	const char *name;     /* the last component */
	size_t len;
	enum walk_last type;
	bool slash;           /* slashes after it: it has to be a directory */
	/* private */
	const char *rest;
	struct walk_frame frames[WALK_LINKS_MAX + 1];
	unsigned depth, links;
};

/* -ENOENT (empty path), -ENAMETOOLONG (4096 bytes or more with the NUL). walk_end() also when this fails. */
int walk_start(struct walk *w, struct vfs *vfs, const struct vfs_cred *cred, const char *path);
/* Goes through everything but the last component. -ENOENT, -ENOTDIR, -EACCES, -ELOOP, -ENAMETOOLONG ... */
int walk_to_last(struct walk *w);
/* The inode of the last component, symlinks not followed. -ENOENT ... */
int walk_last_inode(struct walk *w, struct inode **inode_out);
/* Goes on through @link, which the last component is, up to the last component of its target. */
int walk_follow(struct walk *w, struct inode *link);
void walk_end(struct walk *w);

/* All of it at once. @follow: a symlink at the end too. Trailing slashes follow it in any case, and demand a directory. */
int walk_path(struct vfs *vfs, const struct vfs_cred *cred, const char *path, bool follow, struct inode **inode_out);

#endif
