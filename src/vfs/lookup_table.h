/* SPDX-License-Identifier: MIT */
/* lookup_table.h - lookup counts of nodes whose inodes are not in memory */
#ifndef UEXT4_VFS_LOOKUP_TABLE_H
#define UEXT4_VFS_LOOKUP_TABLE_H

#include "base/types.h"

struct lookup_count {
	struct lookup_count *next;
	ino_num ino;
	uint64_t count;
};

/* Chained hash by number; doubles as it fills. The owner locks. */
struct lookup_table {
	struct lookup_count **buckets; /* NULL until the first entry */
	uint32_t bucket_count;         /* power of two, or 0 */
	uint32_t used;
};

void lookup_table_exit(struct lookup_table *table);
/* Room for one put that cannot fail: false without memory. */
bool lookup_table_reserve(struct lookup_table *table);
/* Takes @entry (malloc'd), which names a number that the table does not hold. */
void lookup_table_put(struct lookup_table *table, struct lookup_count *entry);
/* Removes the entry of @ino and returns its count; 0: none. */
uint64_t lookup_table_take(struct lookup_table *table, ino_num ino);
/* Lowers the count of @ino, removing it at 0. */
void lookup_table_sub(struct lookup_table *table, ino_num ino, uint64_t count);

#endif
