/* SPDX-License-Identifier: MIT */
/* inode_private.h - between the raw inode in its table block and struct inode */
#ifndef UEXT4_EXT4_INODE_PRIVATE_H
#define UEXT4_EXT4_INODE_PRIVATE_H

#include "ext4/inode.h"
#include "ext4/inode_format.h"

/* ---- inode_raw.c ---- */

/* Checksum of the inode.fs.inode_bytes bytes at @raw; right regardless of what the checksum fields hold. */
uint32_t inode_raw_csum(const struct inode *inode, const struct ext4_inode *raw);
bool inode_raw_csum_is_right(const struct inode *inode, const struct ext4_inode *raw);
void inode_raw_csum_set(const struct inode *inode, struct ext4_inode *raw);

/* NULL, or what is wrong with the fields of @raw before anything is taken from it. */
const char *inode_raw_verify(const struct ext4_fs *fs, const struct ext4_inode *raw);
/* Takes all fields over. */
void inode_raw_unpack(struct inode *inode, const struct ext4_inode *raw);
/* NULL, or what is wrong with an unpacked inode. */
const char *inode_verify(const struct inode *inode);
/* Writes all fields, not the checksum. Caller: inode.raw_lock, buffer lock. -EFBIG: i_blocks does not fit the image's features. */
int  inode_raw_pack(const struct inode *inode, struct ext4_inode *raw);

/* ---- inode_table.c ---- */

/* Only i_dtime, the orphan link, and the checksum: what the orphan list changes in inodes it does not own. */
int inode_write_dtime(struct handle *h, struct inode *inode);

/* ---- inode_time.c ---- */

/* Caller: raw_lock. Each half is stored whole, for inode_needs_atime() looks at them at any time. */
static inline void inode_time_set(struct timespec *time, struct timespec t)
{
	__atomic_store_n(&time->tv_sec, t.tv_sec, __ATOMIC_RELAXED);
	__atomic_store_n(&time->tv_nsec, t.tv_nsec, __ATOMIC_RELAXED);
}

/* The times are in the table now, or nobody needs them any more. */
void inode_times_forget(struct inode *inode);

#endif
