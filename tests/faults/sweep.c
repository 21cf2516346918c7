/* SPDX-License-Identifier: MIT */
/* sweep.c - one case: running the workload with its fault, and judging what is left */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "api/api_private.h"
#include "ext4/fs_private.h"
#include "ext4/super_format.h"
#include "faults.h"
#include "jbd2/jbd2.h"

#define START_SECONDS INT64_C(1700000000)

/* A position or length: blocks of the image, and bytes. */
#define B(blocks, bytes) ((uint64_t)(blocks) << 32 | (bytes))

const char *const target_names[TARGETS] = { "read", "flush", "log", "front", "back", "super", "device" };
const char *const fate_names[FATES] = { "fails", "twice", "short", "torn", "all-fail" };

/* ---- workloads, on the tree of tree_prepare() ---- */

static const struct op everything[] = {
	{ OP_CREATE, "new", NULL, 0, 0, 0 },
	{ OP_WRITE, "new", NULL, 0, B(5, 10), 0 },
	{ OP_FSYNC, "new", NULL, 0, 0, 0 },
	{ OP_APPEND, "a", NULL, 0, B(3, 700), 0 },
	{ OP_FSYNC, "a", NULL, 0, 0, 0 },
	{ OP_SETXATTR, "a", NULL, 0, 600, 0 },
	{ OP_WRITE, "sparse", NULL, B(3, 0), B(2, 0), 0 },
	{ OP_START_WRITEBACK, "/", NULL, 0, 0, 0 },
	{ OP_RENAME, "b", "d/b", 0, 0, 0 },
	{ OP_FSYNC, "d", NULL, 0, 0, 0 },
	{ OP_MKDIR, "m", NULL, 0, 0, 0 },
	{ OP_CREATE, "m/x", NULL, 0, 0, 0 },
	{ OP_TMPFILE, "m/y", NULL, 0, 0, 0 },
	{ OP_APPEND, "m/x", NULL, 0, B(2, 50), 0 },
	{ OP_FSYNC, "m/x", NULL, 0, 0, 0 },
	{ OP_TRUNCATE, "a", NULL, B(1, 77), 0, 0 },
	{ OP_FDATASYNC, "a", NULL, 0, 0, 0 },
	{ OP_UNLINK, "linked", NULL, 0, 0, 0 },
	{ OP_WRITE, "d/c", NULL, B(1, 100), B(1, 0), 0 },
	{ OP_COMMIT, "/", NULL, 0, 0, 0 },
	{ OP_FSYNC, "d/c", NULL, 0, 0, 0 },
	{ OP_FALLOC, "empty", NULL, 0, B(20, 0), 0 },
	{ OP_WRITE, "empty", NULL, B(2, 0), B(10, 0), 0 },
	{ OP_WRITEBACK, "/", NULL, 0, 0, 0 },
	{ OP_APPEND, "empty", NULL, 0, B(4, 0), 0 },
	{ OP_FDATASYNC, "empty", NULL, 0, 0, 0 },
	{ OP_SYMLINK, "sym", NULL, 0, 200, 0 },
	{ OP_LINK, "d/c", "m/c", 0, 0, 0 },
	{ OP_UNCACHED_WRITE, "sparse", NULL, B(1, 0), B(140, 0), 0 },
	{ OP_FSYNC, "sparse", NULL, 0, 0, 0 },
	{ OP_RENAME, "new", "a", 0, 0, 0 },
	{ OP_FSYNC, "a", NULL, 0, 0, 0 },
	{ OP_REMOVEXATTR, "d/b", NULL, 0, 0, 0 },
	{ OP_RMDIR, "e", NULL, 0, 0, 0 },
	{ OP_PUNCH, "sparse", NULL, B(4, 0), B(8, 0), 0 },
	{ OP_SYNC, NULL, NULL, 0, 0, 0 },
	{ OP_OSYNC_WRITE, "d/c", NULL, B(2, 0), B(4, 0), 0 },
	{ OP_HOLD, "m/x", NULL, 0, 0, 0 },
	{ OP_UNLINK, "m/x", NULL, 0, 0, 0 },
	{ OP_HELD_APPEND, NULL, NULL, 0, B(3, 0), 0 },
	{ OP_APPEND, "d/b", NULL, 0, B(2, 1), 0 },
	{ OP_CREATE, "last", NULL, 0, 0, 0 },
	{ OP_APPEND, "last", NULL, 0, 1, 0 },
};

/* The log goes round, and its tail moves. */
static const struct op round_the_log[] = {
	{ OP_SETXATTR, "a", NULL, 0, 600, 0 },
	{ OP_FSYNC, "a", NULL, 0, 0, 0 },
	{ OP_CHURN, "linked", NULL, 0, 200, 0 },
	{ OP_APPEND, "empty", NULL, 0, B(5, 0), 0 },
	{ OP_FSYNC, "empty", NULL, 0, 0, 0 },
	{ OP_CHURN, "linked", NULL, 0, 200, 0 },
	{ OP_RENAME, "b", "a", 0, 0, 0 },
	{ OP_FSYNC, "a", NULL, 0, 0, 0 },
};

/* On an image that has to be recovered first. */
static const struct op after_a_crash[] = {
	{ OP_APPEND, "d/c", NULL, 0, B(2, 5), 0 },
	{ OP_FSYNC, "d/c", NULL, 0, 0, 0 },
	{ OP_CREATE, "new2", NULL, 0, 0, 0 },
};

static const struct {
	const struct op *ops;
	unsigned count;
} workloads[] = {
	{ everything, sizeof(everything) / sizeof(everything[0]) },
	{ round_the_log, sizeof(round_the_log) / sizeof(round_the_log[0]) },
	{ after_a_crash, sizeof(after_a_crash) / sizeof(after_a_crash[0]) },
};
const unsigned sweep_workloads = sizeof(workloads) / sizeof(workloads[0]);

bool sweep_has_workload(const struct format *format, unsigned workload)
{
	return workloads[workload].ops == after_a_crash ? format->flags & FORMAT_CRASHED : !(format->flags & FORMAT_CRASHED);
}

static void make_workload(unsigned which, const struct format *format, struct workload *w)
{
	*w = (struct workload){ .id = which, .unit = format->block_bytes };
	for (unsigned i = 0; i < workloads[which].count; i++) {
		struct op op = workloads[which].ops[i];

		if ((format->flags & FORMAT_NO_JOURNAL) && (op.kind == OP_COMMIT || op.kind == OP_CHURN))
			continue;
		op.pos = (op.pos >> 32) * w->unit + (uint32_t)op.pos;
		op.len = (op.len >> 32) * w->unit + (uint32_t)op.len;
		op.fill = 1 + w->count;
		w->ops[w->count++] = op;
	}
	w->ops[w->count++] = (struct op){ .kind = OP_UNMOUNT };
}

/* ---- running ---- */

struct outcome {
	struct run run;
	struct block_device *record, *fault;
	int mount_err;
	bool lost[WORKLOAD_OPS_MAX + 1];
};

static char text[512];

int sweep_open(struct sweep *sweep)
{
	return image_open(&sweep->live) || image_open(&sweep->image) ? -ENOMEM : 0;
}

static int outcome_open(struct sweep *sweep, unsigned workload, struct outcome *o)
{
	struct block_device *dev;
	int err;

	*o = (struct outcome){ 0 };
	make_workload(workload, sweep->base->format, &o->run.workload);
	o->run.states = calloc(o->run.workload.count + 1, sizeof(*o->run.states));
	o->run.mark_at = calloc(o->run.workload.count + 1, sizeof(*o->run.mark_at));
	o->run.results = calloc(o->run.workload.count + 1, sizeof(*o->run.results));
	o->run.lost = o->lost;
	o->run.shows_stale = sweep->base->format->flags & FORMAT_SHOWS_STALE;
	if (!o->run.states || !o->run.mark_at || !o->run.results)
		return -ENOMEM;
	image_use(&sweep->live, sweep->base);
	err = image_device(&sweep->live, &dev);
	if (!err)
		err = block_open_record(dev, &o->record);
	return err ? err : block_open_fault(o->record, 1, &o->fault);
}

static void outcome_close(struct outcome *o)
{
	for (unsigned i = 0; o->run.states && i <= o->run.workload.count; i++)
		state_free(&o->run.states[i]);
	free(o->run.states);
	free(o->run.mark_at);
	free(o->run.results);
	if (o->fault)
		block_close(o->fault);
}

static uint64_t log_start(const struct base *base)
{
	return base->log_count ? (uint64_t)base->log_blks[0] * base->format->block_bytes : base->size_bytes;
}

static uint64_t log_end(const struct base *base)
{
	return base->log_count ? (base->log_blks[base->log_count - 1] + UINT64_C(1)) * base->format->block_bytes : base->size_bytes;
}

bool sweep_tries(enum target target, enum fate_of_request fate)
{
	switch (target) {
	case TARGET_DEVICE:
		return fate == FATE_ALL_FAIL;
	case TARGET_READ:
		return fate == FATE_FAILS || fate == FATE_FAILS_TWICE;
	case TARGET_FLUSH:
	case TARGET_SUPER:
		return fate == FATE_FAILS;
	default:
		return fate != FATE_ALL_FAIL && fate != FATE_FAILS_TWICE;
	}
}

static struct fault_rule rule_for(const struct base *base, enum target target)
{
	const uint64_t super_end = max_of(EXT4_SUPER_OFFSET_BYTES + EXT4_SUPER_BYTES, base->format->block_bytes);
	struct fault_rule rule = { .ops = FAULT_OP(BIO_WRITE) | FAULT_OP(BIO_WRITE_ZEROES), .err = -EIO };

	switch (target) {
	case TARGET_READ:
		rule.ops = FAULT_OP(BIO_READ);
		break;
	case TARGET_FLUSH:
		rule.ops = FAULT_OP(BIO_FLUSH);
		break;
	case TARGET_LOG:
		rule.start_bytes = log_start(base);
		rule.len_bytes = log_end(base) - log_start(base);
		break;
	case TARGET_FRONT:
		rule.start_bytes = super_end;
		rule.len_bytes = log_start(base) - super_end;
		break;
	case TARGET_BACK:
		rule.start_bytes = log_end(base);
		rule.len_bytes = base->size_bytes - log_end(base);
		break;
	case TARGET_DEVICE:
		rule.ops |= FAULT_OP(BIO_FLUSH);
		break;
	default:
		rule.start_bytes = super_end - max_of(EXT4_SUPER_BYTES, base->format->block_bytes);
		rule.len_bytes = super_end - rule.start_bytes;
		break;
	}
	return rule;
}

static int add_fault(struct outcome *o, const struct base *base, const struct sweep_case *c)
{
	static const enum fault_action actions[FATES] = { FAULT_FAIL, FAULT_FAIL, FAULT_SHORT, FAULT_TEAR, FAULT_FAIL };
	struct fault_rule rule = rule_for(base, c->target);

	rule.nth = c->nth;
	rule.count = c->fate == FATE_ALL_FAIL ? 0 : c->fate == FATE_FAILS_TWICE ? 2 : 1;
	rule.action = actions[c->fate];
	return fault_add_rule(o->fault, &rule);
}

/* A read that fails, or two, may be among these. */
static int take_state(struct uext4_fs *fs, struct state *out)
{
	int err = -EIO;

	for (unsigned tries = 0; err && tries < 3; tries++)
		err = state_take(fs, out);
	return err;
}

/* F3. The thread that aborts the journal turns the file system read-only next; if it does not, this hangs. */
static void wait_for_read_only(struct uext4_fs *fs)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	while (journal_error(fs->vfs->fs->journal) && !uext4_is_read_only(fs))
		nanosleep(&pause, NULL);
}

static bool is_change(const struct op *op)
{
	switch (op->kind) {
	case OP_HOLD:
	case OP_START_WRITEBACK:
	case OP_WRITEBACK:
	case OP_COMMIT:
	case OP_FSYNC:
	case OP_FDATASYNC:
	case OP_SYNC:
	case OP_UNMOUNT:
		return false;
	default:
		return true;
	}
}

/* F3: what a file system that has turned read-only answers. The order is Linux's: a name is looked at first. */
static bool is_refused(int result)
{
	return result == -EROFS || result == -ENOENT || result == -EEXIST || result == -ENODATA || result == -EBADF;
}

/* Operations of the journal's and the flusher's own report to nobody. */
static bool tells_a_loss(const struct op *op, int result, int expected)
{
	return result < 0 && result != expected && op->kind != OP_START_WRITEBACK && op->kind != OP_WRITEBACK && op->kind != OP_COMMIT;
}

static const char *do_op(struct outcome *o, struct session *s, unsigned i, const struct sweep_expected *expected)
{
	const struct op *op = &o->run.workload.ops[i - 1];
	bool read_only = uext4_is_read_only(s->fs);
	int err = 0, result;

	clock_set(START_SECONDS + i);
	if (op->kind == OP_UNMOUNT)
		err = take_state(s->fs, &o->run.states[i]);
	o->run.results[i] = result = op_run(s, op);
	o->lost[i] = expected && tells_a_loss(op, result, expected->results[i]);
	if (read_only && is_change(op) && !is_refused(result)) {
		snprintf(text, sizeof(text), "operation %u on a file system that is read-only gives %d", i, result);
		return text;
	}
	if (op->kind != OP_UNMOUNT) {
		err = take_state(s->fs, &o->run.states[i]);
		wait_for_read_only(s->fs);
	}
	if (!err)
		return NULL;
	snprintf(text, sizeof(text), "the live tree cannot be read after operation %u: %s", i, strerror(-err));
	return text;
}

static const char *do_workload(struct sweep *sweep, struct outcome *o, const struct sweep_expected *expected)
{
	const char *wrong = NULL;
	struct block_device *top;
	struct session s = { 0 };
	int err = block_open_borrow(o->fault, &top);

	clock_set(START_SECONDS);
	if (err)
		return "no memory";
	o->mount_err = crash_open(top, sweep->base->format->options, &s.fs);
	if (o->mount_err)
		return NULL;
	if (take_state(s.fs, &o->run.states[0]))
		wrong = "the live tree cannot be read after the mount";
	for (unsigned i = 1; i <= o->run.workload.count && !wrong; i++)
		wrong = do_op(o, &s, i, expected);
	if (s.fs)
		op_run(&s, &(struct op){ .kind = OP_UNMOUNT });
	return wrong;
}

/* ---- judging ---- */

/* Mounts, reads and unmounts. NULL or what was wrong. */
static const char *recover(struct image *image, struct state *tree_out)
{
	struct block_device *dev;
	struct session s = { 0 };
	int err, close_err;

	*tree_out = (struct state){ 0 };
	clock_set(START_SECONDS + 1000);
	err = image_device(image, &dev);
	if (!err)
		err = crash_open(dev, image->base->format->options, &s.fs);
	if (err) {
		snprintf(text, sizeof(text), "uext4 does not mount it afterwards: %s", strerror(-err));
		return text;
	}
	err = state_take(s.fs, tree_out);
	close_err = uext4_close_fs(s.fs);
	if (!err && !close_err)
		return NULL;
	snprintf(text, sizeof(text), "%s: %s", err ? "reading the recovered tree" : "unmounting the recovered image",
		 strerror(err ? -err : -close_err));
	return text;
}

/* That there was an error is remembered, and rightly so; e2fsck is asked whether anything is wrong. */
static void forget_error(struct image *image)
{
	struct ext4_super_block es;

	memcpy(&es, image->bytes + EXT4_SUPER_OFFSET_BYTES, sizeof(es));
	es.s_state = le16_make(le16_get(es.s_state) & (uint16_t)~EXT4_STATE_ERROR_FS);
	super_csum_set(&es);
	image_write(image, EXT4_SUPER_OFFSET_BYTES, &es, sizeof(es));
}

static bool has_error(const struct image *image)
{
	struct ext4_super_block es;

	memcpy(&es, image->bytes + EXT4_SUPER_OFFSET_BYTES, sizeof(es));
	return le16_get(es.s_state) & EXT4_STATE_ERROR_FS;
}

static bool unmounted(const struct outcome *o)
{
	return !o->mount_err && !o->run.results[o->run.workload.count];
}

/* A mount that failed has changed nothing that anybody sees. */
static const char *check_unchanged(const struct sweep *sweep, const struct state *recovered)
{
	static char why[160];
	struct image before;
	struct state tree;
	const char *wrong;

	if (image_open(&before))
		return "no memory";
	image_use(&before, sweep->base);
	wrong = recover(&before, &tree);
	if (!wrong && !state_same(&tree, recovered, why, sizeof(why)))
		wrong = why;
	state_free(&tree);
	image_close(&before);
	return wrong;
}

static bool same_node(const struct state_node *a, const struct state_node *b)
{
	return a && b && a->ino == b->ino && a->size == b->size && !strcmp(a->path, b->path) &&
	       (!a->content || !memcmp(a->content, b->content, a->size));
}

/* What operation @i made durable and nobody touched since, without a journal: name, size and bytes. */
static const char *check_kept(const struct outcome *o, unsigned i, const struct state_node *node, const struct state *recovered)
{
	const struct run *run = &o->run;

	for (unsigned k = i; k <= run->workload.count; k++)
		if (o->lost[k] || !same_node(node, state_find(&run->states[k], node->path)))
			return NULL;
	if (same_node(node, state_find(recovered, node->path)))
		return NULL;
	snprintf(text, sizeof(text), "%s was made durable by operation %u, and is not there or differs", node->path, i);
	return text;
}

static const char *check_all_kept(const struct outcome *o, const struct state *recovered)
{
	const char *wrong = NULL;

	for (unsigned i = 1; i <= o->run.workload.count && !wrong; i++) {
		const struct op *op = &o->run.workload.ops[i - 1];
		const struct state *state = &o->run.states[i];

		if (o->run.results[i])
			continue;
		for (size_t n = 0; n < state->count && !wrong; n++) {
			const struct state_node *node = &state->nodes[n];
			bool is_it = op->a && !strcmp(op->a, node->path);

			if (S_ISREG(node->mode) && (op->kind == OP_SYNC || (is_it && (op->kind == OP_FSYNC || op->kind == OP_OSYNC_WRITE))))
				wrong = check_kept(o, i, node, recovered);
		}
	}
	return wrong;
}

static const char *judge_tree(const struct sweep *sweep, const struct outcome *o, const struct state *recovered)
{
	if (o->mount_err)
		return check_unchanged(sweep, recovered);
	if ((sweep->base->format->flags & FORMAT_NO_JOURNAL) && !unmounted(o))
		return check_all_kept(o, recovered);
	return oracle_check(&o->run, SIZE_MAX, recovered);
}

static const char *judge(struct sweep *sweep, const struct outcome *o, const struct sweep_case *c)
{
	struct image *image = &sweep->image;
	struct state tree = { 0 };
	const char *wrong = NULL;

	if ((sweep->base->format->flags & FORMAT_NO_JOURNAL) && !unmounted(o)) {
		forget_error(image);
		wrong = judge_replay_by_e2fsck(image);
	}
	if (!wrong)
		wrong = recover(image, &tree);
	if (!wrong)
		wrong = judge_tree(sweep, o, &tree);
	if (!wrong) {
		bool may_leak = c->fate == FATE_FAILS_TWICE && has_error(image);

		forget_error(image);
		wrong = may_leak ? judge_replay_by_e2fsck(image) : judge_fsck(image);
	}
	state_free(&tree);
	return wrong;
}

static void keep_image(const struct sweep *sweep, const struct sweep_case *c, const char *how)
{
	char path[512];
	FILE *file;

	if (!sweep->keep)
		return;
	snprintf(path, sizeof(path), "%s/%s-%u-%s-%s-%llu-%s.img", sweep->keep, sweep->base->format->name, c->workload,
		 target_names[c->target], fate_names[c->fate], (unsigned long long)c->nth, how);
	file = fopen(path, "w");
	if (file) {
		fwrite(sweep->image.bytes, 1, sweep->base->size_bytes, file);
		fclose(file);
	}
}

/* The device as it is; or as a power cut leaves it that loses what was not flushed. */
static void make_image(struct sweep *sweep, const struct outcome *o, bool power_cut)
{
	uint8_t *bytes = NULL;

	image_use(&sweep->image, sweep->base);
	if (power_cut) {
		bytes = malloc(sweep->base->size_bytes);
		if (!bytes)
			abort();
		memcpy(bytes, sweep->base->bytes, sweep->base->size_bytes);
		record_build_image(o->record, record_count(o->record), RECORD_CUT_DROPS_UNFLUSHED, 0, bytes);
	}
	image_write(&sweep->image, 0, bytes ? bytes : sweep->live.bytes, sweep->base->size_bytes);
	free(bytes);
}

static const char *judge_both(struct sweep *sweep, const struct outcome *o, const struct sweep_case *c)
{
	const char *wrong;

	make_image(sweep, o, false);
	keep_image(sweep, c, "as-is");
	wrong = judge(sweep, o, c);
	if (wrong)
		return wrong;
	make_image(sweep, o, true);
	if (!memcmp(sweep->image.bytes, sweep->live.bytes, sweep->base->size_bytes))
		return NULL;
	keep_image(sweep, c, "power-cut");
	wrong = judge(sweep, o, c);
	if (wrong && wrong != text)
		snprintf(text, sizeof(text), "%s", wrong);
	if (wrong)
		strncat(text, " (after a power cut)", sizeof(text) - strlen(text) - 1);
	return wrong ? text : NULL;
}

/* Written as one with its neighbours, it may be torn all the same. */
static bool super_is_torn(const struct image *image)
{
	struct ext4_super_block es;
	char why[256];

	memcpy(&es, image->bytes + EXT4_SUPER_OFFSET_BYTES, sizeof(es));
	return super_verify(&es, image->base->size_bytes, why) == -EBADMSG;
}

/* F3, as far as the case alone tells. */
static const char *check_abort(const struct outcome *o, const struct sweep_case *c)
{
	if (c->target != TARGET_LOG || o->mount_err)
		return NULL;
	if (unmounted(o))
		return "a write to the log failed, and the unmount says that all is well";
	return NULL;
}

static void print_outcome(const struct outcome *o)
{
	char line[160];

	printf("  mount = %d\n", o->mount_err);
	for (unsigned i = 0; i < o->run.workload.count && !o->mount_err; i++) {
		op_print(&o->run.workload.ops[i], line, sizeof(line));
		printf("  %3u  %s = %d%s\n", i + 1, line, o->run.results[i + 1], o->lost[i + 1] ? "  (told)" : "");
	}
	fflush(stdout);
}

const char *sweep_case(struct sweep *sweep, const struct sweep_case *c, const struct sweep_expected *expected, bool *hit_out)
{
	struct outcome o;
	const char *wrong = NULL;

	*hit_out = false;
	if (outcome_open(sweep, c->workload, &o) || add_fault(&o, sweep->base, c))
		wrong = "no memory";
	if (!wrong)
		wrong = do_workload(sweep, &o, expected);
	if (!wrong) {
		*hit_out = fault_hits(o.fault) > 0;
		if (o.mount_err && !*hit_out)
			wrong = "it does not mount, though nothing failed";
	}
	if (sweep->verbose)
		print_outcome(&o);
	if (!wrong && *hit_out)
		wrong = check_abort(&o, c);
	if (!wrong && !super_is_torn(&sweep->live))
		wrong = judge_both(sweep, &o, c);
	outcome_close(&o);
	return wrong;
}

/* ---- without a fault ---- */

const char *sweep_crash(struct sweep *sweep, uint8_t *bytes_out)
{
	struct block_device *top;
	struct session s = { 0 };
	struct outcome o;
	int err = outcome_open(sweep, 0, &o);

	if (!err)
		err = block_open_borrow(o.fault, &top);
	if (!err)
		err = crash_open(top, sweep->base->format->options, &s.fs);
	if (err)
		return "the image to crash does not mount";
	for (unsigned i = 0; i + 1 < o.run.workload.count; i++)
		op_run(&s, &o.run.workload.ops[i]); /* some fail, where the format has no such thing */
	memcpy(bytes_out, sweep->live.bytes, sweep->base->size_bytes);
	op_run(&s, &(struct op){ .kind = OP_UNMOUNT });
	outcome_close(&o);
	return NULL;
}

static uint64_t count_touching(struct block_device *record, const struct fault_rule *rule)
{
	uint64_t count = 0;

	for (size_t i = 0; i < record_count(record); i++) {
		const struct record_entry *e = record_get(record, i);

		count += !e->is_mark && (rule->ops & FAULT_OP(e->op)) && e->pos_bytes < rule->start_bytes + rule->len_bytes &&
			 rule->start_bytes < e->pos_bytes + e->len_bytes;
	}
	return count;
}

const char *sweep_expect(struct sweep *sweep, unsigned workload, struct sweep_expected *out)
{
	const char *wrong = NULL;
	struct outcome o;

	*out = (struct sweep_expected){ 0 };
	if (outcome_open(sweep, workload, &o))
		wrong = "no memory";
	if (!wrong)
		wrong = do_workload(sweep, &o, NULL);
	if (!wrong && !unmounted(&o))
		wrong = "the mount or the unmount fails without a fault";
	if (!wrong) {
		memcpy(out->results, o.run.results, (o.run.workload.count + 1) * sizeof(out->results[0]));
		out->requests[TARGET_READ] = fault_requests(o.fault, BIO_READ);
		out->requests[TARGET_FLUSH] = fault_requests(o.fault, BIO_FLUSH);
		out->requests[TARGET_DEVICE] = record_count(o.record);
		for (unsigned t = TARGET_LOG; t < TARGET_DEVICE; t++) {
			struct fault_rule rule = rule_for(sweep->base, (enum target)t);

			out->requests[t] = count_touching(o.record, &rule);
		}
	}
	if (sweep->verbose)
		print_outcome(&o);
	if (!wrong)
		wrong = judge_both(sweep, &o, &(struct sweep_case){ .workload = workload });
	outcome_close(&o);
	return wrong;
}
