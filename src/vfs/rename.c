/* SPDX-License-Identifier: MIT */
/*
 * rename.c - renaming within and across directories
 *
 * A rename that moves a directory, or that works in two directories, holds rename_lock (L1, L3). Whether it must is seen by
 * a look at both names without locks; what is found under the locks may differ, and then it starts again.
 *
 * Before the two directories are locked, the way up from each to the root says whether one lies below the other,
 * and by which child: the trap. That child may not be moved into its own subtree, nor be replaced by what
 * lies in it.
 */
#include <errno.h>

#include "vfs/dcache.h"
#include "vfs/icache.h"
#include "vfs/names.h"
#include "vfs/vfs.h"

#define RENAME_SERIALLY 1 /* has to be done under rename_lock */

#define RENAME_FLAGS_ALL (RENAME_FLAG_NOREPLACE | RENAME_FLAG_EXCHANGE | RENAME_FLAG_WHITEOUT)

struct rename_op {
	struct vfs *vfs;
	const struct vfs_cred *cred;
	const struct vfs_rename *ask;
	struct name old_name, new_name;
	bool serial;              /* rename_lock is held */
	ino_num old_trap;         /* child of old_dir on the way to new_dir; 0: none */
	ino_num new_trap;         /* child of new_dir on the way to old_dir; 0: none */
	struct inode *inode;      /* what is renamed; held */
	struct inode *target;     /* what has the new name, held; NULL: nobody */
	struct inode *whiteout;   /* blank; NULL unless asked for */
	bool whiteout_made;       /* it has become an inode of its own */
};

/*
 * The child of @top on the way up from @from, which is @from itself if @top is its parent; 0 if @top is not above.
 * Caller: rename_lock, no rwsem. A damaged image may have a ring here: every power of two steps a mark is set, and
 * coming by it again proves one.
 */
static int find_trap(struct vfs *vfs, struct inode *from, const struct inode *top, ino_num *trap_out)
{
	struct inode *at = from, *parent;
	ino_num mark = 0;
	uint64_t steps = 0, next_mark = 1;
	int err = 0;

	*trap_out = 0;
	icache_hold(at);
	while (at->ino != EXT4_ROOT_INO && !*trap_out) {
		err = vfs_lookup(vfs, at, "..", 2, &parent);
		if (err)
			break;
		if (parent == top)
			*trap_out = at->ino;
		if (parent->ino == mark || !inode_is_dir(parent))
			err = INODE_ERROR(at, -EUCLEAN, 0, "the way up by \"..\" does not reach the root");
		if (++steps == next_mark) {
			next_mark *= 2;
			mark = at->ino;
		}
		icache_put(at);
		at = parent;
		if (err)
			break;
	}
	icache_put(at);
	return err == -ENOENT ? 0 : err; /* removed meanwhile: it has no place in the tree */
}

static int find_traps(struct rename_op *op)
{
	const struct vfs_rename *ask = op->ask;
	int err;

	op->old_trap = op->new_trap = 0;
	if (ask->old_dir == ask->new_dir)
		return 0;
	err = find_trap(op->vfs, ask->new_dir, ask->old_dir, &op->old_trap);
	if (!err)
		err = find_trap(op->vfs, ask->old_dir, ask->new_dir, &op->new_trap);
	return err;
}

/* ---- locks ---- */

static void lock_two(struct inode *a, struct inode *b)
{
	if (a && b && a->ino > b->ino) {
		struct inode *swap = a;

		a = b;
		b = swap;
	}
	if (a)
		rwsem_write_lock(&a->rwsem);
	if (b && b != a)
		rwsem_write_lock(&b->rwsem);
}

static void unlock_two(struct inode *a, struct inode *b)
{
	if (a)
		rwsem_write_unlock(&a->rwsem);
	if (b && b != a)
		rwsem_write_unlock(&b->rwsem);
}

/* ---- checks, both directories locked ---- */

static int find_both(struct rename_op *op)
{
	const struct vfs_rename *ask = op->ask;
	int err = perm_check(op->cred, ask->old_dir, MAY_EXEC);

	if (!err)
		err = perm_check(op->cred, ask->new_dir, MAY_EXEC);
	if (err)
		return err;
	if (ask->old_dir->nlink == 0)
		return -ENOENT;
	err = name_find(op->vfs, ask->old_dir, &op->old_name, &op->inode);
	if (err)
		return err;
	if (ask->new_dir->nlink == 0)
		return -ENOENT;
	err = name_find(op->vfs, ask->new_dir, &op->new_name, &op->target);
	return err == -ENOENT ? 0 : err;
}

/* Only in a damaged image can a directory have a name in itself; it is locked already. */
static bool is_parent(const struct vfs_rename *ask, const struct inode *inode)
{
	return inode == ask->old_dir || inode == ask->new_dir;
}

/* What the names are, in the order in which Linux finds fault with them. */
static int check_shape(const struct rename_op *op)
{
	const struct vfs_rename *ask = op->ask;
	bool exchange = (ask->flags & RENAME_FLAG_EXCHANGE) != 0;

	if (op->target && (ask->flags & RENAME_FLAG_NOREPLACE))
		return -EEXIST;
	if (exchange && !op->target)
		return -ENOENT;
	if (exchange && ask->new_slash && !inode_is_dir(op->target))
		return -ENOTDIR;
	if (!inode_is_dir(op->inode) && (ask->old_slash || (!exchange && ask->new_slash)))
		return -ENOTDIR;
	if (op->inode->ino == op->old_trap || is_parent(ask, op->inode))
		return -EINVAL;
	if (op->target && (op->target->ino == op->new_trap || is_parent(ask, op->target)))
		return exchange ? -EINVAL : -ENOTEMPTY;
	return 0;
}

static int check_permitted(const struct rename_op *op)
{
	const struct vfs_rename *ask = op->ask;
	bool is_dir = inode_is_dir(op->inode);
	bool exchange = (ask->flags & RENAME_FLAG_EXCHANGE) != 0;
	bool moves = ask->old_dir != ask->new_dir;
	int err = perm_may_delete(op->cred, ask->old_dir, op->inode, is_dir);

	if (err)
		return err;
	if (!op->target)
		err = perm_may_create(op->cred, ask->new_dir);
	else
		err = perm_may_delete(op->cred, ask->new_dir, op->target, exchange ? inode_is_dir(op->target) : is_dir);
	/* A directory that moves has its ".." written. */
	if (!err && moves && is_dir)
		err = perm_check(op->cred, op->inode, MAY_WRITE);
	if (!err && moves && exchange && inode_is_dir(op->target))
		err = perm_check(op->cred, op->target, MAY_WRITE);
	return err;
}

/* ---- the rename itself ---- */

static void update_dcache(struct rename_op *op)
{
	const struct vfs_rename *ask = op->ask;
	struct dcache *dc = op->vfs->dcache;
	ino_num left = DENTRY_NEGATIVE;

	if (ask->flags & RENAME_FLAG_EXCHANGE)
		left = op->target->ino;
	else if (op->whiteout)
		left = op->whiteout->ino;
	dcache_set(dc, ask->old_dir->ino, op->old_name.str, op->old_name.len, left);
	dcache_set(dc, ask->new_dir->ino, op->new_name.str, op->new_name.len, op->inode->ino);
	if (op->target && inode_is_dir(op->target) && !(ask->flags & RENAME_FLAG_EXCHANGE))
		dcache_drop_dir(dc, op->target->ino);
}

static void drop_dotdot(struct rename_op *op, struct inode *inode)
{
	if (inode && inode_is_dir(inode) && op->ask->old_dir != op->ask->new_dir)
		dcache_drop(op->vfs->dcache, inode->ino, "..", 2);
}

/* Caller: the directories, inode and target locked. */
static int rename_checked(struct rename_op *op)
{
	const struct vfs_rename *ask = op->ask;
	struct dcache *dc = op->vfs->dcache;
	unsigned flags = ask->flags;
	int err;

	if (op->target && inode_is_dir(op->target) && !(ask->flags & RENAME_FLAG_EXCHANGE)) {
		err = dir_is_empty(op->target);
		if (err <= 0)
			return err ? err : -ENOTEMPTY;
	}
	dcache_drop(dc, ask->old_dir->ino, op->old_name.str, op->old_name.len);
	dcache_drop(dc, ask->new_dir->ino, op->new_name.str, op->new_name.len);
	drop_dotdot(op, op->inode);
	drop_dotdot(op, op->target);
	if (cred_has_root_blocks(op->cred, ask->old_dir->fs))
		flags |= RENAME_FLAG_ROOT_BLOCKS;
	err = namei_rename(ask->old_dir, &op->old_name, op->inode, ask->new_dir, &op->new_name, op->target, flags,
			   op->whiteout);
	if (err)
		return err;
	if (op->whiteout) {
		icache_insert_new(op->vfs->icache, op->whiteout);
		op->whiteout_made = true;
	}
	update_dcache(op);
	return 0;
}

/* Caller: both directories locked, rename_lock if op->serial. */
static int rename_in_dirs(struct rename_op *op)
{
	int err = find_both(op);

	if (err)
		return err;
	if (!op->serial && (inode_is_dir(op->inode) || (op->target && inode_is_dir(op->target))))
		return RENAME_SERIALLY;
	err = check_shape(op);
	if (err)
		return err;
	if (op->inode == op->target)
		return 0; /* two links to one file: nothing to do, says POSIX */
	err = check_permitted(op);
	if (err)
		return err;
	lock_two(op->inode, op->target);
	err = rename_checked(op);
	unlock_two(op->inode, op->target);
	return err;
}

static int rename_try(struct rename_op *op)
{
	const struct vfs_rename *ask = op->ask;
	int err;

	op->inode = op->target = NULL;
	if (op->serial) {
		mutex_lock(&op->vfs->rename_lock);
		err = find_traps(op);
		if (err)
			goto unlock;
	}
	lock_two(ask->old_dir, ask->new_dir);
	err = rename_in_dirs(op);
	unlock_two(ask->old_dir, ask->new_dir);
unlock:
	if (op->serial)
		mutex_unlock(&op->vfs->rename_lock);
	icache_put(op->inode);
	icache_put(op->target);
	return err;
}

int vfs_rename_check_flags(unsigned flags)
{
	if (flags & ~RENAME_FLAGS_ALL)
		return -EINVAL;
	if ((flags & RENAME_FLAG_EXCHANGE) && (flags & (RENAME_FLAG_NOREPLACE | RENAME_FLAG_WHITEOUT)))
		return -EINVAL;
	return 0;
}

static int check_request(struct vfs *vfs, const struct vfs_rename *ask)
{
	int err = vfs_rename_check_flags(ask->flags);

	if (err)
		return err;
	if (name_is_dot(ask->old_name, ask->old_len) || name_is_dotdot(ask->old_name, ask->old_len))
		return -EBUSY;
	if (name_is_dot(ask->new_name, ask->new_len) || name_is_dotdot(ask->new_name, ask->new_len))
		return ask->flags & RENAME_FLAG_NOREPLACE ? -EEXIST : -EBUSY;
	return fs_is_read_only(vfs->fs) ? -EROFS : 0;
}

int vfs_rename(struct vfs *vfs, const struct vfs_cred *cred, const struct vfs_rename *rename)
{
	struct rename_op op = { .vfs = vfs, .cred = cred, .ask = rename };
	int err = check_request(vfs, rename);

	if (!err)
		err = name_check(rename->old_dir, rename->old_name, rename->old_len, &op.old_name);
	if (!err)
		err = name_check(rename->new_dir, rename->new_name, rename->new_len, &op.new_name);
	if (err)
		return err;
	if (rename->flags & RENAME_FLAG_WHITEOUT) {
		op.whiteout = inode_alloc(vfs->fs);
		if (!op.whiteout)
			return -ENOMEM;
		op.whiteout->uid = cred->uid;
		op.whiteout->gid = cred->gid;
	}
	op.serial = rename->old_dir != rename->new_dir;
	err = rename_try(&op);
	if (err == RENAME_SERIALLY) {
		op.serial = true;
		err = rename_try(&op);
	}
	if (op.whiteout_made)
		icache_put(op.whiteout);
	else if (op.whiteout)
		inode_free(op.whiteout);
	return err;
}
