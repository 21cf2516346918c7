/* SPDX-License-Identifier: MIT */
/* warm.c - free memory that the host of a virtual machine has given already */
#include <sys/mman.h>

#include "bench.h"

#define OBJECTS_BYTES (512ull << 20)

static void *populated(uint64_t bytes, int advice)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, advice); /* advice: pages of any size do */
	madvise(p, bytes, MADV_POPULATE_WRITE);
	return p;
}

/* The system keeps free memory by size: both sizes at once, so that neither is made of the other. */
void warm_memory(uint64_t data_bytes)
{
	uint64_t bytes = OBJECTS_BYTES + data_bytes;
	void *huge = populated(bytes, MADV_HUGEPAGE), *small = populated(bytes, MADV_NOHUGEPAGE);

	if (huge)
		munmap(huge, bytes);
	if (small)
		munmap(small, bytes);
}
