/* SPDX-License-Identifier: MIT */
/*
 * full.c - telling a writer that the disk is full while the kernel caches his writes
 *
 * With a writeback cache write(2) ends in the kernel, and what has no room fails later, when it is written back: a
 * writer who calls no fsync would go on for ever. But write(2) asks for attributes that are not valid any more, with GETATTR on
 * the open file, which nothing else does but a read past the end. So when writeback of a file has found no room, its
 * attributes are made invalid, and that GETATTR answers ENOSPC, once. If there still is no room, writeback says so again.
 *
 * The files are kept in a small table without a lock; one pushed out by another is told by its next writeback, fsync or close.
 */
#include <errno.h>

#include "fuse/server.h"

static _Atomic uint64_t *slot_of(struct server *server, fuse_ino_t ino)
{
	return &server->full[ino % SERVER_FULL_SLOTS];
}

void full_note(struct server *server, fuse_ino_t ino)
{
	atomic_store(slot_of(server, ino), ino);
	fuse_lowlevel_notify_inval_inode(server->session, ino, -1, 0); /* -ENOENT: the kernel has dropped it */
}

bool full_take(struct server *server, fuse_ino_t ino)
{
	uint64_t noted = ino;

	return atomic_compare_exchange_strong(slot_of(server, ino), &noted, 0);
}
