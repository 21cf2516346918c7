/* SPDX-License-Identifier: MIT */
/*
 * append_only.c - which writes to an append-only file are appends
 *
 * Linux lets nobody but appenders open such a file. A server that is not asked to open files sees writes only. Those of a
 * page cache are whole pages, in any order, and repeat what the file has before the bytes appended. So
 *
 *  A1  Below inode.append_floor, up to where all is known to be written, each byte must be what it was.
 *  A2  Between it and the size, where a later page came first, only zeros may change.
 *  A3  A write that reaches over the floor takes it along.
 */
#include "vfs/append_only.h"

#include <errno.h>
#include <string.h>

#include "ext4/file.h"
#include "vfs/vfs.h"

#define COMPARE_BYTES 4096u

/* The floor, which begins at the size that the file has when it is first asked for. */
static uint64_t floor_of(struct inode *inode)
{
	uint64_t none = 0;

	atomic_compare_exchange_strong(&inode->append_floor, &none, inode_size(inode));
	return atomic_load(&inode->append_floor);
}

static bool may_become(const uint8_t *old, const uint8_t *new, size_t len, size_t fixed)
{
	if (!memcmp(old, new, len))
		return true;
	if (memcmp(old, new, min_of(len, fixed)))
		return false;
	for (size_t i = min_of(len, fixed); i < len; i++)
		if (old[i] && old[i] != new[i])
			return false;
	return true;
}

/* One piece, which ends at or before the size. */
static int check_piece(struct inode *inode, const uint8_t *new, size_t len, uint64_t pos, uint64_t floor)
{
	uint8_t old[COMPARE_BYTES] = { 0 };
	struct iovec iov = { .iov_base = old, .iov_len = len };
	struct iov_cursor to = { .iov = &iov, .iov_count = 1, .left_bytes = len };
	ssize_t got = file_read(inode, pos, &to, FILE_READ_UNCACHED | FILE_READ_KEEP_ATIME);

	if (got < 0)
		return (int)got;
	return may_become(old, new, len, floor > pos ? (size_t)min_of(floor - pos, len) : 0) ? 0 : -EPERM;
}

int append_only_check(struct inode *inode, const struct iovec *iov, int iov_count, uint64_t pos, bool cached)
{
	uint64_t floor = floor_of(inode), size = inode_size(inode);
	int err = 0;

	if (!cached)
		return pos < size ? -EPERM : 0;
	for (int i = 0; i < iov_count && !err; pos += iov[i].iov_len, i++)
		for (size_t at = 0; at < iov[i].iov_len && pos + at < size && !err; at += COMPARE_BYTES) {
			uint64_t len = min_of(size - (pos + at), iov[i].iov_len - at);

			err = check_piece(inode, (const uint8_t *)iov[i].iov_base + at, (size_t)min_of(len, COMPARE_BYTES),
					  pos + at, floor);
		}
	return err;
}

void append_only_note(struct inode *inode, uint64_t pos, uint64_t len)
{
	uint64_t floor = atomic_load(&inode->append_floor);

	while (pos <= floor && pos + len > floor)
		if (atomic_compare_exchange_weak(&inode->append_floor, &floor, pos + len))
			return;
}

void append_only_restart(struct inode *inode)
{
	atomic_store(&inode->append_floor, 0);
}
