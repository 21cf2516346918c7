/* SPDX-License-Identifier: MIT */
/*
 * crash.c - the crash explorer's command: options, worker processes, the sum
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
#include <time.h>
#include <unistd.h>

#include "base/broken.h"
#include "crash.h"

#define BASES_MAX 32u
#define JOBS_PER_PROCESSOR 5   /* an unmount waits for liburcu's thread, which sleeps for 10 ms at a time */
#define STATES_SEEN (UINT64_C(1) << 24)
#define CLEAN_SEEN (UINT64_C(1) << 22)

static struct {
	struct explorer_options explorer;
	double seconds;
	uint64_t workloads_max, states_max, only_workload;
	bool named;
	unsigned jobs;
	const char *format, *broken;
	char command[512];
} args = {
	.explorer = { .seed = 1, .only_cut = UINT64_MAX, .builds_per_workload = 1000, .e2fsck_every = 64, .nested_every = 16,
		      .violations_max = UINT64_MAX },
	.seconds = 60, .workloads_max = UINT64_MAX, .states_max = UINT64_MAX, .only_workload = UINT64_MAX,
};

static struct base bases[BASES_MAX];
static unsigned base_count;
static struct totals *totals;
static double started;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- which workloads ---- */

static uint64_t round_robin(uint64_t n, uint64_t count, uint64_t first)
{
	return first + n % count;
}

/*
 * Of four one is short, two are pairs, one is random; each is tried on all formats. A prime step through the pairs mixes
 * them.
 */
static void nth_workload(uint64_t n, const struct base **base_out, uint64_t *id_out)
{
	uint64_t pairs = workload_systematic() - workload_short(), seed = args.explorer.seed;

	*base_out = &bases[n % base_count];
	n /= base_count;
	if (args.only_workload != UINT64_MAX)
		*id_out = args.only_workload;
	else if (args.named)
		*id_out = n;
	else if (n % 4 == 0)
		*id_out = round_robin(n / 4 + (seed - 1) * 61, workload_short(), 0);
	else if (n % 4 == 3)
		*id_out = workload_systematic() + (seed << 32) + n;
	else
		*id_out = round_robin((n + seed * 104729) * 7919, pairs, workload_short());
}

static bool is_over(uint64_t n)
{
	if (atomic_load(&totals->violations) >= args.explorer.violations_max)
		return true;
	if (args.only_workload != UINT64_MAX)
		return n >= base_count;
	if (args.named)
		return n >= base_count * workload_named();
	return n >= args.workloads_max || atomic_load(&totals->states) >= args.states_max || now() - started >= args.seconds;
}

static int work(struct place *place)
{
	struct explorer ex;

	if (explorer_open(&ex, &args.explorer, totals, place)) {
		fprintf(stderr, "crash: no memory\n");
		return 1;
	}
	for (uint64_t n; !is_over(n = atomic_fetch_add(&totals->next, 1));) {
		const struct base *base;
		uint64_t id;

		nth_workload(n, &base, &id);
		explore_workload(&ex, base, id);
	}
	return 0;
}

/* ---- worker processes ---- */

static void show_progress(bool last)
{
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r%" PRIu64 " states of %" PRIu64 " workloads, %" PRIu64 " violations, %.0f s%s", atomic_load(&totals->states),
		atomic_load(&totals->workloads), atomic_load(&totals->violations), now() - started, last ? "\n" : " ");
}

static void worker_ended(const struct place *place, int status)
{
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return;
	atomic_fetch_add(&totals->violations, 1);
	printf("violation: format %s workload %" PRIu64 " cut %" PRIu64 " variant %" PRIu64 ": the process ended by signal %d (%s)\n",
	       place->format ? place->format : "?", place->workload, place->cut, place->variant, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
	       WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
	printf("  again: %s --format %s --workload %" PRIu64 "\n", args.command, place->format ? place->format : "?", place->workload);
}

static int start_workers(pid_t *pids)
{
	fflush(stdout);
	for (unsigned i = 0; i < args.jobs; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(work(&totals->places[i]));
		if (pids[i] < 0)
			return -errno;
	}
	return 0;
}

static void wait_for_workers(const pid_t *pids)
{
	const struct timespec pause = { .tv_nsec = 50000000 };

	for (unsigned running = args.jobs; running;) {
		int status;
		pid_t child = waitpid(-1, &status, WNOHANG);

		if (child <= 0) {
			show_progress(false);
			nanosleep(&pause, NULL);
			continue;
		}
		for (unsigned i = 0; i < args.jobs; i++)
			if (pids[i] == child)
				worker_ended(&totals->places[i], status);
		running--;
	}
	show_progress(true);
}

/* ---- the command ---- */

#ifdef UEXT4_BROKEN
enum broken broken_now;

static bool choose_broken(const char *name)
{
	static const char *const names[] = {
		[BROKEN_NO_FLUSH] = "noflush", [BROKEN_NO_REVOKE] = "norevoke", [BROKEN_NO_WAIT] = "nowait",
		[BROKEN_EARLY_SIZE] = "earlysize", [BROKEN_LATE_LOG] = "latelog", [BROKEN_KEEP_COPIES] = "keepcopies",
	};

	for (unsigned i = 1; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			broken_now = (enum broken)i;
	return broken_now != BROKEN_NOTHING;
}
#else
static bool choose_broken(const char *name)
{
	(void)name;
	return false;
}
#endif

static int usage(void)
{
	fprintf(stderr, "usage: crash [--seconds S] [--states N] [--workloads N] [--violations N] [--seed N] [--jobs N]\n"
			"             [--format NAME,...] [--named | --workload ID [--cut C]] [--builds N]\n"
			"             [--kernel-every N] [--e2fsck-every N] [--nested-every N] [--keep DIR] [--verbose]\n"
			"formats:");
	for (unsigned i = 0; i < format_count; i++)
		fprintf(stderr, " %s", formats[i].name);
	fprintf(stderr, "\n");
	return 2;
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", 1, NULL, 's' }, { "states", 1, NULL, 'n' }, { "workloads", 1, NULL, 'N' }, { "seed", 1, NULL, 'S' },
		{ "jobs", 1, NULL, 'j' }, { "format", 1, NULL, 'f' }, { "workload", 1, NULL, 'w' }, { "cut", 1, NULL, 'c' },
		{ "builds", 1, NULL, 'B' }, { "kernel-every", 1, NULL, 'k' }, { "e2fsck-every", 1, NULL, 'e' },
		{ "nested-every", 1, NULL, 'r' }, { "keep", 1, NULL, 'K' }, { "break", 1, NULL, 'b' }, { "verbose", 0, NULL, 'v' },
		{ "named", 0, NULL, 'm' }, { "violations", 1, NULL, 'V' }, { NULL, 0, NULL, 0 } };
	struct explorer_options *ex = &args.explorer;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': args.seconds = atof(optarg); break;
		case 'n': args.states_max = strtoull(optarg, NULL, 0); break;
		case 'N': args.workloads_max = strtoull(optarg, NULL, 0); break;
		case 'S': ex->seed = strtoull(optarg, NULL, 0); break;
		case 'j': args.jobs = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'f': args.format = optarg; break;
		case 'w': args.only_workload = strtoull(optarg, NULL, 0); break;
		case 'c': ex->only_cut = strtoull(optarg, NULL, 0); break;
		case 'B': ex->builds_per_workload = strtoull(optarg, NULL, 0); break;
		case 'k': ex->kernel_every = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'e': ex->e2fsck_every = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'r': ex->nested_every = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'm': args.named = true; break;
		case 'V': ex->violations_max = strtoull(optarg, NULL, 0); break;
		case 'v': ex->verbose = true; crash_log_level = LOG_ERROR; break;
		case 'K': ex->keep = optarg; break;
		case 'b':
			args.broken = optarg;
			if (!choose_broken(optarg))
				return -1;
			break;
		default: return -1;
		}
	}
	snprintf(args.command, sizeof(args.command), "%s%s%s --seed %" PRIu64, argv[0], args.broken ? " --break " : "",
		 args.broken ? args.broken : "", ex->seed);
	ex->command = args.command;
	if (!args.jobs)
		args.jobs = JOBS_PER_PROCESSOR * (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	args.jobs = min_of(args.jobs, JOBS_MAX);
	if (args.only_workload != UINT64_MAX || args.named)
		ex->builds_per_workload = UINT64_MAX;
	return optind == argc ? 0 : -1;
}

/* Those whose name is one of the words of --format, or all. */
static bool is_wanted(const struct format *format)
{
	size_t len = strlen(format->name);

	for (const char *at = args.format; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == len && !strncmp(at, format->name, len))
			return true;
	return !args.format;
}

static int prepare(void)
{
	for (unsigned i = 0; i < format_count && base_count < BASES_MAX; i++) {
		int err;

		if (!is_wanted(&formats[i]))
			continue;
		err = base_prepare(&formats[i], &bases[base_count++]);
		if (err) {
			fprintf(stderr, "crash: cannot prepare the image of %s: %s\n", formats[i].name, strerror(-err));
			return err;
		}
	}
	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (totals == MAP_FAILED)
		return -ENOMEM;
	totals->states_seen = seen_create(STATES_SEEN);
	totals->clean_seen = seen_create(CLEAN_SEEN);
	return totals->states_seen && totals->clean_seen ? 0 : -ENOMEM;
}

int main(int argc, char **argv)
{
	pid_t pids[JOBS_MAX];
	int err;

	/* e2fsprogs' clock stands still like ours. */
	setenv("E2FSPROGS_FAKE_TIME", "1700000000", 1);
	if (parse(argc, argv))
		return usage();
	if (prepare())
		return 1;
	if (!base_count)
		return usage();
	started = now();
	err = start_workers(pids);
	if (err) {
		fprintf(stderr, "crash: cannot start a process: %s\n", strerror(-err));
		return 1;
	}
	wait_for_workers(pids);
	printf("states %" PRIu64 " workloads %" PRIu64 " violations %" PRIu64 "\n", totals->states, totals->workloads, totals->violations);
	printf("judged %" PRIu64 ", %" PRIu64 " images by e2fsck, %" PRIu64 " after a second cut, %" PRIu64 " against e2fsck's recovery, %"
	       PRIu64 " against the kernel's; %.0f s\n", totals->tried, totals->fscks, totals->nested, totals->e2fsck, totals->kernel,
	       now() - started);
	return totals->violations ? 1 : 0;
}
