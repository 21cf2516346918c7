/* SPDX-License-Identifier: MIT */
/* orphan_private.h - between the linked list and the orphan file */
#ifndef UEXT4_EXT4_ORPHAN_PRIVATE_H
#define UEXT4_EXT4_ORPHAN_PRIVATE_H

#include "ext4/orphan.h"

struct orphan_block {
	struct buffer_head *bh;        /* [const] pinned */
	struct mutex lock;             /* RANK_ORPHAN: slots and checksum of this block */
	_Atomic uint32_t free_slots;   /* [atomic] claimed before a slot is looked for */
};

struct orphan_state {
	struct list_head list;         /* [fs.orphan_lock] inodes on the linked list, as on disk: newest first */
	_Atomic uint64_t count;        /* [atomic] inodes that are INODE_ORPHAN_COUNTED */
	struct orphan_block *blocks;   /* [const] of the orphan file */
	uint32_t block_count;          /* [const] 0: no orphan file */
	uint32_t slots_per_block;      /* [const] */
	uint32_t csum_seed;            /* [const] of the orphan file's inode */
};

#define ORPHAN_SLOT_NONE UINT32_MAX /* inode.orphan_slot: on the linked list */

int  orphan_file_open(struct ext4_fs *fs);
void orphan_file_close(struct ext4_fs *fs);
/* -ENOSPC: no free slot. */
int  orphan_file_add(struct handle *h, struct inode *inode);
int  orphan_file_del(struct handle *h, struct inode *inode);
uint32_t orphan_file_slots(const struct orphan_state *state);
ino_num orphan_file_slot(const struct orphan_state *state, uint32_t slot); /* 0: free */
/* Empties a slot whose number is no orphan. */
int  orphan_file_clear_slot(struct handle *h, struct ext4_fs *fs, uint32_t slot);

#endif
