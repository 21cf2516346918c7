/* SPDX-License-Identifier: MIT */
/* names.h - directories of the image as lists, and nodes by path */
#ifndef UEXT4_TOOLS_NAMES_H
#define UEXT4_TOOLS_NAMES_H

#include "tools/tool.h"

struct listed {
	char *name;
	uext4_ino ino;
	uint8_t type; /* DT_* */
};

struct listing {
	struct listed *items;
	size_t count, room;
};

/* Entries of a directory without "." and ".." unless @all, by name. listing_exit() also when this fails. */
int listing_read(struct tool *tool, uext4_ino dir, bool all, struct listing *listing);
void listing_sort(struct listing *listing);
void listing_exit(struct listing *listing);

/*
 * Where something is to be put, as cp and mv see it: an existing directory takes it under the source's base name,
 * else its parent takes it under the path's last component.
 */
struct place {
	uext4_ino parent;
	char *name; /* free() it */
	char *path; /* for messages; free() it */
};
/* @must_be_dir: there are several sources. 0 or a negative errno. place_exit() also when this fails. */
int place_find(struct tool *tool, const char *path, const char *source, bool must_be_dir, struct place *place);
void place_exit(struct place *place);

/* Names end in this on a terminal: what could move its cursor is shown as '?'. free() it. */
char *name_for_terminal(const char *name);

#endif
