/* SPDX-License-Identifier: MIT */
/* xattr_format.h - extended attributes and ACLs on disk; see docs/FORMAT.md "Extended attributes" */
#ifndef UEXT4_EXT4_XATTR_FORMAT_H
#define UEXT4_EXT4_XATTR_FORMAT_H

#include "base/types.h"

#define EXT4_XATTR_MAGIC 0xEA020000u

/* e_name_index: the prefix that the stored name lacks */
#define EXT4_XATTR_INDEX_USER              1u
#define EXT4_XATTR_INDEX_POSIX_ACL_ACCESS  2u
#define EXT4_XATTR_INDEX_POSIX_ACL_DEFAULT 3u
#define EXT4_XATTR_INDEX_TRUSTED           4u
#define EXT4_XATTR_INDEX_SECURITY          6u
#define EXT4_XATTR_INDEX_SYSTEM            7u
#define EXT4_XATTR_INDEX_HURD              10u

/* At the start of an xattr block. The in-body area has h_magic alone. */
struct ext4_xattr_header {
	le32 h_magic;       /* 0x00 */
	le32 h_refcount;    /* 0x04 inodes that share the block */
	le32 h_blocks;      /* 0x08 always 1 */
	le32 h_hash;        /* 0x0C of all entries' hashes; 0: not to be shared */
	le32 h_checksum;    /* 0x10 crc32c over the seed, the le64 block number, and the block with this field 0 */
	le32 h_reserved[3]; /* 0x14 */
};

/* Entries grow upwards and end with four zero bytes; values grow downwards from the end. Both are padded to 4 bytes. */
struct ext4_xattr_entry {
	uint8_t e_name_len;   /* 0x00 */
	uint8_t e_name_index; /* 0x01 */
	le16 e_value_offs;    /* 0x02 from the block's start, or from the first in-body entry */
	le32 e_value_inum;    /* 0x04 inode that holds the value (ea_inode) */
	le32 e_value_size;    /* 0x08 */
	le32 e_hash;          /* 0x0C of name and value; 0 in the body */
	char e_name[];        /* 0x10 e_name_len bytes, no NUL */
};

static_assert(sizeof(struct ext4_xattr_header) == 32, "FORMAT.md: 32 bytes");
static_assert(sizeof(struct ext4_xattr_entry) == 16, "FORMAT.md: 16 bytes before the name");

#define EXT4_XATTR_BODY_HEADER_BYTES 4u
#define EXT4_XATTR_END_BYTES         4u
#define EXT4_XATTR_PAD(len)          round_up_to((uint32_t)(len), 4u)
#define EXT4_XATTR_ENTRY_BYTES(name_len) EXT4_XATTR_PAD(sizeof(struct ext4_xattr_entry) + (name_len))

/* ACL entry tags, on disk and in the xattr */
#define ACL_TAG_USER_OBJ  0x01u
#define ACL_TAG_USER      0x02u
#define ACL_TAG_GROUP_OBJ 0x04u
#define ACL_TAG_GROUP     0x08u
#define ACL_TAG_MASK      0x10u
#define ACL_TAG_OTHER     0x20u
#define ACL_ID_UNDEFINED  UINT32_MAX

#define EXT4_ACL_VERSION  1u
#define ACL_XATTR_VERSION 2u

struct ext4_acl_header {
	le32 a_version;
};

/* USER and GROUP entries have an id; the others end before it. */
struct ext4_acl_entry {
	le16 e_tag;
	le16 e_perm;
	le32 e_id;
};
#define EXT4_ACL_SHORT_BYTES offsetof(struct ext4_acl_entry, e_id)

/* What getxattr() and setxattr() carry. */
struct acl_xattr_entry {
	le16 e_tag;
	le16 e_perm;
	le32 e_id; /* ACL_ID_UNDEFINED but for USER and GROUP */
};

static_assert(sizeof(struct ext4_acl_entry) == 8 && EXT4_ACL_SHORT_BYTES == 4, "FORMAT.md: 8 and 4 bytes");
static_assert(sizeof(struct acl_xattr_entry) == 8, "xattr(7): 8 bytes");

#endif
