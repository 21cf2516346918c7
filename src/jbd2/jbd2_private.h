/* SPDX-License-Identifier: MIT */
/* jbd2_private.h - what the files of jbd2/ share: journal, transaction, journal_head */
#ifndef UEXT4_JBD2_JBD2_PRIVATE_H
#define UEXT4_JBD2_JBD2_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "base/rcu.h"
#include "jbd2/jbd2.h"
#include "jbd2/jbd2_format.h"
#include "jbd2/log_map.h"

/* The superblock's bytes and its write; state_lock may be taken under it. */
#define RANK_JOURNAL_SUPER ((enum lock_rank)63)

/*
 * Further invariants, besides J1 to J4 of jbd2.h:
 *
 * J5  log_granted <= log_free: whoever may still write to the log (running and committing transaction, reservations)
 *     holds a grant for it, so a commit never waits for room.
 * J6  A handle of transaction T+1 changes a block's bytes only once no handle of T is open (T_LOCKED drains first)
 *     and T's version has been copied: to the log buffer, or frozen.
 * J7  A block on the checkpoint list of T leaves it when it is home, when a later transaction that holds it has
 *     committed, or when one that revoked it has; so while T is in the log, its blocks can be told from it.
 */
enum transaction_state { T_RUNNING, T_LOCKED, T_FLUSH, T_COMMIT, T_FINISHED };

/*
 * transaction.reserve: what handles add to and take from with one atomic operation.
 *   bits  0..31  blocks: changed ones and those that open handles may still change
 *   bits 32..61  open handles ("updates")
 *   bit  63      locked: no handle joins any more
 */
#define RESERVE_UPDATE  (UINT64_C(1) << 32)
#define RESERVE_LOCKED  (UINT64_C(1) << 63)
static inline uint32_t reserve_blocks(uint64_t reserve) { return (uint32_t)reserve; }
static inline uint32_t reserve_updates(uint64_t reserve) { return (uint32_t)((reserve & ~RESERVE_LOCKED) >> 32); }

/* transaction.pending: cleared, and its waiters woken, when the transaction is durable or lost. */
#define TXN_PENDING 1u
#define TXN_WAITERS 2u

/* Blocks revoked in one transaction: open addressing, linear probing; 0 is an empty slot. */
struct revoke_table {
	fsblk_t *slots;         /* [transaction.lock] */
	uint32_t room;          /* [transaction.lock] a power of two, or 0 */
	_Atomic uint32_t count; /* [transaction.lock], read without it where 0 is the common answer */
};

struct transaction {
	struct journal *journal;        /* [const] */
	tid_t tid;                      /* [const] */
	uint64_t start_ns;              /* [const] */

	char line1[64];                 /* keeps apart, wherever the object lies, what handles write ... */
	_Atomic uint64_t reserve;       /* [atomic] see above */
	_Atomic uint32_t limit;         /* [atomic] blocks that handles may reserve; written under state_lock */
	_Atomic uint32_t revoke_records; /* [atomic] written by handles that have stopped */

	char line2[64];                 /* ... when they start and when they get a buffer */
	_Atomic(struct journal_head *) buffers; /* [atomic] push only, until T_FLUSH */
	_Atomic uint32_t data_waits;    /* [atomic] journal_wait_begin() less journal_wait_end() */
	_Atomic int data_err;           /* [atomic] first error given to journal_wait_end() */

	struct mutex lock;              /* RANK_JOURNAL_LIST: callbacks, data, revokes */
	struct list_head callbacks;     /* [lock] struct journal_callback */
	struct list_head data;          /* [lock] struct journal_data_wait with an issue() */
	struct revoke_table revokes;    /* [lock] */

	enum transaction_state state;   /* [state_lock] written by who commits */
	uint32_t grant;                 /* [state_lock] log blocks set aside for it (J5) */
	uint32_t log_start;             /* [state_lock] first log block; 0 before T_COMMIT */
	_Atomic uint32_t waiters;       /* [state_lock] to write; threads that wait for this commit */
	bool has_leader;                /* [state_lock] one of the waiters sees to its commit */
	bool flush_sent;                /* [state_lock] the commit's device flush may have begun */
	bool is_limited;                /* [state_lock] made for a reserved handle: ordinary ones have no grant yet */

	_Atomic uint32_t pending;       /* [atomic] TXN_* */
	int err;                        /* [who commits], read by others once !TXN_PENDING */
	_Atomic uint32_t refs;          /* [atomic] the journal's, and one per waiter */

	struct list_head cp_node;       /* [list_lock] on journal.checkpoint_list, oldest first */
	struct list_head cp_buffers;    /* [list_lock] journal_head.cp_node: not home yet */
	bool cp_filling;                /* [list_lock] its buffers are being put there */
	struct rcu_head rcu;
};

#define JOURNAL_COMPANY_MAX 64u /* threads that are told apart as company */

/* jh->flags, for the owning transaction; shifted by JH_NEXT_SHIFT: for next_transaction. */
#define JH_CREDITED 0x1u        /* a credit was spent on it */
#define JH_DIRTIED  0x2u        /* changed: to be logged */
#define JH_FORGET   0x4u        /* freed: not to be logged; leaves its checkpoint list with this commit (J7) */
#define JH_SLOT_MASK 0xffu
#define JH_NEXT_SHIFT 8
/* Of the owning transaction only. */
#define JH_COPIED   0x10000u    /* the log has its copy: nothing to freeze any more (J6) */
#define JH_WAS_DIRTY 0x20000u   /* BH_DIRTY was moved to BH_JBDDIRTY at first access; goes back if nothing changed */

/* A buffer's place in the journal. Exists while a transaction or a checkpoint list has the buffer. */
struct journal_head {
	struct buffer_head *bh;                          /* [const] referenced */
	_Atomic(struct transaction *) transaction;       /* [jh lock] owner: running or committing */
	_Atomic(struct transaction *) next_transaction;  /* [jh lock] running, while the committing one is owner */
	_Atomic uint32_t flags;                          /* [jh lock] JH_*; read without it by the fast paths */
	uint8_t *frozen;                                 /* [jh lock] the owner's version of the bytes, or NULL */
	struct journal_head *t_next;                     /* [owner] in transaction.buffers */
	struct transaction *cp_transaction;              /* [jh lock and list_lock] */
	struct list_head cp_node;                        /* [list_lock] in cp_transaction->cp_buffers */
	struct rcu_head rcu;
};

/* The jh lock is a bit of the buffer's state word, so that it also covers the life of bh->jh. RANK_JH. */
#define BH_JH_LOCK (1u << BH_JBD_PRIVATE_SHIFT)

/* How threads wait for what a commit, or whoever stands in its way, will be done with soon. */
enum journal_patience {
	PATIENCE_SLEEPS, /* commits take long */
	PATIENCE_SPINS,  /* a commit takes less than to sleep and to be woken; each of those who commit has a processor */
	PATIENCE_YIELDS, /* the same, but there are more of them than processors */
};

struct log_writer; /* log_writer.h */

struct journal {
	/* Read by every handle, written rarely. */
	_Atomic(struct transaction *) running;  /* [state_lock] to write; readers: rcu */
	_Atomic int abort_err;                  /* [atomic] 0, or why it aborted */
	bool is_null;                           /* [const] */
	struct counters *counters;              /* [const] */
	struct buffer_cache *bc;                /* [const] home of the metadata */
	struct journal_params params;           /* [const] */

	/* Format. [const] once running; recovery and start_running change it before that. */
	struct journal_layout layout;
	struct log_map map;                     /* log blocks [first, maxlen): the log proper and the fast-commit area */
	fsblk_t super_blk;                      /* of log block 0 on log_dev */
	uint32_t first, end;                    /* the log proper: it wraps from end to first */
	uint32_t maxlen;                        /* [end, maxlen) is set aside for fast commits */
	uint32_t log_blocks;                    /* usable ones: end - first - 1, so that full and empty differ */
	uint32_t tags_per_desc;                 /* blocks that one descriptor covers */
	uint32_t grant_blocks;                  /* log blocks set aside for a running transaction: a quarter */
	uint32_t max_credits;                   /* blocks that fit into it */
	bool external;                          /* the log is on a device of its own */

	struct mutex super_lock;                /* RANK_JOURNAL_SUPER */
	uint8_t *super_block;                   /* [super_lock] block_bytes, aligned */
	struct journal_superblock *super;       /* [super_lock] = super_block */
	bool super_says_empty;                  /* [super_lock] s_start is 0 on disk */
	int disk_errno;                         /* [super_lock] s_errno at open, negative */
	bool fc_pending;                        /* [owner thread] fast commits of fc_tid are not carried out yet (J8) */
	tid_t fc_tid;                           /* [const once recovered] */
	tid_t fc_seen_tid;                      /* [const once recovered] the highest that a block of the log may carry */

	struct mutex state_lock __attribute__((aligned(64))); /* RANK_JOURNAL_STATE */
	struct transaction *committing;         /* [state_lock] */
	tid_t next_tid;                         /* [state_lock] of the next transaction */
	tid_t commit_request;                   /* [state_lock] the newest that somebody asked to commit */
	_Atomic tid_t committed_tid;            /* [state_lock] to write; the newest durable one */
	uint32_t head;                          /* [state_lock] next free log block */
	uint32_t tail;                          /* [state_lock] oldest block that the superblock on disk needs */
	tid_t tail_tid;                         /* [state_lock] of the transaction there */
	uint32_t log_free;                      /* [state_lock] */
	uint32_t log_granted;                   /* [state_lock] J5 */
	uint32_t reserved_blocks;               /* [state_lock] of log_granted, held by journal_reserve() */
	uint32_t barrier;                       /* [state_lock] journal_lock_updates() depth: no new transaction */
	uint32_t room_waiters;                  /* [state_lock] threads that wait for log space */
	atomic_bool commit_busy;                /* some thread commits; changes under state_lock */
	uint32_t turn_waiters;                  /* [state_lock] in journal_wait_turn() */
	uint32_t batch_target;                  /* [state_lock] waiters that a commit hopes for: group_commit.c */
	uint32_t processors;                    /* [const] that this program may use */
	uint32_t since_probe;                   /* [state_lock] commits since it was looked at */
	_Atomic(enum journal_patience) patience; /* [state_lock] to write */
	uint64_t fsynced_ns[JOURNAL_COMPANY_MAX]; /* [state_lock] when threads asked for a commit last; 0: never */
	bool stop;                              /* [state_lock] the threads are to end */
	bool abort_reported;                    /* [state_lock] s_errno was written, or could not be */
	struct cond commit_wake;                /* the commit thread waits for work */
	struct cond drained;                    /* who commits waits for updates or data */
	struct cond turn;                       /* who is to commit next waits for its turn */
	struct cond transition;                 /* running, committing or barrier changed; log space came free */
	struct cond checkpoint_wake;            /* the checkpoint thread waits for work */
	struct cond checkpoint_done;
	uint64_t pass_begun, pass_done;         /* [state_lock] checkpoint passes so far */
	uint64_t pass_asked;                    /* [state_lock] number of the pass that somebody waits for */

	struct mutex list_lock;                 /* RANK_JOURNAL_LIST */
	struct list_head checkpoint_list;       /* [list_lock] transactions with blocks not home yet, oldest first */

	uint64_t commit_ns;                     /* [state_lock] moving average of a commit's duration */
	struct log_writer *writer;              /* [who commits] */
	struct buffer_head **gathered;          /* [checkpoint thread] */
	pthread_t commit_thread, checkpoint_thread;
	bool threads_run;                       /* [const] once running */
};

/* state_lock held. The running transaction, or NULL. */
static inline struct transaction *journal_running(const struct journal *j)
{
	return atomic_load_explicit(&j->running, memory_order_relaxed);
}

/* ---- the log as a ring ---- */

static inline uint32_t log_advance(const struct journal *j, uint32_t index, uint32_t count)
{
	uint32_t left = j->end - index;

	return count < left ? index + count : j->first + (count - left);
}

/* From @from forward to @to. */
static inline uint32_t log_distance(const struct journal *j, uint32_t from, uint32_t to)
{
	return to >= from ? to - from : (j->end - from) + (to - j->first);
}

/* Log blocks that a transaction of @blocks changed blocks takes at most: descriptors and commit block included. */
static inline uint32_t log_blocks_for(const struct journal *j, uint32_t blocks)
{
	return blocks + blocks / j->tags_per_desc + 2;
}

/* ---- super.c: the superblock ---- */

/* Reads and checks it; sets layout, first, end, maxlen, disk_errno. Errors as journal_open(). */
int journal_super_read(struct journal *j);
/*
 * Sets the features of @j's superblock and what follows from them; the log must be empty. It is written with the first commit,
 * or at once where fast commits wait in the log.
 */
int journal_super_set_features(struct journal *j, bool csum_v3, bool is_64bit);
/*
 * Writes that the log begins at @start (0: it is empty) with transaction @tid. With barriers the device is flushed
 * before (J4) and the superblock is durable on return. super_lock held. Does not abort.
 */
int journal_super_write_tail(struct journal *j, uint32_t start, tid_t tid);
int journal_super_write_errno(struct journal *j, int err); /* 0 or negative; super_lock held */
/* Of the log, for one transaction: two may be alive and reservations held while the rest is being checkpointed. */
#define JOURNAL_TRANSACTION_SHARE 4u
/* How many log blocks a transaction gets from now on, and what follows from it. No transaction is running. */
void journal_grant_set(struct journal *j, uint32_t blocks);
/* After recovery: the log is empty and @next_tid is the first transaction to come. Takes super_lock. */
int journal_super_reset(struct journal *j, tid_t next_tid);

/* ---- transaction.c ---- */

uint64_t journal_now_ns(void); /* CLOCK_MONOTONIC */
/* -ENOMEM; not visible to anybody yet, one reference, no grant. */
int transaction_create(struct journal *j, struct transaction **t_out);
void transaction_get(struct transaction *t);
void transaction_put(struct transaction *t);
/*
 * Before a sleep: looks at @condition, which takes no lock, until it is false, for @least_ns or, where commits are short,
 * some tens of microseconds. No lock held that the others need.
 */
#define JOURNAL_SPIN_WHILE(j, least_ns, condition)                                             \
	do {                                                                                   \
		uint64_t end_ns_ = journal_spin_end(j, least_ns);                              \
		while ((condition) && journal_spin(j, end_ns_))                                \
			;                                                                      \
	} while (0)
uint64_t journal_spin_end(const struct journal *j, uint64_t least_ns);
bool journal_spin(const struct journal *j, uint64_t end_ns); /* one turn; false: time is up */
/* state_lock held, dropped meanwhile. @t runs and is locked: until it gives way, or perhaps a little less. */
void journal_wait_closed(struct journal *j, const struct transaction *t);
/* state_lock held. At each transition. */
void transaction_check(const struct transaction *t);
/* Gives back @blocks of the reservation and, with @ends_update, the handle's part; wakes a draining commit. */
void transaction_release(struct transaction *t, uint32_t blocks, bool ends_update);
/* Blocks new handles; then waits until none is open. state_lock held; who commits. */
void transaction_lock_and_drain(struct transaction *t);

/* state_lock held. Joins a handle of @blocks to @t unless it is locked or full. */
bool transaction_join_locked(struct transaction *t, uint32_t blocks);
/* state_lock held. Makes the running transaction and publishes it; @limited: without a grant (reserve.c). */
int running_create(struct journal *j, bool limited);
/* state_lock held. Waits for log space; somebody will make some. */
void journal_wait_room(struct journal *j);

/* ---- journal_head.c ---- */

void jh_lock(struct buffer_head *bh);
void jh_unlock(struct buffer_head *bh);
/* Of @bh, made if there is none. The jh lock is held on success. -ENOMEM. */
int jh_lock_get(struct buffer_head *bh, struct journal_head **jh_out);
/* jh lock held. Nobody needs it: detaches it from the buffer; true if the caller must buffer_put() after unlocking. */
bool jh_detach_if_idle(struct journal_head *jh);
/* jh lock held. @jh becomes part of @t, as owner or next. */
void jh_join(struct journal_head *jh, struct transaction *t);
static inline struct transaction *jh_transaction(const struct journal_head *jh)
{
	return atomic_load_explicit(&jh->transaction, memory_order_acquire);
}
static inline struct transaction *jh_next_transaction(const struct journal_head *jh)
{
	return atomic_load_explicit(&jh->next_transaction, memory_order_acquire);
}
/* What flags shift applies to @t, or -1 if @jh is not part of it. */
static inline int jh_slot(const struct journal_head *jh, const struct transaction *t)
{
	if (jh_transaction(jh) == t)
		return 0;
	return jh_next_transaction(jh) == t ? JH_NEXT_SHIFT : -1;
}
/* The same without locks, for the handle's own transaction: flags of @bh in @t; 0 if it is not part of it. */
uint32_t buffer_flags_in(struct buffer_head *bh, const struct transaction *t);

/* access.c. Buffer and jh lock held, @jh has no owner: from now on only the journal decides when it goes home (J2). */
void jh_take_over_dirty(struct journal_head *jh);

/* ---- revoke.c ---- */

int revoke_table_insert(struct transaction *t, fsblk_t blk); /* takes t->lock; -ENOMEM */
void revoke_table_remove(struct transaction *t, fsblk_t blk); /* takes t->lock; harmless if absent */
void revoke_table_exit(struct revoke_table *table);

/* ---- commit.c ---- */

void *journal_commit_thread(void *arg);
/* state_lock held, dropped meanwhile. Commits the running transaction @t; nobody commits now (commit_busy). */
void journal_commit(struct journal *j, struct transaction *t);
/* state_lock held, dropped meanwhile. Somebody commits: until he is done, or perhaps a little less. */
void journal_wait_turn(struct journal *j);
/* state_lock held. Asks for the commit of @tid. */
void journal_request_commit(struct journal *j, tid_t tid);

/* ---- checkpoint.c ---- */

void *journal_checkpoint_thread(void *arg);
/* jh lock held. */
void checkpoint_remove(struct journal_head *jh);
void checkpoint_insert(struct journal_head *jh, struct transaction *t);
/* Commit thread, before the first checkpoint_insert() and after the last. */
void checkpoint_begin_transaction(struct transaction *t);
void checkpoint_end_transaction(struct transaction *t);
/* state_lock held. Wakes the thread if the log fills up. */
void checkpoint_kick_if_needed(struct journal *j);
/* The array that the thread gathers buffers in; free() it. */
struct buffer_head **checkpoint_alloc_gathered(void);
/* Everything committed so far goes home, and the tail moves. Waits. Error: why the journal aborted. */
int checkpoint_run(struct journal *j);
/* Threads have stopped. Frees what is left after an abort. */
void checkpoint_drop_all(struct journal *j);

/* ---- null.c ---- */

void null_begin(struct handle *h);
void null_restart(struct handle *h);
void null_end(struct handle *h);
int null_get_access(struct handle *h, struct buffer_head *bh);
int null_dirty_metadata(struct handle *h, struct buffer_head *bh);
int null_forget(struct handle *h, struct buffer_head *bh);

#endif
