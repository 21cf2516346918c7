/* SPDX-License-Identifier: MIT */
/* lock.c - the slow paths of locks, and the check of their order */
#include "base/lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/thread.h"
#include <unistd.h>

#define NSEC_PER_SEC UINT64_C(1000000000)

/* About a microsecond: longer than most sections under a bit lock, far shorter than a sleep and a wake-up. */
#define WORD_BIT_SPINS 64

__thread char thread_marker_tls;

_Noreturn void lock_misused(const char *what, int err)
{
	fprintf(stderr, "uext4: %s: %s\n", what, strerror(err));
	abort();
}

/* Errors of pthread initialisers on Linux can only be misuse as well. */
static void lock_call_check(const char *what, int err)
{
	if (err)
		lock_misused(what, err);
}

void mutex_init(struct mutex *m, enum lock_rank rank)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	lock_call_check("mutex_init", pthread_mutex_init(&m->m, &attr));
	pthread_mutexattr_destroy(&attr);
	atomic_init(&m->owner, NULL);
	m->rank = (uint16_t)rank;
}

void mutex_exit(struct mutex *m)
{
	lock_call_check("mutex_exit", pthread_mutex_destroy(&m->m));
}

void rwsem_init(struct rwsem *s, enum lock_rank rank)
{
	pthread_rwlockattr_t attr;

	/* The default kind lets a stream of readers starve a writer for ever. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	lock_call_check("rwsem_init", pthread_rwlock_init(&s->rw, &attr));
	pthread_rwlockattr_destroy(&attr);
	atomic_init(&s->owner, NULL);
	s->rank = (uint16_t)rank;
}

void rwsem_exit(struct rwsem *s)
{
	lock_call_check("rwsem_exit", pthread_rwlock_destroy(&s->rw));
}

void cond_init(struct cond *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	lock_call_check("cond_init", pthread_cond_init(&c->c, &attr));
	pthread_condattr_destroy(&attr);
}

void cond_exit(struct cond *c)
{
	lock_call_check("cond_exit", pthread_cond_destroy(&c->c));
}

void cond_wait(struct cond *c, struct mutex *m)
{
	lock_assert_held(m);
	lock_owner_set(&m->owner, NULL);
	lock_call_check("cond_wait", pthread_cond_wait(&c->c, &m->m));
	lock_owner_set(&m->owner, thread_marker());
}

static struct timespec deadline_after(uint64_t timeout_ns)
{
	struct timespec ts;
	uint64_t nsec;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	nsec = (uint64_t)ts.tv_nsec + timeout_ns % NSEC_PER_SEC;
	ts.tv_sec += (time_t)(timeout_ns / NSEC_PER_SEC + nsec / NSEC_PER_SEC);
	ts.tv_nsec = (long)(nsec % NSEC_PER_SEC);
	return ts;
}

bool cond_wait_timeout(struct cond *c, struct mutex *m, uint64_t timeout_ns)
{
	struct timespec deadline = deadline_after(timeout_ns);
	int err;

	lock_assert_held(m);
	lock_owner_set(&m->owner, NULL);
	err = pthread_cond_timedwait(&c->c, &m->m, &deadline);
	lock_owner_set(&m->owner, thread_marker());
	if (err != ETIMEDOUT)
		lock_call_check("cond_wait_timeout", err);
	return err != ETIMEDOUT;
}

void cond_signal(struct cond *c)
{
	pthread_cond_signal(&c->c);
}

void cond_broadcast(struct cond *c)
{
	pthread_cond_broadcast(&c->c);
}

/*
 * Word bits. The sleeper sets @waiters and sleeps only while the word still shows both @bit and @waiters; the
 * waker clears both with one atomic operation and, if @waiters was set, wakes everybody on the word. All
 * wake, since sleepers for different bits share the word and its one waiters bit; whoever still has to wait
 * sets it again. The wake-up may touch a word that has been freed meanwhile: a private futex is only an
 * address to the kernel, and a spurious wake-up is harmless.
 */
static void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void word_bit_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* True once @bit was seen clear. */
static bool word_bit_spin(_Atomic uint32_t *word, uint32_t bit)
{
	for (int i = 0; i < WORD_BIT_SPINS; i++) {
		if (!(atomic_load_explicit(word, memory_order_acquire) & bit))
			return true;
		cpu_relax();
	}
	return false;
}

void word_bit_wait_clear(_Atomic uint32_t *word, uint32_t bit, uint32_t waiters)
{
	uint32_t seen;

	if (word_bit_spin(word, bit))
		return;
	for (;;) {
		seen = atomic_load_explicit(word, memory_order_acquire);
		if (!(seen & bit))
			return;
		if (!(seen & waiters) &&
		    !atomic_compare_exchange_weak_explicit(word, &seen, seen | waiters, memory_order_relaxed,
							   memory_order_relaxed))
			continue;
		futex_wait(word, seen | waiters);
	}
}

void word_bit_lock_slow(_Atomic uint32_t *word, uint32_t bit, uint32_t waiters)
{
	do {
		word_bit_wait_clear(word, bit, waiters);
	} while (!word_bit_trylock(word, bit));
}

#ifdef UEXT4_TSAN
/*
 * ThreadSanitizer remembers every pair of locks ever nested and takes two nestings of directories in different order for
 * a deadlock; it does not see that whoever waits for a second directory holds the rename lock. Our own check of
 * ranks stands in for it. The runtime asks for this function by name; TSAN_OPTIONS comes after it.
 */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "detect_deadlocks=0";
}
#endif

#ifdef UEXT4_DEBUG

/* Deep enough for one thread holding every rank and a run of folios; more are counted but not checked. */
#define HELD_RANKS_MAX 256

static __thread struct {
	unsigned count;
	uint16_t rank[HELD_RANKS_MAX];
} held;

static bool rank_nests_in_itself(enum lock_rank rank)
{
	return rank == RANK_INODE || rank == RANK_FOLIO || rank == RANK_GROUP || rank == RANK_BUFFER;
}

static unsigned held_highest(void)
{
	unsigned highest = 0;

	for (unsigned i = 0; i < held.count; i++)
		highest = max_of(highest, (unsigned)held.rank[i]);
	return highest;
}

void lock_rank_enter_try(enum lock_rank rank)
{
	UEXT4_ASSERT(held.count < HELD_RANKS_MAX);
	held.rank[held.count++] = (uint16_t)rank;
}

void lock_rank_enter(enum lock_rank rank)
{
	unsigned highest = held_highest();

	if (highest > (unsigned)rank || (highest == (unsigned)rank && !rank_nests_in_itself(rank))) {
		fprintf(stderr, "uext4: lock order: takes rank %u while holding rank %u\n", (unsigned)rank, highest);
		abort();
	}
	lock_rank_enter_try(rank);
}

void lock_rank_leave(enum lock_rank rank)
{
	for (unsigned i = held.count; i-- > 0;) {
		if (held.rank[i] == (uint16_t)rank) {
			held.rank[i] = held.rank[--held.count];
			return;
		}
	}
}

#endif
