/* SPDX-License-Identifier: MIT */
/* tool.h - what every subcommand of `uext4` uses: its options, its image, its messages */
#ifndef UEXT4_TOOLS_TOOL_H
#define UEXT4_TOOLS_TOOL_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "uext4.h"

#define EXIT_OK      0
#define EXIT_FAILED  1
#define EXIT_USAGE   2

struct tool;

struct command {
	const char *name;
	const char *synopsis; /* of the words after the name */
	const char *summary;  /* for the list of commands */
	const char *help;     /* options and remarks; lines */
	bool raw;             /* gets its words unseen, --help too */
	int (*run)(struct tool *tool, int argc, char **argv); /* argv[0] begins messages. Returns an exit code */
};

/* One run of a subcommand. */
struct tool {
	const struct command *command;
	char *mount_options;       /* all -o, joined by commas; owned; NULL: none */
	const char *image;         /* NULL: none yet */
	struct uext4_fs *fs;       /* NULL: not open */
	bool failed;               /* something was reported: the exit code is EXIT_FAILED */
	bool error_logged;         /* the library has said what is wrong */
};

/* getopt_long() that deals with -o; @shorts without it. '?' after a message: return tool_usage(). */
int tool_option(struct tool *tool, int argc, char **argv, const char *shorts, const struct option *longs);
/* "usage: ..." on stderr; EXIT_USAGE. */
int tool_usage(const struct tool *tool);

/* Opens the image, read-only unless @write. False: said why. */
bool tool_open(struct tool *tool, const char *image, bool write);
/* Closes it, reporting what could not be written. The exit code of the run. */
int tool_close(struct tool *tool);

/* "uext4: COMMAND: IMAGE: PATH: reason"; PATH may be NULL. Marks the run as failed. */
void tool_fail(struct tool *tool, const char *path, int err);
/* The same for something that is not in the image. */
void tool_fail_local(struct tool *tool, const char *path, int err);
/* "uext4: COMMAND: ..."; does not mark it. */
void tool_warn(const struct tool *tool, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *tool_errno_text(int err);

/* Memory of a short-lived program: ends it if there is none. */
void *tool_alloc(size_t bytes);
char *tool_join(const char *dir, const char *name); /* "dir/name", one slash between them; free() it */
const char *tool_base_name(const char *path, size_t *len_out); /* without trailing slashes */

extern const struct command command_ls, command_cat, command_stat, command_get, command_put, command_mkdir, command_rm,
	command_mv, command_ln, command_df, command_extents, command_fsck, command_mkfs, command_mount, command_umount,
	command_stats;

#endif
