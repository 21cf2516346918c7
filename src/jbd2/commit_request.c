/* SPDX-License-Identifier: MIT */
/* commit_request.c - asking for commits, waiting for them, and keeping new transactions out */
#include <errno.h>

#include "jbd2/jbd2_private.h"

void journal_request_commit(struct journal *j, tid_t tid)
{
	lock_assert_held(&j->state_lock);
	if (tid_gt(tid, j->commit_request)) {
		j->commit_request = tid;
		cond_broadcast(&j->commit_wake);
	}
}

/* state_lock held. The running transaction, or NULL. */
static struct transaction *running_locked(const struct journal *j)
{
	return atomic_load_explicit(&j->running, memory_order_relaxed);
}

tid_t journal_running_tid(struct journal *j)
{
	struct transaction *t;
	tid_t tid;

	if (j->is_null)
		return 0;
	mutex_lock(&j->state_lock);
	t = running_locked(j);
	tid = t ? t->tid : j->next_tid;
	mutex_unlock(&j->state_lock);
	return tid;
}

int journal_start_commit(struct journal *j, tid_t tid)
{
	struct transaction *t;

	if (j->is_null)
		return 0;
	mutex_lock(&j->state_lock);
	t = running_locked(j);
	if (t && t->tid == tid)
		journal_request_commit(j, tid);
	mutex_unlock(&j->state_lock);
	return journal_error(j) ? -EROFS : 0;
}

/* ---- waiting ---- */

/*
 * state_lock held. The transaction @tid, with a reference and one more waiter, its commit asked for; NULL: it is
 * neither running nor committing.
 */
static struct transaction *join_commit(struct journal *j, tid_t tid)
{
	struct transaction *t = running_locked(j);

	if (t && t->tid == tid) {
		journal_request_commit(j, tid);
		t->waiters++;
		if (j->batching && t->waiters >= j->batch_target)
			cond_broadcast(&j->commit_wake);
	} else {
		t = j->committing;
		if (!t || t->tid != tid)
			return NULL;
		t->waiters++;
	}
	transaction_get(t);
	return t;
}

/* state_lock held. Is @t running, and nobody else about to commit or likely to join? */
static bool should_commit_here(const struct journal *j, const struct transaction *t)
{
	return t && t == running_locked(j) && !j->commit_busy && !j->company;
}

/* Drops the reference. */
static int wait_for_pending(struct transaction *t)
{
	int err;

	word_bit_wait_clear(&t->pending, TXN_PENDING, TXN_WAITERS);
	err = t->err;
	transaction_put(t);
	return err;
}

int journal_wait_commit(struct journal *j, tid_t tid, bool *flushed_out)
{
	struct transaction *t;
	bool will_flush = false;
	int err;

	if (flushed_out)
		*flushed_out = false;
	if (j->is_null)
		return journal_error(j);
	counter_add(j->counters, CNT_JOURNAL_FSYNCS, 1);
	if (tid_geq(atomic_load_explicit(&j->committed_tid, memory_order_acquire), tid))
		return 0;
	mutex_lock(&j->state_lock);
	t = running_locked(j);
	if (t && t->tid == tid && should_commit_here(j, t)) {
		err = journal_commit_here(j, t);
		mutex_unlock(&j->state_lock);
		if (!err && flushed_out)
			*flushed_out = j->params.barriers;
		return err;
	}
	t = join_commit(j, tid);
	if (t)
		will_flush = j->params.barriers && !t->flush_sent;
	mutex_unlock(&j->state_lock);
	if (!t) {
		/* Durable meanwhile, lost, or never begun: of the last there is nothing to wait for. */
		if (tid_geq(atomic_load_explicit(&j->committed_tid, memory_order_acquire), tid))
			return 0;
		return journal_error(j);
	}
	err = wait_for_pending(t);
	if (!err && flushed_out)
		*flushed_out = will_flush;
	return err;
}

int journal_force_commit(struct journal *j)
{
	struct transaction *t;

	if (j->is_null)
		return journal_error(j);
	mutex_lock(&j->state_lock);
	t = running_locked(j);
	if (should_commit_here(j, t)) {
		int err = journal_commit_here(j, t);

		mutex_unlock(&j->state_lock);
		return err;
	}
	if (!t)
		t = j->committing;
	if (t)
		t = join_commit(j, t->tid);
	mutex_unlock(&j->state_lock);
	return t ? wait_for_pending(t) : journal_error(j);
}

/* Until the transaction that commits now is refiled, so that its blocks are on the checkpoint list. */
static void wait_until_refiled(struct journal *j)
{
	struct transaction *t;

	mutex_lock(&j->state_lock);
	t = j->committing;
	if (t) {
		transaction_get(t); /* so that another does not get its address */
		while (j->committing == t)
			cond_wait(&j->transition, &j->state_lock);
		transaction_put(t);
	}
	mutex_unlock(&j->state_lock);
}

int journal_checkpoint_all(struct journal *j)
{
	int err = journal_force_commit(j);

	if (j->is_null || err)
		return err;
	wait_until_refiled(j);
	return checkpoint_run(j);
}

/* ---- keeping new transactions out ---- */

int journal_lock_updates(struct journal *j)
{
	struct transaction *t;
	int err;

	if (j->is_null) {
		err = journal_error(j);
		if (!err)
			buffer_changes_block(j->bc);
		return err;
	}
	mutex_lock(&j->state_lock);
	j->barrier++;
	while ((t = running_locked(j)) || j->committing) {
		if (t)
			journal_request_commit(j, t->tid);
		cond_wait(&j->transition, &j->state_lock);
	}
	mutex_unlock(&j->state_lock);
	err = journal_error(j);
	if (!err)
		err = checkpoint_run(j);
	if (err)
		journal_unlock_updates(j);
	return err;
}

void journal_unlock_updates(struct journal *j)
{
	if (j->is_null) {
		buffer_changes_unblock(j->bc);
		return;
	}
	mutex_lock(&j->state_lock);
	UEXT4_ASSERT(j->barrier > 0);
	j->barrier--;
	cond_broadcast(&j->transition);
	mutex_unlock(&j->state_lock);
}
