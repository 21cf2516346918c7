/* SPDX-License-Identifier: MIT */
/*
 * handle.c - handles: joining the running transaction, extending, restarting, leaving
 *
 * A handle joins with one atomic addition to transaction.reserve, which carries the lock bit, the number of open
 * handles and the reserved blocks; whoever finds afterwards that the transaction is locked or full takes his part
 * back and goes the slow way under state_lock. The pointer to the running transaction is read under RCU. Log space
 * is no matter here: the transaction got a grant for its limit when it was made (J5).
 *
 *   running --commit thread: T_LOCKED--> no handle joins --last journal_stop()--> T_FLUSH, the next one may be made
 */
#include <errno.h>

#include "jbd2/jbd2_private.h"

static uint32_t revoke_blocks(const struct journal *j, uint32_t records)
{
	return records ? (uint32_t)div_round_up(records, journal_revokes_per_block(&j->layout)) : 0;
}

/* ---- joining ---- */

static struct transaction *join_running(struct journal *j, uint32_t blocks)
{
	struct transaction *t;
	uint64_t old;

	rcu_enter();
	t = atomic_load_explicit(&j->running, memory_order_acquire);
	if (likely(t)) {
		old = atomic_fetch_add_explicit(&t->reserve, RESERVE_UPDATE + blocks, memory_order_acquire);
		if (unlikely((old & RESERVE_LOCKED) ||
			     reserve_blocks(old) + blocks > atomic_load_explicit(&t->limit, memory_order_relaxed))) {
			transaction_release(t, blocks, true);
			t = NULL;
		}
	}
	rcu_leave();
	return t;
}

bool transaction_join_locked(struct transaction *t, uint32_t blocks)
{
	uint64_t old;

	lock_assert_held(&t->journal->state_lock);
	if (atomic_load_explicit(&t->reserve, memory_order_relaxed) & RESERVE_LOCKED)
		return false;
	old = atomic_fetch_add_explicit(&t->reserve, RESERVE_UPDATE + blocks, memory_order_acquire);
	if (reserve_blocks(old) + blocks <= atomic_load_explicit(&t->limit, memory_order_relaxed))
		return true;
	atomic_fetch_sub_explicit(&t->reserve, RESERVE_UPDATE + blocks, memory_order_release);
	return false;
}

int running_create(struct journal *j, bool limited)
{
	struct transaction *t;
	int err;

	lock_assert_held(&j->state_lock);
	UEXT4_ASSERT(!atomic_load(&j->running));
	err = transaction_create(j, &t);
	if (err)
		return err;
	t->tid = j->next_tid++;
	t->is_limited = limited;
	if (!limited) {
		t->grant = j->grant_blocks;
		j->log_granted += t->grant;
		atomic_store(&t->limit, j->max_credits);
	}
	UEXT4_ASSERT(j->log_granted <= j->log_free); /* J5 */
	atomic_store_explicit(&j->running, t, memory_order_release);
	return 0;
}

void journal_wait_room(struct journal *j)
{
	lock_assert_held(&j->state_lock);
	j->room_waiters++;
	cond_signal(&j->checkpoint_wake);
	cond_wait(&j->transition, &j->state_lock);
	j->room_waiters--;
}

/* state_lock held. The running transaction, with a grant for ordinary handles; NULL with *err_out 0: look again. */
static struct transaction *running_get(struct journal *j, int *err_out)
{
	struct transaction *t = atomic_load_explicit(&j->running, memory_order_relaxed);

	*err_out = 0;
	if (t && !t->is_limited)
		return t;
	if (!t && j->barrier) {
		cond_wait(&j->transition, &j->state_lock);
		return NULL;
	}
	if (j->log_granted + j->grant_blocks > j->log_free) {
		journal_wait_room(j);
		return NULL;
	}
	if (!t) {
		*err_out = running_create(j, false);
		return *err_out ? NULL : atomic_load_explicit(&j->running, memory_order_relaxed);
	}
	t->is_limited = false;
	t->grant += j->grant_blocks;
	j->log_granted += j->grant_blocks;
	atomic_fetch_add(&t->limit, j->max_credits);
	return t;
}

static int join_slow(struct journal *j, uint32_t blocks, struct transaction **t_out)
{
	struct transaction *t;
	int err = 0;

	mutex_lock(&j->state_lock);
	for (;;) {
		if (journal_error(j)) {
			err = -EROFS;
			break;
		}
		t = running_get(j, &err);
		if (err)
			break;
		if (!t)
			continue;
		if (transaction_join_locked(t, blocks)) {
			*t_out = t;
			break;
		}
		if (t->state == T_LOCKED) {
			journal_wait_closed(j, t);
			continue;
		}
		journal_request_commit(j, t->tid);
		cond_wait(&j->transition, &j->state_lock);
	}
	mutex_unlock(&j->state_lock);
	return err;
}

static int handle_begin(struct handle *h, uint32_t credits, uint32_t revokes)
{
	struct journal *j = h->journal;
	uint32_t blocks = credits + revoke_blocks(j, revokes);
	int err;

	if (unlikely(credits > j->max_credits || blocks > j->max_credits)) {
		log_print(j->params.log, LOG_ERROR, "journal: a handle asks for %u blocks, at most %u are allowed",
			  blocks, j->max_credits);
		return -ENOSPC;
	}
	lock_rank_enter(RANK_HANDLE);
	h->transaction = join_running(j, blocks);
	if (unlikely(!h->transaction)) {
		err = join_slow(j, blocks, &h->transaction);
		if (err) {
			lock_rank_leave(RANK_HANDLE);
			return err;
		}
	}
	h->tid = h->transaction->tid;
	h->credits = (int32_t)credits;
	h->revokes = h->revokes_asked = (int32_t)revokes;
	counter_add(j->counters, CNT_JOURNAL_HANDLES, 1);
	return 0;
}

int journal_start(struct journal *j, uint32_t credits, uint32_t revokes, struct handle *h)
{
	*h = (struct handle){ .journal = j };
	if (unlikely(j->is_null)) {
		h->credits = (int32_t)credits;
		null_begin(h);
		return 0;
	}
	return handle_begin(h, credits, revokes);
}

int journal_extend(struct handle *h, uint32_t credits, uint32_t revokes)
{
	struct transaction *t = h->transaction;
	struct journal *j = h->journal;
	uint32_t blocks;
	uint64_t old;

	if (j->is_null)
		return 0;
	if (!t || journal_error(j))
		return -EROFS;
	if (credits > j->max_credits)
		return 1;
	blocks = credits + revoke_blocks(j, (uint32_t)h->revokes_asked + revokes) -
		 revoke_blocks(j, (uint32_t)h->revokes_asked);
	old = atomic_fetch_add_explicit(&t->reserve, blocks, memory_order_relaxed);
	if ((old & RESERVE_LOCKED) || reserve_blocks(old) + blocks > atomic_load_explicit(&t->limit, memory_order_relaxed)) {
		transaction_release(t, blocks, false);
		return 1;
	}
	h->credits += (int32_t)credits;
	h->revokes += (int32_t)revokes;
	h->revokes_asked += (int32_t)revokes;
	return 0;
}

/* ---- leaving ---- */

/* Of the blocks reserved for revoke records, those that the records written do not need. */
static uint32_t revoke_blocks_unused(struct handle *h)
{
	struct journal *j = h->journal;
	uint32_t used = (uint32_t)(h->revokes_asked - h->revokes);
	uint32_t reserved = revoke_blocks(j, (uint32_t)h->revokes_asked), before;

	if (!used)
		return reserved;
	before = atomic_fetch_add_explicit(&h->transaction->revoke_records, used, memory_order_relaxed);
	return reserved - (revoke_blocks(j, before + used) - revoke_blocks(j, before));
}

static void handle_end(struct handle *h)
{
	uint32_t unused = (uint32_t)max_of(h->credits, 0);

	if (h->revokes_asked)
		unused += revoke_blocks_unused(h);
	transaction_release(h->transaction, unused, true);
	h->transaction = NULL;
	lock_rank_leave(RANK_HANDLE);
}

int journal_restart(struct handle *h, uint32_t credits, uint32_t revokes)
{
	int err;

	if (h->journal->is_null) {
		null_restart(h);
		return 0;
	}
	if (!h->transaction)
		return -EROFS;
	handle_end(h);
	err = handle_begin(h, credits, revokes);
	if (err && !h->err)
		h->err = err;
	return err;
}

int journal_stop(struct handle *h)
{
	struct journal *j = h->journal;
	int err;

	if (unlikely(j->is_null)) {
		null_end(h);
		return h->err;
	}
	if (unlikely(!h->transaction))
		return h->err; /* a restart failed */
	handle_end(h);
	if (unlikely(h->err))
		return h->err;
	if (h->sync) {
		err = journal_wait_commit(j, h->tid, NULL);
		if (err)
			return err;
	}
	return likely(!journal_error(j)) ? 0 : -EROFS;
}

/* ---- what rides on a transaction ---- */

void journal_add_callback(struct handle *h, struct journal_callback *cb)
{
	struct transaction *t = h->transaction;

	if (h->journal->is_null) {
		list_add_tail(&cb->node, &h->callbacks);
		return;
	}
	UEXT4_ASSERT(t);
	mutex_lock(&t->lock);
	list_add_tail(&cb->node, &t->callbacks);
	mutex_unlock(&t->lock);
}
