/* SPDX-License-Identifier: MIT */
/* workload.c - which operations are tried, and doing them */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>

#include "crash.h"

#define BLOCK 1024u
#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The single operations of the systematic set, on the tree of tree_prepare(). */
static const struct op basic[] = {
	{ OP_CREATE, "new", NULL, 0, 0, 0 },
	{ OP_CREATE, "d/new", NULL, 0, 0, 0 },
	{ OP_WRITE, "a", NULL, 0, BLOCK, 0 },
	{ OP_WRITE, "a", NULL, BLOCK + 100, 2000, 0 },
	{ OP_WRITE, "a", NULL, 20 * BLOCK, 3 * BLOCK, 0 },
	{ OP_WRITE, "sparse", NULL, 3 * BLOCK, 2 * BLOCK, 0 },
	{ OP_APPEND, "a", NULL, 0, 700, 0 },
	{ OP_APPEND, "empty", NULL, 0, 5 * BLOCK, 0 },
	{ OP_OSYNC_WRITE, "a", NULL, 2 * BLOCK, BLOCK, 0 },
	{ OP_FALLOC, "a", NULL, 2 * BLOCK, 20 * BLOCK, 0 },
	{ OP_FALLOC_KEEP, "empty", NULL, 0, 20 * BLOCK, 0 },
	{ OP_PUNCH, "a", NULL, BLOCK + 10, 3 * BLOCK, 0 },
	{ OP_ZERO, "a", NULL, BLOCK / 2, 3 * BLOCK, 0 },
	{ OP_COLLAPSE, "a", NULL, BLOCK, 2 * BLOCK, 0 },
	{ OP_INSERT, "a", NULL, BLOCK, 2 * BLOCK, 0 },
	{ OP_TRUNCATE, "a", NULL, 0, 0, 0 },
	{ OP_TRUNCATE, "a", NULL, BLOCK + 77, 0, 0 },
	{ OP_TRUNCATE, "a", NULL, 40 * BLOCK, 0, 0 },
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
	{ OP_SETXATTR, "a", NULL, 0, 20, 0 },
	{ OP_SETXATTR, "a", NULL, 0, 600, 0 },
	{ OP_REMOVEXATTR, "b", NULL, 0, 0, 0 },
};
static const enum op_kind syncs[] = { OP_KINDS, OP_FSYNC, OP_FDATASYNC, OP_SYNC }; /* OP_KINDS: none */

uint64_t workload_systematic(void)
{
	uint64_t one = ARRAY_COUNT(basic) * ARRAY_COUNT(syncs);

	return one + one * one;
}

static void add(struct workload *w, struct op op)
{
	op.fill = 1 + w->count % 250;
	w->ops[w->count++] = op;
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

	add(w, *op);
	if (sync != OP_KINDS)
		add(w, (struct op){ .kind = sync, .a = path_after(op) });
}

static uint64_t next_random(uint64_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 7;
	*rng ^= *rng << 17;
	return *rng;
}

static void make_random(struct workload *w, uint64_t seed)
{
	static const char *const paths[] = { "a", "b", "new", "d/c", "d/new", "e/x", "empty", "sparse", "big", "d/link", "moved" };
	uint64_t rng = seed * 0x9E3779B97F4A7C15ull + 88172645463325252ull;
	unsigned count = 10 + (unsigned)(next_random(&rng) % 60);

	while (w->count < count) {
		const char *a = paths[next_random(&rng) % ARRAY_COUNT(paths)], *b = paths[next_random(&rng) % ARRAY_COUNT(paths)];
		uint64_t pos = next_random(&rng) % 3 ? next_random(&rng) % (30 * BLOCK) : next_random(&rng) % 30 * BLOCK;
		uint64_t len = 1 + (next_random(&rng) % 4 ? next_random(&rng) % 5000 : next_random(&rng) % 40000);
		unsigned dice = (unsigned)(next_random(&rng) % 100);
		struct op op = { .a = a, .b = b, .pos = pos, .len = len };

		if (dice < 12)
			op.kind = OP_CREATE;
		else if (dice < 40)
			op.kind = dice % 3 ? OP_WRITE : OP_APPEND;
		else if (dice < 44)
			op.kind = OP_OSYNC_WRITE;
		else if (dice < 58) {
			op.kind = OP_FALLOC + dice % 6;
			if (op.kind == OP_COLLAPSE || op.kind == OP_INSERT)
				op.pos = op.pos / BLOCK * BLOCK, op.len = (1 + op.len / BLOCK) * BLOCK;
		} else if (dice < 64)
			op.kind = OP_TRUNCATE;
		else if (dice < 76)
			op.kind = OP_LINK + dice % 4;
		else if (dice < 82)
			op.kind = dice % 2 ? OP_SETXATTR : OP_REMOVEXATTR, op.len = 1 + op.len % 700;
		else if (dice < 88)
			op = (struct op){ .kind = dice % 2 ? OP_MKDIR : OP_RMDIR, .a = dice % 4 < 2 ? "m" : "d/m" };
		else
			op.kind = OP_FSYNC + dice % 3;
		add(w, op);
	}
}

void workload_make(uint64_t id, struct workload *w)
{
	uint64_t one = ARRAY_COUNT(basic) * ARRAY_COUNT(syncs);

	*w = (struct workload){ .id = id };
	if (id < one) {
		add_synced(w, id);
	} else if (id < one + one * one) {
		add_synced(w, (id - one) / one);
		add_synced(w, (id - one) % one);
	} else {
		make_random(w, id);
	}
}

static const char *const kind_names[OP_KINDS] = {
	"create", "write", "append", "osync_write", "falloc", "falloc_keep", "punch", "zero", "collapse", "insert", "truncate",
	"link", "unlink", "rename", "exchange", "mkdir", "rmdir", "symlink", "setxattr", "removexattr", "fsync", "fdatasync", "sync",
};

void op_print(const struct op *op, char *buf, size_t buf_bytes)
{
	snprintf(buf, buf_bytes, "%s(%s%s%s, %llu, %llu)", kind_names[op->kind], op->a ? op->a : "", op->b ? " " : "",
		 op->b ? op->b : "", (unsigned long long)op->pos, (unsigned long long)op->len);
}

/* ---- doing them ---- */

static int with_file(struct uext4_fs *fs, const char *path, int flags, int (*func)(struct uext4_file *, const struct op *),
		     const struct op *op)
{
	struct uext4_file *file;
	int err = uext4_open(fs, NULL, path, flags, 0644, &file), close_err;

	if (err)
		return err;
	err = func(file, op);
	close_err = uext4_close(file);
	return err ? err : close_err;
}

static int do_write(struct uext4_file *file, const struct op *op)
{
	static _Thread_local uint8_t buf[65536];
	uint64_t pos = op->pos, len = op->len < sizeof(buf) ? op->len : sizeof(buf);
	struct uext4_attr attr;
	ssize_t put;

	if (op->kind == OP_APPEND) {
		int err = uext4_fstat(file, &attr);

		if (err)
			return err;
		pos = attr.size;
	}
	memset(buf, (int)op->fill, len);
	put = uext4_pwrite(file, buf, len, (off_t)pos);
	return put < 0 ? (int)put : put == (ssize_t)len ? 0 : -EIO;
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

static int do_nothing(struct uext4_file *file, const struct op *op)
{
	(void)file;
	(void)op;
	return 0;
}

int op_run(struct uext4_fs *fs, const struct op *op)
{
	char text[800];

	memset(text, 't', sizeof(text));
	switch (op->kind) {
	case OP_CREATE:
		return with_file(fs, op->a, O_CREAT | O_EXCL | O_WRONLY, do_nothing, op);
	case OP_WRITE:
	case OP_APPEND:
		return with_file(fs, op->a, O_WRONLY, do_write, op);
	case OP_OSYNC_WRITE:
		return with_file(fs, op->a, O_WRONLY | O_SYNC, do_write, op);
	case OP_FALLOC:
	case OP_FALLOC_KEEP:
	case OP_PUNCH:
	case OP_ZERO:
	case OP_COLLAPSE:
	case OP_INSERT:
		return with_file(fs, op->a, O_WRONLY, do_fallocate, op);
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
	case OP_SETXATTR:
		memset(text, (int)op->fill, sizeof(text));
		return uext4_setxattr(fs, NULL, op->a, false, "user.x", text, op->len, 0);
	case OP_REMOVEXATTR:
		return uext4_removexattr(fs, NULL, op->a, false, "user.x");
	case OP_FSYNC:
	case OP_FDATASYNC:
		return with_file(fs, op->a, O_RDONLY, do_fsync, op);
	case OP_SYNC:
		return uext4_sync(fs);
	default:
		return -EINVAL;
	}
}

int tree_prepare(struct uext4_fs *fs)
{
	static const struct op ops[] = {
		{ OP_CREATE, "a", NULL, 0, 0, 0 },        { OP_WRITE, "a", NULL, 0, 8 * BLOCK + 300, 251 },
		{ OP_CREATE, "b", NULL, 0, 0, 0 },        { OP_WRITE, "b", NULL, 0, 2 * BLOCK, 252 },
		{ OP_SETXATTR, "b", NULL, 0, 40, 252 },   { OP_CREATE, "empty", NULL, 0, 0, 0 },
		{ OP_CREATE, "sparse", NULL, 0, 0, 0 },   { OP_WRITE, "sparse", NULL, 0, BLOCK, 253 },
		{ OP_WRITE, "sparse", NULL, 9 * BLOCK, BLOCK, 253 },
		{ OP_CREATE, "linked", NULL, 0, 0, 0 },   { OP_LINK, "linked", "linked2", 0, 0, 0 },
		{ OP_MKDIR, "d", NULL, 0, 0, 0 },         { OP_CREATE, "d/c", NULL, 0, 0, 0 },
		{ OP_WRITE, "d/c", NULL, 0, 3 * BLOCK, 254 }, { OP_MKDIR, "e", NULL, 0, 0, 0 },
		{ OP_CREATE, "junk", NULL, 0, 0, 0 },     { OP_WRITE, "junk", NULL, 0, 60000, 255 }, { OP_SYNC, NULL, NULL, 0, 0, 0 },
		/* What is deleted leaves its bytes behind: they must not show again anywhere. */
		{ OP_UNLINK, "junk", NULL, 0, 0, 0 },     { OP_SYNC, NULL, NULL, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
		int err = op_run(fs, &ops[i]);

		if (err)
			return err;
	}
	return 0;
}
