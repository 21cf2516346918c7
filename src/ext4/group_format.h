/* SPDX-License-Identifier: MIT */
/* group_format.h - the group descriptor on disk; see docs/FORMAT.md "Group descriptor" */
#ifndef UEXT4_EXT4_GROUP_FORMAT_H
#define UEXT4_EXT4_GROUP_FORMAT_H

#include "base/types.h"

/* The second half exists with 64bit only (s_desc_size >= 64). */
struct ext4_group_desc {
	le32 bg_block_bitmap_lo;        /* 0x00 */
	le32 bg_inode_bitmap_lo;        /* 0x04 */
	le32 bg_inode_table_lo;         /* 0x08 */
	le16 bg_free_blocks_count_lo;   /* 0x0C */
	le16 bg_free_inodes_count_lo;   /* 0x0E */
	le16 bg_used_dirs_count_lo;     /* 0x10 */
	le16 bg_flags;                  /* 0x12 EXT4_BG_* */
	le32 bg_exclude_bitmap_lo;      /* 0x14 */
	le16 bg_block_bitmap_csum_lo;   /* 0x18 */
	le16 bg_inode_bitmap_csum_lo;   /* 0x1A */
	le16 bg_itable_unused_lo;       /* 0x1C inodes at the table's end never used */
	le16 bg_checksum;               /* 0x1E crc16 (gdt_csum) or low half of crc32c (metadata_csum) */
	le32 bg_block_bitmap_hi;        /* 0x20 */
	le32 bg_inode_bitmap_hi;        /* 0x24 */
	le32 bg_inode_table_hi;         /* 0x28 */
	le16 bg_free_blocks_count_hi;   /* 0x2C */
	le16 bg_free_inodes_count_hi;   /* 0x2E */
	le16 bg_used_dirs_count_hi;     /* 0x30 */
	le16 bg_itable_unused_hi;       /* 0x32 */
	le32 bg_exclude_bitmap_hi;      /* 0x34 */
	le16 bg_block_bitmap_csum_hi;   /* 0x38 */
	le16 bg_inode_bitmap_csum_hi;   /* 0x3A */
	le32 bg_reserved;               /* 0x3C */
};

static_assert(sizeof(struct ext4_group_desc) == 64, "FORMAT.md: 64 bytes");
static_assert(offsetof(struct ext4_group_desc, bg_flags) == 0x12, "FORMAT.md: bg_flags at 0x12");
static_assert(offsetof(struct ext4_group_desc, bg_checksum) == 0x1E, "FORMAT.md: bg_checksum at 0x1E");
static_assert(offsetof(struct ext4_group_desc, bg_block_bitmap_hi) == 0x20, "FORMAT.md: bg_block_bitmap_hi at 0x20");
static_assert(offsetof(struct ext4_group_desc, bg_block_bitmap_csum_hi) == 0x38,
	      "FORMAT.md: bg_block_bitmap_csum_hi at 0x38");

#endif
