/* SPDX-License-Identifier: MIT */
/*
 * slab.c - slabs of 256 KiB, each cut into objects of one size
 *
 * Theory
 *
 * malloc() grows the heap of a thread other than the first by one page at a time, with a system call and a page fault each, under
 * the lock of the process's address space: two threads that fill caches wait for each other there. A slab is populated with
 * one call, and given back with one: each interrupts the other threads, so that slabs are not smaller. All but the first
 * lie in huge pages where the system has them: with the first slab of one come all of it.
 *
 * B1  A slab is aligned to its size, so that an object's address tells its slab.
 * B2  nr_free counts the objects in slab.free and those from slab.fresh on. All others are in use: by callers, or in what they keep.
 * B3  A slab with 0 < nr_free < nr_objects is on its class's list. With nr_free == nr_objects it is on the list of empty
 *     slabs, without memory but for the page of its head, and may become a slab of any class.
 *
 * The lists are linked through the slabs; link points to whatever points to the slab, so that one can be taken out of the middle.
 */
#include "base/slab.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/aligned_map.h"
#include "base/lock.h"

#define SLAB_BYTES     (UINT64_C(256) << 10)
#define REGION_BYTES   (UINT64_C(2) << 20) /* a huge page on most systems */
#define FIRST_BYTES    (UINT64_C(4) << 20) /* of the first region, which is populated by faults: what stays small touches few pages */

struct slab {
	struct slab *next, **link;  /* [class or empty lock] list of its class, or of empty slabs */
	struct slab_object *free;   /* [class lock] */
	uint8_t *fresh;             /* [class lock] the objects from here on have not been touched */
	uint32_t nr_free;           /* [class lock] B2 */
	uint32_t nr_objects;        /* [const] while it has a class */
	uint32_t class;             /* [const] likewise */
};

#define HEAD_BYTES round_up_to((uint32_t)sizeof(struct slab), SLAB_CLASS_BYTES)

struct slab_class {
	struct mutex lock;
	struct slab *partial;       /* [lock] B3 */
};

static struct slab_class classes[SLAB_CLASSES] = {
	[0 ... SLAB_CLASSES - 1] = { .lock = MUTEX_INITIALIZER(RANK_MEMORY) },
};

/* Address space for new slabs. */
static struct {
	struct mutex lock;
	struct slab *empty;         /* [lock] B3 */
	uint8_t *at, *end;          /* [lock] rest of the region mapped last */
	bool is_grown;              /* [lock] it is not the first */
} space = { .lock = MUTEX_INITIALIZER(RANK_MEMORY) };

static void slab_link(struct slab **list, struct slab *slab)
{
	slab->next = *list;
	slab->link = list;
	if (slab->next)
		slab->next->link = &slab->next;
	*list = slab;
}

static void slab_unlink(struct slab *slab)
{
	*slab->link = slab->next;
	if (slab->next)
		slab->next->link = slab->link;
}

/* ---- address space ---- */

/* space.lock held. */
static bool region_map(void)
{
	bool is_grown = space.end != NULL;
	size_t bytes = is_grown ? REGION_BYTES : FIRST_BYTES;
	uint8_t *map = aligned_map(bytes, REGION_BYTES);

	if (!map)
		return false;
	madvise(map, bytes, is_grown ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); /* advice: pages of any size do */
	space.is_grown = is_grown;
	space.at = map;
	space.end = map + bytes;
	return true;
}

/* *populate_out: it is to be populated at once. */
static struct slab *space_take(bool *populate_out)
{
	struct slab *slab = NULL;

	mutex_lock(&space.lock);
	if (space.empty) {
		slab = space.empty;
		slab_unlink(slab);
	} else if (space.at != space.end || region_map()) {
		slab = (struct slab *)(void *)space.at;
		space.at += SLAB_BYTES;
	}
	*populate_out = space.is_grown;
	mutex_unlock(&space.lock);
	return slab;
}

static void space_give(struct slab *slab)
{
	size_t head = round_up_to(HEAD_BYTES, (size_t)sysconf(_SC_PAGESIZE));

	madvise(slab, SLAB_BYTES, MADV_NOHUGEPAGE); /* or the system might make it one again, with what is given back */
	if (head < SLAB_BYTES)
		madvise((uint8_t *)slab + head, SLAB_BYTES - head, MADV_DONTNEED);
	mutex_lock(&space.lock);
	slab_link(&space.empty, slab);
	mutex_unlock(&space.lock);
}

void slab_trim(void)
{
	mutex_lock(&space.lock);
	while (space.empty) {
		struct slab *slab = space.empty;

		slab_unlink(slab);
		munmap(slab, SLAB_BYTES);
	}
	mutex_unlock(&space.lock);
}

/* ---- objects ---- */

static struct slab *slab_of(void *object)
{
	return (struct slab *)((uintptr_t)object & ~(uintptr_t)(SLAB_BYTES - 1)); /* B1 */
}

static uint8_t *slab_end(struct slab *slab)
{
	return (uint8_t *)slab + HEAD_BYTES + (size_t)slab->nr_objects * (slab->class + 1) * SLAB_CLASS_BYTES;
}

/* Whole, for the caller to use up. */
static bool slab_new(unsigned class, struct slab_run *run_out)
{
	uint32_t bytes = (class + 1) * SLAB_CLASS_BYTES;
	bool populate;
	struct slab *slab = space_take(&populate);

	if (!slab)
		return false;
	if (populate)
		madvise(slab, SLAB_BYTES, MADV_POPULATE_WRITE); /* advice: without it, by faults */
	*slab = (struct slab){ .class = class, .nr_objects = ((uint32_t)SLAB_BYTES - HEAD_BYTES) / bytes };
	slab->fresh = slab_end(slab);
	*run_out = (struct slab_run){ .at = (uint8_t *)slab + HEAD_BYTES, .end = slab->fresh };
	return true;
}

bool slab_take(unsigned class, struct slab_run *run_out)
{
	struct slab_class *c = &classes[class];
	struct slab *slab;

	mutex_lock(&c->lock);
	slab = c->partial;
	if (slab) {
		slab_unlink(slab);
		*run_out = (struct slab_run){ .used = slab->free, .at = slab->fresh, .end = slab_end(slab) };
		slab->free = NULL;
		slab->fresh = run_out->end;
		slab->nr_free = 0;
	}
	mutex_unlock(&c->lock);
	return slab || slab_new(class, run_out);
}

/* c->lock held, dropped on return. @count more objects of @slab are free. */
static void slab_count_free_unlock(struct slab_class *c, struct slab *slab, uint32_t count)
{
	bool is_empty;

	if (!slab->nr_free)
		slab_link(&c->partial, slab);
	slab->nr_free += count;
	is_empty = slab->nr_free == slab->nr_objects;
	if (is_empty)
		slab_unlink(slab);
	mutex_unlock(&c->lock);
	if (is_empty)
		space_give(slab);
}

void slab_give(void *p)
{
	struct slab_object *object = p;
	struct slab *slab = slab_of(object);
	struct slab_class *c = &classes[slab->class];

	mutex_lock(&c->lock);
	object->next = slab->free;
	slab->free = object;
	slab_count_free_unlock(c, slab, 1);
}

void slab_give_rest(unsigned class, struct slab_run *run)
{
	struct slab_class *c = &classes[class];
	struct slab *slab;
	uint32_t count = (uint32_t)((size_t)(run->end - run->at) / ((class + 1) * SLAB_CLASS_BYTES));

	if (!count)
		return;
	slab = slab_of(run->at);
	mutex_lock(&c->lock);
	slab->fresh = run->at;
	run->at = run->end;
	slab_count_free_unlock(c, slab, count);
}
