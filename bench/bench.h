/* SPDX-License-Identifier: MIT */
/* bench.h - one set of measured operations over two ways to a file system: system calls, and the library in-process */
#ifndef UEXT4_BENCH_BENCH_H
#define UEXT4_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Paths are relative to the place under test. Functions return 0, a count, or a negative errno. */
struct target {
	const char *name;
	int (*mkdir)(struct target *t, const char *path);
	int (*create)(struct target *t, const char *path);
	int (*unlink)(struct target *t, const char *path);
	int (*rename)(struct target *t, const char *from, const char *to);
	void *(*open)(struct target *t, const char *path); /* read-write, made if missing; NULL on failure */
	void (*close)(struct target *t, void *file);
	ssize_t (*pread)(void *file, void *buf, size_t len, off_t pos);
	ssize_t (*pwrite)(void *file, const void *buf, size_t len, off_t pos);
	int (*fsync)(void *file);
	void (*null_request)(struct target *t);            /* NULL: no such thing here */
	int (*stats_json)(struct target *t, char *buf, size_t buf_bytes); /* the counters; NULL: there are none */
	void *private_data;
};

int target_dir(struct target *t, const char *dir);
/* @place: a directory; "memory" or "image:PATH", a fresh image of @size_bytes, opened with mount @options. */
int target_open(struct target *t, const char *place, uint64_t size_bytes, const char *options);
int target_close(struct target *t);

/*
 * Touches and frees memory for @data_bytes and for what else a test needs. A virtual machine may give free memory back to its
 * host; the next to touch it waits for the host, up to 16 us a page, and that is not to be measured of whoever comes first.
 */
void warm_memory(uint64_t data_bytes);

#endif
