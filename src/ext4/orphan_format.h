/* SPDX-License-Identifier: MIT */
/* orphan_format.h - blocks of the orphan file on disk; see docs/FORMAT.md "Orphan file" */
#ifndef UEXT4_EXT4_ORPHAN_FORMAT_H
#define UEXT4_EXT4_ORPHAN_FORMAT_H

#include "base/types.h"

#define EXT4_ORPHAN_BLOCK_MAGIC 0x0B10CA04u

/* A block is an array of le32 inode numbers, 0 where free, with this at its end. */
struct ext4_orphan_block_tail {
	le32 ob_magic;
	le32 ob_checksum; /* crc32c over the orphan inode's seed, the le64 block number, and the array */
};

static_assert(sizeof(struct ext4_orphan_block_tail) == 8, "FORMAT.md: 8 bytes");

#endif
