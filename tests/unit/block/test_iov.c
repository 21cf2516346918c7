/* SPDX-License-Identifier: MIT */
/* test_iov.c - the cursor over iovecs never leaves them */
#include "block/iov.h"
#include "harness.h"

static char piece[3][8];
static const struct iovec iov[] = { { piece[0], 3 }, { piece[1], 0 }, { piece[2], 8 } };

static void copies_cross_pieces_and_skip_empty_ones(void **state)
{
	struct iov_cursor cur = iov_cursor_make(iov, 3, 0);
	char out[12] = "";

	assert_int_equal(iov_copy_to(&cur, "abcdefghijk", 11), 11);
	assert_int_equal(cur.count, 0);
	cur = iov_cursor_make(iov, 3, 2);
	assert_int_equal(iov_copy_from(&cur, out, 4), 4);
	assert_string_equal(out, "cdef");
}

static void nothing_is_copied_past_the_end(void **state)
{
	struct iov_cursor cur = iov_cursor_make(iov, 3, 9);
	char out[8];

	assert_int_equal(iov_copy_from(&cur, out, sizeof(out)), 2);
	assert_int_equal(iov_copy_from(&cur, out, sizeof(out)), 0);
	cur = iov_cursor_make(iov, 3, 100);
	assert_int_equal(iov_fill_zero(&cur, 1), 0);
}

static void the_total_counts_every_piece(void **state)
{
	assert_int_equal(iov_total_bytes(iov, 3), 11);
	assert_int_equal(iov_total_bytes(iov, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_cross_pieces_and_skip_empty_ones),
		cmocka_unit_test(nothing_is_copied_past_the_end),
		cmocka_unit_test(the_total_counts_every_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
