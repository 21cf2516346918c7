/* SPDX-License-Identifier: MIT */
/* balloc_claim.c - claiming blocks whose place others have chosen: fast commits */
#include <errno.h>

#include "ext4/balloc_private.h"

static int claim_locked(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, uint32_t start, uint32_t len)
{
	struct buddy *b = group_buddy(g);
	int err;

	err = group_range_check(fs, g, start, len, true);
	if (!err && buddy_run_at(b, start, len) < len)
		err = FS_ERROR(fs, -EUCLEAN, "group %u: blocks %u+%u are not to be had", g->group, start, len);
	if (!err)
		err = group_bitmap_set(h, fs, g, start, len, true);
	if (err)
		return err;
	buddy_take(b, start, len);
	group_reindex(fs, g);
	return 0;
}

int balloc_claim(struct handle *h, struct ext4_fs *fs, fsblk_t blk, uint32_t count)
{
	struct ext4_group *g = &fs->groups[fs_group_of_block(fs, blk)];
	uint32_t start = (uint32_t)(blk - group_first_block(fs, g->group));
	unsigned pools = BLOCK_CLAIM_ALL | BLOCK_CLAIM_ROOT | BLOCK_CLAIM_SPARE;
	int err = group_lock_buddy(fs, g, true);

	if (err)
		return err;
	if (block_counter_claim(&fs->balloc->counter, count, pools) == count) {
		err = claim_locked(h, fs, g, start, count);
		if (err)
			block_counter_give(&fs->balloc->counter, count);
	} else {
		err = -ENOSPC;
	}
	mutex_unlock(&g->lock);
	return err;
}
