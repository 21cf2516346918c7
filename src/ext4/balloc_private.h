/* SPDX-License-Identifier: MIT */
/* balloc_private.h - parts of the block allocator: buddies, group index, block counters */
#ifndef UEXT4_EXT4_BALLOC_PRIVATE_H
#define UEXT4_EXT4_BALLOC_PRIVATE_H

#include "base/counters.h"
#include "ext4/balloc.h"
#include "ext4/group.h"

/* ---- buddy: what of one group may be handed out ---- */

/* Largest group: 8 * 65536 blocks, so orders 0 to 19. */
#define BUDDY_ORDERS 20

/*
 * Free space of one group as the allocator sees it: the bitmap's free blocks less those freed by transactions that
 * have not committed and less preallocations. Twice over: one bit a block for runs, and for each order one bit for
 * each free, aligned, maximal chunk of 2^order blocks. Everything is under the group's lock.
 */
struct buddy {
	uint32_t blocks;                  /* [const] in the group */
	uint32_t orders;                  /* [const] orders in use: 0 to orders - 1 */
	uint32_t free;                    /* set bits of free_map */
	uint32_t pins;                    /* pending frees and preallocations: may not be dropped */
	uint32_t next_fit;                /* end of the last allocation without a neighbour: small files follow each other */
	_Atomic bool referenced;          /* [atomic] used since the clock hand passed */
	struct buffer_head *bitmap_bh;    /* [const] referenced */
	struct list_head pending;         /* pending_free.node, oldest first */
	struct list_head preallocs;       /* prealloc.node */
	uint32_t chunks[BUDDY_ORDERS];    /* set bits of each map */
	uint64_t *map[BUDDY_ORDERS];      /* [const pointers] into words */
	uint64_t *free_map;               /* [const pointer] into words */
	uint64_t words[];
};

/* Builds from an on-disk bitmap (set bit: in use) of @blocks bits. NULL: no memory. */
struct buddy *buddy_create(const uint8_t *bitmap, uint32_t blocks);
void buddy_free(struct buddy *b);
/* All of [start, start + len) is free, or becomes so. */
void buddy_take(struct buddy *b, uint32_t start, uint32_t len);
void buddy_give(struct buddy *b, uint32_t start, uint32_t len);
/* Free blocks from @start on, at most @max. */
uint32_t buddy_run_at(const struct buddy *b, uint32_t start, uint32_t max);
/* Free blocks that end right before @start, at most @max. */
uint32_t buddy_run_before(const struct buddy *b, uint32_t start, uint32_t max);
/* First block of a free chunk of at least 2^@order blocks, the smallest such order, the next at or after @from, around. */
bool buddy_find(const struct buddy *b, uint32_t order, uint32_t from, uint32_t *start_out);
/* Order of the largest free chunk plus one, 0: nothing is free. */
uint32_t buddy_largest(const struct buddy *b);

/* ---- group index: which groups have a free chunk of which order ---- */

/*
 * Per order one bit for each group whose largest chunk has that order, and a summary bit for each 64 groups. Written
 * under the group's lock, read without a lock: what is read is a hint that the group's own buddy confirms.
 */
struct group_index {
	group_t groups;                                    /* [const] */
	uint32_t words, summary_words;                     /* [const] per order */
	_Atomic uint64_t *map;                             /* [atomic] BUDDY_ORDERS * words */
	_Atomic uint64_t *summary;                         /* [atomic] BUDDY_ORDERS * summary_words */
	_Atomic int64_t count[BUDDY_ORDERS];               /* [atomic] groups of each order */
};

int group_index_init(struct group_index *ix, group_t groups);
void group_index_exit(struct group_index *ix);
/* @old_largest, @new_largest: order plus one, 0: on no list. */
void group_index_move(struct group_index *ix, group_t group, uint32_t old_largest, uint32_t new_largest);
/* First group in [from, end) whose largest chunk has an order in [min_order, BUDDY_ORDERS), or @end. */
group_t group_index_next(const struct group_index *ix, uint32_t min_order, group_t from, group_t end);
/* Highest order any group has, plus one; 0: none. */
uint32_t group_index_largest(const struct group_index *ix);

/* ---- block counter: blocks not yet given or promised to anybody ---- */

/*
 * Each block that may still be claimed is a token. Tokens lie in the shards of the threads, in the centre, and in two
 * pools: a small one for splits of unwritten extents, whose data has its blocks and was promised room, and s_r_blocks_count
 * for root. A claim takes tokens from its own shard; only an empty shard goes to the centre, and only an empty centre takes the
 * lock, calls every shard's tokens in and decides exactly. So nothing is shared far from a full disk, and a claim fails only
 * if the tokens are not there.
 */
#define BLOCK_COUNTER_BATCH 256

enum block_pool { BLOCK_POOL_SPARE, BLOCK_POOL_ROOT, BLOCK_POOLS }; /* in the order they are filled */
#define BLOCK_CLAIM_SPARE 0x1u /* may draw from the pool of this name */
#define BLOCK_CLAIM_ROOT  0x2u
#define BLOCK_CLAIM_ALL   0x4u /* all or nothing */

struct block_counter {
	struct {
		_Atomic int64_t blks;                      /* [atomic] >= 0 */
	} __attribute__((aligned(64))) shard[COUNTER_SHARDS];
	_Atomic int64_t central __attribute__((aligned(64))); /* [atomic] below 0 only after block_counter_withdraw() */
	_Atomic int64_t pool[BLOCK_POOLS];                 /* [lock for writes] what others may not claim */
	int64_t pool_target[BLOCK_POOLS];                  /* [const] */
	struct mutex lock;                                 /* RANK_LEAF */
};

void block_counter_init(struct block_counter *c, uint64_t free_blks, uint64_t spare_blks, uint64_t root_blks);
void block_counter_exit(struct block_counter *c);
/* Takes @blks tokens, or fewer but at least one without BLOCK_CLAIM_ALL; returns how many, 0: none were to be had. */
uint64_t block_counter_claim(struct block_counter *c, uint64_t blks, unsigned flags);
void block_counter_give(struct block_counter *c, uint64_t blks);
/* Blocks are lost (their group is corrupt). */
void block_counter_withdraw(struct block_counter *c, uint64_t blks);
int64_t block_counter_sum(const struct block_counter *c); /* the pools too */

static inline unsigned balloc_claim_flags(unsigned balloc_flags)
{
	return (balloc_flags & BALLOC_ROOT ? BLOCK_CLAIM_ROOT : 0) | (balloc_flags & BALLOC_SPARE ? BLOCK_CLAIM_SPARE : 0) |
	       (balloc_flags & BALLOC_EXACT_LEN ? BLOCK_CLAIM_ALL : 0);
}

/* ---- allocator of one file system ---- */

#define BALLOC_WITHDRAWN UINT32_MAX /* largest_free_hint of a group that is corrupt */

struct balloc {
	struct group_index index;
	struct block_counter counter;
	_Atomic uint64_t pending_blks;        /* [atomic] freed, not committed */
	_Atomic uint32_t preallocs;           /* [atomic] objects with blocks in them */
	_Atomic uint32_t buddies;             /* [atomic] built */
	uint32_t buddies_limit;               /* [const] */
	_Atomic group_t clock_hand;           /* [atomic] */
	struct workqueue *discard_wq;         /* [const] with opt.discard, else NULL */
	_Atomic uint64_t pending_created;     /* [atomic] pending frees, ever */
	_Atomic uint64_t pending_settled;     /* [atomic] of those: back, or lost */
	_Atomic uint32_t pending_waiters;     /* [atomic] threads in pending_wait() */
	struct mutex pending_lock;            /* RANK_LEAF: only for those who wait */
	struct cond pending_cond;             /* pending_settled has grown */
	struct {
		_Atomic group_t group;        /* [atomic] where this shard's large new files go */
	} __attribute__((aligned(64))) stream[COUNTER_SHARDS];
};

/* Blocks freed by a handle: they rejoin the buddy when its transaction has committed. */
struct pending_free {
	struct journal_callback cb;
	struct work work;                     /* for the discard */
	struct list_head node;                /* [group.lock] buddy.pending */
	struct ext4_fs *fs;                   /* [const] */
	struct ext4_group *g;                 /* [const] */
	tid_t tid;                            /* [const] */
	uint32_t start, len;                  /* [group.lock] grows until the commit */
};

/* Blocks set aside for one inode: taken out of the buddy, free on disk. */
struct prealloc {
	struct list_head node;                /* [group.lock] buddy.preallocs; on no list once empty */
	struct ext4_group *g;                 /* [inode.map_sem] group the blocks are or were in */
	uint32_t start, len;                  /* [group.lock] */
};

/**
 * group_lock_buddy() - lock @g with its buddy built
 * @wait: false: give up with -EBUSY if another thread has the group
 *
 * Reads the bitmap, if it must, without the lock. A group that turns out to be corrupt is withdrawn.
 * Return: 0 with @g->lock held; -EBUSY, -EIO, -EBADMSG, -EUCLEAN, -ENOMEM without it
 */
int group_lock_buddy(struct ext4_fs *fs, struct ext4_group *g, bool wait);
/* Without the lock: is there one now? */
bool group_buddy_is_built(struct ext4_group *g);
static inline struct buddy *group_buddy(const struct ext4_group *g) { return g->buddy; }
/* After a change of the buddy: files the group under its new largest order. Caller: g->lock. */
void group_reindex(struct ext4_fs *fs, struct ext4_group *g);
static inline bool group_is_withdrawn(const struct ext4_group *g)
{
	return __atomic_load_n(&g->largest_free_hint, __ATOMIC_RELAXED) == BALLOC_WITHDRAWN;
}
/* Takes a corrupt group out of use for good. Caller: g->lock. */
void group_withdraw(struct ext4_fs *fs, struct ext4_group *g);

/* May [start, start + len) of @g become used (or free)? -EUCLEAN: reported, and the group withdrawn. Caller: g->lock. */
int group_range_check(struct ext4_fs *fs, struct ext4_group *g, uint32_t start, uint32_t len, bool used);
/**
 * group_bitmap_set() - mark [start, start + len) of @g used or free in bitmap and descriptor, through @h
 * group_range_check() has passed. Caller: g->lock, buddy built.
 * Return: 0; errors of the journal
 */
int group_bitmap_set(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, uint32_t start, uint32_t len,
		     bool used);

/* The changed descriptor and @bitmap_bh through @h, which has access to both. Caller: g->lock. */
int group_store(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, struct buffer_head *bitmap_bh);
/* The first use of a group whose bitmap exists in memory only (BLOCK_UNINIT). Caller: g->lock, buddy built. */
int group_bitmap_materialise(struct handle *h, struct ext4_fs *fs, struct ext4_group *g);

/* Takes up to @want blocks from @inode's preallocation if it starts at @goal. Number taken, or negative. */
int prealloc_use(struct handle *h, struct inode *inode, fsblk_t goal, uint32_t want);
/* Makes [start, start + len) of @g, free in the buddy, @inode's preallocation. Caller: g->lock. @pa: blank, given away. */
void prealloc_set(struct inode *inode, struct ext4_group *g, struct prealloc *pa, uint32_t start, uint32_t len);
/* Gives back the preallocations of a group, of all groups. Returns the blocks that became free. */
uint64_t group_discard_preallocs(struct ext4_fs *fs, struct ext4_group *g);
uint64_t balloc_discard_all_preallocs(struct ext4_fs *fs);

#endif
