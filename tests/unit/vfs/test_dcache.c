/* SPDX-License-Identifier: MIT */
/* test_dcache.c - the name cache says what it was told last, within its memory */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>

#include "base/rcu.h"
#include "vfs/dcache.h"

#define MISS DENTRY_UNKNOWN

static struct dcache *dc;

static int start(void **state)
{
	return dcache_create(1 << 20, &dc);
}

static int stop(void **state)
{
	rcu_drain();
	dcache_destroy(dc);
	return 0;
}

static ino_num look(ino_num dir, const char *name)
{
	struct dentry *d;
	ino_num ino;

	rcu_enter();
	d = dcache_find(dc, dir, name, strlen(name));
	ino = d ? dentry_ino(d) : MISS;
	rcu_leave();
	return ino;
}

static void set(ino_num dir, const char *name, ino_num ino)
{
	dcache_set(dc, dir, name, strlen(name), ino);
}

static void names_are_told_apart_by_directory_and_bytes(void **state)
{
	set(2, "a", 11);
	set(3, "a", 12);
	set(2, "ab", 13);
	set(2, "eightchr", 14);
	set(2, "eightchR", 15);
	assert_int_equal(look(2, "a"), 11);
	assert_int_equal(look(3, "a"), 12);
	assert_int_equal(look(2, "ab"), 13);
	assert_int_equal(look(2, "eightchr"), 14);
	assert_int_equal(look(2, "eightchR"), 15);
	assert_int_equal(look(4, "a"), MISS);
	assert_int_equal(look(2, "b"), MISS);
}

static void absence_is_remembered(void **state)
{
	dcache_fill(dc, 2, "none", 4, DENTRY_NEGATIVE);
	assert_int_equal(look(2, "none"), DENTRY_NEGATIVE);
	set(2, "none", 44);
	assert_int_equal(look(2, "none"), 44);
}

static void fill_does_not_replace_what_is_known(void **state)
{
	set(2, "x", 20);
	dcache_fill(dc, 2, "x", 1, 21);
	assert_int_equal(look(2, "x"), 20);
	dcache_drop(dc, 2, "x", 1);
	assert_int_equal(look(2, "x"), MISS);
	dcache_fill(dc, 2, "x", 1, 21);
	assert_int_equal(look(2, "x"), 21);
}

static void removed_directory_takes_its_names_with_it(void **state)
{
	set(50, "old", 51);
	dcache_fill(dc, 50, "gone", 4, DENTRY_NEGATIVE);
	set(60, "kept", 61);
	dcache_drop_dir(dc, 50);
	assert_int_equal(look(50, "old"), MISS);
	assert_int_equal(look(50, "gone"), MISS);
	assert_int_equal(look(60, "kept"), 61);
	set(50, "old", 52);
	assert_int_equal(look(50, "old"), 52);
}

static void memory_stays_within_the_limit(void **state)
{
	char name[32];

	for (unsigned i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "file-%u", i);
		set(2 + i % 10, name, 100 + i);
	}
	assert_true(dcache_bytes(dc) <= 1 << 20);
	assert_true(dcache_bytes(dc) > 1 << 18);
	assert_int_equal(look(2 + 99999 % 10, "file-99999"), 100 + 99999);
}

static void names_in_use_outlive_others(void **state)
{
	char name[32];

	set(2, "hot", 99);
	for (unsigned i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "cold-%u", i);
		set(3, name, 100 + i);
		if (i % 16 == 0)
			assert_int_equal(look(2, "hot"), 99);
	}
}

/* Each name belongs to one writer, who sets it to numbers of one residue; readers must never see another. */
static void *writer(void *arg)
{
	unsigned own = (unsigned)(uintptr_t)arg;
	char name[16];

	for (unsigned i = 0; i < 30000; i++) {
		snprintf(name, sizeof(name), "n%u", own + 4 * (i % 50));
		if (i % 5 == 4)
			dcache_drop(dc, 2, name, strlen(name));
		else
			set(2, name, 1000 + own + 4 * (i % 1000));
	}
	return NULL;
}

static void *reader(void *arg)
{
	char name[16];

	for (unsigned i = 0; i < 60000; i++) {
		unsigned n = i % 200;
		ino_num ino;

		snprintf(name, sizeof(name), "n%u", n);
		ino = look(2, name);
		if (ino != MISS && ino % 4 != n % 4)
			return (void *)1;
	}
	return NULL;
}

static void readers_see_only_what_was_set(void **state)
{
	pthread_t threads[4];
	void *wrong;

	pthread_create(&threads[0], NULL, writer, (void *)0);
	pthread_create(&threads[1], NULL, writer, (void *)1);
	pthread_create(&threads[2], NULL, reader, NULL);
	pthread_create(&threads[3], NULL, reader, NULL);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

int main(void)
{
#define WITH_CACHE(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		WITH_CACHE(names_are_told_apart_by_directory_and_bytes),
		WITH_CACHE(absence_is_remembered),
		WITH_CACHE(fill_does_not_replace_what_is_known),
		WITH_CACHE(removed_directory_takes_its_names_with_it),
		WITH_CACHE(memory_stays_within_the_limit),
		WITH_CACHE(names_in_use_outlive_others),
		WITH_CACHE(readers_see_only_what_was_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
