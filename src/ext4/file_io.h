/* SPDX-License-Identifier: MIT */
/* file_io.h - what an inode remembers of its data I/O in flight */
#ifndef UEXT4_EXT4_FILE_IO_H
#define UEXT4_EXT4_FILE_IO_H

#include "base/types.h"

struct file_ioend; /* file_ioend.c */

/* A part of struct inode; valid when all its bytes are 0. */
struct file_io {
	_Atomic(struct file_ioend *) done;    /* [atomic] I/O completed, to be converted; a stack */
	uint64_t completed_end;               /* [map_sem] no data beyond it has reached the disk yet */
	_Atomic uint32_t shrinks;             /* [map_sem writes] counts cuts of i_size, so that fsync notices one */
	_Atomic uint32_t reserved_meta;       /* [es.lock writes] blocks promised for the tree of dirty data */
	_Atomic uint32_t begun_blks;          /* [inode.rwsem writes] a write has reserved for so many and not dirtied them yet */
};

#endif
