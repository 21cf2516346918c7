/* SPDX-License-Identifier: MIT */
/* test_data.c - contents of files through the public interface, then e2fsck */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <unistd.h>

#include "image.h"

static struct image img;

static int start(void **state)
{
	image_make(&img, "-t ext4", 128);
	image_open(&img, NULL, false);
	return 0;
}

static int stop(void **state)
{
	image_check(&img);
	image_remove(&img);
	return 0;
}

static void expect_zeros(struct uext4_file *file, off_t pos, size_t len)
{
	char *buf = malloc(len);

	assert_int_equal(uext4_pread(file, buf, len, pos), len);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(buf[i], 0);
	free(buf);
}

static uint64_t size_of(struct uext4_file *file)
{
	struct uext4_attr attr;

	assert_int_equal(uext4_fstat(file, &attr), 0);
	return attr.size;
}

static void large_file_reads_back_after_a_remount(void **state)
{
	struct uext4_file *file = image_open_file(&img, "/big", O_RDWR | O_CREAT);

	for (off_t pos = 0; pos < 40 << 20; pos += 1 << 20)
		image_write(file, 1, pos, 1 << 20);
	image_expect(file, 1, 12345, 3000000);
	assert_int_equal(uext4_close(file), 0);
	image_reopen(&img);
	file = image_open_file(&img, "/big", O_RDONLY);
	assert_int_equal(size_of(file), 40 << 20);
	for (off_t pos = 0; pos < 40 << 20; pos += 1 << 20)
		image_expect(file, 1, pos, 1 << 20);
	assert_int_equal(uext4_pread(file, (char[10]){ 0 }, 10, 40 << 20), 0);
	assert_int_equal(uext4_close(file), 0);
}

static void odd_positions_and_lengths(void **state)
{
	static const struct { off_t pos; size_t len; } pieces[] = {
		{ 0, 1 }, { 1, 4095 }, { 4096, 4097 }, { 8193, 100000 }, { 108193, 3 }, { 108196, 1 << 20 },
	};
	struct uext4_file *file = image_open_file(&img, "/odd", O_RDWR | O_CREAT);

	for (unsigned i = 0; i < 6; i++)
		image_write(file, 2, pieces[i].pos, pieces[i].len);
	assert_int_equal(uext4_fsync(file), 0);
	assert_int_equal(uext4_close(file), 0);
	image_reopen(&img);
	file = image_open_file(&img, "/odd", O_RDONLY);
	image_expect(file, 2, 0, 108196 + (1 << 20));
	assert_int_equal(uext4_close(file), 0);
}

static void holes_read_as_zeros_and_are_found(void **state)
{
	struct uext4_file *file = image_open_file(&img, "/sparse", O_RDWR | O_CREAT);

	image_write(file, 3, 1 << 20, 8192);
	image_write(file, 3, 5 << 20, 100);
	assert_int_equal(uext4_ftruncate(file, 8 << 20), 0);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(uext4_lseek(file, 0, SEEK_DATA), 1 << 20);
		assert_int_equal(uext4_lseek(file, 1 << 20, SEEK_HOLE), (1 << 20) + 8192);
		assert_int_equal(uext4_lseek(file, (1 << 20) + 8192, SEEK_DATA), 5 << 20);
		assert_int_equal(uext4_lseek(file, 6 << 20, SEEK_DATA), -ENXIO);
		assert_int_equal(uext4_lseek(file, 6 << 20, SEEK_HOLE), 6 << 20);
		expect_zeros(file, 0, 1 << 20);
		image_expect(file, 3, 1 << 20, 8192);
		image_expect(file, 3, 5 << 20, 100);
		expect_zeros(file, (5 << 20) + 100, 4096);
		assert_int_equal(uext4_close(file), 0);
		if (!round)
			image_reopen(&img);
		file = image_open_file(&img, "/sparse", O_RDWR);
	}
	assert_int_equal(uext4_close(file), 0);
}

static void cut_tail_does_not_come_back(void **state)
{
	struct uext4_file *file = image_open_file(&img, "/cut", O_RDWR | O_CREAT);

	image_write(file, 4, 0, 20000);
	assert_int_equal(uext4_fsync(file), 0);
	assert_int_equal(uext4_ftruncate(file, 5000), 0);
	assert_int_equal(uext4_ftruncate(file, 30000), 0);
	image_expect(file, 4, 0, 5000);
	expect_zeros(file, 5000, 25000);
	image_write(file, 4, 40000, 10);
	expect_zeros(file, 30000, 10000);
	assert_int_equal(uext4_close(file), 0);
	image_reopen(&img);
	file = image_open_file(&img, "/cut", O_RDONLY);
	image_expect(file, 4, 0, 5000);
	expect_zeros(file, 5000, 35000);
	image_expect(file, 4, 40000, 10);
	assert_int_equal(uext4_close(file), 0);
}

static void open_modes(void **state)
{
	struct uext4_file *file = image_open_file(&img, "/modes", O_WRONLY | O_CREAT);
	char buf[16];

	assert_int_equal(uext4_write(file, "hello", 5), 5);
	assert_int_equal(uext4_read(file, buf, 5), -EBADF);
	assert_int_equal(uext4_close(file), 0);
	file = image_open_file(&img, "/modes", O_RDONLY);
	assert_int_equal(uext4_write(file, "x", 1), -EBADF);
	assert_int_equal(uext4_ftruncate(file, 0), -EINVAL);
	assert_int_equal(uext4_read(file, buf, 2), 2);
	assert_int_equal(uext4_read(file, buf, 16), 3);
	assert_memory_equal(buf, "llo", 3);
	assert_int_equal(uext4_read(file, buf, 16), 0);
	assert_int_equal(uext4_lseek(file, -2, SEEK_END), 3);
	assert_int_equal(uext4_lseek(file, -4, SEEK_CUR), -EINVAL);
	assert_int_equal(uext4_pread(file, buf, 1, -1), -EINVAL);
	assert_int_equal(uext4_close(file), 0);
	file = image_open_file(&img, "/modes", O_WRONLY | O_APPEND);
	assert_int_equal(uext4_write(file, " there", 6), 6);
	assert_int_equal(uext4_pwrite(file, "!", 1, 0), 1); /* O_APPEND wins, as on Linux */
	assert_int_equal(size_of(file), 12);
	assert_int_equal(uext4_close(file), 0);
	file = image_open_file(&img, "/modes", O_RDWR | O_TRUNC);
	assert_int_equal(size_of(file), 0);
	assert_int_equal(uext4_close(file), 0);
}

static void unlinked_open_file_keeps_its_bytes(void **state)
{
	struct uext4_file *file = image_open_file(&img, "/gone", O_RDWR | O_CREAT);
	struct uext4_statfs before, after;

	assert_int_equal(uext4_statfs(img.fs, &before), 0);
	image_write(file, 5, 0, 2 << 20);
	assert_int_equal(uext4_fsync(file), 0);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/gone"), 0);
	for (int i = 0; i < 50; i++) {
		struct uext4_file *other;
		char path[32];

		sprintf(path, "/other%d", i);
		other = image_open_file(&img, path, O_RDWR | O_CREAT);
		image_write(other, 100 + (uint64_t)i, 0, 5000);
		assert_int_equal(uext4_close(other), 0);
	}
	image_expect(file, 5, 0, 2 << 20);
	image_write(file, 5, 2 << 20, 1 << 20);
	image_expect(file, 5, 0, 3 << 20);
	assert_int_equal(uext4_close(file), 0);
	for (int i = 0; i < 50; i++) {
		struct uext4_file *other;
		char path[32];

		sprintf(path, "/other%d", i);
		other = image_open_file(&img, path, O_RDONLY);
		image_expect(other, 100 + (uint64_t)i, 0, 5000);
		assert_int_equal(uext4_close(other), 0);
		assert_int_equal(uext4_unlink(img.fs, NULL, path), 0);
	}
	image_reopen(&img);
	assert_int_equal(uext4_statfs(img.fs, &after), 0);
	assert_int_equal(after.blocks_free, before.blocks_free);
	assert_int_equal(after.inodes_free, before.inodes_free + 1);
}

static void many_extents_then_filled_in(void **state)
{
	struct uext4_file *file = image_open_file(&img, "/frag", O_RDWR | O_CREAT);

	for (off_t block = 0; block < 3000; block += 2) {
		image_write(file, 6, block * 4096, 4096);
		if (block % 200 == 0)
			assert_int_equal(uext4_fdatasync(file), 0);
	}
	assert_int_equal(uext4_close(file), 0);
	image_reopen(&img);
	file = image_open_file(&img, "/frag", O_RDWR);
	for (off_t block = 0; block < 3000; block += 2) {
		image_expect(file, 6, block * 4096, 4096);
		if (block + 1 < 2999)
			expect_zeros(file, (block + 1) * 4096, 4096);
	}
	for (off_t block = 1; block < 3000; block += 2)
		image_write(file, 6, block * 4096, 4096);
	assert_int_equal(uext4_fsync(file), 0);
	image_expect(file, 6, 0, 3000 * 4096);
	assert_int_equal(uext4_close(file), 0);
	image_reopen(&img);
	file = image_open_file(&img, "/frag", O_RDONLY);
	image_expect(file, 6, 0, 3000 * 4096);
	assert_int_equal(uext4_close(file), 0);
}

static void fallocate_reserves_punches_and_zeroes(void **state)
{
	struct uext4_file *file = image_open_file(&img, "/falloc", O_RDWR | O_CREAT);

	assert_int_equal(uext4_fallocate(file, 0, 0, 1 << 20), 0);
	assert_int_equal(size_of(file), 1 << 20);
	expect_zeros(file, 0, 1 << 20);
	image_write(file, 7, 0, 1 << 20);
	assert_int_equal(uext4_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 10000, 50000), 0);
	image_expect(file, 7, 0, 10000);
	expect_zeros(file, 10000, 50000);
	image_expect(file, 7, 60000, 1000);
	assert_int_equal(uext4_fallocate(file, FALLOC_FL_ZERO_RANGE, 100000, 9999), 0);
	expect_zeros(file, 100000, 9999);
	image_expect(file, 7, 109999, 100);
	assert_int_equal(uext4_fallocate(file, FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20), 0);
	assert_int_equal(size_of(file), 1 << 20);
	assert_int_equal(uext4_fallocate(file, 0, -1, 10), -EINVAL);
	assert_int_equal(uext4_fallocate(file, 0, 0, 0), -EINVAL);
	assert_int_equal(uext4_close(file), 0);
	image_reopen(&img);
	file = image_open_file(&img, "/falloc", O_RDONLY);
	image_expect(file, 7, 0, 10000);
	expect_zeros(file, 10000, 50000);
	image_expect(file, 7, 60000, 40000);
	expect_zeros(file, 100000, 9999);
	assert_int_equal(uext4_close(file), 0);
}

static void full_disk_says_so_at_the_write(void **state)
{
	struct uext4_file *file = image_open_file(&img, "/fill", O_RDWR | O_CREAT);
	size_t len = 1 << 20;
	char *buf = malloc(len);
	off_t pos = 0;
	ssize_t done;

	pattern_fill(buf, len, 8, 0);
	while ((done = uext4_pwrite(file, buf, len, pos)) > 0)
		pos += done;
	assert_int_equal(done, -ENOSPC);
	assert_true(pos > 100 << 20);
	assert_int_equal(uext4_fsync(file), 0); /* what was accepted has room */
	assert_int_equal(uext4_close(file), 0);
	free(buf);
	image_reopen(&img);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/fill"), 0);
	file = image_open_file(&img, "/after", O_RDWR | O_CREAT);
	image_write(file, 9, 0, 10 << 20);
	assert_int_equal(uext4_fsync(file), 0);
	assert_int_equal(uext4_close(file), 0);
}

int main(void)
{
#define ON_IMAGE(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		ON_IMAGE(large_file_reads_back_after_a_remount),
		ON_IMAGE(odd_positions_and_lengths),
		ON_IMAGE(holes_read_as_zeros_and_are_found),
		ON_IMAGE(cut_tail_does_not_come_back),
		ON_IMAGE(open_modes),
		ON_IMAGE(unlinked_open_file_keeps_its_bytes),
		ON_IMAGE(many_extents_then_filled_in),
		ON_IMAGE(fallocate_reserves_punches_and_zeroes),
		ON_IMAGE(full_disk_says_so_at_the_write),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
