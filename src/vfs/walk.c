/* SPDX-License-Identifier: MIT */
/* walk.c - path resolution as POSIX has it, inside the image */
#include "vfs/walk.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "vfs/icache.h"
#include "vfs/names.h"

static const char *skip_slashes(const char *s)
{
	while (*s == '/')
		s++;
	return s;
}

/* Takes the reference to @dir over. */
static void walk_enter(struct walk *w, struct inode *dir)
{
	icache_put(w->dir);
	w->dir = dir;
}

static void walk_enter_root(struct walk *w)
{
	icache_hold(w->vfs->root);
	walk_enter(w, w->vfs->root);
}

int walk_start(struct walk *w, struct vfs *vfs, const struct vfs_cred *cred, const char *path)
{
	w->vfs = vfs;
	w->cred = cred;
	w->dir = NULL;
	w->rest = path;
	w->depth = w->links = 0;
	if (!*path)
		return -ENOENT;
	if (strnlen(path, PATH_MAX) >= PATH_MAX)
		return -ENAMETOOLONG;
	walk_enter_root(w);
	return 0;
}

void walk_end(struct walk *w)
{
	while (w->depth)
		free(w->frames[--w->depth].target);
	icache_put(w->dir);
	w->dir = NULL;
}

/* Cuts the next component off w->rest; what follows its slashes is left there. */
static void take_component(struct walk *w)
{
	const char *start = skip_slashes(w->rest);
	const char *end = strchrnul(start, '/');

	w->name = start;
	w->len = (size_t)(end - start);
	w->slash = *end == '/';
	w->rest = skip_slashes(end);
	if (w->len == 0)
		w->type = LAST_ROOT;
	else if (name_is_dot(w->name, w->len))
		w->type = LAST_DOT;
	else if (name_is_dotdot(w->name, w->len))
		w->type = LAST_DOTDOT;
	else
		w->type = LAST_NAME;
}

/*
 * Puts @link's target before what is left of the path. The frame keeps the string as long as components of it are
 * in use; the name of the last component may lie in it too.
 */
static int push_target(struct walk *w, struct inode *link)
{
	char *target;
	size_t len;
	int err;

	if (++w->links > WALK_LINKS_MAX)
		return -ELOOP;
	target = malloc(PATH_MAX);
	if (!target)
		return -ENOMEM;
	err = vfs_readlink(link, target, PATH_MAX, &len);
	if (!err && len == 0)
		err = -ENOENT;
	if (err) {
		free(target);
		return err;
	}
	w->frames[w->depth++] = (struct walk_frame){ .target = target, .resume = w->rest };
	w->rest = target;
	if (*target == '/')
		walk_enter_root(w);
	return 0;
}

/* At the end of a target: back to where the path goes on. False: there is nothing left. */
static bool pop_finished(struct walk *w)
{
	unsigned d = w->depth;

	if (*w->rest)
		return true;
	while (d && !*w->frames[d - 1].resume)
		d--;
	if (!d)
		return false;
	w->rest = w->frames[d - 1].resume;
	/* Its resume is taken; the strings above it are done with, and so is its own. */
	while (w->depth >= d)
		free(w->frames[--w->depth].target);
	return true;
}

/* One component in the middle of the path. */
static int walk_component(struct walk *w)
{
	struct inode *inode;
	int err;

	if (w->type == LAST_ROOT || w->type == LAST_DOT)
		return inode_is_dir(w->dir) ? 0 : -ENOTDIR;
	err = walk_last_inode(w, &inode);
	if (err)
		return err;
	if (S_ISLNK(inode->mode)) {
		err = push_target(w, inode);
		icache_put(inode);
		return err;
	}
	walk_enter(w, inode);
	return inode_is_dir(inode) ? 0 : -ENOTDIR;
}

/* Is the component just taken the last of the whole path? */
static bool is_last(const struct walk *w)
{
	if (*w->rest)
		return false;
	for (unsigned d = 0; d < w->depth; d++) {
		if (*w->frames[d].resume)
			return false;
	}
	return true;
}

int walk_to_last(struct walk *w)
{
	int err;

	for (;;) {
		take_component(w);
		if (is_last(w))
			return inode_is_dir(w->dir) ? 0 : -ENOTDIR;
		err = walk_component(w);
		if (err)
			return err;
		if (!pop_finished(w)) /* a component in the middle has something after it */
			return -ENOENT;
	}
}

int walk_last_inode(struct walk *w, struct inode **inode_out)
{
	int err;

	if (w->type == LAST_ROOT) {
		icache_hold(w->dir);
		*inode_out = w->dir;
		return 0;
	}
	if (!inode_is_dir(w->dir))
		return -ENOTDIR;
	err = perm_check(w->cred, w->dir, MAY_EXEC);
	return err ? err : vfs_lookup(w->vfs, w->dir, w->name, w->len, inode_out);
}

int walk_follow(struct walk *w, struct inode *link)
{
	bool slash = w->slash;
	int err = push_target(w, link);

	if (!err)
		err = walk_to_last(w);
	w->slash |= slash;
	return err;
}

int walk_path(struct vfs *vfs, const struct vfs_cred *cred, const char *path, bool follow, struct inode **inode_out)
{
	struct inode *inode = NULL;
	struct walk w;
	int err = walk_start(&w, vfs, cred, path);

	if (!err)
		err = walk_to_last(&w);
	if (!err)
		err = walk_last_inode(&w, &inode);
	while (!err && S_ISLNK(inode->mode) && (follow || w.slash)) {
		err = walk_follow(&w, inode);
		icache_put(inode);
		inode = NULL;
		if (!err)
			err = walk_last_inode(&w, &inode);
	}
	if (!err && w.slash && !inode_is_dir(inode))
		err = -ENOTDIR;
	walk_end(&w);
	if (err)
		icache_put(inode);
	else
		*inode_out = inode;
	return err;
}
