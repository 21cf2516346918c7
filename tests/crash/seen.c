/* SPDX-License-Identifier: MIT */
/* seen.c - a set of hashes in memory that processes share: open addressing, one atomic word for each */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "crash.h"

#define PROBES_MAX 64u /* a set so full forgets: what it forgets is looked at once more */

struct seen {
	uint64_t mask;
	_Atomic uint64_t slot[];
};

uint64_t hash_mix(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)(a ^ 0x9E3779B97F4A7C15ull) * (b ^ 0xD6E8FEB86659FD93ull);

	return (uint64_t)product ^ (uint64_t)(product >> 64) ^ a;
}

uint64_t hash_bytes(const void *bytes, size_t len_bytes)
{
	uint64_t lane[4] = { 1, 2, 3, 4 }, word[8];

	for (size_t at = 0; at < len_bytes; at += sizeof(word)) {
		memcpy(word, (const char *)bytes + at, sizeof(word));
		for (unsigned i = 0; i < 4; i++)
			lane[i] = hash_mix(lane[i] + word[i], word[i + 4] ^ (at + i));
	}
	return hash_mix(hash_mix(lane[0], lane[1]), hash_mix(lane[2], lane[3]));
}

struct seen *seen_create(uint64_t room)
{
	size_t bytes = sizeof(struct seen) + room * sizeof(uint64_t);
	struct seen *seen = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (seen == MAP_FAILED)
		return NULL;
	seen->mask = room - 1;
	return seen;
}

bool seen_add(struct seen *seen, uint64_t hash)
{
	hash += !hash;
	for (uint64_t i = 0; i < PROBES_MAX; i++) {
		_Atomic uint64_t *slot = &seen->slot[(hash + i) & seen->mask];
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(slot, &there, hash))
			return true;
		if (there == hash)
			return false;
	}
	return true;
}

bool seen_has(const struct seen *seen, uint64_t hash)
{
	hash += !hash;
	for (uint64_t i = 0; i < PROBES_MAX; i++) {
		uint64_t there = atomic_load(&seen->slot[(hash + i) & seen->mask]);

		if (there == hash || !there)
			return there == hash;
	}
	return false;
}
