/* SPDX-License-Identifier: MIT */
/*
 * file_writeback.c - writeback of file data: allocation before the I/O
 *
 *   dirty delayed ---wb_map_blocks()---> unwritten, I/O in flight ---file_ioend.c---> written, size on disk moved
 *
 * W1  A delayed extent is allocated whole and unwritten, in one handle under the folio lock. A crash from here until the
 *     conversion commits leaves an unwritten extent: it reads as zeros.
 * W2  When the I/O is done, a work item converts what it wrote and moves disksize (file_ioend.c), through a handle whose
 *     credits were reserved before the I/O went out: completion never waits for log space. Then the folios leave
 *     writeback. The commit has no data to write (ORDER).
 * W3  I/O over written blocks below disksize takes no handle and no work item.
 * W4  What lies past disksize is written in the order of the file: by one pass at a time, which starts there if it was
 *     to start later, passes no dirty folio by, and ends where the file did when it began: an append behind it begins in a
 *     folio that it may have passed. So whatever was dirty before an ioend went out, and lies before it, went out before.
 *     A pass that stays below disksize meets no such data and needs no lock.
 * W5  Files with indirect maps have no unwritten state: their blocks are mapped, and disksize moved, with the I/O
 *     announced to the journal before the handle stops (journal_wait_begin()). The I/O goes out before the folio is
 *     unlocked (IOMAP_F_SUBMIT), so the commit that waits for it waits for the device alone.
 * W6  The ablation "ordered-extents" treats all files so, and leaves the I/O to the commit, as jbd2 does.
 * W7  Data that goes through the log is copied to buffers under the folio lock (IOMAP_F_STORE, file_logged.c). Which way it goes
 *     is asked under that lock, so that a change of the flag, which nothing dirty survives, is seen by whatever is dirtied after.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/broken.h"
#include "ext4/extent_private.h"
#include "ext4/file_private.h"

#define ALLOC_BACK_BLKS 2048u /* a delayed extent is allocated from its start if that is not further before the block asked for */

/* W5: announced by this thread's wb_map_blocks(), taken over by the wb_submit() that follows under the same folio lock. */
static _Thread_local struct file_ioend *announced;

static bool maps_at_once(const struct inode *inode)
{
	return !inode_has_extents(inode) || (inode->fs->opt.ablate & ABLATE_ORDERED_EXTENTS) || is_broken(BROKEN_NO_WAIT);
}

/* W6 */
static bool left_to_commit(const struct inode *inode)
{
	return inode->fs->opt.ablate & ABLATE_ORDERED_EXTENTS;
}

static void issue_for_commit(struct journal_data_wait *wait)
{
	struct iomap_ioend *ioend = container_of(wait, struct file_ioend, wait)->ioend;
	struct inode *inode = ioend->mapping->host;

	iomap_ioend_issue(ioend, inode->fs->counters);
}

/* An announcement that no I/O followed: the folio was given up. */
static void announced_drop(struct journal *j)
{
	if (!announced)
		return;
	if (announced->waits)
		journal_wait_end(j, &announced->wait, 0);
	free(announced);
	announced = NULL;
}

/* W1. Fills @r for @lblk. */
static int allocate_unwritten(struct inode *inode, lblk_t lblk, struct map_result *r)
{
	uint64_t end = (uint64_t)r->es_lblk + r->es_len;
	lblk_t start = lblk - r->es_lblk <= ALLOC_BACK_BLKS ? r->es_lblk : lblk;
	uint32_t len;
	struct handle h;
	int err, stop_err;

	for (;;) {
		len = (uint32_t)min_of(end - start, (uint64_t)EXT4_EXT_UNWRITTEN_MAX);
		err = fs_handle_start(inode->fs, map_credits(inode, len), 0, &h);
		if (err)
			return err;
		err = map_blocks(&h, inode, start, len, MAP_CREATE | MAP_UNWRITTEN | MAP_DELALLOC, r);
		stop_err = journal_stop(&h);
		if (err || stop_err)
			return err ? err : stop_err;
		if ((uint64_t)start + r->len > lblk)
			break;
		start = lblk; /* the run found was short */
	}
	return map_lookup(inode, lblk, UINT32_MAX, r);
}

/* In an open handle: the I/O is announced, and the size moved over what it writes (W5). */
static int announce(struct handle *h, struct inode *inode, uint64_t end_bytes)
{
	if (!is_broken(BROKEN_NO_WAIT)) {
		announced->wait.issue = left_to_commit(inode) ? issue_for_commit : NULL;
		journal_wait_begin(h, &announced->wait);
		announced->waits = true;
	}
	return file_disksize_raise(h, inode, end_bytes);
}

/* W5: written blocks for [lblk, lblk + len), or those in @r if they are written already, with their I/O announced. */
static int map_at_once(struct inode *inode, lblk_t lblk, uint32_t len, struct map_result *r)
{
	bool change = r->status != ES_WRITTEN;
	struct handle h;
	int err, stop_err;

	UEXT4_ASSERT(!announced);
	announced = calloc(1, sizeof(*announced));
	if (!announced)
		return -ENOMEM;
	err = fs_handle_start(inode->fs, (change ? map_credits(inode, len) : 0) + DISKSIZE_CREDITS, 0, &h);
	if (err)
		goto free;
	if (change) {
		err = map_blocks(&h, inode, lblk, len, MAP_CREATE | MAP_CONVERT | MAP_DELALLOC, r);
		len = r->len;
	}
	if (!err)
		err = announce(&h, inode, ((uint64_t)lblk + len) << inode->fs->block_bits);
	stop_err = journal_stop(&h);
	if (!err)
		err = stop_err;
	if (!err)
		return 0;
	if (announced->waits)
		journal_wait_end(inode->fs->journal, &announced->wait, err);
free:
	free(announced);
	announced = NULL;
	return err;
}

/* W5 */
static bool has_to_announce(const struct inode *inode, uint64_t end_bytes, const struct map_result *r)
{
	if (!maps_at_once(inode))
		return false;
	return r->status == ES_DELAYED || r->status == ES_UNWRITTEN ||
	       (r->status == ES_WRITTEN && min_of(end_bytes, inode_size(inode)) > file_disksize(inode));
}

/*
 * W5: what is mapped already past disksize needs an announcement too, by the call that asks for it: the map given before ends
 * there, however long the run is.
 */
static void end_at_disksize(const struct inode *inode, uint64_t pos_bytes, struct iomap *map)
{
	uint64_t limit = file_block_down(inode, file_disksize(inode));

	if (maps_at_once(inode) && !(map->flags & IOMAP_F_SUBMIT) && pos_bytes < limit)
		map->len_bytes = min_of(map->len_bytes, limit - map->pos_bytes);
}

static int wb_map_blocks(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, struct iomap *map)
{
	struct inode *inode = m->host;
	lblk_t lblk = file_lblk(inode, pos_bytes);
	uint32_t len = file_lblk_up(inode, pos_bytes + len_bytes) - lblk;
	uint8_t bits = inode->fs->block_bits;
	struct map_result r;
	int err;

	announced_drop(inode->fs->journal);
	map->flags = 0;
	map->seq = atomic_load_explicit(&inode->map_seq, memory_order_acquire);
	if (inode_logs_data(inode)) {
		*map = (struct iomap){ .type = IOMAP_MAPPED, .flags = IOMAP_F_STORE, .pos_bytes = pos_bytes, .len_bytes = len_bytes,
				       .seq = map->seq };
		return 0;
	}
	err = map_lookup(inode, lblk, len, &r);
	if (!err && has_to_announce(inode, ((uint64_t)lblk + r.len) << bits, &r)) {
		map->flags = IOMAP_F_SUBMIT;
		err = map_at_once(inode, lblk, r.len, &r);
	} else if (!err && r.status == ES_DELAYED) {
		err = allocate_unwritten(inode, lblk, &r);
	}
	map->seq = atomic_load_explicit(&inode->map_seq, memory_order_acquire);
	if (err)
		return err;
	map->type = r.status == ES_WRITTEN ? IOMAP_MAPPED : r.status == ES_UNWRITTEN ? IOMAP_UNWRITTEN : IOMAP_HOLE;
	map->pos_bytes = (uint64_t)r.es_lblk << bits;
	map->len_bytes = (uint64_t)r.es_len << bits;
	map->addr_bytes = r.blk ? (r.blk - (lblk - r.es_lblk)) << bits : 0;
	end_at_disksize(inode, pos_bytes, map);
	return 0;
}

static bool wb_is_valid(struct mapping *m, const struct iomap *map)
{
	const struct inode *inode = m->host;

	return !(map->flags & IOMAP_F_SUBMIT) &&
	       map->seq == atomic_load_explicit(&inode->map_seq, memory_order_acquire);
}

static int wb_submit(struct iomap_ioend *ioend)
{
	struct inode *inode = ioend->mapping->host;
	uint64_t end = min_of(ioend->pos_bytes + ioend->len_bytes, inode_size(inode));
	struct file_ioend *fi = announced;
	bool extends;
	int err;

	if (fi) {
		announced = NULL;
		file_ioend_sent(fi, ioend);
		return fi->wait.issue && journal_wait_offer(inode->fs->journal, &fi->wait) ? IOMAP_SUBMIT_LATER : 0;
	}
	/*
	 * What is below i_size now is in memory, and goes out. What is written behind it while the I/O is in flight may not, so
	 * the size on disk moves no further than this.
	 */
	extends = end > file_disksize(inode);
	if (!extends && ioend->type != IOMAP_UNWRITTEN)
		return 0; /* W3 */
	fi = calloc(1, sizeof(*fi));
	if (!fi)
		return -ENOMEM;
	err = journal_reserve(inode->fs->journal, map_credits(inode, 1) + DISKSIZE_CREDITS, &fi->handle);
	if (err) {
		free(fi);
		return err;
	}
	fi->has_handle = true;
	fi->extends_to = extends ? end : 0;
	if (ioend->last)
		file_ioend_last_begin(fi);
	file_ioend_sent(fi, ioend);
	return 0;
}

static const struct iomap_writeback_ops writeback_ops = {
	.map_blocks = wb_map_blocks,
	.is_valid = wb_is_valid,
	.store = file_store,
	.submit = wb_submit,
	.end_io = file_ioend_done,
};

/* ---- the mapping's operations ---- */

/* W4: may the pass meet data past disksize? If there is none, a pass over all of the file is cut off where there might soon be. */
static bool pass_is_ordered(const struct inode *inode, struct writeback_control *wbc)
{
	uint64_t disksize = file_disksize(inode), page = disksize & ~(uint64_t)(PAGE_BYTES - 1);

	if (page == disksize && disksize >= inode_size(inode))
		wbc->end_bytes = min_of(wbc->end_bytes, disksize);
	return wbc->end_bytes > page;
}

static int ordered_pass(struct mapping *m, struct writeback_control *wbc)
{
	struct inode *inode = m->host;
	int err;

	mutex_lock(&inode->io.pass_lock);
	wbc->ordered_from_bytes = file_disksize(inode);
	wbc->start_bytes = min_of(wbc->start_bytes, wbc->ordered_from_bytes);
	wbc->end_bytes = min_of(wbc->end_bytes, file_block_up(inode, inode_size(inode)));
	err = iomap_writepages(m, wbc, &writeback_ops, inode->fs->counters);
	mutex_unlock(&inode->io.pass_lock);
	return err;
}

static int file_writepages(struct mapping *m, struct writeback_control *wbc)
{
	struct inode *inode = m->host;
	int err;

	if (pass_is_ordered(inode, wbc))
		err = ordered_pass(m, wbc);
	else
		err = iomap_writepages(m, wbc, &writeback_ops, inode->fs->counters);
	announced_drop(inode->fs->journal);
	file_ioend_last_done(inode);
	return err;
}

static bool file_grab(struct mapping *m)
{
	struct inode *inode = m->host;

	return !inode->fs->vfs_ops || inode->fs->vfs_ops->inode_grab(inode);
}

static void file_drop(struct mapping *m)
{
	struct inode *inode = m->host;

	if (inode->fs->vfs_ops)
		inode->fs->vfs_ops->inode_drop(inode);
}

const struct mapping_ops file_mapping_ops = {
	.writepages = file_writepages,
	.grab = file_grab,
	.drop = file_drop,
};
