/* SPDX-License-Identifier: MIT */
/* file_env.h - files with contents that can be told apart, on an image_env */
#ifndef UEXT4_TESTS_EXT4_FILE_ENV_H
#define UEXT4_TESTS_EXT4_FILE_ENV_H

#include "image_env.h"

#include "ext4/file.h"
#include "ext4/map.h"

/* Bytes that depend on position and @tag. */
void pattern_fill(uint8_t *buf, uint64_t pos, size_t len, unsigned tag);
/* All or nothing; returns the result of file_write(). */
ssize_t file_put(struct inode *inode, uint64_t pos, const void *buf, size_t len, unsigned flags);
ssize_t file_get(struct inode *inode, uint64_t pos, void *buf, size_t len);
void file_put_pattern(struct inode *inode, uint64_t pos, size_t len, unsigned tag);
void assert_pattern(struct inode *inode, uint64_t pos, size_t len, unsigned tag);
void assert_zeros(struct inode *inode, uint64_t pos, size_t len);
int file_resize(struct inode *inode, uint64_t size);
/* Extents as fiemap tells them. */
uint32_t extent_count(struct inode *inode);
/* Drops the inode and loads it again: nothing of it is in memory but buffers. */
struct inode *file_reload(struct image_env *env, struct inode *inode);

#endif
