/* SPDX-License-Identifier: MIT */
/* test_xattr_region.c - entries and values in one area: kept in order, packed, and never trusted */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/xattr_private.h"
#include "unit.h"

#define BLOCK 4096u
#define FIRST 32u

static uint8_t area[2][BLOCK] __attribute__((aligned(8)));
static unsigned current;

static struct xattr_region region(void)
{
	return (struct xattr_region){ .base = area[current], .first = FIRST, .size = BLOCK, .is_block = true };
}

static void area_reset(void)
{
	memset(area, 0, sizeof(area));
	current = 0;
}

static int area_set(uint8_t index, const char *name, const void *value, size_t len)
{
	struct xattr_name n = { index, (uint8_t)strlen(name), name };
	struct xattr_value v = { value, len };
	struct xattr_region r = region();
	uint32_t count;
	int err = xattr_region_rebuild(&r, &n, &v, area[!current], &count);

	if (!err)
		current = !current;
	return err;
}

static const struct ext4_xattr_entry *area_find(uint8_t index, const char *name)
{
	struct xattr_name n = { index, (uint8_t)strlen(name), name };
	struct xattr_region r = region();

	return xattr_region_find(&r, &n);
}

static void assert_value(uint8_t index, const char *name, const void *value, size_t len)
{
	const struct ext4_xattr_entry *e = area_find(index, name);
	struct xattr_region r = region();

	assert_non_null(e);
	assert_int_equal(le32_get(e->e_value_size), len);
	assert_memory_equal(xattr_region_value(&r, e), value, len);
}

static void assert_sound(void)
{
	struct xattr_region r = region();

	assert_null(xattr_region_verify(&r));
}

static void a_random_walk_agrees_with_a_model(void **state)
{
	static struct { uint8_t value[200]; int len; } model[40];
	char name[32];
	unsigned step;

	area_reset();
	memset(model, 0xff, sizeof(model)); /* len -1: absent */
	srand(5);
	for (step = 0; step < 20000; step++) {
		unsigned i = (unsigned)rand() % 40;
		size_t len = (size_t)rand() % 200, j;
		uint8_t value[200];
		int err;

		for (j = 0; j < len; j++)
			value[j] = (uint8_t)rand();
		snprintf(name, sizeof(name), "n%u", i * i * i);
		if (rand() % 3 == 0) {
			assert_int_equal(area_set(1, name, NULL, 0), 0);
			model[i].len = -1;
		} else {
			err = area_set(1, name, value, len);
			if (!err) {
				memcpy(model[i].value, value, len);
				model[i].len = (int)len;
			} else {
				assert_int_equal(err, -ENOSPC);
			}
		}
		assert_sound();
		if (model[i].len < 0)
			assert_null(area_find(1, name));
		else
			assert_value(1, name, model[i].value, (size_t)model[i].len);
	}
}

static void a_block_is_sorted_by_index_length_name(void **state)
{
	static const struct { uint8_t index; const char *name; } expect[] = {
		{ 1, "b" }, { 1, "aa" }, { 1, "ab" }, { 2, "" }, { 6, "selinux" },
	};
	const struct ext4_xattr_entry *e;
	struct xattr_region r;
	size_t i;

	area_reset();
	assert_int_equal(area_set(6, "selinux", "s", 1), 0);
	assert_int_equal(area_set(1, "ab", "2", 1), 0);
	assert_int_equal(area_set(2, "", "acl", 3), 0);
	assert_int_equal(area_set(1, "b", "1", 1), 0);
	assert_int_equal(area_set(1, "aa", "", 0), 0);
	r = region();
	for (e = xattr_region_first(&r), i = 0; e; e = xattr_region_next(&r, e), i++) {
		assert_int_equal(e->e_name_index, expect[i].index);
		assert_int_equal(e->e_name_len, strlen(expect[i].name));
		assert_memory_equal(e->e_name, expect[i].name, e->e_name_len);
	}
	assert_int_equal(i, ARRAY_SIZE(expect));
	assert_int_equal(le16_get(area_find(1, "aa")->e_value_offs), 0); /* no value, no place */
}

/* Values as in e2fsprogs' and the kernel's definition, worked out by hand for short words. */
static void hashes_follow_the_definition(void **state)
{
	struct xattr_name name = { 1, 2, "ab" };
	uint32_t names = ('a' << 5) ^ 'b', expect;

	expect = (names << 16) ^ (names >> 16) ^ 0x64636261u;
	assert_int_equal(xattr_entry_hash(&name, (const uint8_t *)"abcd", 4), expect);
	expect = (expect << 16) ^ (expect >> 16) ^ 0x65u;
	assert_int_equal(xattr_entry_hash(&name, (const uint8_t *)"abcde", 5), expect);
	name = (struct xattr_name){ 1, 1, "\xc3" };
	assert_int_equal(xattr_entry_hash(&name, NULL, 0), 0xc3); /* unsigned */
}

static void exactly_what_fits_fits(void **state)
{
	static uint8_t value[BLOCK];
	uint32_t room = BLOCK - FIRST - 4 - EXT4_XATTR_ENTRY_BYTES(1);

	area_reset();
	assert_int_equal(area_set(1, "x", value, room + 1), -ENOSPC);
	assert_int_equal(area_set(1, "x", value, SIZE_MAX), -ENOSPC);
	assert_int_equal(area_set(1, "x", value, room), 0);
	assert_sound();
	assert_int_equal(area_set(1, "y", "", 0), -ENOSPC);
	assert_int_equal(area_set(1, "x", value, room - EXT4_XATTR_ENTRY_BYTES(1)), 0); /* replaces, needs no double room */
	assert_int_equal(area_set(1, "y", "", 0), 0);
	assert_sound();
}

static struct ext4_xattr_entry *entry(uint8_t index, const char *name)
{
	return (struct ext4_xattr_entry *)(uintptr_t)area_find(index, name);
}

static void two_attributes(void)
{
	area_reset();
	assert_int_equal(area_set(1, "one", "11111111", 8), 0);
	assert_int_equal(area_set(1, "two", "22222222", 8), 0);
	assert_sound();
}

static void assert_refused(void)
{
	struct xattr_region r = region();

	assert_non_null(xattr_region_verify(&r));
}

static void bad_entries_are_refused(void **state)
{
	two_attributes();
	entry(1, "one")->e_value_offs = le16_make(BLOCK - 4);
	assert_refused();
	two_attributes();
	entry(1, "one")->e_value_offs = entry(1, "two")->e_value_offs;
	assert_refused(); /* overlap */
	two_attributes();
	entry(1, "one")->e_value_offs = le16_make(FIRST);
	assert_refused(); /* over the names */
	two_attributes();
	entry(1, "one")->e_value_size = le32_make(UINT32_MAX);
	assert_refused();
	two_attributes();
	entry(1, "one")->e_value_size = le32_make(UINT32_MAX - 2); /* wraps when padded */
	assert_refused();
	two_attributes();
	entry(1, "one")->e_value_inum = le32_make(12);
	assert_refused();
	two_attributes();
	entry(1, "one")->e_name[1] = 0;
	assert_refused();
}

static void names_may_not_run_past_the_end(void **state)
{
	struct xattr_region r;
	uint32_t off;

	area_reset();
	for (off = FIRST; off + 16 <= BLOCK; off += 16) /* no end mark anywhere */
		area[0][off + 1] = 1;
	r = region();
	assert_non_null(xattr_region_verify(&r));
	memset(area[0], 0xff, BLOCK);
	assert_non_null(xattr_region_verify(&r));
}

/* Whatever bytes there are: verified or refused, and what passes can be walked and rebuilt within its bounds. */
static void noise_never_leads_outside(void **state)
{
	static uint8_t small[96] __attribute__((aligned(8))), copy[96] __attribute__((aligned(8)));
	struct xattr_name name = { 1, 1, "n" };
	struct xattr_value value = { "v", 1 };
	struct xattr_region r = { .base = small, .size = sizeof(small) };
	unsigned step, sound = 0;
	uint32_t count;
	size_t i;

	srand(11);
	for (step = 0; step < 200000; step++) {
		memset(small, 0, sizeof(small));
		for (i = (size_t)rand() % 8; i > 0; i--)
			small[rand() % 60] = (uint8_t)(rand() % 4 ? rand() % 100 : rand());
		if (xattr_region_verify(&r))
			continue;
		sound++;
		(void)xattr_region_rebuild(&r, &name, &value, copy, &count);
	}
	assert_true(sound > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_random_walk_agrees_with_a_model),
		cmocka_unit_test(a_block_is_sorted_by_index_length_name),
		cmocka_unit_test(hashes_follow_the_definition),
		cmocka_unit_test(exactly_what_fits_fits),
		cmocka_unit_test(bad_entries_are_refused),
		cmocka_unit_test(names_may_not_run_past_the_end),
		cmocka_unit_test(noise_never_leads_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
