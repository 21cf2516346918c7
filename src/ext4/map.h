/* SPDX-License-Identifier: MIT */
/* map.h - from a file's blocks to the device's, over extent trees and indirect maps alike */
#ifndef UEXT4_EXT4_MAP_H
#define UEXT4_EXT4_MAP_H

#include "ext4/inode.h"

#define MAP_CREATE       0x1u  /* allocate what is missing, written */
#define MAP_UNWRITTEN    0x2u  /* with CREATE: allocate as unwritten (extent files only) */
#define MAP_CONVERT      0x4u  /* unwritten parts of the range become written */
#define MAP_DELALLOC     0x8u  /* the range is reserved */
#define MAP_METADATA     0x10u /* directory and symlink blocks: allocated as metadata, written */
#define MAP_ZERO         0x20u /* new blocks are zeroed on the device before they are mapped */

struct map_result {
	fsblk_t blk;        /* 0 when hole or delayed */
	uint32_t len;       /* blocks from the asked one that share this state, >= 1 */
	enum es_status status;
	bool allocated;     /* just now */
	lblk_t es_lblk;     /* start of the whole extent known */
	uint32_t es_len;
};

/**
 * map_lookup() - where @lblk is; never allocates, no handle
 * Extent status first, without a lock; else reads the tree under map_sem shared and caches the whole extent found.
 * Return: 0; -EUCLEAN, -EBADMSG, -EIO, -ENOMEM
 */
int map_lookup(struct inode *inode, lblk_t lblk, uint32_t max_len, struct map_result *out);
/* With CREATE etc. through @h; credits: map_credits(). Takes map_sem exclusive. -ENOSPC too. */
int map_blocks(struct handle *h, struct inode *inode, lblk_t lblk, uint32_t len, unsigned flags, struct map_result *out);
/* Credits for one map_blocks() call that allocates one extent of @len blocks. */
uint32_t map_credits(const struct inode *inode, uint32_t len);

/* Block of a directory or slow symlink, mapped and read; a hole gives *bh_out NULL. */
int inode_block_read(struct inode *inode, lblk_t lblk, struct buffer_head **bh_out);
/* Appends or fills block @lblk (allocated if needed), create access had; contents not zeroed for you. */
int inode_block_create(struct handle *h, struct inode *inode, lblk_t lblk, struct buffer_head **bh_out);

/* For ialloc: writes an empty extent root (or zeroes) into i_block. */
void map_init_inode(struct inode *inode);
/* Frees everything from @start_lblk on in as many handles as needed; starts them itself. The inode is on the orphan list. */
int map_truncate(struct inode *inode, lblk_t start_lblk);
/* The same for [start, end): a hole is left. Not necessarily on the orphan list. Delayed blocks of the range are forgotten. */
int map_remove_range(struct inode *inode, lblk_t start, uint64_t end);
/**
 * map_set_state() - unwritten extents in [*start, end) become written, or the other way round
 * Through @h, as far as its credits go (it asks for more); *start moves past what was done. Takes map_sem exclusive.
 * Return: 0 all done; 1 restart the handle with map_credits() and go on; negative errno
 */
int map_set_state(struct handle *h, struct inode *inode, lblk_t *start, uint64_t end, bool unwritten);
/**
 * map_collapse(), map_insert() - cuts [start, end) out of the file, or opens a hole of @len blocks at @start
 * @h: any handle; it is given the credits that are needed
 *
 * Extent files only; nothing is cached or delayed from @start on. What fits into one transaction is done in one: the
 * handle is restarted only when there is no room left. A crash after that leaves a sound file with a part moved, as on Linux.
 */
int map_collapse(struct handle *h, struct inode *inode, lblk_t start, lblk_t end);
int map_insert(struct handle *h, struct inode *inode, lblk_t start, uint32_t len);
/*
 * Fast commits; the caller writes the inode. Maps blocks that are claimed already where there is a hole; unmaps blocks that
 * stay in use, as another inode gets them (1: no credits for it); unmaps and frees in this one handle (1: the same).
 */
struct ext_extent;
int map_attach(struct handle *h, struct inode *inode, const struct ext_extent *e);
int map_detach(struct handle *h, struct inode *inode, lblk_t start, uint64_t end);
int map_remove_in(struct handle *h, struct inode *inode, lblk_t start, uint64_t end);
/* Sees to it that @h may change @credits blocks and revoke @revokes more, in the same transaction if it has room. */
int map_renew(struct handle *h, uint32_t credits, uint32_t revokes);
/* Delayed blocks of [start, end) will never be written: they are a hole again and their reservation goes back. */
void map_forget_delayed(struct inode *inode, lblk_t start, uint64_t end);
/* Is anything mapped (or delayed) in [start, end)? 1, 0 or negative errno. */
int map_any(struct inode *inode, lblk_t start, uint64_t end);
/* A change of the mapping begins or ends: readers that compare map_seq notice both. Caller: map_sem exclusive. */
void map_seq_bump(struct inode *inode);
/* Does i_block hold a map at all (no fast symlink, no device)? */
bool map_has_tree(const struct inode *inode);

/* Checks the root in i_block when an inode is loaded. NULL or the rule broken. */
const char *map_verify_root(const struct inode *inode);

#endif
