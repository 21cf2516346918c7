/* SPDX-License-Identifier: MIT */
/*
 * file_reserve.c - blocks promised to dirty data
 *
 * Each delayed block is promised when it is dirtied, so that writeback cannot meet ENOSPC. Besides, the tree that will map
 * dirty data may grow: at worst every dirty block becomes an extent of its own between two others (allocated in pieces, or
 * converted in pieces), so the promise for the tree follows the amount of dirty data of the inode. Leaves split in halves,
 * which gives at least a quarter of a leaf's entries to dirty blocks, two for each.
 */
#include <errno.h>

#include "ext4/balloc.h"
#include "ext4/extent_private.h"
#include "ext4/file_private.h"

/* Tree blocks that @dirty_blks scattered dirty blocks may need at most. */
static uint64_t meta_for(const struct inode *inode, uint64_t dirty_blks)
{
	uint64_t per_node = ext_block_capacity(inode->fs) / 4, nodes, sum = 0;

	if (!dirty_blks)
		return 0;
	if (!inode_has_extents(inode))
		return dirty_blks + 2; /* a pointer block each, below two that they share */
	for (nodes = dirty_blks; nodes > 1;) {
		nodes = div_round_up(nodes, per_node);
		sum += nodes;
	}
	return sum;
}

static uint64_t dirty_blks(struct inode *inode)
{
	struct mapping *m = &inode->mapping;

	return (atomic_load_explicit(&m->dirty_bytes, memory_order_relaxed) +
		atomic_load_explicit(&m->writeback_bytes, memory_order_relaxed)) >> inode->fs->block_bits;
}

/* Data that has its blocks already was promised room on a full disk too: what its tree needs is there to be spared for it. */
static unsigned reserve_flags(uint32_t data_blks, bool root)
{
	return (root ? BALLOC_ROOT : 0) | (data_blks ? 0 : BALLOC_SPARE);
}

int file_reserve(struct inode *inode, uint32_t data_blks, uint32_t more_dirty_blks, bool root)
{
	uint64_t target = meta_for(inode, dirty_blks(inode) + more_dirty_blks), had, meta;
	int err;

	atomic_store_explicit(&inode->io.begun_blks, more_dirty_blks, memory_order_relaxed);
	had = atomic_load_explicit(&inode->io.reserved_meta, memory_order_relaxed);
	meta = had < target ? target - had : 0; /* only completions race, and they leave what begun_blks needs */
	if (!data_blks && !meta)
		return 0;
	err = balloc_reserve(inode->fs, data_blks + meta, reserve_flags(data_blks, root));
	if (err)
		return err;
	mutex_lock(&inode->es.lock);
	inode->io.reserved_meta += (uint32_t)meta;
	mutex_unlock(&inode->es.lock);
	return 0;
}

void file_reserve_done(struct inode *inode)
{
	atomic_store_explicit(&inode->io.begun_blks, 0, memory_order_relaxed);
}

void file_reserve_settle(struct inode *inode, uint64_t done_bytes)
{
	uint64_t dirty = dirty_blks(inode), done = done_bytes >> inode->fs->block_bits, target, excess = 0;

	dirty = (dirty > done ? dirty - done : 0) + atomic_load_explicit(&inode->io.begun_blks, memory_order_relaxed);
	if (!atomic_load_explicit(&inode->io.reserved_meta, memory_order_relaxed))
		return;
	target = meta_for(inode, dirty);
	mutex_lock(&inode->es.lock);
	if (inode->io.reserved_meta > target)
		excess = inode->io.reserved_meta - target;
	inode->io.reserved_meta -= (uint32_t)excess;
	mutex_unlock(&inode->es.lock);
	if (excess)
		balloc_unreserve(inode->fs, excess);
}
