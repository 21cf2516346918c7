/* SPDX-License-Identifier: MIT */
/*
 * device.c - a block device over functions of the embedding program
 *
 * The functions are synchronous, so asynchronous requests are worked off by a few threads; what is asked for
 * synchronously runs on the asking thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_private.h"
#include "base/workqueue.h"

/* Enough to keep a device with some latency busy, few enough to cost nothing when idle. */
#define DEVICE_THREADS 4u

/* Zeroes are written in pieces of this size. */
#define ZEROES_BYTES 65536u

struct user_device {
	struct block_device dev;
	struct uext4_device_ops ops; /* [const] */
	void *arg;                   /* [const] */
	struct workqueue *workers;   /* [const] */
};

static struct user_device *user_of(struct block_device *dev)
{
	return container_of(dev, struct user_device, dev);
}

static int run_rw(struct user_device *user, const struct bio *bio)
{
	uint64_t pos = bio->pos_bytes;
	int err = 0;

	for (unsigned i = 0; i < bio->iov_count && !err; i++) {
		const struct iovec *iov = &bio->iov[i];

		if (!iov->iov_len)
			continue;
		if (bio->op == BIO_READ)
			err = user->ops.read(user->arg, iov->iov_base, iov->iov_len, pos);
		else
			err = user->ops.write(user->arg, iov->iov_base, iov->iov_len, pos);
		pos += iov->iov_len;
	}
	return err;
}

static int run_zeroes(struct user_device *user, const struct bio *bio)
{
	uint64_t done = 0;
	void *zeroes = aligned_alloc(4096, ZEROES_BYTES);
	int err = zeroes ? 0 : -ENOMEM;

	if (zeroes)
		memset(zeroes, 0, ZEROES_BYTES);
	while (!err && done < bio->len_bytes) {
		size_t piece = (size_t)min_of((uint64_t)ZEROES_BYTES, bio->len_bytes - done);

		err = user->ops.write(user->arg, zeroes, piece, bio->pos_bytes + done);
		done += piece;
	}
	free(zeroes);
	return err;
}

static int run_flush(struct user_device *user)
{
	return user->ops.flush ? user->ops.flush(user->arg) : 0;
}

static int user_run(struct block_device *dev, struct bio *bio)
{
	struct user_device *user = user_of(dev);
	int err = bio->flags & BIO_PREFLUSH ? run_flush(user) : 0;

	if (err)
		return err;
	switch (bio->op) {
	case BIO_READ:
	case BIO_WRITE:
		err = run_rw(user, bio);
		break;
	case BIO_FLUSH:
		return run_flush(user);
	case BIO_DISCARD:
		return user->ops.discard ? user->ops.discard(user->arg, bio->len_bytes, bio->pos_bytes) : 0;
	case BIO_WRITE_ZEROES:
		err = run_zeroes(user, bio);
		break;
	}
	if (!err && (bio->flags & BIO_FUA))
		err = run_flush(user);
	return err;
}

/* A caller's function may return anything: only errnos go on. */
static int errno_of(int result)
{
	if (result == 0)
		return 0;
	return result < 0 && result > -4096 ? result : -EIO;
}

static void user_work(struct work *work)
{
	struct bio *bio = container_of(work, struct bio, dev_work);

	bio->end_io(bio, errno_of(user_run(bio->dev, bio)));
}

static void user_submit(struct block_device *dev, struct bio *bio)
{
	work_init(&bio->dev_work, user_work);
	workqueue_add(user_of(dev)->workers, &bio->dev_work);
}

static int user_submit_sync(struct block_device *dev, struct bio *bio)
{
	return errno_of(user_run(dev, bio));
}

static int user_close(struct block_device *dev)
{
	struct user_device *user = user_of(dev);

	workqueue_stop(user->workers);
	if (user->ops.close)
		user->ops.close(user->arg);
	free(user);
	return 0;
}

static const struct block_device_ops user_device_ops = {
	.name = "user",
	.submit = user_submit,
	.submit_sync = user_submit_sync,
	.close = user_close,
};

/* From the first version on there is everything up to close. */
#define DEVICE_OPS_BYTES_MIN (offsetof(struct uext4_device_ops, close) + sizeof(void *))

int api_device_open(const struct uext4_device_ops *ops, void *device, uint64_t size_bytes,
		    struct block_device **dev_out)
{
	struct user_device *user;
	int err;

	if (ops->struct_bytes < DEVICE_OPS_BYTES_MIN || !ops->read)
		return -EINVAL;
	user = calloc(1, sizeof(*user));
	if (!user)
		return -ENOMEM;
	memcpy(&user->ops, ops, min_of(ops->struct_bytes, sizeof(user->ops)));
	user->arg = device;
	user->dev = (struct block_device){
		.ops = &user_device_ops,
		.size_bytes = round_down_to(size_bytes, 512),
		.sector_bytes = 512,
		.read_only = !ops->write,
		.volatile_cache = ops->flush != NULL,
	};
	err = workqueue_start("uext4-device", DEVICE_THREADS, &user->workers);
	if (err) {
		free(user);
		return err;
	}
	*dev_out = &user->dev;
	return 0;
}
