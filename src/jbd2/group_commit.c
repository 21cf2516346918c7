/* SPDX-License-Identifier: MIT */
/*
 * group_commit.c - waiting for a commit, and doing it
 *
 * G1  A lone fsync commits at once, on its own thread.
 * G2  In company, of threads that fsynced within COMPANY_NS or a few commits, fsyncs share commits: the first to wait for a
 *     transaction leads, that is, it waits until batch_target others have joined, and whoever completes the number commits.
 *     When no one more comes for the time that a commit takes, the leader commits with those there are.
 * G3  The target is the whole company where a commit waits long for its device (SLOW_COMMIT_NS), and else half of it, so
 *     that one half works while the other commits. It is halved when the leader waited in vain, doubles when the number was
 *     reached, and is tried again now and then (PROBE_COMMITS): threads that think longer between fsyncs than a commit takes
 *     are not made to wait for each other.
 * G4  Commits that are cheaper than a wake-up (FAST_COMMIT_NS) are not waited for by a FEW: those who come during one share the
 *     next. Who waits looks on before it sleeps (transaction.c), and gives way to others where not each of the company has a
 *     processor.
 *
 * So nobody waits for a thread that only commits, and of those who wait each is woken once.
 */
#include "base/thread.h"
#include "jbd2/jbd2_private.h"

#define DEFAULT_MAX_BATCH_US 15000u
#define COMPANY_NS           UINT64_C(50000000)
#define SLOW_COMMIT_NS       100000u
#define FAST_COMMIT_NS       30000u /* about what it costs to sleep and to be woken */
#define FEW                  8u
#define FEW_CROWDED          2u /* without a processor for each */
#define GAP_NS_MIN           50000u /* a thread that is woken needs about that long for its next fsync */
#define PROBE_COMMITS        64u

/* ---- how many are there? ---- */

/* The calling thread's place in journal.fsynced_ns. Two may share one and count for one. */
static unsigned my_slot(void)
{
	static _Atomic unsigned next;
	static _Thread_local unsigned mine;

	if (!mine)
		mine = 1 + atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % JOURNAL_COMPANY_MAX;
	return mine - 1;
}

static uint32_t company(const struct journal *j, uint64_t now_ns)
{
	uint64_t window_ns = max_of(COMPANY_NS, 4 * j->commit_ns);
	uint32_t count = 0;

	for (unsigned i = 0; i < JOURNAL_COMPANY_MAX; i++)
		count += j->fsynced_ns[i] && now_ns - j->fsynced_ns[i] < window_ns;
	return count;
}

static uint32_t target_max(const struct journal *j, uint64_t now_ns)
{
	uint32_t all = company(j, now_ns);

	if (j->commit_ns <= FAST_COMMIT_NS && all <= (all <= j->processors ? FEW : FEW_CROWDED))
		return 1;
	return max_of(j->commit_ns > SLOW_COMMIT_NS ? all : all / 2, 1u);
}

/* state_lock held. G3: @t is committed by one of its waiters now. */
static void aim(struct journal *j, const struct transaction *t, uint64_t now_ns)
{
	bool reached = t->waiters >= j->batch_target, probe = ++j->since_probe >= PROBE_COMMITS;

	if (reached && j->batch_target == 1 && t->waiters == 1 && !probe)
		return;
	j->since_probe = 0;
	j->batch_target = reached ? j->batch_target * 2 : max_of(j->batch_target / 2, 1u);
	j->batch_target = min_of(j->batch_target, target_max(j, now_ns));
}

/* ---- who commits ---- */

/* state_lock held. Nobody commits now. Is there nobody to wait for? */
static bool is_complete(const struct journal *j, const struct transaction *t)
{
	return t->waiters >= j->batch_target || j->stop || journal_error(j);
}

/* state_lock held. G4 */
static void choose_patience(struct journal *j, uint64_t now_ns)
{
	enum journal_patience patience = PATIENCE_SLEEPS;

	if (j->commit_ns <= FAST_COMMIT_NS)
		patience = company(j, now_ns) <= j->processors ? PATIENCE_SPINS : PATIENCE_YIELDS;
	atomic_store_explicit(&j->patience, patience, memory_order_relaxed);
}

/* state_lock held, dropped meanwhile. Until nobody commits, or the turn has changed. */
static void wait_turn(struct journal *j)
{
	mutex_unlock(&j->state_lock);
	JOURNAL_SPIN_WHILE(j, 0, atomic_load_explicit(&j->commit_busy, memory_order_relaxed));
	mutex_lock(&j->state_lock);
	if (j->commit_busy)
		journal_wait_turn(j);
}

/* state_lock held, dropped meanwhile. For @ns or so, unless @t is complete before. */
static void wait_for_more(struct journal *j, const struct transaction *t, uint64_t ns)
{
	if (atomic_load_explicit(&j->patience, memory_order_relaxed) == PATIENCE_SLEEPS) {
		cond_wait_timeout(&j->turn, &j->state_lock, ns);
	} else {
		uint32_t target = j->batch_target;

		mutex_unlock(&j->state_lock);
		JOURNAL_SPIN_WHILE(j, ns, journal_running(j) == t && atomic_load_explicit(&t->waiters, memory_order_relaxed) < target);
		mutex_lock(&j->state_lock);
	}
}

/* state_lock held, dropped meanwhile. G2: until @t may be committed by this thread, true, or somebody else has begun. */
static bool lead(struct journal *j, const struct transaction *t)
{
	uint64_t max_ns = (uint64_t)(j->params.max_batch_us ? j->params.max_batch_us : DEFAULT_MAX_BATCH_US) * 1000;
	uint64_t end_ns = journal_now_ns() + max_ns, look_ns = 0, now_ns;
	uint32_t seen = 0;

	while (journal_running(j) == t) {
		if (j->commit_busy) {
			wait_turn(j);
			continue;
		}
		now_ns = journal_now_ns();
		if (is_complete(j, t) || now_ns >= end_ns)
			return true;
		if (now_ns >= look_ns) {
			if (t->waiters == seen)
				return true;
			seen = t->waiters;
			look_ns = now_ns + max_of(j->commit_ns, GAP_NS_MIN);
			look_ns = min_of(look_ns, end_ns);
		}
		wait_for_more(j, t, look_ns - now_ns);
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
	uint64_t now_ns = journal_now_ns();
	int err;

	transaction_get(t);
	t->waiters++;
	j->fsynced_ns[my_slot()] = now_ns;
	choose_patience(j, now_ns);
	if (is_ours_to_commit(j, t)) {
		aim(j, t, now_ns);
		journal_commit(j, t);
	}
	mutex_unlock(&j->state_lock);
	JOURNAL_SPIN_WHILE(j, 0, atomic_load_explicit(&t->pending, memory_order_relaxed) & TXN_PENDING);
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
