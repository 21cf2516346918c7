/* SPDX-License-Identifier: MIT */
/* handover.c - commands that others carry out: e2fsprogs, and the FUSE server */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuse/fuse_server.h"
#include "tools/tool.h"

/* System tools are often not in an ordinary user's PATH. */
static void exec_system_tool(const char *program, char **argv)
{
	static const char *const dirs[] = { "/usr/sbin", "/sbin", "/usr/local/sbin" };
	char path[64];

	execvp(program, argv);
	for (size_t i = 0; errno == ENOENT && i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i], program);
		execv(path, argv);
	}
}

/* @as: argv[0] of the program, which mke2fs looks at. */
static int hand_over(struct tool *tool, const char *program, const char *as, int argc, char **argv)
{
	char **args = tool_alloc(((size_t)argc + 1) * sizeof(*args));

	args[0] = (char *)as;
	memcpy(args + 1, argv + 1, (size_t)argc * sizeof(*args)); /* with the NULL */
	exec_system_tool(program, args);
	tool_warn(tool, "%s: %s%s", program, tool_errno_text(errno),
		  errno == ENOENT ? " (it is part of e2fsprogs)" : "");
	free(args);
	return EXIT_FAILED;
}

static int run_fsck(struct tool *tool, int argc, char **argv)
{
	return argc < 2 ? tool_usage(tool) : hand_over(tool, "e2fsck", "e2fsck", argc, argv);
}

static int run_mkfs(struct tool *tool, int argc, char **argv)
{
	return argc < 2 ? tool_usage(tool) : hand_over(tool, "mke2fs", "mkfs.ext4", argc, argv);
}

static int run_mount(struct tool *tool, int argc, char **argv)
{
	return fuse_main_mount(argc, argv);
}

static int run_umount(struct tool *tool, int argc, char **argv)
{
	return fuse_main_umount(argc, argv);
}

static int run_stats(struct tool *tool, int argc, char **argv)
{
	return fuse_main_stats(argc, argv);
}

const struct command command_fsck = {
	.name = "fsck",
	.synopsis = "[E2FSCK-OPTIONS] IMAGE",
	.summary = "Check an image with e2fsck",
	.help = "Everything is handed over to e2fsck(8), whose exit code is returned.\n",
	.run = run_fsck,
};
const struct command command_mkfs = {
	.name = "mkfs",
	.synopsis = "[MKE2FS-OPTIONS] IMAGE [SIZE]",
	.summary = "Make an ext4 file system with mke2fs",
	.help = "Everything is handed over to mke2fs(8), called as mkfs.ext4.\n",
	.run = run_mkfs,
};
const struct command command_mount = {
	.name = "mount",
	.synopsis = "[-f] [-o OPTIONS] IMAGE MOUNTPOINT",
	.summary = "Mount an image with FUSE",
	.raw = true,
	.run = run_mount,
};
const struct command command_umount = {
	.name = "umount",
	.synopsis = "MOUNTPOINT",
	.summary = "Unmount; returns once everything is on disk and the image clean",
	.raw = true,
	.run = run_umount,
};
const struct command command_stats = {
	.name = "stats",
	.synopsis = "[--json] MOUNTPOINT",
	.summary = "Show the counters of a mounted image",
	.raw = true,
	.run = run_stats,
};
