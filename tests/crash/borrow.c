/* SPDX-License-Identifier: MIT */
/* borrow.c - a device over one that outlives it: the log of a recorded run is wanted after the unmount */
#include <errno.h>
#include <stdlib.h>

#include "block/block_private.h"
#include "crash.h"

struct borrow_device {
	struct block_device dev;
	struct block_device *lower;
};

static void borrow_submit(struct block_device *dev, struct bio *bio)
{
	struct bio_clone *clone = bio_clone_alloc(bio, container_of(dev, struct borrow_device, dev)->lower, bio_clone_end);

	if (clone)
		block_submit(&clone->bio);
	else
		bio->end_io(bio, -ENOMEM);
}

static int borrow_close(struct block_device *dev)
{
	free(container_of(dev, struct borrow_device, dev));
	return 0;
}

static const struct block_device_ops borrow_ops = {
	.name = "borrow",
	.submit = borrow_submit,
	.close = borrow_close,
};

int block_open_borrow(struct block_device *lower, struct block_device **dev_out)
{
	struct borrow_device *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->lower = lower;
	b->dev = *lower;
	b->dev.ops = &borrow_ops;
	*dev_out = &b->dev;
	return 0;
}
