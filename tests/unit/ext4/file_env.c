/* SPDX-License-Identifier: MIT */
/* file_env.c - see file_env.h */
#include "file_env.h"

void pattern_fill(uint8_t *buf, uint64_t pos, size_t len, unsigned tag)
{
	size_t i;

	for (i = 0; i < len; i++) {
		uint64_t at = pos + i;

		buf[i] = (uint8_t)(at * 7 + (at >> 9) * 13 + tag * 31 + 1);
	}
}

ssize_t file_put(struct inode *inode, uint64_t pos, const void *buf, size_t len, unsigned flags)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct iov_cursor from = { .iov = &iov, .iov_count = 1, .left_bytes = len };

	return file_write(inode, pos, &from, flags, NULL);
}

ssize_t file_get(struct inode *inode, uint64_t pos, void *buf, size_t len)
{
	struct iovec iov = { buf, len };
	struct iov_cursor to = { .iov = &iov, .iov_count = 1, .left_bytes = len };

	return file_read(inode, pos, &to, 0);
}

void file_put_pattern(struct inode *inode, uint64_t pos, size_t len, unsigned tag)
{
	uint8_t *buf = malloc(len);

	assert_non_null(buf);
	pattern_fill(buf, pos, len, tag);
	assert_int_equal(file_put(inode, pos, buf, len, 0), len);
	free(buf);
}

void assert_pattern(struct inode *inode, uint64_t pos, size_t len, unsigned tag)
{
	uint8_t *want = malloc(len), *got = malloc(len);

	assert_true(want && got);
	pattern_fill(want, pos, len, tag);
	assert_int_equal(file_get(inode, pos, got, len), len);
	assert_memory_equal(want, got, len);
	free(want);
	free(got);
}

void assert_zeros(struct inode *inode, uint64_t pos, size_t len)
{
	uint8_t *want = calloc(1, len), *got = malloc(len);

	assert_true(want && got);
	assert_int_equal(file_get(inode, pos, got, len), len);
	assert_memory_equal(want, got, len);
	free(want);
	free(got);
}

int file_resize(struct inode *inode, uint64_t size)
{
	int err;

	rwsem_write_lock(&inode->rwsem);
	err = file_truncate_locked(inode, size);
	rwsem_write_unlock(&inode->rwsem);
	return err;
}

uint32_t extent_count(struct inode *inode)
{
	uint32_t count;

	assert_int_equal(file_fiemap(inode, 0, INT64_MAX, true, NULL, 0, &count), 0);
	return count;
}

struct inode *file_reload(struct image_env *env, struct inode *inode)
{
	ino_num ino = inode->ino;

	image_put(inode);
	return image_load(env, ino);
}
