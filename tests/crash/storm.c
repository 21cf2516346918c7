/* SPDX-License-Identifier: MIT */
/*
 * storm.c - a commit after each handle
 *
 * The journal's timer, an fsync elsewhere or a full log may close a transaction whenever no handle is open: between any two
 * of one operation. The linker's --wrap puts these functions in place of the journal's.
 */
#include <stdatomic.h>
#include <time.h>

#include "crash.h"
#include "jbd2/jbd2.h"

/* The transaction closes as soon as others have stopped their handles; those may wait for this thread. */
#define TRIES_MAX 100u
#define TRY_NS 20000u

static _Atomic bool storm_on;

int __real_journal_stop(struct handle *h);
int __real_journal_restart(struct handle *h, uint32_t credits, uint32_t revokes);
int __wrap_journal_stop(struct handle *h);
int __wrap_journal_restart(struct handle *h, uint32_t credits, uint32_t revokes);

void storm_set(bool on)
{
	atomic_store(&storm_on, on);
}

/* Waits until what follows goes into another transaction, not until this one is durable: its data may not be sent yet. */
static void close_transaction(struct journal *j, tid_t tid)
{
	const struct timespec pause = { .tv_nsec = TRY_NS };

	journal_start_commit(j, tid);
	for (unsigned i = 0; i < TRIES_MAX && journal_running_tid(j) == tid; i++)
		nanosleep(&pause, NULL);
}

int __wrap_journal_stop(struct handle *h)
{
	struct journal *j = h->journal;
	int err = __real_journal_stop(h);

	if (atomic_load(&storm_on))
		close_transaction(j, h->tid);
	return err;
}

int __wrap_journal_restart(struct handle *h, uint32_t credits, uint32_t revokes)
{
	struct journal *j = h->journal;
	tid_t tid = h->tid;

	if (atomic_load(&storm_on))
		journal_start_commit(j, tid);
	return __real_journal_restart(h, credits, revokes);
}
