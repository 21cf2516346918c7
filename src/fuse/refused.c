/* SPDX-License-Identifier: MIT */
/*
 * refused.c - telling a writer that his writes are refused while the kernel caches them
 *
 * With a writeback cache write(2) ends in the kernel, and what has no room, or may not be written (chattr +i, +a), fails
 * later, when it is written back: a writer who calls no fsync would go on for ever. But write(2) asks for attributes that are
 * not valid any more, with GETATTR on the open file, which nothing else does but a read past the end. So when writeback of a
 * file was refused, its attributes are made invalid, and that GETATTR answers the error, once. If it still stands, writeback
 * says so again.
 *
 * The files are kept in a small table without a lock; one pushed out by another is told by its next writeback, fsync or close.
 */
#include <errno.h>

#include "fuse/server.h"

/* ext4's numbers of nodes have 32 bits, so a slot holds the errno too. */
#define SLOT_ERR_SHIFT 32

static _Atomic uint64_t *slot_of(struct server *server, fuse_ino_t ino)
{
	return &server->refused[ino % SERVER_REFUSED_SLOTS];
}

void refused_note(struct server *server, fuse_ino_t ino, int err)
{
	atomic_store(slot_of(server, ino), ino | (uint64_t)(unsigned)-err << SLOT_ERR_SHIFT);
	fuse_lowlevel_notify_inval_inode(server->session, ino, -1, 0); /* -ENOENT: the kernel has dropped it */
}

int refused_take(struct server *server, fuse_ino_t ino)
{
	uint64_t noted = atomic_load_explicit(slot_of(server, ino), memory_order_relaxed);

	if ((uint32_t)noted != ino || !atomic_compare_exchange_strong(slot_of(server, ino), &noted, 0))
		return 0;
	return -(int)(noted >> SLOT_ERR_SHIFT);
}
