/* SPDX-License-Identifier: MIT */
/*
 * file_uncached.c - large writes for a caller who keeps the data himself, as the kernel above a FUSE server does
 *
 * The bytes go from the caller's memory to the device; no folio is made. The order is that of writeback:
 *   1. what lies before, past the size on disk, is written out (S1)
 *   2. holes are allocated, unwritten
 *   3. the data is written, and waited for
 *   4. what was unwritten becomes written, and both sizes move over it, in one handle
 * so a crash before the commit of 4 leaves unwritten extents, and the commit has no data to write (ORDER).
 *
 * invalidate_lock is held exclusively from before folios of the range are dropped until the data is there: no read
 * brings old bytes into the cache.
 *
 * Whatever is not whole blocks of an extent-mapped file, goes through the log, or runs out of space, goes through the cache, which knows how to
 * deal with it.
 */
#include <errno.h>

#include "ext4/balloc.h"
#include "ext4/extent_private.h"
#include "ext4/file_private.h"

#define UNCACHED_MIN_BYTES (128u << 10) /* smaller writes are better gathered in the cache */

struct uncached {
	struct inode *inode;
	struct iomap_piece pieces[IOMAP_PIECES_MAX];
	unsigned count;
	uint64_t start, end;      /* what the pieces cover, in bytes of the file */
	bool unwritten;           /* some of it has to be converted */
	bool root;                /* blocks kept for root may be taken */
};

/* Whole blocks of @from that may go this way. */
static uint64_t uncached_bytes(const struct inode *inode, uint64_t pos, const struct iov_cursor *from)
{
	uint64_t len = from->iov->iov_len - from->iov_off; /* one piece of memory; the next call takes the next */

	len = file_block_down(inode, min_of(len, (uint64_t)from->left_bytes));
	if (file_block_down(inode, pos) != pos || len < UNCACHED_MIN_BYTES)
		return 0;
	if (!inode_has_extents(inode) || inode_logs_data(inode) || inode->fs->opt.ablate & ABLATE_ORDERED_EXTENTS)
		return 0;
	return len;
}

/* Start of the folio at @pos, or @pos. */
static uint64_t folio_start_at(struct mapping *m, uint64_t pos)
{
	struct folio *f = mapping_find(m, pos >> PAGE_SHIFT_BITS);

	if (f) {
		pos = min_of(folio_pos(f), pos);
		folio_put(f);
	}
	return pos;
}

/* End of the folio that holds the byte before @end, or @end. */
static uint64_t folio_end_at(struct mapping *m, uint64_t end)
{
	struct folio *f = mapping_find(m, (end - 1) >> PAGE_SHIFT_BITS);

	if (f) {
		end = max_of(folio_pos(f) + folio_bytes(f), end);
		folio_put(f);
	}
	return end;
}

/* Folios that overlap [pos, end) go, whole: what is dirty in them is on disk first. Caller: invalidate_lock exclusive. */
static int drop_folios(struct mapping *m, uint64_t pos, uint64_t end)
{
	int err;

	if (!atomic_load(&m->nr_pages))
		return 0;
	pos = folio_start_at(m, pos);
	end = folio_end_at(m, end);
	err = mapping_write_and_wait(m, pos, end);
	if (!err)
		mapping_punch(m, pos, end);
	return err;
}

/* Where the blocks from @lblk on are, allocated if they were a hole. */
static int map_for_write(struct inode *inode, lblk_t lblk, uint32_t len, bool root, struct map_result *r)
{
	struct handle h;
	int err, stop_err;

	err = map_lookup(inode, lblk, len, r);
	if (err || r->status != ES_HOLE)
		return err;
	len = min_of(len, r->len);
	err = fs_handle_start_for(inode->fs, root, map_credits(inode, len), 0, &h);
	if (err)
		return err;
	err = map_blocks(&h, inode, lblk, len, MAP_CREATE | MAP_UNWRITTEN, r);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

/* Fills @u with pieces for [pos, end), as far as they go. An error only if there is none. */
static int gather(struct uncached *u, uint64_t pos, uint64_t end, uint8_t *buf)
{
	struct inode *inode = u->inode;
	uint8_t bits = inode->fs->block_bits;

	u->count = 0;
	u->start = u->end = pos;
	u->unwritten = false;
	while (u->end < end && u->count < IOMAP_PIECES_MAX) {
		struct map_result r;
		uint64_t n;
		uint32_t len = (uint32_t)((end - u->end) >> bits);
		int err = map_for_write(inode, file_lblk(inode, u->end), len, u->root, &r);

		if (!err && r.status == ES_DELAYED)
			err = -EAGAIN; /* dirtied through another path: the cache's */
		if (err)
			return u->count ? 0 : err;
		n = min_of((uint64_t)r.len << bits, end - u->end);
		u->pieces[u->count++] = (struct iomap_piece){ buf + (u->end - pos), n, r.blk << bits };
		u->unwritten |= r.status != ES_WRITTEN;
		u->end += n;
	}
	return 0;
}

/* In @h: both sizes are at least @end. Caller: inode.rwsem exclusive. */
static int move_sizes(struct handle *h, struct inode *inode, uint64_t end)
{
	if (inode_size(inode) < end)
		inode_size_set(inode, end);
	return file_disksize_raise(h, inode, end);
}

/* Step 4 */
static int convert(struct uncached *u)
{
	struct inode *inode = u->inode;
	lblk_t lblk = file_lblk(inode, u->start), stop = file_lblk(inode, u->end);
	int err, move_err, stop_err;

	if (!u->unwritten && file_disksize(inode) >= u->end)
		return 0;
	do {
		struct handle h;

		err = fs_handle_start(inode->fs, map_credits(inode, 1) + DISKSIZE_CREDITS, 0, &h);
		if (err)
			return err;
		err = map_set_state(&h, inode, &lblk, stop, false);
		move_err = err < 0 ? err : move_sizes(&h, inode, (uint64_t)lblk << inode->fs->block_bits);
		stop_err = journal_stop(&h);
		if (move_err || stop_err)
			return move_err ? move_err : stop_err;
	} while (err);
	return 0;
}

/* Written here, not by a commit. */
static void count_written(const struct uncached *u)
{
	struct counters *counters = u->inode->fs->counters;
	uint64_t bytes = u->end - u->start;

	counter_add(counters, CNT_WB_BYTES_WRITTEN, (int64_t)bytes);
	counter_add(counters, CNT_WB_DATA_PAGES_BY_FLUSHER, (int64_t)div_round_up(bytes, (uint64_t)PAGE_BYTES));
}

/* Steps 2 to 4, a transfer at a time. Bytes written, or an error if none was. */
static ssize_t write_bypassing(struct inode *inode, uint64_t pos, uint64_t len, uint8_t *buf, bool root)
{
	struct uncached u = { .inode = inode, .end = pos, .root = root };
	int err = 0;

	while (!err && u.end < pos + len) {
		err = gather(&u, u.end, pos + len, buf + (u.end - pos));
		if (!err)
			err = iomap_transfer(inode->fs->dev, BIO_WRITE, u.pieces, u.count);
		if (!err)
			err = convert(&u);
		if (err)
			u.end = u.start;
		else
			count_written(&u);
	}
	return u.end > pos ? (ssize_t)(u.end - pos) : err;
}

ssize_t file_write_uncached(struct inode *inode, uint64_t pos, struct iov_cursor *from, bool root)
{
	struct mapping *m = &inode->mapping;
	uint64_t len = uncached_bytes(inode, pos, from);
	ssize_t n;
	int err = 0;

	lock_assert_held(&inode->rwsem);
	if (!len)
		return 0;
	if (file_disksize(inode) < min_of(inode_size(inode), pos) || inode_size(inode) < pos)
		err = file_flush(inode); /* step 1 */
	if (!err)
		err = file_reserve(inode, 0, (uint32_t)(len >> inode->fs->block_bits), root);
	if (err)
		return err == -ENOSPC ? 0 : err;
	rwsem_write_lock(&m->invalidate_lock);
	err = drop_folios(m, pos, pos + len);
	n = err ? err : write_bypassing(inode, pos, len, (uint8_t *)from->iov->iov_base + from->iov_off, root);
	rwsem_write_unlock(&m->invalidate_lock);
	file_reserve_done(inode);
	file_reserve_settle(inode, 0);
	if (n > 0)
		iov_cursor_skip(from, (size_t)n);
	return n == -ENOSPC || n == -EAGAIN ? 0 : n;
}
