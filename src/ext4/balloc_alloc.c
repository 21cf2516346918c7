/* SPDX-License-Identifier: MIT */
/*
 * balloc_alloc.c - finding and claiming blocks
 *
 * The stages of a search, each only if those before found nothing:
 *   1. the inode's preallocation, if it starts at the goal;
 *   2. the goal itself: a run that continues the file's last extent is taken however short it is, since it makes no
 *      new extent; without a neighbour the run behind the group's last allocation must hold all of it, so that
 *      small files of one directory follow each other;
 *   3. a chunk in the goal's group that holds all of it;
 *   4. such a chunk in the nearest group that has one, by the group index (large new files continue where this thread's
 *      last one went);
 *   5. the longest run anywhere;
 *   6. the same once everybody's preallocations are taken back.
 *
 * What the index says may be out of date by the time the group is locked; each miss corrects it, and the number of misses is
 * bounded. Groups that are busy are passed over in stage 4 the first time round.
 */
#include <errno.h>
#include <stdlib.h>

#include "ext4/balloc_private.h"
#include "ext4/inode.h"

/* Largest chunk worth searching other groups for: 8192 blocks, a quarter of the longest extent. Runs may be longer. */
#define SEARCH_ORDER_MAX 13u
/* New data of this size and more streams: it goes where the thread's last such data went. */
#define STREAM_BLOCKS 16u
/* Groups that turned out not to have the chunk they promised, until the longest run there is will do. Bitmaps are read for them. */
#define MISSES_MAX 128u
/* Preallocation grows with the file between these. */
#define PREALLOC_BLOCKS_MIN 8u
#define PREALLOC_BLOCKS_MAX 512u
/* Inodes that may have one at a time: each pins a buddy for as long as the inode stays in memory. */
#define PREALLOCS_MAX 1024u

struct search {
	struct handle *h;
	struct ext4_fs *fs;
	const struct balloc_request *req;
	uint32_t want, min;       /* blocks; min is want for BALLOC_EXACT_LEN, else 1 */
	uint32_t order;           /* of a chunk that would hold want */
	fsblk_t goal;
	group_t goal_group;
	group_t groups;           /* search those below */
	bool has_neighbour;       /* goal continues something of this inode */
	struct prealloc *pa;      /* blank, to be filled with what follows; NULL: none wanted */
	uint32_t pa_want;
	uint32_t misses;          /* groups of stage 4 that disappointed */
	int first_err;            /* of groups that could not be used */
	fsblk_t blk;              /* result */
	uint32_t len;
};

enum how { NEAR_GOAL, WHOLE_CHUNK, LONGEST_RUN };

/* ---- within one group, locked ---- */

/* The run at @start, extended backwards if it is too short forwards. */
static uint32_t run_around(const struct buddy *b, uint32_t *start, uint32_t want)
{
	uint32_t run = buddy_run_at(b, *start, want), before;

	if (run < want) {
		before = buddy_run_before(b, *start, want - run);
		*start -= before;
		run += before;
	}
	return run;
}

/* Sets @start; returns the length found, 0: nothing that will do. */
static uint32_t find_at_goal(const struct search *s, const struct buddy *b, uint32_t *start)
{
	uint32_t off = (uint32_t)(s->goal - group_first_block(s->fs, s->goal_group)), run;

	if (!s->has_neighbour && off < b->next_fit)
		off = b->next_fit;
	run = buddy_run_at(b, off, s->want);
	if (run < (s->has_neighbour ? s->min : s->want))
		return 0;
	*start = off;
	return run;
}

static uint32_t find_chunk(const struct search *s, const struct buddy *b, group_t group, uint32_t order, uint32_t *start)
{
	uint32_t from = b->next_fit;

	if (s->has_neighbour && group == s->goal_group)
		from = (uint32_t)(s->goal - group_first_block(s->fs, group));
	if (!buddy_find(b, order, from, start))
		return 0;
	return run_around(b, start, s->want);
}

static uint32_t find_run(const struct search *s, const struct buddy *b, group_t group, enum how how, uint32_t *start)
{
	uint32_t run;

	if (!b->free)
		return 0;
	if (how == NEAR_GOAL) {
		run = find_at_goal(s, b, start);
		if (run)
			return run;
	}
	run = find_chunk(s, b, group, how == LONGEST_RUN ? buddy_largest(b) - 1 : s->order, start);
	return run < s->min ? 0 : run;
}

/* Claims the run; what follows it becomes the preallocation, if one is wanted. */
static int claim_run(struct search *s, struct ext4_group *g, uint32_t start, uint32_t len)
{
	struct buddy *b = group_buddy(g);
	uint32_t more = 0;
	int err;

	err = group_range_check(s->fs, g, start, len, true);
	if (!err)
		err = group_bitmap_set(s->h, s->fs, g, start, len, true);
	if (err)
		return err;
	buddy_take(b, start, len);
	if (s->pa && len == s->want)
		more = buddy_run_at(b, start + len, s->pa_want);
	if (more) {
		prealloc_set(s->req->inode, g, s->pa, start + len, more);
		s->pa = NULL;
	}
	if (!s->has_neighbour)
		b->next_fit = start + len + more;
	group_reindex(s->fs, g);
	s->blk = group_first_block(s->fs, g->group) + start;
	s->len = len;
	return 0;
}

/* Busy, or unreadable and reported: the blocks come from another group, unless none has any. */
static void note_failure(struct search *s, int err)
{
	if (!s->first_err && err != -EBUSY)
		s->first_err = err;
}

/* 1: claimed; 0: not here; negative: the whole search fails. */
static int group_try(struct search *s, group_t group, enum how how, bool wait)
{
	struct ext4_group *g = &s->fs->groups[group];
	uint32_t start, len;
	int err;

	err = group_lock_buddy(s->fs, g, wait);
	if (err == -ENOMEM)
		return err;
	if (err) {
		note_failure(s, err);
		return 0;
	}
	len = find_run(s, group_buddy(g), group, how, &start);
	if (len)
		err = claim_run(s, g, start, len);
	mutex_unlock(&g->lock);
	if (err == -EUCLEAN) {
		note_failure(s, err);
		return 0;
	}
	return err ? err : len > 0;
}

/* ---- over all groups ---- */

static int try_range(struct search *s, group_t from, group_t end, bool wait)
{
	group_t group;
	int got;

	for (group = group_index_next(&s->fs->balloc->index, s->order, from, end); group < end;
	     group = group_index_next(&s->fs->balloc->index, s->order, group + 1, end)) {
		got = group_try(s, group, WHOLE_CHUNK, wait);
		if (got)
			return got;
		if (s->min == 1 && ++s->misses > MISSES_MAX)
			break;
	}
	return 0;
}

static int try_nearest_chunk(struct search *s)
{
	struct balloc *ba = s->fs->balloc;
	_Atomic group_t *stream = &ba->stream[counter_shard_index()].group;
	bool streams = s->want >= STREAM_BLOCKS && !(s->req->flags & BALLOC_METADATA);
	group_t from = streams ? atomic_load_explicit(stream, memory_order_relaxed) : s->goal_group;
	int pass, got = 0;

	for (pass = 0; pass < 2 && !got; pass++) {
		got = try_range(s, from, s->groups, pass > 0);
		if (!got)
			got = try_range(s, 0, min_of(from, s->groups), pass > 0);
	}
	if (got > 0 && streams)
		atomic_store_explicit(stream, fs_group_of_block(s->fs, s->blk), memory_order_relaxed);
	return got;
}

/*
 * Groups with the largest chunks first. Each miss files its group under a lower order, so that this ends; the bound is
 * for those who free meanwhile.
 */
static int try_longest_run(struct search *s)
{
	struct group_index *ix = &s->fs->balloc->index;
	uint32_t largest = group_index_largest(ix);
	uint64_t misses = 2ull * s->groups + 64;
	group_t group;
	int got;

	while (largest && misses--) {
		group = group_index_next(ix, largest - 1, s->goal_group, s->groups);
		if (group == s->groups) {
			group = group_index_next(ix, largest - 1, 0, s->goal_group);
			if (group == s->goal_group) {
				largest--; /* all such groups lie out of reach, or were filed elsewhere just now */
				continue;
			}
		}
		got = group_try(s, group, LONGEST_RUN, true);
		if (got || s->min > 1) /* all or nothing: a chunk that would do was looked for before */
			return got;
	}
	return 0;
}

static int search_all(struct search *s)
{
	int got;

	if (!group_is_withdrawn(&s->fs->groups[s->goal_group])) {
		got = group_try(s, s->goal_group, NEAR_GOAL, true);
		if (got)
			return got;
	}
	got = try_nearest_chunk(s);
	return got ? got : try_longest_run(s);
}

static int search_run(struct search *s)
{
	int got;

	do {
		got = search_all(s);
	} while (!got && balloc_discard_all_preallocs(s->fs));
	if (got)
		return got < 0 ? got : 0;
	return s->first_err ? s->first_err : -ENOSPC;
}

/* ---- the request ---- */

static uint32_t order_holding(uint32_t blks)
{
	return blks > 1 ? 32 - (uint32_t)__builtin_clz(blks - 1) : 0;
}

/* Writers that allocate as they go; delayed allocation knows what it needs. */
static bool wants_prealloc(const struct balloc_request *req)
{
	if (req->flags & (BALLOC_NO_PREALLOC | BALLOC_EXACT_LEN | BALLOC_RESERVED))
		return false;
	if (req->flags & BALLOC_METADATA)
		return inode_is_dir(req->inode) && req->lblk > 0; /* most directories have one block and stay so */
	return S_ISREG(req->inode->mode) && req->len < PREALLOC_BLOCKS_MAX;
}

static uint32_t prealloc_want(const struct balloc_request *req)
{
	uint64_t end = (uint64_t)req->lblk + req->len;

	if (req->flags & BALLOC_METADATA || end < PREALLOC_BLOCKS_MIN)
		return PREALLOC_BLOCKS_MIN;
	return (uint32_t)min_of(end, (uint64_t)PREALLOC_BLOCKS_MAX);
}

/* Indirect maps have 32-bit block numbers. */
static group_t groups_in_reach(const struct inode *inode)
{
	const struct ext4_fs *fs = inode->fs;

	if (inode_has_extents(inode) || fs->blocks_count <= UINT32_MAX)
		return fs->group_count;
	return (UINT32_MAX - fs->first_data_block) / fs->blocks_per_group;
}

static fsblk_t group_end_block(const struct ext4_fs *fs, group_t end)
{
	return end >= fs->group_count ? fs->blocks_count : group_first_block(fs, end);
}

static void search_init(struct search *s, struct handle *h, const struct balloc_request *req, uint32_t want)
{
	struct ext4_fs *fs = req->inode->fs;
	fsblk_t own = balloc_inode_goal(req->inode);

	*s = (struct search){ .h = h, .fs = fs, .req = req, .want = want };
	s->min = req->flags & BALLOC_EXACT_LEN ? want : 1;
	s->order = min_of(order_holding(want), SEARCH_ORDER_MAX);
	s->groups = groups_in_reach(req->inode);
	s->goal = req->goal >= fs->first_data_block && req->goal < group_end_block(fs, s->groups) ? req->goal : own;
	s->has_neighbour = s->goal != own;
	s->goal_group = fs_group_of_block(fs, s->goal);
	if (s->goal_group >= s->groups) { /* the inode itself lies too far out */
		s->goal = group_first_block(fs, 0);
		s->goal_group = 0;
	}
	if (wants_prealloc(req) && atomic_load_explicit(&fs->balloc->preallocs, memory_order_relaxed) < PREALLOCS_MAX) {
		s->pa = calloc(1, sizeof(*s->pa)); /* without memory there is none */
		s->pa_want = prealloc_want(req);
		if (s->pa)
			list_init(&s->pa->node);
	}
}

/* 1 if the preallocation served the request; else it is given back, since the inode grows elsewhere now. */
static int try_prealloc(struct handle *h, const struct balloc_request *req, uint32_t want, fsblk_t *blk_out,
			uint32_t *len_out)
{
	int n;

	if (!req->inode->prealloc || !wants_prealloc(req))
		return 0;
	n = prealloc_use(h, req->inode, req->goal, want);
	if (n < 0)
		return n;
	if (!n) {
		balloc_discard_prealloc(req->inode);
		return 0;
	}
	*blk_out = req->goal;
	*len_out = (uint32_t)n;
	return 1;
}

static int alloc_claimed(struct handle *h, const struct balloc_request *req, uint32_t want, fsblk_t *blk_out,
			 uint32_t *len_out)
{
	struct search s;
	int err;

	err = try_prealloc(h, req, want, blk_out, len_out);
	if (err)
		return err < 0 ? err : 0;
	search_init(&s, h, req, want);
	err = search_run(&s);
	free(s.pa);
	if (err)
		return err;
	*blk_out = s.blk;
	*len_out = s.len;
	return 0;
}

int balloc_alloc(struct handle *h, const struct balloc_request *req, fsblk_t *blk_out, uint32_t *len_out)
{
	struct block_counter *counter = &req->inode->fs->balloc->counter;
	uint64_t claimed = 0;
	uint32_t want = req->len;
	int err;

	UEXT4_ASSERT(req->len > 0);
	if (!(req->flags & BALLOC_RESERVED)) {
		claimed = block_counter_claim(counter, want, balloc_claim_flags(req->flags));
		if (!claimed)
			return -ENOSPC;
		want = (uint32_t)claimed;
	}
	err = alloc_claimed(h, req, want, blk_out, len_out);
	if (err)
		*len_out = 0;
	if (claimed > *len_out)
		block_counter_give(counter, claimed - *len_out);
	return err;
}
