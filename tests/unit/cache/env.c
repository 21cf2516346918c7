/* SPDX-License-Identifier: MIT */
#include "env.h"

#include <errno.h>
#include <stdlib.h>

static void env_log(void *arg, int level, const char *text)
{
	struct env *env = arg;

	atomic_fetch_add(&env->log_lines, 1);
}

static void env_pressure(void *arg)
{
	struct env *env = arg;

	atomic_fetch_add(&env->pressed, 1);
	if (env->on_pressure)
		env->on_pressure(env);
}

static void env_tick(void *arg)
{
	struct env *env = arg;

	atomic_fetch_add(&env->ticks, 1);
}

struct env *env_create(uint64_t device_bytes, uint64_t limit_bytes)
{
	struct env *env = aligned_alloc(64, round_up_to(sizeof(*env), 64));
	struct cache_options options = {
		.limit_bytes = limit_bytes,
		.dirty_expire_ns = UINT64_MAX,
		.counters = &env->counters,
		.log = &env->log,
		.meta_pressure = env_pressure,
		.tick = env_tick,
		.arg = env,
	};

	assert_non_null(env);
	*env = (struct env){ .log = { env_log, env } };
	assert_int_equal(block_open_memory(device_bytes, NULL, &env->memory), 0);
	assert_int_equal(block_open_fault(env->memory, 1, &env->fault), 0);
	assert_int_equal(block_open_record(env->fault, &env->record), 0);
	env->record->counters = &env->counters;
	assert_int_equal(cache_create(&options, &env->cache), 0);
	return env;
}

void env_destroy(struct env *env)
{
	cache_destroy(env->cache);
	/* Only now: until its threads have ended, reclaim may hold the last reference of a folio. */
	assert_int_equal(env_counter(env, CNT_CACHE_DATA_BYTES), 0);
	assert_int_equal(block_close(env->record), 0);
	free(env);
}

uint64_t env_counter(const struct env *env, enum counter_id id)
{
	return counter_read(&env->counters, id);
}

uint8_t *env_device_bytes_mut(struct env *env, uint64_t pos_bytes)
{
	void *addr;

	assert_int_equal(env->memory->ops->direct_access(env->memory, pos_bytes, 1, &addr), 0);
	return addr;
}

const uint8_t *env_device_bytes(const struct env *env, uint64_t pos_bytes)
{
	return env_device_bytes_mut((struct env *)env, pos_bytes);
}

uint64_t env_written_bytes(const struct env *env)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < record_count(env->record); i++) {
		const struct record_entry *entry = record_get(env->record, i);

		if (!entry->is_mark && entry->op == BIO_WRITE)
			bytes += entry->len_bytes;
	}
	return bytes;
}

size_t env_writes(const struct env *env)
{
	size_t count = 0;

	for (size_t i = 0; i < record_count(env->record); i++)
		count += !record_get(env->record, i)->is_mark && record_get(env->record, i)->op == BIO_WRITE;
	return count;
}

void env_fail(struct env *env, enum bio_op op, uint64_t pos_bytes, uint64_t len_bytes, uint64_t count)
{
	struct fault_rule rule = {
		.ops = FAULT_OP(op), .start_bytes = pos_bytes, .len_bytes = len_bytes,
		.nth = 1, .count = count, .action = FAULT_FAIL, .err = -EIO,
	};

	assert_int_equal(fault_add_rule(env->fault, &rule), 0);
}

void env_heal(struct env *env)
{
	fault_clear_rules(env->fault);
}
