/* SPDX-License-Identifier: MIT */
/* random.h - a small repeatable generator for the test devices; not for secrets */
#ifndef UEXT4_BLOCK_RANDOM_H
#define UEXT4_BLOCK_RANDOM_H

#include "base/types.h"

/* A Weyl sequence whose values a finaliser scrambles: any seed is good, and equal seeds repeat a run. */
struct random {
	uint64_t state;
};

static inline struct random random_make(uint64_t seed)
{
	return (struct random){ seed };
}

static inline uint64_t random_next(struct random *rnd)
{
	uint64_t v = rnd->state += UINT64_C(0x9E3779B97F4A7C15); /* 2^64 / golden ratio */

	v = (v ^ (v >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
	v = (v ^ (v >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
	return v ^ (v >> 32);
}

static inline uint64_t random_below(struct random *rnd, uint64_t limit)
{
	return random_next(rnd) % limit;
}

#endif
