/* SPDX-License-Identifier: MIT */
/* tool.c - options, image and messages of a subcommand */
#include "tools/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_LEVEL_ERROR   3
#define LOG_LEVEL_WARNING 4

int tool_usage(const struct tool *tool)
{
	fprintf(stderr, "usage: uext4 %s %s\nTry 'uext4 %s --help'.\n", tool->command->name, tool->command->synopsis,
		tool->command->name);
	return EXIT_USAGE;
}

static void add_mount_options(struct tool *tool, const char *more)
{
	char *before = tool->mount_options;

	tool->mount_options = tool_alloc((before ? strlen(before) + 1 : 0) + strlen(more) + 1);
	sprintf(tool->mount_options, "%s%s%s", before ? before : "", before ? "," : "", more);
	free(before);
}

int tool_option(struct tool *tool, int argc, char **argv, const char *shorts, const struct option *longs)
{
	static const struct option none[] = { { 0 } };
	char with_o[32];
	int opt;

	snprintf(with_o, sizeof(with_o), "%so:", shorts);
	do {
		opt = getopt_long(argc, argv, with_o, longs ? longs : none, NULL);
		if (opt == 'o')
			add_mount_options(tool, optarg);
	} while (opt == 'o');
	return opt;
}

/* ---- messages ---- */

const char *tool_errno_text(int err)
{
	const char *text = strerrordesc_np(err < 0 ? -err : err);

	if (err == -EBADMSG)
		return "Checksum does not match";
	return text ? text : "Unknown error";
}

void tool_warn(const struct tool *tool, const char *fmt, ...)
{
	va_list args;

	fflush(stdout); /* in the order in which it happened, where both go to one place */
	fprintf(stderr, "uext4: %s: ", tool->command->name);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

void tool_fail(struct tool *tool, const char *path, int err)
{
	tool->failed = true;
	if (path)
		tool_warn(tool, "%s: %s: %s", tool->image, path, tool_errno_text(err));
	else
		tool_warn(tool, "%s: %s", tool->image, tool_errno_text(err));
}

void tool_fail_local(struct tool *tool, const char *path, int err)
{
	tool->failed = true;
	tool_warn(tool, "%s: %s", path, tool_errno_text(err));
}

static void log_message(void *arg, int level, const char *text)
{
	struct tool *tool = arg;

	if (level > LOG_LEVEL_WARNING)
		return;
	if (level <= LOG_LEVEL_ERROR)
		tool->error_logged = true;
	tool_warn(tool, "%s", text);
}

/* ---- the image ---- */

bool tool_open(struct tool *tool, const char *image, bool write)
{
	const char *given = tool->mount_options ? tool->mount_options : "";
	struct uext4_options options = { .struct_bytes = sizeof(options), .log = log_message, .log_arg = tool };
	char *mount_options = tool_alloc(strlen(given) + sizeof(",ro"));
	int err;

	sprintf(mount_options, "%s%s%s", given, *given && !write ? "," : "", write ? "" : "ro");
	options.mount_options = mount_options;
	tool->image = image;
	err = uext4_open_fs(image, &options, &tool->fs);
	free(mount_options);
	if (!err && write && uext4_is_read_only(tool->fs)) {
		uext4_close_fs(tool->fs);
		tool->fs = NULL;
		err = -EROFS;
	}
	if (!err)
		return true;
	tool->failed = true;
	if (!tool->error_logged || err == -EROFS)
		tool_fail(tool, NULL, err);
	return false;
}

int tool_close(struct tool *tool)
{
	int err = tool->fs ? uext4_close_fs(tool->fs) : 0;

	tool->fs = NULL;
	if (err)
		tool_fail(tool, NULL, err);
	if (fflush(stdout) || ferror(stdout)) {
		tool_warn(tool, "standard output: %s", strerror(errno));
		tool->failed = true;
	}
	return tool->failed ? EXIT_FAILED : EXIT_OK;
}

/* ---- strings ---- */

void *tool_alloc(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	if (!p) {
		fprintf(stderr, "uext4: out of memory\n");
		exit(EXIT_FAILED);
	}
	return p;
}

char *tool_join(const char *dir, const char *name)
{
	size_t len = strlen(dir);
	bool slash = len > 0 && dir[len - 1] != '/';
	char *path = tool_alloc(len + slash + strlen(name) + 1);

	sprintf(path, "%s%s%s", dir, slash ? "/" : "", name);
	return path;
}

const char *tool_base_name(const char *path, size_t *len_out)
{
	const char *end = path + strlen(path), *start;

	while (end > path && end[-1] == '/')
		end--;
	for (start = end; start > path && start[-1] != '/'; start--)
		;
	*len_out = (size_t)(end - start);
	return start;
}
