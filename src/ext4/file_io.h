/* SPDX-License-Identifier: MIT */
/* file_io.h - what an inode remembers of its data I/O in flight */
#ifndef UEXT4_EXT4_FILE_IO_H
#define UEXT4_EXT4_FILE_IO_H

#include "base/lock.h"
#include "base/types.h"
#include "base/workqueue.h"

struct file_ioend; /* file_ioend.c */

/* A part of struct inode. */
struct file_io {
	struct mutex lock;                    /* RANK_WORK: the queues */
	struct file_ioend *fifo, *fifo_last;  /* [lock] will move disksize; in the order they went out */
	struct file_ioend *ready;             /* [lock] others whose I/O is done */
	bool working;                         /* [lock] the work item is queued or runs */
	struct work work;                     /* of whoever set working */
	struct mutex pass_lock;               /* RANK_WRITEBACK: one writeback pass at a time past disksize */
	_Atomic uint32_t shrinks;             /* [map_sem writes] counts cuts of i_size, so that fsync notices one */
	_Atomic uint32_t reserved_meta;       /* [es.lock writes] blocks promised for the tree of dirty data */
	_Atomic uint32_t begun_blks;          /* [inode.rwsem writes] a write has reserved for so many and not dirtied them yet */
};

#endif
