/* SPDX-License-Identifier: MIT */
/* icache_evict.c - choosing inodes to let go of, and letting go */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"
#include "vfs/icache_private.h"
#include "vfs/vfs.h"

/* Victims taken under one hold of the shard's lock. */
#define EVICT_BATCH 16u

/* How long an unmount waits for users that should have left; then it takes their inodes. */
#define UNMOUNT_WAIT_MS 10000u

/* Between two rounds over inodes that are all in use, however many are loaded meanwhile. */
#define FRUITLESS_PAUSE_NS UINT64_C(100000000)

/* ---- one inode ---- */

/*
 * Lookups that a server holds survive the inode (I3). The entry was allocated before the inode was frozen, so that
 * this cannot fail; stale inodes are not known by number any more and keep nothing.
 */
static void finish_evict(struct icache *ic, struct inode *inode)
{
	struct icache_shard *shard = icache_shard_of(ic, inode->ino);
	struct lookup_count *kept = inode->vfs_private;

	mutex_lock(&shard->lock);
	if (!(inode_vnode_flags(inode) & VNODE_STALE))
		icache_chain_remove(ic, inode);
	if (kept) {
		*kept = (struct lookup_count){ .ino = inode->ino, .count = atomic_load(&inode->lookups) };
		lookup_table_put(&shard->lookups, kept);
	}
	cond_broadcast(&shard->changed);
	mutex_unlock(&shard->lock);
	inode->vfs_private = NULL;
}

int icache_evict(struct icache *ic, struct inode *inode)
{
	int err;

	inode_set(inode, INODE_FREEING);
	err = inode_evict(inode);
	finish_evict(ic, inode);
	inode_free(inode);
	return err;
}

/* ---- the clock ---- */

static bool is_dirty(const struct inode *inode)
{
	return atomic_load_explicit(&inode->mapping.dirty_bytes, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&inode->mapping.writeback_bytes, memory_order_relaxed) != 0;
}

/* Would the clock's hand take it now? Takes its second chance away. */
static bool is_victim(struct inode *inode, bool dirty_too)
{
	uint32_t old = atomic_fetch_and_explicit(&inode->vfs_flags, ~VNODE_REFERENCED, memory_order_relaxed);

	if ((old & VNODE_REFERENCED) || atomic_load(&inode->refs) != 0)
		return false;
	if (!dirty_too && is_dirty(inode))
		return false; /* the flusher writes it soon, many at once */
	return atomic_load_explicit(&inode->nlink, memory_order_relaxed) != 0; /* without a name a server's lookups keep it */
}

/* With room for its lookups made ready: after freezing nothing may fail. */
static bool freeze_victim(struct icache_shard *shard, struct inode *inode)
{
	struct lookup_count *room = NULL;

	if (atomic_load(&inode->lookups)) {
		room = lookup_table_reserve(&shard->lookups) ? malloc(sizeof(*room)) : NULL;
		if (!room)
			return false;
	}
	if (!inode_freeze(inode)) {
		free(room);
		return false;
	}
	if (!room && atomic_load(&inode->lookups)) {
		inode_thaw(shard, inode); /* came between the two looks */
		return false;
	}
	inode->vfs_private = room;
	list_del(&inode->lru);
	return true;
}

/* Moves up to EVICT_BATCH frozen victims to @victims, looking at no more than *scan_left inodes. */
static unsigned collect_victims(struct icache_shard *shard, uint32_t target, bool dirty_too, uint32_t *scan_left,
				struct list_head *victims)
{
	unsigned taken = 0;

	mutex_lock(&shard->lock);
	while (taken < EVICT_BATCH && *scan_left > 0 && !list_empty(&shard->clock) &&
	       atomic_load_explicit(&shard->count, memory_order_relaxed) > target + taken) {
		struct inode *inode = list_first(&shard->clock, struct inode, lru);

		--*scan_left;
		if (is_victim(inode, dirty_too) && freeze_victim(shard, inode)) {
			list_add_tail(&inode->lru, victims);
			taken++;
		} else {
			list_move_tail(&inode->lru, &shard->clock);
		}
	}
	mutex_unlock(&shard->lock);
	return taken;
}

static void evict_list(struct icache *ic, struct list_head *victims)
{
	while (!list_empty(victims)) {
		struct inode *inode = list_first(victims, struct inode, lru);

		list_del(&inode->lru);
		icache_evict(ic, inode);
	}
}

uint32_t icache_shrink_shard(struct icache *ic, struct icache_shard *shard, uint32_t target, uint32_t scan,
			     bool dirty_too)
{
	uint32_t evicted = 0;
	unsigned taken;

	do {
		struct list_head victims = LIST_INIT(victims);

		taken = collect_victims(shard, target, dirty_too, &scan, &victims);
		evict_list(ic, &victims);
		evicted += taken;
	} while (taken == EVICT_BATCH);
	return evicted;
}

/* ---- the reaper ---- */

void icache_wake_reaper(struct icache *ic)
{
	if (atomic_exchange_explicit(&ic->reap_asked, true, memory_order_relaxed))
		return;
	mutex_lock(&ic->reap_lock);
	ic->reap_wanted = true;
	cond_signal(&ic->reap_cond);
	mutex_unlock(&ic->reap_lock);
}

/* False if some shard is over its limit and nothing in it could go. */
static bool reap_shards(struct icache *ic)
{
	bool fruitful = true;

	atomic_store_explicit(&ic->reap_asked, false, memory_order_relaxed);
	for (unsigned i = 0; i < ICACHE_SHARDS; i++) {
		struct icache_shard *shard = &ic->shard[i];
		uint32_t count = atomic_load_explicit(&shard->count, memory_order_relaxed);

		/* Twice round takes every second chance away; what is left then is in use. */
		if (count > ic->shard_limit &&
		    !icache_shrink_shard(ic, shard, ic->shard_limit - ic->shard_limit / 8, 2 * count, false))
			fruitful = false;
	}
	return fruitful;
}

/* Returns with reap_lock held: there is something to do, or it is time to stop. */
static void reaper_wait(struct icache *ic, bool pause)
{
	mutex_lock(&ic->reap_lock);
	if (pause && !ic->reap_stop && list_empty(&ic->dead))
		cond_wait_timeout(&ic->reap_cond, &ic->reap_lock, FRUITLESS_PAUSE_NS);
	while (!ic->reap_wanted && !ic->reap_stop)
		cond_wait(&ic->reap_cond, &ic->reap_lock);
}

static void *reaper_main(void *arg)
{
	struct icache *ic = arg;
	bool fruitful = true, stop;

	do {
		struct list_head dead = LIST_INIT(dead);

		reaper_wait(ic, !fruitful);
		ic->reap_wanted = false;
		stop = ic->reap_stop;
		list_splice_tail(&ic->dead, &dead);
		mutex_unlock(&ic->reap_lock);
		evict_list(ic, &dead);
		if (!stop)
			fruitful = reap_shards(ic);
	} while (!stop);
	return NULL;
}

int icache_start_reaper(struct icache *ic)
{
	int err;

	mutex_init(&ic->reap_lock, RANK_WORK);
	cond_init(&ic->reap_cond);
	list_init(&ic->dead);
	err = thread_start("uext4-reaper", reaper_main, ic, &ic->reaper);
	if (err) {
		cond_exit(&ic->reap_cond);
		mutex_exit(&ic->reap_lock);
	}
	return err;
}

void icache_stop_reaper(struct icache *ic)
{
	mutex_lock(&ic->reap_lock);
	ic->reap_stop = true;
	cond_signal(&ic->reap_cond);
	mutex_unlock(&ic->reap_lock);
	pthread_join(ic->reaper, NULL);
}

/* ---- unmount ---- */

static void sleep_ms(unsigned ms)
{
	struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&pause, &pause) && errno == EINTR)
		;
}

/* The next inode of @shard, frozen; NULL: empty. Background work lets go of its references within milliseconds. */
static struct inode *take_any(struct icache *ic, struct icache_shard *shard, unsigned *waited_ms)
{
	struct inode *inode = NULL;

	for (;;) {
		mutex_lock(&shard->lock);
		inode = list_empty(&shard->clock) ? NULL : list_first(&shard->clock, struct inode, lru);
		if (!inode || inode_freeze(inode))
			break;
		if (*waited_ms >= UNMOUNT_WAIT_MS) {
			log_print(&ic->fs->log, LOG_ERROR, "%s: inode %u is still in use at unmount", ic->fs->name,
				  inode->ino);
			atomic_store(&inode->refs, REFS_FROZEN);
			break;
		}
		list_move_tail(&inode->lru, &shard->clock);
		mutex_unlock(&shard->lock);
		sleep_ms(1);
		++*waited_ms;
	}
	if (inode)
		list_del(&inode->lru);
	mutex_unlock(&shard->lock);
	return inode;
}

int icache_evict_all(struct icache *ic)
{
	unsigned waited_ms = 0;
	int first_err = 0;

	evict_list(ic, &ic->dead); /* came after the reaper stopped */
	for (unsigned i = 0; i < ICACHE_SHARDS; i++) {
		struct inode *inode;

		while ((inode = take_any(ic, &ic->shard[i], &waited_ms))) {
			int err = icache_evict(ic, inode);

			if (!first_err)
				first_err = err;
		}
	}
	evict_list(ic, &ic->dead);
	cond_exit(&ic->reap_cond);
	mutex_exit(&ic->reap_lock);
	return first_err;
}
