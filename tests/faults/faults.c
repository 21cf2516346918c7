/* SPDX-License-Identifier: MIT */
/*
 * faults.c - the fault sweep's command: options, worker processes, the sum
 *
 * Prints each violation with the command that shows it again, and at the end what was done. Exit status 0: no violation.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"

#define JOBS_PER_PROCESSOR 5 /* as in crash.c: an unmount sleeps */
#define JOBS_MAX_HERE 64u
#define CASE_SECONDS_MAX 120u /* longer: it hangs */
#define EXTRA_REQUESTS 8u    /* threads make the number of requests differ from run to run */
#define WORKLOADS_MAX 4u

static const struct format sweep_formats[] = {
	{ "ext4-1k", "-t ext4", "", 1024, 0 },
	{ "ext4-4k", "-t ext4 -O orphan_file", "", 4096, 0 },
	{ "ext3", "-t ext3", "", 1024, 0 },
	{ "journal", "-t ext4", "data=journal", 1024, 0 },
	{ "nojournal", "-t ext4 -O ^has_journal", "", 1024, FORMAT_NO_JOURNAL },
	{ "recovery", "-t ext4 -O orphan_file", "", 1024, FORMAT_CRASHED },
	{ "ext3-recovery", "-t ext3", "", 1024, FORMAT_CRASHED },
	{ "ext2", "-t ext2", "", 1024, FORMAT_NO_JOURNAL | FORMAT_SHOWS_STALE },
};
#define FORMAT_COUNT ARRAY_SIZE(sweep_formats)

static struct {
	const char *format, *keep;
	int workload, target, fate;  /* -1: all */
	uint64_t nth, every, violations_max;
	unsigned jobs;
	bool verbose;
} args = { .workload = -1, .target = -1, .fate = -1, .every = 1, .violations_max = 20 };

static struct base bases[FORMAT_COUNT];

/* Shared by all worker processes. */
static struct totals_here {
	struct sweep_expected expected[FORMAT_COUNT][WORKLOADS_MAX];
	_Atomic uint64_t next, cases, hits, violations;
	_Atomic uint64_t at[JOBS_MAX_HERE]; /* the case that each worker is at */
} *totals;

/* ---- the cases, numbered ---- */

struct numbered {
	unsigned format;
	struct sweep_case c;
};

static bool is_wanted(int wanted, unsigned value)
{
	return wanted < 0 || (unsigned)wanted == value;
}

/* Case @n of those asked for; false behind the last. */
static bool nth_case(uint64_t n, struct numbered *out)
{
	uint64_t of_all = n * args.every;

	for (unsigned f = 0; f < FORMAT_COUNT; f++) {
		for (unsigned w = 0; w < sweep_workloads && bases[f].bytes; w++) {
			for (unsigned t = 0; t < TARGETS && is_wanted(args.workload, w); t++) {
				uint64_t count = totals->expected[f][w].requests[t];

				for (unsigned fate = 0; fate < FATES && count && is_wanted(args.target, t); fate++) {
					uint64_t room = count + EXTRA_REQUESTS;

					if (!sweep_tries((enum target)t, (enum fate_of_request)fate) || !is_wanted(args.fate, fate))
						continue;
					if (args.nth)
						room = 1;
					if (of_all >= room) {
						of_all -= room;
						continue;
					}
					*out = (struct numbered){ f, { w, (enum target)t, (enum fate_of_request)fate,
								       args.nth ? args.nth : of_all + 1 } };
					return true;
				}
			}
		}
	}
	return false;
}

static void print_again(FILE *out, const struct numbered *n)
{
	fprintf(out, "  again: faults --format %s --workload %u --target %s --fate %s --nth %" PRIu64 " --verbose\n",
		sweep_formats[n->format].name, n->c.workload, target_names[n->c.target], fate_names[n->c.fate], n->c.nth);
}

static void report(const struct numbered *n, const char *what)
{
	char *line = NULL;
	size_t bytes;
	FILE *out = open_memstream(&line, &bytes);

	atomic_fetch_add(&totals->violations, 1);
	if (!out)
		return;
	fprintf(out, "violation: format %s workload %u, %s %" PRIu64 " %s: %s\n", sweep_formats[n->format].name, n->c.workload,
		target_names[n->c.target], n->c.nth, fate_names[n->c.fate], what);
	print_again(out, n);
	fclose(out);
	if (write(STDOUT_FILENO, line, bytes) < 0)
		abort();
	free(line);
}

/* ---- worker processes ---- */

static int work(unsigned job)
{
	struct sweep sweep = { .verbose = args.verbose, .keep = args.keep };
	struct numbered n;

	if (sweep_open(&sweep))
		return 1;
	while (atomic_load(&totals->violations) < args.violations_max) {
		uint64_t turn = atomic_fetch_add(&totals->next, 1);
		const char *wrong;
		bool hit;

		if (!nth_case(turn, &n))
			break;
		atomic_store(&totals->at[job], turn);
		sweep.base = &bases[n.format];
		alarm(CASE_SECONDS_MAX);
		wrong = sweep_case(&sweep, &n.c, &totals->expected[n.format][n.c.workload], &hit);
		alarm(0);
		atomic_fetch_add(&totals->cases, 1);
		atomic_fetch_add(&totals->hits, hit);
		if (wrong)
			report(&n, wrong);
	}
	return 0;
}

static void worker_ended(unsigned job, int status)
{
	struct numbered n;
	char what[96];

	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return;
	snprintf(what, sizeof(what), "the process ended by signal %d (%s)", WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
	if (nth_case(atomic_load(&totals->at[job]), &n))
		report(&n, what);
}

/* One process per job, and when one dies its place is taken by another, so that a crash costs one case. */
static int run_workers(void)
{
	pid_t pids[JOBS_MAX_HERE] = { 0 };
	unsigned running = 0;

	fflush(stdout);
	for (unsigned i = 0; i < args.jobs; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(work(i));
		running += pids[i] > 0;
	}
	while (running) {
		int status;
		pid_t child = wait(&status);

		for (unsigned i = 0; i < args.jobs; i++) {
			if (pids[i] != child)
				continue;
			worker_ended(i, status);
			running--;
			if (!WIFSIGNALED(status))
				continue;
			pids[i] = fork();
			if (pids[i] == 0)
				_exit(work(i));
			running += pids[i] > 0;
		}
	}
	return 0;
}

/* ---- before the cases ---- */

/* In a process of its own, since it leaves threads behind. */
static int expect_in_child(unsigned format, unsigned workload)
{
	struct sweep sweep = { .base = &bases[format], .verbose = args.verbose };
	const char *wrong;
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		wrong = sweep_open(&sweep) ? "no memory" : sweep_expect(&sweep, workload, &totals->expected[format][workload]);
		if (wrong)
			printf("violation: format %s workload %u without a fault: %s\n", sweep_formats[format].name, workload, wrong);
		fflush(stdout);
		_exit(wrong ? 1 : 0);
	}
	return child < 0 || waitpid(child, &status, 0) != child || status ? -EIO : 0;
}

/* In a process of its own too. */
static int crash_in_child(unsigned format)
{
	struct sweep sweep = { .base = &bases[format] };
	size_t bytes = bases[format].size_bytes;
	uint8_t *crashed = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child;

	if (crashed == MAP_FAILED)
		return -ENOMEM;
	child = fork();
	if (child == 0)
		_exit(sweep_open(&sweep) || sweep_crash(&sweep, crashed) ? 1 : 0);
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		return -EIO;
	memcpy(bases[format].bytes, crashed, bytes);
	munmap(crashed, bytes);
	return 0;
}

static int prepare(void)
{
	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (totals == MAP_FAILED)
		return -ENOMEM;
	for (unsigned f = 0; f < FORMAT_COUNT; f++) {
		int err = 0;

		if (args.format && strcmp(args.format, sweep_formats[f].name))
			continue;
		err = base_prepare(&sweep_formats[f], &bases[f]);
		if (!err && (sweep_formats[f].flags & FORMAT_CRASHED))
			err = crash_in_child(f);
		for (unsigned w = 0; w < sweep_workloads && !err; w++)
			if (sweep_has_workload(&sweep_formats[f], w))
				err = expect_in_child(f, w);
		if (err) {
			fprintf(stderr, "faults: cannot prepare %s: %s\n", sweep_formats[f].name, strerror(-err));
			return err;
		}
	}
	return 0;
}

/* ---- the command ---- */

static int usage(void)
{
	fprintf(stderr, "usage: faults [--every N] [--jobs N] [--violations N] [--format NAME] [--workload N]\n"
			"              [--target read|flush|log|front|back|super|device] [--fate fails|twice|short|torn|all-fail] [--nth N]\n"
			"              [--keep DIR] [--verbose]\nformats:");
	for (unsigned i = 0; i < FORMAT_COUNT; i++)
		fprintf(stderr, " %s", sweep_formats[i].name);
	fprintf(stderr, "\n");
	return 2;
}

static int index_of(const char *const *names, unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return (int)i;
	exit(usage());
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "every", 1, NULL, 'e' }, { "jobs", 1, NULL, 'j' }, { "violations", 1, NULL, 'V' }, { "format", 1, NULL, 'f' },
		{ "workload", 1, NULL, 'w' }, { "target", 1, NULL, 't' }, { "fate", 1, NULL, 'F' }, { "nth", 1, NULL, 'n' },
		{ "keep", 1, NULL, 'K' }, { "verbose", 0, NULL, 'v' }, { NULL, 0, NULL, 0 } };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'e': args.every = max_of(strtoull(optarg, NULL, 0), 1ull); break;
		case 'j': args.jobs = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'V': args.violations_max = strtoull(optarg, NULL, 0); break;
		case 'f': args.format = optarg; break;
		case 'w': args.workload = atoi(optarg); break;
		case 't': args.target = index_of(target_names, TARGETS, optarg); break;
		case 'F': args.fate = index_of(fate_names, FATES, optarg); break;
		case 'n': args.nth = strtoull(optarg, NULL, 0); break;
		case 'K': args.keep = optarg; break;
		case 'v': args.verbose = true; crash_log_level = LOG_WARNING; break;
		default: return -1;
		}
	}
	if (!args.jobs)
		args.jobs = JOBS_PER_PROCESSOR * (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	args.jobs = min_of(args.jobs, JOBS_MAX_HERE);
	return optind == argc ? 0 : -1;
}

int main(int argc, char **argv)
{
	if (parse(argc, argv))
		return usage();
	if (prepare())
		return 1;
	run_workers();
	printf("cases %" PRIu64 " hit %" PRIu64 " violations %" PRIu64 "\n", atomic_load(&totals->cases), atomic_load(&totals->hits),
	       atomic_load(&totals->violations));
	return atomic_load(&totals->violations) ? 1 : 0;
}
