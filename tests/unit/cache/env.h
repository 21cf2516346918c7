/* SPDX-License-Identifier: MIT */
/* env.h - what the cache's tests stand on: a memory device that can fail and remembers writes, and a cache */
#ifndef UEXT4_TESTS_CACHE_ENV_H
#define UEXT4_TESTS_CACHE_ENV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "block/fault.h"
#include "block/record.h"
#include "cache/cache.h"

#define MIB (UINT64_C(1) << 20)
#define KIB (UINT64_C(1) << 10)

struct env {
	struct counters counters;
	struct log_sink log;
	struct block_device *record; /* the top; owns fault, which owns memory */
	struct block_device *fault;
	struct block_device *memory;
	struct cache *cache;
	_Atomic int log_lines;
	_Atomic int pressed;         /* calls of meta_pressure */
	_Atomic int ticks;
	void (*on_pressure)(struct env *env);
};

/* A device of @device_bytes and a cache of @limit_bytes that writes back by itself only under pressure. */
struct env *env_create(uint64_t device_bytes, uint64_t limit_bytes);
void env_destroy(struct env *env);
uint64_t env_counter(const struct env *env, enum counter_id id);
/* What the device itself holds. */
const uint8_t *env_device_bytes(const struct env *env, uint64_t pos_bytes);
uint8_t *env_device_bytes_mut(struct env *env, uint64_t pos_bytes);
/* Bytes of writes recorded since the last record_reset(). */
uint64_t env_written_bytes(const struct env *env);
size_t env_writes(const struct env *env);
/* Fails the next @count requests of @op that touch [pos, pos + len); len 0: any. */
void env_fail(struct env *env, enum bio_op op, uint64_t pos_bytes, uint64_t len_bytes, uint64_t count);
void env_heal(struct env *env);

#endif
