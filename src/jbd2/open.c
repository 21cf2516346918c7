/* SPDX-License-Identifier: MIT */
/* open.c - life of a journal: open, start, abort, close */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "jbd2/jbd2_private.h"
#include "jbd2/log_writer.h"

#define SUPER_ALIGN 4096u

static void locks_init(struct journal *j)
{
	mutex_init(&j->super_lock, RANK_JOURNAL_SUPER);
	mutex_init(&j->state_lock, RANK_JOURNAL_STATE);
	mutex_init(&j->list_lock, RANK_JOURNAL_LIST);
	cond_init(&j->commit_wake);
	cond_init(&j->drained);
	cond_init(&j->turn);
	cond_init(&j->transition);
	cond_init(&j->checkpoint_wake);
	cond_init(&j->checkpoint_done);
}

static void journal_free(struct journal *j)
{
	if (!j->is_null) {
		cond_exit(&j->checkpoint_done);
		cond_exit(&j->checkpoint_wake);
		cond_exit(&j->transition);
		cond_exit(&j->commit_wake);
		cond_exit(&j->drained);
		cond_exit(&j->turn);
		mutex_exit(&j->list_lock);
		mutex_exit(&j->state_lock);
		mutex_exit(&j->super_lock);
		log_map_exit(&j->map);
	}
	free(j->super_block);
	free(j);
}

static struct journal *journal_alloc(const struct journal_params *params)
{
	struct journal *j = aligned_alloc(64, round_up_to(sizeof(*j), 64));

	if (!j)
		return NULL;
	*j = (struct journal){
		.counters = params->counters, .bc = params->bc, .params = *params,
		.external = params->log_dev != buffer_cache_device(params->bc),
	};
	list_init(&j->checkpoint_list);
	locks_init(j);
	j->super_block = aligned_alloc(SUPER_ALIGN, round_up_to(params->block_bytes, SUPER_ALIGN));
	j->super = (struct journal_superblock *)j->super_block;
	if (j->super_block)
		return j;
	journal_free(j);
	return NULL;
}

int journal_open(const struct journal_params *params, struct journal **journal_out)
{
	struct journal *j = journal_alloc(params);
	int err;

	if (!j)
		return -ENOMEM;
	err = journal_super_read(j);
	if (!err)
		err = log_map_load(params, j->first, j->maxlen, &j->map);
	if (err) {
		journal_free(j);
		return err;
	}
	*journal_out = j;
	return 0;
}

bool journal_needs_recovery(const struct journal *j)
{
	return !j->is_null && be32_get(j->super->s_start) != 0;
}

int journal_errno_on_disk(const struct journal *j)
{
	return j->disk_errno;
}

int journal_clear_error(struct journal *j)
{
	int err;

	if (j->is_null)
		return 0;
	mutex_lock(&j->super_lock);
	err = journal_super_write_errno(j, 0);
	if (!err)
		j->disk_errno = 0;
	mutex_unlock(&j->super_lock);
	return err;
}

uint32_t journal_max_credits(const struct journal *j)
{
	return j->max_credits;
}

int journal_error(const struct journal *j)
{
	return atomic_load_explicit(&j->abort_err, memory_order_acquire);
}

/* ---- running ---- */

static void log_init(struct journal *j)
{
	/* Blocks of a transaction that a crash cut off may carry s_sequence: begin with the one after it. */
	j->next_tid = j->fc_pending ? j->fc_tid : be32_get(j->super->s_sequence) + 1;
	j->commit_request = j->next_tid - 1;
	j->batch_target = 1;
	j->processors = thread_processors();
	atomic_store(&j->committed_tid, j->next_tid - 1);
	j->tail_tid = j->next_tid;
	j->head = j->tail = j->first;
	j->log_free = j->log_blocks;
}

static void stop_threads(struct journal *j, bool commit, bool checkpoint)
{
	mutex_lock(&j->state_lock);
	j->stop = true;
	cond_broadcast(&j->commit_wake);
	cond_broadcast(&j->turn);
	cond_broadcast(&j->checkpoint_wake);
	mutex_unlock(&j->state_lock);
	if (commit)
		pthread_join(j->commit_thread, NULL);
	if (checkpoint)
		pthread_join(j->checkpoint_thread, NULL);
}

static int start_threads(struct journal *j)
{
	int err = thread_start("uext4-commit", journal_commit_thread, j, &j->commit_thread);

	if (err)
		return err;
	err = thread_start("uext4-checkpt", journal_checkpoint_thread, j, &j->checkpoint_thread);
	if (err)
		stop_threads(j, true, false);
	return err;
}

int journal_start_running(struct journal *j, bool csum_v3, bool is_64bit)
{
	int err;

	if (j->is_null)
		return 0;
	if (j->params.read_only)
		return -EROFS;
	if (journal_needs_recovery(j) && !j->fc_pending) {
		log_print(j->params.log, LOG_ERROR, "journal: the log is not empty; it must be recovered first");
		return -EUCLEAN;
	}
	err = journal_super_set_features(j, csum_v3, is_64bit);
	if (err)
		return err;
	log_init(j);
	err = log_writer_create(j, &j->writer);
	if (err)
		return err;
	j->gathered = checkpoint_alloc_gathered();
	err = j->gathered ? start_threads(j) : -ENOMEM;
	if (err) {
		free(j->gathered);
		j->gathered = NULL;
		log_writer_destroy(j->writer);
		j->writer = NULL;
		return err;
	}
	j->threads_run = true;
	return 0;
}

bool journal_fast_commits_pending(const struct journal *j)
{
	return j->fc_pending;
}

int journal_fast_commits_done(struct journal *j)
{
	int err = journal_checkpoint_all(j);

	if (err)
		return err;
	mutex_lock(&j->state_lock);
	UEXT4_ASSERT(!atomic_load(&j->running) && !j->committing);
	j->fc_pending = false;
	journal_grant_set(j, j->log_blocks / JOURNAL_TRANSACTION_SHARE);
	if (tid_geq(j->fc_seen_tid, j->next_tid))
		j->next_tid = j->fc_seen_tid + 1;
	mutex_unlock(&j->state_lock);
	return 0;
}

void journal_abort(struct journal *j, int err)
{
	struct transaction *t;
	int none = 0;

	UEXT4_ASSERT(err < 0);
	if (!atomic_compare_exchange_strong(&j->abort_err, &none, err) || j->is_null)
		return;
	log_print(j->params.log, LOG_ERROR, "journal: aborted: %s", strerror(-err));
	mutex_lock(&j->state_lock);
	t = atomic_load_explicit(&j->running, memory_order_relaxed);
	if (t) /* the fast path of journal_start() then looks no further */
		atomic_fetch_or(&t->reserve, RESERVE_LOCKED);
	cond_broadcast(&j->commit_wake);
	cond_broadcast(&j->turn);
	cond_broadcast(&j->transition);
	cond_signal(&j->checkpoint_wake);
	mutex_unlock(&j->state_lock);
	if (j->params.on_abort)
		j->params.on_abort(j->params.abort_arg, err);
}

/* ---- the end ---- */

static int close_running(struct journal *j)
{
	int err = journal_checkpoint_all(j);

	stop_threads(j, true, true);
	j->threads_run = false;
	UEXT4_ASSERT(!j->committing && !atomic_load(&j->running));
	UEXT4_ASSERT(err || list_empty(&j->checkpoint_list)); /* the caller has closed all handles */
	if (!err && !j->super_says_empty)
		err = journal_super_reset(j, j->next_tid);
	checkpoint_drop_all(j);
	log_writer_destroy(j->writer);
	free(j->gathered);
	return err;
}

int journal_close(struct journal *j)
{
	int err = 0;

	if (!j)
		return 0;
	if (j->threads_run)
		err = close_running(j);
	else if (journal_error(j))
		err = journal_error(j);
	journal_free(j);
	return err;
}
