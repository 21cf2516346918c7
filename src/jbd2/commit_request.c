/* SPDX-License-Identifier: MIT */
/* commit_request.c - asking for commits, having everything home, and keeping new transactions out */
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

tid_t journal_running_tid(struct journal *j)
{
	struct transaction *t;
	tid_t tid;

	if (j->is_null)
		return 0;
	mutex_lock(&j->state_lock);
	t = journal_running(j);
	tid = t ? t->tid : j->next_tid;
	mutex_unlock(&j->state_lock);
	return tid;
}

tid_t journal_newest_tid(struct journal *j)
{
	tid_t tid;

	if (j->is_null)
		return 0;
	mutex_lock(&j->state_lock);
	tid = j->next_tid - 1;
	mutex_unlock(&j->state_lock);
	return tid;
}

int journal_start_commit(struct journal *j, tid_t tid)
{
	struct transaction *t;

	if (j->is_null)
		return 0;
	mutex_lock(&j->state_lock);
	t = journal_running(j);
	if (t && t->tid == tid)
		journal_request_commit(j, tid);
	mutex_unlock(&j->state_lock);
	return journal_error(j) ? -EROFS : 0;
}

/* ---- everything home ---- */

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
	while ((t = journal_running(j)) || j->committing) {
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
