/* SPDX-License-Identifier: MIT */
/* jbd2.h - the journal: handles, transactions, commit, checkpoint, revoke, recovery */
#ifndef UEXT4_JBD2_JBD2_H
#define UEXT4_JBD2_JBD2_H

#include "base/counters.h"
#include "base/list.h"
#include "base/log.h"
#include "base/types.h"
#include "block/block.h"
#include "cache/buffer.h"

/*
 * J1  A transaction's commit block becomes durable only after every block it covers.
 * J2  A changed metadata block is written home only after its transaction's commit block is durable.
 * J3  A block revoked in transaction T is not replayed from any transaction <= T.
 * J4  The log tail moves past T only after T's blocks are home and the device was flushed.
 * J8  Fast commits of transaction T count until T itself, which then holds what they say, is durable.
 */

struct journal;
struct transaction;

static inline bool tid_gt(tid_t a, tid_t b) { return (int32_t)(a - b) > 0; }
static inline bool tid_geq(tid_t a, tid_t b) { return (int32_t)(a - b) >= 0; }

/*
 * One operation's part of a transaction. Lives on the caller's stack; passed explicitly, never nested on
 * one thread. Without a journal (journal_create_null()) the same calls work and dirty the buffers directly.
 */
struct handle {
	struct journal *journal;
	struct transaction *transaction;
	int32_t credits;      /* blocks it may still change */
	int32_t revokes;      /* revoke records it may still write */
	int32_t revokes_asked; /* in all */
	uint32_t reserved;    /* log blocks set aside for a reserved handle not yet started */
	bool sync;            /* journal_stop() waits for the commit */
	bool limited;         /* its owner's: for somebody who has no right to the blocks kept for root; kept over restarts */
	int err;              /* sticky: the handle aborted */
	tid_t tid;            /* of the transaction; valid after start, also after stop */
	struct list_head callbacks; /* without a journal only: they run in journal_stop() */
};

/* What replay found and did; for the log, tools and tests. */
struct journal_recovery_info {
	bool needed;          /* the log was not empty */
	tid_t first_tid, end_tid; /* [first, end) were replayed */
	uint64_t transactions, blocks_replayed, revokes_seen, revokes_hit;
	uint64_t fast_commits; /* handed to params.fc_take(), for the caller to carry out */
};

struct journal_params {
	struct block_device *log_dev;      /* where the log lies (file system's device, or an external journal) */
	/* Maps log block @index (0 is the journal superblock) to a block of @log_dev; loaded once at start. */
	int (*map_log_block)(void *arg, uint32_t index, fsblk_t *blk_out);
	void *map_arg;
	uint32_t log_blocks;               /* length of the journal inode or device in blocks */
	uint32_t block_bytes;
	const uint8_t *fs_uuid;            /* of an external journal: the user to look for; NULL inside */
	struct buffer_cache *bc;           /* home of the metadata */
	fsblk_t fs_blocks;                 /* home blocks are below this */
	struct counters *counters;
	const struct log_sink *log;
	bool read_only;                    /* never write: only scan (see journal_recover) */
	bool barriers;                     /* send flushes and FUA */
	bool async_commit;                 /* journal_async_commit */
	uint32_t commit_interval_ms;       /* 0: 5000 */
	uint32_t max_batch_us;             /* 0: 15000, as the kernel's max_batch_time */
	/* The journal aborted with @err (once; any thread; must not call into the journal). */
	void (*on_abort)(void *arg, int err);
	void *abort_arg;
	/*
	 * Takes the fast commits that wait in the log, block after block, before anything is written; NULL: such logs give
	 * -EOPNOTSUPP. @block is the area's block @index, of which @len_bytes count: the last one is cut behind the last
	 * valid tail. 0 or a negative errno, which fails recovery. See journal_fast_commits_pending().
	 */
	int (*fc_take)(void *arg, const uint8_t *block, uint32_t len_bytes, uint32_t index);
	void *fc_arg;
	/* Block @blk is about to be replayed with @bytes, which this may amend; NULL. Context: the buffer is locked. */
	void (*replaying)(void *arg, fsblk_t blk, uint8_t *bytes);
	void *replaying_arg;
};

/* ---- life cycle ---- */

/**
 * journal_open() - read and check the journal superblock
 * Return: 0; -EUCLEAN (bad magic, geometry, feature), -EBADMSG (checksum), -EIO, -ENOMEM,
 *         -EOPNOTSUPP (unknown incompat feature; named in the log)
 */
int journal_open(const struct journal_params *params, struct journal **journal_out);
bool journal_needs_recovery(const struct journal *j);
/**
 * journal_recover() - scan, revoke, replay into the buffer cache and write home; then reset the log
 *
 * The three passes. Errors while replaying leave the journal as it was. Checksums: none, v1, v2, v3; 64-bit
 * tags; escaped blocks; sequence wrap. Writes go through the device of params.bc (an overlay for read-only mounts).
 * With params.read_only nothing is written: *info_out says what a replay would do.
 *
 * Return: 0; -EBADMSG (a committed transaction or one of its blocks has a wrong checksum), -EUCLEAN (a block number or
 *         a revoke record makes no sense), -EOPNOTSUPP (fast commits that nobody takes, or with unknown records), -EIO,
 *         -ENOMEM, what params.fc_take() returned. The log stays as it was in each
 *         case, also when some blocks are home already, so that recovery can be repeated.
 */
int journal_recover(struct journal *j, struct journal_recovery_info *info_out);
/**
 * journal_fast_commits_pending() - has recovery found fast commits that are to be carried out yet?
 *
 * If so the blocks of the log are home, but the log on disk still says that the fast commits count. What they say must
 * become the journal's first transaction, all of it: one handle, started before any other, of up to journal_max_credits()
 * (nearly the whole log, for this once). Its commit takes the fast commits' place in one step, so that a crash before it
 * leaves everything as recovery found it (J8). Call journal_fast_commits_done() then. Abort the journal if it cannot be done.
 */
bool journal_fast_commits_pending(const struct journal *j);
/* The handle has stopped: commits it, brings it home and empties the log. 0, or why the journal aborted. */
int journal_fast_commits_done(struct journal *j);
/* Starts the commit thread; from here handles may start. Sets the needed features (csum, 64bit, revoke) as given. */
int journal_start_running(struct journal *j, bool csum_v3, bool is_64bit);
/* Commits, checkpoints everything, marks the log empty, stops the threads, frees. First error; -EROFS.. if aborted. */
int journal_close(struct journal *j);
/* A journal for file systems without one: handles cost nothing; dirty goes to the buffer cache at once. */
int journal_create_null(struct buffer_cache *bc, struct counters *counters, struct journal **journal_out);
bool journal_is_null(const struct journal *j);
void journal_abort(struct journal *j, int err);
int journal_error(const struct journal *j);      /* 0, or why it aborted */
int journal_errno_on_disk(const struct journal *j); /* s_errno found at open; clear with journal_clear_error() */
int journal_clear_error(struct journal *j);
uint32_t journal_max_credits(const struct journal *j); /* largest credits one handle may ask for */

/* ---- handles ---- */

/**
 * journal_start() - open a handle with room for @credits changed blocks and @revokes revoke records
 * Context: may wait for a commit or a checkpoint. No folio lock order problem: folio before handle. Takes RANK_HANDLE.
 * Return: 0; -EROFS (aborted), -ENOSPC (more credits than journal_max_credits()), -ENOMEM
 */
int journal_start(struct journal *j, uint32_t credits, uint32_t revokes, struct handle *h);
/*
 * Reserves room without joining a transaction; start it later with journal_start_reserved(), or journal_unreserve().
 * May wait, for log space or for other reservations to be used: do not keep one for I/O that is not yet submitted.
 * -ENOSPC: more than an eighth of the log; -EROFS.
 */
int journal_reserve(struct journal *j, uint32_t credits, struct handle *h);
int journal_start_reserved(struct handle *h); /* never waits for log space; on failure the reservation is gone */
void journal_unreserve(struct handle *h);
/* Asks for more credits. 0: got them; 1: no room in this transaction, restart; negative: error. */
int journal_extend(struct handle *h, uint32_t credits, uint32_t revokes);
/* Ends this transaction's part and joins another with fresh credits; the caller's structures must be consistent here. */
int journal_restart(struct handle *h, uint32_t credits, uint32_t revokes);
/* Closes the handle; with h->sync waits for its commit. Returns h->err or the commit's error. */
int journal_stop(struct handle *h);

/* Before changing @bh's bytes. Copies frozen data out when the committing transaction still needs it. Spends one
 * credit the first time in a transaction. -EROFS aborted, -ENOMEM, -ENOSPC (credits exhausted: our bug, logged). */
int journal_get_write_access(struct handle *h, struct buffer_head *bh);
/* The same for a block just allocated: contents are not read, and an old revoke is cancelled. */
int journal_get_create_access(struct handle *h, struct buffer_head *bh);
/* After the change. From now until the commit the buffer is BH_JBDDIRTY. */
int journal_dirty_metadata(struct handle *h, struct buffer_head *bh);
/* @bh's block is being freed: its contents must not be logged nor written home. Consumes the caller's reference. */
int journal_forget(struct handle *h, struct buffer_head *bh);
/* See style.md: forget + revoke record. @bh may be NULL; its reference passes to the callee in every case. */
int journal_revoke(struct handle *h, fsblk_t blk, struct buffer_head *bh);

/*
 * Runs func once the handle's transaction is durable (err 0) or lost (err < 0), on the thread that commits: the commit
 * thread, or one in journal_wait_commit() or journal_force_commit(), with whatever locks that one holds.
 */
struct journal_callback {
	struct list_head node;
	void (*func)(struct journal_callback *cb, int err);
};
void journal_add_callback(struct handle *h, struct journal_callback *cb);

/*
 * Ordered mode where it still matters: the commit of the handle's transaction waits until @w completes. The
 * submitter calls journal_wait_begin() with the handle open, then submits the I/O, and journal_wait_end() when the
 * I/O is done (any thread, also before the handle stops). No folio lock is taken by the commit (ORDER).
 * @err of journal_wait_end(): < 0 fails the commit and aborts the journal (data_err=abort); pass 0 for data_err=ignore.
 */
struct journal_data_wait {
	/*
	 * NULL, or: the commit is to submit the I/O, as jbd2 does (ablation). Called once after journal_wait_offer() returned
	 * true, with a spinning lock held: it submits and does not wait. Set before journal_wait_begin().
	 */
	void (*issue)(struct journal_data_wait *w);
	struct list_head node;
	struct transaction *transaction;
	bool is_offered;
};
void journal_wait_begin(struct handle *h, struct journal_data_wait *w);
void journal_wait_end(struct journal *j, struct journal_data_wait *w, int err);
/* The I/O of @w, which has an issue(), is ready to go. True: the commit, asked for now, issues it. False: the caller is to. */
bool journal_wait_offer(struct journal *j, struct journal_data_wait *w);

/* ---- commits ---- */
tid_t journal_running_tid(struct journal *j);          /* of the running transaction, or the next one's */
tid_t journal_newest_tid(struct journal *j);           /* of the last transaction that began, durable or not */
int journal_start_commit(struct journal *j, tid_t tid); /* asks for it; does not wait */
/**
 * journal_wait_commit() - start the commit of @tid if it is running, and wait until it is durable
 * Return: 0 (also when it was durable already: see *flushed_out), or the error that aborted the journal
 * @flushed_out: NULL allowed; true if a commit with a device flush after the call's beginning covered it, so
 *               that the caller need not flush the device itself for data it wrote before
 */
int journal_wait_commit(struct journal *j, tid_t tid, bool *flushed_out);
int journal_force_commit(struct journal *j);           /* whatever is running, and wait */
int journal_checkpoint_all(struct journal *j);         /* commit, then everything home, log empty on disk */
/* Blocks new handles, commits, checkpoints; for freeze and read-only remount. After an error nothing is blocked. */
int journal_lock_updates(struct journal *j);
void journal_unlock_updates(struct journal *j);

#endif
