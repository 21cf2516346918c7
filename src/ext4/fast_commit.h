/* SPDX-License-Identifier: MIT */
/* fast_commit.h - carrying out the fast commits that recovery found */
#ifndef UEXT4_EXT4_FAST_COMMIT_H
#define UEXT4_EXT4_FAST_COMMIT_H

#include "ext4/fs.h"

/**
 * fast_commit_take() - journal_params.fc_take: checks the records of one block and keeps them in fs.priv
 * @fs: a struct ext4_fs whose superblock is decoded; nothing else of it is looked at
 *
 * Everything that can be told from a record alone is checked here, before recovery writes anything.
 * Spec:   FORMAT.md "Fast commits"
 * Return: 0; -EUCLEAN (reported), -ENOMEM
 */
int fast_commit_take(void *fs, const uint8_t *block, uint32_t len_bytes, uint32_t index);

/**
 * fast_commit_prepare() - what the records come to, compared with the file system as the log left it
 * Groups and the system zone are loaded. Only reads. Without records nothing happens.
 * Return: 0; -EUCLEAN, -EBADMSG (reported), -EOPNOTSUPP (bigalloc), -EIO, -ENOMEM
 */
int fast_commit_prepare(struct ext4_fs *fs);

/**
 * fast_commit_apply() - makes the file system so, in one transaction, durable on return
 * The journal runs, or is the null journal over an overlay (read-only mounts); no other handle was started yet. The
 * journal is aborted if it fails: the log still holds what it held.
 * Return: 0; -ENOSPC (more changes than the log can hold at once, or the disk is full), -EUCLEAN, -EIO, -ENOMEM
 */
int fast_commit_apply(struct ext4_fs *fs);

/* Forgets the records; at the latest when the file system goes. NULL-safe. */
void fast_commit_free(struct ext4_fs *fs);

#endif
