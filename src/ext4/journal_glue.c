/* SPDX-License-Identifier: MIT */
/* journal_glue.c - finding the journal, recovering it and setting it to work */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "block/overlay.h"
#include "ext4/fast_commit.h"
#include "ext4/fs_private.h"
#include "ext4/inode.h"
#include "ext4/map.h"
#include "ext4/super.h"

#define JOURNAL_MIN_BLOCKS 1024u /* as Linux and mke2fs */

/* Where the log's blocks are, loaded once: the journal inode never changes while it is in use. */
struct journal_runs {
	struct journal_run {
		uint32_t index;   /* log block */
		uint32_t count;
		fsblk_t blk;
	} *runs;
	uint32_t count, room;
	uint32_t log_blocks;
};

bool fs_has_dirty_journal(const struct ext4_super_block *es)
{
	return le32_get(es->s_feature_compat) & EXT4_FEATURE_COMPAT_HAS_JOURNAL &&
	       le32_get(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_RECOVER;
}

/* ---- internal journal ---- */

static int runs_add(struct journal_runs *map, uint32_t index, uint32_t count, fsblk_t blk)
{
	if (map->count == map->room) {
		uint32_t room = map->room ? 2 * map->room : 16;
		struct journal_run *runs = realloc(map->runs, room * sizeof(runs[0]));

		if (!runs)
			return -ENOMEM;
		map->runs = runs;
		map->room = room;
	}
	map->runs[map->count++] = (struct journal_run){ index, count, blk };
	return 0;
}

static int runs_load(struct ext4_fs *fs, struct inode *inode, struct journal_runs *map)
{
	uint32_t index = 0;

	while (index < map->log_blocks) {
		struct map_result found;
		int err = map_lookup(inode, index, map->log_blocks - index, &found);

		if (!err && (found.status != ES_WRITTEN || !fs_data_blocks_valid(fs, found.blk, found.len)))
			err = INODE_ERROR(inode, -EUCLEAN, found.blk, "journal block %u is not allocated", index);
		if (!err)
			err = runs_add(map, index, min_of(found.len, map->log_blocks - index), found.blk);
		if (err)
			return err;
		index += min_of(found.len, map->log_blocks - index);
	}
	return 0;
}

static int journal_inode_check(const struct inode *inode)
{
	uint64_t blocks = inode_size(inode) >> inode->fs->block_bits;

	if (!S_ISREG(inode->mode))
		return INODE_ERROR(inode, -EUCLEAN, 0, "the journal is no regular file");
	if (blocks < JOURNAL_MIN_BLOCKS || blocks > UINT32_MAX)
		return INODE_ERROR(inode, -EUCLEAN, 0, "the journal has %" PRIu64 " blocks", blocks);
	return 0;
}

static int journal_inode_load(struct ext4_fs *fs)
{
	struct journal_runs *map;
	struct inode *inode;
	int err;

	map = calloc(1, sizeof(*map));
	if (!map)
		return -ENOMEM;
	fs->priv->journal_runs = map;
	inode = inode_alloc(fs);
	if (!inode)
		return -ENOMEM;
	err = inode_load_special(fs, le32_get(fs_super(fs)->s_journal_inum), inode);
	if (err == -ESTALE)
		err = FS_ERROR(fs, -EUCLEAN, "the journal inode #%u is not in use", le32_get(fs_super(fs)->s_journal_inum));
	if (!err)
		err = journal_inode_check(inode);
	if (!err) {
		map->log_blocks = (uint32_t)(inode_size(inode) >> fs->block_bits);
		err = runs_load(fs, inode, map);
	}
	inode_free(inode);
	return err;
}

static int map_log_block_inside(void *arg, uint32_t index, fsblk_t *blk_out)
{
	const struct journal_runs *map = ((struct ext4_fs *)arg)->priv->journal_runs;
	uint32_t low = 0, high = map->count;

	if (index >= map->log_blocks)
		return -EUCLEAN;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (map->runs[mid].index <= index)
			low = mid;
		else
			high = mid;
	}
	*blk_out = map->runs[low].blk + (index - map->runs[low].index);
	return 0;
}

int journal_glue_each_run(const struct ext4_fs *fs, int (*emit)(void *arg, fsblk_t blk, uint64_t count), void *arg)
{
	const struct journal_runs *map = fs->priv->journal_runs;
	int err = 0;

	for (uint32_t i = 0; map && !err && i < map->count; i++)
		err = emit(arg, map->runs[i].blk, map->runs[i].count);
	return err;
}

uint64_t journal_glue_internal_blocks(struct ext4_fs *fs)
{
	ino_num ino = le32_get(fs_super(fs)->s_journal_inum);
	struct inode *inode;
	uint64_t blocks = 0;

	if (fs->priv->journal_runs)
		return fs->priv->journal_runs->log_blocks;
	if (!fs_has_compat(fs, EXT4_FEATURE_COMPAT_HAS_JOURNAL) || !ino)
		return 0;
	/* Not opened, as read-only mounts of clean images need no journal: it takes its space all the same. */
	inode = inode_alloc(fs);
	if (!inode)
		return 0;
	if (!inode_load_special(fs, ino, inode))
		blocks = inode_size(inode) >> fs->block_bits;
	inode_free(inode);
	return blocks;
}

/* ---- external journal: its own device, with an ext4 superblock in front of the journal's ---- */

static fsblk_t external_start(const struct ext4_fs *fs)
{
	return EXT4_SUPER_OFFSET_BYTES / fs->block_bytes + 1;
}

/* The journal's superblock names log blocks by their place on the device. */
static int map_log_block_outside(void *arg, uint32_t index, fsblk_t *blk_out)
{
	*blk_out = index ? index : external_start(arg);
	return 0;
}

static int external_check(struct ext4_fs *fs, const struct ext4_super_block *jes)
{
	const char *why = NULL;

	if (le16_get(jes->s_magic) != EXT4_SUPER_MAGIC ||
	    !(le32_get(jes->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_JOURNAL_DEV))
		why = "is no external journal";
	else if (memcmp(jes->s_uuid, fs_super(fs)->s_journal_uuid, sizeof(jes->s_uuid)))
		why = "has another UUID than the journal of this file system";
	else if (le32_get(jes->s_log_block_size) != (uint32_t)fs->block_bits - 10)
		why = "has another block size than the file system";
	else if (super_blocks_count(jes) > fs->journal_dev->size_bytes >> fs->block_bits ||
		 super_blocks_count(jes) > UINT32_MAX)
		why = "is truncated";
	if (!why)
		return 0;
	log_print(&fs->log, LOG_ERROR, "%s: journal device %s %s", fs->name, fs->opt.journal_path, why);
	return -EINVAL;
}

static int external_open(struct ext4_fs *fs, uint32_t *log_blocks_out)
{
	struct ext4_super_block jes;
	int err;

	if (!fs->opt.journal_path) {
		log_print(&fs->log, LOG_ERROR, "%s: the journal is on another device: name it with journal_path=", fs->name);
		return -EINVAL;
	}
	err = block_open_file(fs->opt.journal_path, fs->opt.read_only ? BLOCK_OPEN_READ_ONLY : 0, &fs->log, &fs->journal_dev);
	if (err)
		return err;
	fs->journal_dev->counters = fs->counters;
	err = super_read(fs->journal_dev, EXT4_SUPER_OFFSET_BYTES, &jes);
	if (!err)
		err = external_check(fs, &jes);
	if (!err && fs->opt.read_only)
		err = block_open_overlay(fs->journal_dev, &fs->journal_dev);
	if (!err)
		*log_blocks_out = (uint32_t)super_blocks_count(&jes);
	return err;
}

/* ---- either ---- */

static int journal_find(struct ext4_fs *fs, struct journal_params *params)
{
	const struct ext4_super_block *es = fs_super(fs);
	int err;

	if (le32_get(es->s_journal_inum)) {
		err = journal_inode_load(fs);
		params->log_dev = fs->dev;
		params->map_log_block = map_log_block_inside;
		params->log_blocks = fs->priv->journal_runs ? fs->priv->journal_runs->log_blocks : 0;
		return err;
	}
	err = external_open(fs, &params->log_blocks);
	params->log_dev = fs->journal_dev;
	params->map_log_block = map_log_block_outside;
	params->fs_uuid = es->s_uuid;
	return err;
}

/* For keep_error_marks(). */
struct replay_arg {
	const struct ext4_fs *fs;
	struct ext4_super_block before; /* as it is on disk */
};

static void keep_error_marks(void *arg, fsblk_t blk, uint8_t *bytes)
{
	const struct replay_arg *replay = arg;
	const struct ext4_fs *fs = replay->fs;

	if (blk == fs->super_bh->blk)
		error_survive_replay((struct ext4_super_block *)(void *)(bytes + fs->super_offset), &replay->before);
}

static int journal_replay(struct ext4_fs *fs)
{
	struct journal_recovery_info info;
	int err;

	if (!fs_has_dirty_journal(fs_super(fs))) {
		if (!journal_needs_recovery(fs->journal))
			return 0;
		log_print(&fs->log, LOG_ERROR,
			  "%s: the journal holds changes although the superblock says that it needs no recovery: run e2fsck",
			  fs->name);
		return -EUCLEAN;
	}
	err = journal_recover(fs->journal, &info);
	if (err)
		log_print(&fs->log, LOG_ERROR, "%s: the journal cannot be recovered: %s", fs->name, strerror(-err));
	return err;
}

static bool wants_journal(const struct ext4_fs *fs)
{
	if (!fs_has_compat(fs, EXT4_FEATURE_COMPAT_HAS_JOURNAL) || fs->opt.noload)
		return false;
	return !fs->opt.read_only || fs_has_dirty_journal(fs_super(fs));
}

/*
 * With v3 checksums, those of metadata_csum, e2fsck and Linux take the commit block as proof that its transaction is whole:
 * they replay one whose blocks did not all arrive. With v1 the commit block sums up the others.
 */
static bool may_commit_async(const struct ext4_fs *fs)
{
	return fs->opt.journal_async_commit && !fs_has_ro_compat(fs, EXT4_FEATURE_RO_COMPAT_METADATA_CSUM);
}

static void journal_message(void *arg, int level, const char *text)
{
	const struct ext4_fs *fs = arg;

	log_print(&fs->log, level, "%s: %s", fs->name, text);
}

int journal_glue_recover(struct ext4_fs *fs)
{
	struct replay_arg replay = { .fs = fs, .before = *fs_super(fs) };
	struct journal_params params = {
		.map_arg = fs, .block_bytes = fs->block_bytes, .bc = fs->bc, .fs_blocks = fs->blocks_count,
		.counters = fs->counters, .log = &fs->priv->journal_log, .barriers = fs->opt.barrier,
		.async_commit = may_commit_async(fs), .commit_interval_ms = fs->opt.commit_interval_ms,
		.max_batch_us = fs->opt.max_batch_us, .on_abort = error_on_journal_abort, .abort_arg = fs,
		.fc_take = fast_commit_take, .fc_arg = fs,
		.replaying = keep_error_marks, .replaying_arg = &replay, /* while this function runs */
	};
	int err, close_err;

	if (!wants_journal(fs))
		return 0;
	fs->priv->journal_log = (struct log_sink){ .func = journal_message, .arg = fs };
	err = journal_find(fs, &params);
	if (!err)
		err = journal_open(&params, &fs->journal);
	if (err) {
		log_print(&fs->log, LOG_ERROR, "%s: the journal cannot be opened: %s", fs->name, strerror(-err));
		return err;
	}
	err = journal_replay(fs);
	if (err || !fs->opt.read_only)
		return err;
	/* Read-only: the overlay now shows what replay brought, and nothing more will be logged. */
	close_err = journal_close(fs->journal);
	fs->journal = NULL;
	return close_err;
}

/* An error that the last user could only note in the journal moves to the superblock, which e2fsck looks at. */
static int carry_error_over(struct ext4_fs *fs)
{
	struct ext4_super_block *es = (struct ext4_super_block *)(void *)(fs->super_bh->data + fs->super_offset);
	int found = journal_errno_on_disk(fs->journal), err;

	if (!found)
		return 0;
	log_print(&fs->log, LOG_WARNING, "%s: the last user's journal had an error (%s): the file system needs e2fsck",
		  fs->name, strerror(found < 0 ? -found : found));
	mutex_lock(&fs->super_lock);
	es->s_state = le16_make(le16_get(es->s_state) | EXT4_STATE_ERROR_FS);
	fs->priv->mount_state |= EXT4_STATE_ERROR_FS;
	super_csum_set(es);
	mutex_unlock(&fs->super_lock);
	err = super_write_through(fs);
	return err ? err : journal_clear_error(fs->journal);
}

int journal_glue_start(struct ext4_fs *fs)
{
	int err;

	if (!fs->journal)
		return journal_create_null(fs->bc, fs->counters, &fs->journal);
	err = carry_error_over(fs);
	if (err)
		return err;
	return journal_start_running(fs->journal, fs->has_metadata_csum, fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_64BIT));
}

void journal_glue_exit(struct ext4_fs *fs)
{
	if (fs->priv->journal_runs)
		free(fs->priv->journal_runs->runs);
	free(fs->priv->journal_runs);
	fs->priv->journal_runs = NULL;
}
