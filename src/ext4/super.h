/* SPDX-License-Identifier: MIT */
/* super.h - mounting, unmounting, syncing; superblock fields that change */
#ifndef UEXT4_EXT4_SUPER_H
#define UEXT4_EXT4_SUPER_H

#include "ext4/fs.h"

void options_init(struct ext4_options *opt);
/**
 * options_parse() - apply a comma-separated `-o` string to @opt
 * @error_out: on failure, text naming the option and what was wrong (static or in @opt's buffer size 256)
 * Unknown options: -EINVAL, naming it. rw/ro/defaults and ext4's usual names are known.
 */
int options_parse(struct ext4_options *opt, const char *text, char error_out[256]);
void options_exit(struct ext4_options *opt);

/**
 * ext4_mount() - check the superblock, recover the journal, load groups, process orphans
 * @dev: owned by the fs afterwards, also when this fails
 * @vfs_ops, @vfs_private: kept; called only after return
 *
 * Unknown incompat: -EOPNOTSUPP; unknown ro_compat without ro: mounts read-only; both named in the log. Features
 * are checked again after replay.
 * Return: 0; -EINVAL (no ext4: bad magic), -EUCLEAN, -EBADMSG, -EIO, -ENOMEM, -EROFS, -EBUSY (MMP), -EOPNOTSUPP
 */
int ext4_mount(struct block_device *dev, const struct ext4_options *opt, const struct log_sink *log, const char *name,
	       const struct ext4_vfs_ops *vfs_ops, void *vfs_private, struct ext4_fs **fs_out);
/* All inodes are evicted. Everything on disk, journal empty, state clean. Frees @fs in every case; first error. */
int ext4_unmount(struct ext4_fs *fs);
/* sync(2): dirty data, lazy times, commit, flush. */
int ext4_sync(struct ext4_fs *fs);
/* Read-only from now on; pending changes are written first. */
int ext4_remount_read_only(struct ext4_fs *fs);

struct ext4_statfs {
	uint64_t blocks, blocks_free, blocks_available; /* of block_bytes; overhead subtracted as Linux (minixdf off) */
	uint64_t inodes, inodes_free;
	uint64_t inodes_orphaned; /* on the orphan list now */
	uint32_t block_bytes, name_max;
	uint32_t time_gran_ns; /* times are kept to a multiple of it: whole seconds on inodes of 128 bytes */
	uint64_t fsid;
};
void ext4_statfs(struct ext4_fs *fs, struct ext4_statfs *out);

/* Sets a feature that a first use needs (large_file, dir_nlink ...) in the superblock, through the handle (1 credit). */
int super_set_ro_compat(struct handle *h, struct ext4_fs *fs, uint32_t feature);
int super_set_compat(struct handle *h, struct ext4_fs *fs, uint32_t feature);

/* Stores where the file system is mounted in s_last_mounted; @path is cut to 63 bytes. Starts its own handle. */
int super_set_last_mounted(struct ext4_fs *fs, const char *path);

/* Raw superblock bytes, for readers of rarely used fields. */
const struct ext4_super_block *fs_super(const struct ext4_fs *fs);

#endif
