/* SPDX-License-Identifier: MIT */
/*
 * file_ioend.c - writeback: allocation before the I/O, conversion and size after it
 *
 *   dirty delayed ---wb_map_blocks()---> unwritten, I/O in flight ---ioend_work()---> written, size on disk moved
 *
 * W1  A delayed extent is allocated whole and unwritten, in one handle under the folio lock. A crash from here until the
 *     conversion commits leaves an unwritten extent: it reads as zeros.
 * W2  When the I/O is done, a work item converts what it wrote and moves disksize (S1, S2), through a handle whose credits
 *     were reserved before the I/O went out: completion never waits for log space. Then the folios leave writeback.
 *     The commit has no data to write (ORDER).
 * W3  I/O over written blocks below disksize takes no handle and no work item.
 * W4  Completions of one inode collect on a stack until the work item takes them all: one handle converts a batch.
 * W5  Files with indirect maps have no unwritten state: their blocks are mapped, and disksize moved, with the I/O
 *     announced to the journal before the handle stops (journal_wait_begin()). The I/O goes out before the folio is
 *     unlocked (IOMAP_F_SUBMIT), so the commit that waits for it waits for the device alone. The ablation
 *     "ordered-extents" treats all files so.
 *
 * A folio under writeback keeps its inode alive: eviction waits for it. The work item touches no inode after its last
 * iomap_ioend_finish().
 */
#include <errno.h>
#include <stdlib.h>

#include "base/workqueue.h"
#include "ext4/extent_private.h"
#include "ext4/file_private.h"

#define ALLOC_BACK_BLKS 2048u /* a delayed extent is allocated from its start if that is not further before the block asked for */

/* Kept from submission to completion of I/O that needs more than its folios unlocked. */
struct file_ioend {
	struct work work;              /* of the first one on the stack */
	struct file_ioend *next;       /* on file_io.done */
	struct iomap_ioend *ioend;
	struct handle handle;          /* reserved (W2) */
	bool has_handle;
	bool waits;                    /* the commit waits for it (W5) */
	struct journal_data_wait wait;
};

/* W5: announced by this thread's wb_map_blocks(), taken over by the wb_submit() that follows under the same folio lock. */
static _Thread_local struct file_ioend *announced;

/* ---- before the I/O ---- */

static bool maps_at_once(const struct inode *inode)
{
	return !inode_has_extents(inode) || (inode->fs->opt.ablate & ABLATE_ORDERED_EXTENTS);
}

/* An announcement that no I/O followed: the folio was given up. */
static void announced_drop(struct journal *j)
{
	if (!announced)
		return;
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

/* In the handle of the allocation: the I/O is announced and the size moved (W5). */
static int announce(struct handle *h, struct inode *inode, uint64_t end_bytes)
{
	uint64_t size;
	int err = 0;

	journal_wait_begin(h, &announced->wait);
	announced->waits = true;
	rwsem_write_lock(&inode->map_sem);
	size = min_of(inode_size(inode), end_bytes);
	if (file_disksize(inode) < size)
		err = file_disksize_set(h, inode, size);
	rwsem_write_unlock(&inode->map_sem);
	return err;
}

static int allocate_written(struct inode *inode, lblk_t lblk, uint32_t len, struct map_result *r)
{
	struct handle h;
	int err, stop_err;

	UEXT4_ASSERT(!announced);
	announced = calloc(1, sizeof(*announced));
	if (!announced)
		return -ENOMEM;
	err = fs_handle_start(inode->fs, map_credits(inode, len) + DISKSIZE_CREDITS, 0, &h);
	if (err)
		goto free;
	err = map_blocks(&h, inode, lblk, len, MAP_CREATE | MAP_DELALLOC, r);
	if (!err)
		err = announce(&h, inode, ((uint64_t)lblk + r->len) << inode->fs->block_bits);
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
	err = map_lookup(inode, lblk, len, &r);
	if (!err && r.status == ES_DELAYED) {
		if (maps_at_once(inode)) {
			map->flags = IOMAP_F_SUBMIT;
			err = allocate_written(inode, lblk, r.len, &r);
		} else {
			err = allocate_unwritten(inode, lblk, &r);
		}
		map->seq = atomic_load_explicit(&inode->map_seq, memory_order_acquire);
	}
	if (err)
		return err;
	map->type = r.status == ES_WRITTEN ? IOMAP_MAPPED : r.status == ES_UNWRITTEN ? IOMAP_UNWRITTEN : IOMAP_HOLE;
	map->pos_bytes = (uint64_t)r.es_lblk << bits;
	map->len_bytes = (uint64_t)r.es_len << bits;
	map->addr_bytes = r.blk ? (r.blk - (lblk - r.es_lblk)) << bits : 0;
	return 0;
}

static bool wb_is_valid(struct mapping *m, const struct iomap *map)
{
	const struct inode *inode = m->host;

	return !(map->flags & IOMAP_F_SUBMIT) &&
	       map->seq == atomic_load_explicit(&inode->map_seq, memory_order_acquire);
}

/* Will completion have to change the inode? */
static bool needs_handle(const struct inode *inode, const struct iomap_ioend *ioend)
{
	uint64_t end = ioend->pos_bytes + ioend->len_bytes;

	if (ioend->type == IOMAP_UNWRITTEN)
		return true;
	end = max_of(end, __atomic_load_n(&inode->io.completed_end, __ATOMIC_RELAXED));
	return min_of(end, inode_size(inode)) > file_disksize(inode);
}

static int wb_submit(struct iomap_ioend *ioend)
{
	struct inode *inode = ioend->mapping->host;
	struct file_ioend *fi = announced;
	int err;

	announced = NULL;
	if (!fi && !needs_handle(inode, ioend))
		return 0; /* W3 */
	if (!fi)
		fi = calloc(1, sizeof(*fi));
	if (!fi)
		return -ENOMEM;
	fi->ioend = ioend;
	ioend->private_data = fi;
	if (fi->waits)
		return 0;
	err = journal_reserve(inode->fs->journal, map_credits(inode, 1) + DISKSIZE_CREDITS, &fi->handle);
	if (err) {
		ioend->private_data = NULL;
		free(fi);
		return err;
	}
	fi->has_handle = true;
	return 0;
}

/* ---- after the I/O ---- */

/* What one work item completes. */
struct batch {
	struct inode *inode;
	struct file_ioend **v;     /* by position */
	size_t count;
	size_t next_handle;        /* reserved handles before it are used up or given back */
	struct handle own;         /* when the reserved ones did not suffice */
	struct handle *open;       /* NULL: none */
	struct file_range *range;  /* of those without error */
	size_t range_count;
};

static int by_position(const void *a, const void *b)
{
	const struct file_ioend *x = *(struct file_ioend *const *)a, *y = *(struct file_ioend *const *)b;

	return x->ioend->pos_bytes < y->ioend->pos_bytes ? -1 : x->ioend->pos_bytes > y->ioend->pos_bytes;
}

/* Opens a handle: the next reserved one while there are any. */
static int batch_open(struct batch *b)
{
	int err;

	if (b->open)
		return 0;
	for (; b->next_handle < b->count; b->next_handle++) {
		struct file_ioend *fi = b->v[b->next_handle];

		if (!fi->has_handle)
			continue;
		b->next_handle++;
		fi->has_handle = false;
		err = journal_start_reserved(&fi->handle);
		b->open = err ? NULL : &fi->handle;
		return err;
	}
	err = fs_handle_start(b->inode->fs, map_credits(b->inode, 1) + DISKSIZE_CREDITS, 0, &b->own);
	b->open = err ? NULL : &b->own;
	return err;
}

static int batch_close(struct batch *b)
{
	int err = b->open ? journal_stop(b->open) : 0;

	b->open = NULL;
	return err;
}

/* Blocks [start, end) have been written: they are written extents from now on. */
static int batch_convert(struct batch *b, lblk_t start, uint64_t end)
{
	int err;

	do {
		err = batch_open(b);
		if (err)
			return err;
		err = map_set_state(b->open, b->inode, &start, end, false);
		if (err == 1 && batch_close(b))
			return -EROFS;
	} while (err == 1);
	return err;
}

/* Converts runs of neighbours at once. An error goes to all of the run. */
static void batch_convert_all(struct batch *b)
{
	size_t i, j, k;

	for (i = 0; i < b->count; i = j) {
		struct iomap_ioend *io = b->v[i]->ioend;
		uint64_t end = io->pos_bytes + io->len_bytes;
		int err;

		j = i + 1;
		if (io->err || io->type != IOMAP_UNWRITTEN)
			continue;
		for (; j < b->count; j++) {
			const struct iomap_ioend *next = b->v[j]->ioend;

			if (next->err || next->type != IOMAP_UNWRITTEN || next->pos_bytes != end)
				break;
			end += next->len_bytes;
		}
		err = batch_convert(b, file_lblk(b->inode, io->pos_bytes), file_lblk_up(b->inode, end));
		for (k = i; err && k < j; k++)
			b->v[k]->ioend->err = err;
	}
}

static void batch_collect_ranges(struct batch *b)
{
	size_t i;

	for (i = 0; i < b->count; i++) {
		const struct iomap_ioend *io = b->v[i]->ioend;

		if (!io->err)
			b->range[b->range_count++] = (struct file_range){ io->pos_bytes, io->pos_bytes + io->len_bytes };
	}
}

/* Caller: map_sem exclusive. */
static uint64_t batch_reach(struct batch *b)
{
	struct inode *inode = b->inode;
	uint64_t end = b->range[b->range_count - 1].end;

	end = min_of(end, inode_size(inode));
	if (end > inode->io.completed_end)
		__atomic_store_n(&inode->io.completed_end, end, __ATOMIC_RELAXED);
	return file_disksize_reach(inode, &(struct file_done){ b->range, b->range_count });
}

/* S2 */
static int batch_move_disksize(struct batch *b)
{
	struct inode *inode = b->inode;
	uint64_t size;
	bool needed;
	int err;

	if (!b->range_count)
		return 0;
	rwsem_write_lock(&inode->map_sem);
	needed = batch_reach(b) > file_disksize(inode);
	rwsem_write_unlock(&inode->map_sem);
	if (!needed)
		return 0;
	err = batch_open(b);
	if (err)
		return err;
	rwsem_write_lock(&inode->map_sem);
	size = batch_reach(b);
	if (size > file_disksize(inode))
		err = file_disksize_set(b->open, inode, size);
	rwsem_write_unlock(&inode->map_sem);
	return err;
}

/* Ends the journal's part of each; then their folios leave writeback, and the inode may go. */
static void batch_finish(struct batch *b, int err)
{
	struct journal *j = b->inode->fs->journal;
	uint64_t done_bytes = 0;
	size_t i;

	for (i = 0; i < b->count; i++) {
		struct file_ioend *fi = b->v[i];

		if (fi->waits)
			journal_wait_end(j, &fi->wait, fi->ioend->err);
		if (fi->has_handle)
			journal_unreserve(&fi->handle);
		done_bytes += fi->ioend->len_bytes;
	}
	file_reserve_settle(b->inode, done_bytes);
	for (i = 0; i < b->count; i++) {
		struct file_ioend *fi = b->v[i];

		iomap_ioend_finish(fi->ioend, fi->ioend->err ? fi->ioend->err : err);
		free(fi);
	}
}

static void batch_run(struct batch *b)
{
	int err, close_err;

	qsort(b->v, b->count, sizeof(b->v[0]), by_position);
	batch_convert_all(b);
	batch_collect_ranges(b);
	err = batch_move_disksize(b);
	close_err = batch_close(b);
	batch_finish(b, err ? err : close_err);
}

/* Without memory for a batch: one by one. */
static void run_singly(struct inode *inode, struct file_ioend *list)
{
	while (list) {
		struct file_ioend *fi = list, *one[1] = { list };
		struct file_range range[1];
		struct batch b = { .inode = inode, .v = one, .count = 1, .range = range };

		list = fi->next;
		batch_run(&b);
	}
}

static void ioend_work(struct work *work)
{
	struct file_ioend *fi = container_of(work, struct file_ioend, work);
	struct inode *inode = fi->ioend->mapping->host;
	struct file_ioend *list = atomic_exchange(&inode->io.done, NULL);
	struct batch b = { .inode = inode };

	for (fi = list; fi; fi = fi->next)
		b.count++;
	b.v = calloc(b.count, sizeof(b.v[0]));
	b.range = calloc(b.count, sizeof(b.range[0]));
	if (b.v && b.range) {
		b.count = 0;
		for (fi = list; fi; fi = fi->next)
			b.v[b.count++] = fi;
		batch_run(&b);
	} else {
		run_singly(inode, list);
	}
	free(b.v);
	free(b.range);
}

static bool wb_end_io(struct iomap_ioend *ioend)
{
	struct file_ioend *fi = ioend->private_data, *head;
	struct inode *inode = ioend->mapping->host;
	struct ext4_fs *fs = inode->fs;

	if (!fi)
		return true;
	work_init(&fi->work, ioend_work);
	head = atomic_load(&inode->io.done);
	do {
		fi->next = head;
	} while (!atomic_compare_exchange_weak(&inode->io.done, &head, fi));
	if (!head)
		workqueue_add(fs->ioend_wq, &fi->work); /* W4: the item of the first takes all */
	return false;
}

static const struct iomap_writeback_ops writeback_ops = {
	.map_blocks = wb_map_blocks,
	.is_valid = wb_is_valid,
	.submit = wb_submit,
	.end_io = wb_end_io,
};

/* ---- the mapping's operations ---- */

static int file_writepages(struct mapping *m, struct writeback_control *wbc)
{
	struct inode *inode = m->host;
	int err = iomap_writepages(m, wbc, &writeback_ops, inode->fs->counters);

	announced_drop(inode->fs->journal);
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
