/* SPDX-License-Identifier: MIT */
/* oracle.c - C1 to C3 of crash.h */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "crash.h"

static char why[512];

/* Operation i (from 1) had returned before the cut. */
static bool returned(const struct run *run, unsigned i, size_t cut)
{
	return run->mark_at[i] <= cut;
}

/* The same file, under whatever name. A number is used again: the generation tells its lives apart. */
static const struct state_node *find_file(const struct state *s, const struct state_node *file)
{
	for (size_t i = 0; file && i < s->count; i++)
		if (s->nodes[i].ino == file->ino && s->nodes[i].generation == file->generation)
			return &s->nodes[i];
	return NULL;
}

static bool in_directory(const char *path, const char *dir)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	size_t len = slash ? (size_t)(slash - path) : 0;

	if (!path)
		return false;
	return !strcmp(dir, "/") ? !slash : slash && strlen(dir) == len && !strncmp(path, dir, len);
}

static bool node_changed(const struct state_node *a, const struct state_node *b)
{
	if (!a || !b)
		return a != b;
	return strcmp(a->path, b->path) || a->size != b->size || a->nlink != b->nlink || a->mode != b->mode ||
	       (!a->extra != !b->extra) || (a->extra && strcmp(a->extra, b->extra)) ||
	       (a->content && memcmp(a->content, b->content, a->size));
}

/* Did operation @m change what fsync of @path, which is @file (NULL: the root), makes durable? */
static bool touches(const struct run *run, unsigned m, const char *path, const struct state_node *file)
{
	const struct op *op = &run->workload.ops[m - 1];

	if (run->results[m])
		return false;
	if (in_directory(op->a, path) || in_directory(op->b, path))
		return !state_same_names(&run->states[m - 1], &run->states[m]);
	return file && node_changed(find_file(&run->states[m - 1], file), find_file(&run->states[m], file));
}

/* fsync after operation @i commits the last transaction that changed the inode, and with it all before that. */
static unsigned names_promised_by_fsync(const struct run *run, unsigned i)
{
	const char *path = run->workload.ops[i - 1].a;
	const struct state_node *node = state_find(&run->states[i], path);

	for (unsigned m = i; m > 0; m--)
		if (touches(run, m, path, node))
			return m;
	return 0;
}

/* The earliest state that what is durable allows. */
static unsigned first_possible(const struct run *run, unsigned done)
{
	unsigned first = 0, m;

	for (unsigned i = 1; i <= done; i++) {
		enum op_kind kind = run->workload.ops[i - 1].kind;

		if (run->results[i])
			continue;
		if (kind == OP_SYNC || kind == OP_UNMOUNT)
			first = i;
		if (kind == OP_FSYNC || kind == OP_OSYNC_WRITE) {
			m = names_promised_by_fsync(run, i);
			first = m > first ? m : first;
		}
	}
	return first;
}

/* The last state from which on this file's data is promised: a sync of all, or fsync, fdatasync, O_SYNC of it. */
static unsigned data_promised(const struct run *run, const struct state_node *file, unsigned done)
{
	for (unsigned i = done; i > 0; i--) {
		const struct op *op = &run->workload.ops[i - 1];
		const struct state_node *node;

		if (run->results[i])
			continue;
		if (op->kind == OP_SYNC || op->kind == OP_UNMOUNT)
			return i;
		if (op->kind != OP_FSYNC && op->kind != OP_FDATASYNC && op->kind != OP_OSYNC_WRITE)
			continue;
		node = state_find(&run->states[i], op->a);
		if (node && node->ino == file->ino && node->generation == file->generation)
			return i;
	}
	return 0;
}

static bool same_bytes(const struct state_node *a, const struct state_node *b)
{
	return a && b && a->size == b->size && (!a->content || !memcmp(a->content, b->content, a->size));
}

/* The first state from @from on whose data of the file is that of all after it up to the one promised. */
static unsigned first_with_promised(const struct run *run, const struct state_node *file, unsigned done, unsigned from)
{
	unsigned i = data_promised(run, file, done);

	while (i > from && same_bytes(find_file(&run->states[i - 1], file), find_file(&run->states[i], file)))
		i--;
	return max_of(i, from);
}

static bool is_file_at(const struct state *s, const char *path, const struct state_node *file)
{
	const struct state_node *node = path ? state_find(s, path) : NULL;

	return node && node->ino == file->ino && node->generation == file->generation;
}

/* Did an operation on the file, or a sync of all, fail and tell so that data is lost? */
static bool loss_was_told(const struct run *run, const struct state_node *file)
{
	for (unsigned i = 1; run->lost && i <= run->workload.count; i++) {
		const struct op *op = &run->workload.ops[i - 1];

		if (!run->lost[i])
			continue;
		if (op->kind == OP_SYNC || op->kind == OP_UNMOUNT || op->kind == OP_HELD_APPEND || op->kind == OP_HOLD)
			return true;
		if (is_file_at(&run->states[i - 1], op->a, file) || is_file_at(&run->states[i], op->a, file))
			return true;
	}
	return false;
}

/* The file as each state of the range has it; NULL where it is not there. */
struct file_range {
	const struct run *run;
	unsigned first, last;
	unsigned committed; /* the journal holds all operations up to this one */
	bool told_lost;     /* zeros may stand for what was lost */
	const struct state_node *at[WORKLOAD_OPS_MAX + 1];
};

/* Operation @i changed the file through the journal, and the journal holds it: no state before shows where it differs. */
static bool settles(const struct file_range *r, unsigned i)
{
	enum op_kind kind;

	if (i <= r->first || i > r->committed || r->run->results[i] || !r->at[i] || !r->at[i - 1])
		return false;
	kind = r->run->workload.ops[i - 1].kind;
	return kind >= OP_FALLOC && kind <= OP_TRUNCATE;
}

/* Blocks at the edges of what is punched or zeroed are zeroed in memory, like a write. */
static bool settles_byte(const struct file_range *r, unsigned i, uint64_t off)
{
	uint64_t unit = r->run->workload.unit, start = off / unit * unit;
	const struct op *op;

	if (!settles(r, i))
		return false;
	op = &r->run->workload.ops[i - 1];
	return (op->kind != OP_PUNCH && op->kind != OP_ZERO) || (start >= op->pos && start + unit <= op->pos + op->len);
}

static int byte_at(const struct state_node *n, uint64_t off)
{
	return n && off < n->size ? n->content[off] : -1;
}

/* Operation @i cut the file in the byte's block: the rest of the block is zeroed in place, before or after the size moves. */
static bool cuts_block(const struct file_range *r, unsigned i, uint64_t off)
{
	uint32_t unit = r->run->workload.unit;

	return i > r->first && r->run->workload.ops[i - 1].kind == OP_TRUNCATE && byte_at(r->at[i - 1], off) >= 0 && r->at[i] &&
	       off >= r->at[i]->size && off / unit == r->at[i]->size / unit;
}

static bool byte_allowed(const struct file_range *r, uint64_t off, uint8_t byte)
{
	if (!byte && r->told_lost)
		return true;
	for (unsigned i = r->last + 1; i-- > r->first;) {
		if (byte_at(r->at[i], off) == byte || (!byte && cuts_block(r, i, off)))
			return true;
		if (settles_byte(r, i, off) && byte_at(r->at[i - 1], off) != byte_at(r->at[i], off))
			return false;
	}
	return false;
}

static bool size_allowed(const struct file_range *r, uint64_t size)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (unsigned i = r->last + 1; i-- > r->first;) {
		if (!r->at[i])
			continue;
		least = r->at[i]->size < least ? r->at[i]->size : least;
		most = r->at[i]->size > most ? r->at[i]->size : most;
		if (settles(r, i) && r->at[i - 1]->size != r->at[i]->size)
			break;
	}
	return size >= least && size <= most;
}

static bool states_agree(const struct file_range *r)
{
	for (unsigned i = r->first + 1; i <= r->last; i++)
		if (node_changed(r->at[i - 1], r->at[i]))
			return false;
	return true;
}

static const char *check_file(const struct file_range *r, const struct state_node *got)
{
	if (!size_allowed(r, got->size)) {
		snprintf(why, sizeof(why), "%s: size %llu is of no state from %u to %u", got->path,
			 (unsigned long long)got->size, r->first, r->last);
		return why;
	}
	if (r->run->shows_stale && !states_agree(r))
		return NULL;
	for (uint64_t off = 0; off < got->size; off++) {
		if (byte_allowed(r, off, got->content[off]))
			continue;
		snprintf(why, sizeof(why), "%s: byte %llu of %llu is 0x%02x, which no state from %u to %u has there", got->path,
			 (unsigned long long)off, (unsigned long long)got->size, got->content[off], r->first, r->last);
		return why;
	}
	return NULL;
}

/* C2, C3 for every file, with the names of state @j, from states of @from to @last. */
static const char *check_data(const struct run *run, unsigned done, unsigned first, unsigned from, unsigned last,
			      const struct state *j, const struct state *recovered)
{
	for (size_t i = 0; i < recovered->count; i++) {
		const struct state_node *got = &recovered->nodes[i];
		const struct state_node *file = &j->nodes[i];
		struct file_range r = { .run = run, .last = last, .committed = first };
		const char *wrong;

		if (!S_ISREG(got->mode))
			continue;
		r.told_lost = loss_was_told(run, file);
		if (r.told_lost)
			r.committed = 0;
		else
			r.first = first_with_promised(run, file, done, from);
		for (unsigned k = r.first; k <= last; k++)
			r.at[k] = find_file(&run->states[k], file);
		wrong = check_file(&r, got);
		if (wrong)
			return wrong;
	}
	return NULL;
}

static void describe(const struct state *s, char *buf, size_t buf_bytes)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < s->count && used + 1 < buf_bytes; i++) {
		int len = snprintf(buf + used, buf_bytes - used, " %s:%o/%u%s", s->nodes[i].path, s->nodes[i].mode,
				   s->nodes[i].nlink, s->nodes[i].extra ? "+" : "");

		used += len > 0 ? (size_t)len : 0;
	}
}

void oracle_range(const struct run *run, size_t cut, unsigned *done_out, unsigned *first_out, unsigned *last_out)
{
	unsigned done = 0;

	while (done < run->workload.count && returned(run, done + 1, cut))
		done++;
	*done_out = done;
	*first_out = first_possible(run, done);
	*last_out = done < run->workload.count ? done + 1 : done;
}

/* C2 to C4 with the names of state @j. */
static const char *check_content(const struct run *run, unsigned done, unsigned first, unsigned last, unsigned j,
				 const struct state *recovered)
{
	const char *wrong;

	if (!run->in_order)
		return check_data(run, done, first, 0, last, &run->states[j], recovered);
	wrong = check_data(run, done, first, j, min_of(j + 1, last), &run->states[j], recovered);
	if (wrong && j > first)
		wrong = check_data(run, done, first, j - 1, j, &run->states[j], recovered);
	return wrong;
}

const char *oracle_check(const struct run *run, size_t cut, const struct state *recovered)
{
	const char *wrong = NULL;
	unsigned done, first, last;
	bool names_fit = false;
	char tree[300];

	oracle_range(run, cut, &done, &first, &last);
	for (unsigned j = first; j <= last; j++) {
		if (!state_same_names(recovered, &run->states[j]))
			continue;
		names_fit = true;
		wrong = check_content(run, done, first, last, j, recovered);
		if (!wrong)
			return NULL;
	}
	if (names_fit)
		return wrong;
	describe(recovered, tree, sizeof(tree));
	snprintf(why, sizeof(why), "names or attributes fit no state from %u to %u:%s", first, last, tree);
	return why;
}
