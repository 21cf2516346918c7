/* SPDX-License-Identifier: MIT */
/* block.c - the calls every device shares: checks, counters, synchronous forms */
#include "block/block.h"

#include <errno.h>

#include "base/lock.h"
#include "block/block_private.h"
#include "block/iov.h"

static void block_count(const struct bio *bio)
{
	struct counters *c = bio->dev->counters;

	if (!c)
		return;
	switch (bio->op) {
	case BIO_READ:
		counter_add(c, CNT_DEVICE_READS, 1);
		counter_add(c, CNT_DEVICE_BYTES_READ, (int64_t)bio->len_bytes);
		break;
	case BIO_WRITE:
		counter_add(c, CNT_DEVICE_WRITES, 1);
		counter_add(c, CNT_DEVICE_BYTES_WRITTEN, (int64_t)bio->len_bytes);
		if (bio->flags & BIO_PREFLUSH)
			counter_add(c, CNT_DEVICE_FLUSHES, 1);
		break;
	case BIO_FLUSH:
		counter_add(c, CNT_DEVICE_FLUSHES, 1);
		break;
	case BIO_DISCARD:
	case BIO_WRITE_ZEROES:
		counter_add(c, CNT_DEVICE_WRITES, 1); /* no bytes are handed over */
		break;
	}
}

/* Nothing to do but for the flush that a write may carry. */
static bool bio_is_empty(const struct bio *bio)
{
	return !bio->len_bytes && bio->op != BIO_FLUSH && !(bio->flags & BIO_PREFLUSH);
}

void block_submit(struct bio *bio)
{
	int err = bio_check(bio);

	if (err || bio_is_empty(bio)) {
		bio->end_io(bio, err);
		return;
	}
	block_count(bio);
	bio->dev->ops->submit(bio->dev, bio);
}

void block_plug(struct block_device *dev)
{
	if (dev->ops->plug)
		dev->ops->plug(dev);
}

void block_unplug(struct block_device *dev)
{
	if (dev->ops->unplug)
		dev->ops->unplug(dev);
}

#define SYNC_PENDING 1u
#define SYNC_WAITERS 2u

struct sync_wait {
	_Atomic uint32_t state;
	int err;
};

static void sync_end_io(struct bio *bio, int err)
{
	struct sync_wait *wait = bio->private_data;

	wait->err = err;
	word_bit_unlock(&wait->state, SYNC_PENDING, SYNC_WAITERS);
}

static int block_submit_and_wait(struct bio *bio)
{
	struct sync_wait wait = { .state = SYNC_PENDING };

	bio->end_io = sync_end_io;
	bio->private_data = &wait;
	bio->dev->ops->submit(bio->dev, bio);
	word_bit_wait_clear(&wait.state, SYNC_PENDING, SYNC_WAITERS);
	return wait.err;
}

static int block_run(struct bio *bio)
{
	struct block_device *dev = bio->dev;
	int err = bio_check(bio);

	if (err || bio_is_empty(bio))
		return err;
	block_count(bio);
	if (dev->ops->submit_sync)
		return dev->ops->submit_sync(dev, bio);
	return block_submit_and_wait(bio);
}

int block_rwv(struct block_device *dev, enum bio_op op, uint64_t pos_bytes, struct iovec *iov, unsigned iov_count,
	      unsigned flags)
{
	struct bio bio = { .dev = dev, .op = op, .flags = flags, .pos_bytes = pos_bytes, .iov = iov,
			   .iov_count = iov_count, .len_bytes = iov_total_bytes(iov, iov_count) };

	return block_run(&bio);
}

ssize_t block_splice(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes, int pipe_fd)
{
	ssize_t moved;

	if (!dev->ops->splice)
		return -EOPNOTSUPP;
	if (pos_bytes > dev->size_bytes || len_bytes > dev->size_bytes - pos_bytes)
		return -EIO;
	moved = dev->ops->splice(dev, pos_bytes, len_bytes, pipe_fd);
	if (moved > 0 && dev->counters) {
		counter_add(dev->counters, CNT_DEVICE_READS, 1);
		counter_add(dev->counters, CNT_DEVICE_BYTES_READ, moved);
	}
	return moved;
}

int block_read(struct block_device *dev, uint64_t pos_bytes, void *buf, size_t len_bytes)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len_bytes };

	return block_rwv(dev, BIO_READ, pos_bytes, &iov, 1, 0);
}

int block_write(struct block_device *dev, uint64_t pos_bytes, const void *buf, size_t len_bytes, unsigned flags)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len_bytes };

	return block_rwv(dev, BIO_WRITE, pos_bytes, &iov, 1, flags);
}

int block_flush(struct block_device *dev)
{
	struct bio bio = { .dev = dev, .op = BIO_FLUSH };

	return block_run(&bio);
}

int block_discard(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes)
{
	struct bio bio = { .dev = dev, .op = BIO_DISCARD, .pos_bytes = pos_bytes, .len_bytes = len_bytes };

	return block_run(&bio);
}

int block_write_zeroes(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes)
{
	struct bio bio = { .dev = dev, .op = BIO_WRITE_ZEROES, .pos_bytes = pos_bytes, .len_bytes = len_bytes };

	return block_run(&bio);
}

int block_close(struct block_device *dev)
{
	return dev->ops->close(dev);
}
