/* SPDX-License-Identifier: MIT */
/* test_crowd.c - who makes a crowd: several callers who take turns, not one after another */
#include "unit.h"

#include "fuse/crowd.h"

static struct crowd crowd;

static int start(void **state)
{
	(void)state;
	crowd = (struct crowd){ .enabled = true };
	return 0;
}

/* @count requests, @each from one caller before it is another of @callers' turn. */
static bool note(unsigned count, unsigned callers, unsigned each)
{
	bool is_one = false;

	for (unsigned i = 0; i < count; i++)
		is_one = crowd_note(&crowd, 100 + i / each % callers);
	return is_one;
}

static void callers_in_turn_are_one(void **state)
{
	assert_false(note(20, 2, 1));
	assert_true(note(40, 2, 1));
	assert_true(crowd_is_one(&crowd));
}

static void two_requests_each_are_one_too(void **state)
{
	assert_true(note(200, 2, 2));
}

static void one_caller_is_none(void **state)
{
	assert_false(note(10000, 1, 1));
}

static void callers_one_after_another_are_none(void **state)
{
	assert_false(note(10000, 100, 20));
}

static void it_goes_when_one_stays(void **state)
{
	assert_true(note(1000, 3, 1));
	assert_true(note(100, 1, 1));
	assert_false(note(300, 1, 1));
	assert_false(crowd_is_one(&crowd));
}

static void the_kernel_s_own_requests_do_not_count(void **state)
{
	assert_true(note(1000, 2, 1));
	for (unsigned i = 0; i < 1000; i++)
		assert_true(crowd_note(&crowd, 0));
	assert_false(note(300, 1, 1));
	for (unsigned i = 0; i < 1000; i++)
		assert_false(crowd_note(&crowd, i % 2 ? 100 : 0));
}

static void where_it_is_of_no_use_there_is_none(void **state)
{
	crowd.enabled = false;
	assert_false(note(1000, 2, 1));
}

static void its_average_follows_what_requests_take(void **state)
{
	for (unsigned i = 0; i < 1000; i++)
		crowd_served(&crowd, 3000);
	assert_false(crowd_is_slow(&crowd));
	assert_in_range(crowd.service_ns, 2000, 3100);
	for (unsigned i = 0; i < 100; i++)
		crowd_served(&crowd, 100000);
	assert_true(crowd_is_slow(&crowd));
	crowd_served(&crowd, UINT64_MAX); /* nobody waits so long, but it must not wrap */
	assert_true(crowd_is_slow(&crowd));
	for (unsigned i = 0; i < 1000; i++)
		crowd_served(&crowd, 3000);
	assert_false(crowd_is_slow(&crowd));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(callers_in_turn_are_one, start),
		cmocka_unit_test_setup(two_requests_each_are_one_too, start),
		cmocka_unit_test_setup(one_caller_is_none, start),
		cmocka_unit_test_setup(callers_one_after_another_are_none, start),
		cmocka_unit_test_setup(it_goes_when_one_stays, start),
		cmocka_unit_test_setup(the_kernel_s_own_requests_do_not_count, start),
		cmocka_unit_test_setup(where_it_is_of_no_use_there_is_none, start),
		cmocka_unit_test_setup(its_average_follows_what_requests_take, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
