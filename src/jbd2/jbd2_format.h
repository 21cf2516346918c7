/* SPDX-License-Identifier: MIT */
/* jbd2_format.h - jbd2 on-disk structures; all big-endian; see docs/FORMAT.md "Journal" */
#ifndef UEXT4_JBD2_JBD2_FORMAT_H
#define UEXT4_JBD2_JBD2_FORMAT_H

#include "base/types.h"

#define JBD2_MAGIC 0xC03B3998u

#define JBD2_DESCRIPTOR_BLOCK    1u
#define JBD2_COMMIT_BLOCK        2u
#define JBD2_SUPERBLOCK_V1       3u
#define JBD2_SUPERBLOCK_V2       4u
#define JBD2_REVOKE_BLOCK        5u

#endif
