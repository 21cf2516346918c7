/* SPDX-License-Identifier: MIT */
/* ialloc.h - inode allocation: Orlov for directories, the parent's group for files */
#ifndef UEXT4_EXT4_IALLOC_H
#define UEXT4_EXT4_IALLOC_H

#include "ext4/inode.h"

int ialloc_init(struct ext4_fs *fs);
void ialloc_exit(struct ext4_fs *fs);

#define IALLOC_CREDITS 5u /* bitmap, descriptor, table block, block bitmap first use, superblock slack */
/**
 * ialloc_new() - claim an inode number and fill in what follows from the parent
 * @h:     handle with IALLOC_CREDITS
 * @dir:   parent, locked
 * @inode: blank; gets ino, generation, times, flags inherited as Linux does (mask by type), crtime, EXTENTS_FL with an
 *         empty root where the image has extents, extra_isize, projid; mode, uid, gid are set by the caller before
 * Lazily initialises the group's bitmap and inode table use. Does not write the inode.
 * Return: 0, -ENOSPC, -EIO, -EUCLEAN, -EROFS
 */
int ialloc_new(struct handle *h, struct inode *dir, struct inode *inode);
/*
 * Claims the number that @inode has, as fast commits say; IALLOC_CREDITS and one for each table block never used before it.
 * -EUCLEAN: it is in use.
 */
int ialloc_claim(struct handle *h, struct inode *inode);
/* Clears the bit; the inode's table entry has been written with dtime/zero mode. @is_dir counts used_dirs. */
int ialloc_free(struct handle *h, struct inode *inode);

/* Is @ino marked used? For stale node numbers and orphans. Reads the bitmap. 1, 0 or negative errno. */
int ialloc_is_used(struct ext4_fs *fs, ino_num ino);

#endif
