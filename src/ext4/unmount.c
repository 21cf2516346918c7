/* SPDX-License-Identifier: MIT */
/* unmount.c - everything on disk: sync, read-only, unmount */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/balloc.h"
#include "ext4/es.h"
#include "ext4/fast_commit.h"
#include "ext4/fs_private.h"
#include "ext4/group.h"
#include "ext4/ialloc.h"
#include "ext4/inode.h"
#include "ext4/orphan.h"
#include "ext4/super.h"

static void keep_first(int *err, int next)
{
	if (!*err)
		*err = next;
}

/* ---- sync ---- */

static bool counts_are_stored(struct ext4_fs *fs)
{
	const struct ext4_super_block *es = fs_super(fs);

	return le32_get(es->s_free_blocks_count_lo) == (uint32_t)groups_free_blocks(fs) &&
	       le32_get(es->s_free_inodes_count) == (uint32_t)groups_free_inodes(fs);
}

/* The superblock's free counts are only summed here: no operation has to touch it. */
static int store_counts(struct ext4_fs *fs)
{
	struct ext4_super_block *es;
	struct handle h;
	int err, stop_err;

	if (counts_are_stored(fs))
		return 0;
	err = fs_handle_start(fs, 1, 0, &h);
	if (err)
		return err;
	err = super_change_begin(&h, fs, &es);
	if (!err) {
		super_refresh_counts(fs, es);
		err = super_change_end(&h, fs);
	}
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

int ext4_sync(struct ext4_fs *fs)
{
	int err;

	if (fs_is_read_only(fs))
		return journal_error(fs->journal);
	err = cache_writeback_all(fs->cache, true);
	keep_first(&err, fs_flush_dirty_times(fs));
	keep_first(&err, store_counts(fs));
	if (journal_is_null(fs->journal))
		keep_first(&err, buffer_cache_sync(fs->bc));
	else
		keep_first(&err, journal_force_commit(fs->journal));
	if (fs->opt.barrier)
		keep_first(&err, block_flush(fs->dev));
	return err;
}

int ext4_remount_read_only(struct ext4_fs *fs)
{
	int err, lock_err;

	if (fs_is_read_only(fs))
		return 0;
	err = ext4_sync(fs);
	atomic_store(&fs->read_only, true);
	/* Handles that are open now end first; then the log is empty and the superblock in no transaction. */
	lock_err = journal_lock_updates(fs->journal);
	keep_first(&err, lock_err);
	if (journal_is_null(fs->journal))
		keep_first(&err, buffer_cache_sync(fs->bc));
	if (!err)
		err = super_close(fs);
	fs->priv->writable = false;
	if (!lock_err)
		journal_unlock_updates(fs->journal);
	return err;
}

/* ---- unmount ---- */

static int close_journal(struct ext4_fs *fs)
{
	int err = journal_error(fs->journal);

	if (journal_is_null(fs->journal) && fs->priv->writable) {
		keep_first(&err, buffer_cache_sync(fs->bc));
		keep_first(&err, block_flush(fs->dev));
	}
	keep_first(&err, journal_close(fs->journal));
	fs->journal = NULL;
	return err;
}

/*
 * With the journal empty on disk the superblock can say so. After an error it keeps saying that recovery, or a check, is
 * needed, and that is true.
 */
static int stop_writing(struct ext4_fs *fs)
{
	int err;

	err = fs_is_read_only(fs) ? 0 : ext4_sync(fs);
	error_stop(fs);
	keep_first(&err, close_journal(fs));
	if (!err && fs_is_read_only(fs))
		err = -EROFS;
	if (!err)
		err = super_close(fs);
	else
		error_store_left(fs);
	return err;
}

static void free_parts(struct ext4_fs *fs)
{
	fast_commit_free(fs);
	orphan_exit(fs);
	ialloc_exit(fs);
	balloc_exit(fs);
	es_shrinker_exit(fs);
	system_zone_free(fs);
	groups_free(fs);
	journal_glue_exit(fs);
	buffer_put(fs->super_bh);
	if (fs->bc)
		buffer_cache_destroy(fs->bc);
	if (fs->cache)
		cache_destroy(fs->cache);
}

static void free_fs(struct ext4_fs *fs)
{
	error_exit(fs);
	background_exit(fs);
	mutex_exit(&fs->dirty_times_lock);
	mutex_exit(&fs->orphan_lock);
	mutex_exit(&fs->super_lock);
	options_exit(&fs->opt);
	free(fs->counters);
	free(fs->priv);
	free(fs);
}

int fs_teardown(struct ext4_fs *fs)
{
	int err = 0;

	background_close(fs);
	workqueue_stop(fs->ioend_wq);
	if (fs->priv->writable)
		err = stop_writing(fs);
	else if (fs->journal)
		err = close_journal(fs);
	keep_first(&err, mmp_stop(fs));
	free_parts(fs);
	if (fs->journal_dev)
		keep_first(&err, block_close(fs->journal_dev));
	keep_first(&err, block_close(fs->dev));
	free_fs(fs);
	return err;
}

int ext4_unmount(struct ext4_fs *fs)
{
	return fs_teardown(fs);
}
