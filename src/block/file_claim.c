/* SPDX-License-Identifier: MIT */
/* file_claim.c - exclusive use of an image file or block device */
/*
 * Theory
 *
 * Nobody but us may write what we write, nor read it while we do. Who else may have it, and how he is seen:
 * C1  Another uext4, and tools that follow the same habit: flock(2), exclusive for a writer, shared for readers.
 * C2  Virtual machine monitors and other servers of images: record locks over the whole file, which are theirs
 *     where they lock single bytes (open file description locks; a process' own POSIX locks conflict with them too).
 * C3  The kernel, of a block device: O_EXCL when it is opened.
 * C4  The kernel, of a file that a loop device serves: it takes no lock, so all loop devices are asked for the
 *     file they serve. One that serves ours but is free (nobody has mounted it or otherwise opened it O_EXCL)
 *     is no obstacle, nor is a read-only one to a reader.
 *
 * C4 holds only at the time of opening: the kernel may attach a loop device later, and only root can make it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block/file_private.h"

#define SYS_BLOCK "/sys/block"

static int claim_flock(int fd, bool shared)
{
	while (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			return -EBUSY;
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* C2. File systems without such locks (ENOLCK, EINVAL ...) are no reason to refuse: flock() has been taken. */
static int claim_records(int fd, bool shared)
{
	struct flock whole = { .l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(fd, F_OFD_SETLK, &whole) && (errno == EAGAIN || errno == EACCES))
		return -EBUSY;
	return 0;
}

/* The first line of /sys/block/@loop/@name into @text; false: there is none. */
static bool loop_attribute(const char *loop, const char *name, char *text, size_t text_bytes)
{
	char path[PATH_MAX];
	FILE *file;
	bool read;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/%s", loop, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	read = fgets(text, (int)text_bytes, file);
	fclose(file);
	if (read)
		text[strcspn(text, "\n")] = '\0';
	return read;
}

/* Asked of the device @loop_fd where it could be opened (-1: it could not), else by the name that the kernel tells. */
static bool loop_serves(int loop_fd, const char *backing_path, const struct stat *file)
{
	struct loop_info64 info;
	struct stat backing;

	if (loop_fd >= 0 && !ioctl(loop_fd, LOOP_GET_STATUS64, &info))
		return info.lo_inode == file->st_ino && info.lo_device == file->st_dev;
	return !stat(backing_path, &backing) && backing.st_ino == file->st_ino && backing.st_dev == file->st_dev;
}

/* Whether somebody holds @device exclusively. Whoever may not even open it cannot know, and takes it as held. */
static bool loop_is_held(const char *device)
{
	int fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC);

	if (fd < 0)
		return true;
	close(fd);
	return false;
}

/* C4 for one loop device, whose name in /sys/block is @loop. */
static bool loop_is_obstacle(const char *loop, const struct stat *file, bool shared)
{
	char backing_path[PATH_MAX], read_only[8], device[NAME_MAX + sizeof("/dev/")];
	bool serves;
	int fd;

	if (!loop_attribute(loop, "loop/backing_file", backing_path, sizeof(backing_path)))
		return false; /* it serves nothing */
	snprintf(device, sizeof(device), "/dev/%s", loop);
	fd = open(device, O_RDONLY | O_CLOEXEC);
	serves = loop_serves(fd, backing_path, file);
	if (fd >= 0)
		close(fd);
	if (!serves)
		return false;
	if (shared && loop_attribute(loop, "ro", read_only, sizeof(read_only)) && !strcmp(read_only, "1"))
		return false;
	return loop_is_held(device);
}

static int claim_from_loops(const struct stat *file, bool shared, char *holder, size_t holder_bytes)
{
	DIR *dir = opendir(SYS_BLOCK);
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return 0; /* no sysfs here: no way to know */
	while (!err && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "loop", 4) || !loop_is_obstacle(entry->d_name, file, shared))
			continue;
		snprintf(holder, holder_bytes, "/dev/%s", entry->d_name);
		err = -EBUSY;
	}
	closedir(dir);
	return err;
}

int file_claim(int fd, const struct stat *st, bool shared, char *holder, size_t holder_bytes)
{
	int err = claim_flock(fd, shared);

	if (!err && S_ISREG(st->st_mode)) {
		err = claim_records(fd, shared);
		if (!err)
			err = claim_from_loops(st, shared, holder, holder_bytes);
	}
	return err;
}
