/* SPDX-License-Identifier: MIT */
/* dcache.h - names in memory: (directory, name) to inode number, or known to be absent */
#ifndef UEXT4_VFS_DCACHE_H
#define UEXT4_VFS_DCACHE_H

#include "base/types.h"

struct dcache;
struct dentry; /* fields in dcache.c */

int dcache_create(uint64_t limit_bytes, struct dcache **dc_out);
void dcache_destroy(struct dcache *dc);

/* What a dentry says besides a number. */
#define DENTRY_NEGATIVE ((ino_num)0)   /* there is no such name */
#define DENTRY_UNKNOWN  (~(ino_num)0)  /* nothing: the name is being changed, or the entry left the cache */

/**
 * dcache_find() - the entry for a name, or NULL if the cache knows nothing of it
 *
 * Context: in an RCU section, which keeps the entry's memory. Takes no lock.
 */
struct dentry *dcache_find(struct dcache *dc, ino_num dir, const char *name, size_t len);
/*
 * What the entry says at this moment. A lookup without the directory's rwsem reads it, takes a reference to the
 * inode, and reads it again: if it still says so, the name led there while the reference was held.
 */
ino_num dentry_ino(const struct dentry *dentry);

/*
 * Changes; the directory's rwsem is held, shared for dcache_fill(), exclusive for the others. Who changes a name on disk
 * drops it first, unless it only adds the name, and sets it when that has succeeded. Without memory a name is not cached, that is all.
 */
void dcache_fill(struct dcache *dc, ino_num dir, const char *name, size_t len, ino_num ino);
void dcache_set(struct dcache *dc, ino_num dir, const char *name, size_t len, ino_num ino);
void dcache_drop(struct dcache *dc, ino_num dir, const char *name, size_t len);
/* Everything known of a directory that has been removed: its number may come back as another one. */
void dcache_drop_dir(struct dcache *dc, ino_num dir);

/* For tests and figures. */
uint64_t dcache_bytes(struct dcache *dc);

#endif
