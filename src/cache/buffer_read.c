/* SPDX-License-Identifier: MIT */
/* buffer_read.c - reads of metadata: one at a time on the caller's thread, or ahead without waiting */
#include <errno.h>
#include <stdlib.h>

#include "cache/buffer_private.h"

/* One read ahead: a block group's inode tables or a run of bitmaps, without holding a device up. */
#define READAHEAD_BLOCKS_MAX 64u

/* Concurrent readers wait for the lock and find the block there: they share one I/O. */
static int buffer_fill(struct buffer_head *bh)
{
	struct buffer_cache *bc = bh->cache;
	int err = 0;

	buffer_lock(bh);
	if (!buffer_test(bh, BH_UPTODATE)) {
		err = block_read(bc->dev, bh->blk << bc->block_shift, bh->data, bc->block_bytes);
		if (!err) {
			buffer_clear(bh, BH_NEW | BH_VERIFIED);
			buffer_set(bh, BH_UPTODATE);
		}
	}
	buffer_unlock(bh);
	return err;
}

int buffer_read(struct buffer_cache *bc, fsblk_t blk, struct buffer_head **bh_out)
{
	struct buffer_head *bh;
	int err;

	err = buffer_get(bc, blk, &bh);
	if (err)
		return err;
	if (unlikely(!buffer_test(bh, BH_UPTODATE))) {
		err = buffer_fill(bh);
		if (err) {
			buffer_put(bh);
			return err;
		}
	}
	*bh_out = bh;
	return 0;
}

/* A run of neighbouring blocks, locked and referenced until the read is done. */
struct readahead {
	struct bio bio;
	unsigned count;
	struct buffer_head *bhs[READAHEAD_BLOCKS_MAX];
	struct iovec iov[READAHEAD_BLOCKS_MAX];
};

static void readahead_done(struct bio *bio, int err)
{
	struct readahead *ra = bio->private_data;

	for (unsigned i = 0; i < ra->count; i++) {
		struct buffer_head *bh = ra->bhs[i];

		/* An error is not kept: whoever needs the block reads it again and learns of it. */
		if (!err) {
			buffer_clear(bh, BH_NEW | BH_VERIFIED);
			buffer_set(bh, BH_UPTODATE);
		}
		word_bit_unlock(&bh->state, BH_LOCKED, BH_WAITERS);
		buffer_put(bh);
	}
	free(ra);
}

static void readahead_submit(struct buffer_cache *bc, struct readahead *ra)
{
	ra->bio = (struct bio){
		.dev = bc->dev,
		.op = BIO_READ,
		.pos_bytes = ra->bhs[0]->blk << bc->block_shift,
		.len_bytes = (uint64_t)ra->count << bc->block_shift,
		.iov = ra->iov,
		.iov_count = ra->count,
		.end_io = readahead_done,
		.private_data = ra,
	};
	/* The locks pass to the I/O. */
	for (unsigned i = 0; i < ra->count; i++)
		lock_rank_leave(RANK_BUFFER);
	block_submit(&ra->bio);
}

/* The buffer over @blk, locked and referenced, if it has to be read; else NULL. */
static struct buffer_head *readahead_take(struct buffer_cache *bc, fsblk_t blk)
{
	struct buffer_head *bh;

	if (buffer_get(bc, blk, &bh))
		return NULL;
	if (!buffer_test(bh, BH_UPTODATE) && buffer_trylock(bh)) {
		if (!buffer_test(bh, BH_UPTODATE))
			return bh;
		buffer_unlock(bh);
	}
	buffer_put(bh);
	return NULL;
}

/* Reads the run of missing blocks that begins at @blk, at most @count; returns how many blocks it got past. */
static uint32_t readahead_run(struct buffer_cache *bc, fsblk_t blk, uint32_t count)
{
	struct buffer_head *bh = readahead_take(bc, blk);
	struct readahead *ra;
	uint32_t done = 1;

	if (!bh)
		return 1;
	ra = malloc(sizeof(*ra));
	if (!ra) {
		buffer_unlock(bh);
		buffer_put(bh);
		return count;
	}
	ra->count = 0;
	do {
		ra->iov[ra->count] = (struct iovec){ bh->data, bc->block_bytes };
		ra->bhs[ra->count++] = bh;
		if (ra->count == READAHEAD_BLOCKS_MAX || done == count)
			break;
		bh = readahead_take(bc, blk + done);
		done++;
	} while (bh);
	readahead_submit(bc, ra);
	return done;
}

void buffer_readahead(struct buffer_cache *bc, fsblk_t blk, uint32_t count)
{
	if (blk >= bc->nr_blocks)
		return;
	count = (uint32_t)min_of((uint64_t)count, bc->nr_blocks - blk);
	block_plug(bc->dev);
	for (uint32_t i = 0; i < count;)
		i += readahead_run(bc, blk + i, count - i);
	block_unplug(bc->dev);
}
