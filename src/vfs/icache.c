/* SPDX-License-Identifier: MIT */
/* icache.c - finding, loading, holding and giving back inodes */
#include <errno.h>
#include <stdlib.h>

#include "base/table.h"
#include "vfs/icache_private.h"
#include "vfs/vfs.h"

/* Inodes that a caller looks at when it helps the reaper: a few microseconds. */
#define HELP_SCAN 64u

struct icache *icache_of(const struct inode *inode)
{
	return vfs_of(inode)->icache;
}

static void shards_init(struct icache *ic)
{
	for (unsigned i = 0; i < ICACHE_SHARDS; i++) {
		mutex_init(&ic->shard[i].lock, RANK_ICACHE);
		cond_init(&ic->shard[i].changed);
		list_init(&ic->shard[i].clock);
	}
}

static size_t table_bytes(const struct icache *ic)
{
	return ((size_t)ic->bucket_mask + 1) * sizeof(*ic->buckets);
}

static void icache_free(struct icache *ic)
{
	for (unsigned i = 0; i < ICACHE_SHARDS; i++) {
		lookup_table_exit(&ic->shard[i].lookups);
		cond_exit(&ic->shard[i].changed);
		mutex_exit(&ic->shard[i].lock);
	}
	table_free(ic->buckets, table_bytes(ic));
	free(ic);
}

static uint32_t bucket_count_for(uint64_t limit_inodes)
{
	uint32_t count = ICACHE_SHARDS * ICACHE_RUN; /* each shard has some */

	while (count < limit_inodes && count < 1u << 24)
		count *= 2;
	return count;
}

int icache_create(struct ext4_fs *fs, uint64_t limit_inodes, struct icache **ic_out)
{
	uint32_t bucket_count = bucket_count_for(limit_inodes);
	struct icache *ic = aligned_alloc(64, sizeof(*ic));
	int err;

	if (!ic)
		return -ENOMEM;
	*ic = (struct icache){ .fs = fs, .bucket_mask = bucket_count - 1 };
	shards_init(ic);
	ic->shard_limit = (uint32_t)max_of(limit_inodes / ICACHE_SHARDS, UINT64_C(8));
	ic->buckets = table_alloc(table_bytes(ic));
	err = ic->buckets ? icache_start_reaper(ic) : -ENOMEM;
	if (err) {
		icache_free(ic);
		return err;
	}
	*ic_out = ic;
	return 0;
}

int icache_destroy(struct icache *ic)
{
	int err;

	icache_stop_reaper(ic);
	err = icache_evict_all(ic);
	icache_free(ic);
	return err;
}

uint64_t icache_count(struct icache *ic)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < ICACHE_SHARDS; i++)
		count += atomic_load_explicit(&ic->shard[i].count, memory_order_relaxed);
	return count;
}

/* ---- chains ---- */

/* Caller: in an RCU section, or shard lock. */
static struct inode *chain_find(struct icache *ic, ino_num ino)
{
	struct inode *inode = atomic_load_explicit(&ic->buckets[icache_bucket(ic, ino)], memory_order_acquire);

	while (inode && inode->ino != ino)
		inode = atomic_load_explicit(&inode->hash_next, memory_order_acquire);
	return inode;
}

static void chain_add(struct icache *ic, struct icache_shard *shard, struct inode *inode)
{
	_Atomic(struct inode *) *bucket = &ic->buckets[icache_bucket(ic, inode->ino)];

	lock_assert_held(&shard->lock);
	atomic_store_explicit(&inode->hash_next, atomic_load_explicit(bucket, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(bucket, inode, memory_order_release);
	atomic_fetch_add_explicit(&shard->count, 1, memory_order_relaxed);
}

/* A reader that stands on the removed inode still finds its way on: hash_next stays. */
void icache_chain_remove(struct icache *ic, struct inode *inode)
{
	struct icache_shard *shard = icache_shard_of(ic, inode->ino);
	_Atomic(struct inode *) *link = &ic->buckets[icache_bucket(ic, inode->ino)];
	struct inode *at;

	lock_assert_held(&shard->lock);
	for (; (at = atomic_load_explicit(link, memory_order_relaxed)); link = &at->hash_next) {
		if (at != inode)
			continue;
		atomic_store_explicit(link, atomic_load_explicit(&inode->hash_next, memory_order_relaxed),
				      memory_order_release);
		atomic_fetch_sub_explicit(&shard->count, 1, memory_order_relaxed);
		return;
	}
}

/* ---- references ---- */

bool icache_tryhold(struct inode *inode)
{
	if (likely(atomic_fetch_add(&inode->refs, 1) >= 0))
		return true;
	atomic_fetch_sub(&inode->refs, 1);
	return false;
}

void icache_hold(struct inode *inode)
{
	int64_t refs = atomic_fetch_add(&inode->refs, 1);

	UEXT4_ASSERT(refs > 0);
}

bool inode_freeze(struct inode *inode)
{
	int64_t unused = 0;

	return atomic_compare_exchange_strong(&inode->refs, &unused, REFS_FROZEN);
}

void inode_thaw(struct icache_shard *shard, struct inode *inode)
{
	lock_assert_held(&shard->lock);
	atomic_fetch_sub(&inode->refs, REFS_FROZEN);
	cond_broadcast(&shard->changed); /* a getter may have seen it frozen */
}

bool inode_is_dead(const struct inode *inode)
{
	if (inode_vnode_flags(inode) & VNODE_STALE)
		return true;
	return atomic_load_explicit(&inode->nlink, memory_order_relaxed) == 0 && atomic_load(&inode->lookups) == 0;
}

/*
 * Drops a reference. True if that left a dead inode, which is now frozen and off the clock: the caller evicts it. The
 * RCU section keeps the memory there for the look after the decrement. Who sees the count reach 0 also sees the
 * nlink that earlier holders left (I4), so the last holder of an unlinked inode never overlooks it.
 */
static bool put_is_last_of_dead(struct inode *inode)
{
	struct icache_shard *shard;
	bool dead;

	if (!(atomic_load_explicit(&inode->vfs_flags, memory_order_relaxed) & VNODE_REFERENCED))
		atomic_fetch_or_explicit(&inode->vfs_flags, VNODE_REFERENCED, memory_order_relaxed);
	rcu_enter();
	dead = atomic_fetch_sub(&inode->refs, 1) == 1 && inode_is_dead(inode) && inode_freeze(inode);
	rcu_leave();
	if (likely(!dead))
		return false;
	shard = icache_shard_of(icache_of(inode), inode->ino);
	mutex_lock(&shard->lock);
	dead = inode_is_dead(inode);
	if (dead)
		list_del(&inode->lru);
	else
		inode_thaw(shard, inode);
	mutex_unlock(&shard->lock);
	return dead;
}

void icache_put(struct inode *inode)
{
	struct icache_shard *shard;
	struct icache *ic;

	if (!inode)
		return;
	ic = icache_of(inode);
	shard = icache_shard_of(ic, inode->ino);
	if (put_is_last_of_dead(inode))
		icache_evict(ic, inode);
	/* The reaper does not keep up: whoever fills the cache helps to empty it. */
	if (unlikely(atomic_load_explicit(&shard->count, memory_order_relaxed) > 2 * ic->shard_limit))
		icache_shrink_shard(ic, shard, ic->shard_limit, HELP_SCAN, true);
}

void icache_put_deferred(struct inode *inode)
{
	struct icache *ic = icache_of(inode);

	/* The file system's own inodes come here too, also while there is no cache yet or any more. */
	if (!put_is_last_of_dead(inode))
		return;
	mutex_lock(&ic->reap_lock);
	list_add_tail(&inode->lru, &ic->dead);
	ic->reap_wanted = true;
	cond_signal(&ic->reap_cond);
	mutex_unlock(&ic->reap_lock);
}

/* ---- get ---- */

struct inode *icache_find(struct icache *ic, ino_num ino)
{
	struct inode *inode;

	rcu_enter();
	inode = chain_find(ic, ino);
	if (inode && ((inode_vnode_flags(inode) & VNODE_LOADING) || !icache_tryhold(inode)))
		inode = NULL;
	rcu_leave();
	return inode;
}

/* The live inode with a reference, or NULL if there is none; waits while it is loaded or evicted. Caller: shard lock. */
static struct inode *find_settled(struct icache *ic, struct icache_shard *shard, ino_num ino)
{
	struct inode *inode;

	while ((inode = chain_find(ic, ino))) {
		if (!(inode_vnode_flags(inode) & VNODE_LOADING) && icache_tryhold(inode))
			return inode;
		cond_wait(&shard->changed, &shard->lock);
	}
	return NULL;
}

/* The end of a load: the inode goes live, or away with its lookups put back. */
static void finish_load(struct icache *ic, struct icache_shard *shard, struct inode *inode, int err,
			struct lookup_count *spare)
{
	uint64_t lookups = atomic_load(&inode->lookups);

	mutex_lock(&shard->lock);
	if (!err) {
		list_add_tail(&inode->lru, &shard->clock);
		inode_clear(inode, INODE_NEW);
		atomic_fetch_and_explicit(&inode->vfs_flags, ~VNODE_LOADING, memory_order_release);
	} else {
		icache_chain_remove(ic, inode);
		if (lookups && lookup_table_reserve(&shard->lookups)) {
			*spare = (struct lookup_count){ .ino = inode->ino, .count = lookups };
			lookup_table_put(&shard->lookups, spare);
			spare = NULL;
		}
	}
	cond_broadcast(&shard->changed);
	mutex_unlock(&shard->lock);
	free(spare);
	if (err)
		inode_free(inode);
}

static int load_new(struct icache *ic, ino_num ino, struct inode **inode_out)
{
	struct icache_shard *shard = icache_shard_of(ic, ino);
	struct lookup_count *spare = malloc(sizeof(*spare));
	struct inode *fresh = inode_alloc(ic->fs);
	struct inode *found;
	int err;

	if (!fresh || !spare) {
		free(spare);
		if (fresh)
			inode_free(fresh);
		return -ENOMEM;
	}
	mutex_lock(&shard->lock);
	found = find_settled(ic, shard, ino);
	if (!found) {
		fresh->ino = ino;
		atomic_store(&fresh->lookups, lookup_table_take(&shard->lookups, ino));
		atomic_store(&fresh->vfs_flags, VNODE_LOADING);
		chain_add(ic, shard, fresh);
	}
	mutex_unlock(&shard->lock);
	if (found) {
		free(spare);
		inode_free(fresh);
		*inode_out = found;
		return 0;
	}
	err = inode_load(ic->fs, ino, false, fresh);
	finish_load(ic, shard, fresh, err, spare);
	if (err)
		return err;
	if (atomic_load_explicit(&shard->count, memory_order_relaxed) > ic->shard_limit)
		icache_wake_reaper(ic);
	*inode_out = fresh;
	return 0;
}

int icache_get(struct icache *ic, ino_num ino, struct inode **inode_out)
{
	struct inode *inode = icache_find(ic, ino);

	if (!inode)
		return load_new(ic, ino, inode_out);
	*inode_out = inode;
	return 0;
}

/*
 * Somebody asked for a free number, by a stale node number or a damaged directory, and read it from the table in
 * the moment between the creation and its insertion here. His copy knows less than ours: it leaves the chain and
 * is thrown away when he lets go of it.
 */
static void icache_expel(struct icache *ic, struct inode *copy)
{
	inode_set(copy, INODE_BAD);
	atomic_fetch_or(&copy->vfs_flags, VNODE_STALE);
	list_del(&copy->lru);
	icache_chain_remove(ic, copy);
}

void icache_insert_new(struct icache *ic, struct inode *inode)
{
	struct icache_shard *shard = icache_shard_of(ic, inode->ino);
	struct inode *copy;

	mutex_lock(&shard->lock);
	while ((copy = find_settled(ic, shard, inode->ino))) {
		icache_expel(ic, copy);
		mutex_unlock(&shard->lock);
		icache_put_deferred(copy);
		mutex_lock(&shard->lock);
	}
	lookup_table_take(&shard->lookups, inode->ino); /* of the number's former life */
	chain_add(ic, shard, inode);
	list_add_tail(&inode->lru, &shard->clock);
	mutex_unlock(&shard->lock);
	if (atomic_load_explicit(&shard->count, memory_order_relaxed) > ic->shard_limit)
		icache_wake_reaper(ic);
}

/* ---- lookups ---- */

void icache_lookups_add(struct inode *inode, uint64_t count)
{
	atomic_fetch_add(&inode->lookups, count);
}

/* A server that gives back more than it got must not make the count wrap. */
static void lookups_sub(struct inode *inode, uint64_t count)
{
	uint64_t old = atomic_load(&inode->lookups);

	while (!atomic_compare_exchange_weak(&inode->lookups, &old, old > count ? old - count : 0))
		;
}

void icache_forget(struct icache *ic, ino_num ino, uint64_t count)
{
	struct icache_shard *shard = icache_shard_of(ic, ino);
	struct inode *inode = icache_find(ic, ino);

	if (!inode) {
		mutex_lock(&shard->lock);
		inode = find_settled(ic, shard, ino);
		if (!inode)
			lookup_table_sub(&shard->lookups, ino, count);
		mutex_unlock(&shard->lock);
	}
	if (inode) {
		lookups_sub(inode, count);
		icache_put(inode);
	}
}
