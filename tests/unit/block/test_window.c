/* SPDX-License-Identifier: MIT */
/* test_window.c - a window shows its range and nothing else */
#include <errno.h>

#include "harness.h"

#define START ((uint64_t)65536)
#define LEN   ((uint64_t)131072)

static char bytes[1 << 20];

static struct block_device *open_window(void)
{
	struct block_device *lower, *win;

	memset(bytes, 0x11, sizeof(bytes));
	assert_int_equal(block_open_memory(sizeof(bytes), bytes, &lower), 0);
	assert_int_equal(block_open_window(lower, START, LEN, &win), 0);
	return win;
}

static void writes_land_inside_and_nowhere_else(void **state)
{
	struct block_device *win = open_window();
	char *buf = aligned_buffer(LEN);

	assert_int_equal(win->size_bytes, LEN);
	pattern_fill(buf, LEN, 1);
	assert_int_equal(block_write(win, 0, buf, LEN, 0), 0);
	assert_int_equal(block_write(win, 512, buf, LEN, 0), -EIO);
	expect_pattern(bytes + START, LEN, 1);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		if (i < START || i >= START + LEN)
			assert_int_equal(bytes[i], 0x11);
	}
	assert_int_equal(block_close(win), 0);
	free(buf);
}

static void direct_access_is_shifted_and_bounded(void **state)
{
	struct block_device *win = open_window();
	void *addr;

	assert_int_equal(win->ops->direct_access(win, 4096, 4096, &addr), 0);
	assert_ptr_equal(addr, bytes + START + 4096);
	assert_int_equal(win->ops->direct_access(win, LEN - 4096, 8192, &addr), -EIO);
	assert_int_equal(block_close(win), 0);
}

static void a_window_outside_its_device_is_refused(void **state)
{
	struct block_device *lower, *win;

	assert_int_equal(block_open_memory(sizeof(bytes), bytes, &lower), 0);
	assert_int_equal(block_open_window(lower, sizeof(bytes) - 4096, 8192, &win), -EINVAL);
	assert_int_equal(block_open_window(lower, UINT64_MAX - 511, 4096, &win), -EINVAL);
	assert_int_equal(block_open_window(lower, 100, 4096, &win), -EINVAL);
	assert_int_equal(block_close(lower), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_land_inside_and_nowhere_else),
		cmocka_unit_test(direct_access_is_shifted_and_bounded),
		cmocka_unit_test(a_window_outside_its_device_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
