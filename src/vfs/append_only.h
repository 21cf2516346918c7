/* SPDX-License-Identifier: MIT */
/* append_only.h - which writes to an append-only file are appends */
#ifndef UEXT4_VFS_APPEND_ONLY_H
#define UEXT4_VFS_APPEND_ONLY_H

#include <sys/uio.h>

#include "ext4/inode.h"

/**
 * append_only_check() - may this be written to an append-only file?
 * @cached: the bytes are pages of a cache above, which repeat what the file has and come in any order; otherwise only
 *          what begins at the end of the file will do
 *
 * Takes no lock: a page is not written by two at once.
 * Return: 0; -EPERM (it would change what is there); -EIO, -EUCLEAN, -ENOMEM from reading that
 */
int append_only_check(struct inode *inode, const struct iovec *iov, int iov_count, uint64_t pos, bool cached);
/* After what was checked has been written. */
void append_only_note(struct inode *inode, uint64_t pos, uint64_t len);
/* The flag has come or gone: what is in the file now is there to stay. */
void append_only_restart(struct inode *inode);

#endif
