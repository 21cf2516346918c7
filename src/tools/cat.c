/* SPDX-License-Identifier: MIT */
/* cat.c - uext4 cat */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/tool.h"

#define CAT_BYTES (1u << 20)

/* 0, or the errno of standard output. */
static int write_all(const char *buf, size_t len)
{
	while (len) {
		ssize_t done = write(STDOUT_FILENO, buf, len);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		buf += done;
		len -= (size_t)done;
	}
	return 0;
}

/* False: standard output is gone, the rest need not be tried. */
static bool cat_one(struct tool *tool, const char *path, char *buf)
{
	struct uext4_file *file;
	ssize_t len = uext4_open(tool->fs, NULL, path, O_RDONLY, 0, &file);
	int out_err = 0;

	if (len) {
		tool_fail(tool, path, (int)len);
		return true;
	}
	while (!out_err && (len = uext4_read(file, buf, CAT_BYTES)) > 0)
		out_err = write_all(buf, (size_t)len);
	if (len < 0)
		tool_fail(tool, path, (int)len);
	if (out_err)
		tool_fail_local(tool, "standard output", out_err);
	uext4_close(file);
	return !out_err;
}

static int run_cat(struct tool *tool, int argc, char **argv)
{
	char *buf;

	if (tool_option(tool, argc, argv, "", NULL) != -1 || argc - optind < 2)
		return tool_usage(tool);
	if (!tool_open(tool, argv[optind++], false))
		return EXIT_FAILED;
	buf = tool_alloc(CAT_BYTES);
	while (optind < argc && cat_one(tool, argv[optind], buf))
		optind++;
	free(buf);
	return tool_close(tool);
}

const struct command command_cat = {
	.name = "cat",
	.synopsis = "[-o OPTIONS] IMAGE PATH...",
	.summary = "Write files of an image to standard output",
	.help = "  -o OPTIONS  mount options\n",
	.run = run_cat,
};
