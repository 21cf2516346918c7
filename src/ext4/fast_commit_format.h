/* SPDX-License-Identifier: MIT */
/* fast_commit_format.h - records of fast commits; all little-endian; see docs/FORMAT.md "Fast commits" */
#ifndef UEXT4_EXT4_FAST_COMMIT_FORMAT_H
#define UEXT4_EXT4_FAST_COMMIT_FORMAT_H

#include "base/types.h"
#include "ext4/extent_format.h"

enum fc_tag {
	FC_ADD_RANGE = 1,
	FC_DEL_RANGE = 2,
	FC_CREAT = 3,
	FC_LINK = 4,
	FC_UNLINK = 5,
	FC_INODE = 6,
	FC_PAD = 7,
	FC_TAIL = 8,
	FC_HEAD = 9,
};

struct fc_tl {                        /* FORMAT.md "Fast commits" */
	le16 fc_tag;                  /* 0x0 */
	le16 fc_len;                  /* 0x2  bytes of the value that follows */
};
static_assert(sizeof(struct fc_tl) == 4, "FORMAT.md: 4 bytes");

struct fc_add_range {
	le32 fc_ino;                  /* 0x0 */
	struct ext4_extent fc_ex;     /* 0x4  as in an extent tree */
};
static_assert(sizeof(struct fc_add_range) == 16, "FORMAT.md: 16 bytes");

struct fc_del_range {
	le32 fc_ino;                  /* 0x0 */
	le32 fc_lblk;                 /* 0x4 */
	le32 fc_len;                  /* 0x8  blocks */
};
static_assert(sizeof(struct fc_del_range) == 12, "FORMAT.md: 12 bytes");

struct fc_dentry {
	le32 fc_parent_ino;           /* 0x0 */
	le32 fc_ino;                  /* 0x4 */
	char fc_dname[];              /* 0x8  to the end of the value, no NUL */
};
static_assert(sizeof(struct fc_dentry) == 8, "FORMAT.md: 8 bytes and the name");

struct fc_inode_record {
	le32 fc_ino;                  /* 0x0 */
	uint8_t fc_raw_inode[];       /* 0x4  to the end of the value */
};
static_assert(sizeof(struct fc_inode_record) == 4, "FORMAT.md: 4 bytes and the inode");

#endif
