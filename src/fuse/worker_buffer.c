/* SPDX-License-Identifier: MIT */
/* worker_buffer.c - one reply buffer per thread, freed with the thread */
#include <pthread.h>
#include <stdlib.h>

#include "fuse/server.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_err;

static void make_key(void)
{
	key_err = pthread_key_create(&key, free);
}

void *worker_buffer(void)
{
	void *buf;

	pthread_once(&once, make_key);
	if (key_err)
		return NULL;
	buf = pthread_getspecific(key);
	if (!buf) {
		buf = aligned_alloc(4096, SERVER_MAX_WRITE_BYTES);
		if (buf && pthread_setspecific(key, buf)) {
			free(buf);
			buf = NULL;
		}
	}
	return buf;
}
