/* SPDX-License-Identifier: MIT */
/* orphan_file.c - orphans as slots of a file, so that unlinks need not share one list head */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "ext4/fs_private.h"
#include "ext4/map.h"
#include "ext4/orphan_format.h"
#include "ext4/orphan_private.h"
#include "ext4/super.h"

#define ORPHAN_FILE_MAX_BYTES (8u << 20) /* as Linux; mke2fs makes far smaller ones */

static struct ext4_orphan_block_tail *block_tail(const struct ext4_fs *fs, const struct buffer_head *bh)
{
	return (struct ext4_orphan_block_tail *)(void *)(bh->data + fs->block_bytes - sizeof(struct ext4_orphan_block_tail));
}

static le32 *block_slots(const struct buffer_head *bh)
{
	return (le32 *)(void *)bh->data;
}

static uint32_t block_csum(const struct orphan_state *state, const struct buffer_head *bh)
{
	le64 blk = le64_make(bh->blk);

	return crc32c(crc32c(state->csum_seed, &blk, sizeof(blk)), bh->data, state->slots_per_block * sizeof(le32));
}

/* ---- opening ---- */

static int block_verify(struct ext4_fs *fs, const struct orphan_state *state, const struct buffer_head *bh)
{
	const struct ext4_orphan_block_tail *tail = block_tail(fs, bh);

	if (le32_get(tail->ob_magic) != EXT4_ORPHAN_BLOCK_MAGIC)
		return FS_ERROR(fs, -EUCLEAN, "orphan file: block %" PRIu64 ": bad magic 0x%08x", bh->blk,
				le32_get(tail->ob_magic));
	if (fs->has_metadata_csum && le32_get(tail->ob_checksum) != block_csum(state, bh))
		return FS_ERROR(fs, -EBADMSG, "orphan file: block %" PRIu64 ": checksum 0x%08x, expected 0x%08x", bh->blk,
				le32_get(tail->ob_checksum), block_csum(state, bh));
	return 0;
}

static int block_open(struct ext4_fs *fs, struct orphan_state *state, struct inode *file, uint32_t index)
{
	struct orphan_block *b = &state->blocks[index];
	struct map_result map;
	uint32_t free_slots = 0;
	int err;

	err = map_lookup(file, index, 1, &map);
	if (!err && map.status != ES_WRITTEN)
		err = FS_ERROR(fs, -EUCLEAN, "orphan file: block %u is not allocated", index);
	if (!err)
		err = buffer_read(fs->bc, map.blk, &b->bh);
	if (!err)
		err = block_verify(fs, state, b->bh);
	if (err)
		return err;
	for (uint32_t i = 0; i < state->slots_per_block; i++)
		free_slots += !le32_get(block_slots(b->bh)[i]);
	atomic_init(&b->free_slots, free_slots);
	return 0;
}

static int file_open(struct ext4_fs *fs, struct orphan_state *state, struct inode *file)
{
	uint64_t size = inode_size(file);
	int err = 0;

	if (!S_ISREG(file->mode) || size == 0 || size % fs->block_bytes || size > ORPHAN_FILE_MAX_BYTES)
		return FS_ERROR(fs, -EUCLEAN, "orphan file: inode #%u: bad type or size %" PRIu64, file->ino, size);
	state->csum_seed = inode_csum_seed(file);
	state->slots_per_block = (fs->block_bytes - (uint32_t)sizeof(struct ext4_orphan_block_tail)) / (uint32_t)sizeof(le32);
	state->block_count = (uint32_t)(size >> fs->block_bits);
	state->blocks = calloc(state->block_count, sizeof(state->blocks[0]));
	if (!state->blocks) {
		state->block_count = 0;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < state->block_count; i++)
		mutex_init(&state->blocks[i].lock, RANK_ORPHAN);
	for (uint32_t i = 0; !err && i < state->block_count; i++)
		err = block_open(fs, state, file, i);
	return err;
}

int orphan_file_open(struct ext4_fs *fs)
{
	struct inode *file;
	int err;

	if (!fs_has_compat(fs, EXT4_FEATURE_COMPAT_ORPHAN_FILE) || fs_is_read_only(fs))
		return 0;
	file = inode_alloc(fs);
	if (!file)
		return -ENOMEM;
	err = inode_load_special(fs, le32_get(fs_super(fs)->s_orphan_file_inum), file);
	if (err == -ESTALE)
		err = FS_ERROR(fs, -EUCLEAN, "superblock: s_orphan_file_inum is %u, an inode not in use", file->ino);
	if (!err)
		err = file_open(fs, fs->orphans, file);
	inode_free(file);
	return err;
}

void orphan_file_close(struct ext4_fs *fs)
{
	struct orphan_state *state = fs->orphans;

	for (uint32_t i = 0; i < state->block_count; i++) {
		buffer_put(state->blocks[i].bh);
		mutex_exit(&state->blocks[i].lock);
	}
	free(state->blocks);
	state->blocks = NULL;
	state->block_count = 0;
}

/* ---- slots ---- */

uint32_t orphan_file_slots(const struct orphan_state *state)
{
	return state->block_count * state->slots_per_block;
}

ino_num orphan_file_slot(const struct orphan_state *state, uint32_t slot)
{
	return le32_get(block_slots(state->blocks[slot / state->slots_per_block].bh)[slot % state->slots_per_block]);
}

bool orphan_file_is_empty(const struct ext4_fs *fs)
{
	const struct orphan_state *state = fs->orphans;

	for (uint32_t i = 0; state && i < state->block_count; i++)
		if (atomic_load(&state->blocks[i].free_slots) != state->slots_per_block)
			return false;
	return true;
}

static bool slot_claim(struct orphan_block *b)
{
	uint32_t free_slots = atomic_load(&b->free_slots);

	while (free_slots)
		if (atomic_compare_exchange_weak(&b->free_slots, &free_slots, free_slots - 1))
			return true;
	return false;
}

/* A block with a claimed slot; threads start at blocks of their own. NULL: all full. */
static struct orphan_block *block_claim(struct orphan_state *state)
{
	uint32_t start = counter_shard_index() % state->block_count;

	for (uint32_t i = 0; i < state->block_count; i++) {
		struct orphan_block *b = &state->blocks[(start + i) % state->block_count];

		if (slot_claim(b))
			return b;
	}
	return NULL;
}

static void block_store(struct ext4_fs *fs, struct orphan_block *b, uint32_t index, ino_num ino)
{
	lock_assert_held(&b->lock);
	block_slots(b->bh)[index] = le32_make(ino);
	if (fs->has_metadata_csum)
		block_tail(fs, b->bh)->ob_checksum = le32_make(block_csum(fs->orphans, b->bh));
}

int orphan_file_add(struct handle *h, struct inode *inode)
{
	struct ext4_fs *fs = inode->fs;
	struct orphan_state *state = fs->orphans;
	struct orphan_block *b;
	uint32_t i = 0;
	int err;

	b = state->block_count ? block_claim(state) : NULL;
	if (!b)
		return -ENOSPC;
	err = journal_get_write_access(h, b->bh);
	if (err) {
		atomic_fetch_add(&b->free_slots, 1);
		return err;
	}
	mutex_lock(&b->lock);
	while (i < state->slots_per_block && le32_get(block_slots(b->bh)[i]))
		i++;
	UEXT4_ASSERT(i < state->slots_per_block); /* one was claimed */
	block_store(fs, b, i, inode->ino);
	mutex_unlock(&b->lock);
	inode->orphan_slot = (uint32_t)(b - state->blocks) * state->slots_per_block + i;
	return journal_dirty_metadata(h, b->bh);
}

int orphan_file_clear_slot(struct handle *h, struct ext4_fs *fs, uint32_t slot)
{
	struct orphan_state *state = fs->orphans;
	struct orphan_block *b = &state->blocks[slot / state->slots_per_block];
	int err;

	err = journal_get_write_access(h, b->bh);
	if (err)
		return err;
	mutex_lock(&b->lock);
	block_store(fs, b, slot % state->slots_per_block, 0);
	mutex_unlock(&b->lock);
	err = journal_dirty_metadata(h, b->bh);
	atomic_fetch_add(&b->free_slots, 1);
	return err;
}

int orphan_file_del(struct handle *h, struct inode *inode)
{
	return orphan_file_clear_slot(h, inode->fs, inode->orphan_slot);
}
