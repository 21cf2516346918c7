/* SPDX-License-Identifier: MIT */
/* harness.c - devices of every kind to test, and batches of asynchronous requests */
#include "harness.h"

#include <stdio.h>
#include <unistd.h>

#include "base/lock.h"

char *temp_image(uint64_t size_bytes)
{
	const char *dir = getenv("TMPDIR");
	char *path = NULL;
	int fd;

	assert_true(asprintf(&path, "%s/uext4-block-XXXXXX", dir ? dir : "/var/tmp") > 0);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size_bytes), 0);
	close(fd);
	return path;
}

void temp_image_remove(char *path)
{
	unlink(path);
	free(path);
}

static unsigned char pattern_byte(size_t i, unsigned tag)
{
	return (unsigned char)(i * 7 + (i >> 9) * 13 + tag * 101 + 1);
}

void pattern_fill(void *buf, size_t len_bytes, unsigned tag)
{
	for (size_t i = 0; i < len_bytes; i++)
		((unsigned char *)buf)[i] = pattern_byte(i, tag);
}

void expect_pattern(const void *buf, size_t len_bytes, unsigned tag)
{
	for (size_t i = 0; i < len_bytes; i++) {
		if (((const unsigned char *)buf)[i] != pattern_byte(i, tag))
			fail_msg("byte %zu of pattern %u differs", i, tag);
	}
}

void expect_zeros(const void *buf, size_t len_bytes)
{
	for (size_t i = 0; i < len_bytes; i++) {
		if (((const unsigned char *)buf)[i])
			fail_msg("byte %zu is not zero", i);
	}
}

static struct {
	struct mutex lock;
	struct cond cond;
	unsigned left;
	int err;
} batch;

static void batch_end_io(struct bio *bio, int err)
{
	mutex_lock(&batch.lock);
	assert_true(batch.left > 0);
	batch.left--;
	if (err && !batch.err)
		batch.err = err;
	cond_signal(&batch.cond);
	mutex_unlock(&batch.lock);
}

int run_bios(struct block_device *dev, struct bio *bios, unsigned count)
{
	int err;

	mutex_init(&batch.lock, RANK_WORK);
	cond_init(&batch.cond);
	batch.left = count;
	batch.err = 0;
	block_plug(dev);
	for (unsigned i = 0; i < count; i++) {
		bios[i].dev = dev;
		bios[i].end_io = batch_end_io;
		block_submit(&bios[i]);
	}
	block_unplug(dev);
	mutex_lock(&batch.lock);
	while (batch.left)
		cond_wait(&batch.cond, &batch.lock);
	err = batch.err;
	mutex_unlock(&batch.lock);
	cond_exit(&batch.cond);
	mutex_exit(&batch.lock);
	return err;
}

void *aligned_buffer(size_t len_bytes)
{
	void *buf = NULL;

	assert_int_equal(posix_memalign(&buf, 4096, len_bytes), 0);
	memset(buf, 0xEE, len_bytes);
	return buf;
}
