/* SPDX-License-Identifier: MIT */
/* ialloc_private.h - which group a new inode goes to */
#ifndef UEXT4_EXT4_IALLOC_PRIVATE_H
#define UEXT4_EXT4_IALLOC_PRIVATE_H

#include "ext4/group.h"
#include "ext4/ialloc.h"

struct ialloc {
	uint32_t *first_free;           /* [group.lock] per group: no free inode below this bit */
	_Atomic uint32_t *dirs;         /* [atomic] per group: copy of used_dirs for scans without locks */
	uint32_t unit_bits;             /* [const] log2 groups per placement unit: the flex group, or one group */
	uint32_t units;                 /* [const] */
	uint64_t seed;                  /* [const] of generations */
	_Atomic uint64_t random;        /* [atomic] spreads top-level directories */
	/* [atomic] averages over units for placing subdirectories, refreshed now and then */
	_Atomic uint32_t averages_age;
	_Atomic uint64_t average_inodes, average_blocks, average_dirs;
};

/* A number that looks random and differs for each @z (the splitmix64 finaliser). */
static inline uint64_t ialloc_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* The group to try first for a directory (Orlov) or another inode. Groups are numbered below fs->group_count. */
group_t ialloc_group_for_dir(struct ext4_fs *fs, const struct inode *parent);
group_t ialloc_group_for_file(struct ext4_fs *fs, const struct inode *parent);

#endif
