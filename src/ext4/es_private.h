/* SPDX-License-Identifier: MIT */
/* es_private.h - between es.c and es_shrink.c */
#ifndef UEXT4_EXT4_ES_PRIVATE_H
#define UEXT4_EXT4_ES_PRIVATE_H

#include "ext4/inode.h"

/* Accounts @bytes of map memory of @fs (negative: freed) and counts them. */
void es_shrinker_account(struct ext4_fs *fs, int64_t bytes);
/* The inode has entries: puts it on the list. Before es.lock is taken. */
void es_shrinker_add(struct inode *inode);
void es_shrinker_del(struct inode *inode);
/* After es.lock was released: shrinks if the limit is passed. */
void es_shrinker_check(struct ext4_fs *fs);

/* Drops every entry that is not delayed; returns how many. Caller: es.lock. */
uint64_t es_drop_clean(struct inode *inode);

#endif
