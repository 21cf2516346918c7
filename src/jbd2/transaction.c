/* SPDX-License-Identifier: MIT */
/* transaction.c - life of a transaction: creation, the drain of its handles, references */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/object.h"
#include "base/thread.h"
#include "jbd2/jbd2_private.h"

#define HANDLE_NS     5000u   /* longer than most handles are open */
#define SPIN_NS       100000u /* longer than a short commit, also if who does it has to wait for a processor */
#define PAUSES_A_LOOK 10u

uint64_t journal_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

uint64_t journal_spin_end(const struct journal *j, uint64_t least_ns)
{
	bool short_commits = atomic_load_explicit(&j->patience, memory_order_relaxed) != PATIENCE_SLEEPS;

	return least_ns || short_commits ? journal_now_ns() + (short_commits ? SPIN_NS : least_ns) : 0;
}

bool journal_spin(const struct journal *j, uint64_t end_ns)
{
	if (journal_now_ns() >= end_ns)
		return false;
	for (unsigned i = 0; i < PAUSES_A_LOOK; i++)
		cpu_relax();
	if (atomic_load_explicit(&j->patience, memory_order_relaxed) == PATIENCE_YIELDS)
		sched_yield();
	return true;
}

int transaction_create(struct journal *j, struct transaction **t_out)
{
	struct transaction *t = object_alloc(sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->journal = j;
	t->start_ns = journal_now_ns();
	mutex_init(&t->lock, RANK_JOURNAL_LIST);
	list_init(&t->callbacks);
	list_init(&t->data);
	list_init(&t->cp_node);
	list_init(&t->cp_buffers);
	atomic_init(&t->pending, TXN_PENDING);
	atomic_init(&t->refs, 1);
	*t_out = t;
	return 0;
}

static void transaction_free(struct rcu_head *head)
{
	struct transaction *t = container_of(head, struct transaction, rcu);

	revoke_table_exit(&t->revokes);
	mutex_exit(&t->lock);
	object_free(t, sizeof(*t));
}

void transaction_get(struct transaction *t)
{
	atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
}

void transaction_put(struct transaction *t)
{
	if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1)
		rcu_defer(&t->rcu, transaction_free);
}

void transaction_check(const struct transaction *t)
{
	uint64_t reserve = atomic_load(&t->reserve);

	lock_assert_held(&t->journal->state_lock);
	UEXT4_ASSERT(t->state <= T_FINISHED);
	if (t->state < T_FLUSH)
		UEXT4_ASSERT(t->log_start == 0); /* nothing of it is in the log yet */
	if (t->state >= T_FLUSH) {
		UEXT4_ASSERT(reserve & RESERVE_LOCKED);
		UEXT4_ASSERT(atomic_load(&t->journal->running) != t);
	}
	if (t->state == T_FINISHED)
		UEXT4_ASSERT(t->grant == 0);
}

static bool transaction_has_updates(const struct transaction *t)
{
	return reserve_updates(atomic_load_explicit(&t->reserve, memory_order_acquire)) > 0;
}

void transaction_release(struct transaction *t, uint32_t blocks, bool ends_update)
{
	struct journal *j = t->journal;
	uint64_t delta = blocks + (ends_update ? RESERVE_UPDATE : 0);
	uint64_t old = atomic_fetch_sub_explicit(&t->reserve, delta, memory_order_acq_rel);

	UEXT4_DEBUG_ASSERT(reserve_blocks(old) >= blocks);
	/* From here on *t may be gone. Of those that end at the same time, the last sees the lock and no other. */
	if (unlikely(old & RESERVE_LOCKED) && ends_update && reserve_updates(old) == 1) {
		mutex_lock(&j->state_lock);
		cond_broadcast(&j->drained);
		mutex_unlock(&j->state_lock);
	}
}

/* state_lock held, dropped meanwhile. Handles are short: to sleep and to be woken takes longer than most of them. */
static void spin_for_updates(struct transaction *t)
{
	struct journal *j = t->journal;

	mutex_unlock(&j->state_lock);
	JOURNAL_SPIN_WHILE(j, HANDLE_NS, transaction_has_updates(t));
	mutex_lock(&j->state_lock);
}

void journal_wait_closed(struct journal *j, const struct transaction *t)
{
	lock_assert_held(&j->state_lock);
	mutex_unlock(&j->state_lock);
	JOURNAL_SPIN_WHILE(j, HANDLE_NS, journal_running(j) == t);
	mutex_lock(&j->state_lock);
	if (journal_running(j) == t && t->state == T_LOCKED && !journal_error(j))
		cond_wait(&j->transition, &j->state_lock);
}

void transaction_lock_and_drain(struct transaction *t)
{
	struct journal *j = t->journal;

	lock_assert_held(&j->state_lock);
	t->state = T_LOCKED;
	atomic_fetch_or_explicit(&t->reserve, RESERVE_LOCKED, memory_order_acq_rel);
	if (transaction_has_updates(t))
		spin_for_updates(t);
	while (transaction_has_updates(t))
		cond_wait(&j->drained, &j->state_lock);
	transaction_check(t);
}
