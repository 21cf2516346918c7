/* SPDX-License-Identifier: MIT */
/*
 * balloc_group.c - a group's buddy and block bitmap
 *
 * Buddies are built when a group is first needed and dropped by a clock hand when there are too many. A buddy with
 * pins (frees that wait for their commit, preallocations) stays: what it knows is written nowhere else.
 */
#include <errno.h>
#include <stdlib.h>

#include "ext4/balloc_private.h"

bool group_buddy_is_built(struct ext4_group *g)
{
	return __atomic_load_n(&g->buddy, __ATOMIC_RELAXED) != NULL;
}

static void buddy_set(struct ext4_group *g, struct buddy *b)
{
	__atomic_store_n(&g->buddy, b, __ATOMIC_RELAXED);
}

void group_reindex(struct ext4_fs *fs, struct ext4_group *g)
{
	uint32_t largest;

	lock_assert_held(&g->lock);
	if (g->largest_free_hint == BALLOC_WITHDRAWN)
		return;
	largest = buddy_largest(group_buddy(g));
	if (largest == g->largest_free_hint)
		return;
	group_index_move(&fs->balloc->index, g->group, g->largest_free_hint, largest);
	__atomic_store_n(&g->largest_free_hint, largest, __ATOMIC_RELAXED);
}

void group_withdraw(struct ext4_fs *fs, struct ext4_group *g)
{
	uint32_t lost;

	lock_assert_held(&g->lock);
	g->bad = true;
	if (g->largest_free_hint == BALLOC_WITHDRAWN)
		return;
	/* Pending frees are no tokens yet, and settle without becoming any. */
	lost = g->free_blocks;
	if (group_buddy(g)) {
		struct pending_free *pf;

		list_for_each(pf, &group_buddy(g)->pending, node)
			lost -= min_of(lost, pf->len);
	}
	block_counter_withdraw(&fs->balloc->counter, lost);
	group_index_move(&fs->balloc->index, g->group, g->largest_free_hint, 0);
	__atomic_store_n(&g->largest_free_hint, BALLOC_WITHDRAWN, __ATOMIC_RELAXED);
}

/* Caller: g->lock. */
static bool buddy_drop(struct ext4_fs *fs, struct ext4_group *g)
{
	struct buddy *b = group_buddy(g);

	if (!b || b->pins || atomic_exchange_explicit(&b->referenced, false, memory_order_relaxed))
		return false;
	buddy_set(g, NULL);
	buddy_free(b);
	atomic_fetch_sub(&fs->balloc->buddies, 1);
	return true;
}

/* Caller holds no group. The hand goes round at most twice: once to clear the marks, once to find one clear. */
static void buddies_shrink(struct ext4_fs *fs)
{
	struct balloc *ba = fs->balloc;
	uint64_t steps = 2ull * fs->group_count;

	while (atomic_load(&ba->buddies) >= ba->buddies_limit && steps--) {
		struct ext4_group *g = &fs->groups[atomic_fetch_add(&ba->clock_hand, 1) % fs->group_count];

		if (!group_buddy_is_built(g) || !mutex_trylock(&g->lock))
			continue;
		buddy_drop(fs, g);
		mutex_unlock(&g->lock);
	}
}

/* A bitmap that was never written is what the layout says it is; the descriptor's count follows it. */
static void free_count_adopt(struct ext4_fs *fs, struct ext4_group *g, uint32_t free_blks)
{
	if (free_blks > g->free_blocks)
		block_counter_give(&fs->balloc->counter, free_blks - g->free_blocks);
	else if (free_blks < g->free_blocks)
		block_counter_withdraw(&fs->balloc->counter, g->free_blocks - free_blks);
	g->free_blocks = free_blks;
}

/* Caller: g->lock; no buddy yet. */
static int buddy_build(struct ext4_fs *fs, struct ext4_group *g, struct buffer_head *bh)
{
	struct buddy *b = buddy_create(bh->data, group_block_count(fs, g->group));

	if (!b)
		return -ENOMEM;
	if (g->flags & EXT4_BG_BLOCK_UNINIT)
		free_count_adopt(fs, g, b->free);
	if (b->free != g->free_blocks) {
		group_withdraw(fs, g);
		FS_ERROR(fs, -EUCLEAN, "group %u: block bitmap has %u free blocks, descriptor says %u", g->group, b->free,
			 g->free_blocks);
		buddy_free(b);
		return -EUCLEAN;
	}
	buffer_hold(bh);
	b->bitmap_bh = bh;
	buddy_set(g, b);
	atomic_fetch_add(&fs->balloc->buddies, 1);
	group_reindex(fs, g);
	return 0;
}

/* Called and returns with the group locked; not locked in between. */
static int buddy_load(struct ext4_fs *fs, struct ext4_group *g)
{
	struct buffer_head *bh;
	int err;

	mutex_unlock(&g->lock);
	buddies_shrink(fs);
	err = group_block_bitmap(fs, g, &bh);
	mutex_lock(&g->lock);
	if (err) {
		if (err != -ENOMEM)
			group_withdraw(fs, g);
		return err;
	}
	if (g->bad)
		err = -EUCLEAN;
	else if (!group_buddy(g))
		err = buddy_build(fs, g, bh);
	buffer_put(bh);
	return err;
}

int group_lock_buddy(struct ext4_fs *fs, struct ext4_group *g, bool wait)
{
	int err = 0;

	if (wait)
		mutex_lock(&g->lock);
	else if (!mutex_trylock(&g->lock))
		return -EBUSY;
	if (g->bad) {
		group_withdraw(fs, g);
		err = -EUCLEAN;
	} else if (!group_buddy(g)) {
		err = buddy_load(fs, g);
	}
	if (err) {
		mutex_unlock(&g->lock);
		return err;
	}
	if (!atomic_load_explicit(&group_buddy(g)->referenced, memory_order_relaxed))
		atomic_store_explicit(&group_buddy(g)->referenced, true, memory_order_relaxed);
	return 0;
}

/* ---- bitmap ---- */

/* All of [start, start + len) has value @value in the on-disk @map? */
static bool bitmap_range_is(const uint8_t *map, uint32_t start, uint32_t len, bool value)
{
	uint8_t all = value ? 0xff : 0;

	while (len) {
		uint32_t bit = start % 8, n = min_of(8 - bit, len);
		uint8_t mask = (uint8_t)(((1u << n) - 1) << bit);

		if ((map[start / 8] ^ all) & mask)
			return false;
		start += n;
		len -= n;
	}
	return true;
}

static void bitmap_range_fill(uint8_t *map, uint32_t start, uint32_t len, bool value)
{
	while (len) {
		uint32_t bit = start % 8, n = min_of(8 - bit, len);
		uint8_t mask = (uint8_t)(((1u << n) - 1) << bit);

		if (value)
			map[start / 8] |= mask;
		else
			map[start / 8] &= (uint8_t)~mask;
		start += n;
		len -= n;
	}
}

int group_range_check(struct ext4_fs *fs, struct ext4_group *g, uint32_t start, uint32_t len, bool used)
{
	fsblk_t blk = group_first_block(fs, g->group) + start;

	lock_assert_held(&g->lock);
	if (!fs_data_blocks_valid(fs, blk, len)) {
		group_withdraw(fs, g);
		return FS_ERROR(fs, -EUCLEAN, "group %u: %s blocks %llu+%u of the file system's own", g->group,
				used ? "allocating" : "freeing", (unsigned long long)blk, len);
	}
	if (!bitmap_range_is(group_buddy(g)->bitmap_bh->data, start, len, !used)) {
		group_withdraw(fs, g);
		return FS_ERROR(fs, -EUCLEAN, "group %u: %s blocks %llu+%u that are %s", g->group,
				used ? "allocating" : "freeing", (unsigned long long)blk, len, used ? "in use" : "free");
	}
	if (used && g->free_blocks < len) {
		group_withdraw(fs, g);
		return FS_ERROR(fs, -EUCLEAN, "group %u: free block count too small", g->group);
	}
	return 0;
}

int group_store(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, struct buffer_head *bitmap_bh)
{
	int err;

	group_desc_store(fs, g);
	err = journal_dirty_metadata(h, bitmap_bh);
	if (err)
		return err;
	return journal_dirty_metadata(h, g->desc_bh);
}

int group_bitmap_set(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, uint32_t start, uint32_t len, bool used)
{
	struct buffer_head *bh = group_buddy(g)->bitmap_bh;
	int err;

	lock_assert_held(&g->lock);
	err = journal_get_write_access(h, bh);
	if (err)
		return err;
	err = journal_get_write_access(h, g->desc_bh);
	if (err)
		return err;
	group_block_bitmap_init(fs, g, bh);
	bitmap_range_fill(bh->data, start, len, used);
	g->free_blocks = used ? g->free_blocks - len : g->free_blocks + len;
	group_block_bitmap_csum_set(fs, g, bh);
	return group_store(h, fs, g, bh);
}

int group_bitmap_materialise(struct handle *h, struct ext4_fs *fs, struct ext4_group *g)
{
	struct buffer_head *bh = group_buddy(g)->bitmap_bh;
	int err;

	lock_assert_held(&g->lock);
	err = journal_get_write_access(h, bh);
	if (err)
		return err;
	err = journal_get_write_access(h, g->desc_bh);
	if (err)
		return err;
	group_block_bitmap_init(fs, g, bh);
	return group_store(h, fs, g, bh);
}
