/* SPDX-License-Identifier: MIT */
/* image.c - images for tests */
#include "image.h"

#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

bool image_tools_missing(void)
{
	if (system("mke2fs -V >/dev/null 2>&1") == 0 && system("e2fsck -V >/dev/null 2>&1") == 0)
		return false;
	fprintf(stderr, "SKIPPED: mke2fs and e2fsck (e2fsprogs) are not installed\n");
	return true;
}

int image_run(const struct image *img, const char *command)
{
	char text[1024];
	size_t at = 0;

	for (const char *c = command; *c && at + strlen(img->path) + 1 < sizeof(text); c++) {
		if (*c == '@')
			at += (size_t)sprintf(text + at, "%s", img->path);
		else
			text[at++] = *c;
	}
	text[at] = '\0';
	return system(text);
}

static void make_in(struct image *img, const char *dir, const char *mke2fs_options, unsigned megabytes)
{
	char command[512];

	*img = (struct image){ 0 };
	snprintf(img->dir, sizeof(img->dir), "%s/uext4-test-XXXXXX", dir);
	assert_non_null(mkdtemp(img->dir));
	sprintf(img->path, "%s/image", img->dir);
	snprintf(command, sizeof(command), "PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F %s @ %uM >/dev/null 2>&1", mke2fs_options, megabytes);
	assert_int_equal(image_run(img, command), 0);
}

void image_make(struct image *img, const char *mke2fs_options, unsigned megabytes)
{
	make_in(img, "/tmp", mke2fs_options, megabytes);
}

bool image_make_in_memory(struct image *img, const char *mke2fs_options, unsigned megabytes)
{
	struct statfs sfs;

	if (statfs("/dev/shm", &sfs) || sfs.f_type != TMPFS_MAGIC || access("/dev/shm", W_OK))
		return false;
	make_in(img, "/dev/shm", mke2fs_options, megabytes);
	return true;
}

/* From any thread. */
static void keep_log(void *arg, int level, const char *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct image *img = arg;
	size_t len;

	if (level > 4)
		return;
	pthread_mutex_lock(&lock);
	len = strlen(img->log);
	snprintf(img->log + len, sizeof(img->log) - len, "%s\n", text);
	pthread_mutex_unlock(&lock);
}

int image_try_open(struct image *img, const char *options, bool check_permissions)
{
	struct uext4_options opt = {
		.struct_bytes = sizeof(opt),
		.mount_options = options,
		.log = keep_log,
		.log_arg = img,
		.check_permissions = check_permissions,
	};

	return uext4_open_fs(img->path, &opt, &img->fs);
}

void image_open(struct image *img, const char *options, bool check_permissions)
{
	int err = image_try_open(img, options, check_permissions);

	if (err)
		fprintf(stderr, "open: %d\n%s", err, img->log);
	assert_int_equal(err, 0);
}

void image_check(struct image *img)
{
	int status;

	if (img->fs)
		assert_int_equal(uext4_close_fs(img->fs), 0);
	img->fs = NULL;
	status = image_run(img, "PATH=$PATH:/usr/sbin:/sbin e2fsck -fn @ >@.fsck 2>&1");
	if (status) {
		image_run(img, "cat @.fsck >&2");
		fprintf(stderr, "log:\n%s", img->log);
	}
	assert_int_equal(status, 0);
}

void image_reopen(struct image *img)
{
	image_check(img);
	image_open(img, NULL, false);
}

void image_remove(struct image *img)
{
	if (img->fs)
		uext4_close_fs(img->fs);
	img->fs = NULL;
	unlink(img->path);
	strcat(img->path, ".fsck");
	unlink(img->path);
	rmdir(img->dir);
}

/* One 64-bit number for each 8 bytes; any length and offset. */
static unsigned char pattern_byte(uint64_t file, uint64_t pos)
{
	uint64_t word = (file * UINT64_C(0x9E3779B97F4A7C15)) ^ (pos / 8 * UINT64_C(0xBF58476D1CE4E5B9));

	return (unsigned char)(word >> (pos % 8 * 8)) | 1; /* never zero: a hole is told from data */
}

void pattern_fill(char *buf, size_t len, uint64_t file, uint64_t pos)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (char)pattern_byte(file, pos + i);
}

bool pattern_holds(const char *buf, size_t len, uint64_t file, uint64_t pos)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)buf[i] != pattern_byte(file, pos + i))
			return false;
	}
	return true;
}

struct uext4_file *image_open_file(struct image *img, const char *path, int flags)
{
	struct uext4_file *file;

	assert_int_equal(uext4_open(img->fs, NULL, path, flags, 0644, &file), 0);
	return file;
}

void image_write(struct uext4_file *to, uint64_t file, off_t pos, size_t len)
{
	char *buf = malloc(len);

	pattern_fill(buf, len, file, (uint64_t)pos);
	assert_int_equal(uext4_pwrite(to, buf, len, pos), len);
	free(buf);
}

void image_expect(struct uext4_file *in, uint64_t file, off_t pos, size_t len)
{
	char *buf = malloc(len);

	assert_int_equal(uext4_pread(in, buf, len, pos), len);
	assert_true(pattern_holds(buf, len, file, (uint64_t)pos));
	free(buf);
}
