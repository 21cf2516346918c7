/* SPDX-License-Identifier: MIT */
/* warm.c - free memory that the host of a virtual machine has given already */
#include <sys/mman.h>

#include "bench.h"

#define OBJECTS_BYTES (512ull << 20)

void warm_memory(uint64_t data_bytes)
{
	uint64_t bytes = OBJECTS_BYTES + data_bytes;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p != MAP_FAILED)
		munmap(p, bytes);
}
