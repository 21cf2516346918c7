/* SPDX-License-Identifier: MIT */
/*
 * object.c - memory for small objects that are made by one thread and freed by another
 *
 * Theory
 *
 * Nodes, heads and inodes are allocated by whoever works and freed by the RCU thread, by the thousand at a time. With
 * malloc() the two meet in the lock of the allocating thread's arena: each time, one of them sleeps, and the other pays for
 * waking it up. Here the RCU thread pushes onto a stack that allocating threads take as a whole when they have
 * nothing left; neither waits for the other. What is kept too much, and what is needed beyond, is slab.c's.
 *
 * O1  returned[class] is a stack: objects are pushed one by one and taken all at once, so that there is no ABA.
 * O2  shard.run[class] belongs to whoever has shard.busy. A thread that finds its shard taken uses another one.
 * O3  kept_bytes is at least what the stacks hold and shards took from them, so that these hold at most KEPT_BYTES_MAX: a push adds
 *     first, what a shard took is subtracted when it has been used up. Beyond that objects go back to their slabs.
 *
 * With AddressSanitizer everything goes to malloc() and free(), which know what is used after it was freed.
 */
#include "base/object.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/slab.h"

#define SHARDS         8u
#define KEPT_BYTES_MAX (8u << 20)

static_assert(OBJECT_BYTES_MAX == SLAB_CLASSES * SLAB_CLASS_BYTES, "each size has its class");

#ifdef UEXT4_ASAN
#define RECYCLES false
#else
#define RECYCLES true
#endif

struct object_shard {
	atomic_bool busy;
	struct slab_run run[SLAB_CLASSES];    /* [busy] */
	uint32_t taken_bytes[SLAB_CLASSES];   /* [busy] of kept_bytes, by the objects that came with the last stack */
} __attribute__((aligned(64)));

static struct object_shard shards[SHARDS];
static _Atomic(struct slab_object *) returned[SLAB_CLASSES];
static atomic_uint returned_bytes[SLAB_CLASSES]; /* part of kept_bytes; goes with the stack to the shard that takes it */
static atomic_uint kept_bytes;

/* Each thread keeps to a shard; 0: it has none yet. */
static __thread unsigned shard_tls __attribute__((tls_model("initial-exec")));
static atomic_uint next_shard;

static unsigned own_shard(void)
{
	if (unlikely(!shard_tls))
		shard_tls = atomic_fetch_add_explicit(&next_shard, 1, memory_order_relaxed) % SHARDS + 1;
	return shard_tls - 1;
}

static unsigned class_of(size_t bytes)
{
	return bytes ? (unsigned)((bytes - 1) / SLAB_CLASS_BYTES) : 0;
}

static bool is_recycled(size_t bytes)
{
	return RECYCLES && bytes <= OBJECT_BYTES_MAX;
}

static bool shard_try(struct object_shard *shard)
{
	return !atomic_exchange_explicit(&shard->busy, true, memory_order_acquire);
}

/* The thread's own, or else one that is free (O2); with more threads than shards at it, when one comes free. */
static struct object_shard *shard_enter(void)
{
	for (unsigned i = own_shard(), tried = 1;; i = (i + 1) % SHARDS, tried++) {
		if (shard_try(&shards[i]))
			return &shards[i];
		if (tried % SHARDS == 0)
			sched_yield();
	}
}

static void shard_leave(struct object_shard *shard)
{
	atomic_store_explicit(&shard->busy, false, memory_order_release);
}

/* Busy, and nothing of @class left: O3, then the whole stack (O1), true if there was one. */
static bool shard_take_returned(struct object_shard *shard, unsigned class)
{
	if (shard->taken_bytes[class])
		atomic_fetch_sub_explicit(&kept_bytes, shard->taken_bytes[class], memory_order_relaxed);
	shard->taken_bytes[class] = 0;
	if (!atomic_load_explicit(&returned[class], memory_order_relaxed))
		return false;
	shard->taken_bytes[class] = atomic_exchange_explicit(&returned_bytes[class], 0, memory_order_relaxed);
	shard->run[class].used = atomic_exchange_explicit(&returned[class], NULL, memory_order_acquire);
	return shard->run[class].used != NULL;
}

static void *run_pop(struct slab_run *run, size_t bytes)
{
	void *object = run->used;

	if (object) {
		run->used = run->used->next;
	} else if (run->at != run->end) {
		object = run->at;
		run->at += bytes;
	}
	return object;
}

void *object_alloc(size_t bytes)
{
	unsigned class = class_of(bytes);
	size_t class_bytes = (class + 1) * (size_t)SLAB_CLASS_BYTES;
	struct object_shard *shard;
	struct slab_run *run;
	void *object;

	if (!is_recycled(bytes))
		return calloc(1, bytes);
	shard = shard_enter();
	run = &shard->run[class];
	object = run_pop(run, class_bytes);
	if (!object && (shard_take_returned(shard, class) || slab_take(class, run)))
		object = run_pop(run, class_bytes);
	shard_leave(shard);
	return object ? memset(object, 0, bytes) : NULL;
}

void object_free(void *p, size_t bytes)
{
	unsigned class = class_of(bytes), class_bytes = (class + 1) * SLAB_CLASS_BYTES;
	struct slab_object *object = p;

	if (!p || !is_recycled(bytes)) {
		free(p);
		return;
	}
	if (atomic_fetch_add_explicit(&kept_bytes, class_bytes, memory_order_relaxed) > KEPT_BYTES_MAX - class_bytes) {
		atomic_fetch_sub_explicit(&kept_bytes, class_bytes, memory_order_relaxed);
		slab_give(p);
		return;
	}
	atomic_fetch_add_explicit(&returned_bytes[class], class_bytes, memory_order_relaxed);
	object->next = atomic_load_explicit(&returned[class], memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&returned[class], &object->next, object, memory_order_release,
						      memory_order_relaxed))
		;
}

static void run_give(unsigned class, struct slab_run *run)
{
	while (run->used) {
		struct slab_object *object = run->used;

		run->used = object->next;
		slab_give(object);
	}
	slab_give_rest(class, run);
}

void objects_trim(void)
{
	for (struct object_shard *shard = shards; shard < shards + SHARDS; shard++) {
		if (!shard_try(shard))
			continue; /* its thread is allocating: it will use what is there */
		for (unsigned class = 0; class < SLAB_CLASSES; class++)
			do
				run_give(class, &shard->run[class]);
			while (shard_take_returned(shard, class));
		shard_leave(shard);
	}
	slab_trim();
}
