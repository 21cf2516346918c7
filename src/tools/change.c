/* SPDX-License-Identifier: MIT */
/* change.c - uext4 mkdir, rm, mv, ln */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/names.h"

/* ---- mkdir ---- */

#define MODE_MAX 07777u

static bool parse_mode(const char *text, mode_t *mode_out)
{
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	*mode_out = (mode_t)mode;
	return *text >= '0' && *text <= '7' && !*end && mode <= MODE_MAX;
}

static int make_dir(struct tool *tool, const char *path, mode_t mode)
{
	struct uext4_attr attr = { .mode = mode };
	int err = uext4_mkdir(tool->fs, NULL, path, mode);

	/* mkdir itself leaves setuid and setgid out. */
	if (!err && (mode & (S_ISUID | S_ISGID)))
		err = uext4_setattr(tool->fs, NULL, path, true, &attr, UEXT4_SET_MODE);
	return err;
}

static int check_is_dir(struct tool *tool, const char *path)
{
	struct uext4_attr attr;
	int err = uext4_stat(tool->fs, NULL, path, &attr);

	return err ? err : S_ISDIR(attr.mode) ? 0 : -EEXIST;
}

/* Each parent that is missing, then the directory; one that is there is no error. */
static int make_dirs(struct tool *tool, const char *path, mode_t mode)
{
	char *copy = tool_alloc(strlen(path) + 1);
	int err = 0;

	strcpy(copy, path);
	for (char *slash = strchr(copy + 1, '/'); slash && !err; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		err = uext4_mkdir(tool->fs, NULL, copy, 0755);
		if (err == -EEXIST)
			err = check_is_dir(tool, copy);
		*slash = '/';
	}
	if (!err)
		err = make_dir(tool, path, mode);
	if (err == -EEXIST)
		err = check_is_dir(tool, path);
	free(copy);
	return err;
}

static int run_mkdir(struct tool *tool, int argc, char **argv)
{
	bool parents = false;
	mode_t mode = 0755;
	int opt;

	while ((opt = tool_option(tool, argc, argv, "pm:", NULL)) != -1) {
		if (opt == 'p') {
			parents = true;
		} else if (opt != 'm') {
			return tool_usage(tool);
		} else if (!parse_mode(optarg, &mode)) {
			tool_warn(tool, "-m %s: want an octal mode from 0 to %o", optarg, MODE_MAX);
			return tool_usage(tool);
		}
	}
	if (argc - optind < 2)
		return tool_usage(tool);
	if (!tool_open(tool, argv[optind++], true))
		return EXIT_FAILED;
	for (; optind < argc; optind++) {
		int err = parents ? make_dirs(tool, argv[optind], mode) : make_dir(tool, argv[optind], mode);

		if (err)
			tool_fail(tool, argv[optind], err);
	}
	return tool_close(tool);
}

const struct command command_mkdir = {
	.name = "mkdir",
	.synopsis = "[-p] [-m MODE] [-o OPTIONS] IMAGE PATH...",
	.summary = "Make directories in an image",
	.help = "  -p      parents too, and no error for what is there\n"
		"  -m MODE octal mode; 0755 without it\n"
		"  -o OPTIONS  mount options\n",
	.run = run_mkdir,
};

/* ---- rm ---- */

static int remove_tree(struct tool *tool, uext4_ino parent, const char *name, const char *path);

static void remove_children(struct tool *tool, uext4_ino dir, const char *path)
{
	struct listing listing;
	int err = listing_read(tool, dir, false, &listing);

	for (size_t i = 0; i < listing.count; i++) {
		char *child = tool_join(path, listing.items[i].name);
		int child_err = remove_tree(tool, dir, listing.items[i].name, child);

		if (child_err)
			tool_fail(tool, child, child_err);
		free(child);
	}
	if (err)
		tool_fail(tool, path, err);
	listing_exit(&listing);
}

static int remove_tree(struct tool *tool, uext4_ino parent, const char *name, const char *path)
{
	struct uext4_entry entry;
	int err = uext4_node_unlink(tool->fs, NULL, parent, name);

	if (err != -EISDIR)
		return err;
	err = uext4_node_lookup(tool->fs, NULL, parent, name, &entry);
	if (err)
		return err;
	remove_children(tool, entry.ino, path);
	uext4_node_forget(tool->fs, entry.ino, 1);
	return uext4_node_rmdir(tool->fs, NULL, parent, name);
}

static int remove_recursively(struct tool *tool, const char *path)
{
	struct place place;
	struct uext4_attr attr;
	size_t len;
	const char *name = tool_base_name(path, &len);
	char *dir;
	int err = uext4_lstat(tool->fs, NULL, path, &attr);

	if (err)
		return err;
	if (!len || (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.'))
		return -EBUSY; /* a directory that has no name here: the root, ".", ".." */
	dir = tool_alloc((size_t)(name - path) + 2);
	sprintf(dir, "%s%.*s", name == path ? "/" : "", (int)(name - path), path);
	err = place_find(tool, dir, path, true, &place);
	if (!err)
		err = remove_tree(tool, place.parent, place.name, path);
	place_exit(&place);
	free(dir);
	return err;
}

static int run_rm(struct tool *tool, int argc, char **argv)
{
	bool recurse = false, force = false;
	int opt;

	while ((opt = tool_option(tool, argc, argv, "rRf", NULL)) != -1) {
		if (opt == 'r' || opt == 'R')
			recurse = true;
		else if (opt == 'f')
			force = true;
		else
			return tool_usage(tool);
	}
	if (argc - optind < 2)
		return tool_usage(tool);
	if (!tool_open(tool, argv[optind++], true))
		return EXIT_FAILED;
	for (; optind < argc; optind++) {
		int err = recurse ? remove_recursively(tool, argv[optind]) : uext4_unlink(tool->fs, NULL, argv[optind]);

		if (err && !(force && err == -ENOENT))
			tool_fail(tool, argv[optind], err);
	}
	return tool_close(tool);
}

const struct command command_rm = {
	.name = "rm",
	.synopsis = "[-r] [-f] [-o OPTIONS] IMAGE PATH...",
	.summary = "Remove files and directories of an image",
	.help = "  -r      directories with all that is in them\n"
		"  -f      no error for what is not there\n"
		"  -o OPTIONS  mount options\n",
	.run = run_rm,
};

/* ---- mv ---- */

static int move(struct tool *tool, const char *from, const char *to, bool must_be_dir)
{
	struct place place;
	int err = place_find(tool, to, from, must_be_dir, &place);

	if (!err)
		err = uext4_rename(tool->fs, NULL, from, place.path, 0);
	place_exit(&place);
	return err;
}

static int run_mv(struct tool *tool, int argc, char **argv)
{
	const char *dest;
	bool many;

	if (tool_option(tool, argc, argv, "", NULL) != -1 || argc - optind < 3)
		return tool_usage(tool);
	dest = argv[--argc];
	if (!tool_open(tool, argv[optind++], true))
		return EXIT_FAILED;
	many = argc - optind > 1;
	for (; optind < argc; optind++) {
		int err = move(tool, argv[optind], dest, many);

		if (err)
			tool_fail(tool, err == -ENOTDIR && many ? dest : argv[optind], err);
	}
	return tool_close(tool);
}

const struct command command_mv = {
	.name = "mv",
	.synopsis = "[-o OPTIONS] IMAGE OLD... NEW",
	.summary = "Rename or move files within an image",
	.help = "A directory NEW takes what is moved; a file NEW is replaced.\n\n"
		"  -o OPTIONS  mount options\n",
	.run = run_mv,
};

/* ---- ln ---- */

static int run_ln(struct tool *tool, int argc, char **argv)
{
	bool symbolic = false;
	struct place place;
	const char *target, *path;
	int opt, err;

	while ((opt = tool_option(tool, argc, argv, "s", NULL)) != -1) {
		if (opt != 's')
			return tool_usage(tool);
		symbolic = true;
	}
	if (argc - optind != 3)
		return tool_usage(tool);
	target = argv[optind + 1];
	path = argv[optind + 2];
	if (!tool_open(tool, argv[optind], true))
		return EXIT_FAILED;
	err = place_find(tool, path, target, false, &place);
	if (!err && symbolic)
		err = uext4_symlink(tool->fs, NULL, target, place.path);
	else if (!err)
		err = uext4_link(tool->fs, NULL, target, place.path);
	if (err)
		tool_fail(tool, place.path ? place.path : path, err);
	place_exit(&place);
	return tool_close(tool);
}

const struct command command_ln = {
	.name = "ln",
	.synopsis = "[-s] [-o OPTIONS] IMAGE TARGET PATH",
	.summary = "Make a hard or symbolic link in an image",
	.help = "  -s      symbolic: TARGET is kept as it is written\n"
		"  -o OPTIONS  mount options\n",
	.run = run_ln,
};
