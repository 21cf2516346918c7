/* SPDX-License-Identifier: MIT */
/* test_splice.c - reads by reference: the same bytes, or the advice to copy them */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "image.h"

#define PIECE ((size_t)64 << 10)
#define BLOCK ((size_t)4096)

static struct image img;
static int pipe_fds[2];

struct taken {
	char bytes[PIECE];
	size_t len;       /* to take */
	unsigned calls;
	int result;       /* to give back */
};

static int take(void *arg)
{
	struct taken *t = arg;

	t->calls++;
	assert_int_equal(read(pipe_fds[0], t->bytes, sizeof(t->bytes)), t->len);
	return t->result;
}

static int start(void **state)
{
	if (!image_make_in_memory(&img, "-t ext4 -b 4096", 64))
		return -1;
	image_open(&img, NULL, false);
	assert_int_equal(pipe2(pipe_fds, O_NONBLOCK), 0);
	return 0;
}

static int stop(void **state)
{
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	image_check(&img);
	image_remove(&img);
	return 0;
}

static uint64_t create(void)
{
	struct uext4_entry entry;

	assert_int_equal(uext4_node_mknod(img.fs, NULL, UEXT4_ROOT_INO, "f", 0644, 0, &entry), 0);
	return entry.ino;
}

static uint64_t find(void)
{
	struct uext4_entry entry;

	assert_int_equal(uext4_node_lookup(img.fs, NULL, UEXT4_ROOT_INO, "f", &entry), 0);
	return entry.ino;
}

static void write_pattern(uint64_t ino, off_t pos, size_t len)
{
	char buf[PIECE];
	struct iovec iov = { buf, len };

	pattern_fill(buf, len, ino, (uint64_t)pos);
	assert_int_equal(uext4_node_writev(img.fs, ino, &iov, 1, pos, 0), len);
}

static int splice_read(uint64_t ino, off_t pos, size_t len, struct taken *t)
{
	*t = (struct taken){ .len = len };
	return uext4_node_splice_read(img.fs, ino, pos, len, pipe_fds[1], take, t);
}

static void expect_copy_advice(uint64_t ino, off_t pos, size_t len)
{
	struct taken t;
	char rest[PIECE];

	assert_int_equal(splice_read(ino, pos, len, &t), -EOPNOTSUPP);
	assert_int_equal(t.calls, 0);
	while (read(pipe_fds[0], rest, sizeof(rest)) > 0)
		continue;
}

static void expect_spliced(uint64_t ino, off_t pos, size_t len)
{
	struct taken t;

	assert_int_equal(splice_read(ino, pos, len, &t), 0);
	assert_int_equal(t.calls, 1);
	assert_true(pattern_holds(t.bytes, len, ino, (uint64_t)pos));
}

static void what_only_the_image_holds_is_passed_on(void **state)
{
	uint64_t ino = create();

	write_pattern(ino, 0, PIECE);
	expect_copy_advice(ino, 0, PIECE); /* still cached */
	image_reopen(&img);
	ino = find();
	expect_spliced(ino, 0, PIECE);
	expect_spliced(ino, 100, 12345);
	expect_spliced(ino, (off_t)PIECE - 1, 1);
}

static void dirty_bytes_are_not_passed_by(void **state)
{
	uint64_t ino = create();

	write_pattern(ino, 0, PIECE);
	image_reopen(&img);
	ino = find();
	write_pattern(ino, 3 * (off_t)BLOCK, BLOCK);
	expect_copy_advice(ino, 0, PIECE);
	expect_copy_advice(ino, 3 * (off_t)BLOCK + 5, 10);
	expect_spliced(ino, 0, 3 * BLOCK);
}

static void holes_unwritten_blocks_and_the_end_are_left_to_copying(void **state)
{
	uint64_t ino = create();

	write_pattern(ino, 0, BLOCK);
	write_pattern(ino, 2 * (off_t)BLOCK, BLOCK);
	assert_int_equal(uext4_node_fallocate(img.fs, ino, 0, 4 * (off_t)BLOCK, (off_t)BLOCK), 0);
	write_pattern(ino, 5 * (off_t)BLOCK, 100);
	image_reopen(&img);
	ino = find();
	expect_copy_advice(ino, 0, 3 * BLOCK);
	expect_copy_advice(ino, 4 * (off_t)BLOCK, BLOCK);
	expect_copy_advice(ino, 5 * (off_t)BLOCK, 101);
	expect_copy_advice(ino, 6 * (off_t)BLOCK, 1);
	expect_spliced(ino, 0, BLOCK);
	expect_spliced(ino, 5 * (off_t)BLOCK, 100);
}

static void the_takers_answer_is_the_answer(void **state)
{
	uint64_t ino = create();
	struct taken t;

	write_pattern(ino, 0, BLOCK);
	image_reopen(&img);
	ino = find();
	t = (struct taken){ .len = BLOCK, .result = -ENOENT };
	assert_int_equal(uext4_node_splice_read(img.fs, ino, 0, BLOCK, pipe_fds[1], take, &t), -ENOENT);
	assert_int_equal(uext4_node_splice_read(img.fs, UEXT4_ROOT_INO, 0, BLOCK, pipe_fds[1], take, &t), -EISDIR);
	assert_int_equal(uext4_node_splice_read(img.fs, ino, -1, BLOCK, pipe_fds[1], take, &t), -EINVAL);
	assert_int_equal(t.calls, 1);
}

static void a_full_pipe_is_told(void **state)
{
	uint64_t ino = create();
	char byte[BLOCK] = "";
	struct taken t;

	write_pattern(ino, 0, BLOCK);
	image_reopen(&img);
	ino = find();
	while (write(pipe_fds[1], byte, sizeof(byte)) > 0)
		continue;
	assert_int_equal(splice_read(ino, 0, BLOCK, &t), -EAGAIN);
	assert_int_equal(t.calls, 0);
}

int main(void)
{
#define ON_IMAGE(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		ON_IMAGE(what_only_the_image_holds_is_passed_on),
		ON_IMAGE(dirty_bytes_are_not_passed_by),
		ON_IMAGE(holes_unwritten_blocks_and_the_end_are_left_to_copying),
		ON_IMAGE(the_takers_answer_is_the_answer),
		ON_IMAGE(a_full_pipe_is_told),
	};

	if (image_tools_missing())
		return 77;
	if (!image_make_in_memory(&img, "-t ext4", 8)) {
		fprintf(stderr, "SKIPPED: /dev/shm is no tmpfs to write to\n");
		return 77;
	}
	image_remove(&img);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
