/* SPDX-License-Identifier: MIT */
/* icache.h - inodes in memory, found by number */
#ifndef UEXT4_VFS_ICACHE_H
#define UEXT4_VFS_ICACHE_H

#include "ext4/inode.h"

struct icache;

/**
 * icache_create() - start an empty cache and its reaper thread
 * @limit_inodes: unreferenced inodes beyond this many are evicted, the longest unused first
 * Return: 0, -ENOMEM, -EAGAIN (no thread)
 */
int icache_create(struct ext4_fs *fs, uint64_t limit_inodes, struct icache **ic_out);
/* Evicts every inode; waits for the last users. Frees @ic. First error of an eviction. */
int icache_destroy(struct icache *ic);

/**
 * icache_get() - the inode with number @ino, with a reference, loaded from disk if it is not cached
 *
 * Getters of one number share the load. An inode that is being evicted is loaded again only after its eviction.
 *
 * Context: may block on I/O; the parent's rwsem may be held, a handle may not.
 * Return: 0, or an error of inode_load()
 */
int icache_get(struct icache *ic, ino_num ino, struct inode **inode_out);
/* The cached one with a reference, or NULL. Takes no lock. */
struct inode *icache_find(struct icache *ic, ino_num ino);
/* Makes an inode from namei_create() or namei_tmpfile() known by its number. The directory that names it, if any, is still locked. */
void icache_insert_new(struct icache *ic, struct inode *inode);

/* One more reference, unless it is being evicted. Any context. */
bool icache_tryhold(struct inode *inode);
/* One more reference; the caller has one. */
void icache_hold(struct inode *inode);
/* Gives a reference back. No lock and no handle held (L4): frees the inode if that was the last and it has no name. NULL: nothing. */
void icache_put(struct inode *inode);
/* The same from any context: what has to be evicted goes to the reaper. */
void icache_put_deferred(struct inode *inode);

/* Lookups that a server holds on a node keep an inode without a name alive; its number may be reused only after the last. */
void icache_lookups_add(struct inode *inode, uint64_t count);
/* Gives @count lookups back. No lock held. */
void icache_forget(struct icache *ic, ino_num ino, uint64_t count);

/* For tests and figures. */
uint64_t icache_count(struct icache *ic);

#endif
