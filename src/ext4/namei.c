/* SPDX-License-Identifier: MIT */
/* namei.c - links and their removal */
#include <errno.h>

#include "ext4/balloc.h"
#include "ext4/namei_private.h"
#include "ext4/orphan.h"

int dir_changed(struct handle *h, struct inode *dir)
{
	inode_stamp(dir, TIME_MTIME | TIME_CTIME);
	return inode_write_datasync(h, dir);
}

/* ---- link ---- */

/* What had no name yet is no orphan any more. */
static int first_link(struct handle *h, struct inode *inode)
{
	int err = orphan_del(h, inode);

	if (!err)
		orphan_uncount(inode);
	return err;
}

static int link_in_handle(struct handle *h, struct inode *inode, struct inode *dir, const struct name *name)
{
	struct dir_pos pos;
	int err = dir_reserve(h, dir, name, &pos);

	if (err)
		return err;
	err = inode->nlink ? 0 : first_link(h, inode);
	if (!err)
		err = dir_pos_fill(h, dir, &pos, name, inode->ino, inode->mode);
	dir_pos_put(&pos);
	if (err)
		return err;
	inode_clear(inode, INODE_LINKABLE);
	inode_inc_nlink(inode);
	inode_stamp(inode, TIME_CTIME);
	return inode_write(h, inode);
}

static int link_once(struct inode *inode, struct inode *dir, const struct name *name, bool root_blocks)
{
	uint32_t credits = dir_credits(dir) + 2 + (inode->nlink ? 0 : ORPHAN_CREDITS);
	struct handle h;
	int err, err2;

	err = fs_handle_start_for(dir->fs, root_blocks, credits, 0, &h);
	if (err)
		return err;
	h.sync = dir_is_sync(dir);
	err = link_in_handle(&h, inode, dir, name);
	err2 = err ? inode_write_datasync(&h, dir) : dir_changed(&h, dir);
	err = err ? err : err2;
	err2 = journal_stop(&h);
	return err ? err : err2;
}

int namei_link(struct inode *inode, struct inode *dir, const struct name *name, bool root_blocks)
{
	int retries = 0, err;

	if (!dir->nlink || (!inode->nlink && !inode_test(inode, INODE_LINKABLE)))
		return -ENOENT;
	if (inode->nlink >= EXT4_LINK_MAX)
		return -EMLINK;
	if (!dir_takes_project(dir, inode))
		return -EXDEV;
	do {
		err = link_once(inode, dir, name, root_blocks);
	} while (err == -ENOSPC && balloc_should_retry(dir->fs, &retries) > 0);
	return err;
}

/* ---- unlink, rmdir ---- */

/* The victim's side: its link count, and the orphan list once nothing leads to it. */
static int victim_drop_link(struct handle *h, struct inode *victim)
{
	int err = 0;

	if (inode_is_dir(victim))
		victim->nlink = 0; /* the name and "." at once; vfs has seen that it is empty */
	else if (victim->nlink)
		inode_drop_nlink(victim);
	inode_stamp(victim, TIME_CTIME);
	if (!victim->nlink)
		err = orphan_add(h, victim);
	return err ? err : inode_write(h, victim);
}

static int remove_in_handle(struct handle *h, struct inode *dir, const struct dir_pos *pos, struct inode *victim)
{
	int err = dir_pos_access(h, pos);

	if (!err)
		err = dir_pos_remove(h, dir, pos);
	if (!err)
		err = victim_drop_link(h, victim);
	if (err)
		return err;
	if (inode_is_dir(victim))
		inode_drop_nlink(dir); /* its ".." */
	return dir_changed(h, dir);
}

static int remove_name(struct inode *dir, const struct name *name, struct inode *victim)
{
	struct dir_pos pos;
	struct handle h;
	int err, err2;

	err = dir_find_ino(dir, name, victim->ino, &pos);
	if (err)
		return err;
	err = fs_handle_start(dir->fs, 3 + ORPHAN_CREDITS, 0, &h);
	if (!err) {
		h.sync = dir_is_sync(dir);
		err = remove_in_handle(&h, dir, &pos, victim);
		err2 = journal_stop(&h);
		err = err ? err : err2;
	}
	dir_pos_put(&pos);
	return err;
}

int namei_unlink(struct inode *dir, const struct name *name, struct inode *victim)
{
	if (!victim->nlink)
		log_print(&dir->fs->log, LOG_WARNING, "%s: inode %u: a name is removed from a file with no links",
			  dir->fs->name, victim->ino);
	return remove_name(dir, name, victim);
}

int namei_rmdir(struct inode *dir, const struct name *name, struct inode *victim)
{
	int empty = dir_is_empty(victim);

	if (empty < 0)
		return empty;
	if (!empty)
		return -ENOTEMPTY;
	return remove_name(dir, name, victim);
}
