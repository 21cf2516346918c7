/* SPDX-License-Identifier: MIT */
/* orphan.h - inodes to be truncated or freed at the next mount: linked list or orphan_file */
#ifndef UEXT4_EXT4_ORPHAN_H
#define UEXT4_EXT4_ORPHAN_H

#include "ext4/inode.h"

int orphan_init(struct ext4_fs *fs);
void orphan_exit(struct ext4_fs *fs);
#define ORPHAN_CREDITS 4u
/* Idempotent. Through @h; writes no other inode fields than the link. */
int orphan_add(struct handle *h, struct inode *inode);
int orphan_del(struct handle *h, struct inode *inode); /* h NULL: only in memory (journal aborted) */
/*
 * Takes those inodes off the list, which was @list, and out of the slots that @is_gone says are gone. Before any orphan was
 * added in memory; one credit for each, and the superblock.
 */
int orphans_drop(struct handle *h, struct ext4_fs *fs, const ino_num *list, size_t count,
		 bool (*is_gone)(void *arg, ino_num ino), void *arg);
/* An inode is counted until its space is back: with a link to orphan_del(), without one to the end of its eviction or its first link. */
void orphan_uncount(struct inode *inode);
uint64_t orphans_count(const struct ext4_fs *fs);
/* At mount: truncates (nlink > 0) or frees (nlink == 0) each; cycles and bad numbers are reported, not followed. Counts for the log. */
int orphan_process_all(struct ext4_fs *fs, uint32_t *truncated_out, uint32_t *freed_out);

#endif
