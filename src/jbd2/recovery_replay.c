/* SPDX-License-Identifier: MIT */
/*
 * recovery_replay.c - bringing the newest copy of each block home
 *
 * Blocks that change often are in the log many times. Only the last copy that no revoke covers is read and written,
 * in the order of the home blocks, so that the disk sees each block once, in runs. Memory: 24 bytes per copy in the log,
 * and two batches' worth of blocks: as read from the log, and the buffers that go home.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jbd2/csum.h"
#include "jbd2/recovery_private.h"

/* As large as the cache's least limit allows, with as much again for the buffers. */
#define BATCH_BYTES (4u << 20)
#define LIST_MIN_ROOM 1024u

void replay_list_exit(struct replay_list *list)
{
	free(list->blocks);
	*list = (struct replay_list){ 0 };
}

int replay_list_add(struct replay_list *list, const struct replay_block *block)
{
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : LIST_MIN_ROOM;
		struct replay_block *blocks = realloc(list->blocks, room * sizeof(*blocks));

		if (!blocks)
			return -ENOMEM;
		list->blocks = blocks;
		list->room = room;
	}
	list->blocks[list->count++] = *block;
	return 0;
}

/* ---- which copies ---- */

static int compare_home(const void *a, const void *b)
{
	const struct replay_block *x = a, *y = b;

	if (x->blk != y->blk)
		return x->blk < y->blk ? -1 : 1;
	return x->pos < y->pos ? -1 : x->pos > y->pos;
}

static void drop_revoked(struct replay_list *list, const struct replay_revokes *revokes, uint64_t *hits)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct replay_block *block = &list->blocks[i];

		if (replay_revokes_covers(revokes, block->blk, block->tid))
			(*hits)++;
		else
			list->blocks[kept++] = *block;
	}
	list->count = kept;
}

/* The list is sorted: of each block's copies the last one stays. */
static void drop_superseded(struct replay_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++)
		if (i + 1 == list->count || list->blocks[i].blk != list->blocks[i + 1].blk)
			list->blocks[kept++] = list->blocks[i];
	list->count = kept;
}

static int compare_extent(const void *a, const void *b)
{
	const struct log_extent *x = a, *y = b;

	return x->blk < y->blk ? -1 : x->blk > y->blk;
}

/* The first of the sorted blocks that lies in one of the sorted extents, or NULL. */
static const struct replay_block *find_overlap(const struct replay_list *list, const struct log_extent *extents,
					       uint32_t count)
{
	uint32_t e = 0;

	for (size_t i = 0; i < list->count; i++) {
		fsblk_t blk = list->blocks[i].blk;

		while (e < count && extents[e].blk + extents[e].count <= blk)
			e++;
		if (e < count && extents[e].blk <= blk)
			return &list->blocks[i];
	}
	return NULL;
}

/* A copy that goes over the journal itself would make recovery change what it reads, and a second run differ. */
static int check_spares_journal(const struct replay_list *list, const struct journal *j)
{
	const struct log_map *map = &j->map;
	const struct replay_block *bad;
	struct log_extent *extents;

	if (j->external)
		return 0;
	extents = malloc(((size_t)map->count + 1) * sizeof(*extents));
	if (!extents)
		return -ENOMEM;
	memcpy(extents, map->extents, map->count * sizeof(*extents));
	extents[map->count] = (struct log_extent){ .count = 1, .blk = j->super_blk };
	qsort(extents, (size_t)map->count + 1, sizeof(*extents), compare_extent);
	bad = find_overlap(list, extents, map->count + 1);
	free(extents);
	if (!bad)
		return 0;
	log_print(j->params.log, LOG_ERROR, "journal: transaction %u holds block %llu, which is part of the journal",
		  bad->tid, (unsigned long long)bad->blk);
	return -EUCLEAN;
}

static int check_homes(const struct replay_list *list, const struct journal *j)
{
	const struct replay_block *last = list->count ? &list->blocks[list->count - 1] : NULL;

	if (!last || last->blk < j->params.fs_blocks)
		return check_spares_journal(list, j);
	log_print(j->params.log, LOG_ERROR, "journal: transaction %u holds block %llu, outside the file system",
		  last->tid, (unsigned long long)last->blk);
	return -EUCLEAN;
}

int replay_list_reduce(struct replay_list *list, const struct journal *j, const struct replay_revokes *revokes,
		       uint64_t *hits)
{
	drop_revoked(list, revokes, hits);
	if (list->count)
		qsort(list->blocks, list->count, sizeof(*list->blocks), compare_home);
	drop_superseded(list);
	return check_homes(list, j);
}

/* ---- writing home ---- */

struct replay_batch {
	struct journal *j;
	uint32_t room;
	uint32_t count;
	const struct replay_block **blocks; /* in the order of the log */
	uint8_t *copies;                    /* as read from there, in the same order */
	struct buffer_head **bhs;
	uint32_t bh_count;
	uint64_t bad;                       /* checksums, in all batches */
};

static void batch_exit(struct replay_batch *batch)
{
	free(batch->blocks);
	free(batch->copies);
	free(batch->bhs);
}

/* @blocks: what there is to replay, at least one. */
static int batch_init(struct replay_batch *batch, struct journal *j, size_t blocks)
{
	uint32_t block_bytes = j->params.block_bytes;
	uint32_t room = (uint32_t)min_of(blocks, (size_t)(BATCH_BYTES / block_bytes));

	*batch = (struct replay_batch){ .j = j, .room = room };
	batch->blocks = calloc(room, sizeof(*batch->blocks));
	batch->copies = aligned_alloc(max_of(block_bytes, 4096u), round_up_to((size_t)room * block_bytes, 4096));
	batch->bhs = calloc(room, sizeof(struct buffer_head *));
	if (batch->blocks && batch->copies && batch->bhs)
		return 0;
	batch_exit(batch);
	return -ENOMEM;
}

static int compare_pos(const void *a, const void *b)
{
	const struct replay_block *x = *(const struct replay_block *const *)a;
	const struct replay_block *y = *(const struct replay_block *const *)b;

	return x->pos < y->pos ? -1 : x->pos > y->pos;
}

static uint32_t copy_index(const struct journal *j, const struct replay_block *block)
{
	return log_advance(j, be32_get(j->super->s_start), block->pos);
}

/* How many copies from @i on follow each other in the log without a wrap. */
static uint32_t batch_run(const struct replay_batch *batch, uint32_t i)
{
	uint32_t index = copy_index(batch->j, batch->blocks[i]), run = 1;

	while (i + run < batch->count && copy_index(batch->j, batch->blocks[i + run]) == index + run)
		run++;
	return run;
}

/* All runs of the batch are in flight together. */
static int batch_read(struct replay_batch *batch)
{
	const struct log_map *map = &batch->j->map;
	struct log_batch io;
	uint32_t run;
	int err;

	qsort(batch->blocks, batch->count, sizeof(*batch->blocks), compare_pos);
	log_batch_init(&io, map);
	block_plug(map->dev);
	for (uint32_t i = 0; i < batch->count; i += run) {
		run = batch_run(batch, i);
		log_batch_add(&io, BIO_READ, copy_index(batch->j, batch->blocks[i]), run,
			      batch->copies + (size_t)i * map->block_bytes, 0);
	}
	block_unplug(map->dev);
	err = log_batch_wait(&io);
	if (err)
		log_print(batch->j->params.log, LOG_ERROR, "journal: blocks to be replayed cannot be read: %s",
			  strerror(-err));
	return err;
}

static int buffer_fill(struct replay_batch *batch, const struct replay_block *block, const uint8_t *copy)
{
	be32 magic = be32_make(JBD2_MAGIC);
	struct buffer_head *bh;
	int err = buffer_get(batch->j->bc, block->blk, &bh);

	if (err)
		return err;
	buffer_lock(bh);
	memcpy(bh->data, copy, batch->j->params.block_bytes);
	if (block->flags & JBD2_FLAG_ESCAPE)
		memcpy(bh->data, &magic, sizeof(magic));
	if (batch->j->params.replaying)
		batch->j->params.replaying(batch->j->params.replaying_arg, block->blk, bh->data);
	buffer_clear(bh, BH_NEW | BH_VERIFIED);
	buffer_set(bh, BH_UPTODATE);
	buffer_mark_dirty(bh);
	buffer_unlock(bh);
	batch->bhs[batch->bh_count++] = bh;
	return 0;
}

static int batch_fill(struct replay_batch *batch)
{
	const struct journal *j = batch->j;
	int err = 0;

	for (uint32_t i = 0; i < batch->count && !err; i++) {
		const struct replay_block *block = batch->blocks[i];
		const uint8_t *copy = batch->copies + (size_t)i * j->params.block_bytes;
		struct journal_tag tag = { block->blk, block->flags, block->checksum };

		if (journal_tag_csum_ok(&j->layout, &tag, block->tid, copy)) {
			err = buffer_fill(batch, block, copy);
		} else if (batch->bad++ == 0) {
			log_print(j->params.log, LOG_ERROR,
				  "journal: transaction %u: the copy of block %llu at log block %u has a wrong checksum",
				  block->tid, (unsigned long long)block->blk, copy_index(j, block));
		}
	}
	return err;
}

/* Reads, fills and writes blocks[0, count) of the list. */
static int batch_replay(struct replay_batch *batch, const struct replay_block *blocks, uint32_t count)
{
	int err, write_err;

	for (uint32_t i = 0; i < count; i++)
		batch->blocks[i] = &blocks[i];
	batch->count = count;
	batch->bh_count = 0;
	err = batch_read(batch);
	if (err)
		return err;
	err = batch_fill(batch);
	write_err = buffers_write(batch->j->bc, batch->bhs, batch->bh_count);
	for (uint32_t i = 0; i < batch->bh_count; i++)
		buffer_put(batch->bhs[i]);
	return err ? err : write_err;
}

int replay_list_write(const struct replay_list *list, struct journal *j, uint64_t *replayed)
{
	struct replay_batch batch;
	int err;

	if (!list->count)
		return 0;
	err = batch_init(&batch, j, list->count);
	if (err)
		return err;
	for (size_t i = 0; i < list->count && !err; i += batch.count) {
		err = batch_replay(&batch, list->blocks + i, (uint32_t)min_of(list->count - i, (size_t)batch.room));
		*replayed += batch.bh_count;
	}
	batch_exit(&batch);
	if (!err && batch.bad) {
		log_print(j->params.log, LOG_ERROR, "journal: %llu blocks with wrong checksums were not replayed",
			  (unsigned long long)batch.bad);
		err = -EBADMSG;
	}
	return err;
}
