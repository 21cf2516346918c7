/* SPDX-License-Identifier: MIT */
/* test_overlay.c - the lower device never changes; what was written reads back */
#include "block/overlay.h"

#include <errno.h>
#include <pthread.h>

#include "block/random.h"
#include "harness.h"

#define BYTES ((uint64_t)20 << 20) /* more than one leaf of the table */

static char *bytes;

static struct block_device *open_overlay(void)
{
	struct block_device *lower, *ov;

	bytes = aligned_buffer(BYTES);
	pattern_fill(bytes, BYTES, 0);
	assert_int_equal(block_open_memory(BYTES, bytes, &lower), 0);
	lower->read_only = true;
	assert_int_equal(block_open_overlay(lower, &ov), 0);
	return ov;
}

static void close_overlay(struct block_device *ov)
{
	assert_int_equal(block_close(ov), 0);
	expect_pattern(bytes, BYTES, 0);
	free(bytes);
}

static void a_device_over_a_read_only_one_takes_writes(void **state)
{
	struct block_device *ov = open_overlay();
	char *buf = aligned_buffer(12288), *expected = aligned_buffer(12288);

	pattern_fill(expected, 12288, 0);
	memset(expected + 4096 + 512, 0x77, 1024);
	assert_int_equal(block_write(ov, 4096 + 512, expected + 4096 + 512, 1024, 0), 0);
	assert_int_equal(block_read(ov, 0, buf, 12288), 0);
	assert_memory_equal(buf, expected, 12288);
	assert_int_equal(overlay_bytes(ov), 4096);
	free(expected);
	free(buf);
	close_overlay(ov);
}

static void zeros_hide_the_lower_bytes_and_cost_no_memory(void **state)
{
	struct block_device *ov = open_overlay();
	char *buf = aligned_buffer(65536);

	assert_int_equal(block_write(ov, 0, buf, 65536, 0), 0);
	assert_int_equal(overlay_bytes(ov), 65536);
	assert_int_equal(block_write_zeroes(ov, 0, 65536), 0);
	assert_int_equal(overlay_bytes(ov), 0);
	assert_int_equal(block_read(ov, 0, buf, 65536), 0);
	expect_zeros(buf, 65536);
	memset(buf, 0x33, 512);
	assert_int_equal(block_write(ov, 512, buf, 512, 0), 0);
	assert_int_equal(block_read(ov, 0, buf, 4096), 0);
	expect_zeros(buf, 512);
	assert_int_equal(buf[512], 0x33);
	expect_zeros(buf + 1024, 3072);
	free(buf);
	close_overlay(ov);
}

static void less_than_a_sector_is_refused(void **state)
{
	struct block_device *ov = open_overlay();
	char buf[100] = "";

	assert_int_equal(block_write(ov, 512, buf, sizeof(buf), 0), -EINVAL);
	close_overlay(ov);
}

#define STEPS 2000

/* Against a plain copy: the same random writes, zeroings and reads give the same bytes. */
static void random_operations_agree_with_a_copy(void **state)
{
	struct block_device *ov = open_overlay();
	struct random rnd = random_make(11);
	char *model = malloc(BYTES), *buf = aligned_buffer(65536);

	memcpy(model, bytes, BYTES);
	for (int i = 0; i < STEPS; i++) {
		uint64_t len = 512 * (1 + random_below(&rnd, 128));
		uint64_t pos = 512 * random_below(&rnd, (BYTES - len) / 512);

		switch (random_below(&rnd, 3)) {
		case 0:
			pattern_fill(buf, len, (unsigned)i);
			memcpy(model + pos, buf, len);
			assert_int_equal(block_write(ov, pos, buf, len, 0), 0);
			break;
		case 1:
			memset(model + pos, 0, len);
			assert_int_equal(block_write_zeroes(ov, pos, len), 0);
			break;
		default:
			assert_int_equal(block_read(ov, pos, buf, len), 0);
			assert_memory_equal(buf, model + pos, len);
			break;
		}
	}
	free(buf);
	free(model);
	close_overlay(ov);
}

#define THREADS      4
#define THREAD_STEPS 500

static void *own_stripe(void *arg)
{
	struct block_device *ov = ((struct block_device **)arg)[0];
	unsigned self = (unsigned)(uintptr_t)((void **)arg)[1];
	char *buf = aligned_buffer(512);
	int err = 0;

	/* Sectors of one chunk belong to different threads. */
	for (unsigned i = 0; i < THREAD_STEPS && !err; i++) {
		uint64_t pos = 512 * (uint64_t)(i * THREADS + self);

		pattern_fill(buf, 512, i + self);
		err = block_write(ov, pos, buf, 512, 0);
		memset(buf, 0, 512);
		if (!err)
			err = block_read(ov, pos, buf, 512);
		if (!err)
			expect_pattern(buf, 512, i + self);
	}
	free(buf);
	return (void *)(intptr_t)err;
}

static void threads_share_chunks_without_losing_sectors(void **state)
{
	struct block_device *ov = open_overlay();
	void *args[THREADS][2];
	pthread_t thread[THREADS];
	char buf[512];
	void *err;

	for (unsigned i = 0; i < THREADS; i++) {
		args[i][0] = ov;
		args[i][1] = (void *)(uintptr_t)i;
		assert_int_equal(pthread_create(&thread[i], NULL, own_stripe, args[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &err);
		assert_null(err);
	}
	for (unsigned i = 0; i < THREADS * THREAD_STEPS; i++) {
		assert_int_equal(block_read(ov, 512 * (uint64_t)i, buf, 512), 0);
		expect_pattern(buf, 512, i / THREADS + i % THREADS);
	}
	close_overlay(ov);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_over_a_read_only_one_takes_writes),
		cmocka_unit_test(zeros_hide_the_lower_bytes_and_cost_no_memory),
		cmocka_unit_test(less_than_a_sector_is_refused),
		cmocka_unit_test(random_operations_agree_with_a_copy),
		cmocka_unit_test(threads_share_chunks_without_losing_sectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
