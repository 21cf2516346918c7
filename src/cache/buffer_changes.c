/* SPDX-License-Identifier: MIT */
/*
 * buffer_changes.c - changes of metadata without a journal, against the copies that go home
 *
 * One word counts those who change and those who copy. Either side goes in with one addition; if it then finds the other
 * one inside, a changer takes his part back and waits until no copier is left, a copier waits until the changers are gone.
 * So a copier waits only for changes that had begun, and no changer waits for I/O: copiers do nothing but copy.
 *
 * Published by the release of whoever leaves, observed by the acquire of whoever finds nobody inside.
 */
#include "cache/buffer_private.h"

#define CHANGER UINT64_C(1)
#define COPIER  (UINT64_C(1) << 32)

static bool has_changers(uint64_t changes)
{
	return (uint32_t)changes != 0;
}

static bool has_copiers(uint64_t changes)
{
	return changes >= COPIER;
}

static void wait_until_gone(struct buffer_cache *bc, bool (*is_inside)(uint64_t changes))
{
	mutex_lock(&bc->write_lock);
	while (is_inside(atomic_load_explicit(&bc->changes, memory_order_acquire)))
		cond_wait(&bc->write_cond, &bc->write_lock);
	mutex_unlock(&bc->write_lock);
}

static void wake_others(struct buffer_cache *bc)
{
	mutex_lock(&bc->write_lock);
	cond_broadcast(&bc->write_cond);
	mutex_unlock(&bc->write_lock);
}

void buffer_changes_begin(struct buffer_cache *bc)
{
	while (unlikely(has_copiers(atomic_fetch_add_explicit(&bc->changes, CHANGER, memory_order_acquire)))) {
		buffer_changes_end(bc);
		wait_until_gone(bc, has_copiers);
	}
}

void buffer_changes_end(struct buffer_cache *bc)
{
	uint64_t left = atomic_fetch_sub_explicit(&bc->changes, CHANGER, memory_order_release) - CHANGER;

	if (unlikely(has_copiers(left)) && !has_changers(left))
		wake_others(bc);
}

bool buffer_copies_begin(struct buffer_cache *bc)
{
	return !has_changers(atomic_fetch_add_explicit(&bc->changes, COPIER, memory_order_acquire));
}

void buffer_copies_wait(struct buffer_cache *bc)
{
	/* One of them might wait for this thread: it may hold nothing that they need, and no handle. */
	lock_rank_enter(RANK_HANDLE);
	lock_rank_leave(RANK_HANDLE);
	wait_until_gone(bc, has_changers);
}

void buffer_copies_end(struct buffer_cache *bc)
{
	uint64_t left = atomic_fetch_sub_explicit(&bc->changes, COPIER, memory_order_release) - COPIER;

	if (!has_copiers(left))
		wake_others(bc);
}

void buffer_changes_block(struct buffer_cache *bc)
{
	if (!buffer_copies_begin(bc))
		buffer_copies_wait(bc);
}

void buffer_changes_unblock(struct buffer_cache *bc)
{
	buffer_copies_end(bc);
}
