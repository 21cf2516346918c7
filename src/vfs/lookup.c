/* SPDX-License-Identifier: MIT */
/* lookup.c - from a name in a directory to its inode */
#include <errno.h>
#include <string.h>

#include "vfs/dcache.h"
#include "vfs/icache.h"
#include "vfs/names.h"
#include "vfs/vfs.h"

int name_check(struct inode *dir, const char *name, size_t len, struct name *name_out)
{
	if (!inode_is_dir(dir))
		return -ENOTDIR;
	if (len == 0)
		return -ENOENT;
	if (len > EXT4_INODE_NAME_MAX)
		return -ENAMETOOLONG;
	if (memchr(name, '/', len) || memchr(name, '\0', len))
		return -EINVAL;
	*name_out = (struct name){ .str = name, .len = (uint8_t)len };
	return 0;
}

bool name_is_dot(const char *name, size_t len)
{
	return len == 1 && name[0] == '.';
}

bool name_is_dotdot(const char *name, size_t len)
{
	return len == 2 && name[0] == '.' && name[1] == '.';
}

/* A number out of a directory entry: only the root and ordinary inodes have names. */
static bool ino_may_have_name(const struct ext4_fs *fs, ino_num ino)
{
	return ino == EXT4_ROOT_INO || (ino >= fs->first_ino && ino <= fs->inodes_count);
}

/* What the name cache says; 0 with a number or DENTRY_NEGATIVE, 1 if it does not know. */
static int cached_ino(struct vfs *vfs, struct inode *dir, const struct name *name, ino_num *ino_out)
{
	struct dentry *d;
	ino_num ino;

	rcu_enter();
	d = dcache_find(vfs->dcache, dir->ino, name->str, name->len);
	ino = d ? dentry_ino(d) : DENTRY_UNKNOWN;
	rcu_leave();
	*ino_out = ino;
	return ino == DENTRY_UNKNOWN;
}

int name_find_ino(struct vfs *vfs, struct inode *dir, const struct name *name, ino_num *ino_out)
{
	uint8_t type;
	ino_num ino;
	int err;

	if (!cached_ino(vfs, dir, name, &ino)) {
		*ino_out = ino;
		return ino == DENTRY_NEGATIVE ? -ENOENT : 0;
	}
	err = dir_lookup(dir, name, &ino, &type);
	if (err == -ENOENT) {
		dcache_fill(vfs->dcache, dir->ino, name->str, name->len, DENTRY_NEGATIVE);
		return err;
	}
	if (err)
		return err;
	if (!ino_may_have_name(vfs->fs, ino))
		return INODE_ERROR(dir, -EUCLEAN, 0, "entry '%.*s' has inode number %u", name->len, name->str, ino);
	dcache_fill(vfs->dcache, dir->ino, name->str, name->len, ino);
	*ino_out = ino;
	return 0;
}

/* ".." of the root is the root, whatever its entry says. */
static bool is_above_root(const struct inode *dir, const struct name *name)
{
	return dir->ino == EXT4_ROOT_INO && name_is_dotdot(name->str, name->len);
}

int name_find(struct vfs *vfs, struct inode *dir, const struct name *name, struct inode **inode_out)
{
	ino_num ino;
	int err = name_find_ino(vfs, dir, name, &ino);

	if (err)
		return err;
	err = icache_get(vfs->icache, ino, inode_out);
	/* A name that leads to a free inode: the directory is damaged, not the caller's number stale. */
	if (err == -ESTALE)
		return INODE_ERROR(dir, -EUCLEAN, 0, "entry '%.*s' leads to unused inode %u", name->len, name->str, ino);
	return err;
}

/* Without any lock (D2). 0, -ENOENT, or 1: has to be looked up under the directory's rwsem. */
static int find_cached(struct vfs *vfs, struct inode *dir, const struct name *name, struct inode **inode_out)
{
	struct inode *inode = NULL;
	struct dentry *d;
	ino_num ino = DENTRY_UNKNOWN;
	bool confirmed = false;

	rcu_enter();
	d = dcache_find(vfs->dcache, dir->ino, name->str, name->len);
	if (d)
		ino = dentry_ino(d);
	if (ino != DENTRY_UNKNOWN && ino != DENTRY_NEGATIVE)
		inode = icache_find(vfs->icache, ino);
	if (inode)
		confirmed = dentry_ino(d) == ino;
	rcu_leave();
	if (ino == DENTRY_NEGATIVE)
		return -ENOENT;
	if (inode && !confirmed) {
		icache_put(inode);
		return 1;
	}
	*inode_out = inode;
	return inode ? 0 : 1;
}

int vfs_lookup(struct vfs *vfs, struct inode *dir, const char *name, size_t len, struct inode **inode_out)
{
	struct name checked;
	int err = name_check(dir, name, len, &checked);

	if (err)
		return err;
	if (name_is_dot(name, len) || is_above_root(dir, &checked)) {
		icache_hold(dir);
		*inode_out = dir;
		return 0;
	}
	err = find_cached(vfs, dir, &checked, inode_out);
	if (err <= 0)
		return err;
	rwsem_read_lock(&dir->rwsem);
	err = dir->nlink ? name_find(vfs, dir, &checked, inode_out) : -ENOENT;
	rwsem_read_unlock(&dir->rwsem);
	return err;
}

int vfs_node_get(struct vfs *vfs, uint64_t ino, struct inode **inode_out)
{
	if (ino > UINT32_MAX || !ino_may_have_name(vfs->fs, (ino_num)ino))
		return -ESTALE;
	return icache_get(vfs->icache, (ino_num)ino, inode_out);
}
