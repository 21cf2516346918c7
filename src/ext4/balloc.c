/* SPDX-License-Identifier: MIT */
/* balloc.c - the allocator's life, reservations and goals; see balloc_alloc.c and balloc_free.c for the work */
#include <errno.h>
#include <stdlib.h>

#include "ext4/balloc_private.h"
#include "ext4/inode.h"
#include "ext4/super.h"
#include "ext4/super_format.h"

/* Share of the cache limit that buddies may take, and what is assumed where the limit is automatic. */
#define BUDDY_CACHE_SHARE   32u
#define BUDDY_CACHE_DEFAULT (256ull << 20)
#define BUDDIES_MIN         64u
#define SPARE_BLOCKS_MAX    4096u

static uint32_t buddies_limit(const struct ext4_fs *fs)
{
	uint64_t cache = fs->opt.cache_bytes ? fs->opt.cache_bytes : BUDDY_CACHE_DEFAULT;
	uint64_t each = sizeof(struct buddy) + 3ull * fs->blocks_per_group / 8 + fs->block_bytes; /* with its bitmap */
	uint64_t limit = max_of(cache / BUDDY_CACHE_SHARE / each, (uint64_t)BUDDIES_MIN);

	return (uint32_t)min_of(limit, (uint64_t)UINT32_MAX);
}

/*
 * Until a group's buddy is built its largest chunk is guessed from the free count, never too low: a group is not
 * passed over for want of a look.
 */
static uint64_t index_groups(struct ext4_fs *fs)
{
	uint64_t free_blks = 0;
	group_t i;

	for (i = 0; i < fs->group_count; i++) {
		struct ext4_group *g = &fs->groups[i];
		uint32_t largest = g->free_blocks ? 32 - (uint32_t)__builtin_clz(g->free_blocks) : 0;

		g->buddy = NULL;
		if (g->bad) {
			g->largest_free_hint = BALLOC_WITHDRAWN;
			continue;
		}
		largest = min_of(largest, (uint32_t)BUDDY_ORDERS);
		g->largest_free_hint = largest;
		group_index_move(&fs->balloc->index, i, 0, largest);
		free_blks += g->free_blocks;
	}
	return free_blks;
}

static uint64_t root_reserved_blocks(const struct ext4_fs *fs)
{
	const struct ext4_super_block *sb = fs_super(fs);
	uint64_t blks = le32_get(sb->s_r_blocks_count_lo);

	if (fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_64BIT))
		blks |= (uint64_t)le32_get(sb->s_r_blocks_count_hi) << 32;
	return min_of(blks, fs->blocks_count);
}

/* As many as Linux keeps: 2%, at most 4,096 clusters; nothing is unwritten where there are no extents. */
static uint64_t spare_blocks(const struct ext4_fs *fs)
{
	if (!fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_EXTENTS))
		return 0;
	return min_of((fs->blocks_count >> fs->cluster_bits) / 50, (uint64_t)SPARE_BLOCKS_MAX) << fs->cluster_bits;
}

uint64_t balloc_kept_blocks(const struct ext4_fs *fs)
{
	return spare_blocks(fs) + root_reserved_blocks(fs);
}

int balloc_init(struct ext4_fs *fs)
{
	struct balloc *ba = aligned_alloc(64, round_up_to(sizeof(*ba), 64u));
	unsigned i;
	int err;

	if (!ba)
		return -ENOMEM;
	*ba = (struct balloc){ .buddies_limit = buddies_limit(fs) };
	err = group_index_init(&ba->index, fs->group_count);
	if (err)
		goto free_balloc;
	if (fs->opt.discard) {
		err = workqueue_start("uext4-discard", 1, &ba->discard_wq);
		if (err)
			goto exit_index;
	}
	fs->balloc = ba;
	for (i = 0; i < COUNTER_SHARDS; i++) /* threads stream into regions of their own */
		atomic_init(&ba->stream[i].group, (group_t)((uint64_t)fs->group_count * i / COUNTER_SHARDS));
	block_counter_init(&ba->counter, index_groups(fs), spare_blocks(fs), root_reserved_blocks(fs));
	mutex_init(&ba->pending_lock, RANK_LEAF);
	cond_init(&ba->pending_cond);
	return 0;
exit_index:
	group_index_exit(&ba->index);
free_balloc:
	free(ba);
	return err;
}

void balloc_exit(struct ext4_fs *fs)
{
	struct balloc *ba = fs->balloc;
	group_t i;

	if (!ba)
		return;
	workqueue_stop(ba->discard_wq);
	for (i = 0; i < fs->group_count; i++) {
		buddy_free(fs->groups[i].buddy);
		fs->groups[i].buddy = NULL;
	}
	cond_exit(&ba->pending_cond);
	mutex_exit(&ba->pending_lock);
	block_counter_exit(&ba->counter);
	group_index_exit(&ba->index);
	free(ba);
	fs->balloc = NULL;
}

int balloc_reserve(struct ext4_fs *fs, uint64_t blks, unsigned flags)
{
	if (!blks)
		return 0;
	return block_counter_claim(&fs->balloc->counter, blks, balloc_claim_flags(flags | BALLOC_EXACT_LEN)) ? 0 : -ENOSPC;
}

void balloc_unreserve(struct ext4_fs *fs, uint64_t blks)
{
	if (blks)
		block_counter_give(&fs->balloc->counter, blks);
}

uint64_t balloc_free_count(struct ext4_fs *fs)
{
	int64_t blks = block_counter_sum(&fs->balloc->counter) + (int64_t)atomic_load(&fs->balloc->pending_blks);

	return blks > 0 ? (uint64_t)blks : 0;
}

/*
 * The inode's own group: directories are spread over groups and their files follow them, so that directories do not
 * compete for one group's lock, and what is read together lies together.
 */
fsblk_t balloc_inode_goal(const struct inode *inode)
{
	return group_first_block(inode->fs, inode->block_group < inode->fs->group_count ? inode->block_group : 0);
}
