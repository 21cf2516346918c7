/* SPDX-License-Identifier: MIT */
/* target_memory.c - an ext4 image in memory, through libuext4 in this process */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "uext4.h"

struct memory_target {
	struct uext4_fs *fs;
	void *image;
	uint64_t size_bytes;
};

static struct uext4_fs *fs_of(struct target *t)
{
	return ((struct memory_target *)t->private_data)->fs;
}

static int lib_mkdir(struct target *t, const char *path)
{
	return uext4_mkdir(fs_of(t), NULL, path, 0755);
}

static int lib_create(struct target *t, const char *path)
{
	struct uext4_file *file;
	int err = uext4_open(fs_of(t), NULL, path, O_CREAT | O_EXCL | O_WRONLY, 0644, &file);

	return err ? err : uext4_close(file);
}

static int lib_unlink(struct target *t, const char *path)
{
	return uext4_unlink(fs_of(t), NULL, path);
}

static int lib_rename(struct target *t, const char *from, const char *to)
{
	return uext4_rename(fs_of(t), NULL, from, to, 0);
}

static void *lib_open(struct target *t, const char *path)
{
	struct uext4_file *file;

	return uext4_open(fs_of(t), NULL, path, O_CREAT | O_RDWR, 0644, &file) ? NULL : file;
}

static void lib_close(struct target *t, void *file)
{
	(void)t;
	uext4_close(file);
}

static ssize_t lib_pread(void *file, void *buf, size_t len, off_t pos)
{
	return uext4_pread(file, buf, len, pos);
}

static ssize_t lib_pwrite(void *file, const void *buf, size_t len, off_t pos)
{
	return uext4_pwrite(file, buf, len, pos);
}

static int lib_fsync(void *file)
{
	return uext4_fsync(file);
}

static int lib_stats(struct target *t, char *buf, size_t buf_bytes)
{
	return uext4_stats_json(fs_of(t), buf, buf_bytes);
}

/* mke2fs on a memfd; the mapping of it is the device. Its memory is there before: nobody is to be measured finding it. */
static int make_image(struct memory_target *m)
{
	char path[64];
	int fd = memfd_create("uext4-bench", 0), status;
	pid_t child;

	if (fd < 0 || ftruncate(fd, (off_t)m->size_bytes) || fallocate(fd, 0, 0, (off_t)m->size_bytes))
		return -errno;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	child = fork();
	if (child == 0) {
		execlp("mke2fs", "mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1", path, (char *)NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status)
		return -EIO;
	m->image = mmap(NULL, m->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	return m->image == MAP_FAILED ? -errno : 0;
}

static void log_line(void *arg, int level, const char *text)
{
	(void)arg;
	if (level <= 4)
		fprintf(stderr, "uext4: %s\n", text);
}

int target_memory(struct target *t, uint64_t size_bytes, const char *options)
{
	struct memory_target *m = calloc(1, sizeof(*m));
	struct uext4_options opt = { .struct_bytes = sizeof(opt), .mount_options = options, .log = log_line };
	int err;

	if (!m)
		return -ENOMEM;
	m->size_bytes = size_bytes;
	err = make_image(m);
	if (!err)
		err = uext4_open_memory(m->image, size_bytes, &opt, &m->fs);
	*t = (struct target){ .name = "uext4 in-process", .mkdir = lib_mkdir, .create = lib_create, .unlink = lib_unlink,
			      .rename = lib_rename, .open = lib_open, .close = lib_close, .pread = lib_pread,
			      .pwrite = lib_pwrite, .fsync = lib_fsync, .stats_json = lib_stats, .private_data = m };
	return err;
}

int target_close(struct target *t)
{
	struct memory_target *m = t->private_data;
	int err = 0;

	if (t->mkdir == lib_mkdir) {
		err = uext4_close_fs(m->fs);
		munmap(m->image, m->size_bytes);
		free(m);
	} else {
		close((int)(intptr_t)t->private_data);
	}
	return err;
}
