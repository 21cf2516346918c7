/* SPDX-License-Identifier: MIT */
/* aligned_map.c - maps more, and gives back what lies before and behind */
#include "base/aligned_map.h"

#include <sys/mman.h>

void *aligned_map(size_t bytes, size_t align)
{
	uint8_t *map = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (map == MAP_FAILED)
		return NULL;
	before = round_up_to((uintptr_t)map, align) - (uintptr_t)map;
	if (before)
		munmap(map, before);
	munmap(map + before + bytes, align - before);
	return map + before;
}
