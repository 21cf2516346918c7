/* SPDX-License-Identifier: MIT */
/*
 * splice.c - large READs answered by reference
 *
 * Of an image in memory the data need not be copied to us and from us: its pages go into a pipe, behind the header of the
 * answer, and from there into the kernel's copy of the file. Each worker has a pipe of its own, empty between requests.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "fuse/server.h"

#define SPLICE_MIN_BYTES (64u << 10) /* below, copying costs less than a pipe */
#define PIPE_BYTES       (1 << 20)   /* what everybody may ask for */
#define PIPE_PAGE_BYTES  4096u

struct worker_pipe {
	int read_fd, write_fd; /* read_fd -1: this worker has none */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_err;

static void pipe_shut(struct worker_pipe *p)
{
	if (p->read_fd < 0)
		return;
	close(p->read_fd);
	close(p->write_fd);
	p->read_fd = -1;
}

static void pipe_free(void *arg)
{
	pipe_shut(arg);
	free(arg);
}

static void make_key(void)
{
	key_err = pthread_key_create(&key, pipe_free);
}

/* A smaller pipe than asked for would take no request: then none. */
static void pipe_open(struct worker_pipe *p)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK)) {
		p->read_fd = -1;
		return;
	}
	p->read_fd = fds[0];
	p->write_fd = fds[1];
	if (fcntl(p->write_fd, F_SETPIPE_SZ, PIPE_BYTES) < PIPE_BYTES)
		pipe_shut(p);
}

/* This thread's; NULL: none to be had. */
static struct worker_pipe *worker_pipe(void)
{
	struct worker_pipe *p;

	pthread_once(&once, make_key);
	if (key_err)
		return NULL;
	p = pthread_getspecific(key);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		pipe_open(p);
		if (pthread_setspecific(key, p)) {
			pipe_free(p);
			return NULL;
		}
	}
	return p->read_fd < 0 ? NULL : p;
}

/* What an attempt left in it is thrown away with it. */
static void pipe_empty(struct worker_pipe *p)
{
	pipe_shut(p);
	pipe_open(p);
}

struct delivery {
	struct worker_pipe *pipe;
	int device_fd;
	size_t bytes; /* of the whole answer */
};

/* The kernel takes an answer whole or not at all. */
static int deliver(void *arg)
{
	struct delivery *d = arg;
	ssize_t sent = splice(d->pipe->read_fd, NULL, d->device_fd, NULL, d->bytes, 0);

	if (sent < 0)
		return -errno;
	return (size_t)sent == d->bytes ? 0 : -EIO;
}

bool splice_reply_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off)
{
	struct server *server = req_server(req);
	struct fuse_out_header head = { .len = (uint32_t)(sizeof(head) + size), .unique = raw_request_current()->unique };
	struct delivery d = { .device_fd = server->device_fd, .bytes = sizeof(head) + size };
	int err;

	if (size < SPLICE_MIN_BYTES || size > PIPE_BYTES - PIPE_PAGE_BYTES)
		return false;
	d.pipe = worker_pipe();
	if (!d.pipe)
		return false;
	err = write(d.pipe->write_fd, &head, sizeof(head)) == sizeof(head) ? 0 : -EIO;
	if (!err)
		err = uext4_node_splice_read(server->fs, node_of(ino), off, size, d.pipe->write_fd, deliver, &d);
	if (err) { /* if the request is answered all the same, the second answer is refused and forgotten */
		pipe_empty(d.pipe);
		return false;
	}
	atomic_fetch_add_explicit(&server->spliced, 1, memory_order_relaxed);
	fuse_reply_none(req);
	return true;
}
