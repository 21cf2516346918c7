/* SPDX-License-Identifier: MIT */
/* explore.c - one workload: recording it, cutting the record, and judging each crash state */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block/random.h"
#include "crash.h"

#define SECTOR_BYTES 512u
#define SUPER_BYTES 1024u       /* its position and its length */
#define VARIANTS 16u            /* of each cut */
#define SUBSETS_OF 3u           /* unflushed writes: so few have all their subsets tried */
#define REPORTS_MAX 3u          /* of one workload */
#define LOCAL_SEEN (UINT64_C(1) << 22)
#define STATE_SECONDS_MAX 60u   /* longer: it hangs */
#define JOURNAL_START_OFFSET 0x1Cu /* s_start of the journal's superblock; 0: the log is empty */
#define START_SECONDS INT64_C(1700000000)

int explorer_open(struct explorer *ex, const struct explorer_options *options, struct totals *totals, struct place *place)
{
	*ex = (struct explorer){ .options = options, .totals = totals, .place = place, .local = seen_create(LOCAL_SEEN) };
	if (!ex->local || image_open(&ex->live) || image_open(&ex->image))
		return -ENOMEM;
	return 0;
}

/* ---- recording a workload ---- */

static void run_free(struct run *run)
{
	for (unsigned i = 0; run->states && i <= run->workload.count; i++)
		state_free(&run->states[i]);
	free(run->states);
	free(run->mark_at);
	free(run->results);
	if (run->record)
		block_close(run->record);
}

static int run_alloc(struct run *run, uint64_t id, const struct format *format)
{
	*run = (struct run){ .shows_stale = format->flags & FORMAT_SHOWS_STALE, .in_order = format->flags & FORMAT_IN_ORDER };
	workload_make(id, format->block_bytes, &run->workload);
	run->states = calloc(run->workload.count + 1, sizeof(*run->states));
	run->mark_at = calloc(run->workload.count + 1, sizeof(*run->mark_at));
	run->results = calloc(run->workload.count + 1, sizeof(*run->results));
	return run->states && run->mark_at && run->results ? 0 : -ENOMEM;
}

/* After the unmount there is no tree to look at: it is the one before. */
static int record_op(struct run *run, struct session *s, unsigned i)
{
	const struct op *op = &run->workload.ops[i - 1];
	int err = 0;

	clock_set(START_SECONDS + i);
	if (op->kind == OP_UNMOUNT)
		err = state_take(s->fs, &run->states[i]);
	if (run->late && op->kind == OP_START_WRITEBACK)
		late_hold(run->late, true);
	storm_set(run->workload.storm);
	run->results[i] = op_run(s, op);
	storm_set(false);
	if (run->late && op->kind != OP_START_WRITEBACK)
		late_hold(run->late, false);
	run->mark_at[i] = record_count(run->record);
	if (op->kind == OP_UNMOUNT)
		return err ? err : run->results[i];
	return state_take(s->fs, &run->states[i]);
}

static int open_devices(struct run *run, struct image *live, struct block_device **top_out)
{
	struct block_device *dev;
	int err = image_device(live, &dev);

	if (!err && run->workload.late) {
		err = block_open_late(dev, live->base, &dev);
		run->late = err ? NULL : dev;
	}
	if (!err)
		err = block_open_record(dev, &run->record);
	return err ? err : block_open_borrow(run->record, top_out);
}

static int record_run(struct run *run, const struct base *base, struct image *live)
{
	struct block_device *top;
	struct session s = { 0 };
	unsigned i;
	int err = open_devices(run, live, &top);

	clock_set(START_SECONDS);
	if (!err)
		err = crash_open(top, base->format->options, &s.fs);
	if (err)
		return err;
	err = state_take(s.fs, &run->states[0]);
	for (i = 1; i <= run->workload.count && !err; i++)
		err = record_op(run, &s, i);
	if (s.fs)
		op_run(&s, &(struct op){ .kind = OP_UNMOUNT });
	return err;
}

/* ---- building crash states ---- */

struct cut {
	size_t at;          /* before this entry of the log */
	unsigned variant;
	uint64_t seed;
	bool nested;        /* the recovery of what it leaves is cut too, by chance */
};

enum fate { FATE_LOST, FATE_WHOLE, FATE_HEAD, FATE_TAIL, FATE_TORN };

struct survivor {
	const struct record_entry *entry;
	bool durable;
	enum fate fate;
};

static bool carries_bytes(const struct record_entry *e)
{
	return !e->is_mark && e->op != BIO_FLUSH && e->len_bytes;
}

/* Those that a cut before entry @at concerns. Returns their number. */
static size_t collect(struct block_device *record, size_t at, struct survivor *out)
{
	size_t count = 0;

	for (size_t i = 0; i < at; i++) {
		const struct record_entry *e = record_get(record, i);

		if (carries_bytes(e))
			out[count++] = (struct survivor){ e, record_is_durable(record, i, at), FATE_WHOLE };
	}
	return count;
}

static void put(struct image *image, const struct record_entry *e, uint64_t from, uint64_t len)
{
	if (len)
		image_write(image, e->pos_bytes + from, e->op == BIO_WRITE ? e->bytes + from : NULL, len);
}

/* May a write be torn before this position of the device? Not in the middle of the superblock (crash.h). */
static bool may_tear_at(uint64_t pos_bytes)
{
	return pos_bytes % SECTOR_BYTES == 0 && pos_bytes != SUPER_BYTES + SUPER_BYTES / 2;
}

static void put_torn(struct image *image, const struct record_entry *e, struct random *rnd)
{
	bool there = false;

	for (uint64_t from = 0; from < e->len_bytes; from += SECTOR_BYTES) {
		if (may_tear_at(e->pos_bytes + from))
			there = random_below(rnd, 2);
		if (there)
			put(image, e, from, min_of(e->len_bytes - from, (uint64_t)SECTOR_BYTES));
	}
}

static void put_part(struct image *image, const struct record_entry *e, bool head)
{
	uint64_t half = e->len_bytes / 2 / SECTOR_BYTES * SECTOR_BYTES;

	if (!may_tear_at(e->pos_bytes + half))
		half = 0;
	put(image, e, head ? 0 : half, head ? half : e->len_bytes - half);
}

static enum fate fate_by_chance(struct random *rnd)
{
	uint64_t dice = random_below(rnd, 4);

	return dice == 0 ? FATE_TORN : dice == 1 ? FATE_LOST : FATE_WHOLE;
}

/* What becomes of write @i of @count that may be lost, the last being the one submitted last. */
static enum fate fate_of(size_t i, size_t count, unsigned variant, struct random *rnd)
{
	bool last = i + 1 == count;

	switch (variant) {
	case 0: /* all there */
		return FATE_WHOLE;
	case 1: /* none */
		return FATE_LOST;
	case 2: /* all but the last */
		return last ? FATE_LOST : FATE_WHOLE;
	case 3: /* the last alone */
		return last ? FATE_WHOLE : FATE_LOST;
	case 4: /* the last one torn */
		return last ? FATE_HEAD : FATE_WHOLE;
	case 5:
		return last ? FATE_TAIL : FATE_WHOLE;
	default:
		if (count <= SUBSETS_OF && variant - 6 < 1u << count)
			return (variant - 6) >> i & 1 ? FATE_WHOLE : FATE_LOST;
		return fate_by_chance(rnd);
	}
}

/* What arrives of a write with BIO_PREFLUSH in flight does so after all that was complete when it was submitted. */
static void keep_flushed(struct survivor *all, size_t count)
{
	uint64_t flushed = 0;

	for (size_t i = count; i-- > 0;) {
		struct survivor *s = &all[i];

		if (s->entry->completed && s->entry->completed < flushed)
			s->fate = FATE_WHOLE;
		if (!s->durable && s->fate != FATE_LOST && (s->entry->flags & BIO_PREFLUSH))
			flushed = max_of(flushed, s->entry->submitted);
	}
}

static void put_survivor(struct image *image, const struct survivor *s, struct random *rnd)
{
	switch (s->fate) {
	case FATE_LOST:
		break;
	case FATE_WHOLE:
		put(image, s->entry, 0, s->entry->len_bytes);
		break;
	case FATE_HEAD:
	case FATE_TAIL:
		put_part(image, s->entry, s->fate == FATE_HEAD);
		break;
	case FATE_TORN:
		put_torn(image, s->entry, rnd);
		break;
	}
}

/* The image, which holds what the device held when @record began, becomes what the cut left. */
static void build(struct image *image, struct block_device *record, const struct cut *cut)
{
	struct survivor *all = malloc((cut->at + 1) * sizeof(*all));
	struct random rnd = random_make(hash_mix(hash_mix(cut->seed, cut->at), cut->variant));
	size_t count = all ? collect(record, cut->at, all) : 0, volatile_count = 0, at = 0;

	if (!all)
		abort();
	for (size_t i = 0; i < count; i++)
		volatile_count += !all[i].durable;
	for (size_t i = 0; i < count; i++)
		if (!all[i].durable)
			all[i].fate = fate_of(at++, volatile_count, cut->variant, &rnd);
	keep_flushed(all, count);
	for (size_t i = 0; i < count; i++)
		put_survivor(image, &all[i], &rnd);
	free(all);
}

/* ---- recovering ---- */

/* Mounts, reads and unmounts what is on @dev. NULL or what was wrong. */
static const char *recover_device(struct block_device *dev, const char *options, struct state *tree_out)
{
	static char text[128];
	struct session s = { 0 };
	int err, close_err;

	*tree_out = (struct state){ 0 };
	clock_set(START_SECONDS + 1000);
	err = crash_open(dev, options, &s.fs);
	if (err) {
		snprintf(text, sizeof(text), "uext4 does not mount it: %s", strerror(-err));
		return text;
	}
	err = state_take(s.fs, tree_out);
	close_err = uext4_close_fs(s.fs);
	if (!err && !close_err)
		return NULL;
	snprintf(text, sizeof(text), "%s: %s", err ? "reading the recovered tree" : "unmounting", strerror(err ? -err : -close_err));
	return text;
}

static const char *recover(struct image *image, struct state *tree_out)
{
	struct block_device *dev;

	*tree_out = (struct state){ 0 };
	if (image_device(image, &dev))
		return "no memory";
	return recover_device(dev, image->base->format->options, tree_out);
}

/* The recovery of what the image holds after @cut is recorded and cut as well, somewhere; the image becomes what that leaves. */
static int cut_recovery(struct explorer *ex, const struct run *run, const struct cut *cut)
{
	struct block_device *dev, *record, *top;
	struct random rnd = random_make(hash_mix(cut->seed + 1, hash_mix(cut->at, cut->variant)));
	struct cut second = { .seed = cut->seed };
	struct state tree;
	int err = image_device(&ex->image, &dev);

	if (!err)
		err = block_open_record(dev, &record);
	if (!err)
		err = block_open_borrow(record, &top);
	if (err)
		return err;
	if (!recover_device(top, ex->base->format->options, &tree)) {
		second.at = random_below(&rnd, record_count(record) + 1);
		second.variant = (unsigned)random_below(&rnd, VARIANTS);
		image_reset(&ex->image);
		build(&ex->image, run->record, cut);
		build(&ex->image, record, &second);
	}
	state_free(&tree);
	block_close(record);
	return 0;
}

static void make_state(struct explorer *ex, const struct run *run, const struct cut *cut)
{
	image_reset(&ex->image);
	build(&ex->image, run->record, cut);
	if (cut->nested && cut_recovery(ex, run, cut))
		abort();
}

/* ---- judging ---- */

/* Index of the first entry submitted after event @seq. */
static size_t entries_submitted_by(struct block_device *record, uint64_t seq)
{
	size_t i = 0;

	while (i < record_count(record) && record_get(record, i)->submitted < seq)
		i++;
	return i;
}

/* Operations that did something; @all: the others too. */
static void print_workload(FILE *out, const struct run *run, bool all)
{
	char text[160];

	for (unsigned i = 0; i < run->workload.count; i++) {
		if (run->results[i + 1] && !all)
			continue;
		op_print(&run->workload.ops[i], text, sizeof(text));
		fprintf(out, "  %3u  %s = %d  [log entry %zu]\n", i + 1, text, run->results[i + 1], run->mark_at[i + 1]);
	}
}

static void print_log(FILE *out, const struct run *run)
{
	static const char *const names[] = { [BIO_WRITE] = "write", [BIO_FLUSH] = "flush", [BIO_DISCARD] = "discard",
					     [BIO_WRITE_ZEROES] = "zeroes" };

	for (size_t i = 0; i < record_count(run->record); i++) {
		const struct record_entry *e = record_get(run->record, i);

		fprintf(out, "  [%zu] %s block %" PRIu64 " + %" PRIu64 "%s%s, completed before [%zu]\n", i, names[e->op],
			e->pos_bytes / run->workload.unit, e->len_bytes / run->workload.unit, e->flags & BIO_PREFLUSH ? " preflush" : "",
			e->flags & BIO_FUA ? " fua" : "", entries_submitted_by(run->record, e->completed));
	}
}

static void print_run(const struct run *run)
{
	print_workload(stdout, run, true);
	print_log(stdout, run);
	fflush(stdout);
}

static void keep_image(struct explorer *ex, const struct run *run, const struct cut *cut, FILE *out)
{
	char path[512];
	FILE *file;

	make_state(ex, run, cut);
	snprintf(path, sizeof(path), "%s/%s-%" PRIu64 "-%zu-%u%s.img", ex->options->keep, ex->base->format->name, run->workload.id,
		 cut->at, cut->variant, cut->nested ? "-nested" : "");
	file = fopen(path, "w");
	if (!file || fwrite(ex->image.bytes, 1, ex->base->size_bytes, file) != ex->base->size_bytes)
		fprintf(out, "  the image could not be written\n");
	else
		fprintf(out, "  image: %s\n", path);
	if (file)
		fclose(file);
}

/* In one write: other processes report too. */
static void report(struct explorer *ex, const struct run *run, const struct cut *cut, const char *what)
{
	const struct explorer_options *o = ex->options;
	char *text = NULL;
	size_t bytes;
	FILE *out;

	atomic_fetch_add(&ex->totals->violations, 1);
	if (ex->reported++ >= REPORTS_MAX || !(out = open_memstream(&text, &bytes)))
		return;
	fprintf(out, "violation: format %s workload %" PRIu64, ex->base->format->name, run->workload.id);
	if (cut)
		fprintf(out, " cut %zu variant %u%s", cut->at, cut->variant, cut->nested ? " and its recovery cut" : "");
	fprintf(out, ": %s\n", what);
	fprintf(out, "  again: %s --format %s --workload %" PRIu64 "\n", o->command, ex->base->format->name, run->workload.id);
	if (o->keep && cut)
		keep_image(ex, run, cut, out);
	print_workload(out, run, false);
	fclose(out);
	if (write(STDOUT_FILENO, text, bytes) < 0)
		abort();
	free(text);
}

/* What is left of the log after an unmount says nothing, but would make alike images differ. */
static void wipe_log(struct image *image)
{
	const struct base *base = image->base;
	uint32_t block_bytes = base->format->block_bytes;
	const uint8_t *super = image->bytes + (uint64_t)base->log_blks[0] * block_bytes;

	if (memcmp(super + JOURNAL_START_OFFSET, "\0\0\0\0", 4))
		return;
	for (uint32_t i = 1; i < base->log_count; i++)
		image_restore(image, (uint64_t)base->log_blks[i] * block_bytes, block_bytes);
}

/* e2fsck says the same of the same bytes. */
static const char *fsck(struct explorer *ex)
{
	const char *wrong;
	uint64_t hash;

	wipe_log(&ex->image);
	hash = hash_mix(image_hash(&ex->image), ex->base->size_bytes);
	if (seen_has(ex->totals->clean_seen, hash))
		return NULL;
	atomic_fetch_add(&ex->totals->fscks, 1);
	wrong = judge_fsck(&ex->image);
	if (!wrong)
		seen_add(ex->totals->clean_seen, hash);
	return wrong;
}

static bool is_turn(uint64_t hash, unsigned every)
{
	return every && hash % every == 0;
}

struct judge {
	const char *name;
	const char *(*replay)(const struct image *image);
	bool drops_xattrs;
};

/* e2fsck 1.47.0 drops the xattr block of a file whose truncate it completes; the kernel keeps it. */
static const struct judge by_e2fsck = { "e2fsck", judge_replay_by_e2fsck, true };
static const struct judge by_kernel = { "the kernel", judge_replay_by_kernel, false };

/* Somebody else recovers a copy of the crash state; the tree must be ours. *forgiven_out: but for xattrs that he drops. */
static const char *compare(struct explorer *ex, const struct run *run, const struct cut *cut, const struct state *ours,
			   const struct judge *judge, bool *forgiven_out)
{
	static char text[256];
	struct state theirs = { 0 };
	const char *wrong;
	char why[160];

	make_state(ex, run, cut);
	wrong = judge->replay(&ex->image);
	if (!wrong)
		wrong = recover(&ex->image, &theirs);
	*forgiven_out = !wrong && judge->drops_xattrs && state_restore_xattrs(&theirs, ours);
	if (!wrong && !state_same(ours, &theirs, why, sizeof(why))) {
		snprintf(text, sizeof(text), "%s recovers it otherwise: %s", judge->name, why);
		wrong = text;
	}
	state_free(&theirs);
	image_use(&ex->image, ex->base);
	return wrong;
}

static const char *judge(struct explorer *ex, const struct run *run, const struct cut *cut, uint64_t hash)
{
	const struct explorer_options *o = ex->options;
	bool forgiven = false;
	struct state tree;
	const char *wrong;

	wrong = recover(&ex->image, &tree);
	if (!wrong)
		wrong = fsck(ex);
	if (!wrong)
		wrong = oracle_check(run, cut->at, &tree);
	if (!wrong && is_turn(hash, o->e2fsck_every)) {
		atomic_fetch_add(&ex->totals->e2fsck, 1);
		wrong = compare(ex, run, cut, &tree, &by_e2fsck, &forgiven);
	}
	/* What e2fsck was forgiven, the kernel is asked for. */
	if (!wrong && (is_turn(hash, o->kernel_every) || (forgiven && o->kernel_every))) {
		atomic_fetch_add(&ex->totals->kernel, 1);
		wrong = compare(ex, run, cut, &tree, &by_kernel, &forgiven);
	}
	state_free(&tree);
	return wrong;
}

/* False: the same was tried before. */
static bool try_state(struct explorer *ex, const struct run *run, const struct cut *cut, uint64_t *hash_out)
{
	unsigned done, first, last;
	const char *wrong;
	uint64_t hash;

	alarm(STATE_SECONDS_MAX);
	ex->place->cut = cut->at;
	ex->place->variant = cut->variant;
	make_state(ex, run, cut);
	hash = image_hash(&ex->image);
	oracle_range(run, cut->at, &done, &first, &last);
	if (!seen_add(ex->local, hash_mix(hash_mix(hash, ex->nonce), (uint64_t)done << 32 | last)))
		return false;
	atomic_fetch_add(&ex->totals->tried, 1);
	if (seen_add(ex->totals->states_seen, hash_mix(hash, ex->base->hash)))
		atomic_fetch_add(&ex->totals->states, 1);
	wrong = judge(ex, run, cut, hash);
	if (wrong)
		report(ex, run, cut, wrong);
	*hash_out = hash;
	return true;
}

/* ---- one workload ---- */

static size_t first_cut(const struct run *run)
{
	return run->mark_at[run->workload.first_cut_op];
}

/* Of a long log only some cuts, chosen by chance, so many that about as many states as wanted are built. */
static bool in_sample(const struct explorer *ex, const struct run *run, const struct cut *cut)
{
	const struct explorer_options *o = ex->options;
	uint64_t cuts = record_count(run->record) + 1 - first_cut(run), built = cuts * VARIANTS;
	struct random rnd = random_make(hash_mix(hash_mix(o->seed, run->workload.id), cut->at * VARIANTS + cut->variant));

	if (o->only_cut != UINT64_MAX && cut->at != o->only_cut)
		return false;
	return random_below(&rnd, built) < o->builds_per_workload;
}

static void explore(struct explorer *ex, const struct run *run)
{
	size_t end = record_count(run->record);

	for (size_t at = first_cut(run); at <= end; at++) {
		for (unsigned variant = 0; variant < VARIANTS; variant++) {
			struct cut cut = { .at = at, .variant = variant, .seed = ex->options->seed };
			uint64_t hash;

			if (atomic_load(&ex->totals->violations) >= ex->options->violations_max)
				return;
			if (!in_sample(ex, run, &cut) || !try_state(ex, run, &cut, &hash) || !is_turn(hash, ex->options->nested_every))
				continue;
			cut.nested = true;
			atomic_fetch_add(&ex->totals->nested, 1);
			try_state(ex, run, &cut, &hash);
		}
	}
}

void explore_workload(struct explorer *ex, const struct base *base, uint64_t id)
{
	struct run run;
	char text[128];
	int err = run_alloc(&run, id, base->format);

	if (ex->base != base) {
		ex->base = base;
		image_use(&ex->live, base);
		image_use(&ex->image, base);
	}
	ex->reported = 0;
	ex->nonce++;
	*ex->place = (struct place){ .format = base->format->name, .workload = id };
	alarm(STATE_SECONDS_MAX);
	if (!err)
		err = record_run(&run, base, &ex->live);
	if (ex->options->verbose && !err)
		print_run(&run);
	if (err) {
		snprintf(text, sizeof(text), "running it: %s", strerror(-err));
		report(ex, &run, NULL, text);
	} else {
		explore(ex, &run);
	}
	run_free(&run);
	image_reset(&ex->live);
	atomic_fetch_add(&ex->totals->workloads, 1);
}
