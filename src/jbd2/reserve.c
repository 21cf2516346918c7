/* SPDX-License-Identifier: MIT */
/*
 * reserve.c - handles whose room is set aside before they are needed
 *
 * A completed write must be able to record itself without waiting for log space, since making space may wait for
 * that very write. So a reservation holds its log blocks (J5) until it starts; then they move, with its credits, to
 * the running transaction. If there is none, one is made that has no other room ("limited"): ordinary handles join
 * it only once there is log space for a whole transaction.
 */
#include <errno.h>

#include "jbd2/jbd2_private.h"

/* Of a transaction's grant, for all reservations together. */
#define RESERVE_SHARE 2u

int journal_reserve(struct journal *j, uint32_t credits, struct handle *h)
{
	uint32_t blocks, cap;
	int err = 0;

	*h = (struct handle){ .journal = j, .credits = (int32_t)credits };
	if (j->is_null)
		return 0;
	blocks = credits <= j->max_credits ? log_blocks_for(j, credits) : UINT32_MAX;
	cap = j->grant_blocks / RESERVE_SHARE;
	if (blocks > cap) {
		log_print(j->params.log, LOG_ERROR, "journal: a reservation asks for %u blocks, too many for this log",
			  credits);
		return -ENOSPC;
	}
	mutex_lock(&j->state_lock);
	for (;;) {
		err = journal_error(j) ? -EROFS : 0;
		if (err)
			break;
		if (j->reserved_blocks + blocks <= cap && j->log_granted + blocks <= j->log_free) {
			j->reserved_blocks += blocks;
			j->log_granted += blocks;
			h->reserved = blocks;
			break;
		}
		journal_wait_room(j);
	}
	mutex_unlock(&j->state_lock);
	return err;
}

/* state_lock held. */
static void reservation_drop(struct handle *h)
{
	struct journal *j = h->journal;

	j->reserved_blocks -= h->reserved;
	j->log_granted -= h->reserved;
	h->reserved = 0;
	if (j->room_waiters)
		cond_broadcast(&j->transition);
}

void journal_unreserve(struct handle *h)
{
	struct journal *j = h->journal;

	if (!h->reserved)
		return;
	mutex_lock(&j->state_lock);
	reservation_drop(h);
	mutex_unlock(&j->state_lock);
}

/* state_lock held. The running transaction, not locked; NULL with *err_out 0: look again. */
static struct transaction *running_for_reserved(struct journal *j, int *err_out)
{
	struct transaction *t = atomic_load_explicit(&j->running, memory_order_relaxed);

	*err_out = journal_error(j) ? -EROFS : 0;
	if (*err_out)
		return NULL;
	if (t && t->state == T_LOCKED) {
		journal_wait_closed(j, t);
		return NULL;
	}
	if (!t && j->barrier) {
		cond_wait(&j->transition, &j->state_lock);
		return NULL;
	}
	if (!t) {
		*err_out = running_create(j, true);
		t = *err_out ? NULL : atomic_load_explicit(&j->running, memory_order_relaxed);
	}
	return t;
}

/* state_lock held. */
static void reservation_join(struct handle *h, struct transaction *t)
{
	struct journal *j = h->journal;
	uint64_t old;

	atomic_fetch_add(&t->limit, (uint32_t)h->credits);
	t->grant += h->reserved;
	j->reserved_blocks -= h->reserved; /* still in log_granted, as the transaction's */
	h->reserved = 0;
	old = atomic_fetch_add(&t->reserve, RESERVE_UPDATE + (uint32_t)h->credits);
	h->transaction = t;
	h->tid = t->tid;
	if (reserve_blocks(old) > j->max_credits)
		journal_request_commit(j, t->tid); /* reservations alone could make it as large as the log */
	if (j->room_waiters)
		cond_broadcast(&j->transition);
}

int journal_start_reserved(struct handle *h)
{
	struct journal *j = h->journal;
	struct transaction *t;
	int err;

	if (j->is_null) {
		null_begin(h);
		return 0;
	}
	lock_rank_enter(RANK_HANDLE);
	mutex_lock(&j->state_lock);
	do
		t = running_for_reserved(j, &err);
	while (!t && !err);
	if (t)
		reservation_join(h, t);
	else
		reservation_drop(h);
	mutex_unlock(&j->state_lock);
	if (err) {
		lock_rank_leave(RANK_HANDLE);
		return err;
	}
	counter_add(j->counters, CNT_JOURNAL_HANDLES, 1);
	return 0;
}
