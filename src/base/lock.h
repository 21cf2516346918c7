/* SPDX-License-Identifier: MIT */
/* lock.h - mutexes and reader-writer locks that know their rank in docs/LOCKING.md */
#ifndef UEXT4_BASE_LOCK_H
#define UEXT4_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "base/types.h"

/*
 * The lock order: a thread takes locks in ascending rank only. Locks of equal rank may nest where
 * docs/LOCKING.md says so (two inodes: low number first). Folio locks and open handles have ranks too,
 * entered with lock_rank_enter(), although they are no mutexes.
 */
enum lock_rank {
	RANK_RENAME = 5,           /* vfs: one cross-directory rename at a time */
	RANK_INODE = 10,           /* inode.rwsem */
	RANK_INVALIDATE = 20,      /* mapping.invalidate_lock */
	RANK_WRITEBACK = 25,       /* inode.io.pass_lock: one writeback pass at a time past the size on disk */
	RANK_FOLIO = 30,           /* folio lock */
	RANK_HANDLE = 40,          /* open journal handle */
	RANK_XATTR = 45,           /* inode.xattr_sem */
	RANK_MAP = 50,             /* inode.map_sem: extent tree, indirect map */
	RANK_ORPHAN = 52,          /* fs.orphan_lock */
	RANK_ICACHE = 54,          /* vfs inode and dentry cache buckets, LRU lists */
	RANK_GROUP = 56,           /* group.lock: bitmaps, descriptor, buddy of one group */
	RANK_ES_LRU = 57,          /* list of inodes with extent status, for its shrinker */
	RANK_ES = 58,              /* inode.es_lock: writers of the extent status map */
	RANK_BUFFER = 60,          /* buffer lock, one block's bytes */
	RANK_JOURNAL_BARRIER = 62, /* journal.barrier and checkpoint mutexes */
	RANK_JH = 64,              /* journal_head.lock */
	RANK_JOURNAL_STATE = 66,   /* journal.state_lock */
	RANK_JOURNAL_LIST = 68,    /* journal.list_lock */
	RANK_MAPPING_TREE = 74,    /* mapping.tree_lock */
	RANK_CACHE_LRU = 76,       /* cache LRU and dirty lists */
	RANK_WORK = 80,            /* work queues, completion lists */
	RANK_DEVICE = 90,          /* inside block devices */
	RANK_LEAF = 100,           /* takes no other lock but for memory */
	RANK_MEMORY = 110,         /* slab.c: objects are allocated under any lock */
};

struct mutex {
	pthread_mutex_t m;
	_Atomic(void *) owner; /* [atomic] thread marker of the holder, NULL when free; for asserts only */
	uint16_t rank;         /* [const] */
};

struct rwsem {
	pthread_rwlock_t rw;
	_Atomic(void *) owner; /* [atomic] marker of the exclusive holder; NULL when free or shared */
	uint16_t rank;         /* [const] */
};

/* Condition variable on CLOCK_MONOTONIC, used with a struct mutex. */
struct cond {
	pthread_cond_t c;
};

/* For locks that no mount owns; does not spin. */
#define MUTEX_INITIALIZER(rank_) { .m = PTHREAD_MUTEX_INITIALIZER, .rank = (rank_) }

void mutex_init(struct mutex *m, enum lock_rank rank);
void mutex_exit(struct mutex *m);

/* Readers do not nest: a waiting writer goes before new readers, so a second read lock could wait for ever. */
void rwsem_init(struct rwsem *s, enum lock_rank rank);
void rwsem_exit(struct rwsem *s);

void cond_init(struct cond *c);
void cond_exit(struct cond *c);
void cond_wait(struct cond *c, struct mutex *m);
/* Returns false once @timeout_ns (relative) has passed. */
bool cond_wait_timeout(struct cond *c, struct mutex *m, uint64_t timeout_ns);
void cond_signal(struct cond *c);
void cond_broadcast(struct cond *c);

/* One byte per thread; initial-exec, so that taking its address costs no call in the shared library. */
extern __thread char thread_marker_tls __attribute__((tls_model("initial-exec")));

/* An address that differs between threads; cheap. */
static inline void *thread_marker(void)
{
	return &thread_marker_tls;
}

/*
 * Rank bookkeeping. Mutexes and rwsems do it themselves; what is a lock in effect but no mutex (folio lock, open
 * handle) calls lock_rank_enter() before it blocks. Checked in UEXT4_DEBUG builds; no-ops otherwise.
 *
 * lock_rank_enter() aborts, naming both ranks, if this thread holds a higher one, or the same one where
 * equals do not nest. lock_rank_enter_try() is for locks taken without waiting, which cannot deadlock: it records
 * only. lock_rank_leave() of a rank that this thread does not hold does nothing: a folio may be unlocked by
 * another thread than locked it, once the locker has left the rank.
 */
#ifdef UEXT4_DEBUG
void lock_rank_enter(enum lock_rank rank);
void lock_rank_enter_try(enum lock_rank rank);
void lock_rank_leave(enum lock_rank rank);
#else
static inline void lock_rank_enter(enum lock_rank rank) { (void)rank; }
static inline void lock_rank_enter_try(enum lock_rank rank) { (void)rank; }
static inline void lock_rank_leave(enum lock_rank rank) { (void)rank; }
#endif

/* The error numbers of pthread locks mean misuse (not held, held already), so none is returned. */
void lock_misused(const char *what, int err) __attribute__((noreturn, cold));

static inline void lock_owner_set(_Atomic(void *) *owner, void *marker)
{
	atomic_store_explicit(owner, marker, memory_order_relaxed);
}

static inline void mutex_lock(struct mutex *m)
{
	int err;

	lock_rank_enter((enum lock_rank)m->rank);
	err = pthread_mutex_lock(&m->m);
	if (unlikely(err))
		lock_misused("mutex_lock", err);
	lock_owner_set(&m->owner, thread_marker());
}

static inline bool mutex_trylock(struct mutex *m)
{
	if (pthread_mutex_trylock(&m->m))
		return false;
	lock_rank_enter_try((enum lock_rank)m->rank);
	lock_owner_set(&m->owner, thread_marker());
	return true;
}

static inline void mutex_unlock(struct mutex *m)
{
	enum lock_rank rank = (enum lock_rank)m->rank;
	int err;

	lock_owner_set(&m->owner, NULL);
	err = pthread_mutex_unlock(&m->m);
	if (unlikely(err))
		lock_misused("mutex_unlock", err);
	lock_rank_leave(rank); /* *m may be gone: the next holder may have freed it */
}

static inline void rwsem_read_lock(struct rwsem *s)
{
	int err;

	lock_rank_enter((enum lock_rank)s->rank);
	err = pthread_rwlock_rdlock(&s->rw);
	if (unlikely(err))
		lock_misused("rwsem_read_lock", err);
}

static inline bool rwsem_read_trylock(struct rwsem *s)
{
	if (pthread_rwlock_tryrdlock(&s->rw))
		return false;
	lock_rank_enter_try((enum lock_rank)s->rank);
	return true;
}

static inline void rwsem_read_unlock(struct rwsem *s)
{
	enum lock_rank rank = (enum lock_rank)s->rank;
	int err = pthread_rwlock_unlock(&s->rw);

	if (unlikely(err))
		lock_misused("rwsem_read_unlock", err);
	lock_rank_leave(rank);
}

static inline void rwsem_write_lock(struct rwsem *s)
{
	int err;

	lock_rank_enter((enum lock_rank)s->rank);
	err = pthread_rwlock_wrlock(&s->rw);
	if (unlikely(err))
		lock_misused("rwsem_write_lock", err);
	lock_owner_set(&s->owner, thread_marker());
}

static inline bool rwsem_write_trylock(struct rwsem *s)
{
	if (pthread_rwlock_trywrlock(&s->rw))
		return false;
	lock_rank_enter_try((enum lock_rank)s->rank);
	lock_owner_set(&s->owner, thread_marker());
	return true;
}

static inline void rwsem_write_unlock(struct rwsem *s)
{
	enum lock_rank rank = (enum lock_rank)s->rank;
	int err;

	lock_owner_set(&s->owner, NULL);
	err = pthread_rwlock_unlock(&s->rw);
	if (unlikely(err))
		lock_misused("rwsem_write_unlock", err);
	lock_rank_leave(rank);
}

/* By this thread. */
static inline bool mutex_is_held(const struct mutex *m)
{
	return atomic_load_explicit(&m->owner, memory_order_relaxed) == thread_marker();
}

/* By this thread, exclusive. */
static inline bool rwsem_is_write_held(const struct rwsem *s)
{
	return atomic_load_explicit(&s->owner, memory_order_relaxed) == thread_marker();
}

#define lock_assert_held(lock)                                  \
	UEXT4_ASSERT(_Generic((lock),                           \
		struct mutex *: mutex_is_held,                  \
		const struct mutex *: mutex_is_held,            \
		struct rwsem *: rwsem_is_write_held,            \
		const struct rwsem *: rwsem_is_write_held)(lock))

/*
 * Bits of a 32-bit word as locks and completion flags, waited for with futexes of this process. The word
 * needs one bit of its own, @waiters, that says somebody sleeps; any number of lock bits may share it.
 * Waiters spin for about a microsecond before they sleep.
 */
void word_bit_lock_slow(_Atomic uint32_t *word, uint32_t bit, uint32_t waiters);
void word_bit_wake(_Atomic uint32_t *word);
void word_bit_wait_clear(_Atomic uint32_t *word, uint32_t bit, uint32_t waiters); /* acquire */

/* Acquires on success. */
static inline bool word_bit_trylock(_Atomic uint32_t *word, uint32_t bit)
{
	return !(atomic_fetch_or_explicit(word, bit, memory_order_acquire) & bit);
}

/* Acquires. */
static inline void word_bit_lock(_Atomic uint32_t *word, uint32_t bit, uint32_t waiters)
{
	if (unlikely(!word_bit_trylock(word, bit)))
		word_bit_lock_slow(word, bit, waiters);
}

/* Releases and wakes. Whoever may free the word must hold it alive himself: another may own @bit at once. */
static inline void word_bit_unlock(_Atomic uint32_t *word, uint32_t bit, uint32_t waiters)
{
	uint32_t old = atomic_fetch_and_explicit(word, ~(bit | waiters), memory_order_release);

	if (unlikely(old & waiters))
		word_bit_wake(word);
}

#endif
