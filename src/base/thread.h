/* SPDX-License-Identifier: MIT */
/* thread.h - threads of our own inside somebody else's program */
#ifndef UEXT4_BASE_THREAD_H
#define UEXT4_BASE_THREAD_H

#include <pthread.h>

/**
 * thread_start() - start a named thread with every signal blocked
 * @name:       as ps and debuggers show it; at most 15 bytes are kept
 * @func, @arg: what it runs
 * @thread_out: pthread_join() it
 *
 * Signals stay with the embedding program's own threads: a handler of theirs must not run here.
 *
 * Return: 0, or -EAGAIN, -ENOMEM
 */
int thread_start(const char *name, void *(*func)(void *arg), void *arg, pthread_t *thread_out);

/* Processors that the calling thread may run on; at least one. */
unsigned thread_processors(void);

/* Between two looks of a loop that waits for a few microseconds at most: some dozens of nanoseconds. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
