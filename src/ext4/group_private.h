/* SPDX-License-Identifier: MIT */
/* group_private.h - layout of groups, shared by group, bitmap and system zone */
#ifndef UEXT4_EXT4_GROUP_PRIVATE_H
#define UEXT4_EXT4_GROUP_PRIVATE_H

#include "ext4/group.h"

/* Blocks at the start of @group for the superblock copy, descriptors and room for more of them. */
uint32_t group_base_blocks(const struct ext4_fs *fs, group_t group);

/*
 * Before the journal is replayed only the journal's inode is needed: fs.groups with the locations of group 0, its
 * checksum not looked at, since replay may be about to mend it. groups_free() undoes it.
 */
int groups_load_first(struct ext4_fs *fs);

#endif
