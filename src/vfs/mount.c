/* SPDX-License-Identifier: MIT */
/* mount.c - the caches around a mounted file system, and their end */
#include <errno.h>
#include <stdlib.h>

#include "vfs/dcache.h"
#include "vfs/icache.h"
#include "vfs/vfs.h"

/*
 * Of the memory limit, for objects that the cache layer does not count: a sixteenth for inodes, each with its extent
 * status and locks; a sixty-fourth for names.
 */
#define INODE_BYTES     1536u
#define INODE_SHARE     16u
#define DENTRY_SHARE    64u
#define INODES_MIN      1024u
#define DENTRY_BYTES_MIN (256u * 1024)

static bool vfs_inode_grab(struct inode *inode)
{
	return icache_tryhold(inode);
}

static void vfs_inode_drop(struct inode *inode)
{
	icache_put_deferred(inode);
}

static const struct ext4_vfs_ops vfs_ops = {
	.inode_grab = vfs_inode_grab,
	.inode_drop = vfs_inode_drop,
};

static int create_caches(struct vfs *vfs)
{
	uint64_t limit_bytes = counter_read(vfs->fs->counters, CNT_CACHE_LIMIT_BYTES);
	uint64_t inodes = max_of(limit_bytes / INODE_SHARE / INODE_BYTES, (uint64_t)INODES_MIN);
	int err;

	err = dcache_create(max_of(limit_bytes / DENTRY_SHARE, (uint64_t)DENTRY_BYTES_MIN), &vfs->dcache);
	return err ? err : icache_create(vfs->fs, inodes, &vfs->icache);
}

static int load_root(struct vfs *vfs)
{
	int err = icache_get(vfs->icache, EXT4_ROOT_INO, &vfs->root);

	if (err == -ESTALE)
		return FS_ERROR(vfs->fs, -EUCLEAN, "the root inode is not in use");
	if (err)
		return err;
	if (inode_is_dir(vfs->root))
		return 0;
	return INODE_ERROR(vfs->root, -EUCLEAN, 0, "the root is no directory");
}

int vfs_mount(struct block_device *dev, const struct ext4_options *opt, const struct log_sink *log, const char *name,
	      bool check_permissions, struct vfs **vfs_out)
{
	struct vfs *vfs = calloc(1, sizeof(*vfs));
	int err;

	if (!vfs) {
		block_close(dev);
		return -ENOMEM;
	}
	vfs->check_permissions = check_permissions;
	mutex_init(&vfs->rename_lock, RANK_RENAME);
	err = ext4_mount(dev, opt, log, name, &vfs_ops, vfs, &vfs->fs);
	if (err)
		goto free_vfs;
	err = create_caches(vfs);
	if (!err)
		err = load_root(vfs);
	if (err) {
		vfs_unmount(vfs);
		return err;
	}
	*vfs_out = vfs;
	return 0;
free_vfs:
	mutex_exit(&vfs->rename_lock);
	free(vfs);
	return err;
}

/* Data of all files goes out together before the inodes go one by one. */
int vfs_unmount(struct vfs *vfs)
{
	uint32_t open_files = atomic_load(&vfs->open_files);
	int err = 0, next_err;

	if (open_files)
		log_print(&vfs->fs->log, LOG_ERROR, "%s: closed with %u files open", vfs->fs->name, open_files);
	if (!fs_is_read_only(vfs->fs))
		err = ext4_sync(vfs->fs);
	icache_put(vfs->root);
	if (vfs->icache) {
		next_err = icache_destroy(vfs->icache);
		err = err ? err : next_err;
	}
	next_err = ext4_unmount(vfs->fs);
	err = err ? err : next_err;
	if (vfs->dcache)
		dcache_destroy(vfs->dcache);
	mutex_exit(&vfs->rename_lock);
	free(vfs);
	return err;
}
