/* SPDX-License-Identifier: MIT */
/* loop.h - the session loop: a hot worker that reads and answers, others that wake when needed */
#ifndef UEXT4_FUSE_LOOP_H
#define UEXT4_FUSE_LOOP_H

#include "fuse/server.h"

struct loop;

struct loop *loop_create(struct server *server); /* session mounted. NULL: no memory or descriptors */
/* Serves until the file system is unmounted or loop_stop(). 0, or the receive call's negative errno, or -EAGAIN (no thread). */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);    /* any thread */
/* The request that this thread answers will wait for others: another worker reads on. Nothing on other threads. */
void loop_will_wait(void);
void loop_destroy(struct loop *loop); /* after loop_run() */

#endif
