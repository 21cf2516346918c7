/* SPDX-License-Identifier: MIT */
/* toy_ext4.h - an inode table in memory, in the place of ext4/, for tests of the inode cache alone */
#ifndef UEXT4_TESTS_UNIT_VFS_TOY_EXT4_H
#define UEXT4_TESTS_UNIT_VFS_TOY_EXT4_H

#include <pthread.h>

#include "vfs/vfs.h"

#define TOY_INODES 8192u

/* What the toy knows of one number. All [atomic]. */
struct toy_slot {
	_Atomic int live;         /* copies in memory: never more than one */
	_Atomic unsigned loads, evictions;
	_Atomic uint32_t nlink;   /* on "disk" */
	_Atomic int load_err;
};

struct toy {
	struct ext4_fs fs;
	struct vfs vfs;
	struct toy_slot slot[TOY_INODES];
	_Atomic unsigned doubled; /* times that a second copy appeared */
	pthread_mutex_t gate;     /* held by a test: loads or evictions of gated numbers wait */
	_Atomic ino_num gated_load, gated_evict;
	_Atomic pthread_t evictor; /* the thread of the last eviction */
};

extern struct toy toy;

void toy_start(uint64_t limit_inodes);
void toy_stop(void);
/* As namei_create() leaves it: numbered, linked, one reference. */
struct inode *toy_create(ino_num ino);

#endif
