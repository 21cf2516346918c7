/* SPDX-License-Identifier: MIT */
/* group.h - group descriptors and bitmaps */
#ifndef UEXT4_EXT4_GROUP_H
#define UEXT4_EXT4_GROUP_H

#include "ext4/fs.h"

/*
 * In-memory group: decoded descriptor plus allocator state. The descriptor's bytes live in desc_bh; group_desc_store()
 * packs the decoded fields there with the checksum. Fields change under .lock.
 */
struct ext4_group {
	struct mutex lock;               /* RANK_GROUP */
	group_t group;                   /* [const] */
	struct buffer_head *desc_bh;     /* [const] pinned for the mount's life */
	uint32_t desc_off;               /* [const] */
	fsblk_t block_bitmap, inode_bitmap, inode_table; /* [const] */
	uint32_t free_blocks, free_inodes, used_dirs, itable_unused; /* [lock] */
	uint16_t flags;                  /* [lock] EXT4_BG_* */
	uint32_t block_bitmap_csum, inode_bitmap_csum; /* [lock] of the bitmaps, as in the descriptor */
	_Atomic uint32_t free_blocks_hint, free_inodes_hint; /* [atomic] copies for lock-free scans */
	bool bad;                        /* [lock] corrupt: no allocation here */
	void *buddy;                     /* [lock] balloc's */
	uint32_t largest_free_hint;      /* [atomic] balloc's */
};

#define EXT4_BG_INODE_UNINIT 0x1u
#define EXT4_BG_BLOCK_UNINIT 0x2u
#define EXT4_BG_INODE_ZEROED 0x4u

/* Reads and verifies all descriptors (meta_bg, 64bit, checksums), allocates fs->groups. */
int groups_load(struct ext4_fs *fs);
void groups_free(struct ext4_fs *fs);

group_t fs_group_of_block(const struct ext4_fs *fs, fsblk_t blk);
fsblk_t group_first_block(const struct ext4_fs *fs, group_t group);
uint32_t group_block_count(const struct ext4_fs *fs, group_t group);   /* the last one may be short */
bool group_has_super(const struct ext4_fs *fs, group_t group);         /* sparse_super, sparse_super2 */
group_t fs_group_of_ino(const struct ext4_fs *fs, ino_num ino);

/* Packs the decoded fields and checksum into desc_bh (write access had by the handle). Caller: g->lock. */
void group_desc_store(struct ext4_fs *fs, struct ext4_group *g);

/*
 * The bitmap block, read and checked (checksum, padding, system blocks marked), or built if *_UNINIT. With a handle and
 * *_UNINIT the caller that allocates calls group_*_bitmap_init() under g->lock after write access.
 * -EIO, -EBADMSG, -EUCLEAN (group then marked bad).
 */
int group_block_bitmap(struct ext4_fs *fs, struct ext4_group *g, struct buffer_head **bh_out);
int group_inode_bitmap(struct ext4_fs *fs, struct ext4_group *g, struct buffer_head **bh_out);
/*
 * First use of a *_UNINIT group: clears the flag and sets the checksum and, for blocks, the free count. The bitmap block
 * came built from group_*_bitmap(). Nothing happens where the flag is clear. Caller: g->lock, write access to @bh
 * and desc_bh; then group_desc_store().
 */
void group_block_bitmap_init(struct ext4_fs *fs, struct ext4_group *g, const struct buffer_head *bh);
void group_inode_bitmap_init(struct ext4_fs *fs, struct ext4_group *g, const struct buffer_head *bh);
/* Recompute the bitmap's checksum into the decoded descriptor; caller holds g->lock, then group_desc_store(). */
void group_block_bitmap_csum_set(struct ext4_fs *fs, struct ext4_group *g, const struct buffer_head *bh);
void group_inode_bitmap_csum_set(struct ext4_fs *fs, struct ext4_group *g, const struct buffer_head *bh);

/* Sums over all groups, for statfs: exact. */
uint64_t groups_free_blocks(struct ext4_fs *fs);
uint64_t groups_free_inodes(struct ext4_fs *fs);

#endif
