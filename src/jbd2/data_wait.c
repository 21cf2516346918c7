/* SPDX-License-Identifier: MIT */
/*
 * data_wait.c - data that a commit waits for, and in the old way, kept for comparison, writes itself
 *
 * A transaction counts its waits; the list holds those whose I/O the commit is to issue. A wait keeps its transaction from
 * committing, so it may be looked at until the wait ends.
 */
#include "jbd2/commit.h"
#include "jbd2/jbd2_private.h"

void journal_wait_begin(struct handle *h, struct journal_data_wait *w)
{
	struct transaction *t = h->transaction;

	list_init(&w->node);
	w->is_offered = false;
	w->transaction = t;
	if (!t)
		return;
	atomic_fetch_add_explicit(&t->data_waits, 1, memory_order_relaxed);
	if (!w->issue)
		return;
	mutex_lock(&t->lock);
	list_add_tail(&w->node, &t->data);
	mutex_unlock(&t->lock);
}

static void leave_list(struct transaction *t, struct journal_data_wait *w)
{
	mutex_lock(&t->lock);
	list_del(&w->node);
	mutex_unlock(&t->lock);
}

void journal_wait_end(struct journal *j, struct journal_data_wait *w, int err)
{
	struct transaction *t = w->transaction;
	int none = 0;

	if (!t)
		return;
	if (w->issue)
		leave_list(t, w);
	w->transaction = NULL;
	if (err)
		atomic_compare_exchange_strong(&t->data_err, &none, err);
	if (atomic_fetch_sub_explicit(&t->data_waits, 1, memory_order_acq_rel) == 1) {
		/* *t may be gone: only the journal is touched. */
		mutex_lock(&j->state_lock);
		cond_broadcast(&j->drained);
		mutex_unlock(&j->state_lock);
	}
}

bool journal_wait_offer(struct journal *j, struct journal_data_wait *w)
{
	struct transaction *t = w->transaction;
	tid_t tid;

	if (!t)
		return false;
	tid = t->tid;
	mutex_lock(&t->lock);
	w->is_offered = !list_empty(&w->node);
	if (!w->is_offered) {
		mutex_unlock(&t->lock);
		return false;
	}
	mutex_unlock(&t->lock);
	journal_start_commit(j, tid); /* who waits for the data waits for the commit: it is not to be left to its age */
	return true;
}

void commit_issue_data(struct transaction *t)
{
	mutex_lock(&t->lock);
	while (!list_empty(&t->data)) {
		struct journal_data_wait *w = list_first(&t->data, struct journal_data_wait, node);

		list_del(&w->node);
		if (w->is_offered)
			w->issue(w);
	}
	mutex_unlock(&t->lock);
}
