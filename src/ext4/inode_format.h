/* SPDX-License-Identifier: MIT */
/* inode_format.h - the inode on disk; see docs/FORMAT.md "Inode" */
#ifndef UEXT4_EXT4_INODE_FORMAT_H
#define UEXT4_EXT4_INODE_FORMAT_H

#include "base/types.h"

#define EXT4_INODE_BYTES_MIN 128u
#define EXT4_INODE_BYTES_MAX 1024u /* larger ones are legal up to a block; their tail is xattr space too */

#define EXT4_N_BLOCKS    15u
#define EXT4_NDIR_BLOCKS 12u
#define EXT4_IND_BLOCK   12u
#define EXT4_DIND_BLOCK  13u
#define EXT4_TIND_BLOCK  14u

#define EXT4_INODE_XATTR_MAGIC 0xEA020000u /* le32 after the last field: xattrs follow in the body */

/* *_extra: the low two bits extend the signed 32-bit seconds upwards, the rest is nanoseconds. */
#define EXT4_EPOCH_BITS 2u
#define EXT4_EPOCH_MASK 3u

/*
 * The raw inode. The first 128 bytes always exist. i_extra_isize says how many bytes after them are fields; a
 * field exists only if it lies wholly within 128 + i_extra_isize. In-body xattrs follow.
 */
struct ext4_inode {
	le16 i_mode;            /* 0x00 */
	le16 i_uid;             /* 0x02 low half */
	le32 i_size_lo;         /* 0x04 */
	le32 i_atime;           /* 0x08 */
	le32 i_ctime;           /* 0x0C */
	le32 i_mtime;           /* 0x10 */
	le32 i_dtime;           /* 0x14 deletion time; while orphaned: the next orphan's number */
	le16 i_gid;             /* 0x18 low half */
	le16 i_links_count;     /* 0x1A */
	le32 i_blocks_lo;       /* 0x1C 512-byte units, or blocks with EXT4_HUGE_FILE_FL */
	le32 i_flags;           /* 0x20 */
	le32 i_version_lo;      /* 0x24 osd1: change counter */
	le32 i_block[EXT4_N_BLOCKS]; /* 0x28 */
	le32 i_generation;      /* 0x64 */
	le32 i_file_acl_lo;     /* 0x68 xattr block */
	le32 i_size_high;       /* 0x6C */
	le32 i_obso_faddr;      /* 0x70 */
	le16 i_blocks_high;     /* 0x74 osd2 */
	le16 i_file_acl_high;   /* 0x76 */
	le16 i_uid_high;        /* 0x78 */
	le16 i_gid_high;        /* 0x7A */
	le16 i_checksum_lo;     /* 0x7C metadata_csum */
	le16 i_reserved;        /* 0x7E */
	le16 i_extra_isize;     /* 0x80 */
	le16 i_checksum_hi;     /* 0x82 */
	le32 i_ctime_extra;     /* 0x84 */
	le32 i_mtime_extra;     /* 0x88 */
	le32 i_atime_extra;     /* 0x8C */
	le32 i_crtime;          /* 0x90 */
	le32 i_crtime_extra;    /* 0x94 */
	le32 i_version_hi;      /* 0x98 */
	le32 i_projid;          /* 0x9C */
};

static_assert(sizeof(struct ext4_inode) == 160, "FORMAT.md: 160 bytes of fields");
static_assert(offsetof(struct ext4_inode, i_block) == 0x28, "FORMAT.md: i_block at 0x28");
static_assert(offsetof(struct ext4_inode, i_blocks_high) == 0x74, "FORMAT.md: i_blocks_high at 0x74");
static_assert(offsetof(struct ext4_inode, i_extra_isize) == 0x80, "FORMAT.md: i_extra_isize at 0x80");
static_assert(offsetof(struct ext4_inode, i_projid) == 0x9C, "FORMAT.md: i_projid at 0x9C");

/* True if @field of struct ext4_inode exists in an inode of @extra_isize. */
#define EXT4_INODE_HAS_FIELD(extra_isize, field)                                              \
	(offsetof(struct ext4_inode, field) + sizeof(((struct ext4_inode *)0)->field) <=      \
	 EXT4_INODE_BYTES_MIN + (unsigned)(extra_isize))

#endif
