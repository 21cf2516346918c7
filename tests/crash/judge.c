/* SPDX-License-Identifier: MIT */
/* judge.c - what e2fsck and the kernel say about an image */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash.h"

extern char **environ;

/* Its output goes nowhere. */
int run_program(char *const argv[])
{
	posix_spawn_file_actions_t files;
	pid_t child;
	int status, err;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	err = posix_spawnp(&child, argv[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (err || waitpid(child, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *judge_fsck(const struct image *image)
{
	char *argv[] = { "e2fsck", "-fn", (char *)image->path, NULL };

	return run_program(argv) ? "e2fsck -fn finds errors" : NULL;
}

const char *judge_replay_by_e2fsck(const struct image *image)
{
	char *argv[] = { "e2fsck", "-fy", (char *)image->path, NULL };

	/* 1: what it did was to replay, and to free orphans. */
	return run_program(argv) > 1 ? "e2fsck -fy does not recover it" : judge_fsck(image);
}

/* ---- the kernel ---- */

static int mount_and_unmount(const char *path)
{
	char command[512], where[64];
	int status;

	snprintf(where, sizeof(where), "/dev/shm/uext4-crash-%d", (int)getpid());
	if (mkdir(where, 0700))
		return -1;
	snprintf(command, sizeof(command), "mount -o loop %s %s && umount %s", path, where, where);
	status = run_program((char *[]){ "sh", "-c", command, NULL });
	rmdir(where);
	return status;
}

const char *judge_replay_by_kernel(const struct image *image)
{
	return mount_and_unmount(image->path) ? "the kernel does not mount it" : judge_fsck(image);
}
