/* SPDX-License-Identifier: MIT */
/* balloc.h - block allocation: finding, claiming, freeing, and reservations of delayed allocation */
#ifndef UEXT4_EXT4_BALLOC_H
#define UEXT4_EXT4_BALLOC_H

#include "ext4/fs.h"

struct inode;

int balloc_init(struct ext4_fs *fs);   /* at mount, groups loaded */
void balloc_exit(struct ext4_fs *fs);

/* Blocks that are not for everybody: root's, and those for what may not fail. Ready once the superblock is read. */
uint64_t balloc_kept_blocks(const struct ext4_fs *fs);

#define BALLOC_DATA       0x01u  /* file data: may use preallocation and large runs */
#define BALLOC_METADATA   0x02u  /* a tree, directory or xattr block */
#define BALLOC_RESERVED   0x04u  /* the blocks were reserved with balloc_reserve(): cannot fail with ENOSPC */
#define BALLOC_ROOT       0x08u  /* may use the blocks reserved for root */
#define BALLOC_EXACT_LEN  0x10u  /* all or -ENOSPC */
#define BALLOC_NO_PREALLOC 0x20u /* small one-off file or known size */
#define BALLOC_SPARE      0x40u  /* may use the few blocks kept for what may not fail: splits of unwritten extents */

/* BALLOC_ROOT where the one that @h works for has that right. */
static inline unsigned balloc_rights(const struct handle *h)
{
	return h->limited ? 0 : BALLOC_ROOT;
}

struct balloc_request {
	struct inode *inode;
	lblk_t lblk;         /* where in the file, for locality and alignment */
	fsblk_t goal;        /* preferred block, 0: none (inode's group) */
	uint32_t len;        /* blocks wanted, > 0 */
	unsigned flags;
};

/**
 * balloc_alloc() - claim up to @req->len contiguous blocks, as near @req->goal as possible
 * The bitmap, descriptor and counters are changed through @h (credits: BALLOC_CREDITS). The claimed blocks are not i_blocks'd.
 * A reservation, if BALLOC_RESERVED, is consumed for what was given.
 * Return: 0 with 1 <= *len_out <= len; -ENOSPC, -EIO, -EROFS, -ENOMEM
 */
int balloc_alloc(struct handle *h, const struct balloc_request *req, fsblk_t *blk_out, uint32_t *len_out);
#define BALLOC_CREDITS 3u /* bitmap, descriptor, superblock slack */

/* Claims exactly [blk, blk + count), which lies in one group and is free. -EUCLEAN (it is not), -ENOSPC, -EIO ... */
int balloc_claim(struct handle *h, struct ext4_fs *fs, fsblk_t blk, uint32_t count);

#define BFREE_METADATA 0x1u /* revoke and forget the buffers over them */
#define BFREE_VALIDATED 0x2u
/**
 * balloc_free() - free [blk, blk + count) through @h
 * Metadata blocks are revoked (one revoke credit each) and forgotten. Freed blocks are not handed out again before the
 * commit (both kinds): they rejoin the buddy in a commit callback. Spans groups. Caller has BALLOC_CREDITS per group.
 * Return: 0; -EUCLEAN (already free, system zone or out of range: reported, nothing of that part freed), -EIO ...
 */
int balloc_free(struct handle *h, struct inode *inode, fsblk_t blk, uint64_t count, unsigned flags);

/**
 * balloc_should_retry() - after -ENOSPC: is it worth trying again?
 * @retries: starts at 0; the caller's loop counter
 *
 * Blocks freed by transactions that have not committed cannot be given out (balloc_free()). If there are any, commits
 * and waits until they are back. Call with no handle open and no folio, map or group lock held:
 *
 *	retry:
 *		err = fs_handle_start(fs, credits, 0, &h);
 *		... err = map_blocks(&h, ...); journal_stop(&h);
 *		if (err == -ENOSPC && balloc_should_retry(fs, &retries) > 0)
 *			goto retry;
 *
 * Also after a failed balloc_reserve().
 * Return: 1 try again; 0 no use, the disk is full; the journal's error
 */
int balloc_should_retry(struct ext4_fs *fs, int *retries);
#define BALLOC_RETRIES 3

/* Waits for what committed transactions freed to be back, and for discards. At unmount, after the last commit. */
void balloc_drain(struct ext4_fs *fs);

/*
 * Delayed allocation: promise @blks blocks (data plus worst-case metadata are the caller's sum). @flags: BALLOC_ROOT, BALLOC_SPARE,
 * as of an allocation. -ENOSPC.
 */
int balloc_reserve(struct ext4_fs *fs, uint64_t blks, unsigned flags);
void balloc_unreserve(struct ext4_fs *fs, uint64_t blks);

/* Free blocks less reservations, not below 0. */
uint64_t balloc_free_count(struct ext4_fs *fs);
/* Preferred block for @lblk of @inode when it has no neighbour on disk. */
fsblk_t balloc_inode_goal(const struct inode *inode);
/* Gives per-inode preallocation back; at last close, truncate, evict. */
void balloc_discard_prealloc(struct inode *inode);

#endif
