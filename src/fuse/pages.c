/* SPDX-License-Identifier: MIT */
/*
 * pages.c - writing back and dropping what the kernel caches of a file
 *
 * The kernel does it while it takes our notification, and waits for the answers to its WRITEs: so no worker may send one. A
 * thread does, one file after another.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "fuse/server.h"

struct job {
	TAILQ_ENTRY(job) node;
	fuse_ino_t ino;
	void (*then)(void *arg); /* NULL: nothing */
	void *arg;
};

struct pages {
	struct fuse_session *session; /* [const] */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	TAILQ_HEAD(, job) jobs;       /* [lock] not begun */
	bool stopped;                 /* [lock] */
	bool joined;                  /* [stopper] */
};

static void run(struct pages *p, struct job *job)
{
	fuse_lowlevel_notify_inval_inode(p->session, job->ino, 0, 0); /* -ENOENT: the kernel has dropped it */
	if (job->then)
		job->then(job->arg);
	free(job);
}

static void *pages_main(void *arg)
{
	struct pages *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stopped) {
		struct job *job = TAILQ_FIRST(&p->jobs);

		if (!job) {
			pthread_cond_wait(&p->cond, &p->lock);
			continue;
		}
		TAILQ_REMOVE(&p->jobs, job, node);
		pthread_mutex_unlock(&p->lock);
		run(p, job);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

struct pages *pages_start(struct fuse_session *session)
{
	struct pages *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->session = session;
	TAILQ_INIT(&p->jobs);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->cond, NULL);
	if (!pthread_create(&p->thread, NULL, pages_main, p))
		return p;
	p->joined = true;
	pages_free(p);
	return NULL;
}

void pages_stop(struct pages *p)
{
	if (p->joined)
		return;
	pthread_mutex_lock(&p->lock);
	p->stopped = true;
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	p->joined = true;
}

/* Whoever waits for a job that was not begun hears from it: the pages stay. */
void pages_free(struct pages *p)
{
	struct job *job;

	pages_stop(p);
	while ((job = TAILQ_FIRST(&p->jobs))) {
		TAILQ_REMOVE(&p->jobs, job, node);
		if (job->then)
			job->then(job->arg);
		free(job);
	}
	pthread_cond_destroy(&p->cond);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Caller: lock. One job that nobody waits for is enough for a file, so there are no more than files. */
static bool is_queued(const struct pages *p, fuse_ino_t ino)
{
	const struct job *job;

	TAILQ_FOREACH(job, &p->jobs, node)
		if (job->ino == ino && !job->then)
			return true;
	return false;
}

/* Takes over *@job unless it is needless or too late. */
static bool add(struct pages *p, struct job *job)
{
	bool wanted;

	pthread_mutex_lock(&p->lock);
	wanted = !p->stopped && (job->then || !is_queued(p, job->ino));
	if (wanted) {
		TAILQ_INSERT_TAIL(&p->jobs, job, node);
		pthread_cond_signal(&p->cond);
	}
	pthread_mutex_unlock(&p->lock);
	return wanted;
}

void pages_drop(struct pages *p, fuse_ino_t ino)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return;
	job->ino = ino;
	if (!add(p, job))
		free(job);
}

void pages_drop_then(struct pages *p, fuse_ino_t ino, void (*then)(void *arg), void *arg)
{
	struct job *job = calloc(1, sizeof(*job));

	if (job)
		*job = (struct job){ .ino = ino, .then = then, .arg = arg };
	if (job && add(p, job))
		return;
	free(job);
	then(arg);
}
