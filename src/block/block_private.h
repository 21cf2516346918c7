/* SPDX-License-Identifier: MIT */
/* block_private.h - shared by the devices of this folder */
#ifndef UEXT4_BLOCK_BLOCK_PRIVATE_H
#define UEXT4_BLOCK_BLOCK_PRIVATE_H

#include "block/block.h"

/*
 * A stacked device's copy of a request: the lower device owns the copy's fields, the original stays as its
 * submitter wrote it. Freed by bio_clone_end().
 */
struct bio_clone {
	struct bio bio;
	struct bio *orig;
};

/* A copy aimed at @lower that completes through @end_io; NULL without memory. */
struct bio_clone *bio_clone_alloc(struct bio *orig, struct block_device *lower,
				  void (*end_io)(struct bio *bio, int err));

static inline struct bio_clone *bio_clone_of(struct bio *bio)
{
	return container_of(bio, struct bio_clone, bio);
}

/* Frees the clone and completes the original. An end_io in its own right. */
void bio_clone_end(struct bio *bio, int err);

/**
 * bio_run_inline() - run a request on this thread and complete it
 * @bio: the request
 * @run: does the work; returns 0 or a negative errno
 *
 * A request submitted by the end_io of another one waits in a queue of the thread until that end_io has
 * returned: a chain of completions takes no stack.
 */
void bio_run_inline(struct bio *bio, int (*run)(struct bio *bio));

/* 0, or why @bio may not go to its device: -EIO out of range, -EROFS. */
int bio_check(const struct bio *bio);

static inline bool bio_op_writes(enum bio_op op)
{
	return op == BIO_WRITE || op == BIO_DISCARD || op == BIO_WRITE_ZEROES;
}

#endif
