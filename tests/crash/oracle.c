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

static const struct state_node *find_ino(const struct state *s, uint64_t ino)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->nodes[i].ino == ino)
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

/* Did operation @m change what fsync of @path (which has inode @ino; 0: the root) makes durable? */
static bool touches(const struct run *run, unsigned m, const char *path, uint64_t ino)
{
	const struct op *op = &run->workload.ops[m - 1];

	if (run->results[m])
		return false;
	if (in_directory(op->a, path) || in_directory(op->b, path))
		return !state_same_names(&run->states[m - 1], &run->states[m]);
	return ino && node_changed(find_ino(&run->states[m - 1], ino), find_ino(&run->states[m], ino));
}

/* fsync after operation @i commits the last transaction that changed the inode, and with it all before that. */
static unsigned names_promised_by_fsync(const struct run *run, unsigned i)
{
	const char *path = run->workload.ops[i - 1].a;
	const struct state_node *node = state_find(&run->states[i], path);

	for (unsigned m = i; m > 0; m--)
		if (touches(run, m, path, node ? node->ino : 0))
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
		if (kind == OP_SYNC)
			first = i;
		if (kind == OP_FSYNC || kind == OP_OSYNC_WRITE) {
			m = names_promised_by_fsync(run, i);
			first = m > first ? m : first;
		}
	}
	return first;
}

/* The last state from which on this file's data is promised: a sync of all, or fsync, fdatasync, O_SYNC of it. */
static unsigned data_promised(const struct run *run, uint64_t ino, unsigned done)
{
	for (unsigned i = done; i > 0; i--) {
		const struct op *op = &run->workload.ops[i - 1];
		const struct state_node *node;

		if (run->results[i])
			continue;
		if (op->kind == OP_SYNC)
			return i;
		if (op->kind != OP_FSYNC && op->kind != OP_FDATASYNC && op->kind != OP_OSYNC_WRITE)
			continue;
		node = state_find(&run->states[i], op->a);
		if (node && node->ino == ino)
			return i;
	}
	return 0;
}

/* The file as each state of the range has it; NULL where it is not there. */
struct file_range {
	unsigned first, last;
	const struct state_node *at[WORKLOAD_OPS_MAX + 1];
};

static bool byte_allowed(const struct file_range *r, uint64_t off, uint8_t byte)
{
	bool seen = false, changes = false;
	uint8_t value = 0;

	for (unsigned i = r->first; i <= r->last; i++) {
		const struct state_node *n = r->at[i];
		bool there = n && off < n->size;

		if (there && n->content[off] == byte)
			return true;
		changes |= !there || (seen && n->content[off] != value);
		if (there) {
			value = n->content[off];
			seen = true;
		}
	}
	return byte == 0 && changes;
}

static bool size_allowed(const struct file_range *r, uint64_t size)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (unsigned i = r->first; i <= r->last; i++) {
		if (!r->at[i])
			continue;
		least = r->at[i]->size < least ? r->at[i]->size : least;
		most = r->at[i]->size > most ? r->at[i]->size : most;
	}
	return size >= least && size <= most;
}

static const char *check_file(const struct file_range *r, const struct state_node *got)
{
	if (!size_allowed(r, got->size)) {
		snprintf(why, sizeof(why), "%s: size %llu is of no state from %u to %u", got->path,
			 (unsigned long long)got->size, r->first, r->last);
		return why;
	}
	for (uint64_t off = 0; off < got->size; off++) {
		if (byte_allowed(r, off, got->content[off]))
			continue;
		snprintf(why, sizeof(why), "%s: byte %llu of %llu is 0x%02x, which no state from %u to %u has there", got->path,
			 (unsigned long long)off, (unsigned long long)got->size, got->content[off], r->first, r->last);
		return why;
	}
	return NULL;
}

/* C2, C3 for every file, with the names of state @j. */
static const char *check_data(const struct run *run, unsigned done, unsigned last, const struct state *j,
			      const struct state *recovered)
{
	for (size_t i = 0; i < recovered->count; i++) {
		const struct state_node *got = &recovered->nodes[i];
		uint64_t ino = j->nodes[i].ino;
		struct file_range r = { .last = last };
		const char *wrong;

		if (!S_ISREG(got->mode))
			continue;
		r.first = data_promised(run, ino, done);
		for (unsigned k = r.first; k <= last; k++)
			r.at[k] = find_ino(&run->states[k], ino);
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

const char *oracle_check(const struct run *run, size_t cut, const struct state *recovered)
{
	unsigned done = 0, first, last;
	const char *wrong = NULL;
	bool names_fit = false;
	char tree[300];

	while (done < run->workload.count && returned(run, done + 1, cut))
		done++;
	first = first_possible(run, done);
	last = done < run->workload.count ? done + 1 : done;
	for (unsigned j = first; j <= last; j++) {
		if (!state_same_names(recovered, &run->states[j]))
			continue;
		names_fit = true;
		wrong = check_data(run, done, last, &run->states[j], recovered);
		if (!wrong)
			return NULL;
	}
	if (names_fit)
		return wrong;
	describe(recovered, tree, sizeof(tree));
	snprintf(why, sizeof(why), "names or attributes fit no state from %u to %u:%s", first, last, tree);
	return why;
}
