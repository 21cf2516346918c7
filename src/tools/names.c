/* SPDX-License-Identifier: MIT */
/* names.c - directories as lists, and where things are to be put */
#include "tools/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct collect {
	struct listing *listing;
	bool all;
};

static int collect_entry(void *arg, const struct uext4_dirent *entry)
{
	struct collect *collect = arg;
	struct listing *listing = collect->listing;
	bool dots = strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0;

	if (dots && !collect->all)
		return 0;
	if (listing->count == listing->room) {
		struct listed *bigger;

		listing->room = listing->room ? listing->room * 2 : 64;
		bigger = tool_alloc(listing->room * sizeof(*bigger));
		if (listing->count)
			memcpy(bigger, listing->items, listing->count * sizeof(*bigger));
		free(listing->items);
		listing->items = bigger;
	}
	listing->items[listing->count++] = (struct listed){
		.name = strcpy(tool_alloc(strlen(entry->name) + 1), entry->name),
		.ino = entry->ino,
		.type = entry->type,
	};
	return 0;
}

int listing_read(struct tool *tool, uext4_ino dir, bool all, struct listing *listing)
{
	struct collect collect = { .listing = listing, .all = all };

	*listing = (struct listing){ 0 };
	return uext4_node_readdir(tool->fs, dir, 0, collect_entry, &collect);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct listed *)a)->name, ((const struct listed *)b)->name);
}

void listing_sort(struct listing *listing)
{
	if (listing->count)
		qsort(listing->items, listing->count, sizeof(*listing->items), by_name);
}

void listing_exit(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		free(listing->items[i].name);
	free(listing->items);
	*listing = (struct listing){ 0 };
}

/* ---- places ---- */

static char *copy_bytes(const char *s, size_t len)
{
	char *copy = tool_alloc(len + 1);

	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

static bool is_dir(struct tool *tool, const char *path)
{
	struct uext4_attr attr;

	return uext4_stat(tool->fs, NULL, path, &attr) == 0 && S_ISDIR(attr.mode);
}

static int parent_of(struct tool *tool, const char *path, uext4_ino *parent_out)
{
	size_t len;
	const char *name = tool_base_name(path, &len);
	char *dir = copy_bytes(path, (size_t)(name - path));
	struct uext4_attr attr;
	int err = uext4_stat(tool->fs, NULL, *dir ? dir : "/", &attr);

	free(dir);
	if (!err && !S_ISDIR(attr.mode))
		err = -ENOTDIR;
	*parent_out = attr.ino;
	return err;
}

int place_find(struct tool *tool, const char *path, const char *source, bool must_be_dir, struct place *place)
{
	size_t len;
	const char *name;

	*place = (struct place){ 0 };
	if (is_dir(tool, path)) {
		name = tool_base_name(source, &len);
		if (!len)
			return -EINVAL;
		place->name = copy_bytes(name, len);
		place->path = tool_join(path, place->name);
		return uext4_resolve(tool->fs, NULL, path, true, &place->parent);
	}
	place->path = copy_bytes(path, strlen(path));
	if (must_be_dir)
		return -ENOTDIR;
	name = tool_base_name(path, &len);
	place->name = copy_bytes(name, len);
	return parent_of(tool, path, &place->parent);
}

void place_exit(struct place *place)
{
	free(place->name);
	free(place->path);
}

char *name_for_terminal(const char *name)
{
	char *copy = copy_bytes(name, strlen(name));

	if (isatty(STDOUT_FILENO)) {
		for (char *c = copy; *c; c++) {
			if ((unsigned char)*c < ' ' || *c == 0x7f)
				*c = '?';
		}
	}
	return copy;
}
