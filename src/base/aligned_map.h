/* SPDX-License-Identifier: MIT */
/* aligned_map.h - memory from the system at a multiple of more than a page */
#ifndef UEXT4_BASE_ALIGNED_MAP_H
#define UEXT4_BASE_ALIGNED_MAP_H

#include "base/types.h"

/**
 * aligned_map() - zeroed private memory, found by page faults
 * @bytes: a multiple of the page size
 * @align: a power of two, at least the page size
 *
 * Context: any. Return: NULL without memory; munmap() all of it, or parts
 */
void *aligned_map(size_t bytes, size_t align);

#endif
