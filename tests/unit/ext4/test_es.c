/* SPDX-License-Identifier: MIT */
/* test_es.c - the extent status map against an array of blocks */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rcu.h"
#include "base/thread.h"
#include "ext4/es.h"
#include "ext4/inode.h"

#define MODEL_BLKS 4096u

struct env {
	struct ext4_fs fs;
	struct inode inode;
	struct es_extent model[MODEL_BLKS]; /* one per block; len 0: unknown */
};

static struct env *env_create(void)
{
	struct env *env = calloc(1, sizeof(*env));

	assert_non_null(env);
	env->fs.counters = aligned_alloc(64, round_up_to(sizeof(struct counters), 64));
	memset(env->fs.counters, 0, sizeof(struct counters));
	env->inode.fs = &env->fs;
	es_init(&env->inode.es);
	return env;
}

static void env_destroy(struct env *env)
{
	es_exit(&env->inode);
	assert_int_equal(counter_read(env->fs.counters, CNT_ES_ENTRIES), 0);
	assert_int_equal(counter_read(env->fs.counters, CNT_ES_BYTES), 0);
	rcu_drain();
	free(env->fs.counters);
	free(env);
}

static void model_set(struct env *env, const struct es_extent *es, bool known)
{
	uint32_t i;

	for (i = 0; i < es->len; i++) {
		struct es_extent *m = &env->model[es->lblk + i];

		*m = *es;
		m->pblk = es->status == ES_WRITTEN || es->status == ES_UNWRITTEN ? es->pblk + i : 0;
		m->len = known;
	}
}

/* Every block answers as the model says, and neighbours that could be one entry are one. */
static void check_all(struct env *env)
{
	struct es_extent es;
	uint32_t i, entries = 0;

	for (i = 0; i < MODEL_BLKS; i++) {
		const struct es_extent *m = &env->model[i], *prev = i ? m - 1 : NULL;
		bool found = es_lookup(&env->inode, i, &es);

		assert_int_equal(found, m->len != 0);
		if (!found)
			continue;
		assert_int_equal(es.status, m->status);
		if (m->pblk)
			assert_int_equal(es.pblk + (i - es.lblk), m->pblk);
		if (prev && prev->len && prev->status == m->status && (!m->pblk || prev->pblk + 1 == m->pblk))
			assert_true(es.lblk < i);
		else
			entries++;
	}
	assert_int_equal(counter_read(env->fs.counters, CNT_ES_ENTRIES), entries);
}

static void random_es(unsigned *seed, struct es_extent *es)
{
	es->lblk = (lblk_t)rand_r(seed) % MODEL_BLKS;
	es->len = min_of((uint32_t)rand_r(seed) % 20 + 1, MODEL_BLKS - es->lblk);
	es->status = (enum es_status)(rand_r(seed) % 4 + 1);
	es->pblk = es->status <= ES_UNWRITTEN ? es->lblk + (rand_r(seed) % 3) * 100000u + 1000 : 0;
}

static void random_operations_agree_with_the_model(void **state)
{
	unsigned seed = 7, op, i;

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		struct env *env = env_create();

		for (op = 0; op < 6000; op++) {
			struct es_extent es;
			uint32_t delayed = 0;

			random_es(&seed, &es);
			for (i = 0; i < es.len; i++)
				delayed += env->model[es.lblk + i].len && env->model[es.lblk + i].status == ES_DELAYED;
			if (rand_r(&seed) % 4) {
				assert_int_equal(es_set(&env->inode, &es), delayed);
				model_set(env, &es, true);
			} else {
				assert_int_equal(es_remove(&env->inode, es.lblk, es_end(&es)), delayed);
				model_set(env, &es, false);
			}
			if (op % 500 == 0)
				check_all(env);
		}
		check_all(env);
		es_remove(&env->inode, 0, UINT32_MAX);
		env_destroy(env);
	}
}

/* A hole read from the disk may hold delayed blocks: they stay. */
static void caching_a_hole_keeps_delayed_blocks(void **state)
{
	struct env *env = env_create();
	struct es_extent delayed = { 100, 10, 0, ES_DELAYED }, hole = { 0, 1000, 0, ES_HOLE };

	(void)state;
	es_set(&env->inode, &delayed);
	es_cache(&env->inode, &hole);
	model_set(env, &hole, true);
	model_set(env, &delayed, true);
	check_all(env);
	assert_int_equal(env->inode.reserved_blocks, 10);
	assert_int_equal(es_remove(&env->inode, 0, 105), 5);
	assert_int_equal(es_remove(&env->inode, 0, UINT32_MAX), 5);
	env_destroy(env);
}

static void appending_makes_one_entry(void **state)
{
	struct env *env = env_create();
	struct es_extent es = { 0, 1, 5000, ES_WRITTEN };

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		es_set(&env->inode, &es);
		es.lblk++;
		es.pblk++;
	}
	assert_int_equal(counter_read(env->fs.counters, CNT_ES_ENTRIES), 1);
	assert_true(es_lookup(&env->inode, 99999, &es));
	assert_int_equal(es.lblk, 0);
	assert_int_equal(es.len, 100000);
	env_destroy(env);
}

/* DESIGN.md: at most half of Linux's 40 bytes per extent. */
static void many_extents_take_at_most_twenty_bytes_each(void **state)
{
	struct env *env = env_create();
	uint32_t n = 50000, i;

	(void)state;
	for (i = 0; i < n; i++) { /* scattered order */
		uint32_t at = (uint32_t)((uint64_t)i * 7919 % n);

		es_set(&env->inode, &(struct es_extent){ at * 2, 1, at * 3 + 100, ES_WRITTEN });
	}
	assert_int_equal(counter_read(env->fs.counters, CNT_ES_ENTRIES), n);
	assert_true(counter_read(env->fs.counters, CNT_ES_BYTES) <= n * 20);
	env_destroy(env);
}

static void the_largest_range_fits(void **state)
{
	struct env *env = env_create();
	struct es_extent es = { 0, UINT32_MAX, 0, ES_HOLE };

	(void)state;
	es_set(&env->inode, &es);
	es_set(&env->inode, &(struct es_extent){ UINT32_MAX - 1, 1, 9, ES_WRITTEN });
	assert_true(es_lookup(&env->inode, UINT32_MAX - 1, &es));
	assert_int_equal(es.pblk, 9);
	assert_true(es_lookup(&env->inode, UINT32_MAX - 2, &es));
	assert_int_equal(es.status, ES_HOLE);
	assert_false(es_lookup(&env->inode, UINT32_MAX, &es));
	env_destroy(env);
}

/* ---- the shrinker ---- */

static void shrinking_keeps_delayed_and_recently_used(void **state)
{
	struct env *env = env_create();
	struct inode *other = calloc(1, sizeof(*other));
	struct es_extent es;
	uint32_t i;

	(void)state;
	assert_int_equal(es_shrinker_init(&env->fs, UINT64_C(1) << 30), 0);
	other->fs = &env->fs;
	es_init(&other->es);
	for (i = 0; i < 1000; i++) {
		es_set(&env->inode, &(struct es_extent){ i * 2, 1, i * 3 + 9, ES_WRITTEN });
		es_set(other, &(struct es_extent){ i * 2, 1, i * 3 + 9, i % 10 ? ES_WRITTEN : ES_DELAYED });
	}
	assert_true(es_lookup(&env->inode, 0, &es)); /* recently used */
	assert_int_equal(es_shrink(&env->fs, counter_read(env->fs.counters, CNT_ES_BYTES) - 1), 900);
	assert_true(es_lookup(&env->inode, 2, &es));
	assert_true(es_lookup(other, 20, &es));
	assert_int_equal(es.status, ES_DELAYED);
	assert_false(es_lookup(other, 22, &es));
	assert_int_equal(other->reserved_blocks, 100);
	es_shrink(&env->fs, 0);
	assert_int_equal(counter_read(env->fs.counters, CNT_ES_ENTRIES), 100);
	assert_int_equal(es_remove(other, 0, UINT32_MAX), 100);
	es_exit(other);
	es_exit(&env->inode);
	es_shrinker_exit(&env->fs);
	rcu_drain();
	free(other);
	free(env->fs.counters);
	free(env);
}

static void the_limit_bounds_memory(void **state)
{
	struct env *env = env_create();
	struct inode *many = calloc(64, sizeof(*many));
	uint32_t i, j;

	(void)state;
	assert_int_equal(es_shrinker_init(&env->fs, 256 * 1024), 0);
	for (i = 0; i < 64; i++) {
		many[i].fs = &env->fs;
		es_init(&many[i].es);
		for (j = 0; j < 2000; j++)
			es_set(&many[i], &(struct es_extent){ j * 2, 1, j * 3 + 9, ES_WRITTEN });
		assert_true(counter_read(env->fs.counters, CNT_ES_BYTES) <= 256 * 1024 + 8192);
	}
	assert_true(counter_read(env->fs.counters, CNT_ES_SHRUNK) > 0);
	for (i = 0; i < 64; i++)
		es_exit(&many[i]);
	es_shrinker_exit(&env->fs);
	free(many);
	env_destroy(env);
}

/* ---- readers without a lock ---- */

struct race {
	struct env *env;
	_Atomic bool stop;
	_Atomic uint64_t wrong, looks;
};

/* Blocks answer one of the two states that the writer switches between, never a mixture. */
static void *reader(void *arg)
{
	struct race *r = arg;
	unsigned seed = 3;

	while (!atomic_load(&r->stop)) {
		lblk_t lblk = (lblk_t)rand_r(&seed) % 20000;
		struct es_extent es;

		if (es_lookup(&r->env->inode, lblk, &es) && es.pblk + (lblk - es.lblk) != lblk + 100000 &&
		    es.pblk + (lblk - es.lblk) != lblk + 300000)
			atomic_fetch_add(&r->wrong, 1);
		atomic_fetch_add(&r->looks, 1);
	}
	return NULL;
}

static void lookups_race_with_changes(void **state)
{
	struct env *env = env_create();
	struct race r = { .env = env };
	unsigned seed = 11, i;
	pthread_t thread;

	(void)state;
	assert_int_equal(thread_start("reader", reader, &r, &thread), 0);
	for (i = 0; i < 200000; i++) {
		lblk_t lblk = (lblk_t)rand_r(&seed) % 19990;
		uint32_t len = (uint32_t)rand_r(&seed) % 9 + 1;

		if (i % 5 == 4)
			es_remove(&env->inode, lblk, lblk + len * 10);
		else
			es_set(&env->inode, &(struct es_extent){ lblk, len, lblk + (i & 1 ? 100000 : 300000), ES_WRITTEN });
	}
	atomic_store(&r.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&r.wrong), 0);
	assert_true(atomic_load(&r.looks) > 0);
	env_destroy(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_agree_with_the_model),
		cmocka_unit_test(caching_a_hole_keeps_delayed_blocks),
		cmocka_unit_test(appending_makes_one_entry),
		cmocka_unit_test(many_extents_take_at_most_twenty_bytes_each),
		cmocka_unit_test(the_largest_range_fits),
		cmocka_unit_test(shrinking_keeps_delayed_and_recently_used),
		cmocka_unit_test(the_limit_bounds_memory),
		cmocka_unit_test(lookups_race_with_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
