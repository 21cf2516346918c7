/* SPDX-License-Identifier: MIT */
/* namei_create.c - new inodes: files, directories, symlinks, devices */
#include <errno.h>
#include <string.h>

#include "ext4/balloc.h"
#include "ext4/ialloc.h"
#include "ext4/map.h"
#include "ext4/namei_private.h"
#include "ext4/orphan.h"
#include "ext4/xattr.h"

/*
 * A create is one transaction. Room for the name comes first: that is where ENOSPC is likely, and nothing has been
 * claimed yet. Then the inode, with its contents; what fails there frees the number in the same handle, so a crash
 * never shows an inode without a name. Filling in the name cannot fail but by the journal's death. What is to have no
 * name goes on the orphan list in its place.
 */

#define FAST_SYMLINK_MAX 59u /* i_block has 60 bytes, and readers expect a NUL */

uint32_t create_credits(struct inode *dir, uint16_t mode, uint32_t *revokes_out)
{
	uint32_t acl = acl_init_credits(dir), credits = IALLOC_CREDITS + acl;

	if (S_ISDIR(mode) || S_ISLNK(mode))
		credits += 1 + map_credits(dir, 1);
	*revokes_out = acl ? 2 * XATTR_REVOKES : 0;
	return credits;
}

/* A file does not become setgid to a group its creator is not in, unless nobody of that group could execute it. */
static uint16_t strip_setgid(const struct inode *dir, const struct create_args *args)
{
	if ((args->mode & (S_ISGID | S_IXGRP)) != (S_ISGID | S_IXGRP) || S_ISDIR(args->mode) || !(dir->mode & S_ISGID) ||
	    args->in_group_or_capable)
		return args->mode;
	return args->mode & (uint16_t)~S_ISGID;
}

static void set_owner(const struct inode *dir, const struct create_args *args, struct inode *inode)
{
	inode->uid = args->uid;
	inode->gid = args->gid;
	inode->mode = strip_setgid(dir, args);
	inode->rdev = S_ISCHR(args->mode) || S_ISBLK(args->mode) ? args->rdev : 0;
	inode->nlink = args->unnamed ? 0 : S_ISDIR(args->mode) ? 2 : 1;
	atomic_store_explicit(&inode->dtime, 0, memory_order_relaxed);
	if (dir->fs->opt.grpid) {
		inode->gid = dir->gid;
	} else if (dir->mode & S_ISGID) {
		inode->gid = dir->gid;
		if (S_ISDIR(args->mode))
			inode->mode |= S_ISGID;
	}
}

static int slow_symlink_init(struct handle *h, const struct create_args *args, struct inode *inode)
{
	struct buffer_head *bh;
	int err = inode_block_create(h, inode, 0, &bh);

	if (err)
		return err;
	memcpy(bh->data, args->symlink_target, args->symlink_len);
	memset(bh->data + args->symlink_len, 0, inode->fs->block_bytes - args->symlink_len);
	err = journal_dirty_metadata(h, bh);
	buffer_put(bh);
	return err;
}

static int symlink_init(struct handle *h, const struct create_args *args, struct inode *inode)
{
	int err = 0;

	if (args->symlink_len <= FAST_SYMLINK_MAX) {
		inode->flags &= ~EXT4_EXTENTS_FL;
		memset(inode->i_block, 0, sizeof(inode->i_block));
		memcpy(inode->i_block, args->symlink_target, args->symlink_len);
		inode_set(inode, INODE_FAST_SYMLINK);
	} else {
		err = slow_symlink_init(h, args, inode);
	}
	if (!err)
		dir_size_set(inode, args->symlink_len);
	return err;
}

static int contents_init(struct handle *h, struct inode *dir, const struct create_args *args, struct inode *inode)
{
	if (S_ISDIR(args->mode))
		return dir_init(h, inode, dir->ino);
	if (S_ISLNK(args->mode))
		return symlink_init(h, args, inode);
	return 0;
}

void create_undo(struct handle *h, struct inode *inode)
{
	int err = 0;

	inode->nlink = 0;
	inode_clear(inode, INODE_XATTR_IN_BODY); /* the slot is cleared for its next user */
	atomic_store_explicit(&inode->dtime, (uint32_t)fs_now(inode->fs).tv_sec, memory_order_relaxed);
	if (inode->file_acl)
		err = xattr_free_all(h, inode);
	if (!err)
		err = inode_write(h, inode);
	if (!err)
		err = ialloc_free(h, inode);
	if (err) /* the journal is dead, or a bitmap unreadable: fsck gives the number back */
		(void)INODE_ERROR(inode, err, 0, "the inode of a failed create cannot be freed");
}

int create_inode(struct handle *h, struct inode *dir, const struct create_args *args, struct inode *inode)
{
	int err;

	set_owner(dir, args, inode);
	err = ialloc_new(h, dir, inode);
	if (err)
		return err;
	if (!S_ISLNK(args->mode))
		err = acl_init_inode(h, dir, inode, args->umask);
	if (!err)
		err = contents_init(h, dir, args, inode);
	if (!err)
		err = inode_write_datasync(h, inode);
	if (err)
		create_undo(h, inode);
	return err;
}

static int create_in_handle(struct handle *h, struct inode *dir, const struct name *name, const struct create_args *args,
			    struct inode *inode)
{
	struct dir_pos pos;
	int err = dir_reserve(h, dir, name, &pos);

	if (err)
		return err;
	err = create_inode(h, dir, args, inode);
	if (!err) {
		err = dir_pos_fill(h, dir, &pos, name, inode->ino, inode->mode);
		if (err)
			create_undo(h, inode);
	}
	dir_pos_put(&pos);
	if (!err && S_ISDIR(args->mode))
		inode_inc_nlink(dir);
	return err;
}

static int create_once(struct inode *dir, const struct name *name, const struct create_args *args, struct inode *inode)
{
	uint32_t revokes, credits = 1 + dir_credits(dir) + create_credits(dir, args->mode, &revokes);
	struct handle h;
	int err, err2;

	err = fs_handle_start_for(dir->fs, args->root_blocks, credits, revokes, &h);
	if (err)
		return err;
	h.sync = dir_is_sync(dir);
	err = create_in_handle(&h, dir, name, args, inode);
	err2 = err ? inode_write_datasync(&h, dir) : dir_changed(&h, dir); /* it may have grown before a failure */
	if (!err2 && !err)
		inode_clear(inode, INODE_NEW);
	err = err ? err : err2;
	err2 = journal_stop(&h);
	return err ? err : err2;
}

static int create_check(const struct inode *dir, const struct create_args *args)
{
	if (!dir->nlink)
		return -ENOENT;
	if (S_ISLNK(args->mode) && args->symlink_len >= dir->fs->block_bytes)
		return -ENAMETOOLONG;
	if (S_ISLNK(args->mode) && !args->symlink_len)
		return -ENOENT;
	return S_ISDIR(args->mode) ? inode_inc_nlink_check(dir) : 0;
}

int namei_create(struct inode *dir, const struct name *name, const struct create_args *args, struct inode *inode)
{
	int retries = 0, err = create_check(dir, args);

	if (err)
		return err;
	do {
		err = create_once(dir, name, args, inode);
	} while (err == -ENOSPC && balloc_should_retry(dir->fs, &retries) > 0);
	return err;
}

/* ---- without a name ---- */

static int tmpfile_in_handle(struct handle *h, struct inode *dir, const struct create_args *args, struct inode *inode)
{
	int err = create_inode(h, dir, args, inode);

	if (err)
		return err;
	err = orphan_add(h, inode);
	if (err)
		create_undo(h, inode);
	else
		inode_clear(inode, INODE_NEW);
	return err;
}

static int tmpfile_once(struct inode *dir, const struct create_args *args, struct inode *inode)
{
	uint32_t revokes, credits = create_credits(dir, args->mode, &revokes) + ORPHAN_CREDITS;
	struct handle h;
	int err, stop_err;

	err = fs_handle_start_for(dir->fs, args->root_blocks, credits, revokes, &h);
	if (err)
		return err;
	err = tmpfile_in_handle(&h, dir, args, inode);
	stop_err = journal_stop(&h);
	if (!err && stop_err) { /* the caller frees it */
		orphan_del(NULL, inode);
		orphan_uncount(inode);
	}
	return err ? err : stop_err;
}

int namei_tmpfile(struct inode *dir, const struct create_args *args, struct inode *inode)
{
	int retries = 0, err;

	if (!dir->nlink)
		return -EPERM;
	do {
		err = tmpfile_once(dir, args, inode);
	} while (err == -ENOSPC && balloc_should_retry(dir->fs, &retries) > 0);
	return err;
}
