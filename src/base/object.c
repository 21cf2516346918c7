/* SPDX-License-Identifier: MIT */
/*
 * object.c - memory for small objects that are made by one thread and freed by another
 *
 * Theory
 *
 * Nodes, heads and inodes are allocated by whoever works and freed by the RCU thread, by the thousand at a time. With
 * malloc() the two meet in the lock of the allocating thread's arena: each time, one of them sleeps, and the other pays for
 * waking it up. Here the RCU thread pushes onto a stack that allocating threads take as a whole when they have
 * nothing left; neither ever waits.
 *
 * O1  returned[class] is a stack: objects are pushed one by one and taken all at once, so that there is no ABA.
 * O2  shard.free[class] belongs to whoever has shard.busy. A thread that finds it taken uses malloc().
 * O3  kept_bytes is at least what the stacks and shards hold, so that they hold at most KEPT_BYTES_MAX: a push adds first,
 *     what a shard took is subtracted when it has been used up. Beyond that objects go to free().
 *
 * With AddressSanitizer everything goes to malloc() and free(), which know what is used after it was freed.
 */
#include "base/object.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_BYTES    64u
#define CLASSES        (OBJECT_BYTES_MAX / CLASS_BYTES)
#define SHARDS         8u
#define KEPT_BYTES_MAX (8u << 20)

#ifdef UEXT4_ASAN
#define RECYCLES false
#else
#define RECYCLES true
#endif

struct object {
	struct object *next;
};

struct object_shard {
	atomic_bool busy;
	struct object *free[CLASSES];  /* [busy] */
	uint32_t taken_bytes[CLASSES]; /* [busy] of kept_bytes, by the objects that came with the last stack */
} __attribute__((aligned(64)));

static struct object_shard shards[SHARDS];
static _Atomic(struct object *) returned[CLASSES];
static atomic_uint returned_bytes[CLASSES]; /* part of kept_bytes; goes with the stack to the shard that takes it */
static atomic_uint kept_bytes;

/* Each thread keeps to a shard; 0: it has none yet. */
static __thread unsigned shard_tls __attribute__((tls_model("initial-exec")));
static atomic_uint next_shard;

static struct object_shard *own_shard(void)
{
	if (unlikely(!shard_tls))
		shard_tls = atomic_fetch_add_explicit(&next_shard, 1, memory_order_relaxed) % SHARDS + 1;
	return &shards[shard_tls - 1];
}

static unsigned class_of(size_t bytes)
{
	return bytes ? (unsigned)((bytes - 1) / CLASS_BYTES) : 0;
}

static bool is_recycled(size_t bytes)
{
	return RECYCLES && bytes <= OBJECT_BYTES_MAX;
}

static bool shard_try(struct object_shard *shard)
{
	return !atomic_exchange_explicit(&shard->busy, true, memory_order_acquire);
}

static void shard_leave(struct object_shard *shard)
{
	atomic_store_explicit(&shard->busy, false, memory_order_release);
}

/* Busy, and nothing of @class left: O3, then the whole stack (O1). */
static void shard_refill(struct object_shard *shard, unsigned class)
{
	if (shard->taken_bytes[class])
		atomic_fetch_sub_explicit(&kept_bytes, shard->taken_bytes[class], memory_order_relaxed);
	shard->taken_bytes[class] = 0;
	if (!atomic_load_explicit(&returned[class], memory_order_relaxed))
		return;
	shard->taken_bytes[class] = atomic_exchange_explicit(&returned_bytes[class], 0, memory_order_relaxed);
	shard->free[class] = atomic_exchange_explicit(&returned[class], NULL, memory_order_acquire);
}

static void *shard_pop(unsigned class)
{
	struct object_shard *shard = own_shard();
	struct object *object;

	if (!shard_try(shard))
		return NULL;
	if (!shard->free[class])
		shard_refill(shard, class);
	object = shard->free[class];
	if (object)
		shard->free[class] = object->next;
	shard_leave(shard);
	return object;
}

void *object_alloc(size_t bytes)
{
	unsigned class = class_of(bytes);
	void *object;

	if (!is_recycled(bytes))
		return calloc(1, bytes);
	object = shard_pop(class);
	if (!object)
		return calloc(class + 1, CLASS_BYTES);
	return memset(object, 0, bytes);
}

void object_free(void *p, size_t bytes)
{
	unsigned class = class_of(bytes), class_bytes = (class + 1) * CLASS_BYTES;
	struct object *object = p;

	if (!p || !is_recycled(bytes)) {
		free(p);
		return;
	}
	if (atomic_fetch_add_explicit(&kept_bytes, class_bytes, memory_order_relaxed) > KEPT_BYTES_MAX - class_bytes) {
		atomic_fetch_sub_explicit(&kept_bytes, class_bytes, memory_order_relaxed);
		free(p);
		return;
	}
	atomic_fetch_add_explicit(&returned_bytes[class], class_bytes, memory_order_relaxed);
	object->next = atomic_load_explicit(&returned[class], memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&returned[class], &object->next, object, memory_order_release,
						      memory_order_relaxed))
		;
}

static void free_all(struct object *object)
{
	while (object) {
		struct object *next = object->next;

		free(object);
		object = next;
	}
}

void objects_trim(void)
{
	for (struct object_shard *shard = shards; shard < shards + SHARDS; shard++) {
		if (!shard_try(shard))
			continue; /* its thread is allocating: it will use what is there */
		for (unsigned class = 0; class < CLASSES; class++)
			do {
				free_all(shard->free[class]);
				shard->free[class] = NULL;
				shard_refill(shard, class);
			} while (shard->free[class]);
		shard_leave(shard);
	}
}
