/* SPDX-License-Identifier: MIT */
/* test_blockdev.c - a block device with sectors of 4096 bytes; needs root and loop devices, skipped elsewhere */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "block/random.h"
#include "harness.h"

#define SECTOR 4096u
#define LOOP_TRIES 8 /* another process may take the free number first */

struct env {
	char *path;
	char device[32];
	int loop_fd;
	struct block_device *dev;
};

static int loop_attach_once(struct env *env, int image_fd)
{
	struct loop_config config = { .fd = (uint32_t)image_fd, .block_size = SECTOR };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number;

	if (control < 0)
		return -errno;
	number = ioctl(control, LOOP_CTL_GET_FREE);
	close(control);
	if (number < 0)
		return -errno;
	snprintf(env->device, sizeof(env->device), "/dev/loop%d", number);
	env->loop_fd = open(env->device, O_RDWR | O_CLOEXEC);
	if (env->loop_fd < 0)
		return -errno;
	if (!ioctl(env->loop_fd, LOOP_CONFIGURE, &config))
		return 0;
	close(env->loop_fd);
	return -errno;
}

static bool loop_attach(struct env *env)
{
	int fd = open(env->path, O_RDWR | O_CLOEXEC);
	int err = -EBUSY;

	for (int i = 0; i < LOOP_TRIES && err == -EBUSY; i++)
		err = loop_attach_once(env, fd);
	close(fd);
	return !err;
}

static int setup(void **state)
{
	struct env *env = calloc(1, sizeof(*env));

	env->path = temp_image(DEV_BYTES);
	*state = env;
	if (!loop_attach(env)) {
		print_message("no loop device here\n");
		env->device[0] = '\0';
		return 0;
	}
	assert_int_equal(block_open_file(env->device, 0, NULL, &env->dev), 0);
	return 0;
}

static int teardown(void **state)
{
	struct env *env = *state;

	if (env->device[0]) {
		assert_int_equal(block_close(env->dev), 0);
		ioctl(env->loop_fd, LOOP_CLR_FD);
		close(env->loop_fd);
	}
	temp_image_remove(env->path);
	free(env);
	return 0;
}

static struct block_device *device_or_skip(void **state)
{
	struct env *env = *state;

	if (!env->device[0])
		skip();
	return env->dev;
}

static void its_size_and_sector_are_those_of_the_device(void **state)
{
	struct block_device *dev = device_or_skip(state);

	assert_int_equal(dev->size_bytes, DEV_BYTES);
	assert_int_equal(dev->sector_bytes, SECTOR);
}

static void a_second_user_is_refused(void **state)
{
	struct block_device *dev = device_or_skip(state), *second;
	struct env *env = *state;

	assert_non_null(dev);
	assert_int_equal(block_open_file(env->device, 0, NULL, &second), -EBUSY);
	assert_int_equal(block_open_file(env->device, BLOCK_OPEN_READ_ONLY | BLOCK_OPEN_NO_LOCK, NULL, &second), 0);
	assert_int_equal(block_close(second), 0);
}

/* Requests of 512 bytes are less than the device takes at once. */
static void parts_of_sectors_agree_with_a_copy(void **state)
{
	struct block_device *dev = device_or_skip(state);
	char *model = calloc(1, 65536), *buf = aligned_buffer(65536);
	struct random rnd = random_make(5);

	for (unsigned i = 0; i < 200; i++) {
		uint64_t len = 512 * (1 + random_below(&rnd, 32));
		uint64_t pos = 512 * random_below(&rnd, (65536 - len) / 512);
		uint64_t kind = random_below(&rnd, 4);

		if (kind == 0) {
			memset(model + pos, 0, len);
			assert_int_equal(block_write_zeroes(dev, pos, len), 0);
		} else if (kind < 3) {
			pattern_fill(model + pos, len, i);
			assert_int_equal(block_write(dev, pos, model + pos, len, kind == 2 ? BIO_FUA : 0), 0);
		}
		assert_int_equal(block_read(dev, 0, buf, 65536), 0);
		assert_memory_equal(buf, model, 65536);
	}
	free(buf);
	free(model);
}

#define THREADS 8
#define ROUNDS  32

struct part_writer {
	struct block_device *dev;
	unsigned self;
	int err;
};

static void *write_own_part(void *arg)
{
	struct part_writer *writer = arg;
	char *buf = aligned_buffer(512);

	for (unsigned i = 0; i < ROUNDS && !writer->err; i++) {
		pattern_fill(buf, 512, i + writer->self);
		writer->err = block_write(writer->dev, i * SECTOR + writer->self * 512, buf, 512, 0);
	}
	free(buf);
	return NULL;
}

/* Eight threads write the eight parts of one sector at the same time: no part is lost. */
static void writers_of_one_sector_do_not_lose_each_other(void **state)
{
	struct block_device *dev = device_or_skip(state);
	struct part_writer writer[THREADS];
	pthread_t thread[THREADS];
	char *buf = aligned_buffer(SECTOR);

	for (unsigned t = 0; t < THREADS; t++) {
		writer[t] = (struct part_writer){ .dev = dev, .self = t };
		assert_int_equal(pthread_create(&thread[t], NULL, write_own_part, &writer[t]), 0);
	}
	for (unsigned t = 0; t < THREADS; t++) {
		pthread_join(thread[t], NULL);
		assert_int_equal(writer[t].err, 0);
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		assert_int_equal(block_read(dev, i * SECTOR, buf, SECTOR), 0);
		for (unsigned t = 0; t < THREADS; t++)
			expect_pattern(buf + t * 512, 512, i + t);
	}
	free(buf);
}

static void asynchronous_parts_and_wholes_are_written_and_flushed(void **state)
{
	struct block_device *dev = device_or_skip(state);
	char *buf = aligned_buffer(3 * SECTOR);
	struct iovec iov[2] = { { buf, 1024 }, { buf + SECTOR, SECTOR } };
	struct bio bios[3] = {
		{ .op = BIO_WRITE, .pos_bytes = 1024, .len_bytes = 1024, .iov = &iov[0], .iov_count = 1 },
		{ .op = BIO_WRITE, .pos_bytes = SECTOR, .len_bytes = SECTOR, .flags = BIO_FUA, .iov = &iov[1], .iov_count = 1 },
		{ .op = BIO_FLUSH },
	};

	pattern_fill(buf, 1024, 1);
	pattern_fill(buf + SECTOR, SECTOR, 2);
	assert_int_equal(run_bios(dev, bios, 3), 0);
	memset(buf, 0xCC, 3 * SECTOR);
	assert_int_equal(block_read(dev, 0, buf, 2 * SECTOR), 0);
	expect_zeros(buf, 1024);
	expect_pattern(buf + 1024, 1024, 1);
	expect_zeros(buf + 2048, 2048);
	expect_pattern(buf + SECTOR, SECTOR, 2);
	free(buf);
}

int main(void)
{
#define DEVICE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(its_size_and_sector_are_those_of_the_device),
		DEVICE_TEST(a_second_user_is_refused),
		DEVICE_TEST(parts_of_sectors_agree_with_a_copy),
		DEVICE_TEST(writers_of_one_sector_do_not_lose_each_other),
		DEVICE_TEST(asynchronous_parts_and_wholes_are_written_and_flushed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
