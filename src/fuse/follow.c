/* SPDX-License-Identifier: MIT */
/*
 * follow.c - a worker that runs on its caller's processor
 *
 * A caller that waits for each answer and a worker that waits for each request never run at the same time. On two
 * processors each hand-over between them is an interrupt to a processor that has gone idle, microseconds, and many of
 * them on a virtual machine; on one it is a context switch. So the worker finds out where the caller runs and confines
 * itself to that processor:
 *
 * F1  It follows a thread after `needed` small requests in quick succession from it, and looks again every LOOK_EVERY:
 *     the caller may have moved.
 * F2  A request of another thread, or one with much data, ends it: these gain from a second processor. The next
 *     caller must be steadier (needed doubles), until one has been followed for long.
 * F3  A pause ends it: there is nothing to be gained for a caller with other work to do.
 * F4  The scheduler wakes the caller on an idle processor, if there is one, and so away from us. With two processors
 *     the keeper sees to it that the other is not idle (keeper.c). With more the worker would only chase the caller:
 *     it does not follow there.
 * F5  Where /proc does not tell, or the processor is not ours to use, it stops trying.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuse/follow.h"
#include "fuse/keeper.h"

#define NEEDED_MIN 16u
#define NEEDED_MAX 1024u
#define LOOK_EVERY 64u
#define QUICK_NS   500000u /* F3 */

#define STAT_FIELD_STATE 3u /* proc(5), counted from 1 */
#define STAT_FIELD_CPU   39u

/* The processor @tid ran on last, or a negative errno. */
static int cpu_of(uint32_t tid)
{
	char path[32], text[1024], *p;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return -ESRCH;
	text[len] = '\0';
	p = strrchr(text, ')'); /* the name may hold anything, blanks too */
	for (unsigned field = STAT_FIELD_STATE - 1; p && field < STAT_FIELD_CPU; field++)
		p = strchr(p + 1, ' ');
	return p ? atoi(p + 1) : -EINVAL;
}

static bool confine(const struct follow *f, int cpu)
{
	cpu_set_t one;

	if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &f->anywhere))
		return false;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return !sched_setaffinity(0, sizeof(one), &one);
}

void follow_init(struct follow *f, struct keeper *keeper)
{
	*f = (struct follow){ .enabled = keeper != NULL, .needed = NEEDED_MIN, .keeper = keeper };
	if (sched_getaffinity(0, sizeof(f->anywhere), &f->anywhere) || CPU_COUNT(&f->anywhere) != 2) /* F4 */
		f->enabled = false;
}

void follow_leave(struct follow *f)
{
	f->streak = 0;
	if (!f->following)
		return;
	f->following = false;
	sched_setaffinity(0, sizeof(f->anywhere), &f->anywhere);
}

void follow_set_attr(const struct follow *f, pthread_attr_t *attr)
{
	if (f->following)
		pthread_attr_setaffinity_np(attr, sizeof(f->anywhere), &f->anywhere);
}

/* F5 */
static void give_up(struct follow *f)
{
	follow_leave(f);
	f->enabled = false;
}

/* F1 */
static void look(struct follow *f)
{
	int cpu = cpu_of(f->caller);

	f->streak = 0;
	if (cpu == -ENOENT || cpu == -ESRCH) { /* it has ended */
		follow_leave(f);
		return;
	}
	if (f->following) {
		f->needed = NEEDED_MIN;
		if (cpu == f->cpu)
			return;
	}
	f->cpu = cpu;
	if (confine(f, cpu))
		f->following = true;
	else
		give_up(f);
}

/* F2 */
static void disturb(struct follow *f)
{
	if (f->following && f->needed < NEEDED_MAX)
		f->needed *= 2;
	follow_leave(f);
}

bool follow_note(struct follow *f, uint32_t caller, bool bulk, uint64_t now_ns)
{
	if (!f->enabled || (!caller && !bulk))
		return f->following;
	if (bulk || caller != f->caller)
		disturb(f);
	else if (now_ns - f->last_ns > QUICK_NS)
		follow_leave(f);
	f->caller = caller;
	f->last_ns = now_ns;
	if (++f->streak >= (f->following ? LOOK_EVERY : f->needed))
		look(f);
	if (f->following)
		keeper_extend(f->keeper, now_ns + QUICK_NS);
	return f->following;
}
