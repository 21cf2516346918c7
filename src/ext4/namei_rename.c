/* SPDX-License-Identifier: MIT */
/* namei_rename.c - rename: over nothing, over a file or directory, exchange, whiteout */
#include <errno.h>

#include "ext4/balloc.h"
#include "ext4/namei_private.h"
#include "ext4/orphan.h"

/*
 * One transaction with two halves. The first finds and reserves all that will be written: room for the new name (or the
 * entry that it has), the old entry, "..", the whiteout's inode. It can fail, and then nothing has changed but
 * that a directory may have grown. The second half changes them, which only the journal can stop. The old entry is
 * looked up after the room was made, since making room can move it to another leaf.
 */

struct rename {
	struct inode *old_dir, *new_dir;
	const struct name *old_name, *new_name;
	struct inode *inode;           /* that moves */
	struct inode *target;          /* that has the new name now, or NULL */
	struct inode *whiteout;        /* blank, or NULL */
	bool root_blocks;
	struct dir_pos old_pos, new_pos;
	struct dir_pos dotdot;         /* of inode, if it is a directory and gets another parent */
	struct dir_pos target_dotdot;  /* exchange: the same of target */
};

static const struct name dotdot_name = { "..", 2 };

static bool rename_crosses(const struct rename *r)
{
	return r->old_dir != r->new_dir;
}

static void rename_put(struct rename *r)
{
	dir_pos_put(&r->old_pos);
	dir_pos_put(&r->new_pos);
	dir_pos_put(&r->dotdot);
	dir_pos_put(&r->target_dotdot);
}

/* If directory @dir goes from @parent to another one: its "..", which must be @parent. */
static int find_dotdot(struct handle *h, struct rename *r, struct inode *dir, const struct inode *parent,
		       struct dir_pos *pos)
{
	int err;

	if (!inode_is_dir(dir) || !rename_crosses(r))
		return 0;
	err = dir_find_ino(dir, &dotdot_name, parent->ino, pos);
	if (err == -ENOENT)
		err = INODE_ERROR(dir, -EUCLEAN, 0, "the directory has no \"..\"");
	return err ? err : dir_pos_access(h, pos);
}

static int find_existing(struct handle *h, struct inode *dir, const struct name *name, const struct inode *inode,
			 struct dir_pos *pos)
{
	int err = dir_find_ino(dir, name, inode->ino, pos);

	return err ? err : dir_pos_access(h, pos);
}

static int set_dotdot(struct handle *h, struct inode *dir, const struct dir_pos *pos, const struct inode *parent)
{
	if (!pos->bh)
		return 0;
	return dir_pos_set(h, dir, pos, parent->ino, S_IFDIR);
}

static int inode_moved(struct handle *h, struct inode *inode)
{
	inode_stamp(inode, TIME_CTIME);
	return inode_write(h, inode);
}

static int dirs_changed(struct handle *h, struct rename *r)
{
	int err = dir_changed(h, r->old_dir);

	if (!err && rename_crosses(r))
		err = dir_changed(h, r->new_dir);
	return err;
}

/* ---- rename ---- */

static int rename_find(struct handle *h, struct rename *r)
{
	int err;

	if (r->target)
		err = find_existing(h, r->new_dir, r->new_name, r->target, &r->new_pos);
	else
		err = dir_reserve(h, r->new_dir, r->new_name, &r->new_pos);
	if (!err)
		err = find_existing(h, r->old_dir, r->old_name, r->inode, &r->old_pos);
	if (!err)
		err = find_dotdot(h, r, r->inode, r->old_dir, &r->dotdot);
	return err;
}

/* What overlayfs leaves in place of a moved entry: a character device 0:0. The caller has set its owner. */
static int whiteout_create(struct handle *h, struct rename *r)
{
	const struct create_args args = { .mode = S_IFCHR, .uid = r->whiteout->uid, .gid = r->whiteout->gid };

	return create_inode(h, r->old_dir, &args, r->whiteout);
}

static int rename_entries(struct handle *h, struct rename *r)
{
	int err;

	if (r->target)
		err = dir_pos_set(h, r->new_dir, &r->new_pos, r->inode->ino, r->inode->mode);
	else
		err = dir_pos_fill(h, r->new_dir, &r->new_pos, r->new_name, r->inode->ino, r->inode->mode);
	if (err)
		return err;
	if (r->whiteout)
		err = dir_pos_set(h, r->old_dir, &r->old_pos, r->whiteout->ino, r->whiteout->mode);
	else
		err = dir_pos_remove(h, r->old_dir, &r->old_pos);
	return err ? err : set_dotdot(h, r->inode, &r->dotdot, r->new_dir);
}

/* A directory's ".." counts in its parent: one moves, one may vanish. */
static void rename_count_dirs(struct rename *r)
{
	if (!inode_is_dir(r->inode))
		return;
	if (r->target) {
		inode_drop_nlink(r->old_dir);
	} else if (rename_crosses(r)) {
		inode_drop_nlink(r->old_dir);
		inode_inc_nlink(r->new_dir);
	}
}

static int target_replaced(struct handle *h, struct inode *target)
{
	int err = 0;

	if (inode_is_dir(target))
		target->nlink = 0;
	else if (target->nlink)
		inode_drop_nlink(target);
	if (!target->nlink)
		err = orphan_add(h, target);
	return err ? err : inode_moved(h, target);
}

static int rename_apply(struct handle *h, struct rename *r)
{
	int err = rename_entries(h, r);

	if (err)
		return err;
	rename_count_dirs(r);
	err = inode_moved(h, r->inode);
	if (!err && r->target)
		err = target_replaced(h, r->target);
	return err ? err : dirs_changed(h, r);
}

static uint32_t rename_credits(struct rename *r, uint32_t *revokes_out)
{
	uint32_t credits = 2 + 3; /* old entry and ".."; both directories and the inode */

	credits += r->target ? 2 + ORPHAN_CREDITS : dir_credits(r->new_dir);
	*revokes_out = 0;
	if (r->whiteout)
		credits += create_credits(r->old_dir, S_IFCHR, revokes_out);
	return credits;
}

static int rename_in_handle(struct handle *h, struct rename *r)
{
	int err = rename_find(h, r);

	if (!err && r->whiteout)
		err = whiteout_create(h, r);
	if (err)
		return err;
	err = rename_apply(h, r);
	if (!err && r->whiteout)
		inode_clear(r->whiteout, INODE_NEW);
	return err;
}

static int rename_once(struct rename *r)
{
	uint32_t revokes, credits = rename_credits(r, &revokes);
	struct handle h;
	int err, err2;

	err = fs_handle_start_for(r->old_dir->fs, r->root_blocks, credits, revokes, &h);
	if (err)
		return err;
	h.sync = dir_is_sync(r->old_dir) || dir_is_sync(r->new_dir);
	err = rename_in_handle(&h, r);
	rename_put(r);
	if (err) /* it may have grown */
		(void)inode_write_datasync(&h, r->new_dir);
	err2 = journal_stop(&h);
	return err ? err : err2;
}

static int rename_check(const struct rename *r)
{
	int empty;

	if (!dir_takes_project(r->new_dir, r->inode))
		return -EXDEV;
	if (!inode_is_dir(r->inode))
		return r->target && inode_is_dir(r->target) ? -EISDIR : 0;
	if (!r->target)
		return rename_crosses(r) ? inode_inc_nlink_check(r->new_dir) : 0;
	if (!inode_is_dir(r->target))
		return -ENOTDIR;
	empty = dir_is_empty(r->target);
	if (empty < 0)
		return empty;
	return empty ? 0 : -ENOTEMPTY;
}

/*
 * Programs that replace a file by writing a new one and renaming it expect the old or the new contents after a crash,
 * without fsync. So data that has no blocks yet is written before the rename can commit. A failed write is the business
 * of the next fsync, as anywhere.
 */
static void write_replacement(struct rename *r)
{
	struct mapping *m = &r->inode->mapping;

	if (!r->target || !S_ISREG(r->inode->mode))
		return;
	if (atomic_load_explicit(&m->dirty_bytes, memory_order_relaxed) ||
	    atomic_load_explicit(&m->writeback_bytes, memory_order_relaxed))
		(void)mapping_write_and_wait(m, 0, UINT64_MAX);
}

static int rename_plain(struct rename *r)
{
	int retries = 0, err = rename_check(r);

	if (err)
		return err;
	write_replacement(r);
	do {
		err = rename_once(r);
	} while (err == -ENOSPC && balloc_should_retry(r->old_dir->fs, &retries) > 0);
	return err;
}

/* ---- exchange ---- */

static int exchange_find(struct handle *h, struct rename *r)
{
	int err = find_existing(h, r->old_dir, r->old_name, r->inode, &r->old_pos);

	if (!err)
		err = find_existing(h, r->new_dir, r->new_name, r->target, &r->new_pos);
	if (!err)
		err = find_dotdot(h, r, r->inode, r->old_dir, &r->dotdot);
	if (!err)
		err = find_dotdot(h, r, r->target, r->new_dir, &r->target_dotdot);
	return err;
}

static void exchange_count_dirs(struct rename *r)
{
	struct inode *gains = inode_is_dir(r->inode) ? r->new_dir : r->old_dir;

	if (!rename_crosses(r) || inode_is_dir(r->inode) == inode_is_dir(r->target))
		return;
	inode_inc_nlink(gains);
	inode_drop_nlink(gains == r->new_dir ? r->old_dir : r->new_dir);
}

static int exchange_apply(struct handle *h, struct rename *r)
{
	int err = dir_pos_set(h, r->new_dir, &r->new_pos, r->inode->ino, r->inode->mode);

	if (!err)
		err = dir_pos_set(h, r->old_dir, &r->old_pos, r->target->ino, r->target->mode);
	if (!err)
		err = set_dotdot(h, r->inode, &r->dotdot, r->new_dir);
	if (!err)
		err = set_dotdot(h, r->target, &r->target_dotdot, r->old_dir);
	if (err)
		return err;
	exchange_count_dirs(r);
	err = inode_moved(h, r->inode);
	if (!err)
		err = inode_moved(h, r->target);
	return err ? err : dirs_changed(h, r);
}

static int exchange_check(const struct rename *r)
{
	if (!r->target)
		return -ENOENT;
	if (!dir_takes_project(r->new_dir, r->inode) || !dir_takes_project(r->old_dir, r->target))
		return -EXDEV;
	if (!rename_crosses(r) || inode_is_dir(r->inode) == inode_is_dir(r->target))
		return 0;
	return inode_inc_nlink_check(inode_is_dir(r->inode) ? r->new_dir : r->old_dir);
}

static int rename_exchange(struct rename *r)
{
	struct handle h;
	int err = exchange_check(r), err2;

	if (err)
		return err;
	err = fs_handle_start(r->old_dir->fs, 8, 0, &h); /* two entries, two "..", four inodes */
	if (err)
		return err;
	h.sync = dir_is_sync(r->old_dir) || dir_is_sync(r->new_dir);
	err = exchange_find(&h, r);
	if (!err)
		err = exchange_apply(&h, r);
	rename_put(r);
	err2 = journal_stop(&h);
	return err ? err : err2;
}

int namei_rename(struct inode *old_dir, const struct name *old_name, struct inode *inode, struct inode *new_dir,
		 const struct name *new_name, struct inode *target, unsigned flags, struct inode *whiteout)
{
	struct rename r = {
		.old_dir = old_dir, .old_name = old_name, .inode = inode,
		.new_dir = new_dir, .new_name = new_name, .target = target,
		.whiteout = flags & RENAME_FLAG_WHITEOUT ? whiteout : NULL,
		.root_blocks = flags & RENAME_FLAG_ROOT_BLOCKS,
	};

	if (!new_dir->nlink)
		return -ENOENT;
	if (target && (flags & RENAME_FLAG_NOREPLACE))
		return -EEXIST;
	if (inode == target) /* two names of one file: POSIX wants both to stay */
		return 0;
	return flags & RENAME_FLAG_EXCHANGE ? rename_exchange(&r) : rename_plain(&r);
}
