/* SPDX-License-Identifier: MIT */
/* stat.c - uext4 stat */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tools/names.h"
#include "tools/print.h"
#include "tools/xattrs.h"

#define LINK_BYTES 4096

struct xattr_print {
	bool json;
	bool first;
};

static void print_xattr_json(struct xattr_print *how, const char *name, const void *value, size_t len)
{
	if (!how->first)
		putchar(',');
	json_string(name);
	putchar(':');
	json_bytes(value, len);
	how->first = false;
}

static void print_xattr(void *arg, const char *name, const void *value, size_t len)
{
	struct xattr_print *how = arg;
	const unsigned char *bytes = value;

	if (how->json) {
		print_xattr_json(how, name, value, len);
		return;
	}
	printf("  Xattr: %s = \"", name);
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] >= ' ' && bytes[i] < 0x7f && bytes[i] != '"' && bytes[i] != '\\')
			putchar(bytes[i]);
		else
			printf("\\x%02x", bytes[i]);
	}
	puts("\"");
}

static void print_flags(uint32_t flags)
{
	static const struct { uint32_t bit; char letter; } letters[] = {
		{ 0x1, 's' }, { 0x2, 'u' }, { 0x8, 'S' }, { 0x10000, 'D' }, { 0x10, 'i' }, { 0x20, 'a' }, { 0x40, 'd' },
		{ 0x80, 'A' }, { 0x4, 'c' }, { 0x800, 'E' }, { 0x4000, 'j' }, { 0x1000, 'I' }, { 0x8000, 't' },
		{ 0x20000, 'T' }, { 0x80000, 'e' }, { 0x100000, 'V' }, { 0x2000000, 'x' }, { 0x10000000, 'N' },
		{ 0x20000000, 'P' }, { 0x40000000, 'F' },
	};

	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (flags & letters[i].bit)
			putchar(letters[i].letter);
	}
}

static void print_time(const char *what, struct timespec t)
{
	char text[TIME_TEXT_BYTES];

	time_text(t, true, text);
	printf("%8s %s\n", what, text);
}

static void print_text(const char *path, const struct uext4_attr *attr, const char *target)
{
	char mode[MODE_TEXT_BYTES];

	mode_text(attr->mode, mode);
	printf("  Path: %s%s%s\n", path, target ? " -> " : "", target ? target : "");
	printf("  Type: %s  Size: %" PRIu64 "  Blocks: %" PRIu64 "  IO Block: %u\n", type_name(attr->mode), attr->size,
	       attr->blocks, attr->block_bytes);
	printf(" Inode: %" PRIu64 "  Links: %u  Generation: %u", attr->ino, attr->nlink, attr->generation);
	if (S_ISCHR(attr->mode) || S_ISBLK(attr->mode))
		printf("  Device: %u,%u", major(attr->rdev), minor(attr->rdev));
	printf("\nAccess: (%04o/%s)  Uid: %u  Gid: %u  Project: %u  Flags: ", attr->mode & 07777, mode, attr->uid,
	       attr->gid, attr->projid);
	print_flags(attr->flags);
	putchar('\n');
	print_time("Access:", attr->atime);
	print_time("Modify:", attr->mtime);
	print_time("Change:", attr->ctime);
	print_time("Birth:", attr->crtime);
}

static void stat_one(struct tool *tool, const char *path, bool follow, bool json, bool first)
{
	char target[LINK_BYTES];
	const char *link = NULL;
	struct xattr_print how = { .json = json, .first = true };
	struct uext4_attr attr;
	int err = follow ? uext4_stat(tool->fs, NULL, path, &attr) : uext4_lstat(tool->fs, NULL, path, &attr);

	if (!err && S_ISLNK(attr.mode)) {
		err = uext4_node_readlink(tool->fs, attr.ino, target, sizeof(target));
		link = target;
	}
	if (err) {
		tool_fail(tool, path, err);
		return;
	}
	if (json) {
		printf("%s{\"path\":", first ? "\n " : ",\n ");
		json_string(path);
		putchar(',');
		json_attr(&attr);
		if (link) {
			fputs(",\"target\":", stdout);
			json_string(link);
		}
		fputs(",\"xattrs\":{", stdout);
	} else {
		print_text(path, &attr, link);
	}
	err = xattrs_each(tool, attr.ino, print_xattr, &how);
	if (json)
		fputs("}}", stdout);
	if (err)
		tool_fail(tool, path, err);
}

static int run_stat(struct tool *tool, int argc, char **argv)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	bool json = false, follow = false;
	int opt, first;

	while ((opt = tool_option(tool, argc, argv, "L", longs)) != -1) {
		if (opt == 'j')
			json = true;
		else if (opt == 'L')
			follow = true;
		else
			return tool_usage(tool);
	}
	if (argc - optind < 2)
		return tool_usage(tool);
	if (!tool_open(tool, argv[optind++], false))
		return EXIT_FAILED;
	if (json)
		putchar('[');
	for (first = optind; optind < argc; optind++)
		stat_one(tool, argv[optind], follow, json, optind == first);
	if (json)
		puts("\n]");
	return tool_close(tool);
}

const struct command command_stat = {
	.name = "stat",
	.synopsis = "[-L] [--json] [-o OPTIONS] IMAGE PATH...",
	.summary = "Show attributes, flags and extended attributes",
	.help = "  -L      follow symbolic links\n"
		"  --json  one array of objects\n"
		"  -o OPTIONS  mount options\n",
	.run = run_stat,
};
