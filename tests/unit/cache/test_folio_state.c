/* SPDX-License-Identifier: MIT */
/*
 * test_folio_state.c - sub-folio uptodate and dirty state
 *
 * Method: besides the rules one by one, a random walk compares the accessors with plain arrays, for every
 * size class: one block, inline maps, allocated maps with and without a summary of several words.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "cache/mapping.h"

static bool calloc_fails;

/* Linked with --wrap=calloc: state cannot be had. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	return calloc_fails ? NULL : __real_calloc(count, size);
}

static int no_writepages(struct mapping *m, struct writeback_control *wbc)
{
	return 0;
}

static bool grab_nothing(struct mapping *m)
{
	return true;
}

static void drop_nothing(struct mapping *m)
{
}

static const struct mapping_ops ops = { .writepages = no_writepages, .grab = grab_nothing, .drop = drop_nothing };

struct fixture {
	struct env *env;
	struct mapping m;
	struct folio *f; /* locked */
};

static struct fixture *fixture_create(unsigned block_bits, uint8_t order)
{
	struct fixture *fx = calloc(1, sizeof(*fx));

	fx->env = env_create(MIB, 512 * MIB);
	mapping_init(&fx->m, fx->env->cache, fx->env->record, &ops, fx, (uint8_t)block_bits);
	fx->m.max_order = FOLIO_MAX_ORDER;
	atomic_store(&fx->m.size_bytes, UINT64_C(1) << 40);
	assert_int_equal(mapping_get_folio(&fx->m, 0, order, &fx->f), 0);
	assert_int_equal(fx->f->order, order);
	return fx;
}

static void fixture_destroy(struct fixture *fx)
{
	folio_unlock(fx->f);
	folio_put(fx->f);
	mapping_truncate(&fx->m, 0);
	mapping_exit(&fx->m);
	assert_int_equal(cache_dirty_bytes(fx->env->cache), 0);
	env_destroy(fx->env);
	free(fx);
}

/* S4: it costs nothing until it is needed. */
static void whole_folios_have_no_state(void **state)
{
	struct fixture *fx = fixture_create(12, 8);
	struct folio *f = fx->f;

	assert_int_equal(folio_mark_range_uptodate(f, 0, folio_bytes(f)), 0);
	assert_int_equal(folio_mark_range_dirty(f, 0, folio_bytes(f)), 0);
	folio_clear_range_dirty(f, 0, folio_bytes(f));
	folio_mark_dirty(f);
	folio_clear_range_dirty(f, 0, folio_bytes(f));
	assert_int_equal(env_counter(fx->env, CNT_FOLIO_STATES_ALLOCATED), 0);
	assert_int_equal(env_counter(fx->env, CNT_FOLIO_STATES_INLINE), 0);
	fixture_destroy(fx);
}

static void up_to_32_blocks_allocate_nothing(void **state)
{
	struct fixture *fx = fixture_create(12, 5);
	struct folio *f = fx->f;

	assert_int_equal(folio_mark_range_uptodate(f, 4096, 4096), 0);
	assert_int_equal(folio_mark_range_dirty(f, 4096, 4096), 0);
	assert_int_equal(env_counter(fx->env, CNT_FOLIO_STATES_INLINE), 1);
	assert_int_equal(env_counter(fx->env, CNT_FOLIO_STATES_ALLOCATED), 0);
	fixture_destroy(fx);
}

static void state_is_freed_when_it_says_nothing_more(void **state)
{
	struct fixture *fx = fixture_create(12, 6);
	struct folio *f = fx->f;

	assert_int_equal(folio_mark_range_uptodate(f, 0, 4096), 0);
	assert_non_null(atomic_load(&f->state));
	assert_int_equal(folio_mark_range_uptodate(f, 4096, folio_bytes(f) - 4096), 0);
	assert_null(atomic_load(&f->state));
	assert_int_equal(folio_mark_range_dirty(f, 0, 4096), 0);
	assert_non_null(atomic_load(&f->state));
	assert_int_equal(folio_mark_range_dirty(f, 4096, folio_bytes(f) - 4096), 0);
	assert_null(atomic_load(&f->state)); /* all dirty */
	folio_clear_range_dirty(f, 8192, 4096);
	assert_non_null(atomic_load(&f->state));
	folio_clear_range_dirty(f, 0, folio_bytes(f));
	assert_null(atomic_load(&f->state));
	fixture_destroy(fx);
}

/* Uptodate and clean are claimed for whole blocks only; dirty for every block touched. */
static void rounding_errs_on_the_safe_side(void **state)
{
	struct fixture *fx = fixture_create(12, 3);
	struct folio *f = fx->f;
	size_t off = 0, len;

	assert_int_equal(folio_mark_range_uptodate(f, 100, 3 * 4096), 0);
	assert_false(folio_range_is_uptodate(f, 0, 1));
	assert_true(folio_range_is_uptodate(f, 4096, 2 * 4096));
	assert_false(folio_range_is_uptodate(f, 4096, 2 * 4096 + 1));
	assert_int_equal(folio_mark_range_uptodate(f, 0, folio_bytes(f)), 0);
	assert_int_equal(folio_mark_range_dirty(f, 5000, 4096), 0);
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off, 4096);
	assert_int_equal(len, 2 * 4096);
	folio_clear_range_dirty(f, 4096 + 1, 2 * 4096 - 1);
	off = 0;
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off, 4096);
	assert_int_equal(len, 4096);
	fixture_destroy(fx);
}

static void a_folio_dirtied_as_a_whole_has_all_blocks_dirty(void **state)
{
	struct fixture *fx = fixture_create(10, 4);
	struct folio *f = fx->f;
	size_t off = 0, len;

	assert_int_equal(folio_mark_range_uptodate(f, 0, folio_bytes(f)), 0);
	assert_int_equal(folio_mark_range_dirty(f, 1024, 1024), 0);
	folio_mark_dirty(f);
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off, 0);
	assert_int_equal(len, folio_bytes(f));
	assert_int_equal(cache_dirty_bytes(fx->env->cache), folio_bytes(f));
	fixture_destroy(fx);
}

/* S2: state that cannot be had, or is lost, means all of it is dirty, never none. */
static void no_memory_for_state_means_all_dirty(void **state)
{
	struct fixture *fx = fixture_create(10, 6);
	struct folio *f = fx->f;
	size_t off = 0, len;

	assert_int_equal(folio_mark_range_uptodate(f, 0, folio_bytes(f)), 0);
	calloc_fails = true;
	assert_int_equal(folio_mark_range_dirty(f, 4096, 1024), 0);
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(len, folio_bytes(f));
	folio_clear_range_dirty(f, 0, 1024); /* a partial truncate */
	off = 0;
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(len, folio_bytes(f));
	calloc_fails = false;
	folio_clear_range_dirty(f, 0, 1024);
	off = 0;
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off, 1024);
	assert_int_equal(len, folio_bytes(f) - 1024);
	fixture_destroy(fx);
}

/* S3: without state a folio that is not wholly uptodate may not become dirty as a whole. */
static void no_memory_for_state_fails_when_blocks_are_missing(void **state)
{
	struct fixture *fx = fixture_create(10, 6);
	struct folio *f = fx->f;
	size_t off = 0, len;

	calloc_fails = true;
	assert_int_equal(folio_mark_range_uptodate(f, 0, 1024), -ENOMEM);
	calloc_fails = false;
	assert_false(folio_next_dirty_range(f, &off, &len));
	assert_false(folio_range_is_uptodate(f, 0, 1024));
	fixture_destroy(fx);
}

static void partial_truncate_cleans_whole_blocks_past_it(void **state)
{
	struct fixture *fx = fixture_create(10, 6);
	struct folio *f = fx->f;
	size_t off = 0, len;

	memset(f->data, 0xaa, folio_bytes(f));
	assert_int_equal(folio_mark_range_uptodate(f, 0, folio_bytes(f)), 0);
	folio_mark_dirty(f);
	folio_unlock(f);
	mapping_truncate(&fx->m, 3 * 1024 + 7);
	folio_lock(f);
	assert_ptr_equal(f->mapping, &fx->m);
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off, 0);
	assert_int_equal(len, 4 * 1024);
	assert_int_equal(f->data[3 * 1024 + 6], 0xaa);
	assert_int_equal(f->data[3 * 1024 + 7], 0);
	assert_int_equal(f->data[folio_bytes(f) - 1], 0);
	assert_int_equal(cache_dirty_bytes(fx->env->cache), 4 * 1024);
	fixture_destroy(fx);
}

/* Finding runs in 16 MiB of 1 KiB blocks: the right answer at word and summary borders. */
static void runs_are_found_across_words_and_summaries(void **state)
{
	struct fixture *fx = fixture_create(10, FOLIO_MAX_ORDER);
	struct folio *f = fx->f;
	static const unsigned starts[] = { 0, 63, 64, 4095, 4096, 8191, 16383 };
	size_t off = 0, len;

	assert_int_equal(folio_mark_range_uptodate(f, 0, folio_bytes(f)), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(starts); i++)
		assert_int_equal(folio_mark_range_dirty(f, starts[i] * KIB, KIB), 0);
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off / KIB, 0);
	off += len;
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off / KIB, 63);
	assert_int_equal(len / KIB, 2);
	off += len;
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off / KIB, 4095);
	assert_int_equal(len / KIB, 2);
	off += len;
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off / KIB, 8191);
	off += len;
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(off / KIB, 16383);
	off += len;
	assert_false(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(folio_mark_range_dirty(f, KIB, 16381 * KIB), 0);
	off = 0;
	folio_clear_range_dirty(f, 16382 * KIB, KIB);
	assert_true(folio_next_dirty_range(f, &off, &len));
	assert_int_equal(len / KIB, 16382);
	fixture_destroy(fx);
}

/* ---- against a model ---- */

struct model {
	bool uptodate[16384], dirty[16384];
	unsigned blocks;
};

static void model_check(const struct folio *f, const struct model *model, unsigned bits)
{
	size_t off = 0, len;
	unsigned at = 0, dirty = 0;

	for (unsigned i = 0; i < model->blocks; i++) {
		assert_int_equal(folio_range_is_uptodate(f, (size_t)i << bits, 1), model->uptodate[i]);
		dirty += model->dirty[i];
	}
	while (folio_next_dirty_range(f, &off, &len)) {
		for (; at < off >> bits; at++)
			assert_false(model->dirty[at]);
		for (; at < (off + len) >> bits; at++)
			assert_true(model->dirty[at]);
		off += len;
	}
	for (; at < model->blocks; at++)
		assert_false(model->dirty[at]);
	assert_int_equal(atomic_load(&f->mapping->dirty_bytes), (uint64_t)dirty << bits);
}

static void model_step(struct folio *f, struct model *model, unsigned bits, unsigned *seed)
{
	unsigned first = (unsigned)rand_r(seed) % model->blocks;
	unsigned most = rand_r(seed) % 4 ? min_of(model->blocks - first, 5u) : model->blocks - first;
	unsigned count = 1 + (unsigned)rand_r(seed) % most;
	bool all = true;

	switch (rand_r(seed) % 3) {
	case 0:
		memset(model->uptodate + first, true, count);
		assert_int_equal(folio_mark_range_uptodate(f, (size_t)first << bits, (size_t)count << bits), 0);
		break;
	case 1:
		for (unsigned i = first; i < first + count; i++)
			all = all && model->uptodate[i];
		if (!all)
			break;
		memset(model->dirty + first, true, count);
		assert_int_equal(folio_mark_range_dirty(f, (size_t)first << bits, (size_t)count << bits), 0);
		break;
	default:
		memset(model->dirty + first, false, count);
		folio_clear_range_dirty(f, (size_t)first << bits, (size_t)count << bits);
	}
}

static void random_walk(unsigned bits, uint8_t order, unsigned steps)
{
	struct fixture *fx = fixture_create(bits, order);
	struct model *model = calloc(1, sizeof(*model));
	unsigned seed = bits * 100u + order;

	model->blocks = (unsigned)(folio_bytes(fx->f) >> bits);
	for (unsigned i = 0; i < steps; i++) {
		model_step(fx->f, model, bits, &seed);
		model_check(fx->f, model, bits);
	}
	free(model);
	fixture_destroy(fx);
}

static void state_agrees_with_a_plain_model(void **state)
{
	random_walk(12, 0, 100);
	random_walk(10, 0, 500);
	random_walk(12, 3, 500);
	random_walk(10, 3, 1000);  /* 32 blocks, the most that fit inline */
	random_walk(10, 4, 1000);  /* 64, one word */
	random_walk(12, 8, 1000);
	random_walk(10, 11, 200);  /* 8192 blocks, summaries of two words */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_folios_have_no_state),
		cmocka_unit_test(up_to_32_blocks_allocate_nothing),
		cmocka_unit_test(state_is_freed_when_it_says_nothing_more),
		cmocka_unit_test(rounding_errs_on_the_safe_side),
		cmocka_unit_test(a_folio_dirtied_as_a_whole_has_all_blocks_dirty),
		cmocka_unit_test(no_memory_for_state_means_all_dirty),
		cmocka_unit_test(no_memory_for_state_fails_when_blocks_are_missing),
		cmocka_unit_test(partial_truncate_cleans_whole_blocks_past_it),
		cmocka_unit_test(runs_are_found_across_words_and_summaries),
		cmocka_unit_test(state_agrees_with_a_plain_model),
	};

	return cmocka_run_group_tests_name("folio_state", tests, NULL, NULL);
}
