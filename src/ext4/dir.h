/* SPDX-License-Identifier: MIT */
/* dir.h - directory entries: linear and hashed directories */
#ifndef UEXT4_EXT4_DIR_H
#define UEXT4_EXT4_DIR_H

#include "ext4/inode.h"

struct name {
	const char *str;   /* not NUL-terminated */
	uint8_t len;       /* 1..255 */
};

/* Caller: dir->rwsem shared or exclusive. 0 with *ino_out and *type_out (EXT4_FT_*; 0 without filetype); -ENOENT; -EUCLEAN ... */
int dir_lookup(struct inode *dir, const struct name *name, ino_num *ino_out, uint8_t *type_out);

/* Caller: dir->rwsem exclusive, handle with dir_credits(). -EEXIST is the caller's check. -ENOSPC (also: index full). */
int dir_add(struct handle *h, struct inode *dir, const struct name *name, ino_num ino, uint16_t mode);
int dir_remove(struct handle *h, struct inode *dir, const struct name *name, ino_num expect_ino);
/* Points an existing entry (also "..") at @ino: rename over, exchange. */
int dir_set(struct handle *h, struct inode *dir, const struct name *name, ino_num ino, uint16_t mode);
uint32_t dir_credits(const struct inode *dir);
/* First block with "." and ".."; sets size. */
int dir_init(struct handle *h, struct inode *dir, ino_num parent);
int dir_is_empty(struct inode *dir); /* 1, 0, or negative errno */

struct dir_entry_info {
	ino_num ino;
	uint8_t type;       /* DT_* */
	uint8_t name_len;
	const char *name;   /* valid during the call */
	uint64_t next_cookie; /* continue after this entry from here */
};
/**
 * dir_iterate() - call @emit for each entry from @cookie on ("." and ".." too)
 * Cookies are stable: an entry that exists all the time is returned exactly once whatever is added or removed
 * meanwhile; as Linux: hash order for indexed directories (major hash << 32 | minor hash, collisions returned together), byte offset for linear ones. 0 starts.
 * @emit returns non-zero to stop (that entry is not consumed).
 * Caller: dir->rwsem shared. Return: 0 at the end or when stopped; negative errno
 */
int dir_iterate(struct inode *dir, uint64_t cookie, int (*emit)(void *arg, const struct dir_entry_info *e), void *arg);

/* File type of mode for directory entries, and back to DT_*. */
uint8_t dir_type_of_mode(uint16_t mode);

/* The directory hash, for tests. @version: DX_HASH_* 0..5. */
int dir_hash(const struct ext4_fs *fs, uint8_t version, const char *name, size_t len, uint32_t *hash_out, uint32_t *minor_out);

#endif
