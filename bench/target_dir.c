/* SPDX-License-Identifier: MIT */
/* target_dir.c - a directory of any mounted file system, through system calls */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "bench.h"

static int dir_fd(struct target *t) { return (int)(intptr_t)t->private_data; }
static int file_fd(void *file) { return (int)(intptr_t)file - 1; }

static int dir_mkdir(struct target *t, const char *path)
{
	return mkdirat(dir_fd(t), path, 0755) ? -errno : 0;
}

static int dir_create(struct target *t, const char *path)
{
	int fd = openat(dir_fd(t), path, O_CREAT | O_EXCL | O_WRONLY, 0644);

	return fd < 0 || close(fd) ? -errno : 0;
}

static int dir_unlink(struct target *t, const char *path)
{
	return unlinkat(dir_fd(t), path, 0) ? -errno : 0;
}

static int dir_rename(struct target *t, const char *from, const char *to)
{
	return renameat(dir_fd(t), from, dir_fd(t), to) ? -errno : 0;
}

static void *dir_open(struct target *t, const char *path)
{
	return (void *)(intptr_t)(openat(dir_fd(t), path, O_CREAT | O_RDWR, 0644) + 1);
}

static void dir_close(struct target *t, void *file)
{
	(void)t;
	close(file_fd(file));
}

static ssize_t dir_pread(void *file, void *buf, size_t len, off_t pos)
{
	ssize_t got = pread(file_fd(file), buf, len, pos);

	return got < 0 ? -errno : got;
}

static ssize_t dir_pwrite(void *file, const void *buf, size_t len, off_t pos)
{
	ssize_t put = pwrite(file_fd(file), buf, len, pos);

	return put < 0 ? -errno : put;
}

static int dir_fsync(void *file)
{
	return fsync(file_fd(file)) ? -errno : 0;
}

/* An attribute that no server has: through FUSE one request that finds nothing. */
static void dir_null(struct target *t)
{
	char byte;

	(void)!fgetxattr(dir_fd(t), "uext4.null", &byte, 1);
}

int target_dir(struct target *t, const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return -errno;
	*t = (struct target){ .name = dir, .mkdir = dir_mkdir, .create = dir_create, .unlink = dir_unlink,
			      .rename = dir_rename, .open = dir_open, .close = dir_close, .pread = dir_pread,
			      .pwrite = dir_pwrite, .fsync = dir_fsync, .null_request = dir_null,
			      .private_data = (void *)(intptr_t)fd };
	return 0;
}
