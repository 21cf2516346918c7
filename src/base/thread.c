/* SPDX-License-Identifier: MIT */
/* thread.c - threads of our own inside somebody else's program */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define THREAD_NAME_BYTES 16 /* the kernel's limit, with the NUL */

int thread_start(const char *name, void *(*func)(void *arg), void *arg, pthread_t *thread_out)
{
	char short_name[THREAD_NAME_BYTES];
	sigset_t all, old;
	int err;

	/* A new thread inherits the mask, so that there is no moment in which it could take a signal. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread_out, NULL, func, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return -err;
	strncpy(short_name, name, sizeof(short_name) - 1);
	short_name[sizeof(short_name) - 1] = '\0';
	pthread_setname_np(*thread_out, short_name);
	return 0;
}

unsigned thread_processors(void)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t allowed;

	if (!sched_getaffinity(0, sizeof(allowed), &allowed))
		return (unsigned)CPU_COUNT(&allowed);
	return online > 0 ? (unsigned)online : 1;
}
