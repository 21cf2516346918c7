/* SPDX-License-Identifier: MIT */
/*
 * crash.h - the crash explorer: what a power cut may leave, recovered and held against what was promised
 *
 * A workload is a short sequence of operations. It runs on a recording device; after each operation the live tree is
 * remembered (a *state*). Then the log of writes is cut at every place; between flushes writes are lost, torn and reordered.
 * Each image so built is mounted and unmounted by uext4, checked by e2fsck, and its tree is held against the states:
 *
 * C1  Names, types, link counts, modes, xattrs and symlinks are those of one state between the last operation that
 *     was made durable and the one in progress.
 * C2  A byte of a file is what some state in that range has there; it is zero only where one of them changes it.
 * C3  Where no state in the range changes a file, size and bytes are exact.
 */
#ifndef UEXT4_TESTS_CRASH_CRASH_H
#define UEXT4_TESTS_CRASH_CRASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block/record.h"
#include "uext4.h"

enum op_kind {
	OP_CREATE, OP_WRITE, OP_APPEND, OP_OSYNC_WRITE, OP_FALLOC, OP_FALLOC_KEEP, OP_PUNCH, OP_ZERO, OP_COLLAPSE, OP_INSERT,
	OP_TRUNCATE, OP_LINK, OP_UNLINK, OP_RENAME, OP_EXCHANGE, OP_MKDIR, OP_RMDIR, OP_SYMLINK, OP_SETXATTR,
	OP_REMOVEXATTR, OP_FSYNC, OP_FDATASYNC, OP_SYNC, OP_KINDS
};

struct op {
	enum op_kind kind;
	const char *a, *b;       /* paths; b for link, rename, exchange */
	uint64_t pos, len;
	unsigned fill;           /* byte value that marks what it writes */
};

#define WORKLOAD_OPS_MAX 256

struct workload {
	uint64_t id;
	unsigned count;
	struct op ops[WORKLOAD_OPS_MAX];
};

/* Workloads 0 .. workload_systematic() - 1 are all sequences of one and two operations with each kind of sync after each;
 * higher ids are long random ones with the id as seed. */
uint64_t workload_systematic(void);
void workload_make(uint64_t id, struct workload *w);
void op_print(const struct op *op, char *buf, size_t buf_bytes);
/* Result of the operation; failures such as -ENOENT are part of a workload. */
int op_run(struct uext4_fs *fs, const struct op *op);
/* What every workload starts from. */
int tree_prepare(struct uext4_fs *fs);

/* ---- states ---- */

struct state_node {
	char *path;
	uint64_t ino, size;
	uint32_t mode, nlink;
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
/* Also sizes and bytes; @why says what differs. */
bool state_same(const struct state *a, const struct state *b, char *why, size_t why_bytes);

/* ---- a recorded run ---- */

struct run {
	struct workload workload;
	struct state *states;        /* count + 1: before the first operation, after each */
	size_t *mark_at;             /* log entries when operation i had returned; [0] is the start */
	int *results;
	struct block_device *record; /* holds the log */
	uint8_t *before;             /* what the device held when recording began */
	uint64_t size_bytes;
};

/* C1 to C3 for a tree recovered from a cut before log entry @cut. NULL, or what is wrong (static buffer). */
const char *oracle_check(const struct run *run, size_t cut, const struct state *recovered);

/* ---- opening on a device of ours ---- */
int crash_open(struct block_device *dev, const char *options, struct uext4_fs **fs_out);

#endif
