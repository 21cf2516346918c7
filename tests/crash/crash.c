/* SPDX-License-Identifier: MIT */
/*
 * crash.c - the crash explorer's command
 *
 * crash [--seconds S] [--states N] [--seed N] [--stride N] [--workload ID [--cut C]] [--block BYTES] [--kernel-every N] [--keep DIR]
 * Prints each violation with the command that shows it again, and at the end "states N workloads N violations N".
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/api_private.h"
#include "crash.h"
#include "ext4/super.h"
#include "vfs/vfs.h"

#define IMAGE_BYTES_1K (8u << 20)
#define IMAGE_BYTES_4K (24u << 20)
#define STALE_BYTE 0xEE  /* what the device holds where nothing was ever written */
#define RANDOM_CUTS 2

extern char **environ;

static struct {
	double seconds;
	uint64_t states_max, seed, stride, only_workload, only_cut;
	unsigned block_bytes, kernel_every;
	const char *keep, *options, *program;
} args = { .seconds = 10, .states_max = UINT64_MAX, .seed = 1, .stride = 1, .only_workload = UINT64_MAX,
	   .only_cut = UINT64_MAX, .block_bytes = 1024, .options = "" };

static struct {
	uint64_t states, workloads, violations, kernel_checks;
} totals;

static char scratch[64]; /* a file for e2fsck and the kernel */

static void quiet_log(void *arg, int level, const char *text)
{
	(void)arg;
	if (level <= 3 && getenv("CRASH_LOG"))
		fprintf(stderr, "# %s\n", text);
}

int crash_open(struct block_device *dev, const char *options, struct uext4_fs **fs_out)
{
	struct log_sink log = { .func = quiet_log };
	struct ext4_options opt;
	char error[256];
	int err;

	*fs_out = calloc(1, sizeof(**fs_out));
	if (!*fs_out)
		return -ENOMEM;
	options_init(&opt);
	err = options_parse(&opt, options, error);
	if (!err)
		err = vfs_mount(dev, &opt, &log, "crash", false, &(*fs_out)->vfs);
	options_exit(&opt);
	if (err)
		free(*fs_out);
	return err;
}

static int run_program(char *const argv[])
{
	posix_spawn_file_actions_t files;
	pid_t child;
	int status, err;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	err = posix_spawnp(&child, argv[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (err || waitpid(child, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int put_file(const char *path, const void *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	ssize_t put = fd < 0 ? -1 : pwrite(fd, bytes, len, 0);

	if (fd >= 0)
		close(fd);
	return put == (ssize_t)len ? 0 : -EIO;
}

static int get_file(const char *path, void *bytes, size_t len)
{
	int fd = open(path, O_RDONLY);
	ssize_t got = fd < 0 ? -1 : pread(fd, bytes, len, 0);

	if (fd >= 0)
		close(fd);
	return got == (ssize_t)len ? 0 : -EIO;
}

static uint64_t image_bytes(void)
{
	return args.block_bytes == 1024 ? IMAGE_BYTES_1K : IMAGE_BYTES_4K;
}

/* mke2fs over a device full of STALE_BYTE. */
static uint8_t *blank_image(void)
{
	char block[16], *argv[] = { "mke2fs", "-q", "-F", "-t", "ext4", "-b", block, "-J", NULL, "-E", "nodiscard", scratch, NULL };
	uint8_t *bytes = malloc(image_bytes());

	snprintf(block, sizeof(block), "%u", args.block_bytes);
	argv[8] = args.block_bytes == 1024 ? "size=1" : "size=4";
	if (!bytes)
		return NULL;
	memset(bytes, STALE_BYTE, image_bytes());
	if (put_file(scratch, bytes, image_bytes()) || run_program(argv) || get_file(scratch, bytes, image_bytes())) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

/* The image that all workloads start from. */
static int prepare_base(uint8_t **base_out)
{
	struct block_device *dev;
	struct uext4_fs *fs;
	int err, close_err;

	*base_out = blank_image();
	if (!*base_out)
		return -EIO;
	err = block_open_memory(image_bytes(), *base_out, &dev);
	if (!err)
		err = crash_open(dev, args.options, &fs);
	if (err)
		return err;
	err = tree_prepare(fs);
	close_err = uext4_close_fs(fs);
	return err ? err : close_err;
}

/* ---- recording a workload ---- */

static void run_free(struct run *run)
{
	for (unsigned i = 0; run->states && i <= run->workload.count; i++)
		state_free(&run->states[i]);
	free(run->states);
	free(run->mark_at);
	free(run->results);
	free(run->before);
}

static int run_alloc(struct run *run, uint64_t id, const uint8_t *base)
{
	*run = (struct run){ .size_bytes = image_bytes() };
	workload_make(id, &run->workload);
	run->states = calloc(run->workload.count + 1, sizeof(*run->states));
	run->mark_at = calloc(run->workload.count + 1, sizeof(*run->mark_at));
	run->results = calloc(run->workload.count + 1, sizeof(*run->results));
	run->before = malloc(run->size_bytes);
	if (!run->states || !run->mark_at || !run->results || !run->before)
		return -ENOMEM;
	memcpy(run->before, base, run->size_bytes);
	return 0;
}

static int record_ops(struct run *run, struct uext4_fs *fs)
{
	int err = state_take(fs, &run->states[0]);

	run->mark_at[0] = record_count(run->record);
	for (unsigned i = 1; i <= run->workload.count && !err; i++) {
		run->results[i] = op_run(fs, &run->workload.ops[i - 1]);
		run->mark_at[i] = record_count(run->record);
		err = state_take(fs, &run->states[i]);
	}
	return err;
}

/* On success run->record is open still, under *fs_out: closed by uext4_close_fs(). */
static int record_run(struct run *run, uint8_t *live, struct uext4_fs **fs_out)
{
	struct block_device *memory;
	int err = block_open_memory(run->size_bytes, live, &memory);

	if (!err)
		err = block_open_record(memory, &run->record);
	if (!err)
		err = crash_open(run->record, args.options, fs_out);
	if (err)
		return err;
	err = record_ops(run, *fs_out);
	return err;
}

/* ---- one crash state ---- */

struct cut {
	size_t at;
	enum record_cut_kind kind;
	uint64_t seed;
};

static void report(const struct run *run, const struct cut *cut, const char *what, const uint8_t *image)
{
	char text[160], path[512];

	totals.violations++;
	printf("violation: workload %llu cut %zu kind %d: %s\n", (unsigned long long)run->workload.id, cut->at, cut->kind, what);
	for (unsigned i = 0; i < run->workload.count; i++) {
		op_print(&run->workload.ops[i], text, sizeof(text));
		printf("  %3u  %s = %d  [log entry %zu]\n", i + 1, text, run->results[i + 1], run->mark_at[i + 1]);
	}
	if (args.keep) {
		snprintf(path, sizeof(path), "%s/crash-%llu-%zu-%d.img", args.keep, (unsigned long long)run->workload.id, cut->at, cut->kind);
		printf("  image: %s%s\n", path, put_file(path, image, run->size_bytes) ? " (not written)" : "");
	}
	printf("  again: %s --block %u --seed %llu --workload %llu --cut %zu%s%s --keep DIR\n", args.program, args.block_bytes,
	       (unsigned long long)args.seed, (unsigned long long)run->workload.id, cut->at, *args.options ? " --options " : "", args.options);
	fflush(stdout);
}

/* Mounts, reads and unmounts @image in place. NULL or what was wrong. */
static const char *recover_by_uext4(uint8_t *image, uint64_t size, struct state *tree_out)
{
	static char text[128];
	struct block_device *dev;
	struct uext4_fs *fs;
	int err = block_open_memory(size, image, &dev), close_err;

	*tree_out = (struct state){ 0 };
	if (!err)
		err = crash_open(dev, args.options, &fs);
	if (err) {
		snprintf(text, sizeof(text), "uext4 does not mount it: %s", strerror(-err));
		return text;
	}
	err = state_take(fs, tree_out);
	close_err = uext4_close_fs(fs);
	if (!err && !close_err)
		return NULL;
	snprintf(text, sizeof(text), "%s: %s", err ? "reading the recovered tree" : "unmounting", strerror(err ? -err : -close_err));
	return text;
}

static const char *fsck(const uint8_t *image, uint64_t size)
{
	char *argv[] = { "e2fsck", "-fn", scratch, NULL };

	if (put_file(scratch, image, size))
		return "cannot write the scratch file";
	return run_program(argv) ? "e2fsck -fn finds errors" : NULL;
}

/* The kernel recovers its own copy; both trees must be alike. */
static const char *compare_with_kernel(uint8_t *crashed, uint64_t size, const struct state *ours)
{
	static char text[256];
	char command[1024], why[160];
	struct state theirs;
	const char *wrong;

	if (put_file(scratch, crashed, size))
		return "cannot write the scratch file";
	snprintf(command, sizeof(command), "mkdir -p %s.mnt && mount -o loop %s %s.mnt && umount %s.mnt && e2fsck -fn %s", scratch,
		 scratch, scratch, scratch, scratch);
	if (run_program((char *[]){ "sh", "-c", command, NULL }))
		return "the kernel does not recover it to a clean image";
	if (get_file(scratch, crashed, size))
		return "cannot read the scratch file";
	totals.kernel_checks++;
	wrong = recover_by_uext4(crashed, size, &theirs);
	if (!wrong && !state_same(ours, &theirs, why, sizeof(why))) {
		snprintf(text, sizeof(text), "the kernel's recovery differs: %s", why);
		wrong = text;
	}
	state_free(&theirs);
	return wrong;
}

static void try_cut(const struct run *run, const struct cut *cut, uint8_t *image, uint8_t *copy)
{
	struct state tree;
	const char *wrong;

	memcpy(image, run->before, run->size_bytes);
	record_build_image(run->record, cut->at, cut->kind, cut->seed, image);
	memcpy(copy, image, run->size_bytes);
	wrong = recover_by_uext4(image, run->size_bytes, &tree);
	if (!wrong)
		wrong = fsck(image, run->size_bytes);
	if (!wrong)
		wrong = oracle_check(run, cut->at, &tree);
	totals.states++;
	if (!wrong && args.kernel_every && totals.states % args.kernel_every == 0) {
		memcpy(image, copy, run->size_bytes);
		wrong = compare_with_kernel(image, run->size_bytes, &tree);
	}
	if (wrong)
		report(run, cut, wrong, copy);
	state_free(&tree);
}

static bool worth_cutting(const struct run *run, size_t at)
{
	const struct record_entry *e;

	if (args.only_cut != UINT64_MAX)
		return at == args.only_cut;
	if (at == record_count(run->record))
		return true;
	e = record_get(run->record, at);
	return !e->is_mark;
}

static void explore(const struct run *run, uint8_t *image, uint8_t *copy)
{
	size_t end = record_count(run->record);

	for (size_t at = run->mark_at[0]; at <= end && totals.states < args.states_max; at++) {
		if (!worth_cutting(run, at))
			continue;
		try_cut(run, &(struct cut){ at, RECORD_CUT_KEEPS_ALL, 0 }, image, copy);
		try_cut(run, &(struct cut){ at, RECORD_CUT_DROPS_UNFLUSHED, 0 }, image, copy);
		for (uint64_t i = 0; i < RANDOM_CUTS; i++)
			try_cut(run, &(struct cut){ at, RECORD_CUT_RANDOM, args.seed * 1000003 + at * 31 + i }, image, copy);
	}
}

static int one_workload(uint64_t id, const uint8_t *base, uint8_t *live, uint8_t *image, uint8_t *copy)
{
	struct uext4_fs *fs = NULL;
	struct run run;
	int err = run_alloc(&run, id, base);

	memcpy(live, base, image_bytes());
	if (!err)
		err = record_run(&run, live, &fs);
	if (!err)
		explore(&run, image, copy);
	if (fs) {
		int close_err = uext4_close_fs(fs);

		err = err ? err : close_err;
	}
	run_free(&run);
	totals.workloads++;
	if (err) {
		printf("violation: workload %llu: %s while running it\n", (unsigned long long)id, strerror(-err));
		totals.violations++;
	}
	return err;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Systematic ones with random ones between; the seed chooses where it starts, the stride leaves others to other processes. */
static uint64_t nth_workload(uint64_t n)
{
	uint64_t systematic = workload_systematic();

	if (args.only_workload != UINT64_MAX)
		return args.only_workload;
	n = n * args.stride + args.seed;
	/* A prime step walks all of them in an order that mixes the kinds. */
	return n % 4 == 3 ? systematic + n : n * 7919 % systematic;
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", 1, NULL, 's' }, { "states", 1, NULL, 'n' }, { "seed", 1, NULL, 'S' }, { "stride", 1, NULL, 't' },
		{ "workload", 1, NULL, 'w' }, { "cut", 1, NULL, 'c' }, { "block", 1, NULL, 'b' }, { "kernel-every", 1, NULL, 'k' },
		{ "keep", 1, NULL, 'K' }, { "options", 1, NULL, 'o' }, { NULL, 0, NULL, 0 } };
	int c;

	args.program = argv[0];
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': args.seconds = atof(optarg); break;
		case 'n': args.states_max = strtoull(optarg, NULL, 0); break;
		case 'S': args.seed = strtoull(optarg, NULL, 0); break;
		case 't': args.stride = strtoull(optarg, NULL, 0); break;
		case 'w': args.only_workload = strtoull(optarg, NULL, 0); break;
		case 'c': args.only_cut = strtoull(optarg, NULL, 0); break;
		case 'b': args.block_bytes = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'k': args.kernel_every = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'K': args.keep = optarg; break;
		case 'o': args.options = optarg; break;
		default: return -1;
		}
	}
	return optind == argc && (args.block_bytes == 1024 || args.block_bytes == 4096) ? 0 : -1;
}

int main(int argc, char **argv)
{
	uint8_t *base = NULL, *live, *image, *copy;
	double begin = now();
	uint64_t n = 0;
	int err;

	if (parse(argc, argv)) {
		fprintf(stderr, "usage: crash [--seconds S] [--states N] [--seed N] [--stride N] [--workload ID] [--cut C] "
				"[--block 1024|4096] [--kernel-every N] [--options O] [--keep DIR]\n");
		return 2;
	}
	snprintf(scratch, sizeof(scratch), "/dev/shm/uext4-crash-%d", (int)getpid());
	err = prepare_base(&base);
	live = malloc(image_bytes());
	image = malloc(image_bytes());
	copy = malloc(image_bytes());
	if (err || !live || !image || !copy) {
		fprintf(stderr, "crash: cannot prepare the image: %s\n", strerror(err ? -err : ENOMEM));
		return 1;
	}
	do
		one_workload(nth_workload(n++), base, live, image, copy);
	while (args.only_workload == UINT64_MAX && now() - begin < args.seconds && totals.states < args.states_max);
	printf("states %llu workloads %llu kernel %llu violations %llu\n", (unsigned long long)totals.states,
	       (unsigned long long)totals.workloads, (unsigned long long)totals.kernel_checks, (unsigned long long)totals.violations);
	unlink(scratch);
	snprintf(scratch + strlen(scratch), sizeof(scratch) - strlen(scratch), ".mnt");
	rmdir(scratch);
	free(base);
	free(live);
	free(image);
	free(copy);
	return totals.violations ? 1 : 0;
}
