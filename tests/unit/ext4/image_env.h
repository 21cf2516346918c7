/* SPDX-License-Identifier: MIT */
/* image_env.h - a real image, made by mke2fs, mounted from memory, and checked by e2fsck */
#ifndef UEXT4_TESTS_EXT4_IMAGE_ENV_H
#define UEXT4_TESTS_EXT4_IMAGE_ENV_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "image_memory.h"

#include "ext4/namei.h"
#include "ext4/super.h"

struct image_env {
	struct ext4_fs *fs;    /* NULL while unmounted */
	struct inode *root;
	uint8_t *bytes;        /* owned, from image_memory(): the device */
	uint64_t size_bytes;
	char path[64];         /* where the tools see it */
	unsigned errors;       /* messages of level LOG_ERROR */
	struct ext4_options opt;
};

/* False if mke2fs or e2fsck is not there: the test is to be skipped. */
bool image_tools_exist(void);
/* @mke2fs_args: options only; the image has @mib MiB. Mounted. */
void image_create(struct image_env *env, const char *mke2fs_args, unsigned mib);
void image_mount(struct image_env *env);
/* The same on a device of the test's over image_device(). */
struct block_device *image_device(struct image_env *env);
void image_mount_on(struct image_env *env, struct block_device *dev);
void image_unmount(struct image_env *env);
/* Unmounts, runs `e2fsck -fn`, and fails the test unless it is clean; stays unmounted. */
void image_check(struct image_env *env);
/* The (unmounted) device holds what the tools have made of the image. */
void image_reload(struct image_env *env);
/* image_check() and mount again. */
void image_recheck(struct image_env *env);
/* What the device holds; from image_memory(). */
uint8_t *image_copy(const struct image_env *env);
void image_destroy(struct image_env *env);
/* First line of what debugfs prints for @request on the (unmounted, checked) image. */
void image_debugfs(struct image_env *env, const char *request, char *out, size_t out_bytes);

struct name image_name(const char *text);
/* Fail the test on error. The inode is the caller's to put. */
struct inode *image_load(struct image_env *env, ino_num ino);
struct inode *image_lookup(struct image_env *env, struct inode *dir, const char *name);
void image_put(struct inode *inode);
/* 0 or negative errno; the new inode in *inode_out, if wanted, else put. */
int image_create_node(struct inode *dir, const char *name, uint16_t mode, struct inode **inode_out);
struct inode *image_mkdir(struct inode *dir, const char *name);
struct inode *image_mkfile(struct inode *dir, const char *name);
int image_unlink(struct inode *dir, const char *name, struct inode *victim);
int image_rmdir(struct inode *dir, const char *name, struct inode *victim);
int image_rename(struct inode *old_dir, const char *old_name, struct inode *inode, struct inode *new_dir,
		 const char *new_name, struct inode *target, unsigned flags);
/* 0 if the name is free. */
ino_num image_find(struct inode *dir, const char *name);

#endif
