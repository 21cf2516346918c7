/* SPDX-License-Identifier: MIT */
/* mmp_format.h - the multiple mount protection block on disk; see docs/FORMAT.md "MMP block" */
#ifndef UEXT4_EXT4_MMP_FORMAT_H
#define UEXT4_EXT4_MMP_FORMAT_H

#include "base/types.h"

#define EXT4_MMP_MAGIC     0x004D4D50u
#define EXT4_MMP_SEQ_CLEAN 0xFF4D4D50u /* nobody has it mounted */
#define EXT4_MMP_SEQ_FSCK  0xE24D4D50u /* e2fsck is at work */
#define EXT4_MMP_SEQ_MAX   0xE24D4D4Fu /* largest number a mount uses */

#define EXT4_MMP_MIN_CHECK_INTERVAL_S 5u
#define EXT4_MMP_MAX_CHECK_INTERVAL_S 300u
#define EXT4_MMP_DEFAULT_UPDATE_INTERVAL_S 5u

struct mmp_struct {
	le32 mmp_magic;             /* 0x000 */
	le32 mmp_seq;               /* 0x004 */
	le64 mmp_time;              /* 0x008 of the last update; for people */
	char mmp_nodename[64];      /* 0x010 */
	char mmp_bdevname[32];      /* 0x050 */
	le16 mmp_check_interval;    /* 0x070 seconds */
	le16 mmp_pad1;              /* 0x072 */
	le32 mmp_pad2[226];         /* 0x074 */
	le32 mmp_checksum;          /* 0x3FC crc32c over the file system's seed and everything before */
};

static_assert(sizeof(struct mmp_struct) == 1024, "FORMAT.md: 1024 bytes");
static_assert(offsetof(struct mmp_struct, mmp_check_interval) == 0x70, "FORMAT.md: mmp_check_interval at 0x70");
static_assert(offsetof(struct mmp_struct, mmp_checksum) == 0x3FC, "FORMAT.md: mmp_checksum at 0x3FC");

#endif
