/* SPDX-License-Identifier: MIT */
/* icache_private.h - the inode cache's structures, shared by icache.c and icache_evict.c */
#ifndef UEXT4_VFS_ICACHE_PRIVATE_H
#define UEXT4_VFS_ICACHE_PRIVATE_H

#include <pthread.h>

#include "base/list.h"
#include "base/lock.h"
#include "vfs/icache.h"
#include "vfs/lookup_table.h"

/*
 * The life of a cached inode. Readers find it in its bucket's chain under RCU.
 *
 *   loading   VNODE_LOADING set, in the chain so that a second getter waits instead of reading it again
 *   live      refs >= 0; on the shard's clock list, used or not
 *   frozen    refs below zero: the reference count went from 0 to REFS_FROZEN in one step, so nobody has it and
 *             nobody gets it. Still in the chain, so that a getter waits for the eviction to end
 *   gone      out of the chain, freed after a grace period
 *
 * I1  Only who froze an inode (or failed to load it) takes it out of the chain and frees it.
 * I2  A frozen inode is on no clock list.
 * I3  Lookups move between inode.lookups and the shard's table only while the inode is loading or frozen, under the
 *     shard's lock; so a count is in exactly one of the two.
 * I4  nlink and lookups change only by holders of a reference: what the freezer reads after freezing stays true.
 *
 * Waiting for I3 and for the end of loads and evictions is on shard.changed.
 */
#define ICACHE_SHARDS 64u
#define REFS_FROZEN   (INT64_MIN / 2)

/* inode.vfs_flags */
#define VNODE_LOADING    0x1u
#define VNODE_REFERENCED 0x2u /* used since the clock's hand passed */
#define VNODE_STALE      0x4u /* out of the chain though somebody holds it; see icache_expel() */

struct icache_shard {
	struct mutex lock;              /* RANK_ICACHE: chains, clock, lookups of this shard */
	struct cond changed;            /* a load or an eviction has ended */
	struct list_head clock;         /* [lock] live inodes; the hand is at the head */
	_Atomic uint32_t count;         /* [lock writes] inodes in the chains */
	struct lookup_table lookups;    /* [lock] */
} __attribute__((aligned(64)));

struct icache {
	struct ext4_fs *fs;                  /* [const] */
	_Atomic(struct inode *) *buckets;    /* [shard lock writes; RCU reads] */
	uint32_t bucket_mask;                /* [const] */
	uint32_t shard_limit;                /* [const] inodes */
	struct icache_shard shard[ICACHE_SHARDS];
	pthread_t reaper;
	struct mutex reap_lock;              /* RANK_WORK */
	struct cond reap_cond;
	struct list_head dead;               /* [reap_lock] frozen inodes without a name, from icache_put_deferred() */
	bool reap_wanted, reap_stop;         /* [reap_lock] */
	_Atomic bool reap_asked;             /* [atomic] a cheap look before reap_lock */
};

struct icache *icache_of(const struct inode *inode);

/* Numbers that follow each other, as those of files created together do, share a cache line of buckets, and a shard. */
#define ICACHE_RUN 8u
static inline uint32_t icache_bucket(const struct icache *ic, ino_num ino)
{
	return ((ino / ICACHE_RUN * 2654435769u >> 4) * ICACHE_RUN + ino % ICACHE_RUN) & ic->bucket_mask;
}
static inline struct icache_shard *icache_shard_of(struct icache *ic, ino_num ino)
{
	return &ic->shard[icache_bucket(ic, ino) / ICACHE_RUN % ICACHE_SHARDS];
}
static inline uint32_t inode_vnode_flags(const struct inode *inode)
{
	return atomic_load_explicit(&inode->vfs_flags, memory_order_acquire);
}

/* Nobody has it, nobody will: true if the reference count was 0. */
bool inode_freeze(struct inode *inode);
/* Undoes inode_freeze(). Caller: shard lock. */
void inode_thaw(struct icache_shard *shard, struct inode *inode);
/* Has no name and no lookups, or is stale: to be evicted at once. */
bool inode_is_dead(const struct inode *inode);

/* Caller: shard lock. */
void icache_chain_remove(struct icache *ic, struct inode *inode);

/* Evicts a frozen inode and frees it. Blocks. */
int icache_evict(struct icache *ic, struct inode *inode);
/* Evicts unused inodes of a shard until @target are left, looking at no more than @scan. Returns how many went. Blocks. */
uint32_t icache_shrink_shard(struct icache *ic, struct icache_shard *shard, uint32_t target, uint32_t scan,
			     bool dirty_too);
void icache_wake_reaper(struct icache *ic);
int  icache_start_reaper(struct icache *ic);
void icache_stop_reaper(struct icache *ic);
int  icache_evict_all(struct icache *ic);

#endif
