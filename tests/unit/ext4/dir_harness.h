/* SPDX-License-Identifier: MIT */
/* dir_harness.h - a directory over blocks in memory, with a journal that only counts: the directory code alone */
#ifndef UEXT4_TESTS_EXT4_DIR_HARNESS_H
#define UEXT4_TESTS_EXT4_DIR_HARNESS_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ext4/dir_private.h"

struct env {
	struct ext4_fs fs;
	struct inode dir;
	struct handle h;
	struct buffer_head *blocks; /* of the directory, by file block */
	uint32_t count, room;
	uint32_t blocks_left;       /* before -ENOSPC */
	unsigned errors;            /* reported with INODE_ERROR */
	unsigned accesses;          /* blocks that a handle would have spent credits on, with repeats */
	uint64_t random;
};

struct env_options {
	uint32_t block_bytes;
	uint8_t hash_version;
	bool csum, dir_index, largedir, no_filetype;
};

struct env *env_create(const struct env_options *opt);
void env_destroy(struct env *env);
uint32_t env_random(struct env *env, uint32_t below);
/* Drops what is known to be verified, as if the cache had been emptied. */
void env_forget_verified(struct env *env);
int env_add(struct env *env, const char *name, ino_num ino);
int env_remove(struct env *env, const char *name, ino_num ino);
/* The inode that @name leads to, 0 for -ENOENT. Other errors fail the test. */
ino_num env_lookup(struct env *env, const char *name);
/* Every rule of the format (X1 to X4, lengths, checksums, limits). Returns the number of names. */
uint32_t env_check(struct env *env);

#endif
