/* SPDX-License-Identifier: MIT */
/* recovery_private.h - what the files recovery*.c share: the walk over the log, and what its passes gather */
#ifndef UEXT4_JBD2_RECOVERY_PRIVATE_H
#define UEXT4_JBD2_RECOVERY_PRIVATE_H

#include "jbd2/jbd2_private.h"

/* ---- recovery_walk.c: going over the log ---- */

/* Reads log blocks forward through a window, so that small transactions do not cost a request per block. */
struct log_reader {
	const struct journal *j;
	uint8_t *window;
	uint32_t room;        /* of the window, in blocks */
	uint32_t index, count; /* log blocks that it holds */
};

int log_reader_init(struct log_reader *reader, const struct journal *j); /* -ENOMEM */
void log_reader_exit(struct log_reader *reader);
/* The block stays readable until the next call. @index lies in the log or in the fast-commit area. */
int log_reader_get(struct log_reader *reader, uint32_t index, const uint8_t **block_out);

/* Where a pass is. Every block of the log is passed once at most, so that no log is endless. */
struct log_walk {
	const struct journal *j;
	struct log_reader *reader;
	uint32_t index;       /* the next block */
	uint32_t left;        /* blocks not passed yet, that one included */
	tid_t tid;            /* expected in every block with a header */
};

/* From s_start and s_sequence. */
void log_walk_begin(struct log_walk *walk, struct log_reader *reader);
/* One block with the header that is expected here. 1: *block_out, *type_out; 0: the log ends here; negative: error. */
int log_walk_next(struct log_walk *walk, const uint8_t **block_out, uint32_t *type_out);
/* One block whatever it holds, as it follows a descriptor. The same results. */
int log_walk_data(struct log_walk *walk, const uint8_t **block_out);
/* Passes @count blocks unread; false if the log is shorter. */
bool log_walk_skip(struct log_walk *walk, uint32_t count);

/* ---- recovery_scan.c ---- */

struct log_span {
	tid_t first_tid, end_tid; /* committed: [first, end) */
	tid_t last_seen_tid;      /* >= end: the highest that a block of the log may carry */
};

/* First pass: finds the end of the log. -EBADMSG: a transaction is corrupt and a later one committed; -EIO, -ENOMEM. */
int recovery_scan(struct journal *j, struct log_reader *reader, struct log_span *span_out);

/* ---- recovery_revoke.c ---- */

/* For each revoked block the newest transaction that revoked it: open addressing, linear probing. */
struct replay_revokes {
	struct revoke_slot {
		uint64_t key;     /* block + 1; 0: free */
		tid_t tid;
	} *slots;
	uint64_t room;        /* a power of two, or 0 */
	uint64_t count;
	uint64_t seed;        /* so that nobody can prepare an image whose blocks collide */
};

void replay_revokes_init(struct replay_revokes *revokes);
void replay_revokes_exit(struct replay_revokes *revokes);
int replay_revokes_add(struct replay_revokes *revokes, fsblk_t blk, tid_t tid); /* -ENOMEM */
/* J3: may no copy of @blk from transaction @tid be replayed? */
bool replay_revokes_covers(const struct replay_revokes *revokes, fsblk_t blk, tid_t tid);
/* All records of one revoke block of transaction @tid. -EUCLEAN, -ENOMEM. */
int replay_revokes_add_block(struct replay_revokes *revokes, const struct journal *j, const uint8_t *block, tid_t tid,
			     uint64_t *seen);

/* ---- recovery_replay.c ---- */

/* One copy of a block in the log. */
struct replay_block {
	fsblk_t blk;
	uint32_t pos;         /* distance from s_start in log blocks: later copies have higher ones */
	tid_t tid;
	uint32_t flags;       /* JBD2_FLAG_* */
	uint32_t checksum;    /* as in its tag */
};

struct replay_list {
	struct replay_block *blocks;
	size_t count, room;
};

void replay_list_exit(struct replay_list *list);
int replay_list_add(struct replay_list *list, const struct replay_block *block); /* -ENOMEM */
/* Drops revoked and superseded copies and sorts by home block. -EUCLEAN: a home block where none may be; -ENOMEM. */
int replay_list_reduce(struct replay_list *list, const struct journal *j, const struct replay_revokes *revokes,
		       uint64_t *hits);
/*
 * Writes the reduced list home, through the buffer cache; no flush. A copy whose checksum is wrong is left out, the rest
 * still goes home, and the result is -EBADMSG. -EIO, -ENOMEM.
 */
int replay_list_write(const struct replay_list *list, struct journal *j, uint64_t *replayed);

/* ---- recovery_fc.c ---- */

/* What of the fast-commit area counts: whole blocks up to the one with the last valid tail. */
struct fc_area {
	uint32_t blocks;
	uint32_t last_bytes;  /* of the last one: up to the end of that tail */
	uint32_t commits;
};

/* Looks for fast commits on top of the transactions before @tid. -EOPNOTSUPP (unknown features or records), -EIO. */
int fc_area_scan(const struct journal *j, struct log_reader *reader, tid_t tid, struct fc_area *area_out);
/* Hands the blocks to params.fc_take() in turn; its error. -EOPNOTSUPP, with a message, if there is none. */
int fc_area_hand_over(const struct journal *j, struct log_reader *reader, const struct fc_area *area);

#endif
