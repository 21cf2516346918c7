/* SPDX-License-Identifier: MIT */
/*
 * latency.c - how long create, write of 4 KiB and fsync take together, alone and beside a thread that streams data
 *
 * latency [-s SECONDS] [-S STREAM_MIB] [-o OPTIONS] TARGET   TARGET: a directory, "memory", or "image:PATH"
 * Prints two lines: TARGET alone|streaming SAMPLES P50_US P99_US MAX_US STREAM_MIB_PER_SECOND
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

#define BLOCK_BYTES  4096u
#define PIECE_BYTES  (1u << 20)
#define IMAGE_BYTES (3ull << 30)
#define FILES_KEPT   256u /* older ones are removed, so that the place does not fill up */

static double seconds = 3.0;
static uint64_t stream_bytes = 1024ull << 20;

struct samples {
	float *us;
	size_t count, room;
};

struct stream {
	struct target *target;
	_Atomic bool stop;
	uint64_t bytes;
	int err;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int add_sample(struct samples *s, double us)
{
	if (s->count == s->room) {
		size_t room = s->room ? s->room * 2 : 1024;
		float *more = realloc(s->us, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->us = more;
		s->room = room;
	}
	s->us[s->count++] = (float)us;
	return 0;
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static int one_stream(struct stream *s, const char *buf)
{
	void *file = s->target->open(s->target, "stream");
	int err = file ? 0 : -EIO;

	for (uint64_t pos = 0; !err && !s->stop && pos < stream_bytes; pos += PIECE_BYTES, s->bytes += PIECE_BYTES)
		if (s->target->pwrite(file, buf, PIECE_BYTES, (off_t)pos) != PIECE_BYTES)
			err = -EIO;
	if (file)
		s->target->close(s->target, file);
	return err ? err : s->target->unlink(s->target, "stream");
}

static void *stream_main(void *arg)
{
	struct stream *s = arg;
	char *buf = aligned_alloc(BLOCK_BYTES, PIECE_BYTES);

	s->err = buf ? 0 : -ENOMEM;
	if (buf)
		memset(buf, 's', PIECE_BYTES);
	while (!s->err && !s->stop)
		s->err = one_stream(s, buf);
	free(buf);
	return NULL;
}

static int create_write_fsync(struct target *target, unsigned i, const char *block)
{
	char name[64];
	void *file;
	int err;

	snprintf(name, sizeof(name), "file%u", i);
	file = target->open(target, name);
	if (!file)
		return -EIO;
	err = target->pwrite(file, block, BLOCK_BYTES, 0) == BLOCK_BYTES ? target->fsync(file) : -EIO;
	target->close(target, file);
	return err;
}

static int remove_file(struct target *target, unsigned i)
{
	char name[64];

	snprintf(name, sizeof(name), "file%u", i);
	return target->unlink(target, name);
}

static int sample(struct target *target, struct samples *out)
{
	static char block[BLOCK_BYTES];
	double end = now() + seconds, begin;
	unsigned i = 0;
	int err = 0;

	while (!err && (begin = now()) < end) {
		err = create_write_fsync(target, i, block);
		if (!err)
			err = add_sample(out, (now() - begin) * 1e6);
		if (!err && i++ >= FILES_KEPT)
			err = remove_file(target, i - 1 - FILES_KEPT);
	}
	for (unsigned k = i > FILES_KEPT ? i - FILES_KEPT : 0; !err && k < i; k++)
		err = remove_file(target, k);
	return err;
}

static int measure(struct target *target, bool streaming)
{
	struct stream stream = { .target = target };
	struct samples s = { 0 };
	double begin;
	pthread_t thread;
	int err;

	warm_memory(streaming ? stream_bytes : 0);
	begin = now();
	if (streaming && pthread_create(&thread, NULL, stream_main, &stream))
		return -EAGAIN;
	err = sample(target, &s);
	stream.stop = true;
	if (streaming)
		pthread_join(thread, NULL);
	err = err ? err : stream.err;
	if (!err && s.count) {
		qsort(s.us, s.count, sizeof(*s.us), compare);
		printf("%s %s %zu %.1f %.1f %.1f %.0f\n", target->name, streaming ? "streaming" : "alone", s.count,
		       (double)s.us[s.count / 2], (double)s.us[s.count * 99 / 100], (double)s.us[s.count - 1],
		       (double)(stream.bytes >> 20) / (now() - begin));
		fflush(stdout);
	}
	free(s.us);
	return err;
}

static int usage(void)
{
	fputs("usage: latency [-s SECONDS] [-S STREAM_MIB] [-o OPTIONS] DIR|memory|image:PATH\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	const char *options = "cache_size=1G";
	struct target target;
	int c, err;

	while ((c = getopt(argc, argv, "s:S:o:")) != -1) {
		if (c == 's')
			seconds = atof(optarg);
		else if (c == 'S')
			stream_bytes = (uint64_t)atoi(optarg) << 20;
		else if (c == 'o')
			options = optarg;
		else
			return usage();
	}
	if (argc - optind != 1)
		return usage();
	err = target_open(&target, argv[optind], IMAGE_BYTES, options);
	if (!err) {
		err = measure(&target, false);
		err = err ? err : measure(&target, true);
		c = target_close(&target);
		err = err ? err : c;
	}
	if (err)
		fprintf(stderr, "latency: %s: %s\n", argv[optind], strerror(-err));
	return err ? 1 : 0;
}
