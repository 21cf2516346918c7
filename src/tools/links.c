/* SPDX-License-Identifier: MIT */
/* links.c - chained hash of inodes with several names */
#include "tools/links.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

#define FIRST_BUCKETS 256u

static size_t bucket_of(const struct link_map *map, uint64_t dev, uint64_t ino)
{
	return (size_t)(((ino ^ dev << 32) * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (map->bucket_count - 1);
}

struct link_entry *link_map_find(const struct link_map *map, uint64_t dev, uint64_t ino)
{
	struct link_entry *entry;

	if (!map->bucket_count)
		return NULL;
	for (entry = map->buckets[bucket_of(map, dev, ino)]; entry; entry = entry->next) {
		if (entry->ino == ino && entry->dev == dev)
			return entry;
	}
	return NULL;
}

static void insert(struct link_map *map, struct link_entry *entry)
{
	struct link_entry **bucket = &map->buckets[bucket_of(map, entry->dev, entry->ino)];

	entry->next = *bucket;
	*bucket = entry;
	map->used++;
}

static void grow(struct link_map *map)
{
	struct link_map bigger = { .bucket_count = map->bucket_count ? map->bucket_count * 2 : FIRST_BUCKETS };

	bigger.buckets = tool_alloc(bigger.bucket_count * sizeof(*bigger.buckets));
	memset(bigger.buckets, 0, bigger.bucket_count * sizeof(*bigger.buckets));
	for (size_t i = 0; i < map->bucket_count; i++) {
		while (map->buckets[i]) {
			struct link_entry *entry = map->buckets[i];

			map->buckets[i] = entry->next;
			insert(&bigger, entry);
		}
	}
	free(map->buckets);
	*map = bigger;
}

void link_map_add(struct link_map *map, uint64_t dev, uint64_t ino, uint64_t copy_ino, const char *copy_path)
{
	struct link_entry *entry = tool_alloc(sizeof(*entry));

	if (map->used >= map->bucket_count)
		grow(map);
	*entry = (struct link_entry){ .dev = dev, .ino = ino, .copy_ino = copy_ino };
	if (copy_path)
		entry->copy_path = strcpy(tool_alloc(strlen(copy_path) + 1), copy_path);
	insert(map, entry);
}

void link_map_exit(struct link_map *map)
{
	for (size_t i = 0; i < map->bucket_count; i++) {
		while (map->buckets[i]) {
			struct link_entry *entry = map->buckets[i];

			map->buckets[i] = entry->next;
			free(entry->copy_path);
			free(entry);
		}
	}
	free(map->buckets);
	*map = (struct link_map){ 0 };
}
