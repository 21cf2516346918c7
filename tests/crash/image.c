/* SPDX-License-Identifier: MIT */
/* image.c - an image in a file in memory that knows which of its chunks were changed, so that going back is cheap */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "block/block_private.h"
#include "block/iov.h"
#include "crash.h"

#define WORD_BITS 64u
#define WORDS_MAX (IMAGE_BYTES_MAX / CHUNK_BYTES / WORD_BITS)

int image_open(struct image *image)
{
	*image = (struct image){ .fd = memfd_create("crash", 0) };
	image->touched = calloc(WORDS_MAX, sizeof(*image->touched));
	if (image->fd < 0 || !image->touched || ftruncate(image->fd, IMAGE_BYTES_MAX))
		return -ENOMEM;
	image->bytes = mmap(NULL, IMAGE_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, image->fd, 0);
	if (image->bytes == MAP_FAILED)
		return -ENOMEM;
	snprintf(image->path, sizeof(image->path), "/proc/%d/fd/%d", (int)getpid(), image->fd);
	return 0;
}

void image_close(struct image *image)
{
	munmap(image->bytes, IMAGE_BYTES_MAX);
	close(image->fd);
	free(image->touched);
}

void image_use(struct image *image, const struct base *base)
{
	image->base = base;
	if (ftruncate(image->fd, (off_t)base->size_bytes))
		abort();
	memcpy(image->bytes, base->bytes, base->size_bytes);
	memset(image->touched, 0, WORDS_MAX * sizeof(*image->touched));
}

/* Calls @func for each chunk that was touched. */
static void for_each_touched(const struct image *image, void (*func)(const struct image *image, size_t chunk, void *arg), void *arg)
{
	for (size_t w = 0; w < WORDS_MAX; w++)
		for (uint64_t bits = image->touched[w]; bits; bits &= bits - 1)
			func(image, w * WORD_BITS + (unsigned)__builtin_ctzll(bits), arg);
}

static void put_back(const struct image *image, size_t chunk, void *arg)
{
	(void)arg;
	memcpy(image->bytes + chunk * CHUNK_BYTES, image->base->bytes + chunk * CHUNK_BYTES, CHUNK_BYTES);
}

void image_reset(struct image *image)
{
	for_each_touched(image, put_back, NULL);
	memset(image->touched, 0, WORDS_MAX * sizeof(*image->touched));
}

void image_restore(struct image *image, uint64_t pos_bytes, uint64_t len_bytes)
{
	for (uint64_t c = pos_bytes / CHUNK_BYTES; c * CHUNK_BYTES < pos_bytes + len_bytes; c++) {
		uint64_t bit = UINT64_C(1) << c % WORD_BITS;

		if (!(image->touched[c / WORD_BITS] & bit))
			continue;
		put_back(image, c, NULL);
		image->touched[c / WORD_BITS] &= ~bit;
	}
}

static void touch(struct image *image, uint64_t pos_bytes, uint64_t len_bytes)
{
	for (uint64_t c = pos_bytes / CHUNK_BYTES; c * CHUNK_BYTES < pos_bytes + len_bytes; c++)
		__atomic_fetch_or(&image->touched[c / WORD_BITS], UINT64_C(1) << c % WORD_BITS, __ATOMIC_RELAXED);
}

void image_write(struct image *image, uint64_t pos_bytes, const void *bytes, size_t len_bytes)
{
	touch(image, pos_bytes, len_bytes);
	if (bytes)
		memcpy(image->bytes + pos_bytes, bytes, len_bytes);
	else
		memset(image->bytes + pos_bytes, 0, len_bytes);
}

static void add_hash(const struct image *image, size_t chunk, void *arg)
{
	uint64_t *sum = arg;

	*sum -= image->base->chunk_hash[chunk];
	*sum += hash_mix(hash_bytes(image->bytes + chunk * CHUNK_BYTES, CHUNK_BYTES), chunk);
}

uint64_t image_hash(const struct image *image)
{
	uint64_t sum = image->base->hash;

	for_each_touched(image, add_hash, &sum);
	return sum;
}

/* ---- as a device ---- */

struct image_device {
	struct block_device dev;
	struct image *image;
};

static int image_run(struct bio *bio)
{
	struct image *image = container_of(bio->dev, struct image_device, dev)->image;
	struct iov_cursor cur = iov_cursor_make(bio->iov, bio->iov_count, 0);

	switch (bio->op) {
	case BIO_READ:
		iov_copy_to(&cur, image->bytes + bio->pos_bytes, bio->len_bytes);
		return 0;
	case BIO_WRITE:
		touch(image, bio->pos_bytes, bio->len_bytes);
		iov_copy_from(&cur, image->bytes + bio->pos_bytes, bio->len_bytes);
		return 0;
	case BIO_WRITE_ZEROES:
	case BIO_DISCARD:
		image_write(image, bio->pos_bytes, NULL, bio->len_bytes);
		return 0;
	case BIO_FLUSH:
		return 0;
	}
	return -EOPNOTSUPP;
}

static void image_submit(struct block_device *dev, struct bio *bio)
{
	(void)dev;
	bio_run_inline(bio, image_run);
}

static int image_submit_sync(struct block_device *dev, struct bio *bio)
{
	(void)dev;
	return image_run(bio);
}

static int image_device_close(struct block_device *dev)
{
	free(container_of(dev, struct image_device, dev));
	return 0;
}

static const struct block_device_ops image_ops = {
	.name = "image",
	.submit = image_submit,
	.submit_sync = image_submit_sync,
	.close = image_device_close,
};

int image_device(struct image *image, struct block_device **dev_out)
{
	struct image_device *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->image = image;
	d->dev = (struct block_device){ .ops = &image_ops, .size_bytes = image->base->size_bytes, .sector_bytes = 512,
					.volatile_cache = true };
	*dev_out = &d->dev;
	return 0;
}
