/* SPDX-License-Identifier: MIT */
/* test_mapping.c - the tree of folios, errors, reclaim, throttling, the flusher */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "cache/mapping.h"
#include "env.h"

struct fixture {
	struct env *env;
	struct mapping m;
	_Atomic int grabs;
	_Atomic bool refuse;    /* grab() does */
	_Atomic uint64_t written; /* bytes that writepages cleaned */
};

/* Cleans folios at once, as a device without latency would. */
static int clean_writepages(struct mapping *m, struct writeback_control *wbc)
{
	struct fixture *fx = m->host;
	uint64_t index = wbc->start_bytes >> PAGE_SHIFT_BITS;
	struct folio *f;

	while (wbc->budget_bytes > 0 &&
	       mapping_find_tagged(m, &index, wbc->end_bytes >> PAGE_SHIFT_BITS, TAG_DIRTY, &f, 1)) {
		folio_lock(f);
		folio_wait_writeback(f);
		if (f->mapping == m && atomic_load(&f->flags) & FOLIO_DIRTY) {
			folio_begin_writeback(f);
			folio_clear_range_dirty(f, 0, folio_bytes(f));
			atomic_fetch_add(&fx->written, folio_bytes(f));
			wbc->budget_bytes -= (int64_t)folio_bytes(f);
			folio_unlock(f);
			folio_end_writeback(f);
		} else {
			folio_unlock(f);
		}
		folio_put(f);
	}
	wbc->start_bytes = index << PAGE_SHIFT_BITS;
	return 0;
}

static bool fixture_grab(struct mapping *m)
{
	struct fixture *fx = m->host;

	if (atomic_load(&fx->refuse))
		return false;
	atomic_fetch_add(&fx->grabs, 1);
	return true;
}

static void fixture_drop(struct mapping *m)
{
	struct fixture *fx = m->host;

	atomic_fetch_sub(&fx->grabs, 1);
}

static const struct mapping_ops ops = { .writepages = clean_writepages, .grab = fixture_grab, .drop = fixture_drop };

static int setup(void **state)
{
	struct fixture *fx = calloc(1, sizeof(*fx));

	fx->env = env_create(MIB, 16 * MIB);
	mapping_init(&fx->m, fx->env->cache, fx->env->record, &ops, fx, 12);
	fx->m.max_order = 12;
	atomic_store(&fx->m.size_bytes, UINT64_MAX);
	*state = fx;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fx = *state;

	atomic_store(&fx->refuse, true);
	mapping_truncate(&fx->m, 0);
	while (atomic_load(&fx->grabs))
		sched_yield();
	mapping_exit(&fx->m);
	env_destroy(fx->env);
	free(fx);
	return 0;
}

/* A folio that covers @index, unlocked and not referenced. */
static struct folio *add_folio(struct fixture *fx, uint64_t index, uint8_t order, bool dirty)
{
	struct folio *f;

	assert_int_equal(mapping_get_folio(&fx->m, index, order, &f), 0);
	assert_int_equal(folio_mark_range_uptodate(f, 0, folio_bytes(f)), 0);
	if (dirty)
		folio_mark_dirty(f);
	folio_unlock(f);
	folio_put(f);
	return f;
}

static void expect_at(struct fixture *fx, uint64_t index, const struct folio *want)
{
	struct folio *f = mapping_find(&fx->m, index);

	assert_ptr_equal(f, want);
	if (f)
		folio_put(f);
}

static void folios_are_found_by_every_page_they_cover(void **state)
{
	struct fixture *fx = *state;

	for (uint8_t order = 0; order <= 8; order++) {
		uint64_t base = UINT64_C(1) << (12 + order * 3);
		struct folio *f = add_folio(fx, base, order, false);

		assert_int_equal(f->order, order);
		expect_at(fx, base, f);
		expect_at(fx, base + (UINT64_C(1) << order) - 1, f);
		expect_at(fx, base + (UINT64_C(1) << order), NULL);
		expect_at(fx, base - 1, NULL);
	}
	expect_at(fx, UINT64_C(1) << 50, NULL);
	assert_int_equal(atomic_load(&fx->m.nr_pages), 511);
}

static void a_new_folio_is_made_to_fit_between_its_neighbours(void **state)
{
	struct fixture *fx = *state;
	struct folio *small = add_folio(fx, 5, 0, false), *f;

	f = add_folio(fx, 0, 4, false);
	assert_int_equal(f->order, 2);
	f = add_folio(fx, 7, 4, false);
	assert_int_equal(f->order, 1);
	f = add_folio(fx, 8, 12, false);
	assert_int_equal(f->order, 3);
	expect_at(fx, 5, small);
	assert_ptr_equal(add_folio(fx, 5, 9, false), small);
}

static void create_refuses_what_exists(void **state)
{
	struct fixture *fx = *state;
	struct folio *f;

	add_folio(fx, 16, 3, false);
	assert_int_equal(mapping_create_folio(&fx->m, 20, 0, &f), -EEXIST);
}

static void tags_are_found_in_order_and_skip_the_rest(void **state)
{
	struct fixture *fx = *state;
	struct folio *found[8];
	uint64_t index = 0;

	for (uint64_t i = 0; i < 4; i++)
		add_folio(fx, i * 1000003, 0, i % 2);
	add_folio(fx, 512, 5, true);
	assert_int_equal(mapping_find_tagged(&fx->m, &index, UINT64_MAX, TAG_DIRTY, found, 8), 3);
	assert_int_equal(found[0]->index, 512);
	assert_int_equal(found[1]->index, 1000003);
	assert_int_equal(found[2]->index, 3000009);
	assert_int_equal(index, 3000010);
	for (int i = 0; i < 3; i++)
		folio_put(found[i]);
	index = 520; /* inside the large one */
	assert_int_equal(mapping_find_tagged(&fx->m, &index, 521, TAG_DIRTY, found, 8), 1);
	assert_int_equal(found[0]->index, 512);
	folio_put(found[0]);
	index = 544;
	assert_int_equal(mapping_find_tagged(&fx->m, &index, 1000003, TAG_DIRTY, found, 8), 0);
}

/* The tree against an array, over random insertions and removals. */
static void tree_agrees_with_a_plain_model(void **state)
{
	struct fixture *fx = *state;
	enum { PAGES = 8192 };
	struct folio **model = calloc(PAGES, sizeof(*model));
	unsigned seed = 7;

	for (int step = 0; step < 3000; step++) {
		uint64_t index = (uint64_t)rand_r(&seed) % PAGES;

		if (rand_r(&seed) % 3) {
			struct folio *f;

			assert_int_equal(mapping_get_folio(&fx->m, index, (uint8_t)(rand_r(&seed) % 8), &f), 0);
			for (uint64_t i = f->index; i < f->index + (UINT64_C(1) << f->order); i++) {
				assert_true(!model[i] || model[i] == f);
				model[i] = f;
			}
			folio_unlock(f);
			folio_put(f);
		} else {
			uint64_t end = min_of(index + 64, (uint64_t)PAGES);

			for (uint64_t i = index; i < end;) {
				struct folio *f = model[i];
				uint64_t next = f ? f->index + (UINT64_C(1) << f->order) : i + 1;

				/* Those wholly in the range go, those it cuts stay. */
				for (uint64_t p = i; f && f->index >= index && next <= end && p < next; p++)
					model[p] = NULL;
				i = next;
			}
			mapping_punch(&fx->m, index << 12, end << 12);
		}
		/* Eviction by the limit would surprise the model. */
		if (env_counter(fx->env, CNT_CACHE_DATA_BYTES) > 12 * MIB) {
			mapping_truncate(&fx->m, 0);
			memset(model, 0, PAGES * sizeof(*model));
		}
		for (int probe = 0; probe < 20; probe++) {
			index = (uint64_t)rand_r(&seed) % PAGES;
			expect_at(fx, index, model[index]);
		}
	}
	free(model);
}

/* ---- errors ---- */

static void an_error_nobody_saw_is_told_to_the_next_opener_too(void **state)
{
	struct fixture *fx = *state;
	uint32_t early = mapping_sample_error(&fx->m), late, later;

	mapping_record_error(&fx->m, -EIO);
	late = mapping_sample_error(&fx->m);
	assert_int_equal(mapping_check_error(&fx->m, &late), -EIO);
	assert_int_equal(mapping_check_error(&fx->m, &late), 0);
	later = mapping_sample_error(&fx->m);
	assert_int_equal(mapping_check_error(&fx->m, &later), 0);
	assert_int_equal(mapping_check_error(&fx->m, &early), -EIO);
	assert_int_equal(mapping_check_error(&fx->m, &early), 0);
}

static void equal_errors_are_told_apart(void **state)
{
	struct fixture *fx = *state;
	uint32_t since = mapping_sample_error(&fx->m);

	for (int i = 0; i < 3; i++) {
		mapping_record_error(&fx->m, -ENOSPC);
		assert_int_equal(mapping_check_error(&fx->m, &since), -ENOSPC);
		assert_int_equal(mapping_check_error(&fx->m, &since), 0);
	}
	mapping_record_error(&fx->m, -EIO);
	mapping_record_error(&fx->m, -ENOSPC);
	assert_int_equal(mapping_check_error(&fx->m, &since), -ENOSPC); /* the last */
	assert_int_equal(mapping_check_error(&fx->m, &since), 0);
}

/* ---- memory ---- */

static void clean_folios_stay_within_the_limit(void **state)
{
	struct fixture *fx = *state;

	for (uint64_t i = 0; i < 64 * MIB / PAGE_BYTES; i++) {
		add_folio(fx, i, 0, false);
		assert_true(env_counter(fx->env, CNT_CACHE_DATA_BYTES) <= 16 * MIB);
	}
	assert_true(env_counter(fx->env, CNT_CACHE_EVICTIONS) >= 48 * MIB / PAGE_BYTES);
}

static void large_folios_are_evicted_too(void **state)
{
	struct fixture *fx = *state;

	for (uint64_t i = 0; i < 64; i++)
		add_folio(fx, i << 8, 8, false);
	assert_true(env_counter(fx->env, CNT_CACHE_DATA_BYTES) <= 16 * MIB);
}

static void used_folios_outlive_those_streamed_through(void **state)
{
	struct fixture *fx = *state;
	struct folio *hot = add_folio(fx, UINT64_C(1) << 30, 0, false);

	for (uint64_t i = 0; i < 64 * MIB / PAGE_BYTES; i++) {
		add_folio(fx, i, 0, false);
		if (i % 256 == 0)
			expect_at(fx, UINT64_C(1) << 30, hot);
	}
}

static void dirty_folios_are_never_evicted(void **state)
{
	struct fixture *fx = *state;
	struct folio *dirty = add_folio(fx, 7, 0, true);

	add_folio(fx, 8, 0, false);
	cache_shrink(fx->env->cache, 0);
	expect_at(fx, 7, dirty);
	expect_at(fx, 8, NULL);
	assert_int_equal(mapping_drop_clean(&fx->m, 0, UINT64_MAX), 0);
}

static void drop_clean_spares_the_referenced(void **state)
{
	struct fixture *fx = *state;
	struct folio *held;

	for (uint64_t i = 0; i < 10; i++)
		add_folio(fx, i, 0, false);
	held = mapping_find(&fx->m, 3);
	assert_int_equal(mapping_drop_clean(&fx->m, 0, 8 * PAGE_BYTES), 7);
	expect_at(fx, 3, held);
	expect_at(fx, 2, NULL);
	folio_put(held);
}

/* ---- the flusher ---- */

static void above_the_background_mark_the_flusher_writes(void **state)
{
	struct fixture *fx = *state;

	for (uint64_t i = 0; i < 2 * MIB / PAGE_BYTES; i++)
		add_folio(fx, i, 0, true);
	while (cache_dirty_bytes(fx->env->cache) > 16 * MIB / 10)
		sched_yield();
	assert_true(atomic_load(&fx->written) > 0);
}

static void throttled_writers_go_on(void **state)
{
	struct fixture *fx = *state;

	for (uint64_t i = 0; i < 64 * MIB / PAGE_BYTES; i++) {
		cache_throttle_dirty(fx->env->cache);
		assert_true(cache_dirty_bytes(fx->env->cache) <= 16 * MIB / 5 + PAGE_BYTES);
		add_folio(fx, i, 0, true);
	}
	assert_true(env_counter(fx->env, CNT_CACHE_DATA_BYTES) <= 17 * MIB);
}

static void writeback_all_cleans_and_an_owner_going_away_is_left_alone(void **state)
{
	struct fixture *fx = *state;

	add_folio(fx, 1, 0, true);
	assert_int_equal(cache_writeback_all(fx->env->cache, true), 0);
	assert_int_equal(cache_dirty_bytes(fx->env->cache), 0);
	assert_int_equal(atomic_load(&fx->grabs), 0);
	add_folio(fx, 1, 0, true);
	atomic_store(&fx->refuse, true);
	assert_int_equal(cache_writeback_all(fx->env->cache, true), 0);
	assert_int_equal(cache_dirty_bytes(fx->env->cache), PAGE_BYTES);
}

static void ticks_come(void **state)
{
	struct fixture *fx = *state;

	while (!atomic_load(&fx->env->ticks))
		sched_yield();
}

/* ---- races ---- */

#define RACE_PAGES 256u

static _Atomic bool race_stop;

/* A found folio always covers the page asked for, and its bytes are those of that page. */
static void *race_finder(void *arg)
{
	struct fixture *fx = arg;

	for (uint64_t i = 0; !atomic_load(&race_stop); i = (i + 37) % RACE_PAGES) {
		struct folio *f = mapping_find(&fx->m, i);

		if (!f)
			continue;
		assert_true(f->index <= i && i < f->index + (UINT64_C(1) << f->order));
		if (folio_range_is_uptodate_unlocked(f, 0, folio_bytes(f)))
			assert_int_equal(f->data[(i - f->index) << 12], (uint8_t)i);
		folio_put(f);
	}
	return NULL;
}

static void lookups_race_with_creation_and_eviction(void **state)
{
	struct fixture *fx = *state;
	pthread_t threads[2];

	atomic_store(&race_stop, false);
	for (int i = 0; i < 2; i++)
		assert_int_equal(thread_start("finder", race_finder, fx, &threads[i]), 0);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t index = (uint64_t)(i * 101) % RACE_PAGES;
		struct folio *f;

		assert_int_equal(mapping_get_folio(&fx->m, index, (uint8_t)(i % 4), &f), 0);
		if (!folio_range_is_uptodate(f, 0, folio_bytes(f))) {
			for (uint64_t p = 0; p < UINT64_C(1) << f->order; p++)
				memset(f->data + (p << 12), (uint8_t)(f->index + p), PAGE_BYTES);
			assert_int_equal(folio_mark_range_uptodate(f, 0, folio_bytes(f)), 0);
		}
		folio_unlock(f);
		folio_put(f);
		if (i % 3 == 0)
			mapping_drop_clean(&fx->m, (index / 2) << 12, index << 12);
		if (i % 1000 == 0)
			mapping_truncate(&fx->m, 0);
	}
	atomic_store(&race_stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(folios_are_found_by_every_page_they_cover),
		T(a_new_folio_is_made_to_fit_between_its_neighbours),
		T(create_refuses_what_exists),
		T(tags_are_found_in_order_and_skip_the_rest),
		T(tree_agrees_with_a_plain_model),
		T(an_error_nobody_saw_is_told_to_the_next_opener_too),
		T(equal_errors_are_told_apart),
		T(clean_folios_stay_within_the_limit),
		T(large_folios_are_evicted_too),
		T(used_folios_outlive_those_streamed_through),
		T(dirty_folios_are_never_evicted),
		T(drop_clean_spares_the_referenced),
		T(above_the_background_mark_the_flusher_writes),
		T(throttled_writers_go_on),
		T(writeback_all_cleans_and_an_owner_going_away_is_left_alone),
		T(ticks_come),
		T(lookups_race_with_creation_and_eviction),
	};

	return cmocka_run_group_tests_name("mapping", tests, NULL, NULL);
}
