/* SPDX-License-Identifier: MIT */
/* extent_format.h - extent trees on disk; all little-endian; see docs/FORMAT.md "Extent tree" */
#ifndef UEXT4_EXT4_EXTENT_FORMAT_H
#define UEXT4_EXT4_EXTENT_FORMAT_H

#include "base/types.h"

#define EXT4_EXT_MAGIC         0xF30Au
#define EXT4_EXT_MAX_DEPTH     5u
#define EXT4_EXT_WRITTEN_MAX   32768u /* blocks of one written extent; a larger ee_len means unwritten */
#define EXT4_EXT_UNWRITTEN_MAX 32767u

/* May lie over i_block, which is declared as 15 words. */
#define EXT_ALIAS __attribute__((may_alias))

struct EXT_ALIAS ext4_extent_header {  /* FORMAT.md "Extent header" */
	le16 eh_magic;                 /* 0x0 */
	le16 eh_entries;               /* 0x2  in use */
	le16 eh_max;                   /* 0x4  room */
	le16 eh_depth;                 /* 0x6  0: leaf */
	le32 eh_generation;            /* 0x8 */
};
static_assert(sizeof(struct ext4_extent_header) == 12, "FORMAT.md: 12 bytes");

struct EXT_ALIAS ext4_extent_idx {     /* FORMAT.md "Extent index" */
	le32 ei_block;                 /* 0x0  first file block below it */
	le32 ei_leaf_lo;               /* 0x4  node one level down */
	le16 ei_leaf_hi;               /* 0x8 */
	le16 ei_unused;                /* 0xA */
};
static_assert(sizeof(struct ext4_extent_idx) == 12, "FORMAT.md: 12 bytes");

struct EXT_ALIAS ext4_extent {         /* FORMAT.md "Extent" */
	le32 ee_block;                 /* 0x0  first file block */
	le16 ee_len;                   /* 0x4  blocks; above 32768: unwritten, less 32768 */
	le16 ee_start_hi;              /* 0x6 */
	le32 ee_start_lo;              /* 0x8 */
};
static_assert(sizeof(struct ext4_extent) == 12, "FORMAT.md: 12 bytes");

struct EXT_ALIAS ext4_extent_tail {    /* after eh_max entries; metadata_csum only */
	le32 et_checksum;              /* crc32c of inode number, generation and the block up to here */
};
static_assert(sizeof(struct ext4_extent_tail) == 4, "FORMAT.md: 4 bytes");

#endif
