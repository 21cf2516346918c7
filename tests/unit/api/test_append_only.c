/* SPDX-License-Identifier: MIT */
/* test_append_only.c - writes by inode number to an append-only file, as a server passes them on */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/uio.h>

#include "image.h"

#define PAGE 4096u

static struct image img;
static uext4_ino ino;

/* What the file has, and what pages of a cache above would have. */
static uint8_t page[4 * PAGE];

static int start(void **state)
{
	image_make(&img, "-t ext4", 16);
	image_open(&img, NULL, false);
	for (size_t i = 0; i < sizeof(page); i++)
		page[i] = (uint8_t)(1 + i % 251);
	return 0;
}

static int stop(void **state)
{
	image_check(&img);
	image_remove(&img);
	return 0;
}

static void set_append_only(bool on)
{
	struct uext4_attr attr;

	assert_int_equal(uext4_node_getattr(img.fs, ino, &attr), 0);
	attr.flags = on ? attr.flags | FS_APPEND_FL : attr.flags & ~(uint32_t)FS_APPEND_FL;
	assert_int_equal(uext4_node_setattr(img.fs, NULL, ino, &attr, UEXT4_SET_FLAGS, NULL), 0);
}

static ssize_t write_node(const void *bytes, size_t len, off_t pos, uint32_t flags)
{
	struct iovec iov = { .iov_base = (void *)bytes, .iov_len = len };

	return uext4_node_writev(img.fs, ino, &iov, 1, pos, flags);
}

/* Pages of a cache: from the page that @from is in up to @to. */
static ssize_t write_back(size_t from, size_t to)
{
	from -= from % PAGE;
	return write_node(page + from, to - from, (off_t)from, UEXT4_WRITE_KEEP_TIMES);
}

static void make_file(const char *name, size_t size)
{
	struct uext4_entry entry;

	assert_int_equal(uext4_node_mknod(img.fs, NULL, UEXT4_ROOT_INO, name, S_IFREG | 0644, 0, &entry), 0);
	ino = entry.ino;
	assert_int_equal(write_node(page, size, 0, 0), size);
	set_append_only(true);
}

static void expect_file(size_t size)
{
	uint8_t got[sizeof(page)];
	struct iovec iov = { .iov_base = got, .iov_len = sizeof(got) };

	assert_int_equal(uext4_node_readv(img.fs, ino, &iov, 1, 0, 0), size);
	assert_memory_equal(got, page, size);
	uext4_node_forget(img.fs, ino, 1);
}

static void test_only_the_end_is_written(void **state)
{
	make_file("end", 5000);
	assert_int_equal(write_node("x", 1, 0, 0), -EPERM);
	assert_int_equal(write_node("x", 1, 4999, 0), -EPERM);
	assert_int_equal(write_node(page + 5000, 100, 5000, 0), 100);
	assert_int_equal(write_node(page + 5100, 100, 0, UEXT4_WRITE_APPEND), 100);
	expect_file(5200);
}

static void test_pages_repeat_what_is_there(void **state)
{
	make_file("pages", 5000);
	assert_int_equal(write_back(5000, 5001), 5001 - PAGE);
	assert_int_equal(write_back(5001, 3 * PAGE), 2 * PAGE);
	expect_file(3 * PAGE);
}

static void test_pages_come_in_any_order(void **state)
{
	make_file("order", 5000);
	assert_int_equal(write_back(3 * PAGE, 3 * PAGE + 7), 7);
	assert_int_equal(write_back(2 * PAGE, 3 * PAGE), PAGE);
	assert_int_equal(write_back(5000, 2 * PAGE), PAGE);
	expect_file(3 * PAGE + 7);
}

static void test_a_changed_byte_is_refused(void **state)
{
	make_file("changed", 5000);
	for (size_t i = 0; i < 5000; i += 833) {
		page[i] ^= 0x80;
		assert_int_equal(write_back(i, 5000), -EPERM);
		page[i] ^= 0x80;
	}
	/* What was appended since is as safe, zeros too. */
	page[6000] = 0;
	assert_int_equal(write_back(5000, 7000), 7000 - PAGE);
	page[6000] = 1;
	assert_int_equal(write_back(7000, 7000), -EPERM);
	page[6000] = 0;
	expect_file(7000);
	page[6000] = 1 + 6000 % 251;
}

static void test_the_flag_starts_anew(void **state)
{
	make_file("anew", 5000);
	assert_int_equal(write_back(5000, 6000), 6000 - PAGE);
	set_append_only(false);
	page[10] ^= 0x80;
	assert_int_equal(write_back(0, 6000), 6000);
	set_append_only(true);
	page[10] ^= 0x80;
	assert_int_equal(write_back(0, 6000), -EPERM);
	page[10] ^= 0x80;
	expect_file(6000);
	page[10] ^= 0x80;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_end_is_written),
		cmocka_unit_test(test_pages_repeat_what_is_there),
		cmocka_unit_test(test_pages_come_in_any_order),
		cmocka_unit_test(test_a_changed_byte_is_refused),
		cmocka_unit_test(test_the_flag_starts_anew),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, start, stop);
}
