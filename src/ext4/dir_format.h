/* SPDX-License-Identifier: MIT */
/* dir_format.h - directory blocks on disk: entries, checksum tails, hash index; see docs/FORMAT.md "Directories" */
#ifndef UEXT4_EXT4_DIR_FORMAT_H
#define UEXT4_EXT4_DIR_FORMAT_H

#include "base/types.h"

/* file_type of an entry, with the filetype feature. */
#define EXT4_FT_UNKNOWN  0u
#define EXT4_FT_REG_FILE 1u
#define EXT4_FT_DIR      2u
#define EXT4_FT_CHRDEV   3u
#define EXT4_FT_BLKDEV   4u
#define EXT4_FT_FIFO     5u
#define EXT4_FT_SOCK     6u
#define EXT4_FT_SYMLINK  7u
#define EXT4_FT_DIR_CSUM 0xDEu /* the checksum tail, which poses as an unused entry */

struct ext4_dir_entry {
	le32    inode;     /* 0x0  0: unused */
	le16    rec_len;   /* 0x4  to the next entry; see dir_rec_len_get() */
	uint8_t name_len;  /* 0x6 */
	uint8_t file_type; /* 0x7  EXT4_FT_*; without filetype the high byte of name_len, always 0 */
	char    name[];    /* 0x8 */
};
static_assert(sizeof(struct ext4_dir_entry) == 8, "FORMAT.md: 8 bytes before the name");

struct ext4_dir_entry_tail {
	le32    det_reserved_zero1; /* 0x0 */
	le16    det_rec_len;        /* 0x4  12 */
	uint8_t det_reserved_zero2; /* 0x6 */
	uint8_t det_reserved_ft;    /* 0x7  EXT4_FT_DIR_CSUM */
	le32    det_checksum;       /* 0x8  crc32c(inode seed, block up to here) */
};
static_assert(sizeof(struct ext4_dir_entry_tail) == 12, "FORMAT.md: 12 bytes");

#define DIR_REC_MIN 12u /* the smallest entry: a name of up to four bytes */

/* Bytes an entry with a name of @name_len takes. */
static inline uint32_t dir_rec_bytes(uint32_t name_len)
{
	return (name_len + (uint32_t)sizeof(struct ext4_dir_entry) + 3u) & ~3u;
}

/* In 64 KiB blocks a length of 65,536 does not fit: 65535 or 0 stand for it, and the low two bits for bits 16 and 17. */
static inline uint32_t dir_rec_len_get(const struct ext4_dir_entry *de, uint32_t block_bytes)
{
	uint32_t len = le16_get(de->rec_len);

	if (likely(block_bytes < 65536))
		return len;
	if (len == 65535 || len == 0)
		return block_bytes;
	return (len & 65532u) | ((len & 3u) << 16);
}

static inline void dir_rec_len_set(struct ext4_dir_entry *de, uint32_t len)
{
	de->rec_len = le16_make(len == 65536 ? 65535 : (uint16_t)len);
}

/* ---- the hash index ---- */

#define DX_HASH_LEGACY            0u
#define DX_HASH_HALF_MD4          1u
#define DX_HASH_TEA               2u
#define DX_HASH_LEGACY_UNSIGNED   3u
#define DX_HASH_HALF_MD4_UNSIGNED 4u
#define DX_HASH_TEA_UNSIGNED      5u

struct dx_entry {
	le32 hash;  /* 0x0  lowest hash below; bit 0: the block before ends with the same hash. First entry: dx_countlimit */
	le32 block; /* 0x4  file block, low 28 bits */
};
static_assert(sizeof(struct dx_entry) == 8, "FORMAT.md: 8 bytes");

struct dx_countlimit {
	le16 limit;
	le16 count;
};
static_assert(sizeof(struct dx_countlimit) == 4, "FORMAT.md: in place of the first entry's hash");

#define DX_BLOCK_MASK 0x0fffffffu

struct dx_root_info {
	le32    reserved_zero;
	uint8_t hash_version;    /* DX_HASH_LEGACY, HALF_MD4 or TEA */
	uint8_t info_length;     /* 8 */
	uint8_t indirect_levels; /* of index nodes between the root and the leaves */
	uint8_t unused_flags;
};
static_assert(sizeof(struct dx_root_info) == 8, "FORMAT.md: 8 bytes");

struct dx_tail {
	le32 dt_reserved;
	le32 dt_checksum; /* crc32c(inode seed, block up to the used entries, dt_reserved, 0) */
};
static_assert(sizeof(struct dx_tail) == 8, "FORMAT.md: 8 bytes");

/* Offsets in a root ("." and ".." as in any first block, then the rest) and in a node (one unused entry). */
#define DX_ROOT_DOTDOT  12u
#define DX_ROOT_INFO    24u
#define DX_ROOT_ENTRIES 32u
#define DX_NODE_ENTRIES 8u

#define DX_LEVELS_MAX 3u /* index blocks on a path, with largedir; one less without */

#endif
