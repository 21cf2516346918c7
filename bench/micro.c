/* SPDX-License-Identifier: MIT */
/*
 * micro.c - operations per second of one kind, by one or more threads
 *
 * micro [-j] [-t THREADS] [-s SECONDS] [-n COUNT] [-o OPTIONS] TARGET TEST...   TARGET: a directory, "memory", or "image:PATH",
 * a file system made anew in that file, whatever was in it
 * Prints a line per test: TARGET TEST THREADS OPERATIONS_PER_SECOND MICROSECONDS_PER_OPERATION
 * With -j as JSON, with the time that all processors of the machine were busy, whoever's work it was, and the counters.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define BLOCK_BYTES 4096u
#define MAX_THREADS 64

static bool as_json;
static unsigned threads = 1;
static double seconds = 1.0;
static unsigned count = 20000;            /* of names, for create, unlink, rename, mkdir */
static uint64_t file_bytes = 32u << 20;   /* of each thread's file */
static uint64_t stream_bytes = 256u << 20;

/* Threads count in their own cache lines (two: processors fetch them in pairs). */
struct job {
	_Alignas(128) struct target *target;
	unsigned index;          /* of the thread */
	uint64_t done;           /* operations */
	double end;              /* when the last of them was done, as now() */
	int err;
	void *file;
	char *buf;
	uint64_t rng;
};

struct test {
	const char *name;
	int (*prepare)(struct job *job);
	void (*run)(struct job *job);
	void (*finish)(struct job *job);
	bool timed;              /* runs until time_is_up, or has no more to do; the others do a fixed amount */
};

static pthread_barrier_t start_line;
static _Atomic bool time_is_up;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Of all processors together; kernel threads do a file system's work too. */
static double busy_seconds(void)
{
	unsigned long user, nice, system, idle, wait, irq, softirq;
	FILE *f = fopen("/proc/stat", "re");
	int got = 0;

	if (f) {
		got = fscanf(f, "cpu %lu %lu %lu %lu %lu %lu %lu", &user, &nice, &system, &idle, &wait, &irq, &softirq);
		fclose(f);
	}
	return got == 7 ? (double)(user + nice + system + irq + softirq) / (double)sysconf(_SC_CLK_TCK) : 0;
}

static uint64_t next_random(struct job *job)
{
	job->rng ^= job->rng << 13;
	job->rng ^= job->rng >> 7;
	job->rng ^= job->rng << 17;
	return job->rng;
}

static char *name_of(const struct job *job, const char *prefix, unsigned i, char buf[64])
{
	snprintf(buf, 64, "dir%u/%s%u", job->index, prefix, i);
	return buf;
}

/* ---- names: a fixed number, each thread in its own directory ---- */

static int own_directory(struct job *job)
{
	char name[64];
	int err;

	snprintf(name, sizeof(name), "dir%u", job->index);
	err = job->target->mkdir(job->target, name);
	return err == -EEXIST ? 0 : err;
}

static void run_create(struct job *job)
{
	char name[64];

	for (unsigned i = 0; i < count && !job->err; i++, job->done++)
		job->err = job->target->create(job->target, name_of(job, "f", i, name));
}

static void run_unlink(struct job *job)
{
	char name[64];

	for (unsigned i = 0; i < count && !job->err; i++, job->done++)
		job->err = job->target->unlink(job->target, name_of(job, "f", i, name));
}

static void run_rename(struct job *job)
{
	char from[64], to[64];

	for (unsigned i = 0; i < count && !job->err; i++, job->done++)
		job->err = job->target->rename(job->target, name_of(job, "f", i, from), name_of(job, "g", i, to));
}

static void run_mkdir(struct job *job)
{
	char name[64];

	for (unsigned i = 0; i < count && !job->err; i++, job->done++)
		job->err = job->target->mkdir(job->target, name_of(job, "d", i, name));
}

static int with_files(struct job *job)
{
	int err = own_directory(job);

	if (!err)
		run_create(job);
	job->done = 0;
	return err ? err : job->err;
}

static void remove_files(struct job *job)
{
	char name[64];

	for (unsigned i = 0; i < count; i++)
		job->target->unlink(job->target, name_of(job, "f", i, name));
}

static void remove_renamed(struct job *job)
{
	char name[64];

	for (unsigned i = 0; i < count; i++)
		job->target->unlink(job->target, name_of(job, "g", i, name));
}

/* ---- data: as many as fit the time, each thread on its own file ---- */

static bool whole(struct job *job, ssize_t moved, size_t len)
{
	if (moved < 0)
		job->err = (int)moved;
	else if ((size_t)moved != len)
		job->err = -EIO;
	return !job->err;
}

static int open_own_file(struct job *job)
{
	char name[64];

	snprintf(name, sizeof(name), "data%u", job->index);
	job->file = job->target->open(job->target, name);
	job->buf = aligned_alloc(4096, 1u << 20);
	if (!job->file || !job->buf)
		return -EIO;
	memset(job->buf, 'a' + (int)job->index % 26, 1u << 20);
	return 0;
}

static int with_full_file(struct job *job)
{
	int err = open_own_file(job);

	for (uint64_t pos = 0; !err && pos < file_bytes; pos += 1u << 20)
		if (!whole(job, job->target->pwrite(job->file, job->buf, 1u << 20, (off_t)pos), 1u << 20))
			err = job->err;
	return err ? err : job->target->fsync(job->file);
}

static void close_own_file(struct job *job)
{
	if (job->file)
		job->target->close(job->target, job->file);
	free(job->buf);
}

/* What grew for as long as there was time is not left for the next test. */
static void remove_own_file(struct job *job)
{
	char name[64];

	close_own_file(job);
	snprintf(name, sizeof(name), "data%u", job->index);
	job->target->unlink(job->target, name);
}

static off_t random_block(struct job *job)
{
	return (off_t)(next_random(job) % (file_bytes / BLOCK_BYTES) * BLOCK_BYTES);
}

static void run_overwrite(struct job *job)
{
	for (; !time_is_up && !job->err; job->done++)
		(void)whole(job, job->target->pwrite(job->file, job->buf, BLOCK_BYTES, random_block(job)), BLOCK_BYTES);
}

static void run_read(struct job *job)
{
	for (; !time_is_up && !job->err; job->done++)
		(void)whole(job, job->target->pread(job->file, job->buf, BLOCK_BYTES, random_block(job)), BLOCK_BYTES);
}

/* Where the @i th of 2^@bits goes, each somewhere else, without an order that can be seen. */
static uint64_t shuffled(uint64_t i, unsigned bits)
{
	uint64_t mask = (1ull << bits) - 1;

	for (unsigned round = 0; round < 3; round++) {
		i = (i * 0x9e3779b97f4a7c15ull + round) & mask;
		i ^= i >> (bits / 2 + 1);
	}
	return i;
}

/* Each block once at most: read again, it would come from a cache. */
static void run_randread(struct job *job)
{
	uint64_t blocks = file_bytes / BLOCK_BYTES;
	unsigned bits = 2;

	while (1ull << bits < blocks)
		bits++;
	for (uint64_t i = 0; i < 1ull << bits && !time_is_up && !job->err; i++) {
		uint64_t block = shuffled(i, bits);

		if (block >= blocks)
			continue;
		(void)whole(job, job->target->pread(job->file, job->buf, BLOCK_BYTES, (off_t)(block * BLOCK_BYTES)), BLOCK_BYTES);
		job->done++;
	}
}

/* 1 MiB pieces to the end of stream_bytes and fsync; one operation is 1 MiB. */
static void run_seqwrite(struct job *job)
{
	for (uint64_t pos = 0; pos < stream_bytes && !job->err; pos += 1u << 20, job->done++)
		(void)whole(job, job->target->pwrite(job->file, job->buf, 1u << 20, (off_t)pos), 1u << 20);
	if (!job->err)
		job->err = job->target->fsync(job->file);
}

static void run_seqread(struct job *job)
{
	for (uint64_t pos = 0; pos < stream_bytes && !job->err; pos += 1u << 20, job->done++)
		(void)whole(job, job->target->pread(job->file, job->buf, 1u << 20, (off_t)pos), 1u << 20);
}

static void run_append_fsync(struct job *job)
{
	uint64_t pos = 0;

	for (; !time_is_up && !job->err; job->done++, pos += BLOCK_BYTES) {
		if (whole(job, job->target->pwrite(job->file, job->buf, BLOCK_BYTES, (off_t)pos), BLOCK_BYTES))
			job->err = job->target->fsync(job->file);
	}
}

static int can_null(struct job *job)
{
	return job->target->null_request ? 0 : -EOPNOTSUPP;
}

static void run_null(struct job *job)
{
	for (; !time_is_up; job->done++)
		job->target->null_request(job->target);
}

static const struct test tests[] = {
	{ "create", own_directory, run_create, NULL, false },       { "unlink", NULL, run_unlink, NULL, false },
	{ "create-unlink", with_files, run_unlink, NULL, false },   { "rename", with_files, run_rename, remove_renamed, false },
	{ "mkdir", own_directory, run_mkdir, NULL, false },         { "cleanup", NULL, remove_files, NULL, false },
	{ "overwrite", with_full_file, run_overwrite, close_own_file, true },
	{ "read", with_full_file, run_read, close_own_file, true }, { "randread", open_own_file, run_randread, close_own_file, true },
	{ "seqwrite", open_own_file, run_seqwrite, close_own_file, false },
	{ "seqread", open_own_file, run_seqread, close_own_file, false },
	{ "append-fsync", open_own_file, run_append_fsync, remove_own_file, true }, { "null", can_null, run_null, NULL, true },
};

static const struct test *current_test;

static void *thread_main(void *arg)
{
	struct job *job = arg;

	if (current_test->prepare)
		job->err = current_test->prepare(job);
	pthread_barrier_wait(&start_line);
	if (!job->err)
		current_test->run(job);
	job->end = now();
	return NULL;
}

static void print_result(struct target *target, const struct test *test, uint64_t done, double took, double busy)
{
	char stats[16384] = "null";

	if (!as_json) {
		printf("%s %s %u %.0f %.2f\n", target->name, test->name, threads, (double)done / took,
		       took * 1e6 * threads / (double)(done ? done : 1));
	} else {
		if (target->stats_json)
			target->stats_json(target, stats, sizeof(stats));
		printf("{\"test\":\"%s\",\"threads\":%u,\"operations\":%llu,\"seconds\":%.6f,\"busy_seconds\":%.2f,\"stats\":%s}\n",
		       test->name, threads, (unsigned long long)done, took, busy, stats);
	}
	fflush(stdout);
}

static int measure(struct target *target, const struct test *test)
{
	struct job jobs[MAX_THREADS] = { 0 };
	pthread_t ids[MAX_THREADS];
	double begin, busy, took = 0;
	uint64_t done = 0;
	int err = 0;

	current_test = test;
	time_is_up = false;
	pthread_barrier_init(&start_line, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++) {
		jobs[i] = (struct job){ .target = target, .index = i, .rng = 88172645463325252ull + i };
		if (pthread_create(&ids[i], NULL, thread_main, &jobs[i]))
			return -EAGAIN;
	}
	warm_memory(stream_bytes);
	pthread_barrier_wait(&start_line);
	busy = busy_seconds();
	begin = now();
	if (test->timed)
		nanosleep(&(struct timespec){ (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) }, NULL);
	time_is_up = true;
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	busy = busy_seconds() - busy;
	for (unsigned i = 0; i < threads; i++) {
		done += jobs[i].done;
		took = jobs[i].end - begin > took ? jobs[i].end - begin : took;
		err = err ? err : jobs[i].err;
		if (test->finish)
			test->finish(&jobs[i]);
	}
	pthread_barrier_destroy(&start_line);
	if (err)
		return err;
	print_result(target, test, done, took, busy);
	return 0;
}

static const struct test *find_test(const char *name)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (!strcmp(name, tests[i].name))
			return &tests[i];
	return NULL;
}

static int usage(void)
{
	fprintf(stderr, "usage: micro [-j] [-t THREADS] [-s SECONDS] [-n NAMES] [-m FILE_MIB] [-S STREAM_MIB] [-o OPTIONS] DIR|memory|image:PATH TEST...\nPATH is overwritten\ntests:");
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		fprintf(stderr, " %s", tests[i].name);
	fputc('\n', stderr);
	return 2;
}

int main(int argc, char **argv)
{
	const char *options = "cache_size=1G";
	struct target target;
	int c, err;

	while ((c = getopt(argc, argv, "jt:s:n:m:S:o:")) != -1) {
		if (c == 'j')
			as_json = true;
		else if (c == 't')
			threads = (unsigned)atoi(optarg);
		else if (c == 's')
			seconds = atof(optarg);
		else if (c == 'n')
			count = (unsigned)atoi(optarg);
		else if (c == 'm')
			file_bytes = (uint64_t)atoi(optarg) << 20;
		else if (c == 'S')
			stream_bytes = (uint64_t)atoi(optarg) << 20;
		else if (c == 'o')
			options = optarg;
		else
			return usage();
	}
	if (argc - optind < 2 || threads < 1 || threads > MAX_THREADS)
		return usage();
	err = target_open(&target, argv[optind], 2ull << 30, options);
	if (err) {
		fprintf(stderr, "micro: %s: %s\n", argv[optind], strerror(-err));
		return 1;
	}
	for (int i = optind + 1; i < argc; i++) {
		const struct test *test = find_test(argv[i]);

		err = test ? measure(&target, test) : -EINVAL;
		if (err) {
			fprintf(stderr, "micro: %s: %s\n", argv[i], strerror(-err));
			break;
		}
	}
	c = target_close(&target);
	return err || c ? 1 : 0;
}
