/* SPDX-License-Identifier: MIT */
/*
 * late.c - a device that takes its time: writes complete a while after they were submitted, but for those to the journal
 *
 * A device in memory completes each write before its submitter goes on, so that nothing ever overtakes it. Here commits
 * overtake data that was written back before. While it is told to hold, writes wait until it is told otherwise, or so long
 * that somebody must be waiting for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/lock.h"
#include "base/thread.h"
#include "block/block_private.h"
#include "crash.h"

#define DELAY_NS 1000000u
#define HOLD_NS UINT64_C(300000000)

struct late_device {
	struct block_device dev;
	struct block_device *lower; /* [const] owned */
	uint64_t log_start, log_end; /* [const] the journal lies there, in bytes */
	struct mutex lock;
	struct cond wake;
	struct list_head queue;     /* [lock] struct bio */
	bool stop, hold;            /* [lock] */
	pthread_t thread;
};

static struct late_device *late_of(struct block_device *dev)
{
	return container_of(dev, struct late_device, dev);
}

static void pass_on(struct late_device *late, struct bio *bio)
{
	struct bio_clone *clone = bio_clone_alloc(bio, late->lower, bio_clone_end);

	if (clone)
		block_submit(&clone->bio);
	else
		bio->end_io(bio, -ENOMEM);
}

static void late_submit(struct block_device *dev, struct bio *bio)
{
	struct late_device *late = late_of(dev);

	if (bio->op != BIO_WRITE || bio->flags || (bio->pos_bytes >= late->log_start && bio->pos_bytes < late->log_end)) {
		pass_on(late, bio);
		return;
	}
	mutex_lock(&late->lock);
	list_add_tail(&bio->node, &late->queue);
	cond_signal(&late->wake);
	mutex_unlock(&late->lock);
}

void late_hold(struct block_device *dev, bool hold)
{
	struct late_device *late = late_of(dev);

	mutex_lock(&late->lock);
	late->hold = hold;
	cond_signal(&late->wake);
	mutex_unlock(&late->lock);
}

/* Lock held, dropped meanwhile. */
static void wait_while_held(struct late_device *late)
{
	bool in_time = true;

	while (late->hold && !late->stop && in_time)
		in_time = cond_wait_timeout(&late->wake, &late->lock, HOLD_NS);
}

static void *late_thread(void *arg)
{
	const struct timespec delay = { .tv_nsec = DELAY_NS };
	struct late_device *late = arg;

	mutex_lock(&late->lock);
	while (!late->stop || !list_empty(&late->queue)) {
		struct list_head due = LIST_INIT(due);

		if (list_empty(&late->queue)) {
			cond_wait(&late->wake, &late->lock);
			continue;
		}
		wait_while_held(late);
		list_splice_tail(&late->queue, &due);
		mutex_unlock(&late->lock);
		nanosleep(&delay, NULL);
		while (!list_empty(&due)) {
			struct bio *bio = list_first(&due, struct bio, node);

			list_del(&bio->node);
			pass_on(late, bio);
		}
		mutex_lock(&late->lock);
	}
	mutex_unlock(&late->lock);
	return NULL;
}

static int late_close(struct block_device *dev)
{
	struct late_device *late = late_of(dev);
	int err;

	mutex_lock(&late->lock);
	late->stop = true;
	cond_signal(&late->wake);
	mutex_unlock(&late->lock);
	pthread_join(late->thread, NULL);
	err = block_close(late->lower);
	cond_exit(&late->wake);
	mutex_exit(&late->lock);
	free(late);
	return err;
}

static const struct block_device_ops late_ops = {
	.name = "late",
	.submit = late_submit,
	.close = late_close,
};

int block_open_late(struct block_device *lower, const struct base *base, struct block_device **dev_out)
{
	struct late_device *late = calloc(1, sizeof(*late));
	int err;

	if (!late)
		return -ENOMEM;
	late->lower = lower;
	late->log_start = (uint64_t)base->log_blks[0] * base->format->block_bytes;
	late->log_end = (base->log_blks[base->log_count - 1] + UINT64_C(1)) * base->format->block_bytes;
	late->dev = *lower;
	late->dev.ops = &late_ops;
	mutex_init(&late->lock, RANK_DEVICE);
	cond_init(&late->wake);
	list_init(&late->queue);
	err = thread_start("late", late_thread, late, &late->thread);
	if (err) {
		free(late);
		return err;
	}
	*dev_out = &late->dev;
	return 0;
}
