/* SPDX-License-Identifier: MIT */
/* test_seek.c - SEEK_DATA, SEEK_HOLE, fiemap */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "toy.h"

static int setup(void **state)
{
	struct toy *toy = toy_create(64 * MIB, 12);

	/* 0-3 hole, 4-7 mapped, 8-15 unwritten, 16-17 mapped, 18-31 hole */
	toy_set_blocks(toy, 4, 4, IOMAP_MAPPED, 1);
	toy_set_blocks(toy, 8, 8, IOMAP_UNWRITTEN, 1);
	toy_set_blocks(toy, 16, 2, IOMAP_MAPPED, 1);
	toy_set_size(toy, 32 * 4096);
	*state = toy;
	return 0;
}

static int teardown(void **state)
{
	toy_destroy(*state);
	return 0;
}

#define BLK(n) ((n) * 4096)

static void seek_tells_mapped_from_hole(void **state)
{
	struct toy *toy = *state;
	struct mapping *m = &toy->mapping;

	assert_int_equal(iomap_seek_data(m, 0, &toy_ops), BLK(4));
	assert_int_equal(iomap_seek_data(m, BLK(5) + 7, &toy_ops), BLK(5) + 7);
	assert_int_equal(iomap_seek_hole(m, 3, &toy_ops), 3);
	assert_int_equal(iomap_seek_hole(m, BLK(4), &toy_ops), BLK(8)); /* a clean unwritten extent is one */
	assert_int_equal(iomap_seek_data(m, BLK(8), &toy_ops), BLK(16));
	assert_int_equal(iomap_seek_data(m, BLK(18), &toy_ops), -ENXIO);
	assert_int_equal(iomap_seek_hole(m, BLK(32), &toy_ops), -ENXIO);
	assert_int_equal(iomap_seek_data(m, BLK(32), &toy_ops), -ENXIO);
}

static void end_of_file_is_a_hole(void **state)
{
	struct toy *toy = *state;

	toy_set_size(toy, BLK(6) + 9);
	assert_int_equal(iomap_seek_hole(&toy->mapping, BLK(5), &toy_ops), BLK(6) + 9);
}

static void dirty_folios_over_unwritten_extents_are_data(void **state)
{
	struct toy *toy = *state;
	struct mapping *m = &toy->mapping;

	assert_int_equal(toy_fill(toy, BLK(10), 2, 4096), 4096);
	assert_int_equal(toy_fill(toy, BLK(12) + 5, 2, 1), 1);
	assert_int_equal(iomap_seek_data(m, BLK(8), &toy_ops), BLK(10));
	assert_int_equal(iomap_seek_hole(m, BLK(10), &toy_ops), BLK(11));
	assert_int_equal(iomap_seek_data(m, BLK(11), &toy_ops), BLK(12));
	assert_int_equal(iomap_seek_hole(m, BLK(12) + 9, &toy_ops), BLK(13));
	assert_int_equal(toy_sync(toy), 0);
	assert_int_equal(iomap_seek_data(m, BLK(8), &toy_ops), BLK(10)); /* now it is written */
}

static void delayed_extents_are_data(void **state)
{
	struct toy *toy = *state;

	assert_int_equal(toy_fill(toy, BLK(20), 2, 4096), 4096);
	assert_int_equal(iomap_seek_data(&toy->mapping, BLK(18), &toy_ops), BLK(20));
	assert_int_equal(iomap_seek_hole(&toy->mapping, BLK(20), &toy_ops), BLK(21));
}

/* A dirty block in a large folio is data, its neighbours are not. */
static void large_folios_are_searched_by_block(void **state)
{
	struct toy *toy = *state;
	struct folio *f;

	toy_set_blocks(toy, 64, 64, IOMAP_UNWRITTEN, 1);
	toy_set_size(toy, BLK(128));
	assert_int_equal(mapping_get_folio(&toy->mapping, 64, 6, &f), 0);
	folio_unlock(f);
	folio_put(f);
	assert_int_equal(toy_fill(toy, BLK(100), 2, BLK(3)), BLK(3));
	assert_int_equal(iomap_seek_data(&toy->mapping, BLK(64), &toy_ops), BLK(100));
	assert_int_equal(iomap_seek_hole(&toy->mapping, BLK(100), &toy_ops), BLK(103));
}

struct found {
	struct iomap maps[16];
	int count, most;
};

static int collect(void *arg, const struct iomap *map)
{
	struct found *found = arg;

	found->maps[found->count++] = *map;
	return found->count == found->most;
}

static void fiemap_tells_all_but_holes_and_marks_the_last(void **state)
{
	struct toy *toy = *state;
	struct found found = { .most = 16 };

	assert_int_equal(iomap_fiemap(&toy->mapping, 0, BLK(32), &toy_ops, collect, &found), 0);
	assert_int_equal(found.count, 3);
	assert_int_equal(found.maps[0].pos_bytes, BLK(4));
	assert_int_equal(found.maps[0].len_bytes, BLK(4));
	assert_int_equal(found.maps[1].type, IOMAP_UNWRITTEN);
	assert_int_equal(found.maps[1].flags & IOMAP_F_LAST, 0);
	assert_int_equal(found.maps[2].pos_bytes, BLK(16));
	assert_int_equal(found.maps[2].flags & IOMAP_F_LAST, IOMAP_F_LAST);
}

static void fiemap_stops_when_the_caller_is_full(void **state)
{
	struct toy *toy = *state;
	struct found found = { .most = 1 };

	assert_int_equal(iomap_fiemap(&toy->mapping, 0, BLK(32), &toy_ops, collect, &found), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(found.maps[0].flags & IOMAP_F_LAST, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(seek_tells_mapped_from_hole),
		T(end_of_file_is_a_hole),
		T(dirty_folios_over_unwritten_extents_are_data),
		T(delayed_extents_are_data),
		T(large_folios_are_searched_by_block),
		T(fiemap_tells_all_but_holes_and_marks_the_last),
		T(fiemap_stops_when_the_caller_is_full),
	};

	return cmocka_run_group_tests_name("seek", tests, NULL, NULL);
}
