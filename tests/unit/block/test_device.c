/* SPDX-License-Identifier: MIT */
/* test_device.c - properties that every device has, asked of each kind in turn */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#include "block/fault.h"
#include "block/overlay.h"
#include "block/record.h"
#include "harness.h"

enum kind { KIND_RING, KIND_WORKERS, KIND_BUFFERED, KIND_MEMORY, KIND_WINDOW, KIND_RECORD, KIND_FAULT, KIND_OVERLAY, KINDS };

static const char *const kind_name[KINDS] = { "ring", "workers", "buffered", "memory", "window", "record", "fault", "overlay" };

struct env {
	enum kind kind;
	char *path;
	struct block_device *dev;
	struct counters *counters;
};

static enum kind next_kind;

static struct block_device *open_file_device(struct env *env, unsigned flags, uint64_t size_bytes)
{
	struct block_device *dev;

	env->path = temp_image(size_bytes);
	assert_int_equal(block_open_file(env->path, flags, NULL, &dev), 0);
	return dev;
}

static struct block_device *open_kind(struct env *env)
{
	struct block_device *lower = NULL, *dev = NULL;

	switch (env->kind) {
	case KIND_RING:
		return open_file_device(env, 0, DEV_BYTES);
	case KIND_WORKERS:
		return open_file_device(env, BLOCK_OPEN_NO_URING, DEV_BYTES);
	case KIND_BUFFERED:
		return open_file_device(env, BLOCK_OPEN_BUFFERED, DEV_BYTES);
	case KIND_WINDOW:
		lower = open_file_device(env, 0, DEV_BYTES + 65536);
		assert_int_equal(block_open_window(lower, 32768, DEV_BYTES, &dev), 0);
		return dev;
	default:
		break;
	}
	assert_int_equal(block_open_memory(DEV_BYTES, NULL, &lower), 0);
	if (env->kind == KIND_RECORD)
		assert_int_equal(block_open_record(lower, &dev), 0);
	else if (env->kind == KIND_FAULT)
		assert_int_equal(block_open_fault(lower, 1, &dev), 0);
	else if (env->kind == KIND_OVERLAY)
		assert_int_equal(block_open_overlay(lower, &dev), 0);
	else
		dev = lower;
	return dev;
}

static int setup(void **state)
{
	struct env *env = calloc(1, sizeof(*env));

	env->kind = next_kind;
	env->dev = open_kind(env);
	assert_int_equal(posix_memalign((void **)&env->counters, 64, sizeof(*env->counters)), 0);
	memset(env->counters, 0, sizeof(*env->counters));
	env->dev->counters = env->counters;
	*state = env;
	return 0;
}

static int teardown(void **state)
{
	struct env *env = *state;

	assert_int_equal(block_close(env->dev), 0);
	if (env->path)
		temp_image_remove(env->path);
	free(env->counters);
	free(env);
	return 0;
}

static void what_is_written_is_read_back(void **state)
{
	struct env *env = *state;
	char *buf = aligned_buffer(65536);

	pattern_fill(buf, 65536, 1);
	assert_int_equal(block_write(env->dev, 12288, buf, 65536, 0), 0);
	memset(buf, 0, 65536);
	assert_int_equal(block_read(env->dev, 12288, buf, 65536), 0);
	expect_pattern(buf, 65536, 1);
	assert_int_equal(block_read(env->dev, 0, buf, 12288), 0);
	expect_zeros(buf, 12288);
	free(buf);
}

static void memory_of_any_alignment_will_do(void **state)
{
	struct env *env = *state;
	char *buf = aligned_buffer(65536);
	char odd[4][1024 + 1];
	struct iovec iov[4];

	for (int i = 0; i < 4; i++)
		iov[i] = (struct iovec){ odd[i] + 1, i == 1 ? 512 : 1024 };
	for (int i = 0; i < 4; i++)
		pattern_fill(iov[i].iov_base, iov[i].iov_len, (unsigned)i);
	assert_int_equal(block_rwv(env->dev, BIO_WRITE, 5 * 512, iov, 4, 0), 0);
	assert_int_equal(block_read(env->dev, 5 * 512, buf + 3, 3584), 0);
	expect_pattern(buf + 3, 1024, 0);
	expect_pattern(buf + 3 + 1024, 512, 1);
	expect_pattern(buf + 3 + 1536, 1024, 2);
	expect_pattern(buf + 3 + 2560, 1024, 3);
	free(buf);
}

static void a_range_past_the_end_fails_and_touches_nothing(void **state)
{
	struct env *env = *state;
	char *buf = aligned_buffer(8192);

	memset(buf, 0, 8192);
	assert_int_equal(block_read(env->dev, DEV_BYTES - 4096, buf, 8192), -EIO);
	assert_int_equal(block_read(env->dev, UINT64_MAX - 4095, buf, 8192), -EIO);
	memset(buf, 0xAA, 8192);
	assert_int_equal(block_write(env->dev, DEV_BYTES - 4096, buf, 8192, 0), -EIO);
	assert_int_equal(block_discard(env->dev, DEV_BYTES, 512), -EIO);
	assert_int_equal(block_read(env->dev, DEV_BYTES - 4096, buf, 4096), 0);
	expect_zeros(buf, 4096);
	free(buf);
}

static void zeroed_ranges_read_as_zeros_and_end_where_asked(void **state)
{
	struct env *env = *state;
	char *buf = aligned_buffer(32768);

	pattern_fill(buf, 32768, 2);
	assert_int_equal(block_write(env->dev, 0, buf, 32768, 0), 0);
	assert_int_equal(block_write_zeroes(env->dev, 4096 + 512, 16384), 0);
	memset(buf, 0xBB, 32768);
	assert_int_equal(block_read(env->dev, 0, buf, 32768), 0);
	expect_pattern(buf, 4608, 2);
	expect_zeros(buf + 4608, 16384);
	memset(buf, 0, 32768);
	pattern_fill(buf, 32768, 2);
	assert_int_equal(block_write(env->dev, 65536, buf, 32768, 0), 0);
	assert_int_equal(block_read(env->dev, 0, buf, 32768), 0);
	expect_zeros(buf + 4608, 16384);
	free(buf);
}

static void a_discard_spares_its_neighbours(void **state)
{
	struct env *env = *state;
	char *buf = aligned_buffer(16384);

	pattern_fill(buf, 16384, 3);
	assert_int_equal(block_write(env->dev, 0, buf, 16384, 0), 0);
	assert_int_equal(block_discard(env->dev, 4096, 4096), 0);
	assert_int_equal(block_read(env->dev, 0, buf, 4096), 0);
	expect_pattern(buf, 4096, 3);
	free(buf);
}

static void flush_fua_and_preflush_succeed(void **state)
{
	struct env *env = *state;
	char *buf = aligned_buffer(4096);
	struct iovec iov = { buf, 4096 };
	struct bio bios[2] = {
		{ .op = BIO_FLUSH },
		{ .op = BIO_WRITE, .flags = BIO_FUA | BIO_PREFLUSH, .len_bytes = 4096, .iov = &iov, .iov_count = 1 },
	};

	pattern_fill(buf, 4096, 4);
	assert_int_equal(block_write(env->dev, 4096, buf, 4096, BIO_FUA | BIO_PREFLUSH), 0);
	assert_int_equal(block_flush(env->dev), 0);
	assert_int_equal(run_bios(env->dev, bios, 2), 0);
	memset(buf, 0, 4096);
	assert_int_equal(block_read(env->dev, 0, buf, 4096), 0);
	expect_pattern(buf, 4096, 4);
	free(buf);
}

#define MANY 3000

/* More requests than any queue of the system holds. */
static void thousands_in_flight_all_complete(void **state)
{
	struct env *env = *state;
	struct bio *bios = calloc(MANY, sizeof(*bios));
	struct iovec *iov = calloc(MANY, sizeof(*iov));
	char *buf = aligned_buffer(MANY * 512);

	pattern_fill(buf, MANY * 512, 5);
	for (unsigned i = 0; i < MANY; i++) {
		iov[i] = (struct iovec){ buf + i * 512, 512 };
		bios[i] = (struct bio){ .op = BIO_WRITE, .pos_bytes = i * 512, .len_bytes = 512, .iov = &iov[i], .iov_count = 1 };
	}
	assert_int_equal(run_bios(env->dev, bios, MANY), 0);
	memset(buf, 0, MANY * 512);
	for (unsigned i = 0; i < MANY; i++)
		bios[i].op = BIO_READ;
	assert_int_equal(run_bios(env->dev, bios, MANY), 0);
	expect_pattern(buf, MANY * 512, 5);
	free(buf);
	free(iov);
	free(bios);
}

#define PIECES 2500

/* More pieces than IOV_MAX, synchronous and asynchronous. */
static void one_request_may_have_thousands_of_pieces(void **state)
{
	struct env *env = *state;
	struct iovec *iov = calloc(PIECES, sizeof(*iov));
	char *buf = aligned_buffer(PIECES * 1024);
	struct bio bio = { .op = BIO_READ, .pos_bytes = 4096, .len_bytes = PIECES * 512, .iov = iov, .iov_count = PIECES };

	for (unsigned i = 0; i < PIECES; i++) {
		iov[i] = (struct iovec){ buf + i * 1024, 512 };
		pattern_fill(iov[i].iov_base, 512, i);
	}
	assert_int_equal(block_rwv(env->dev, BIO_WRITE, 4096, iov, PIECES, 0), 0);
	memset(buf, 0, PIECES * 1024);
	assert_int_equal(run_bios(env->dev, &bio, 1), 0);
	for (unsigned i = 0; i < PIECES; i++)
		expect_pattern(iov[i].iov_base, 512, i);
	free(buf);
	free(iov);
}

struct chain {
	struct bio bio;
	struct iovec iov;
	_Atomic unsigned left;
	atomic_bool done;
};

static void chain_end_io(struct bio *bio, int err)
{
	struct chain *chain = container_of(bio, struct chain, bio);

	if (err || --chain->left == 0)
		atomic_store(&chain->done, true);
	else
		block_submit(bio);
}

/* end_io submits the next request: 20,000 of them take no stack. */
static void a_long_chain_of_completions_takes_no_stack(void **state)
{
	struct env *env = *state;
	struct chain chain = { .left = env->kind >= KIND_MEMORY && env->kind != KIND_WINDOW ? 20000 : 500 };

	chain.iov = (struct iovec){ aligned_buffer(512), 512 };
	chain.bio = (struct bio){ .dev = env->dev, .op = BIO_READ, .len_bytes = 512, .iov = &chain.iov, .iov_count = 1,
				  .end_io = chain_end_io };
	block_submit(&chain.bio);
	while (!atomic_load(&chain.done))
		sched_yield();
	assert_int_equal(chain.left, 0);
	free(chain.iov.iov_base);
}

static void requests_are_counted_once(void **state)
{
	struct env *env = *state;
	char *buf = aligned_buffer(4096);

	assert_int_equal(block_write(env->dev, 0, buf, 4096, 0), 0);
	assert_int_equal(block_read(env->dev, 0, buf, 4096), 0);
	assert_int_equal(block_read(env->dev, 0, buf, 512), 0);
	assert_int_equal(block_flush(env->dev), 0);
	assert_int_equal(counter_read(env->counters, CNT_DEVICE_WRITES), 1);
	assert_int_equal(counter_read(env->counters, CNT_DEVICE_BYTES_WRITTEN), 4096);
	assert_int_equal(counter_read(env->counters, CNT_DEVICE_READS), 2);
	assert_int_equal(counter_read(env->counters, CNT_DEVICE_BYTES_READ), 4608);
	assert_int_equal(counter_read(env->counters, CNT_DEVICE_FLUSHES), 1);
	free(buf);
}

int main(void)
{
#define DEVICE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(what_is_written_is_read_back),
		DEVICE_TEST(memory_of_any_alignment_will_do),
		DEVICE_TEST(a_range_past_the_end_fails_and_touches_nothing),
		DEVICE_TEST(zeroed_ranges_read_as_zeros_and_end_where_asked),
		DEVICE_TEST(a_discard_spares_its_neighbours),
		DEVICE_TEST(flush_fua_and_preflush_succeed),
		DEVICE_TEST(thousands_in_flight_all_complete),
		DEVICE_TEST(one_request_may_have_thousands_of_pieces),
		DEVICE_TEST(a_long_chain_of_completions_takes_no_stack),
		DEVICE_TEST(requests_are_counted_once),
	};
	int failed = 0;

	for (int kind = 0; kind < KINDS; kind++) {
		next_kind = (enum kind)kind;
		print_message("device kind: %s\n", kind_name[kind]);
		failed += cmocka_run_group_tests(tests, NULL, NULL);
	}
	return failed;
}
