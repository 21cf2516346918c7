/* SPDX-License-Identifier: MIT */
/* mount_env.h - a real image, made by mke2fs, mounted; checked by e2fsck at the end */
#ifndef UEXT4_TESTS_EXT4_MOUNT_ENV_H
#define UEXT4_TESTS_EXT4_MOUNT_ENV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ext4/fs.h"
#include "ext4/inode.h"
#include "ext4/namei.h"

struct mount_env {
	char path[128];      /* the image */
	struct ext4_fs *fs;
	struct inode *root;
	unsigned log_errors; /* lines at LOG_ERROR */
};

/* @mke2fs: options after the quiet ones, size included: "-b 1024 %s 8M" with %s where the path goes. */
struct mount_env *mount_env_create(const char *mke2fs, const char *options);
/* The same over a file of @mib MiB whose every block is full of bytes like those of a live inode. */
struct mount_env *mount_env_create_on_noise(const char *mke2fs, unsigned mib, const char *options);
/* Unmounts; `e2fsck -fn` must find nothing. */
void mount_env_destroy(struct mount_env *env);
/* Mounts it again, after somebody else had it. */
void mount_env_mount(struct mount_env *env, const char *options);
/* Unmounts and mounts again, with a check between. */
void mount_env_cycle(struct mount_env *env);
/* Runs a command with %s as the image; its output, NUL-terminated and malloc'd. The command must succeed. */
char *mount_env_run(struct mount_env *env, const char *command);

/* Creates @name in @dir; the caller puts the inode. */
struct inode *env_create(struct inode *dir, const char *name, uint16_t mode);
struct inode *env_lookup(struct inode *dir, const char *name);
void env_unlink(struct inode *dir, const char *name, struct inode *inode); /* consumes the inode */
void env_put(struct inode *inode); /* evicts and frees it */

#endif
