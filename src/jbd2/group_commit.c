/* SPDX-License-Identifier: MIT */
/*
 * group_commit.c - waiting for a commit, and doing it
 *
 * G1  A lone fsync commits at once, on its own thread.
 * G2  In company, fsyncs that come while a commit is under way share the next one. The first of them leads: when it is
 *     its turn it gives the others the time that a commit takes to join, as many as took part lately, then commits. One
 *     that completes the number commits at once, and the leader waits like the others.
 * G3  Company is over when COMPANY_COMMITS in a row were lone ones.
 *
 * So nobody waits for a thread that only commits, and of those who wait each is woken once.
 */
#include "jbd2/jbd2_private.h"

#define DEFAULT_MAX_BATCH_US 15000u

/* state_lock held. Nobody commits now. Is there nobody to wait for? */
static bool is_complete(const struct journal *j, const struct transaction *t)
{
	return !j->company || t->waiters >= j->batch_target || j->stop || journal_error(j);
}

/* state_lock held, dropped meanwhile. G2: until @t may be committed by this thread, true, or somebody else has begun. */
static bool lead(struct journal *j, const struct transaction *t)
{
	uint64_t max_ns = (uint64_t)(j->params.max_batch_us ? j->params.max_batch_us : DEFAULT_MAX_BATCH_US) * 1000;
	uint64_t now_ns, end_ns = 0;

	while (journal_running(j) == t) {
		if (j->commit_busy) {
			journal_wait_turn(j);
			continue;
		}
		now_ns = journal_now_ns();
		if (!end_ns)
			end_ns = now_ns + min_of(j->commit_ns, max_ns);
		if (is_complete(j, t) || now_ns >= end_ns)
			return true;
		cond_wait_timeout(&j->commit_wake, &j->state_lock, end_ns - now_ns);
	}
	return false;
}

/* state_lock held. Is it this thread that commits @t, which it has joined? */
static bool is_ours_to_commit(struct journal *j, struct transaction *t)
{
	if (journal_running(j) != t)
		return false;
	if (!j->commit_busy && is_complete(j, t))
		return true;
	if (t->has_leader)
		return false;
	t->has_leader = true;
	return lead(j, t);
}

/* state_lock held, dropped on return. @t is running or committing. Its error. */
static int commit_or_wait(struct journal *j, struct transaction *t)
{
	int err;

	transaction_get(t);
	t->waiters++;
	if (is_ours_to_commit(j, t))
		journal_commit(j, t);
	mutex_unlock(&j->state_lock);
	word_bit_wait_clear(&t->pending, TXN_PENDING, TXN_WAITERS);
	err = t->err;
	transaction_put(t);
	return err;
}

/* state_lock held. The transaction @tid; NULL: it is neither running nor committing. */
static struct transaction *find_transaction(const struct journal *j, tid_t tid)
{
	struct transaction *t = journal_running(j);

	if (t && t->tid == tid)
		return t;
	t = j->committing;
	return t && t->tid == tid ? t : NULL;
}

int journal_wait_commit(struct journal *j, tid_t tid, bool *flushed_out)
{
	struct transaction *t;
	bool will_flush;
	int err;

	if (flushed_out)
		*flushed_out = false;
	if (j->is_null)
		return journal_error(j);
	counter_add(j->counters, CNT_JOURNAL_FSYNCS, 1);
	if (tid_geq(atomic_load_explicit(&j->committed_tid, memory_order_acquire), tid))
		return 0;
	mutex_lock(&j->state_lock);
	t = find_transaction(j, tid);
	if (!t) {
		mutex_unlock(&j->state_lock);
		/* Durable meanwhile, lost, or never begun: of the last there is nothing to wait for. */
		if (tid_geq(atomic_load_explicit(&j->committed_tid, memory_order_acquire), tid))
			return 0;
		return journal_error(j);
	}
	will_flush = j->params.barriers && !t->flush_sent;
	err = commit_or_wait(j, t);
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
	t = journal_running(j);
	if (!t)
		t = j->committing;
	if (t)
		return commit_or_wait(j, t);
	mutex_unlock(&j->state_lock);
	return journal_error(j);
}
