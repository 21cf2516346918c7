/* SPDX-License-Identifier: MIT */
/* ls.c - uext4 ls */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tools/names.h"
#include "tools/print.h"

struct ls {
	struct tool *tool;
	bool all, details, recurse, json, self, inodes;
	bool printed;  /* something is out: the next block starts with an empty line, the next object with a comma */
	bool headings; /* several directories: each is named */
};

#define LINK_BYTES 4096

static void print_link(struct ls *ls, const struct uext4_attr *attr)
{
	char target[LINK_BYTES];
	int err;

	if (!S_ISLNK(attr->mode))
		return;
	err = uext4_node_readlink(ls->tool->fs, attr->ino, target, sizeof(target));
	if (ls->json) {
		if (!err) {
			fputs(",\"target\":", stdout);
			json_string(target);
		}
	} else if (!err) {
		char *shown = name_for_terminal(target);

		printf(" -> %s", shown);
		free(shown);
	} else {
		fputs(" -> ?", stdout);
	}
}

static void print_json(struct ls *ls, const char *path, const char *name, const struct uext4_attr *attr)
{
	fputs(ls->printed ? ",\n " : "\n ", stdout);
	fputs("{\"path\":", stdout);
	json_string(path);
	fputs(",\"name\":", stdout);
	json_string(name);
	putchar(',');
	json_attr(attr);
	print_link(ls, attr);
	putchar('}');
	ls->printed = true;
}

static void print_line(struct ls *ls, const char *name, const struct uext4_attr *attr)
{
	char mode[MODE_TEXT_BYTES], time[TIME_TEXT_BYTES];
	char *shown = name_for_terminal(name);

	if (ls->inodes)
		printf("%8" PRIu64 " ", attr->ino);
	if (ls->details) {
		mode_text(attr->mode, mode);
		time_text(attr->mtime, false, time);
		printf("%s %4u %6u %6u ", mode, attr->nlink, attr->uid, attr->gid);
		if (S_ISCHR(attr->mode) || S_ISBLK(attr->mode))
			printf("%6u,%5u", major(attr->rdev), minor(attr->rdev));
		else
			printf("%12" PRIu64, attr->size);
		printf(" %s ", time);
	}
	fputs(shown, stdout);
	if (ls->details)
		print_link(ls, attr);
	putchar('\n');
	free(shown);
	ls->printed = true;
}

/* Attributes cost a read of the inode: only where they are shown. */
static void show(struct ls *ls, const char *path, const char *name, uext4_ino ino)
{
	struct uext4_attr attr = { .ino = ino };
	int err = ls->details || ls->json ? uext4_node_getattr(ls->tool->fs, ino, &attr) : 0;

	if (err)
		tool_fail(ls->tool, path, err);
	else if (ls->json)
		print_json(ls, path, name, &attr);
	else
		print_line(ls, name, &attr);
}

static void list_dir(struct ls *ls, const char *path, uext4_ino dir);

static void list_subdirs(struct ls *ls, const char *path, const struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++) {
		const struct listed *item = &listing->items[i];
		struct uext4_attr attr;
		char *child;

		if (strcmp(item->name, ".") == 0 || strcmp(item->name, "..") == 0)
			continue;
		if (uext4_node_getattr(ls->tool->fs, item->ino, &attr) || !S_ISDIR(attr.mode))
			continue;
		child = tool_join(path, item->name);
		list_dir(ls, child, item->ino);
		free(child);
	}
}

static void list_dir(struct ls *ls, const char *path, uext4_ino dir)
{
	struct listing listing;
	int err = listing_read(ls->tool, dir, ls->all, &listing);

	if (!ls->json && ls->headings) {
		char *shown = name_for_terminal(path);

		printf("%s%s:\n", ls->printed ? "\n" : "", shown);
		free(shown);
		ls->printed = true;
	}
	listing_sort(&listing);
	for (size_t i = 0; i < listing.count; i++) {
		char *child = tool_join(path, listing.items[i].name);

		if (ls->all || listing.items[i].name[0] != '.')
			show(ls, child, listing.items[i].name, listing.items[i].ino);
		free(child);
	}
	if (err)
		tool_fail(ls->tool, path, err);
	if (ls->recurse)
		list_subdirs(ls, path, &listing);
	listing_exit(&listing);
}

/* What is no directory comes first, as with ls(1). */
static void list_operand(struct ls *ls, const char *path, bool dirs)
{
	struct uext4_attr attr;
	/* "ls -l LINK" shows the link, "ls LINK" the directory it leads to. */
	int err = ls->details || ls->self ? uext4_lstat(ls->tool->fs, NULL, path, &attr) :
					    uext4_stat(ls->tool->fs, NULL, path, &attr);
	bool as_dir = !err && S_ISDIR(attr.mode) && !ls->self;

	if (err && !dirs)
		tool_fail(ls->tool, path, err);
	else if (!err && as_dir && dirs)
		list_dir(ls, path, attr.ino);
	else if (!err && !as_dir && !dirs)
		show(ls, path, path, attr.ino);
}

static int run_ls(struct tool *tool, int argc, char **argv)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	struct ls ls = { .tool = tool };
	int opt;

	while ((opt = tool_option(tool, argc, argv, "laRdi", longs)) != -1) {
		switch (opt) {
		case 'l': ls.details = true; break;
		case 'a': ls.all = true; break;
		case 'R': ls.recurse = true; break;
		case 'd': ls.self = true; break;
		case 'i': ls.inodes = true; break;
		case 'j': ls.json = true; break;
		default: return tool_usage(tool);
		}
	}
	if (optind >= argc)
		return tool_usage(tool);
	if (!tool_open(tool, argv[optind++], false))
		return EXIT_FAILED;
	ls.headings = ls.recurse || argc - optind > 1;
	if (ls.json)
		putchar('[');
	for (int dirs = 0; dirs < 2; dirs++) {
		for (int i = optind; i < argc; i++)
			list_operand(&ls, argv[i], dirs);
		if (optind == argc)
			list_operand(&ls, "/", dirs);
	}
	if (ls.json)
		puts("\n]");
	return tool_close(tool);
}

const struct command command_ls = {
	.name = "ls",
	.synopsis = "[-aRldi] [--json] [-o OPTIONS] IMAGE [PATH...]",
	.summary = "List directories of an image",
	.help = "  -a      names that begin with a dot too\n"
		"  -l      mode, links, owner, group, size, time of each\n"
		"  -i      inode numbers\n"
		"  -d      directories themselves, not what is in them\n"
		"  -R      subdirectories too\n"
		"  --json  one array of objects\n"
		"  -o OPTIONS  mount options: partition=N, offset=BYTES, sb=N ...\n",
	.run = run_ls,
};
