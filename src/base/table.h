/* SPDX-License-Identifier: MIT */
/* table.h - memory for hash tables, which are read at random places */
#ifndef UEXT4_BASE_TABLE_H
#define UEXT4_BASE_TABLE_H

#include "base/types.h"

/**
 * table_alloc() - zeroed memory, aligned to 64 bytes
 * @bytes: a table of the size of a huge page or more gets huge pages, if the system has some to give
 *
 * A table that is not small is there at once: with malloc() each of its pages would be faulted in twice, by the first
 * reader and by the first writer, in the middle of some operation.
 *
 * Return: NULL without memory; table_free() it
 */
void *table_alloc(size_t bytes);

/* @bytes: as it was allocated. @table: or NULL. */
void table_free(void *table, size_t bytes);

#endif
