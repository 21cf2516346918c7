/* SPDX-License-Identifier: MIT */
/* image_memory.c - see image_memory.h */
#include "image_memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN_BYTES (UINT64_C(2) << 20) /* that of a huge page; the 64 KiB promised are in it */
#define PAGE_BYTES  UINT64_C(4096)
#define REGIONS_MAX 64u

struct region {
	uint8_t *map;      /* as mmap() gave it; NULL: none */
	size_t map_bytes;
	uint8_t *start;
	size_t bytes;      /* whole pages; the guard is behind them */
	bool used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct region regions[REGIONS_MAX];

static void give_up(const char *why)
{
	fprintf(stderr, "image_memory: %s\n", why);
	exit(1);
}

static void map_region(struct region *region, size_t bytes)
{
	size_t map_bytes = ALIGN_BYTES + bytes + PAGE_BYTES;
	uint8_t *map = mmap(NULL, map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *start;

	if (map == MAP_FAILED)
		give_up("no address space");
	start = map + (ALIGN_BYTES - (uintptr_t)map % ALIGN_BYTES) % ALIGN_BYTES;
	if (mprotect(start, bytes, PROT_READ | PROT_WRITE))
		give_up("no memory");
	madvise(start, bytes, MADV_HUGEPAGE); /* advice: a kernel without them does as well */
	*region = (struct region){ .map = map, .map_bytes = map_bytes, .start = start, .bytes = bytes };
}

/* Freed memory of that size, else fresh memory, if need be in the place of some that was freed; under the lock. */
static struct region *find_region(size_t bytes)
{
	struct region *place = NULL;

	for (unsigned i = 0; i < REGIONS_MAX; i++) {
		if (regions[i].used)
			continue;
		if (regions[i].bytes == bytes)
			return &regions[i];
		if (!place || !regions[i].map)
			place = &regions[i];
	}
	if (!place)
		give_up("too many images at once");
	if (place->map)
		munmap(place->map, place->map_bytes);
	map_region(place, bytes);
	return place;
}

uint8_t *image_memory(size_t bytes)
{
	struct region *region;

	bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	pthread_mutex_lock(&lock);
	region = find_region(bytes);
	region->used = true;
	pthread_mutex_unlock(&lock);
	return region->start;
}

uint8_t *image_memory_copy(const uint8_t *from, size_t bytes)
{
	return memcpy(image_memory(bytes), from, bytes);
}

void image_memory_free(uint8_t *image)
{
	unsigned i;

	if (!image)
		return;
	pthread_mutex_lock(&lock);
	for (i = 0; i < REGIONS_MAX && !(regions[i].used && regions[i].start == image); i++)
		;
	if (i == REGIONS_MAX)
		give_up("freed twice, or not an image");
	regions[i].used = false;
	pthread_mutex_unlock(&lock);
}
