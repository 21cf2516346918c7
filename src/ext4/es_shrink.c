/* SPDX-License-Identifier: MIT */
/*
 * es_shrink.c - bounds the memory of extent status
 *
 * Inodes with entries stand on a list in the order in which they got their first one. When the limit is passed, whoever
 * inserts takes inodes from its front: one that was looked up since the last visit goes to the back once, the others lose
 * all entries that are not delayed. Entries are cheap to read again, so whole inodes are emptied.
 *
 * Locks: shrinker.lock (RANK_ES_LRU) before es.lock; the latter is only tried, since its holder may be anybody.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/counters.h"
#include "ext4/es_private.h"

#define ES_SHRINK_VISITS 64 /* inodes looked at for one insertion: bounds what it pays for others */

struct es_shrinker {
	struct mutex lock;        /* RANK_ES_LRU */
	struct list_head inodes;  /* [lock] least recently used first */
	uint64_t inode_count;     /* [lock] */
	uint64_t limit_bytes;     /* [const] */
	_Atomic int64_t bytes;    /* [atomic] */
};

int es_shrinker_init(struct ext4_fs *fs, uint64_t limit_bytes)
{
	struct es_shrinker *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	mutex_init(&s->lock, RANK_ES_LRU);
	list_init(&s->inodes);
	s->limit_bytes = limit_bytes;
	fs->es_shrinker = s;
	return 0;
}

void es_shrinker_exit(struct ext4_fs *fs)
{
	if (!fs->es_shrinker)
		return;
	UEXT4_ASSERT(list_empty(&fs->es_shrinker->inodes));
	mutex_exit(&fs->es_shrinker->lock);
	free(fs->es_shrinker);
	fs->es_shrinker = NULL;
}

void es_shrinker_account(struct ext4_fs *fs, int64_t bytes)
{
	counter_add(fs->counters, CNT_ES_BYTES, bytes);
	if (fs->es_shrinker)
		atomic_fetch_add_explicit(&fs->es_shrinker->bytes, bytes, memory_order_relaxed);
}

void es_shrinker_add(struct inode *inode)
{
	struct es_shrinker *s = inode->fs->es_shrinker;

	if (!s || atomic_load_explicit(&inode->es.listed, memory_order_relaxed))
		return; /* only es_exit() takes it off again */
	mutex_lock(&s->lock);
	if (!inode->es.listed) {
		inode->es.listed = true;
		list_add_tail(&inode->es.lru, &s->inodes);
		s->inode_count++;
	}
	mutex_unlock(&s->lock);
}

void es_shrinker_del(struct inode *inode)
{
	struct es_shrinker *s = inode->fs->es_shrinker;

	if (!s)
		return;
	mutex_lock(&s->lock);
	if (inode->es.listed) {
		inode->es.listed = false;
		list_del(&inode->es.lru);
		s->inode_count--;
	}
	mutex_unlock(&s->lock);
}

/* Caller: shrinker.lock, which keeps the inode from es_exit(). */
static uint64_t shrink_inode(struct es_shrinker *s, struct inode *inode)
{
	uint64_t dropped;

	list_move_tail(&inode->es.lru, &s->inodes);
	if (atomic_exchange_explicit(&inode->es.referenced, false, memory_order_relaxed) ||
	    !mutex_trylock(&inode->es.lock))
		return 0;
	dropped = es_drop_clean(inode);
	mutex_unlock(&inode->es.lock);
	return dropped;
}

static uint64_t shrink_some(struct ext4_fs *fs, uint64_t target_bytes, uint64_t max_visits)
{
	struct es_shrinker *s = fs->es_shrinker;
	uint64_t dropped = 0, i;

	for (i = 0; i < max_visits && !list_empty(&s->inodes); i++) {
		if (atomic_load_explicit(&s->bytes, memory_order_relaxed) <= (int64_t)target_bytes)
			break;
		dropped += shrink_inode(s, container_of(list_first(&s->inodes, struct es_tree, lru), struct inode, es));
	}
	counter_add(fs->counters, CNT_ES_SHRUNK, (int64_t)dropped);
	return dropped;
}

uint64_t es_shrink(struct ext4_fs *fs, uint64_t target_bytes)
{
	struct es_shrinker *s = fs->es_shrinker;
	uint64_t dropped;

	if (!s)
		return 0;
	mutex_lock(&s->lock);
	dropped = shrink_some(fs, target_bytes, 2 * s->inode_count); /* referenced ones need a second visit */
	mutex_unlock(&s->lock);
	return dropped;
}

void es_shrinker_check(struct ext4_fs *fs)
{
	struct es_shrinker *s = fs->es_shrinker;

	if (!s || atomic_load_explicit(&s->bytes, memory_order_relaxed) <= (int64_t)s->limit_bytes)
		return;
	if (!mutex_trylock(&s->lock))
		return; /* somebody is at it */
	shrink_some(fs, s->limit_bytes - s->limit_bytes / 8, ES_SHRINK_VISITS);
	mutex_unlock(&s->lock);
}
