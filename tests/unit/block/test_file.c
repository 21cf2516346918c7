/* SPDX-License-Identifier: MIT */
/* test_file.c - opening, exclusive use, and what the outside world does to an image */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

struct log_seen {
	int lines;
	char text[1024];
};

static void log_note(void *arg, int level, const char *text)
{
	struct log_seen *seen = arg;

	seen->lines++;
	snprintf(seen->text, sizeof(seen->text), "%s", text);
}

static void expect_refused(const char *path, unsigned flags, int err)
{
	struct log_seen seen = { 0 };
	struct log_sink sink = { log_note, &seen };
	struct block_device *dev = NULL;

	assert_int_equal(block_open_file(path, flags, &sink, &dev), err);
	assert_null(dev);
	assert_int_equal(seen.lines, 1);
	assert_non_null(strstr(seen.text, path));
}

static void what_is_no_image_is_refused_with_one_clear_line(void **state)
{
	char *fifo = temp_image(0);

	expect_refused("/tmp", 0, -EISDIR);
	expect_refused("/nonexistent/image", 0, -ENOENT);
	expect_refused("/dev/null", 0, -EINVAL);
	assert_int_equal(unlink(fifo), 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	expect_refused(fifo, 0, -EINVAL);
	temp_image_remove(fifo);
}

static void a_second_writer_is_refused_until_the_first_closes(void **state)
{
	char *path = temp_image(DEV_BYTES);
	struct block_device *dev;

	assert_int_equal(block_open_file(path, 0, NULL, &dev), 0);
	expect_refused(path, 0, -EBUSY);
	expect_refused(path, BLOCK_OPEN_READ_ONLY, -EBUSY);
	assert_int_equal(block_close(dev), 0);
	assert_int_equal(block_open_file(path, 0, NULL, &dev), 0);
	assert_int_equal(block_close(dev), 0);
	temp_image_remove(path);
}

static void readers_share_and_inspection_needs_no_lock(void **state)
{
	char *path = temp_image(DEV_BYTES);
	struct block_device *first, *second, *inspector;

	assert_int_equal(block_open_file(path, BLOCK_OPEN_READ_ONLY, NULL, &first), 0);
	assert_int_equal(block_open_file(path, BLOCK_OPEN_READ_ONLY, NULL, &second), 0);
	expect_refused(path, 0, -EBUSY);
	assert_int_equal(block_close(second), 0);
	assert_int_equal(block_close(first), 0);
	assert_int_equal(block_open_file(path, 0, NULL, &first), 0);
	assert_int_equal(block_open_file(path, BLOCK_OPEN_READ_ONLY | BLOCK_OPEN_NO_LOCK, NULL, &inspector), 0);
	assert_int_equal(block_close(inspector), 0);
	assert_int_equal(block_close(first), 0);
	temp_image_remove(path);
}

static void a_read_only_device_takes_no_writes(void **state)
{
	char *path = temp_image(DEV_BYTES);
	char *buf = aligned_buffer(4096);
	struct block_device *dev;

	assert_int_equal(block_open_file(path, BLOCK_OPEN_READ_ONLY, NULL, &dev), 0);
	assert_int_equal(block_write(dev, 0, buf, 4096, 0), -EROFS);
	assert_int_equal(block_discard(dev, 0, 4096), -EROFS);
	assert_int_equal(block_write_zeroes(dev, 0, 4096), -EROFS);
	assert_int_equal(block_read(dev, 0, buf, 4096), 0);
	expect_zeros(buf, 4096);
	assert_int_equal(block_close(dev), 0);
	free(buf);
	temp_image_remove(path);
}

static void expect_truncation_noticed(unsigned flags)
{
	char *path = temp_image(DEV_BYTES);
	char *buf = aligned_buffer(8192);
	struct iovec iov = { buf, 8192 };
	struct bio bio = { .op = BIO_READ, .pos_bytes = 65536, .len_bytes = 8192, .iov = &iov, .iov_count = 1 };
	struct block_device *dev;

	assert_int_equal(block_open_file(path, flags, NULL, &dev), 0);
	assert_int_equal(truncate(path, 65536 + 4096), 0);
	assert_int_equal(block_read(dev, 65536, buf, 8192), -EIO);
	assert_int_equal(run_bios(dev, &bio, 1), -EIO);
	assert_int_equal(block_read(dev, 65536, buf, 4096), 0);
	assert_int_equal(block_close(dev), 0);
	free(buf);
	temp_image_remove(path);
}

static void reads_past_the_end_of_a_truncated_image_fail(void **state)
{
	expect_truncation_noticed(0);
	expect_truncation_noticed(BLOCK_OPEN_NO_URING);
	expect_truncation_noticed(BLOCK_OPEN_BUFFERED | BLOCK_OPEN_NO_URING);
}

/* Sizes that are no multiple of what O_DIRECT takes must still be readable to the last byte. */
static void an_image_of_odd_size_is_used_to_its_end(void **state)
{
	char *path = temp_image(DEV_BYTES + 1024 + 100);
	char *buf = aligned_buffer(1024);
	struct block_device *dev;
	struct stat st;

	assert_int_equal(block_open_file(path, 0, NULL, &dev), 0);
	assert_int_equal(dev->size_bytes, DEV_BYTES + 1124);
	pattern_fill(buf, 1024, 1);
	assert_int_equal(block_write(dev, DEV_BYTES, buf, 1024, 0), 0);
	memset(buf, 0, 1024);
	assert_int_equal(block_read(dev, DEV_BYTES, buf, 1024), 0);
	expect_pattern(buf, 1024, 1);
	assert_int_equal(block_close(dev), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, DEV_BYTES + 1124);
	free(buf);
	temp_image_remove(path);
}

/* Written by one device, read by the next one through another way to the same file. */
static void every_way_to_the_file_sees_the_same_bytes(void **state)
{
	static const unsigned ways[] = { 0, BLOCK_OPEN_NO_URING, BLOCK_OPEN_BUFFERED, BLOCK_OPEN_BUFFERED | BLOCK_OPEN_NO_URING };
	char *path = temp_image(DEV_BYTES);
	char *buf = aligned_buffer(65536);
	struct block_device *dev;

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(ways); i++) {
		assert_int_equal(block_open_file(path, ways[i % ARRAY_SIZE(ways)], NULL, &dev), 0);
		if (i) {
			assert_int_equal(block_read(dev, 4096, buf, 65536), 0);
			expect_pattern(buf, 65536, i - 1);
		}
		pattern_fill(buf, 65536, i);
		assert_int_equal(block_write(dev, 4096, buf, 65536, 0), 0);
		assert_int_equal(block_close(dev), 0);
	}
	free(buf);
	temp_image_remove(path);
}

#define LEAVERS      8
#define LEAVER_BIOS  64
#define LEAVER_BYTES 4096

static struct {
	struct block_device *dev;
	char *buf;
	struct bio bio[LEAVERS * LEAVER_BIOS];
	struct iovec iov[LEAVERS * LEAVER_BIOS];
	atomic_uint done;
	atomic_int err;
} leave;

static void leave_end_io(struct bio *bio, int err)
{
	if (err)
		atomic_store(&leave.err, err);
	atomic_fetch_add(&leave.done, 1);
}

static void *leaver(void *arg)
{
	unsigned first = (unsigned)(uintptr_t)arg * LEAVER_BIOS;

	block_plug(leave.dev);
	for (unsigned i = first; i < first + LEAVER_BIOS; i++) {
		leave.iov[i] = (struct iovec){ leave.buf + i * LEAVER_BYTES, LEAVER_BYTES };
		leave.bio[i] = (struct bio){ .dev = leave.dev, .op = BIO_WRITE, .pos_bytes = i * LEAVER_BYTES,
					     .len_bytes = LEAVER_BYTES, .iov = &leave.iov[i], .iov_count = 1,
					     .end_io = leave_end_io };
		block_submit(&leave.bio[i]);
	}
	block_unplug(leave.dev);
	return NULL;
}

/* The kernel cancels what an exiting thread has in io_uring and has not started. */
static void writes_of_threads_that_exit_are_not_lost(void **state)
{
	size_t total = LEAVERS * LEAVER_BIOS * LEAVER_BYTES;
	char *path = temp_image(DEV_BYTES);
	pthread_t thread[LEAVERS];

	leave.buf = aligned_buffer(total);
	pattern_fill(leave.buf, total, 9);
	assert_int_equal(block_open_file(path, BLOCK_OPEN_BUFFERED, NULL, &leave.dev), 0);
	for (uintptr_t i = 0; i < LEAVERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, leaver, (void *)i), 0);
	for (int i = 0; i < LEAVERS; i++)
		pthread_join(thread[i], NULL);
	while (atomic_load(&leave.done) < LEAVERS * LEAVER_BIOS)
		sched_yield();
	assert_int_equal(atomic_load(&leave.err), 0);
	memset(leave.buf, 0, total);
	assert_int_equal(block_read(leave.dev, 0, leave.buf, total), 0);
	expect_pattern(leave.buf, total, 9);
	assert_int_equal(block_close(leave.dev), 0);
	free(leave.buf);
	temp_image_remove(path);
}

/* Any position and length, through a window too; and no further than the device. */
static void the_page_cache_of_a_file_can_be_shared(void **state)
{
	char *path = temp_image(DEV_BYTES), bytes[8192], want[8192];
	struct block_device *dev, *window;
	int fds[2];

	assert_int_equal(block_open_file(path, BLOCK_OPEN_BUFFERED, NULL, &dev), 0);
	pattern_fill(want, sizeof(want), 4);
	assert_int_equal(block_write(dev, 65536, want, sizeof(want), 0), 0);
	assert_int_equal(block_open_window(dev, 65536, 65536, &window), 0);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(block_splice(window, 0, sizeof(want), fds[1]), sizeof(want));
	assert_int_equal(read(fds[0], bytes, sizeof(bytes)), sizeof(want));
	assert_memory_equal(bytes, want, sizeof(want));
	assert_int_equal(block_splice(window, 4100, 7, fds[1]), 7);
	assert_int_equal(read(fds[0], bytes, sizeof(bytes)), 7);
	assert_memory_equal(bytes, want + 4100, 7);
	assert_int_equal(block_splice(window, 65536 - 4, 5, fds[1]), -EIO);
	assert_int_equal(block_splice(window, 1 << 20, 1, fds[1]), -EIO);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(block_close(window), 0);
	temp_image_remove(path);
}

static void what_has_no_page_cache_says_so(void **state)
{
	struct block_device *dev;

	assert_int_equal(block_open_memory(DEV_BYTES, NULL, &dev), 0);
	assert_int_equal(block_splice(dev, 0, 1, -1), -EOPNOTSUPP);
	assert_int_equal(block_close(dev), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_image_is_refused_with_one_clear_line),
		cmocka_unit_test(a_second_writer_is_refused_until_the_first_closes),
		cmocka_unit_test(readers_share_and_inspection_needs_no_lock),
		cmocka_unit_test(a_read_only_device_takes_no_writes),
		cmocka_unit_test(reads_past_the_end_of_a_truncated_image_fail),
		cmocka_unit_test(an_image_of_odd_size_is_used_to_its_end),
		cmocka_unit_test(every_way_to_the_file_sees_the_same_bytes),
		cmocka_unit_test(writes_of_threads_that_exit_are_not_lost),
		cmocka_unit_test(the_page_cache_of_a_file_can_be_shared),
		cmocka_unit_test(what_has_no_page_cache_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
