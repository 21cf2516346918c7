/* SPDX-License-Identifier: MIT */
/* map_private.h - shared by extent trees, indirect maps and map.c */
#ifndef UEXT4_EXT4_MAP_PRIVATE_H
#define UEXT4_EXT4_MAP_PRIVATE_H

#include "ext4/extent_private.h"
#include "ext4/map.h"

/**
 * map_tree_block_alloc() - a new block of an inode's tree, near @goal
 * Uses up a block promised for dirty data's tree, if there is one. Counted in i_blocks. *bh_out has create access; the
 * caller fills it, marks it BH_UPTODATE and BH_VERIFIED and dirties it.
 */
int map_tree_block_alloc(struct handle *h, struct inode *inode, fsblk_t goal, struct buffer_head **bh_out);
/* Frees a tree block and takes it off i_blocks: revoked and forgotten. Consumes @bh. */
int map_tree_block_free(struct handle *h, struct inode *inode, struct buffer_head *bh);
/* Most blocks to free at once: each block of a directory or symlink takes a revoke record. */
uint32_t map_free_max(const struct inode *inode);
/* Frees data (or directory) blocks and takes them off i_blocks. */
int map_data_free(struct handle *h, struct inode *inode, fsblk_t blk, uint32_t count);
/* Are there credits for freeing @count blocks and changing @nodes tree blocks? Asks for more. 0 yes, 1 no, negative errno. */
int map_free_credits(struct handle *h, const struct inode *inode, uint32_t count, uint32_t nodes);

#define MAP_CLAIMED 0x100u

/* What map.c allocates for a hole. */
struct map_alloc {
	lblk_t lblk;
	uint32_t len;
	unsigned flags;     /* MAP_*; MAP_CLAIMED: blk is given, and claimed */
	bool reserved;      /* the blocks are delayed ones */
	fsblk_t blk;        /* out */
	uint32_t got;       /* out: blocks claimed from @blk on */
};
/* Claims (and with MAP_ZERO zeroes) blocks near @goal; fills blk and got. */
int map_data_alloc(struct handle *h, struct inode *inode, fsblk_t goal, struct map_alloc *a);
/* Undoes it: the blocks did not make it into the tree. */
void map_data_unalloc(struct handle *h, struct inode *inode, const struct map_alloc *a);

/* ---- indirect.c: as ext_lookup(), map_data_alloc() with the tree changed, and ext_remove() ---- */
int ind_lookup(struct inode *inode, lblk_t lblk, struct ext_extent *out);
int ind_alloc(struct handle *h, struct inode *inode, struct map_alloc *a);
int ind_remove(struct handle *h, struct inode *inode, lblk_t start, uint64_t *end);
/* First block number that an indirect map of this file system cannot hold. */
uint64_t ind_max_lblk(const struct ext4_fs *fs);

#endif
