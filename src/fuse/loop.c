/* SPDX-License-Identifier: MIT */
/*
 * loop.c - who reads requests, and who sleeps
 *
 * A null request through /dev/fuse costs mostly wake-ups: of the server's thread when the request arrives, and of the
 * caller when the answer does. So one thread, the *leader*, reads and answers requests one after another on its own,
 * and for spin_us after each answer looks for the next one before it goes to sleep: a caller that works steadily
 * never waits for a wake-up of ours.
 *
 * L1  There is at most one leader. Only the leader spins and sleeps on the device.
 * L2  A leader that meets a backlog (requests follow each other without a pause, and another is waiting) wakes a
 *     helper, which reads until the queue is empty and goes back to sleep.
 * L3  A leader that may block (fsync) hands the lead over first. One that blocks unforeseen (a cold read, a wait for
 *     log space) loses the lead to the standby, an idle worker that looks in every WATCH_NS while requests flow. So that there is
 *     one, whoever is the last to leave the idle starts another.
 * L4  The standby sleeps without a timer when no request came for QUIET_NS; the leader wakes it with the next one.
 * L5  A leader with one steady caller runs on his processor (follow.c), and there sleeps at once: to spin would keep
 *     the caller from running.
 * L6  While several callers take turns (crowd.c), one worker cannot be on all their processors, and one that spins keeps
 *     them from one. So the leader has a *partner*, both sleep on the device at once when it is empty, and each caller
 *     mostly finds one of them on his own processor. There is at most one partner, and only it and the leader sleep there.
 *     Helpers (L2) come too only where requests are slow: they wait for something.
 *
 * There are up to max_threads workers.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "fuse/crowd.h"
#include "fuse/follow.h"
#include "fuse/keeper.h"
#include "fuse/loop.h"

#define WATCH_NS       1000000ull   /* L3: a blocked leader costs others at most two of these */
#define QUIET_NS       100000000ull /* L4 */
#define BACKLOG_STREAK 4u           /* requests in a row without an empty read: worth asking whether more wait */
#define SPIN_PAUSES    40u          /* between two looks at the device, about a microsecond */

struct worker {
	struct loop *loop;          /* [const] */
	struct request_buffer buffer; /* [owner thread] */
	unsigned streak;            /* [owner thread] requests since the last empty read */
	struct follow follow;       /* [owner thread] L5 */
	pthread_t thread;           /* [const] */
};

struct loop {
	struct server *server;          /* [const] */
	int device_fd, stop_fd;         /* [const] */
	struct keeper *keeper;          /* [const] NULL: no worker follows its caller */
	struct worker *workers;         /* [const pointer] max_threads of them */
	pthread_mutex_t lock;
	pthread_cond_t idle_cond;       /* CLOCK_MONOTONIC */
	unsigned started;               /* [lock] workers running */
	unsigned idle;                  /* [lock] of them, waiting on idle_cond, or on their way there since they were started */
	unsigned helpers_wanted;        /* [lock] wake-ups not yet taken (L2) */
	bool watching;                  /* [lock] one of the idle is the standby */
	struct crowd crowd;
	_Atomic(struct worker *) partner; /* [atomic] L6; by compare-and-swap from NULL, cleared by itself */
	_Atomic(struct worker *) leader; /* [atomic] written under lock, or by compare-and-swap from NULL */
	_Atomic uint64_t busy_since_ns; /* [atomic] the leader's request in hand, 0: none */
	_Atomic uint64_t last_request_ns; /* [atomic] for L4, coarse */
	_Atomic bool standby_sleeps;    /* [atomic] L4: without a timer, or about to */
	_Atomic bool stopped;
	_Atomic int err;
};

static _Thread_local struct worker *current; /* this thread's */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *worker_main(void *arg);

/*
 * Caller: loop->lock. @by is the calling worker, NULL: none. A failure to start one leaves fewer workers: the ones there
 * are go on.
 */
static void start_worker(struct loop *loop, const struct worker *by)
{
	struct worker *w = &loop->workers[loop->started];
	pthread_attr_t attr;

	if (loop->started == loop->server->options.max_threads || loop->stopped || request_buffer_alloc(&w->buffer))
		return;
	w->loop = loop;
	pthread_attr_init(&attr);
	if (by)
		follow_set_attr(&by->follow, &attr);
	if (pthread_create(&w->thread, &attr, worker_main, w)) {
		request_buffer_free(&w->buffer);
	} else {
		loop->started++;
		loop->idle++;
	}
	pthread_attr_destroy(&attr);
}

static void stop_all(struct loop *loop, int err)
{
	pthread_mutex_lock(&loop->lock);
	if (err && !loop->err)
		loop->err = err;
	loop->stopped = true;
	pthread_cond_broadcast(&loop->idle_cond);
	pthread_mutex_unlock(&loop->lock);
	eventfd_write(loop->stop_fd, 1);
}

static void wake_helper(struct worker *by)
{
	struct loop *loop = by->loop;

	pthread_mutex_lock(&loop->lock);
	if (!loop->idle)
		start_worker(loop, by);
	if (loop->idle > loop->helpers_wanted)
		loop->helpers_wanted++;
	pthread_cond_signal(&loop->idle_cond);
	pthread_mutex_unlock(&loop->lock);
}

/* L4. Any of the idle may be it: all look. */
static void wake_standby(struct loop *loop)
{
	pthread_mutex_lock(&loop->lock);
	pthread_cond_broadcast(&loop->idle_cond);
	pthread_mutex_unlock(&loop->lock);
}

/* L3, foreseen: somebody idle takes the lead while this one works, or the first to become so. No other worker: it stays. */
static void hand_over(struct worker *w)
{
	struct loop *loop = w->loop;

	pthread_mutex_lock(&loop->lock);
	if (loop->leader == w && !loop->idle)
		start_worker(loop, w);
	if (loop->leader == w && loop->started > 1) {
		loop->leader = NULL;
		loop->busy_since_ns = 0;
		pthread_cond_signal(&loop->idle_cond);
		loop->server->handovers++;
	}
	pthread_mutex_unlock(&loop->lock);
}

void loop_will_wait(void)
{
	if (current && current->loop->leader == current)
		hand_over(current);
}

/* L3, unforeseen: the standby's look at the leader. Caller: loop->lock. */
static bool take_from_blocked(struct worker *w)
{
	struct loop *loop = w->loop;
	uint64_t since = loop->busy_since_ns;

	if (!since || now_ns() - since < WATCH_NS)
		return false;
	loop->leader = w;
	loop->busy_since_ns = 0;
	loop->server->handovers++;
	return true;
}

/* Caller: loop->lock. The standby waits with a timer while requests flow, other idle workers without. */
static void wait_idle(struct loop *loop, bool standby)
{
	struct timespec until;
	uint64_t last, t;

	/* A leader that does not see this yet has a request that we see below. */
	loop->standby_sleeps |= standby;
	last = loop->last_request_ns;
	t = now_ns(); /* after it, or it might be later */
	if (!standby || t - last > QUIET_NS) {
		pthread_cond_wait(&loop->idle_cond, &loop->lock);
		return;
	}
	loop->standby_sleeps = false;
	t += WATCH_NS;
	until = (struct timespec){ (time_t)(t / 1000000000u), (long)(t % 1000000000u) };
	pthread_cond_timedwait(&loop->idle_cond, &loop->lock, &until);
}

/* Returns once this worker leads or is wanted as a helper; false: the loop has stopped. */
static bool wait_for_role(struct worker *w)
{
	struct loop *loop = w->loop;
	bool standby = false, have = false;

	pthread_mutex_lock(&loop->lock);
	while (!loop->stopped && !have) {
		if (!loop->leader) {
			loop->leader = w;
			have = true;
		} else if (loop->helpers_wanted) {
			loop->helpers_wanted--;
			have = true;
		} else if (standby && take_from_blocked(w)) {
			have = true;
		} else {
			if (!standby && !loop->watching)
				standby = loop->watching = true;
			wait_idle(loop, standby);
			if (standby)
				loop->standby_sleeps = false;
		}
	}
	loop->idle--;
	if (!loop->idle)
		start_worker(loop, w); /* L3 */
	if (standby) {
		loop->watching = false;
		pthread_cond_signal(&loop->idle_cond); /* another becomes the standby */
	}
	pthread_mutex_unlock(&loop->lock);
	return !loop->stopped;
}

static struct worker *loop_partner(const struct loop *loop)
{
	return atomic_load_explicit(&loop->partner, memory_order_relaxed);
}

static bool more_waiting(struct loop *loop)
{
	struct pollfd p = { .fd = loop->device_fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

/*
 * After INIT, and perhaps also after the request behind it, whose worker was faster. Where libfuse has refused INIT, it has said
 * why, and nothing will ever work.
 */
static void tell_ready(struct loop *loop)
{
	struct server *server = loop->server;
	void (*on_ready)(struct server *) = atomic_exchange(&server->on_ready, NULL);

	if (!on_ready)
		return;
	if (fuse_session_exited(server->session))
		stop_all(loop, -EPROTO);
	else
		on_ready(server);
}

/* The leader's view of a request that it is about to answer, at @t. */
static void lead(struct worker *w, const struct raw_request *raw, bool crowd, uint64_t t)
{
	struct loop *loop = w->loop;

	if (crowd)
		follow_leave(&w->follow);
	else if (follow_note(&w->follow, raw->caller, raw->bulk, t))
		atomic_fetch_add_explicit(&loop->server->followed, 1, memory_order_relaxed);
	if (raw_request_may_block(raw)) {
		hand_over(w);
		return;
	}
	loop->busy_since_ns = t;
	loop->last_request_ns = t;
	if (loop->standby_sleeps)
		wake_standby(loop);
}

/* L6: this worker, which does not lead, is the partner, or becomes it if there is none. */
static bool is_partner(struct worker *w)
{
	struct worker *none = NULL;

	return loop_partner(w->loop) == w || atomic_compare_exchange_strong(&w->loop->partner, &none, w);
}

static void partner_leave(struct worker *w)
{
	struct worker *self = w;

	atomic_compare_exchange_strong(&w->loop->partner, &self, NULL);
}

/* L2, L6: should another worker read too? */
static bool help_is_wanted(struct worker *w, bool crowd)
{
	struct loop *loop = w->loop;

	if (++w->streak < BACKLOG_STREAK || w->follow.following)
		return false;
	if (crowd && !loop_partner(loop))
		return true;
	return (!crowd || crowd_is_slow(&loop->crowd)) && more_waiting(loop);
}

static void process(struct worker *w, int len)
{
	struct loop *loop = w->loop;
	struct server *server = loop->server;
	struct fuse_buf request = { .mem = w->buffer.bytes, .size = (size_t)len };
	const struct raw_request *raw = raw_request_current();
	uint64_t t = 0;
	bool crowd;

	raw_request_note(server, w->buffer.bytes, (size_t)len);
	crowd = crowd_note(&loop->crowd, raw->caller);
	if (crowd || loop->leader == w)
		t = now_ns();
	if (help_is_wanted(w, crowd))
		wake_helper(w);
	if (loop->leader == w)
		lead(w, raw, crowd, t);
	else if (raw_request_may_block(raw))
		partner_leave(w);
	raw_request_translate(w->buffer.bytes, (size_t)len);
	fuse_session_process_buf(server->session, &request);
	if (server->on_ready)
		tell_ready(loop);
	if (loop->leader == w) {
		uint64_t begun = t; /* who has taken the lead in between has begun at another time */

		atomic_compare_exchange_strong(&loop->busy_since_ns, &begun, 0);
	}
	if (crowd)
		crowd_served(&loop->crowd, now_ns() - t);
}

/* Spins for the next request until @deadline_ns. 1: look again, 0: the time is over. */
static bool spin(struct loop *loop, uint64_t deadline_ns)
{
	loop->server->reads_empty++;
	for (unsigned i = 0; i < SPIN_PAUSES; i++)
#if defined(__x86_64__) || defined(__i386__)
		__builtin_ia32_pause();
#else
		__asm__ volatile("" ::: "memory");
#endif
	return now_ns() < deadline_ns;
}

static void sleep_on_device(struct loop *loop)
{
	struct pollfd p[2] = { { .fd = loop->device_fd, .events = POLLIN }, { .fd = loop->stop_fd, .events = POLLIN } };

	poll(p, 2, -1);
}

/* Length of the request read, 0: unmounted, or a negative errno. */
static int receive(struct worker *w)
{
	ssize_t len = read(w->loop->device_fd, w->buffer.bytes, w->buffer.room_bytes);

	if (len >= 0)
		return (int)len;
	switch (errno) {
	case ENODEV: /* unmounted */
		return 0;
	case ENOENT: /* interrupted before it was read */
		return -EINTR;
	default:
		return -errno;
	}
}

/* Nothing to read. False: this worker is not needed any more. @deadline_ns: of its spinning, 0: it has not begun. */
static bool wait_for_request(struct worker *w, uint64_t *deadline_ns)
{
	struct loop *loop = w->loop;
	bool crowd = crowd_is_one(&loop->crowd), leads = loop->leader == w;

	w->streak = 0;
	if (!leads && (!crowd || !is_partner(w)))
		return false;
	if (!leads)
		follow_leave(&w->follow); /* it may have led, lost the lead as it was blocked, and be the partner now */
	if (!*deadline_ns)
		*deadline_ns = now_ns() + loop->server->options.spin_us * 1000ull;
	if (!leads || w->follow.following || (crowd && loop_partner(loop)) || !spin(loop, *deadline_ns)) {
		sleep_on_device(loop);
		*deadline_ns = 0;
	}
	return true;
}

/* Reads and answers requests while this worker leads or is the leader's partner; a helper goes when the queue is empty. */
static void serve(struct worker *w)
{
	struct loop *loop = w->loop;
	uint64_t deadline_ns = 0;

	while (!loop->stopped) {
		int len = receive(w);

		if (len > 0) {
			process(w, len);
			deadline_ns = 0;
			continue;
		}
		if (len == 0 || (len != -EAGAIN && len != -EINTR)) {
			stop_all(loop, len);
			return;
		}
		if (!wait_for_request(w, &deadline_ns))
			return;
	}
}

static void become_idle(struct loop *loop)
{
	pthread_mutex_lock(&loop->lock);
	loop->idle++;
	pthread_mutex_unlock(&loop->lock);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	current = w;
	follow_init(&w->follow, w->loop->keeper);
	while (wait_for_role(w)) {
		serve(w);
		partner_leave(w);
		follow_leave(&w->follow);
		become_idle(w->loop);
	}
	request_buffer_free(&w->buffer);
	return NULL;
}

struct loop *loop_create(struct server *server)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	pthread_condattr_t attr;

	if (!loop)
		return NULL;
	loop->server = server;
	crowd_init(&loop->crowd);
	loop->device_fd = server->device_fd;
	loop->stop_fd = eventfd(0, EFD_CLOEXEC);
	loop->workers = calloc(server->options.max_threads, sizeof(*loop->workers));
	if (loop->stop_fd < 0 || !loop->workers) {
		if (loop->stop_fd >= 0)
			close(loop->stop_fd);
		free(loop->workers);
		free(loop);
		return NULL;
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&loop->idle_cond, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&loop->lock, NULL);
	return loop;
}

static unsigned workers_started(struct loop *loop)
{
	unsigned started;

	pthread_mutex_lock(&loop->lock);
	started = loop->started;
	pthread_mutex_unlock(&loop->lock);
	return started;
}

int loop_run(struct loop *loop)
{
	if (loop->server->options.follow_caller)
		loop->keeper = keeper_start();
	pthread_mutex_lock(&loop->lock);
	start_worker(loop, NULL);
	start_worker(loop, NULL);
	pthread_mutex_unlock(&loop->lock);
	if (!workers_started(loop))
		return -EAGAIN;
	/* Workers start others before they end: joined in order, all have been started once the last is reached. */
	for (unsigned i = 0; i < workers_started(loop); i++)
		pthread_join(loop->workers[i].thread, NULL);
	return loop->err;
}

void loop_stop(struct loop *loop)
{
	stop_all(loop, 0);
}

void loop_destroy(struct loop *loop)
{
	keeper_stop(loop->keeper);
	pthread_cond_destroy(&loop->idle_cond);
	pthread_mutex_destroy(&loop->lock);
	close(loop->stop_fd);
	free(loop->workers);
	free(loop);
}
