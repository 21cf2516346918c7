/* SPDX-License-Identifier: MIT */
/* window.c - a range of a lower device as a device: a partition, or an image at an offset */
#include <errno.h>
#include <stdlib.h>

#include "block/block_private.h"

struct window_device {
	struct block_device dev;
	struct block_device *lower; /* [const] owned */
	uint64_t start_bytes;       /* [const] */
};

static struct window_device *window_of(struct block_device *dev)
{
	return container_of(dev, struct window_device, dev);
}

static void window_submit(struct block_device *dev, struct bio *bio)
{
	struct window_device *win = window_of(dev);
	struct bio_clone *clone = bio_clone_alloc(bio, win->lower, bio_clone_end);

	if (!clone) {
		bio->end_io(bio, -ENOMEM);
		return;
	}
	clone->bio.pos_bytes += win->start_bytes;
	win->lower->ops->submit(win->lower, &clone->bio);
}

static int window_submit_sync(struct block_device *dev, struct bio *bio)
{
	struct window_device *win = window_of(dev);
	struct bio shifted = *bio;

	shifted.dev = win->lower;
	shifted.pos_bytes += win->start_bytes;
	return win->lower->ops->submit_sync(win->lower, &shifted);
}

static int window_direct_access(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes, void **addr_out)
{
	struct window_device *win = window_of(dev);

	if (pos_bytes > dev->size_bytes || len_bytes > dev->size_bytes - pos_bytes)
		return -EIO;
	return win->lower->ops->direct_access(win->lower, win->start_bytes + pos_bytes, len_bytes, addr_out);
}

static ssize_t window_splice(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes, int pipe_fd)
{
	struct window_device *win = window_of(dev);

	return block_splice(win->lower, win->start_bytes + pos_bytes, len_bytes, pipe_fd);
}

static void window_plug(struct block_device *dev)
{
	block_plug(window_of(dev)->lower);
}

static void window_unplug(struct block_device *dev)
{
	block_unplug(window_of(dev)->lower);
}

static int window_close(struct block_device *dev)
{
	struct window_device *win = window_of(dev);
	int err = block_close(win->lower);

	free(win);
	return err;
}

#define WINDOW_OPS_COMMON .name = "window", .submit = window_submit, .splice = window_splice, \
			  .plug = window_plug, .unplug = window_unplug, .close = window_close

/* A window offers what its lower device offers, so that callers see the truth in ops. */
static const struct block_device_ops window_ops[2][2] = {
	{ { WINDOW_OPS_COMMON }, { WINDOW_OPS_COMMON, .direct_access = window_direct_access } },
	{ { WINDOW_OPS_COMMON, .submit_sync = window_submit_sync },
	  { WINDOW_OPS_COMMON, .submit_sync = window_submit_sync, .direct_access = window_direct_access } },
};

int block_open_window(struct block_device *lower, uint64_t start_bytes, uint64_t len_bytes, struct block_device **dev_out)
{
	struct window_device *win;

	if (start_bytes % lower->sector_bytes || !len_bytes || start_bytes > lower->size_bytes ||
	    len_bytes > lower->size_bytes - start_bytes)
		return -EINVAL;
	win = calloc(1, sizeof(*win));
	if (!win)
		return -ENOMEM;
	win->lower = lower;
	win->start_bytes = start_bytes;
	win->dev = *lower;
	win->dev.ops = &window_ops[!!lower->ops->submit_sync][!!lower->ops->direct_access];
	win->dev.size_bytes = len_bytes;
	lower->counters = NULL; /* a request is counted once, where it enters */
	*dev_out = &win->dev;
	return 0;
}
