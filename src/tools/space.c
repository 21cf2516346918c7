/* SPDX-License-Identifier: MIT */
/* space.c - uext4 df and extents */
#include <errno.h>
#include <inttypes.h>
#include <linux/fiemap.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/print.h"

/* ---- df ---- */

static void print_df_json(const char *image, const struct uext4_statfs *st)
{
	fputs("{\"image\":", stdout);
	json_string(image);
	printf(",\"block_bytes\":%u,\"blocks\":%" PRIu64 ",\"blocks_free\":%" PRIu64 ",\"blocks_available\":%" PRIu64
	       ",\"inodes\":%" PRIu64 ",\"inodes_free\":%" PRIu64 ",\"name_max\":%u,\"fsid\":\"%016" PRIx64 "\"}\n",
	       st->block_bytes, st->blocks, st->blocks_free, st->blocks_available, st->inodes, st->inodes_free,
	       st->name_max, st->fsid);
}

static void size_column(uint64_t blocks, uint32_t block_bytes, bool human, char text[SIZE_TEXT_BYTES])
{
	if (human)
		size_text(blocks * block_bytes, text);
	else
		snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64, blocks * block_bytes / 1024);
}

static void print_df(const char *image, const struct uext4_statfs *st, bool human)
{
	uint64_t used = st->blocks - st->blocks_free;
	uint64_t usable = used + st->blocks_available;
	unsigned percent = usable ? (unsigned)((used * 100 + usable - 1) / usable) : 0;
	char size[SIZE_TEXT_BYTES], used_text[SIZE_TEXT_BYTES], available[SIZE_TEXT_BYTES];

	size_column(st->blocks, st->block_bytes, human, size);
	size_column(used, st->block_bytes, human, used_text);
	size_column(st->blocks_available, st->block_bytes, human, available);
	printf("%12s %12s %12s %4s %10s %10s  %s\n", human ? "Size" : "1K-blocks", "Used", "Available", "Use%", "Inodes",
	       "IFree", "Image");
	printf("%12s %12s %12s %3u%% %10" PRIu64 " %10" PRIu64 "  %s\n", size, used_text, available, percent,
	       st->inodes, st->inodes_free, image);
}

static int run_df(struct tool *tool, int argc, char **argv)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	bool human = false, json = false;
	struct uext4_statfs st;
	int opt, err;

	while ((opt = tool_option(tool, argc, argv, "h", longs)) != -1) {
		if (opt == 'h')
			human = true;
		else if (opt == 'j')
			json = true;
		else
			return tool_usage(tool);
	}
	if (argc - optind != 1)
		return tool_usage(tool);
	if (!tool_open(tool, argv[optind], false))
		return EXIT_FAILED;
	err = uext4_statfs(tool->fs, &st);
	if (err)
		tool_fail(tool, NULL, err);
	else if (json)
		print_df_json(tool->image, &st);
	else
		print_df(tool->image, &st, human);
	return tool_close(tool);
}

const struct command command_df = {
	.name = "df",
	.synopsis = "[-h] [--json] [-o OPTIONS] IMAGE",
	.summary = "Show used and free space of an image",
	.help = "  -h      in units that people read\n"
		"  --json  one object\n"
		"  -o OPTIONS  mount options\n",
	.run = run_df,
};

/* ---- extents ---- */

#define EXTENTS_AT_ONCE 256u

static const struct {
	uint32_t flag;
	const char *name;
} extent_flags[] = {
	{ FIEMAP_EXTENT_LAST, "last" },
	{ FIEMAP_EXTENT_UNKNOWN, "unknown" },
	{ FIEMAP_EXTENT_DELALLOC, "delalloc" },
	{ FIEMAP_EXTENT_ENCODED, "encoded" },
	{ FIEMAP_EXTENT_NOT_ALIGNED, "not_aligned" },
	{ FIEMAP_EXTENT_DATA_INLINE, "inline" },
	{ FIEMAP_EXTENT_UNWRITTEN, "unwritten" },
	{ FIEMAP_EXTENT_MERGED, "merged" },
	{ FIEMAP_EXTENT_SHARED, "shared" },
};

static void print_extent(const struct uext4_extent *extent, bool json, bool first)
{
	bool any = false;

	if (json)
		printf("%s{\"logical\":%" PRIu64 ",\"physical\":%" PRIu64 ",\"length\":%" PRIu64 ",\"flags\":[",
		       first ? "\n  " : ",\n  ", extent->logical, extent->physical, extent->length);
	else
		printf("%16" PRIu64 " %16" PRIu64 " %14" PRIu64 "  ", extent->logical, extent->physical, extent->length);
	for (size_t i = 0; i < sizeof(extent_flags) / sizeof(extent_flags[0]); i++) {
		if (!(extent->flags & extent_flags[i].flag))
			continue;
		printf(json ? "%s\"%s\"" : "%s%s", any ? "," : "", extent_flags[i].name);
		any = true;
	}
	fputs(json ? "]}" : "\n", stdout);
}

static int print_extents(struct tool *tool, uext4_ino ino, bool json)
{
	struct uext4_extent *extents = tool_alloc(EXTENTS_AT_ONCE * sizeof(*extents));
	uint64_t pos = 0;
	uint32_t count;
	bool first = true;
	int err;

	do {
		err = uext4_node_fiemap(tool->fs, ino, pos, UINT64_MAX - pos, false, extents, EXTENTS_AT_ONCE, &count);
		for (uint32_t i = 0; !err && i < count; i++) {
			print_extent(&extents[i], json, first);
			pos = extents[i].logical + extents[i].length;
			first = false;
		}
	} while (!err && count == EXTENTS_AT_ONCE && !(extents[count - 1].flags & FIEMAP_EXTENT_LAST));
	free(extents);
	return err;
}

static void extents_of(struct tool *tool, const char *path, bool json, bool first)
{
	uext4_ino ino;
	int err = uext4_resolve(tool->fs, NULL, path, true, &ino);

	if (err) {
		tool_fail(tool, path, err);
		return;
	}
	if (json) {
		fputs(first ? "\n {\"path\":" : ",\n {\"path\":", stdout);
		json_string(path);
		fputs(",\"extents\":[", stdout);
	} else {
		printf("%s:\n%16s %16s %14s  flags\n", path, "logical", "physical", "length");
	}
	err = print_extents(tool, ino, json);
	if (json)
		fputs("]}", stdout);
	if (err)
		tool_fail(tool, path, err);
}

static int run_extents(struct tool *tool, int argc, char **argv)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	bool json = false;
	int opt, first;

	while ((opt = tool_option(tool, argc, argv, "", longs)) != -1) {
		if (opt != 'j')
			return tool_usage(tool);
		json = true;
	}
	if (argc - optind < 2)
		return tool_usage(tool);
	if (!tool_open(tool, argv[optind++], false))
		return EXIT_FAILED;
	if (json)
		putchar('[');
	for (first = optind; optind < argc; optind++)
		extents_of(tool, argv[optind], json, optind == first);
	if (json)
		puts("\n]");
	return tool_close(tool);
}

const struct command command_extents = {
	.name = "extents",
	.synopsis = "[--json] [-o OPTIONS] IMAGE PATH...",
	.summary = "Show where the bytes of files lie",
	.help = "All numbers are bytes; physical ones count from the start of the file system.\n\n"
		"  --json  one array of objects\n"
		"  -o OPTIONS  mount options\n",
	.run = run_extents,
};
