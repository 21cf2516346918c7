/* SPDX-License-Identifier: MIT */
/* memory.c - a block device in memory, with direct access to its bytes */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "block/block_private.h"
#include "block/iov.h"

struct memory_device {
	struct block_device dev; /* first: devices are found by it */
	char *bytes;             /* [const] */
	bool owned;              /* [const] mapped by us */
};

static struct memory_device *memory_of(struct block_device *dev)
{
	return container_of(dev, struct memory_device, dev);
}

static int memory_run(struct bio *bio)
{
	char *at = memory_of(bio->dev)->bytes + bio->pos_bytes;
	struct iov_cursor cur = iov_cursor_make(bio->iov, bio->iov_count, 0);

	switch (bio->op) {
	case BIO_READ:
		iov_copy_to(&cur, at, bio->len_bytes);
		return 0;
	case BIO_WRITE:
		iov_copy_from(&cur, at, bio->len_bytes);
		return 0;
	case BIO_WRITE_ZEROES:
	case BIO_DISCARD: /* what a discard leaves is ours to choose: zeros make runs repeatable */
		memset(at, 0, bio->len_bytes);
		return 0;
	case BIO_FLUSH:
		return 0;
	}
	return -EOPNOTSUPP;
}

static void memory_submit(struct block_device *dev, struct bio *bio)
{
	bio_run_inline(bio, memory_run);
}

static int memory_submit_sync(struct block_device *dev, struct bio *bio)
{
	return memory_run(bio);
}

static int memory_direct_access(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes, void **addr_out)
{
	if (pos_bytes > dev->size_bytes || len_bytes > dev->size_bytes - pos_bytes)
		return -EIO;
	*addr_out = memory_of(dev)->bytes + pos_bytes;
	return 0;
}

static int memory_close(struct block_device *dev)
{
	struct memory_device *mem = memory_of(dev);

	if (mem->owned)
		munmap(mem->bytes, dev->size_bytes);
	free(mem);
	return 0;
}

static const struct block_device_ops memory_ops = {
	.name = "memory",
	.submit = memory_submit,
	.submit_sync = memory_submit_sync,
	.direct_access = memory_direct_access,
	.close = memory_close,
};

int block_open_memory(uint64_t size_bytes, void *bytes, struct block_device **dev_out)
{
	struct memory_device *mem;

	if (!size_bytes)
		return -EINVAL;
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	mem->owned = !bytes;
	if (mem->owned) {
		/* Untouched pages cost nothing, so that a large sparse device may be made. */
		bytes = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (bytes == MAP_FAILED) {
			free(mem);
			return -ENOMEM;
		}
	}
	mem->bytes = bytes;
	mem->dev = (struct block_device){ .ops = &memory_ops, .size_bytes = size_bytes, .sector_bytes = 512 };
	*dev_out = &mem->dev;
	return 0;
}
