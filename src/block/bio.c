/* SPDX-License-Identifier: MIT */
/* bio.c - what every device needs to do with a request */
#include "block/block_private.h"

#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "block/iov.h"

struct bio_clone *bio_clone_alloc(struct bio *orig, struct block_device *lower,
				  void (*end_io)(struct bio *bio, int err))
{
	struct bio_clone *clone = malloc(sizeof(*clone));

	if (!clone)
		return NULL;
	clone->orig = orig;
	clone->bio = (struct bio){
		.dev = lower,
		.op = orig->op,
		.flags = orig->flags,
		.pos_bytes = orig->pos_bytes,
		.len_bytes = orig->len_bytes,
		.iov = orig->iov,
		.iov_count = orig->iov_count,
		.end_io = end_io,
	};
	return clone;
}

void bio_clone_end(struct bio *bio, int err)
{
	struct bio_clone *clone = bio_clone_of(bio);
	struct bio *orig = clone->orig;

	free(clone);
	orig->end_io(orig, err);
}

/* The function waits in dev_private[0]: POSIX lets a function pointer through void *. */
static __thread struct {
	bool running;
	struct list_head waiting;
} inline_bios;

void bio_run_inline(struct bio *bio, int (*run)(struct bio *bio))
{
	bio->dev_private[0] = (void *)run;
	if (inline_bios.running) {
		list_add_tail(&bio->node, &inline_bios.waiting);
		return;
	}
	inline_bios.running = true;
	list_init(&inline_bios.waiting);
	list_add(&bio->node, &inline_bios.waiting);
	while (!list_empty(&inline_bios.waiting)) {
		bio = list_first(&inline_bios.waiting, struct bio, node);
		list_del(&bio->node);
		run = (int (*)(struct bio *))bio->dev_private[0];
		bio->end_io(bio, run(bio));
	}
	inline_bios.running = false;
}

int bio_check(const struct bio *bio)
{
	const struct block_device *dev = bio->dev;

	if (bio->op == BIO_FLUSH)
		return 0;
	if (bio_op_writes(bio->op) && dev->read_only)
		return -EROFS;
	if (bio->pos_bytes > dev->size_bytes || bio->len_bytes > dev->size_bytes - bio->pos_bytes)
		return -EIO;
	if (bio->op == BIO_READ || bio->op == BIO_WRITE)
		UEXT4_DEBUG_ASSERT(iov_total_bytes(bio->iov, bio->iov_count) == bio->len_bytes);
	return 0;
}
