/* SPDX-License-Identifier: MIT */
/* links.h - which inodes of the source have been copied, and to where, so that hard links stay hard links */
#ifndef UEXT4_TOOLS_LINKS_H
#define UEXT4_TOOLS_LINKS_H

#include <stddef.h>
#include <stdint.h>

struct link_entry {
	struct link_entry *next;
	uint64_t dev, ino;  /* of the source */
	uint64_t copy_ino;  /* put: in the image */
	char *copy_path;    /* get: on this system; NULL with put */
};

struct link_map {
	struct link_entry **buckets;
	size_t bucket_count, used;
};

/* The entry of an inode copied before, or NULL. */
struct link_entry *link_map_find(const struct link_map *map, uint64_t dev, uint64_t ino);
/* @copy_path is copied; NULL allowed. */
void link_map_add(struct link_map *map, uint64_t dev, uint64_t ino, uint64_t copy_ino, const char *copy_path);
void link_map_exit(struct link_map *map);

#endif
