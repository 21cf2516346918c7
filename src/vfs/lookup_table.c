/* SPDX-License-Identifier: MIT */
/* lookup_table.c - lookup counts of nodes whose inodes are not in memory */
#include "vfs/lookup_table.h"

#include <stdlib.h>

#define FIRST_BUCKETS 64u

static struct lookup_count **bucket_of(const struct lookup_table *table, ino_num ino)
{
	return &table->buckets[(ino * 2654435769u >> 7) & (table->bucket_count - 1)];
}

static struct lookup_count **find_link(const struct lookup_table *table, ino_num ino)
{
	struct lookup_count **link;

	if (!table->bucket_count)
		return NULL;
	for (link = bucket_of(table, ino); *link; link = &(*link)->next) {
		if ((*link)->ino == ino)
			return link;
	}
	return NULL;
}

void lookup_table_exit(struct lookup_table *table)
{
	for (uint32_t i = 0; i < table->bucket_count; i++) {
		while (table->buckets[i]) {
			struct lookup_count *entry = table->buckets[i];

			table->buckets[i] = entry->next;
			free(entry);
		}
	}
	free(table->buckets);
	*table = (struct lookup_table){ 0 };
}

static void move_entries(struct lookup_table *from, struct lookup_table *to)
{
	for (uint32_t i = 0; i < from->bucket_count; i++) {
		while (from->buckets[i]) {
			struct lookup_count *entry = from->buckets[i];

			from->buckets[i] = entry->next;
			lookup_table_put(to, entry);
		}
	}
	free(from->buckets);
}

bool lookup_table_reserve(struct lookup_table *table)
{
	struct lookup_table bigger = { 0 };

	if (table->used < table->bucket_count)
		return true;
	bigger.bucket_count = table->bucket_count ? table->bucket_count * 2 : FIRST_BUCKETS;
	bigger.buckets = calloc(bigger.bucket_count, sizeof(*bigger.buckets));
	if (!bigger.buckets)
		return table->bucket_count != 0; /* longer chains will do */
	move_entries(table, &bigger);
	*table = bigger;
	return true;
}

void lookup_table_put(struct lookup_table *table, struct lookup_count *entry)
{
	struct lookup_count **bucket = bucket_of(table, entry->ino);

	entry->next = *bucket;
	*bucket = entry;
	table->used++;
}

static void remove_link(struct lookup_table *table, struct lookup_count **link)
{
	struct lookup_count *entry = *link;

	*link = entry->next;
	free(entry);
	table->used--;
}

uint64_t lookup_table_take(struct lookup_table *table, ino_num ino)
{
	struct lookup_count **link = find_link(table, ino);
	uint64_t count;

	if (!link)
		return 0;
	count = (*link)->count;
	remove_link(table, link);
	return count;
}

void lookup_table_sub(struct lookup_table *table, ino_num ino, uint64_t count)
{
	struct lookup_count **link = find_link(table, ino);

	if (!link)
		return;
	if ((*link)->count > count)
		(*link)->count -= count;
	else
		remove_link(table, link);
}
