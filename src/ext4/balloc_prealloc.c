/* SPDX-License-Identifier: MIT */
/*
 * balloc_prealloc.c - blocks set aside for the growth of one inode
 *
 * A preallocation is the run behind the last block that an inode got, for writers that allocate as they go (directories,
 * direct writes that extend). It exists in memory only: the blocks are out of the group's buddy and free on disk, so
 * a crash leaves nothing behind. When the disk is full everybody's are taken back.
 */
#include <errno.h>
#include <stdlib.h>

#include "ext4/balloc_private.h"
#include "ext4/inode.h"

/* Caller: g->lock. Gives the blocks back to the buddy; the object stays with the inode. */
static uint32_t prealloc_empty(struct ext4_fs *fs, struct prealloc *pa)
{
	uint32_t len = pa->len;

	if (!len)
		return 0;
	buddy_give(group_buddy(pa->g), pa->start, len);
	pa->len = 0;
	list_del(&pa->node);
	group_buddy(pa->g)->pins--;
	atomic_fetch_sub(&fs->balloc->preallocs, 1);
	return len;
}

int prealloc_use(struct handle *h, struct inode *inode, fsblk_t goal, uint32_t want)
{
	struct ext4_fs *fs = inode->fs;
	struct prealloc *pa = inode->prealloc;
	struct ext4_group *g = pa->g;
	int n = 0, err;

	mutex_lock(&g->lock);
	if (pa->len && goal == group_first_block(fs, g->group) + pa->start) {
		n = (int)min_of(pa->len, want);
		err = g->bad ? -EUCLEAN : group_range_check(fs, g, pa->start, (uint32_t)n, true);
		if (!err)
			err = group_bitmap_set(h, fs, g, pa->start, (uint32_t)n, true);
		if (err) {
			mutex_unlock(&g->lock);
			return err == -EUCLEAN ? 0 : err; /* a corrupt group: the blocks come from another */
		}
		pa->start += (uint32_t)n;
		pa->len -= (uint32_t)n;
		if (!pa->len) {
			list_del(&pa->node);
			group_buddy(g)->pins--;
			atomic_fetch_sub(&fs->balloc->preallocs, 1);
		}
	}
	mutex_unlock(&g->lock);
	return n;
}

void prealloc_set(struct inode *inode, struct ext4_group *g, struct prealloc *pa, uint32_t start, uint32_t len)
{
	struct buddy *b = group_buddy(g);

	lock_assert_held(&g->lock);
	UEXT4_ASSERT(!inode->prealloc);
	buddy_take(b, start, len);
	b->pins++;
	pa->g = g;
	pa->start = start;
	pa->len = len;
	list_add_tail(&pa->node, &b->preallocs);
	atomic_fetch_add(&inode->fs->balloc->preallocs, 1);
	inode->prealloc = pa;
}

void balloc_discard_prealloc(struct inode *inode)
{
	struct prealloc *pa = inode->prealloc;

	if (!pa)
		return;
	mutex_lock(&pa->g->lock);
	if (prealloc_empty(inode->fs, pa))
		group_reindex(inode->fs, pa->g);
	mutex_unlock(&pa->g->lock);
	inode->prealloc = NULL;
	free(pa);
}

uint64_t group_discard_preallocs(struct ext4_fs *fs, struct ext4_group *g)
{
	struct prealloc *pa, *next;
	uint64_t blks = 0;

	lock_assert_held(&g->lock);
	list_for_each_safe(pa, next, &group_buddy(g)->preallocs, node)
		blks += prealloc_empty(fs, pa);
	if (blks)
		group_reindex(fs, g);
	return blks;
}

uint64_t balloc_discard_all_preallocs(struct ext4_fs *fs)
{
	uint64_t blks = 0;
	group_t i;

	for (i = 0; i < fs->group_count && atomic_load(&fs->balloc->preallocs); i++) {
		struct ext4_group *g = &fs->groups[i];

		if (!group_buddy_is_built(g))
			continue;
		mutex_lock(&g->lock);
		if (group_buddy(g))
			blks += group_discard_preallocs(fs, g);
		mutex_unlock(&g->lock);
	}
	return blks;
}
