/* SPDX-License-Identifier: MIT */
/*
 * crash.h - the crash explorer: what a power cut may leave, recovered and held against what was promised
 *
 * A workload is a sequence of operations. It runs on a recording device, unmount included; after each operation the live
 * tree is remembered (a *state*). Then the log of writes is cut at every place; between flushes writes are lost, torn
 * between sectors and reordered. Each image so built, a *crash state*, is mounted and unmounted by uext4, checked by
 * e2fsck, and its tree is held against the states:
 *
 * C1  Names, types, link counts, modes, xattrs and symlinks are those of one state between the last operation that
 *     was made durable and the one in progress. So a rename is there as a whole or not at all.
 * C2  A byte of a file is what some state in that range has there, a zero too; only the rest of the block that a truncate
 *     cuts may be zero before the size has moved. Nothing that the device held before shows, nor what other files held.
 * C3  The size of a file lies between the smallest and the largest of the range.
 * C4  With data=journal all names, sizes and bytes are those of two neighbouring states: data comes with the names that
 *     were made after it.
 *
 * What is not tried: the superblock torn in its middle. Its checksum lies in another sector than what changes, so no driver
 * can do anything about it, and none mounts that: ext4 takes these 1024 bytes to be written as one.
 *
 * Of a sample the recovery is cut too, and of a sample the kernel and e2fsck recover a copy: all trees must be alike.
 *
 * Time and chance come from the workload (clock.c), so that a run repeats and alike states are alike to the byte.
 */
#ifndef UEXT4_TESTS_CRASH_CRASH_H
#define UEXT4_TESTS_CRASH_CRASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block/record.h"
#include "uext4.h"

/* ---- workload.c: which operations are tried, and doing them ---- */

enum op_kind {
	OP_CREATE, OP_TMPFILE, OP_WRITE, OP_APPEND, OP_OSYNC_WRITE, OP_UNCACHED_WRITE, OP_DIRTY_PAGES,
	OP_FALLOC, OP_FALLOC_KEEP, OP_PUNCH, OP_ZERO, OP_COLLAPSE, OP_INSERT, OP_TRUNCATE,
	OP_LINK, OP_UNLINK, OP_RENAME, OP_EXCHANGE, OP_MKDIR, OP_RMDIR, OP_SYMLINK, OP_CHMOD, OP_CHATTR, OP_SETXATTR, OP_REMOVEXATTR,
	OP_HOLD, OP_HELD_APPEND,      /* a file that stays open, also when it is unlinked */
	OP_START_WRITEBACK, OP_WRITEBACK, OP_COMMIT, /* what the flusher and the journal's timer do by themselves */
	OP_CHURN,                     /* so many small commits, which leave nothing behind: the log is nearly full */
	OP_FSYNC, OP_FDATASYNC, OP_SYNC, OP_UNMOUNT, OP_KINDS
};

struct op {
	enum op_kind kind;
	const char *a, *b;       /* paths; b for link, rename, exchange; of OP_TMPFILE a is the name it gets */
	uint64_t pos, len;       /* bytes; of OP_CHMOD pos is the mode, of OP_CHATTR the flags, of OP_CHURN len the number of commits */
	unsigned fill;           /* byte value that marks what it writes */
};

#define WORKLOAD_OPS_MAX 256

struct workload {
	uint64_t id;
	uint32_t unit;           /* bytes of a block */
	bool late;               /* the device completes writes late (late.c) */
	bool storm;              /* a commit follows each handle, in the middle of operations too (storm.c) */
	unsigned first_cut_op;   /* cuts before this operation returned are left to other workloads */
	unsigned count;
	struct op ops[WORKLOAD_OPS_MAX];
};

/*
 * Ids from 0 to workload_named() - 1 are the named ones; up to workload_short() - 1 follow all sequences of one operation
 * with each kind of sync after it, up to workload_systematic() - 1 all sequences of two; higher ids are long random ones
 * with the id as seed.
 */
uint64_t workload_named(void);
uint64_t workload_short(void);
uint64_t workload_systematic(void);
void workload_make(uint64_t id, uint32_t unit, struct workload *w);
void op_print(const struct op *op, char *buf, size_t buf_bytes);

/* A mounted file system and the files that operations hold open. */
struct session {
	struct uext4_fs *fs;
	struct uext4_file *held;
};

/* Result of the operation; failures such as -ENOENT are part of a workload. OP_UNMOUNT ends the session. */
int op_run(struct session *s, const struct op *op);
/*
 * What every workload starts from. FORMAT_TIGHT: with hardly a block left free, so that what is freed is soon used again.
 * FORMAT_FILES_LOGGED: all files have the flag +j.
 */
int tree_prepare(struct session *s, uint32_t unit, unsigned format_flags);
#define FILLER_NAME "filler" /* takes the room of a tight image; nobody reads it */

/* ---- state.c: a whole tree in memory ---- */

struct state_node {
	char *path;
	uint64_t ino, size;
	uint32_t generation, mode, nlink;
	char *extra;             /* symlink target, or xattrs as text; NULL: none */
	uint8_t *content;        /* regular files: size bytes */
};

struct state {
	size_t count;
	struct state_node *nodes; /* sorted by path */
};

int state_take(struct uext4_fs *fs, struct state *out);
void state_free(struct state *s);
const struct state_node *state_find(const struct state *s, const char *path);
/* True if both hold the same names with the same attributes; file sizes and bytes are not looked at. */
bool state_same_names(const struct state *a, const struct state *b);
/* Gives regular files without xattrs those they have in @from. False: there were none. */
bool state_restore_xattrs(struct state *s, const struct state *from);
/* Also sizes and bytes; @why says what differs. */
bool state_same(const struct state *a, const struct state *b, char *why, size_t why_bytes);

/* ---- oracle.c ---- */

struct run {
	struct workload workload;
	struct state *states;        /* count + 1: before the first operation, after each */
	size_t *mark_at;             /* log entries when operation i had returned; [0] is 0 */
	int *results;
	struct block_device *record; /* holds the log */
	struct block_device *late;   /* below it, or NULL */
	bool shows_stale;            /* FORMAT_SHOWS_STALE */
	bool in_order;               /* FORMAT_IN_ORDER */
	const bool *lost;            /* by operation, count + 1: its error told that data is lost. NULL: none did */
};

/* The states that a cut before log entry @cut may leave: [first, last], in *done the last operation that had returned. */
void oracle_range(const struct run *run, size_t cut, unsigned *done_out, unsigned *first_out, unsigned *last_out);
/* C1 to C3 for a tree recovered from that cut. NULL, or what is wrong (static buffer). */
const char *oracle_check(const struct run *run, size_t cut, const struct state *recovered);

/* ---- format.c: the images that workloads start from ---- */

struct format {
	const char *name;
	const char *mkfs;        /* arguments of mke2fs */
	const char *options;     /* of the mount */
	uint32_t block_bytes;
	unsigned flags;
};

#define FORMAT_TIGHT       0x1u
#define FORMAT_SHOWS_STALE 0x2u /* C2 holds only for files that are alike in all states of the range */
#define FORMAT_NO_JOURNAL  0x4u
#define FORMAT_IN_ORDER    0x8u /* C4 holds */
#define FORMAT_FILES_LOGGED 0x10u

extern const struct format formats[];
extern const unsigned format_count;

#define CHUNK_BYTES 1024u        /* what is hashed and put back as one */
#define IMAGE_BYTES_MAX (24u << 20)

struct base {
	const struct format *format;
	uint64_t size_bytes;
	uint8_t *bytes;          /* shared with child processes */
	uint64_t *chunk_hash;
	uint64_t hash;
	uint32_t *log_blks;      /* of the journal, its superblock first */
	uint32_t log_count;
};

/* Before this process has any threads. */
int base_prepare(const struct format *format, struct base *base);

/* ---- image.c: an image that knows what was changed in it ---- */

struct image {
	int fd;                  /* programs find it as image_path() */
	uint8_t *bytes;
	const struct base *base;
	uint64_t *touched;       /* bit per chunk */
	char path[32];
};

int image_open(struct image *image);
void image_close(struct image *image);
void image_use(struct image *image, const struct base *base);  /* starts from another base, or after others changed it */
void image_reset(struct image *image);                         /* back to the base */
void image_restore(struct image *image, uint64_t pos_bytes, uint64_t len_bytes); /* this part of it; whole chunks */
void image_write(struct image *image, uint64_t pos_bytes, const void *bytes, size_t len_bytes); /* NULL: zeros */
uint64_t image_hash(const struct image *image);                /* of all bytes */
int image_device(struct image *image, struct block_device **dev_out);

/* ---- late.c, borrow.c: devices for recording ---- */

/* Completes writes to other places than the journal after a while only, in their order. Takes @lower over. */
int block_open_late(struct block_device *lower, const struct base *base, struct block_device **dev_out);
void late_hold(struct block_device *dev, bool hold); /* longer still */
/* A device over @lower that leaves it open when it is closed. */
int block_open_borrow(struct block_device *lower, struct block_device **dev_out);

/* ---- storm.c ---- */

void storm_set(bool on);

/* ---- seen.c: a set of hashes that processes share ---- */

struct seen;
struct seen *seen_create(uint64_t room); /* a power of two */
bool seen_add(struct seen *seen, uint64_t hash); /* false: it is there already */
bool seen_has(const struct seen *seen, uint64_t hash);
uint64_t hash_mix(uint64_t a, uint64_t b);
uint64_t hash_bytes(const void *bytes, size_t len_bytes); /* len a multiple of 64 */

/* ---- judge.c: programs that look at an image ---- */

int run_program(char *const argv[]); /* exit status, or -1 */
const char *judge_fsck(const struct image *image);
/* Each changes the image: image_use() it afterwards. NULL or what is wrong. */
const char *judge_replay_by_kernel(const struct image *image);
const char *judge_replay_by_e2fsck(const struct image *image);

/* ---- explore.c ---- */

struct explorer_options {
	uint64_t seed;
	uint64_t only_cut;             /* UINT64_MAX: all */
	uint64_t violations_max;       /* ends after so many */
	uint64_t builds_per_workload;  /* so many cuts and ways of losing writes are tried of each; many leave the same */
	unsigned kernel_every, e2fsck_every, nested_every; /* of the states; 0: never */
	bool verbose;                  /* prints each workload */
	const char *keep;              /* a folder for images of violations, or NULL */
	const char *command;           /* that does the same; the workload is to be added */
};

#define JOBS_MAX 64u

/* Where a worker is, for who finds it dead. */
struct place {
	const char *format;
	uint64_t workload, cut, variant;
};

/* Shared by all worker processes. */
struct totals {
	struct place places[JOBS_MAX];
	_Atomic uint64_t next, workloads, violations;
	_Atomic uint64_t tried, states;                  /* crash states judged; distinct ones of them */
	_Atomic uint64_t fscks, nested, kernel, e2fsck;  /* how they were judged */
	struct seen *states_seen, *clean_seen;
};

struct explorer {
	const struct explorer_options *options;
	struct totals *totals;
	struct place *place;
	const struct base *base;
	struct image live, image;      /* under the recorded run; the crash state at hand */
	struct seen *local;            /* images and ranges of states that this process has judged */
	uint64_t nonce;                /* tells its workloads apart in there */
	unsigned reported;
};

int explorer_open(struct explorer *ex, const struct explorer_options *options, struct totals *totals, struct place *place);
void explore_workload(struct explorer *ex, const struct base *base, uint64_t id);

/* ---- mount.c, clock.c ---- */

extern int crash_log_level; /* enum log_level: what of the file system's messages is shown; 0: none */
int crash_open(struct block_device *dev, const char *options, struct uext4_fs **fs_out);
void clock_set(int64_t seconds); /* what CLOCK_REALTIME says from now on */

#endif
