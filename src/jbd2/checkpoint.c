/* SPDX-License-Identifier: MIT */
/*
 * checkpoint.c - writes committed blocks home so that the log's tail may move
 *
 * One thread does it, ahead of need: it starts when half the log is in use and stops at a quarter, so that commits
 * find room. It takes the blocks of the oldest transactions, as many at a time as make good sorted runs, and writes
 * those that are still dirty; the flusher may have been there before. Then the device is flushed and the superblock
 * gets the new tail, in one request where log and home share a device (J4). Only then are log blocks free again.
 *
 * A block that a newer transaction has changed again is written by neither: it leaves this list when that transaction
 * commits (J7). If the running one is what holds the tail back, its commit is asked for.
 *
 * A write home that fails aborts the journal: the tail stays, and replay repeats the write.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "jbd2/jbd2_private.h"

/* Blocks gathered at a time: enough for long runs, and an array of 32 KiB. */
#define GATHER_BLOCKS 4096u
/* Before the next attempt; what is written home frees no memory here, but others do. */
#define NO_MEMORY_PAUSE_NS 1000000
/* Parts of the log in use at which the thread starts and stops. */
#define START_AT(log_blocks) ((log_blocks) / 2)
#define STOP_AT(log_blocks)  ((log_blocks) / 4)

/* ---- the lists ---- */

void checkpoint_begin_transaction(struct transaction *t)
{
	struct journal *j = t->journal;

	transaction_get(t);
	mutex_lock(&j->list_lock);
	t->cp_filling = true;
	list_add_tail(&t->cp_node, &j->checkpoint_list);
	mutex_unlock(&j->list_lock);
}

/* list_lock held. Takes @t off the list if nothing of it has to go home; the caller puts it then. */
static bool checkpoint_unlist_if_done(struct transaction *t)
{
	if (t->cp_filling || !list_empty(&t->cp_buffers))
		return false;
	list_del(&t->cp_node);
	return true;
}

void checkpoint_end_transaction(struct transaction *t)
{
	struct journal *j = t->journal;
	bool done;

	mutex_lock(&j->list_lock);
	t->cp_filling = false;
	done = checkpoint_unlist_if_done(t);
	mutex_unlock(&j->list_lock);
	if (done)
		transaction_put(t);
}

void checkpoint_insert(struct journal_head *jh, struct transaction *t)
{
	struct journal *j = t->journal;

	mutex_lock(&j->list_lock);
	UEXT4_ASSERT(!jh->cp_transaction);
	jh->cp_transaction = t;
	list_add_tail(&jh->cp_node, &t->cp_buffers);
	mutex_unlock(&j->list_lock);
}

void checkpoint_remove(struct journal_head *jh)
{
	struct transaction *t = jh->cp_transaction;
	bool done;

	if (!t)
		return;
	mutex_lock(&t->journal->list_lock);
	list_del(&jh->cp_node);
	jh->cp_transaction = NULL;
	done = checkpoint_unlist_if_done(t);
	mutex_unlock(&t->journal->list_lock);
	if (done)
		transaction_put(t);
}

void checkpoint_drop_all(struct journal *j)
{
	struct transaction *t;
	struct journal_head *jh;

	while (!list_empty(&j->checkpoint_list)) {
		struct buffer_head *bh;
		bool idle;

		t = list_first(&j->checkpoint_list, struct transaction, cp_node);
		jh = list_first(&t->cp_buffers, struct journal_head, cp_node);
		bh = jh->bh;
		jh_lock(bh);
		checkpoint_remove(jh); /* the last one takes @t off the list */
		idle = jh_detach_if_idle(jh);
		jh_unlock(bh);
		if (idle)
			buffer_put(bh);
	}
}

/* ---- one pass ---- */

static uint32_t log_used(const struct journal *j)
{
	return j->log_blocks - j->log_free;
}

/* The newest transaction that this pass sends home; false: none. */
static bool pass_goal(struct journal *j, bool everything, tid_t *goal_out)
{
	struct transaction *t;
	bool found = false;

	mutex_lock(&j->state_lock);
	mutex_lock(&j->list_lock);
	list_for_each(t, &j->checkpoint_list, cp_node) {
		if (!everything && found && log_distance(j, t->log_start, j->head) <= STOP_AT(j->log_blocks))
			break;
		*goal_out = t->tid;
		found = true;
	}
	mutex_unlock(&j->list_lock);
	mutex_unlock(&j->state_lock);
	return found;
}

/* Up to GATHER_BLOCKS buffers of transactions up to @goal, oldest first, each with a reference. */
static size_t gather(struct journal *j, tid_t goal, struct buffer_head **bhs)
{
	struct transaction *t;
	struct journal_head *jh;
	size_t count = 0;

	mutex_lock(&j->list_lock);
	list_for_each(t, &j->checkpoint_list, cp_node) {
		if (count == GATHER_BLOCKS || !tid_geq(goal, t->tid))
			break;
		list_for_each(jh, &t->cp_buffers, cp_node) {
			if (count == GATHER_BLOCKS)
				break;
			buffer_hold(jh->bh);
			bhs[count++] = jh->bh;
		}
	}
	mutex_unlock(&j->list_lock);
	return count;
}

/* Takes @bh off its list if it is home. False: transaction *tid_out, not committed yet, has it. */
static bool settle(struct buffer_head *bh, tid_t *tid_out)
{
	struct journal_head *jh;
	struct transaction *owner = NULL;
	bool idle = false;

	jh_lock(bh);
	jh = atomic_load_explicit(&bh->jh, memory_order_relaxed);
	if (jh && jh->cp_transaction) {
		owner = jh_transaction(jh);
		if (owner) {
			*tid_out = owner->tid;
		} else if (!buffer_test(bh, BH_DIRTY | BH_WRITEBACK)) {
			checkpoint_remove(jh);
			idle = jh_detach_if_idle(jh);
		}
	}
	jh_unlock(bh);
	if (idle)
		buffer_put(bh);
	return owner == NULL;
}

/* Until @tid is committed and its buffers are refiled, or lost. */
static void wait_until_finished(struct journal *j, tid_t tid)
{
	mutex_lock(&j->state_lock);
	for (;;) {
		struct transaction *running = atomic_load_explicit(&j->running, memory_order_relaxed);

		if (running && running->tid == tid)
			journal_request_commit(j, tid);
		else if (!j->committing || j->committing->tid != tid)
			break;
		cond_wait(&j->transition, &j->state_lock);
	}
	mutex_unlock(&j->state_lock);
}

/* One round: what can be gathered at once. Returns how many there were, or an error. */
static ssize_t checkpoint_round(struct journal *j, tid_t goal, struct buffer_head **bhs)
{
	size_t count = gather(j, goal, bhs);
	bool blocked = false;
	tid_t blocked_tid = 0;
	int err = buffers_write(j->bc, bhs, count);

	for (size_t i = 0; i < count; i++) {
		tid_t tid;

		if (!settle(bhs[i], &tid)) {
			blocked_tid = !blocked || tid_gt(tid, blocked_tid) ? tid : blocked_tid;
			blocked = true;
		}
		buffer_put(bhs[i]);
	}
	if (err == -ENOMEM)
		nanosleep(&(struct timespec){ .tv_nsec = NO_MEMORY_PAUSE_NS }, NULL);
	else if (err)
		return err;
	if (blocked)
		wait_until_finished(j, blocked_tid);
	return (ssize_t)count;
}

/* state_lock held. Where the oldest transaction begins that is not all home, or the next one if there is none. */
static void find_tail(struct journal *j, bool *empty_out, uint32_t *tail_out, tid_t *tid_out)
{
	struct transaction *running = atomic_load_explicit(&j->running, memory_order_relaxed);

	mutex_lock(&j->list_lock);
	*empty_out = list_empty(&j->checkpoint_list) && !j->committing;
	if (!list_empty(&j->checkpoint_list)) {
		struct transaction *t = list_first(&j->checkpoint_list, struct transaction, cp_node);

		*tail_out = t->log_start;
		*tid_out = t->tid;
	} else if (j->committing) {
		*tail_out = j->committing->log_start;
		*tid_out = j->committing->tid;
	} else {
		*tail_out = j->head;
		*tid_out = running ? running->tid : j->next_tid;
	}
	mutex_unlock(&j->list_lock);
}

/* J4. With @may_empty and nothing left, the superblock says that the log is empty. */
static int move_tail(struct journal *j, bool may_empty)
{
	uint32_t tail, old_tail;
	tid_t tid;
	bool empty, moves;
	int err = 0;

	mutex_lock(&j->super_lock);
	mutex_lock(&j->state_lock);
	find_tail(j, &empty, &tail, &tid);
	old_tail = j->tail;
	moves = tail != old_tail || tid != j->tail_tid || (empty && may_empty);
	mutex_unlock(&j->state_lock);
	/* A commit that begins now finds the superblock as it is after this: it takes super_lock first. */
	if (moves && !j->super_says_empty)
		err = journal_super_write_tail(j, empty && may_empty ? 0 : tail, tid);
	if (!err) {
		mutex_lock(&j->state_lock);
		j->log_free += log_distance(j, old_tail, tail);
		j->tail = tail;
		j->tail_tid = tid;
		cond_broadcast(&j->transition);
		mutex_unlock(&j->state_lock);
	}
	mutex_unlock(&j->super_lock);
	return err;
}

static int checkpoint_pass(struct journal *j, bool everything, struct buffer_head **bhs)
{
	ssize_t res = 0;
	tid_t goal;

	if (pass_goal(j, everything, &goal)) {
		counter_add(j->counters, CNT_JOURNAL_CHECKPOINTS, 1);
		do
			res = journal_error(j) ? -EROFS : checkpoint_round(j, goal, bhs);
		while (res > 0);
	}
	if (!res && !journal_error(j))
		res = move_tail(j, everything);
	return (int)res;
}

/* ---- the thread ---- */

/* state_lock held. */
static bool room_is_short(const struct journal *j)
{
	return j->room_waiters && j->log_granted + j->grant_blocks > j->log_free;
}

/* state_lock held. */
static bool is_wanted(const struct journal *j)
{
	return log_used(j) > START_AT(j->log_blocks) || room_is_short(j);
}

void checkpoint_kick_if_needed(struct journal *j)
{
	if (is_wanted(j))
		cond_signal(&j->checkpoint_wake);
}

/* state_lock held. A pass could not help: what holds the log must commit first; that wakes the thread again. */
static void wait_for_commit(struct journal *j)
{
	struct transaction *running = atomic_load_explicit(&j->running, memory_order_relaxed);

	if (running && !j->committing)
		journal_request_commit(j, running->tid);
	cond_wait(&j->checkpoint_wake, &j->state_lock);
}

/* state_lock held, dropped meanwhile. */
static void run_pass(struct journal *j, struct buffer_head **bhs)
{
	uint32_t tail_before = j->tail;
	uint64_t pass = ++j->pass_begun;
	bool everything = j->pass_asked >= pass;
	int err;

	mutex_unlock(&j->state_lock);
	err = checkpoint_pass(j, everything, bhs);
	if (err)
		journal_abort(j, err);
	mutex_lock(&j->state_lock);
	j->pass_done = pass;
	cond_broadcast(&j->checkpoint_done);
	if (!err && j->tail == tail_before && j->pass_asked <= j->pass_done && is_wanted(j) && !j->stop)
		wait_for_commit(j);
}

void *journal_checkpoint_thread(void *arg)
{
	struct journal *j = arg;
	struct buffer_head **bhs = j->gathered;

	mutex_lock(&j->state_lock);
	for (;;) {
		bool asked = j->pass_asked > j->pass_done;

		if (asked || (is_wanted(j) && !journal_error(j) && !j->stop))
			run_pass(j, bhs);
		else if (j->stop)
			break;
		else
			cond_wait(&j->checkpoint_wake, &j->state_lock);
	}
	mutex_unlock(&j->state_lock);
	return NULL;
}

int checkpoint_run(struct journal *j)
{
	uint64_t pass;

	mutex_lock(&j->state_lock);
	pass = j->pass_begun + 1;
	j->pass_asked = max_of(j->pass_asked, pass);
	cond_signal(&j->checkpoint_wake);
	while (j->pass_done < pass)
		cond_wait(&j->checkpoint_done, &j->state_lock);
	mutex_unlock(&j->state_lock);
	return journal_error(j);
}

struct buffer_head **checkpoint_alloc_gathered(void)
{
	return malloc(GATHER_BLOCKS * sizeof(struct buffer_head *));
}
