/* SPDX-License-Identifier: MIT */
/* follow.h - a worker that runs on its caller's processor */
#ifndef UEXT4_FUSE_FOLLOW_H
#define UEXT4_FUSE_FOLLOW_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct keeper;

struct follow {               /* [owner thread] */
	bool enabled;         /* false: not wanted, or not possible here */
	bool following;
	int cpu;              /* while following */
	uint32_t caller;      /* thread id of the last request that has one */
	uint64_t last_ns;     /* when that came */
	unsigned streak;      /* its requests in a row, since the last look while following */
	unsigned needed;      /* streak from which it is followed */
	cpu_set_t anywhere;   /* where the worker may run otherwise */
	struct keeper *keeper; /* shared by all workers */
};

/* For the calling thread, which is not confined yet. @keeper NULL: do not follow. */
void follow_init(struct follow *f, struct keeper *keeper);

/**
 * follow_note() - a request has come: go to its caller's processor, stay, or leave it
 * @caller: thread id as the kernel gave it; 0: the kernel's own work, which counts for nothing
 * @bulk:   much data: worth a processor of its own, beside the caller's
 * @now_ns: CLOCK_MONOTONIC
 *
 * Return: does the worker run on the caller's processor now?
 */
bool follow_note(struct follow *f, uint32_t caller, bool bulk, uint64_t now_ns);

/* Run anywhere again. */
void follow_leave(struct follow *f);

/* A thread made with @attr may run where @f's may when it follows nobody. */
void follow_set_attr(const struct follow *f, pthread_attr_t *attr);

#endif
