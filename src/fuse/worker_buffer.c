/* SPDX-License-Identifier: MIT */
/* worker_buffer.c - memory of workers: for requests, and for replies (one per thread, freed with it) */
#include <errno.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fuse/server.h"

#define BUFFER_PAGE_BYTES 4096u
#define HUGE_PAGE_BYTES   (2u << 20)
#define WRITE_HEAD_BYTES  (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))

/* The kernel looks up each page that it copies to; a huge one is found faster. */
int request_buffer_alloc(struct request_buffer *buffer)
{
	uint8_t *start = aligned_alloc(HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);

	if (!start)
		return -ENOMEM;
	madvise(start, HUGE_PAGE_BYTES, MADV_HUGEPAGE); /* advice: without it, small pages */
	buffer->bytes = start + BUFFER_PAGE_BYTES - WRITE_HEAD_BYTES;
	buffer->room_bytes = WRITE_HEAD_BYTES + SERVER_MAX_WRITE_BYTES + BUFFER_PAGE_BYTES;
	return 0;
}

void request_buffer_free(struct request_buffer *buffer)
{
	if (buffer->bytes)
		free((uint8_t *)buffer->bytes - (BUFFER_PAGE_BYTES - WRITE_HEAD_BYTES));
	buffer->bytes = NULL;
}

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
