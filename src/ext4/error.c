/* SPDX-License-Identifier: MIT */
/* error.c - what happens when corruption is found or the journal aborts */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/fs_private.h"
#include "ext4/inode.h"
#include "ext4/super.h"

/*
 * An error is found under any lock, so it is only noted there: a line in the log, a record under a leaf lock, and
 * the file system turned read-only if errors= says so. One thread then carries the records into the superblock:
 * through the journal while it works, else straight to the device, on top of what is there, since the
 * cached superblock may hold changes of a transaction that will never commit.
 */

static uint8_t errcode_of(int err)
{
	switch (-err) {
	case EIO:
		return EXT4_ERRCODE_EIO;
	case ENOMEM:
		return EXT4_ERRCODE_ENOMEM;
	case EBADMSG:
		return EXT4_ERRCODE_EFSBADCRC;
	case EUCLEAN:
		return EXT4_ERRCODE_EFSCORRUPT;
	case ENOSPC:
		return EXT4_ERRCODE_ENOSPC;
	case EROFS:
		return EXT4_ERRCODE_EROFS;
	default:
		return EXT4_ERRCODE_UNKNOWN;
	}
}

/* Notes the error and sees to it that the thread stores it. An image mounted read-only is never written. */
static void error_record(struct ext4_fs *fs, const char *func, int err, ino_num ino, fsblk_t blk)
{
	struct error_state *state = &fs->priv->error;
	struct error_record record = {
		.time_s = (uint64_t)fs_now(fs).tv_sec, .ino = ino, .blk = blk, .errcode = errcode_of(err),
	};

	atomic_store(&fs->has_errors, true);
	if (!fs->priv->writable)
		return;
	memcpy(record.func, func, strnlen(func, sizeof(record.func)));
	mutex_lock(&state->lock);
	if (state->pending.count++ == 0)
		state->pending.first = record;
	state->pending.last = record;
	if (!state->queued && state->wq) {
		state->queued = true;
		workqueue_add(state->wq, &state->work);
	}
	mutex_unlock(&state->lock);
}

/* errors=: the image's own "panic" only makes it read-only, since an image may not end the program that reads it. */
static void error_follow_policy(struct ext4_fs *fs)
{
	if (fs->opt.errors == ERRORS_PANIC) {
		log_print(&fs->log, LOG_ERROR, "%s: errors=panic: aborting the program", fs->name);
		abort();
	}
	if (fs->opt.errors == ERRORS_CONTINUE || atomic_exchange(&fs->read_only, true))
		return;
	log_print(&fs->log, LOG_ERROR, "%s: remounting read-only after an error", fs->name);
	if (fs->journal)
		journal_abort(fs->journal, -EIO);
}

int fs_error(struct ext4_fs *fs, const char *func, int err, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	log_print(&fs->log, LOG_ERROR, "%s: %s: %s", fs->name, func, text);
	error_record(fs, func, err, 0, 0);
	error_follow_policy(fs);
	return err;
}

int fs_inode_error(const struct inode *inode, const char *func, int err, fsblk_t blk, const char *fmt, ...)
{
	struct ext4_fs *fs = inode->fs;
	char text[512], where[64] = "";
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (blk)
		snprintf(where, sizeof(where), " block %" PRIu64 ":", blk);
	log_print(&fs->log, LOG_ERROR, "%s: %s: inode #%u:%s %s", fs->name, func, inode->ino, where, text);
	error_record(fs, func, err, inode->ino, blk);
	error_follow_policy(fs);
	return err;
}

void error_on_journal_abort(void *arg, int err)
{
	struct ext4_fs *fs = arg;

	if (!atomic_exchange(&fs->read_only, true))
		log_print(&fs->log, LOG_ERROR, "%s: the journal has aborted (%s): read-only from now on", fs->name,
			  strerror(-err));
	error_record(fs, __func__, err, 0, 0);
}

static void record_store_first(struct ext4_super_block *es, const struct error_record *r)
{
	super_time_set(&es->s_first_error_time, &es->s_first_error_time_hi, r->time_s);
	memcpy(es->s_first_error_func, r->func, sizeof(r->func));
	es->s_first_error_line = le32_make(0);
	es->s_first_error_ino = le32_make(r->ino);
	es->s_first_error_block = le64_make(r->blk);
	es->s_first_error_errcode = r->errcode;
}

static void record_store_last(struct ext4_super_block *es, const struct error_record *r)
{
	super_time_set(&es->s_last_error_time, &es->s_last_error_time_hi, r->time_s);
	memcpy(es->s_last_error_func, r->func, sizeof(r->func));
	es->s_last_error_line = le32_make(0);
	es->s_last_error_ino = le32_make(r->ino);
	es->s_last_error_block = le64_make(r->blk);
	es->s_last_error_errcode = r->errcode;
}

static void error_take(struct error_state *state, struct error_batch *batch_out)
{
	mutex_lock(&state->lock);
	*batch_out = state->pending;
	state->pending.count = 0;
	mutex_unlock(&state->lock);
}

/* The superblock could not be written: the records wait for the next error, or the unmount. */
static void error_put_back(struct error_state *state, const struct error_batch *batch)
{
	mutex_lock(&state->lock);
	if (!state->pending.count)
		state->pending.last = batch->last;
	state->pending.first = batch->first;
	state->pending.count += batch->count;
	mutex_unlock(&state->lock);
}

static void error_apply(const struct error_batch *batch, struct ext4_super_block *es)
{
	if (!batch->count)
		return;
	es->s_state = le16_make(le16_get(es->s_state) | EXT4_STATE_ERROR_FS);
	if (!le32_get(es->s_error_count))
		record_store_first(es, &batch->first);
	record_store_last(es, &batch->last);
	es->s_error_count = le32_make(le32_get(es->s_error_count) + batch->count);
}

static void store_pending(struct ext4_fs *fs, struct ext4_super_block *es, struct error_batch *batch_out)
{
	lock_assert_held(&fs->super_lock);
	if (atomic_load(&fs->has_errors))
		fs->priv->mount_state |= EXT4_STATE_ERROR_FS;
	error_take(&fs->priv->error, batch_out);
	error_apply(batch_out, es);
}

void error_store(struct ext4_fs *fs, struct ext4_super_block *es)
{
	struct error_batch batch;

	store_pending(fs, es, &batch);
}

/* Fields of the superblock that error_apply() writes, but for s_state. */
static void records_copy(struct ext4_super_block *to, const struct ext4_super_block *from)
{
	size_t start = offsetof(struct ext4_super_block, s_error_count), end = offsetof(struct ext4_super_block, s_mount_opts);

	memcpy((char *)to + start, (const char *)from + start, end - start);
	to->s_first_error_time_hi = from->s_first_error_time_hi;
	to->s_last_error_time_hi = from->s_last_error_time_hi;
	to->s_first_error_errcode = from->s_first_error_errcode;
	to->s_last_error_errcode = from->s_last_error_errcode;
}

void error_survive_replay(struct ext4_super_block *es, const struct ext4_super_block *before)
{
	if (!(le16_get(before->s_state) & EXT4_STATE_ERROR_FS))
		return;
	es->s_state = le16_make(le16_get(es->s_state) | EXT4_STATE_ERROR_FS);
	if (le32_get(before->s_error_count) > le32_get(es->s_error_count))
		records_copy(es, before);
	super_csum_set(es);
}

/* Waits for the commit: errors= may have the journal abort, and the records would be lost with the transaction. */
static int error_store_journaled(struct ext4_fs *fs)
{
	struct error_batch batch = { .count = 0 };
	struct ext4_super_block *es;
	struct handle h;
	int err, stop_err;

	err = journal_start(fs->journal, 1, 0, &h);
	if (err)
		return err;
	h.sync = true;
	err = super_change_begin(&h, fs, &es);
	if (!err) {
		store_pending(fs, es, &batch);
		err = super_change_end(&h, fs);
	}
	stop_err = journal_stop(&h);
	err = err ? err : stop_err;
	if (err && batch.count)
		error_put_back(&fs->priv->error, &batch);
	return err;
}

/* Reads the superblock of the device, marks that, and writes it back in place. */
static int super_mark_raw(struct ext4_fs *fs, const struct error_batch *batch)
{
	uint32_t sector = fs->dev->sector_bytes;
	uint64_t pos = EXT4_SUPER_OFFSET_BYTES;
	uint64_t start = round_down_to(pos, (uint64_t)sector), end = round_up_to(pos + EXT4_SUPER_BYTES, (uint64_t)sector);
	struct ext4_super_block *es;
	char *buf;
	int err;

	err = -posix_memalign((void **)&buf, max_of(sector, 4096u), end - start);
	if (err)
		return err;
	es = (struct ext4_super_block *)(void *)(buf + (pos - start));
	err = block_read(fs->dev, start, buf, end - start);
	if (!err && le16_get(es->s_magic) != EXT4_SUPER_MAGIC)
		err = -EUCLEAN;
	if (!err) {
		es->s_state = le16_make(le16_get(es->s_state) | EXT4_STATE_ERROR_FS);
		error_apply(batch, es);
		super_csum_set(es);
		err = block_write(fs->dev, start, buf, end - start, BIO_FUA);
	}
	free(buf);
	return err;
}

/* After an abort. */
static int error_store_raw(struct ext4_fs *fs)
{
	struct error_state *state = &fs->priv->error;
	struct error_batch batch;
	int err;

	error_take(state, &batch);
	err = super_mark_raw(fs, &batch);
	if (err && batch.count)
		error_put_back(state, &batch);
	return err;
}

static void error_report_store(struct ext4_fs *fs, int err)
{
	if (err)
		log_print(&fs->log, LOG_ERROR, "%s: cannot record the error in the superblock: %s", fs->name,
			  strerror(-err));
}

static void error_work(struct work *work)
{
	struct error_state *state = container_of(work, struct error_state, work);
	struct ext4_fs *fs = container_of(state, struct fs_private, error)->fs;
	bool journaled = fs->journal && !journal_error(fs->journal) && !fs_is_read_only(fs);
	int err = 0;

	mutex_lock(&state->lock);
	state->queued = false;
	mutex_unlock(&state->lock);
	if (journaled)
		err = error_store_journaled(fs);
	if (!journaled || (err && journal_error(fs->journal)))
		err = error_store_raw(fs);
	error_report_store(fs, err);
}

void error_init(struct ext4_fs *fs)
{
	struct error_state *state = &fs->priv->error;

	mutex_init(&state->lock, RANK_ERROR);
	work_init(&state->work, error_work);
}

int error_start(struct ext4_fs *fs)
{
	struct error_state *state = &fs->priv->error;
	struct workqueue *wq;
	int err = workqueue_start("uext4-error", 1, &wq);

	if (err)
		return err;
	mutex_lock(&state->lock);
	state->wq = wq;
	mutex_unlock(&state->lock);
	return 0;
}

void error_stop(struct ext4_fs *fs)
{
	struct error_state *state = &fs->priv->error;
	struct workqueue *wq;

	mutex_lock(&state->lock);
	wq = state->wq;
	state->wq = NULL;
	mutex_unlock(&state->lock);
	workqueue_stop(wq);
}

void error_store_left(struct ext4_fs *fs)
{
	bool pending;

	mutex_lock(&fs->priv->error.lock);
	pending = fs->priv->error.pending.count;
	mutex_unlock(&fs->priv->error.lock);
	if (pending)
		error_report_store(fs, error_store_raw(fs));
}

void error_exit(struct ext4_fs *fs)
{
	error_stop(fs);
	mutex_exit(&fs->priv->error.lock);
}
