/* SPDX-License-Identifier: MIT */
/*
 * file_logged.c - data that goes through the log: all files with data=journal, single ones with the flag +j
 *
 *   write() ---folio---> file_store(): buffer of its block, in a transaction ---commit---> log ---checkpoint---> home
 *
 * L1  What a call writes or zeroes is in a transaction when the call returns: allocated, copied, and the size on disk moved
 *     over it, in one handle a piece. So calls survive a power cut in the order in which they were made, whatever they
 *     change, and fsync is one commit. (The flusher finds only what could not be logged for lack of memory.)
 * L2  A block of such a file is read from its buffer if there is one; the device may hold older bytes until the checkpoint.
 *     The buffer of a block changes under the lock of its folio alone, and goes away only when it is home.
 * L3  Freed blocks are revoked, as those of directories are (map.c): no replay writes them over their next life.
 * L4  A block that is no more such a file's has no buffer with contents: freed ones are forgotten with the revoke record,
 *     those of a file that gives the flag up here.
 * L5  A handle is for so many blocks that several find room in the transactions of the smallest journal.
 */
#include <errno.h>
#include <string.h>

#include "base/broken.h"
#include "base/counters.h"
#include "ext4/extent_private.h"
#include "ext4/file_private.h"

#define PIECE_BLKS_MAX 256u

bool inode_logs_data(const struct inode *inode)
{
	const struct ext4_fs *fs = inode->fs;

	if (fs->opt.data != DATA_JOURNAL && !(inode->flags & EXT4_JOURNAL_DATA_FL))
		return false;
	return S_ISREG(inode->mode) && fs->journal && !journal_is_null(fs->journal);
}

/* ---- writing ---- */

/* L5 */
static uint32_t piece_blks(const struct inode *inode)
{
	uint32_t max = journal_max_credits(inode->fs->journal), other = map_credits(inode, 1) + DISKSIZE_CREDITS;

	return max > other + 2 ? min_of((max - other) / 2, PIECE_BLKS_MAX) : 1;
}

static int log_block(struct handle *h, struct ext4_fs *fs, fsblk_t blk, const void *data)
{
	struct buffer_head *bh;
	int err;

	err = buffer_get(fs->bc, blk, &bh);
	if (err)
		return err;
	err = journal_get_create_access(h, bh);
	if (!err) {
		memcpy(bh->data, data, fs->block_bytes);
		buffer_set(bh, BH_UPTODATE);
		err = journal_dirty_metadata(h, bh);
	}
	buffer_put(bh);
	return err;
}

/* *done_out: blocks logged. */
static int log_blocks(struct handle *h, struct inode *inode, const struct map_result *r, const uint8_t *data,
		      uint32_t *done_out)
{
	struct ext4_fs *fs = inode->fs;
	uint32_t i;
	int err = 0;

	for (i = 0; i < r->len && !err; i++)
		err = log_block(h, fs, r->blk + i, data + ((size_t)i << fs->block_bits));
	*done_out = err ? i - 1 : i;
	counter_add(fs->counters, CNT_JOURNAL_DATA_BLOCKS_LOGGED, *done_out);
	return err;
}

/* In @h: the blocks of @r, mapped now if they were not, get @data; the size on disk moves over them. */
static int store_in(struct handle *h, struct inode *inode, lblk_t lblk, struct map_result *r, const uint8_t *data,
		    uint32_t *done_out)
{
	bool change = r->status != ES_WRITTEN;
	int err = 0;

	if (change)
		err = map_blocks(h, inode, lblk, r->len, MAP_CREATE | MAP_CONVERT | MAP_DELALLOC, r);
	if (err)
		return err;
	err = log_blocks(h, inode, r, data, done_out);
	if (err && change) {
		/* They are mapped, and what is in them is somebody's old data: this transaction may not commit. */
		journal_abort(inode->fs->journal, err);
		return -EROFS;
	}
	if (!*done_out)
		return err;
	atomic_store_explicit(&inode->sync_tid, h->tid, memory_order_release);
	atomic_store_explicit(&inode->datasync_tid, h->tid, memory_order_release);
	return file_disksize_raise(h, inode, ((uint64_t)lblk + *done_out) << inode->fs->block_bits);
}

int file_store(struct mapping *m, uint64_t pos_bytes, const void *data, size_t len_bytes, size_t *done_out)
{
	struct inode *inode = m->host;
	lblk_t lblk = file_lblk(inode, pos_bytes);
	uint32_t done = 0, credits;
	struct map_result r;
	struct handle h;
	int err, stop_err;

	err = map_lookup(inode, lblk, min_of((uint32_t)(len_bytes >> inode->fs->block_bits), piece_blks(inode)), &r);
	if (err)
		return err;
	if (r.status == ES_HOLE) { /* truncated meanwhile */
		*done_out = (size_t)r.len << inode->fs->block_bits;
		return 0;
	}
	credits = r.len + (r.status == ES_WRITTEN ? 0 : map_credits(inode, r.len)) + DISKSIZE_CREDITS;
	err = fs_handle_start(inode->fs, credits, 0, &h);
	if (err)
		return err;
	err = store_in(&h, inode, lblk, &r, data, &done);
	stop_err = journal_stop(&h);
	*done_out = (size_t)done << inode->fs->block_bits;
	return err ? err : stop_err;
}

void file_log_dirty(struct inode *inode, uint64_t pos_bytes, uint64_t end_bytes)
{
	struct writeback_control wbc = { .start_bytes = pos_bytes, .end_bytes = end_bytes, .budget_bytes = INT64_MAX };
	struct mapping *m = &inode->mapping;

	lock_assert_held(&inode->rwsem);
	if (!inode_logs_data(inode) || !atomic_load(&m->dirty_bytes) || is_broken(BROKEN_LATE_LOG))
		return;
	(void)m->ops->writepages(m, &wbc); /* what is lost is recorded, what is not stays dirty */
	file_reserve_settle(inode, 0);
}

/* ---- reading ---- */

/* L2. Blocks that are looked for and not found are home, and stay so while their folio is locked. */
int file_fetch(struct mapping *m, uint64_t addr_bytes, void *buf, uint64_t len_bytes)
{
	struct ext4_fs *fs = ((struct inode *)m->host)->fs;
	uint64_t at = 0, from = 0;
	int err = 0;

	for (; at < len_bytes && !err; at += fs->block_bytes) {
		struct buffer_head *bh = buffer_find(fs->bc, (addr_bytes + at) >> fs->block_bits);

		if (bh && buffer_test(bh, BH_UPTODATE)) {
			memcpy((uint8_t *)buf + at, bh->data, fs->block_bytes);
			if (at > from)
				err = block_read(fs->dev, addr_bytes + from, (uint8_t *)buf + from, at - from);
			from = at + fs->block_bytes;
		}
		buffer_put(bh);
	}
	if (!err && len_bytes > from)
		err = block_read(fs->dev, addr_bytes + from, (uint8_t *)buf + from, len_bytes - from);
	return err;
}

/* ---- the flag ---- */

/* L4 */
static int forget_buffers(struct inode *inode)
{
	struct map_result r;
	uint64_t lblk = 0;
	int err = 0;

	for (; lblk < LBLK_END && !err; lblk += r.len) {
		err = map_lookup(inode, (lblk_t)lblk, UINT32_MAX, &r);
		if (!err && r.blk)
			buffer_forget_range(inode->fs->bc, r.blk, r.len);
	}
	return err;
}

int file_logging_change_begin(struct inode *inode)
{
	int err;

	lock_assert_held(&inode->rwsem);
	err = file_flush(inode);
	if (err || !inode_logs_data(inode) || is_broken(BROKEN_KEEP_COPIES))
		return err;
	/* A copy in the log could be replayed over what is written in place from now on. */
	err = journal_checkpoint_all(inode->fs->journal);
	return err ? err : forget_buffers(inode);
}

void file_flags_set(struct inode *inode, uint32_t flags)
{
	rwsem_write_lock(&inode->map_sem);
	map_seq_bump(inode);
	inode->flags = flags;
	map_seq_bump(inode);
	rwsem_write_unlock(&inode->map_sem);
}
