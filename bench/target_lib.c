/* SPDX-License-Identifier: MIT */
/* target_lib.c - an ext4 image, in memory or in a file, through libuext4 in this process */
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

#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

struct lib_target {
	struct uext4_fs *fs;
	void *image;         /* NULL: it is a file */
	uint64_t size_bytes;
};

static struct uext4_fs *fs_of(struct target *t)
{
	return ((struct lib_target *)t->private_data)->fs;
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

/* mke2fs on @fd, known as @path. */
static int make_image(int fd, const char *path, uint64_t size_bytes)
{
	pid_t child;
	int status;

	if (fd < 0 || ftruncate(fd, (off_t)size_bytes))
		return -errno;
	child = fork();
	if (child == 0) {
		execlp("mke2fs", "mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1", path, (char *)NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status)
		return -EIO;
	return 0;
}

/* Memory as a kernel's driver has it: all there before, so that nobody is measured finding it, in huge pages where the system has them. */
static void *map_memory(uint64_t size_bytes)
{
	char *map = mmap(NULL, size_bytes + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *image;

	if (map == MAP_FAILED)
		return MAP_FAILED;
	image = (char *)(((uintptr_t)map + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
	if (image != map)
		munmap(map, (size_t)(image - map));
	munmap(image + size_bytes, HUGE_PAGE_BYTES - (size_t)(image - map));
	madvise(image, size_bytes, MADV_HUGEPAGE); /* advice: pages of any size do */
	if (madvise(image, size_bytes, MADV_POPULATE_WRITE))
		memset(image, 0, size_bytes); /* Linux before 5.14 */
	return image;
}

/* The ranges of @fd that are not holes. */
static int read_image(int fd, char *image)
{
	off_t pos = 0, end;

	while ((pos = lseek(fd, pos, SEEK_DATA)) >= 0) {
		end = lseek(fd, pos, SEEK_HOLE);
		for (ssize_t n; pos < end; pos += n)
			if ((n = pread(fd, image + pos, (size_t)(end - pos), pos)) <= 0)
				return n ? -errno : -EIO;
	}
	return errno == ENXIO ? 0 : -errno;
}

static int open_memory(struct lib_target *m, const struct uext4_options *opt)
{
	int err, fd = memfd_create("uext4-bench", 0);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	err = make_image(fd, path, m->size_bytes);
	if (!err) {
		m->image = map_memory(m->size_bytes);
		err = m->image == MAP_FAILED ? -errno : read_image(fd, m->image);
	}
	if (fd >= 0)
		close(fd);
	return err ? err : uext4_open_memory(m->image, m->size_bytes, opt, &m->fs);
}

/* The file's blocks are there before. */
static int open_file(struct lib_target *m, const char *path, const struct uext4_options *opt)
{
	int err, fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	err = make_image(fd, path, m->size_bytes);
	if (!err && fallocate(fd, 0, 0, (off_t)m->size_bytes))
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err ? err : uext4_open_fs(path, opt, &m->fs);
}

static void log_line(void *arg, int level, const char *text)
{
	(void)arg;
	if (level <= 4)
		fprintf(stderr, "uext4: %s\n", text);
}

static int target_lib(struct target *t, const char *path, uint64_t size_bytes, const char *options)
{
	struct lib_target *m = calloc(1, sizeof(*m));
	struct uext4_options opt = { .struct_bytes = sizeof(opt), .mount_options = options, .log = log_line };

	if (!m)
		return -ENOMEM;
	m->size_bytes = size_bytes;
	*t = (struct target){ .name = "uext4 in-process", .mkdir = lib_mkdir, .create = lib_create, .unlink = lib_unlink,
			      .rename = lib_rename, .open = lib_open, .close = lib_close, .pread = lib_pread,
			      .pwrite = lib_pwrite, .fsync = lib_fsync, .stats_json = lib_stats, .private_data = m };
	return path ? open_file(m, path, &opt) : open_memory(m, &opt);
}

int target_open(struct target *t, const char *place, uint64_t size_bytes, const char *options)
{
	static const char file[] = "image:";

	if (!strcmp(place, "memory"))
		return target_lib(t, NULL, size_bytes, options);
	if (!strncmp(place, file, strlen(file)))
		return target_lib(t, place + strlen(file), size_bytes, options);
	return target_dir(t, place);
}

int target_close(struct target *t)
{
	struct lib_target *m = t->private_data;
	int err = 0;

	if (t->mkdir == lib_mkdir) {
		err = uext4_close_fs(m->fs);
		if (m->image)
			munmap(m->image, m->size_bytes);
		free(m);
	} else {
		close((int)(intptr_t)t->private_data);
	}
	return err;
}
