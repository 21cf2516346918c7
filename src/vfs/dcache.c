/* SPDX-License-Identifier: MIT */
/*
 * dcache.c - names in memory
 *
 * A hash table of entries that are found under RCU and changed under the lock of their shard. An entry's number
 * changes in place, so that a name that is removed and made again costs no allocation. Directories are
 * keyed by number; epochs[] tells the lives of a number apart: when a directory is removed, the epoch of its slot
 * moves on, and every entry made before, of it or of another directory of that slot, is not found any more. The
 * clock then takes it away.
 *
 * D1  An entry says what the directory says whenever nobody holds the directory's rwsem exclusively.
 * D2  Whoever is about to take a name away drops its entry first. So a reader that sees an entry unchanged after it took
 *     a reference to the inode knows that the inode had that name then.
 */
#include "vfs/dcache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/object.h"
#include "base/rcu.h"
#include "base/table.h"

#define DCACHE_SHARDS 64u
#define DCACHE_EPOCHS 4096u

/* Entries that one insertion looks at to make room. */
#define CLOCK_SCAN 8u

/* Of one entry, as the table is dimensioned. */
#define TYPICAL_ENTRY_BYTES 64u

struct dentry {
	_Atomic(struct dentry *) next; /* [shard lock writes; RCU reads] */
	uint64_t hash;                 /* [const] */
	ino_num dir;                   /* [const] */
	uint32_t epoch;                /* [const] of dir's slot when this was made */
	_Atomic ino_num ino;           /* [shard lock writes; atomic reads] a number or DENTRY_* */
	_Atomic uint8_t referenced;    /* [atomic] found since the clock's hand passed */
	uint8_t len;                   /* [const] */
	union {
		struct list_head clock; /* [shard lock] */
		struct rcu_head rcu;    /* once it is off the clock */
	};
	char name[];                   /* [const] with one of up to 16 bytes, an entry is one cache line */
};

static_assert(sizeof(struct dentry) == 48, "names of up to 16 bytes fit into a cache line");

struct dcache_shard {
	struct mutex lock;      /* RANK_ICACHE */
	struct list_head clock; /* [lock] the hand is at the head */
	uint64_t bytes;         /* [lock] */
} __attribute__((aligned(64)));

struct dcache {
	_Atomic(struct dentry *) *buckets;
	uint64_t bucket_mask;               /* [const] */
	uint64_t shard_limit_bytes;         /* [const] */
	struct dcache_shard shard[DCACHE_SHARDS];
	_Atomic uint32_t epochs[DCACHE_EPOCHS]; /* [atomic] */
};

static size_t dentry_bytes(size_t len)
{
	return sizeof(struct dentry) + len;
}

static size_t table_bytes(const struct dcache *dc)
{
	return (dc->bucket_mask + 1) * sizeof(*dc->buckets);
}

int dcache_create(uint64_t limit_bytes, struct dcache **dc_out)
{
	uint64_t bucket_count = DCACHE_SHARDS;
	struct dcache *dc = aligned_alloc(64, sizeof(*dc));

	if (!dc)
		return -ENOMEM;
	memset(dc, 0, sizeof(*dc));
	while (bucket_count < limit_bytes / TYPICAL_ENTRY_BYTES)
		bucket_count *= 2;
	dc->bucket_mask = bucket_count - 1;
	dc->shard_limit_bytes = limit_bytes / DCACHE_SHARDS;
	dc->buckets = table_alloc(table_bytes(dc));
	if (!dc->buckets) {
		free(dc);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < DCACHE_SHARDS; i++) {
		mutex_init(&dc->shard[i].lock, RANK_ICACHE);
		list_init(&dc->shard[i].clock);
	}
	*dc_out = dc;
	return 0;
}

void dcache_destroy(struct dcache *dc)
{
	for (unsigned i = 0; i < DCACHE_SHARDS; i++) {
		struct dentry *d, *tmp;

		list_for_each_safe(d, tmp, &dc->shard[i].clock, clock)
			object_free(d, dentry_bytes(d->len));
		mutex_exit(&dc->shard[i].lock);
	}
	table_free(dc->buckets, table_bytes(dc));
	free(dc);
}

uint64_t dcache_bytes(struct dcache *dc)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < DCACHE_SHARDS; i++) {
		mutex_lock(&dc->shard[i].lock);
		bytes += dc->shard[i].bytes;
		mutex_unlock(&dc->shard[i].lock);
	}
	return bytes;
}

/* ---- finding ---- */

static uint64_t mix(uint64_t h, uint64_t word)
{
	__uint128_t product = (__uint128_t)(h ^ word) * UINT64_C(0x9FB21C651E98DF25);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t name_hash(ino_num dir, const char *name, size_t len)
{
	uint64_t h = mix(UINT64_C(0x2545F4914F6CDD1D), (uint64_t)dir << 32 | len);
	uint64_t word;

	for (; len >= 8; name += 8, len -= 8) {
		memcpy(&word, name, 8);
		h = mix(h, word);
	}
	word = 0;
	memcpy(&word, name, len);
	return mix(h, word);
}

static uint32_t epoch_of(const struct dcache *dc, ino_num dir)
{
	return atomic_load_explicit(&dc->epochs[dir % DCACHE_EPOCHS], memory_order_acquire);
}

static bool dentry_is(const struct dentry *d, uint64_t hash, ino_num dir, uint32_t epoch, const char *name, size_t len)
{
	return d->hash == hash && d->dir == dir && d->epoch == epoch && d->len == len &&
	       memcmp(d->name, name, len) == 0;
}

static struct dentry *chain_find(struct dcache *dc, uint64_t hash, ino_num dir, const char *name, size_t len)
{
	uint32_t epoch = epoch_of(dc, dir);
	struct dentry *d = atomic_load_explicit(&dc->buckets[hash & dc->bucket_mask], memory_order_acquire);

	while (d && !dentry_is(d, hash, dir, epoch, name, len))
		d = atomic_load_explicit(&d->next, memory_order_acquire);
	return d;
}

struct dentry *dcache_find(struct dcache *dc, ino_num dir, const char *name, size_t len)
{
	struct dentry *d = chain_find(dc, name_hash(dir, name, len), dir, name, len);

	if (d && !atomic_load_explicit(&d->referenced, memory_order_relaxed))
		atomic_store_explicit(&d->referenced, 1, memory_order_relaxed);
	return d;
}

ino_num dentry_ino(const struct dentry *dentry)
{
	return atomic_load(&((struct dentry *)dentry)->ino);
}

/* ---- changing ---- */

static struct dcache_shard *shard_of(struct dcache *dc, uint64_t hash)
{
	return &dc->shard[hash % DCACHE_SHARDS]; /* low bits, as the bucket's: a bucket lies in one shard */
}

static void dentry_free_rcu(struct rcu_head *rcu)
{
	struct dentry *d = container_of(rcu, struct dentry, rcu);

	object_free(d, dentry_bytes(d->len));
}

static void dentry_remove(struct dcache *dc, struct dcache_shard *shard, struct dentry *victim)
{
	_Atomic(struct dentry *) *link = &dc->buckets[victim->hash & dc->bucket_mask];
	struct dentry *d;

	lock_assert_held(&shard->lock);
	while ((d = atomic_load_explicit(link, memory_order_relaxed)) != victim)
		link = &d->next;
	atomic_store_explicit(link, atomic_load_explicit(&victim->next, memory_order_relaxed), memory_order_release);
	atomic_store(&victim->ino, DENTRY_UNKNOWN);
	list_del(&victim->clock);
	shard->bytes -= dentry_bytes(victim->len);
	rcu_defer(&victim->rcu, dentry_free_rcu);
}

static void shard_make_room(struct dcache *dc, struct dcache_shard *shard)
{
	for (unsigned i = 0; i < CLOCK_SCAN && shard->bytes > dc->shard_limit_bytes; i++) {
		struct dentry *d = list_first(&shard->clock, struct dentry, clock);

		if (d->epoch == epoch_of(dc, d->dir) &&
		    atomic_exchange_explicit(&d->referenced, 0, memory_order_relaxed))
			list_move_tail(&d->clock, &shard->clock);
		else
			dentry_remove(dc, shard, d);
	}
}

static struct dentry *dentry_make(struct dcache *dc, uint64_t hash, ino_num dir, const char *name, size_t len,
				  ino_num ino)
{
	struct dentry *d = object_alloc(dentry_bytes(len));

	if (!d)
		return NULL;
	d->hash = hash;
	d->dir = dir;
	d->epoch = epoch_of(dc, dir);
	atomic_init(&d->ino, ino);
	atomic_init(&d->referenced, 0);
	d->len = (uint8_t)len;
	memcpy(d->name, name, len);
	return d;
}

static void dentry_insert(struct dcache *dc, struct dcache_shard *shard, struct dentry *d)
{
	_Atomic(struct dentry *) *bucket = &dc->buckets[d->hash & dc->bucket_mask];

	atomic_init(&d->next, atomic_load_explicit(bucket, memory_order_relaxed));
	atomic_store_explicit(bucket, d, memory_order_release);
	list_add_tail(&d->clock, &shard->clock);
	shard->bytes += dentry_bytes(d->len);
	shard_make_room(dc, shard);
}

static void dcache_put(struct dcache *dc, ino_num dir, const char *name, size_t len, ino_num ino, bool replace)
{
	uint64_t hash = name_hash(dir, name, len);
	struct dcache_shard *shard = shard_of(dc, hash);
	struct dentry *d;

	mutex_lock(&shard->lock);
	d = chain_find(dc, hash, dir, name, len);
	if (d) {
		if (replace || dentry_ino(d) == DENTRY_UNKNOWN)
			atomic_store(&d->ino, ino);
	} else {
		d = dentry_make(dc, hash, dir, name, len, ino);
		if (d)
			dentry_insert(dc, shard, d);
	}
	mutex_unlock(&shard->lock);
}

void dcache_fill(struct dcache *dc, ino_num dir, const char *name, size_t len, ino_num ino)
{
	dcache_put(dc, dir, name, len, ino, false);
}

void dcache_set(struct dcache *dc, ino_num dir, const char *name, size_t len, ino_num ino)
{
	dcache_put(dc, dir, name, len, ino, true);
}

void dcache_drop(struct dcache *dc, ino_num dir, const char *name, size_t len)
{
	uint64_t hash = name_hash(dir, name, len);
	struct dcache_shard *shard = shard_of(dc, hash);
	struct dentry *d;

	mutex_lock(&shard->lock);
	d = chain_find(dc, hash, dir, name, len);
	if (d)
		atomic_store(&d->ino, DENTRY_UNKNOWN);
	mutex_unlock(&shard->lock);
}

void dcache_drop_dir(struct dcache *dc, ino_num dir)
{
	atomic_fetch_add_explicit(&dc->epochs[dir % DCACHE_EPOCHS], 1, memory_order_release);
}
