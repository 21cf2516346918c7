/* SPDX-License-Identifier: MIT */
/* workload.c - which operations are tried, and doing them */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>

#include "api/api_private.h"
#include "block/random.h"
#include "cache/cache.h"
#include "crash.h"
#include "ext4/fs.h"
#include "jbd2/jbd2.h"

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define FLAG_LOGGED EXT4_JOURNAL_DATA_FL

/* A position or length in the tables below: blocks of the image, and bytes. */
#define B(blocks, bytes) ((uint64_t)(blocks) << 32 | (bytes))

#define WRITE_BYTES_MAX (256u << 10)
#define UNCACHED_BYTES (130u << 10) /* what is smaller goes through the cache */

/* The single operations of the systematic set, on the tree of tree_prepare(). */
static const struct op basic[] = {
	{ OP_CREATE, "new", NULL, 0, 0, 0 },
	{ OP_CREATE, "d/new", NULL, 0, 0, 0 },
	{ OP_TMPFILE, "d/new", NULL, 0, 0, 0 },
	{ OP_WRITE, "a", NULL, 0, B(1, 0), 0 },
	{ OP_WRITE, "a", NULL, B(1, 100), 2000, 0 },
	{ OP_WRITE, "a", NULL, B(20, 0), B(3, 0), 0 },
	{ OP_WRITE, "sparse", NULL, B(3, 0), B(2, 0), 0 },
	{ OP_APPEND, "a", NULL, 0, 700, 0 },
	{ OP_APPEND, "empty", NULL, 0, B(5, 0), 0 },
	{ OP_OSYNC_WRITE, "a", NULL, B(2, 0), B(1, 0), 0 },
	{ OP_UNCACHED_WRITE, "empty", NULL, 0, UNCACHED_BYTES, 0 },
	{ OP_UNCACHED_WRITE, "a", NULL, B(4, 0), UNCACHED_BYTES, 0 },
	{ OP_DIRTY_PAGES, "a", NULL, B(1, 0), B(4, 0), 0 },
	{ OP_DIRTY_PAGES, "sparse", NULL, 0, B(10, 0), 0 },
	{ OP_FALLOC, "a", NULL, B(2, 0), B(20, 0), 0 },
	{ OP_FALLOC_KEEP, "empty", NULL, 0, B(20, 0), 0 },
	{ OP_PUNCH, "a", NULL, B(1, 10), B(3, 0), 0 },
	{ OP_ZERO, "a", NULL, 500, B(3, 0), 0 },
	{ OP_COLLAPSE, "a", NULL, B(1, 0), B(2, 0), 0 },
	{ OP_INSERT, "a", NULL, B(1, 0), B(2, 0), 0 },
	{ OP_TRUNCATE, "a", NULL, 0, 0, 0 },
	{ OP_TRUNCATE, "a", NULL, B(1, 77), 0, 0 },
	{ OP_TRUNCATE, "a", NULL, B(40, 0), 0, 0 },
	{ OP_LINK, "a", "d/link", 0, 0, 0 },
	{ OP_UNLINK, "a", NULL, 0, 0, 0 },
	{ OP_UNLINK, "linked", NULL, 0, 0, 0 },
	{ OP_RENAME, "a", "moved", 0, 0, 0 },
	{ OP_RENAME, "a", "b", 0, 0, 0 },
	{ OP_RENAME, "a", "d/c", 0, 0, 0 },
	{ OP_RENAME, "d", "e/d", 0, 0, 0 },
	{ OP_EXCHANGE, "a", "d/c", 0, 0, 0 },
	{ OP_MKDIR, "newdir", NULL, 0, 0, 0 },
	{ OP_RMDIR, "e", NULL, 0, 0, 0 },
	{ OP_SYMLINK, "sym", NULL, 0, 30, 0 },
	{ OP_SYMLINK, "longsym", NULL, 0, 200, 0 },
	{ OP_CHMOD, "a", NULL, 0600, 0, 0 },
	{ OP_CHATTR, "a", NULL, FLAG_LOGGED, 0, 0 },
	{ OP_CHATTR, "a", NULL, 0, 0, 0 },
	{ OP_SETXATTR, "a", NULL, 0, 20, 0 },
	{ OP_SETXATTR, "a", NULL, 0, 600, 0 },
	{ OP_SETXATTR, "d", NULL, 0, 600, 0 },
	{ OP_REMOVEXATTR, "b", NULL, 0, 0, 0 },
	{ OP_HOLD, "a", NULL, 0, 0, 0 },
	{ OP_START_WRITEBACK, "/", NULL, 0, 0, 0 },
	{ OP_COMMIT, "/", NULL, 0, 0, 0 },
};
static const enum op_kind syncs[] = { OP_KINDS, OP_FSYNC, OP_FDATASYNC, OP_SYNC }; /* OP_KINDS: none */

/* What took some thought, or showed a mistake once. */
#define NAMED_OPS_MAX 16u
#define NAMED_LATE  0x1u
#define NAMED_STORM 0x2u
static const struct {
	unsigned how;   /* NAMED_* */
	struct op ops[NAMED_OPS_MAX];
	unsigned churn; /* commits before */
} named[] = {
	/* J3: blocks of directories, in the log as such, are freed and used again for data. */
	{ 0, { { OP_MKDIR, "m1", NULL, 0, 0, 0 }, { OP_MKDIR, "m2", NULL, 0, 0, 0 }, { OP_MKDIR, "m3", NULL, 0, 0, 0 },
		   { OP_MKDIR, "m4", NULL, 0, 0, 0 }, { OP_SYNC, NULL, NULL, 0, 0, 0 }, { OP_RMDIR, "m1", NULL, 0, 0, 0 },
		   { OP_RMDIR, "m2", NULL, 0, 0, 0 }, { OP_RMDIR, "m3", NULL, 0, 0, 0 }, { OP_RMDIR, "m4", NULL, 0, 0, 0 },
		   { OP_SYNC, NULL, NULL, 0, 0, 0 }, { OP_WRITE, "empty", NULL, 0, B(60, 0), 0 }, { OP_FSYNC, "empty", NULL, 0, 0, 0 },
		   { OP_WRITE, "b", NULL, B(2, 0), B(60, 0), 0 }, { OP_FSYNC, "b", NULL, 0, 0, 0 } } },
	/* The same with blocks of xattrs. */
	{ 0, { { OP_SETXATTR, "a", NULL, 0, 600, 0 }, { OP_SETXATTR, "d", NULL, 0, 600, 0 }, { OP_SETXATTR, "d/c", NULL, 0, 600, 0 },
		   { OP_SYNC, NULL, NULL, 0, 0, 0 }, { OP_REMOVEXATTR, "a", NULL, 0, 0, 0 }, { OP_REMOVEXATTR, "d", NULL, 0, 0, 0 },
		   { OP_REMOVEXATTR, "d/c", NULL, 0, 0, 0 }, { OP_SYNC, NULL, NULL, 0, 0, 0 }, { OP_WRITE, "empty", NULL, 0, B(60, 0), 0 },
		   { OP_FSYNC, "empty", NULL, 0, 0, 0 }, { OP_WRITE, "b", NULL, B(2, 0), B(60, 0), 0 }, { OP_FSYNC, "b", NULL, 0, 0, 0 } } },
	/* W1, W2: a commit while data is on its way. */
	{ NAMED_LATE, { { OP_WRITE, "sparse", NULL, B(2, 0), B(6, 0), 0 }, { OP_START_WRITEBACK, "/", NULL, 0, 0, 0 },
		  { OP_COMMIT, "/", NULL, 0, 0, 0 }, { OP_CREATE, "new", NULL, 0, 0, 0 }, { OP_FSYNC, "new", NULL, 0, 0, 0 } } },
	{ NAMED_LATE, { { OP_APPEND, "a", NULL, 0, B(7, 100), 0 }, { OP_START_WRITEBACK, "/", NULL, 0, 0, 0 },
		  { OP_CHMOD, "a", NULL, 0600, 0, 0 }, { OP_FSYNC, "/", NULL, 0, 0, 0 }, { OP_CREATE, "new", NULL, 0, 0, 0 },
		  { OP_FSYNC, "new", NULL, 0, 0, 0 } } },
	/* W5: a commit between the pieces of one pass over a file without unwritten extents. */
	{ NAMED_LATE | NAMED_STORM, { { OP_WRITE, "a", NULL, B(4, 0), B(9, 0), 0 }, { OP_FSYNC, "a", NULL, 0, 0, 0 },
		   { OP_FALLOC_KEEP, "empty", NULL, 0, B(6, 0), 0 }, { OP_WRITE, "empty", NULL, 0, B(9, 0), 0 },
		   { OP_FSYNC, "empty", NULL, 0, 0, 0 } } },
	/* S2: the size ends in a hole, where no I/O completes. */
	{ 0, { { OP_WRITE, "empty", NULL, B(3, 0), B(9, 0), 0 }, { OP_PUNCH, "empty", NULL, B(4, 0), B(12, 0), 0 },
		   { OP_SYNC, NULL, NULL, 0, 0, 0 }, { OP_WRITE, "b", NULL, B(9, 0), B(2, 0), 0 }, { OP_TRUNCATE, "b", NULL, B(5, 0), 0, 0 },
		   { OP_SYNC, NULL, NULL, 0, 0, 0 } } },
	/* A shift of blocks happens as a whole, and what is written in place after it may not be there without it. */
	{ NAMED_STORM, { { OP_COLLAPSE, "a", NULL, B(1, 0), B(2, 0), 0 }, { OP_OSYNC_WRITE, "a", NULL, B(2, 0), B(1, 0), 0 },
		   { OP_INSERT, "a", NULL, B(1, 0), B(2, 0), 0 }, { OP_WRITE, "a", NULL, B(5, 0), B(1, 0), 0 },
		   { OP_FDATASYNC, "a", NULL, 0, 0, 0 } } },
	/* L3: blocks of data in the log are freed and used again, for data that goes another way, or the same. */
	{ 0, { { OP_CHATTR, "a", NULL, FLAG_LOGGED, 0, 0 }, { OP_WRITE, "a", NULL, 0, B(50, 0), 0 }, { OP_FSYNC, "a", NULL, 0, 0, 0 },
		   { OP_TRUNCATE, "a", NULL, B(3, 100), 0, 0 }, { OP_SYNC, NULL, NULL, 0, 0, 0 }, { OP_WRITE, "b", NULL, B(2, 0), B(60, 0), 0 },
		   { OP_FSYNC, "b", NULL, 0, 0, 0 }, { OP_UNLINK, "a", NULL, 0, 0, 0 }, { OP_SYNC, NULL, NULL, 0, 0, 0 },
		   { OP_WRITE, "empty", NULL, 0, B(60, 0), 0 }, { OP_FSYNC, "empty", NULL, 0, 0, 0 } } },
	/* L4: a file gives the flag up and has it again, and is written in place meanwhile. */
	{ 0, { { OP_CHATTR, "a", NULL, FLAG_LOGGED, 0, 0 }, { OP_WRITE, "a", NULL, B(1, 0), B(4, 0), 0 }, { OP_CHATTR, "a", NULL, 0, 0, 0 },
		   { OP_OSYNC_WRITE, "a", NULL, B(2, 0), B(4, 0), 0 }, { OP_CHATTR, "a", NULL, FLAG_LOGGED, 0, 0 },
		   { OP_WRITE, "a", NULL, B(3, 100), 50, 0 }, { OP_FSYNC, "a", NULL, 0, 0, 0 }, { OP_CHATTR, "a", NULL, 0, 0, 0 },
		   { OP_PUNCH, "a", NULL, B(2, 10), B(3, 0), 0 }, { OP_WRITE, "a", NULL, B(1, 0), B(5, 0), 0 }, { OP_FSYNC, "a", NULL, 0, 0, 0 } } },
	/* L1: data comes with the names that were made after it. */
	{ NAMED_STORM, { { OP_WRITE, "empty", NULL, 0, B(5, 0), 0 }, { OP_RENAME, "empty", "b", 0, 0, 0 }, { OP_WRITE, "b", NULL, B(2, 0), B(1, 0), 0 },
		   { OP_CREATE, "new", NULL, 0, 0, 0 }, { OP_APPEND, "new", NULL, 0, B(3, 7), 0 }, { OP_LINK, "new", "d/link", 0, 0, 0 },
		   { OP_TRUNCATE, "new", NULL, B(1, 3), 0, 0 }, { OP_APPEND, "new", NULL, 0, B(2, 0), 0 }, { OP_CHMOD, "new", NULL, 0600, 0, 0 },
		   { OP_COMMIT, "/", NULL, 0, 0, 0 } } },
	/* An open file is unlinked, and goes on. */
	{ 0, { { OP_HOLD, "a", NULL, 0, 0, 0 }, { OP_UNLINK, "a", NULL, 0, 0, 0 }, { OP_HELD_APPEND, NULL, NULL, 0, B(5, 0), 0 },
		   { OP_SYNC, NULL, NULL, 0, 0, 0 }, { OP_CREATE, "a", NULL, 0, 0, 0 }, { OP_APPEND, "a", NULL, 0, B(3, 0), 0 },
		   { OP_FSYNC, "a", NULL, 0, 0, 0 } } },
	/* The log goes round, and its tail moves. */
	{ 0, { { OP_MKDIR, "m", NULL, 0, 0, 0 }, { OP_SETXATTR, "a", NULL, 0, 600, 0 }, { OP_FSYNC, "a", NULL, 0, 0, 0 },
		   { OP_APPEND, "empty", NULL, 0, B(5, 0), 0 }, { OP_FSYNC, "empty", NULL, 0, 0, 0 }, { OP_RMDIR, "m", NULL, 0, 0, 0 },
		   { OP_REMOVEXATTR, "a", NULL, 0, 0, 0 }, { OP_FSYNC, "a", NULL, 0, 0, 0 }, { OP_WRITE, "b", NULL, B(2, 0), B(9, 0), 0 },
		   { OP_FSYNC, "b", NULL, 0, 0, 0 }, { OP_RENAME, "b", "a", 0, 0, 0 }, { OP_FSYNC, "/", NULL, 0, 0, 0 },
		   { OP_UNLINK, "a", NULL, 0, 0, 0 }, { OP_SYNC, NULL, NULL, 0, 0, 0 } }, 335 },
};

static uint64_t synced_kinds(void)
{
	return ARRAY_COUNT(basic) * ARRAY_COUNT(syncs);
}

uint64_t workload_named(void)
{
	return ARRAY_COUNT(named);
}

uint64_t workload_short(void)
{
	return ARRAY_COUNT(named) + synced_kinds();
}

uint64_t workload_systematic(void)
{
	return workload_short() + synced_kinds() * synced_kinds();
}

static void add(struct workload *w, struct op op)
{
	op.fill = 1 + w->count % 250;
	w->ops[w->count++] = op;
}

/* One of a table, with its blocks as bytes. */
static void add_from_table(struct workload *w, struct op op)
{
	op.pos = (op.pos >> 32) * w->unit + (uint32_t)op.pos;
	op.len = (op.len >> 32) * w->unit + (uint32_t)op.len;
	add(w, op);
}

/* The path by which the operation's file can be synced afterwards. */
static const char *path_after(const struct op *op)
{
	if (op->kind == OP_RENAME || op->kind == OP_EXCHANGE)
		return op->b;
	if (op->kind == OP_UNLINK || op->kind == OP_RMDIR || op->kind == OP_SYMLINK)
		return "/";
	return op->a;
}

static void add_synced(struct workload *w, uint64_t choice)
{
	const struct op *op = &basic[choice / ARRAY_COUNT(syncs)];
	enum op_kind sync = syncs[choice % ARRAY_COUNT(syncs)];

	add_from_table(w, *op);
	if (sync != OP_KINDS)
		add(w, (struct op){ .kind = sync, .a = path_after(op) });
}

/* Each commit takes at least three blocks of a log of 1023: the operations after it reach its end and go round. */
#define CHURN_MIN 280u
#define CHURN_MAX 340u

static void add_churn(struct workload *w, uint64_t commits)
{
	add(w, (struct op){ .kind = OP_CHURN, .a = "linked", .len = commits });
	w->first_cut_op = w->count;
}

static void add_named(struct workload *w, uint64_t choice)
{
	const struct op *ops = named[choice].ops;

	if (named[choice].churn)
		add_churn(w, named[choice].churn);

	w->late = named[choice].how & NAMED_LATE;
	w->storm = named[choice].how & NAMED_STORM;
	for (unsigned i = 0; i < NAMED_OPS_MAX && (ops[i].kind != OP_CREATE || ops[i].a); i++)
		add_from_table(w, ops[i]);
}

/* ---- random ones ---- */

/* Names so long that a directory soon has several blocks, and an index. */
#define LONG(n) "d/" n "-long-name-long-name-long-name-long-name-long-name-long-name-long-name-long-name-long-name-long-name-long-name"

static const char *any_path(struct random *rnd)
{
	static const char *const paths[] = { "a", "b", "new", "d/c", "d/new", "e/x", "empty", "sparse", "big", "d/link", "moved" };
	static const char *const long_paths[] = {
		LONG("0"), LONG("1"), LONG("2"), LONG("3"), LONG("4"), LONG("5"), LONG("6"), LONG("7"), LONG("8"), LONG("9"), LONG("10"),
		LONG("11"), LONG("12"), LONG("13"), LONG("14"), LONG("15"), LONG("16"), LONG("17"), LONG("18"), LONG("19"), LONG("20") };

	if (random_below(rnd, 4) == 0)
		return long_paths[random_below(rnd, ARRAY_COUNT(long_paths))];
	return paths[random_below(rnd, ARRAY_COUNT(paths))];
}

static enum op_kind any_kind(struct random *rnd)
{
	static const struct {
		enum op_kind kind;
		unsigned weight;
	} kinds[] = {
		{ OP_CREATE, 11 }, { OP_TMPFILE, 3 }, { OP_WRITE, 14 }, { OP_APPEND, 10 }, { OP_OSYNC_WRITE, 3 }, { OP_UNCACHED_WRITE, 5 }, { OP_DIRTY_PAGES, 5 },
		{ OP_FALLOC, 3 }, { OP_FALLOC_KEEP, 3 }, { OP_PUNCH, 3 }, { OP_ZERO, 3 }, { OP_COLLAPSE, 2 }, { OP_INSERT, 2 },
		{ OP_TRUNCATE, 6 }, { OP_LINK, 3 }, { OP_UNLINK, 5 }, { OP_RENAME, 5 }, { OP_EXCHANGE, 2 }, { OP_MKDIR, 2 }, { OP_RMDIR, 2 },
		{ OP_SYMLINK, 2 }, { OP_CHMOD, 2 }, { OP_CHATTR, 3 }, { OP_SETXATTR, 4 }, { OP_REMOVEXATTR, 2 }, { OP_HOLD, 2 }, { OP_HELD_APPEND, 2 },
		{ OP_START_WRITEBACK, 4 }, { OP_WRITEBACK, 2 }, { OP_COMMIT, 3 }, { OP_FSYNC, 5 }, { OP_FDATASYNC, 4 }, { OP_SYNC, 2 },
	};
	unsigned sum = 0, dice;

	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
		sum += kinds[i].weight;
	dice = (unsigned)random_below(rnd, sum);
	for (size_t i = 0;; i++) {
		if (dice < kinds[i].weight)
			return kinds[i].kind;
		dice -= kinds[i].weight;
	}
}

static void add_random(struct workload *w, struct random *rnd)
{
	struct op op = { .kind = any_kind(rnd), .a = any_path(rnd), .b = any_path(rnd) };

	op.pos = random_below(rnd, 3) ? random_below(rnd, 30 * w->unit) : random_below(rnd, 30) * w->unit;
	op.len = 1 + (random_below(rnd, 4) ? random_below(rnd, 5 * w->unit) : random_below(rnd, 40 * w->unit));
	switch (op.kind) {
	case OP_COLLAPSE:
	case OP_INSERT:
		op.pos = op.pos / w->unit * w->unit;
		op.len = (1 + op.len / w->unit / 4) * w->unit;
		break;
	case OP_UNCACHED_WRITE:
		op.pos = op.pos / w->unit * w->unit;
		op.len += UNCACHED_BYTES;
		break;
	case OP_MKDIR:
	case OP_RMDIR:
		op.a = random_below(rnd, 2) ? "m" : "d/m";
		break;
	case OP_CHMOD:
		op.pos = 0600 + random_below(rnd, 3) * 022;
		break;
	case OP_CHATTR:
		op.pos = random_below(rnd, 2) ? FLAG_LOGGED : 0;
		break;
	case OP_SETXATTR:
	case OP_SYMLINK:
		op.len = 1 + op.len % 700;
		break;
	default:
		break;
	}
	add(w, op);
}

void workload_make(uint64_t id, uint32_t unit, struct workload *w)
{
	uint64_t one = synced_kinds(), pair = id - workload_short();
	struct random rnd = random_make(id);

	*w = (struct workload){ .id = id, .unit = unit };
	if (id < ARRAY_COUNT(named)) {
		add_named(w, id);
	} else if (id < workload_short()) {
		add_synced(w, id - ARRAY_COUNT(named));
	} else if (id < workload_systematic()) {
		w->late = id % 5 == 0;
		w->storm = id % 7 == 0;
		add_synced(w, pair / one);
		w->first_cut_op = w->count;
		add_synced(w, pair % one);
	} else {
		w->late = random_below(&rnd, 2);
		w->storm = random_below(&rnd, 4) == 0;
		if (random_below(&rnd, 4) == 0)
			add_churn(w, CHURN_MIN + random_below(&rnd, CHURN_MAX - CHURN_MIN));
		for (uint64_t left = 10 + random_below(&rnd, 60); left; left--)
			add_random(w, &rnd);
	}
	add(w, (struct op){ .kind = OP_UNMOUNT });
}

static const char *const kind_names[OP_KINDS] = {
	"create", "tmpfile", "write", "append", "osync_write", "uncached_write", "dirty_pages", "falloc", "falloc_keep", "punch", "zero",
	"collapse", "insert", "truncate", "link", "unlink", "rename", "exchange", "mkdir", "rmdir", "symlink", "chmod", "chattr", "setxattr",
	"removexattr", "hold", "held_append", "start_writeback", "writeback", "commit", "churn", "fsync", "fdatasync", "sync", "unmount",
};

void op_print(const struct op *op, char *buf, size_t buf_bytes)
{
	bool two = op->kind == OP_LINK || op->kind == OP_RENAME || op->kind == OP_EXCHANGE;

	snprintf(buf, buf_bytes, "%s(%.40s%s%.40s, %llu, %llu)", kind_names[op->kind], op->a ? op->a : "", two ? " " : "",
		 two ? op->b : "", (unsigned long long)op->pos, (unsigned long long)op->len);
}

/* ---- doing them ---- */

static int with_file(struct session *s, const char *path, int flags, int (*func)(struct uext4_file *, const struct op *),
		     const struct op *op)
{
	struct uext4_file *file;
	int err = uext4_open(s->fs, NULL, path, flags, 0644, &file), close_err;

	if (err)
		return err;
	err = func(file, op);
	close_err = uext4_close(file);
	return err ? err : close_err;
}

static const void *filled(const struct op *op, uint64_t len)
{
	static uint8_t buf[WRITE_BYTES_MAX];

	memset(buf, (int)op->fill, len);
	return buf;
}

static int write_at(struct uext4_file *file, const struct op *op, uint64_t pos)
{
	uint64_t len = min_of(op->len, (uint64_t)WRITE_BYTES_MAX);
	ssize_t put = uext4_pwrite(file, filled(op, len), len, (off_t)pos);

	return put < 0 ? (int)put : put == (ssize_t)len ? 0 : -EIO;
}

static int do_write(struct uext4_file *file, const struct op *op)
{
	return write_at(file, op, op->pos);
}

static int do_append(struct uext4_file *file, const struct op *op)
{
	struct uext4_attr attr;
	int err = uext4_fstat(file, &attr);

	return err ? err : write_at(file, op, attr.size);
}

static int do_fallocate(struct uext4_file *file, const struct op *op)
{
	static const int modes[] = {
		[OP_FALLOC] = 0, [OP_FALLOC_KEEP] = FALLOC_FL_KEEP_SIZE, [OP_PUNCH] = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		[OP_ZERO] = FALLOC_FL_ZERO_RANGE, [OP_COLLAPSE] = FALLOC_FL_COLLAPSE_RANGE, [OP_INSERT] = FALLOC_FL_INSERT_RANGE,
	};

	return uext4_fallocate(file, modes[op->kind], (off_t)op->pos, (off_t)op->len);
}

static int do_fsync(struct uext4_file *file, const struct op *op)
{
	return op->kind == OP_FSYNC ? uext4_fsync(file) : uext4_fdatasync(file);
}

static int do_name(struct uext4_file *file, const struct op *op)
{
	return uext4_link_file(file, NULL, op->a);
}

static int do_nothing(struct uext4_file *file, const struct op *op)
{
	(void)file;
	(void)op;
	return 0;
}

static int write_node(struct session *s, uext4_ino ino, const struct op *op, uint64_t pos, uint64_t len, uint32_t flags)
{
	const uint8_t *bytes = filled(op, len);

	while (len > 0) {
		struct iovec iov = { (void *)bytes, len };
		ssize_t put = uext4_node_writev(s->fs, ino, &iov, 1, (off_t)pos, flags);

		if (put <= 0)
			return put ? (int)put : -EIO;
		pos += (uint64_t)put;
		len -= (uint64_t)put;
	}
	return 0;
}

/* As the FUSE server does for a kernel that caches: large pieces past our cache, or whole dirty pages up to the size. */
static int write_as_server(struct session *s, const struct op *op)
{
	uint64_t pos = op->pos, end = pos + min_of(op->len, (uint64_t)WRITE_BYTES_MAX);
	struct uext4_attr attr;
	int err = uext4_stat(s->fs, NULL, op->a, &attr);

	if (err)
		return err;
	if (!S_ISREG(attr.mode))
		return -EISDIR;
	if (op->kind == OP_UNCACHED_WRITE)
		return write_node(s, attr.ino, op, pos, end - pos, UEXT4_WRITE_UNCACHED);
	pos = pos / PAGE_BYTES * PAGE_BYTES;
	end = min_of(round_up_to(end, PAGE_BYTES), attr.size);
	return pos < end ? write_node(s, attr.ino, op, pos, end - pos, UEXT4_WRITE_KEEP_TIMES) : 0;
}

/* Of a file its flag for data in the log alone; other types refuse it. */
static int chattr(struct session *s, const char *path, uint32_t flags)
{
	struct uext4_attr attr;
	int err = uext4_stat(s->fs, NULL, path, &attr);

	if (err)
		return err;
	attr.flags = (attr.flags & ~FLAG_LOGGED) | flags;
	return uext4_setattr(s->fs, NULL, path, true, &attr, UEXT4_SET_FLAGS);
}

static int hold(struct session *s, const char *path)
{
	int err = s->held ? uext4_close(s->held) : 0, open_err;

	s->held = NULL;
	open_err = uext4_open(s->fs, NULL, path, O_RDWR, 0, &s->held);
	return err ? err : open_err;
}

static int churn(struct session *s, const struct op *op)
{
	struct uext4_attr attr;
	int err = uext4_stat(s->fs, NULL, op->a, &attr);

	for (uint64_t i = 0; i < op->len && !err; i++) {
		err = uext4_setattr(s->fs, NULL, op->a, true, &attr, UEXT4_SET_MODE);
		if (!err)
			err = journal_force_commit(s->fs->vfs->fs->journal);
	}
	return err;
}

static int unmount(struct session *s)
{
	int err = s->held ? uext4_close(s->held) : 0, close_err = uext4_close_fs(s->fs);

	*s = (struct session){ 0 };
	return err ? err : close_err;
}

int op_run(struct session *s, const struct op *op)
{
	struct uext4_fs *fs = s->fs;
	char text[800];

	memset(text, 't', sizeof(text));
	switch (op->kind) {
	case OP_CREATE:
		return with_file(s, op->a, O_CREAT | O_EXCL | O_WRONLY, do_nothing, op);
	case OP_TMPFILE:
		return with_file(s, "/", O_TMPFILE | O_WRONLY, do_name, op);
	case OP_WRITE:
		return with_file(s, op->a, O_WRONLY, do_write, op);
	case OP_APPEND:
		return with_file(s, op->a, O_WRONLY, do_append, op);
	case OP_OSYNC_WRITE:
		return with_file(s, op->a, O_WRONLY | O_SYNC, do_write, op);
	case OP_UNCACHED_WRITE:
	case OP_DIRTY_PAGES:
		return write_as_server(s, op);
	case OP_FALLOC:
	case OP_FALLOC_KEEP:
	case OP_PUNCH:
	case OP_ZERO:
	case OP_COLLAPSE:
	case OP_INSERT:
		return with_file(s, op->a, O_WRONLY, do_fallocate, op);
	case OP_TRUNCATE:
		return uext4_truncate(fs, NULL, op->a, (off_t)op->pos);
	case OP_LINK:
		return uext4_link(fs, NULL, op->a, op->b);
	case OP_UNLINK:
		return uext4_unlink(fs, NULL, op->a);
	case OP_RENAME:
		return uext4_rename(fs, NULL, op->a, op->b, 0);
	case OP_EXCHANGE:
		return uext4_rename(fs, NULL, op->a, op->b, UEXT4_RENAME_EXCHANGE);
	case OP_MKDIR:
		return uext4_mkdir(fs, NULL, op->a, 0755);
	case OP_RMDIR:
		return uext4_rmdir(fs, NULL, op->a);
	case OP_SYMLINK:
		text[op->len < sizeof(text) ? op->len : sizeof(text) - 1] = '\0';
		return uext4_symlink(fs, NULL, text, op->a);
	case OP_CHMOD:
		return uext4_setattr(fs, NULL, op->a, true, &(struct uext4_attr){ .mode = (uint32_t)op->pos }, UEXT4_SET_MODE);
	case OP_CHATTR:
		return chattr(s, op->a, (uint32_t)op->pos);
	case OP_SETXATTR:
		memset(text, (int)op->fill, sizeof(text));
		return uext4_setxattr(fs, NULL, op->a, false, "user.x", text, op->len, 0);
	case OP_REMOVEXATTR:
		return uext4_removexattr(fs, NULL, op->a, false, "user.x");
	case OP_HOLD:
		return hold(s, op->a);
	case OP_HELD_APPEND:
		return s->held ? do_append(s->held, op) : -EBADF;
	case OP_START_WRITEBACK:
	case OP_WRITEBACK:
		return cache_writeback_all(fs->vfs->fs->cache, op->kind == OP_WRITEBACK);
	case OP_COMMIT:
		return journal_force_commit(fs->vfs->fs->journal);
	case OP_CHURN:
		return churn(s, op);
	case OP_FSYNC:
	case OP_FDATASYNC:
		return with_file(s, op->a, O_RDONLY, do_fsync, op);
	case OP_SYNC:
		return uext4_sync(fs);
	case OP_UNMOUNT:
		return unmount(s);
	default:
		return -EINVAL;
	}
}

/* ---- the tree that all start from ---- */

/* So many blocks are left to a workload: it uses most of them, and then those that were freed. */
#define TIGHT_BLOCKS 120u

static int fill_up(struct session *s, uint32_t unit)
{
	struct op op = { OP_APPEND, FILLER_NAME, NULL, 0, 16 * unit, 250 };
	struct uext4_attr attr;
	int err = op_run(s, &(struct op){ .kind = OP_CREATE, .a = FILLER_NAME });

	while (!err)
		err = op_run(s, &op);
	if (err == -EIO || err == -ENOSPC) /* EIO: it was written in part */
		err = uext4_sync(s->fs);
	if (!err)
		err = uext4_stat(s->fs, NULL, FILLER_NAME, &attr);
	if (!err)
		err = uext4_truncate(s->fs, NULL, FILLER_NAME, (off_t)(attr.size - TIGHT_BLOCKS * unit));
	return err ? err : uext4_sync(s->fs);
}

int tree_prepare(struct session *s, uint32_t unit, unsigned format_flags)
{
	static const struct op ops[] = {
		{ OP_CREATE, "a", NULL, 0, 0, 0 },        { OP_WRITE, "a", NULL, 0, B(8, 300), 251 },
		{ OP_CREATE, "b", NULL, 0, 0, 0 },        { OP_WRITE, "b", NULL, 0, B(2, 0), 252 },
		{ OP_SETXATTR, "b", NULL, 0, 40, 252 },   { OP_CREATE, "empty", NULL, 0, 0, 0 },
		{ OP_CREATE, "sparse", NULL, 0, 0, 0 },   { OP_WRITE, "sparse", NULL, 0, B(1, 0), 253 },
		{ OP_WRITE, "sparse", NULL, B(9, 0), B(1, 0), 253 },
		{ OP_CREATE, "linked", NULL, 0, 0, 0 },   { OP_LINK, "linked", "linked2", 0, 0, 0 },
		{ OP_MKDIR, "d", NULL, 0, 0, 0 },         { OP_CREATE, "d/c", NULL, 0, 0, 0 },
		{ OP_WRITE, "d/c", NULL, 0, B(3, 0), 254 }, { OP_MKDIR, "e", NULL, 0, 0, 0 },
		{ OP_CREATE, "junk", NULL, 0, 0, 0 },     { OP_WRITE, "junk", NULL, 0, B(60, 0), 255 },
		/* What is deleted leaves its bytes behind: they must not show again anywhere. */
		{ OP_SYNC, NULL, NULL, 0, 0, 0 },         { OP_UNLINK, "junk", NULL, 0, 0, 0 }, { OP_SYNC, NULL, NULL, 0, 0, 0 },
	};
	struct workload w = { .unit = unit };
	int err = format_flags & FORMAT_FILES_LOGGED ? chattr(s, "/", FLAG_LOGGED) : 0; /* what is made in it has it too */

	for (size_t i = 0; i < ARRAY_COUNT(ops) && !err; i++) {
		add_from_table(&w, ops[i]);
		w.ops[i].fill = ops[i].fill;
		err = op_run(s, &w.ops[i]);
	}
	return err || !(format_flags & FORMAT_TIGHT) ? err : fill_up(s, unit);
}
