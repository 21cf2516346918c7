/* SPDX-License-Identifier: MIT */
/* es.h - extent status: what is known of a file's blocks, looked up without a lock */
#ifndef UEXT4_EXT4_ES_H
#define UEXT4_EXT4_ES_H

#include "base/list.h"
#include "base/lock.h"
#include "base/types.h"

struct inode;

enum es_status { ES_WRITTEN = 1, ES_UNWRITTEN = 2, ES_DELAYED = 3, ES_HOLE = 4 };

struct es_extent {
	lblk_t lblk;
	uint32_t len;      /* blocks */
	fsblk_t pblk;      /* WRITTEN and UNWRITTEN */
	enum es_status status;
};

struct es_map; /* immutable-to-readers ordered map; private to es.c */

struct es_tree {
	_Atomic(struct es_map *) map;   /* [es_lock writes; RCU reads] NULL: empty */
	struct mutex lock;              /* RANK_ES */
	_Atomic uint32_t referenced;    /* for the shrinker */
	struct list_head lru;           /* private to es_shrink.c */
};

void es_init(struct es_tree *tree);
void es_exit(struct inode *inode); /* forgets everything */

#endif
