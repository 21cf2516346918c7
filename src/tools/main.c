/* SPDX-License-Identifier: MIT */
/* main.c - the `uext4` command */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

static const struct command *const commands[] = {
	&command_mount, &command_umount, &command_ls, &command_cat, &command_stat, &command_get, &command_put,
	&command_mkdir, &command_rm, &command_mv, &command_ln, &command_df, &command_extents, &command_stats,
	&command_fsck, &command_mkfs,
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *to)
{
	fprintf(to, "uext4 %s - ext2, ext3 and ext4 file systems in user space\n\n"
		"usage: uext4 COMMAND [OPTIONS] ...\n\ncommands:\n", uext4_version());
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %-8s  %s\n", commands[i]->name, commands[i]->summary);
	fprintf(to, "\n"
		"'uext4 COMMAND --help' says more about each. All but mount and umount work on the image itself, without a\n"
		"mount; -o takes mount options there too (\"-o partition=2\", \"-o cache_size=64M\").\n"
		"Exit codes: 0 done, 1 something failed, 2 wrong usage.\n");
}

static void print_command_help(const struct command *command)
{
	printf("usage: uext4 %s %s\n\n%s.\n", command->name, command->synopsis, command->summary);
	if (command->help)
		printf("\n%s", command->help);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0)
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	struct tool tool = { 0 };
	char prefix[32]; /* of what getopt says, as of all else */
	int code;

	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("uext4 %s\n", uext4_version());
		return EXIT_OK;
	}
	tool.command = find_command(argv[1]);
	if (!tool.command) {
		fprintf(stderr, "uext4: %s: no such command. Try 'uext4 --help'.\n", argv[1]);
		return EXIT_USAGE;
	}
	if (!tool.command->raw && asks_for_help(argc - 1, argv + 1)) {
		print_command_help(tool.command);
		return EXIT_OK;
	}
	snprintf(prefix, sizeof(prefix), "uext4: %s", tool.command->name);
	argv[1] = prefix;
	code = tool.command->run(&tool, argc - 1, argv + 1);
	free(tool.mount_options);
	return code;
}
