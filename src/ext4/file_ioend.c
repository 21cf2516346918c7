/* SPDX-License-Identifier: MIT */
/*
 * file_ioend.c - after the I/O: unwritten extents become written, and the size on disk follows
 *
 * C1  An ioend that was to move disksize when it went out waits, once its I/O is done, for those like it that went out
 *     before (fifo). With W4: whatever was dirty before it when it went out is on disk, so disksize may move past
 *     it (S1), and no block is a written one past the size on disk, at no commit: each piece of a conversion moves
 *     disksize over itself in the same handle, and pieces go by ascending position.
 * C2  All others are ready at once.
 * C3  One work item of an inode runs at a time and takes all that is ready: one handle converts a batch.
 * C4  I/O that completes while it is sent, as in memory, is not handed over if it is the last that an integrity pass sends:
 *     who sent it is about to wait for it, and does the work as soon as the pass is over (file_ioend_last_done()).
 * C5  An error is its ioend's own: nothing is converted, its blocks read as zeros, and disksize passes over it with the
 *     next that succeeds.
 *
 * A folio under writeback keeps its inode alive: eviction waits for it. So the work item looks for more to do before it
 * finishes what it holds, and touches no inode after the last iomap_ioend_finish().
 */
#include <errno.h>
#include <stdlib.h>

#include "ext4/file_private.h"

/* What one run of the work item completes. */
struct batch {
	struct inode *inode;
	struct file_ioend *list;   /* by position */
	struct file_ioend *spare;  /* handles reserved by those from here on are not used up yet */
	struct handle own;         /* when the reserved ones did not suffice */
	struct handle *open;       /* NULL: none */
};

/* ---- queues ---- */

static bool something_is_ready(const struct file_io *io)
{
	return io->ready || (io->fifo && io->fifo->done);
}

/* Takes all that is ready, those of the fifo in their order. Caller: io.lock. */
static struct file_ioend *take_ready(struct file_io *io)
{
	struct file_ioend *list = NULL, **end = &list;

	while (io->fifo && io->fifo->done) {
		*end = io->fifo;
		io->fifo = io->fifo->next;
		end = &(*end)->next;
	}
	if (!io->fifo)
		io->fifo_last = NULL;
	*end = io->ready;
	io->ready = NULL;
	return list;
}

void file_ioend_sent(struct file_ioend *fi, struct iomap_ioend *ioend)
{
	struct inode *inode = ioend->mapping->host;
	struct file_io *io = &inode->io;

	fi->ioend = ioend;
	ioend->private_data = fi;
	if (!fi->extends_to)
		return;
	mutex_lock(&io->lock);
	if (io->fifo_last)
		io->fifo_last->next = fi;
	else
		io->fifo = fi;
	io->fifo_last = fi;
	mutex_unlock(&io->lock);
}

static void ioend_work(struct work *work);

/* C4: this thread is sending it. */
static _Thread_local struct file_ioend *last_sent;
static _Thread_local bool last_left_here;

void file_ioend_last_begin(struct file_ioend *fi)
{
	last_sent = fi;
}

void file_ioend_last_done(struct inode *inode)
{
	bool work_here = last_left_here;

	last_sent = NULL;
	last_left_here = false;
	if (work_here)
		ioend_work(&inode->io.work);
}

bool file_ioend_done(struct iomap_ioend *ioend)
{
	struct file_ioend *fi = ioend->private_data;
	struct inode *inode = ioend->mapping->host;
	struct file_io *io = &inode->io;
	bool start;

	if (!fi)
		return true;
	mutex_lock(&io->lock);
	fi->done = true;
	if (!fi->extends_to) {
		fi->next = io->ready;
		io->ready = fi;
	}
	start = !io->working && something_is_ready(io);
	if (start)
		io->working = true;
	mutex_unlock(&io->lock);
	if (start && fi == last_sent) {
		last_left_here = true;
	} else if (start) { /* nobody finishes @fi before this item runs, so the inode is there */
		work_init(&io->work, ioend_work);
		workqueue_add(inode->fs->ioend_wq, &io->work);
	}
	return false;
}

/* ---- a batch ---- */

static struct file_ioend *merge(struct file_ioend *a, struct file_ioend *b)
{
	struct file_ioend *list = NULL, **end = &list;

	while (a && b) {
		struct file_ioend **first = b->ioend->pos_bytes < a->ioend->pos_bytes ? &b : &a;

		*end = *first;
		end = &(*end)->next;
		*first = *end;
	}
	*end = a ? a : b;
	return list;
}

/* Merge sort of a list that is mostly sorted already: ascending runs are found and merged in pairs. */
static struct file_ioend *sort_by_position(struct file_ioend *list)
{
	struct file_ioend *run[32] = { NULL }; /* run[n]: 2^n runs merged */
	size_t n;

	while (list) {
		struct file_ioend *first = list, *last = list;

		while (last->next && last->next->ioend->pos_bytes >= last->ioend->pos_bytes)
			last = last->next;
		list = last->next;
		last->next = NULL;
		for (n = 0; n < ARRAY_SIZE(run) - 1 && run[n]; n++) {
			first = merge(run[n], first);
			run[n] = NULL;
		}
		run[n] = merge(run[n], first);
	}
	for (n = 0; n < ARRAY_SIZE(run); n++)
		list = merge(run[n], list);
	return list;
}

/* Opens a handle: the next reserved one while there are any. */
static int batch_open(struct batch *b)
{
	int err;

	if (b->open)
		return 0;
	for (; b->spare; b->spare = b->spare->next) {
		struct file_ioend *fi = b->spare;

		if (!fi->has_handle)
			continue;
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

/* Blocks from @pos to @end have been written: they are written extents from now on, below @size_bytes of disksize. */
static int batch_convert(struct batch *b, uint64_t pos, uint64_t end, uint64_t size_bytes)
{
	struct inode *inode = b->inode;
	lblk_t lblk = file_lblk(inode, pos), stop = file_lblk_up(inode, end);
	int err, move_err, close_err;

	do {
		err = batch_open(b);
		if (err)
			return err;
		err = map_set_state(b->open, inode, &lblk, stop, false);
		if (err < 0)
			return err;
		move_err = file_disksize_raise(b->open, inode, min_of(size_bytes, (uint64_t)lblk << inode->fs->block_bits));
		close_err = err ? batch_close(b) : 0;
		if (move_err || close_err)
			return move_err ? move_err : close_err;
	} while (err);
	return 0;
}

/* One run of neighbours of one type, without errors. */
static int batch_complete_run(struct batch *b, const struct iomap_ioend *first, uint64_t end, uint64_t extends_to)
{
	int err;

	if (first->type == IOMAP_UNWRITTEN)
		return batch_convert(b, first->pos_bytes, end, extends_to);
	if (extends_to <= file_disksize(b->inode))
		return 0;
	err = batch_open(b);
	return err ? err : file_disksize_raise(b->open, b->inode, extends_to);
}

/* Completes runs of neighbours at once. An error goes to all of the run. */
static void batch_complete(struct batch *b)
{
	struct file_ioend *fi = b->list, *next, *k;

	for (; fi; fi = next) {
		const struct iomap_ioend *io = fi->ioend;
		uint64_t end = io->pos_bytes + io->len_bytes, extends_to = fi->extends_to;
		int err;

		next = fi->next;
		if (io->err)
			continue;
		for (; next; next = next->next) {
			const struct iomap_ioend *other = next->ioend;

			if (other->err || other->type != io->type || other->pos_bytes != end)
				break;
			end += other->len_bytes;
			extends_to = max_of(extends_to, next->extends_to);
		}
		err = batch_complete_run(b, io, end, extends_to);
		for (k = fi; err && k != next; k = k->next)
			k->ioend->err = err;
	}
}

/* Ends the journal's part of each. */
static void batch_settle(struct batch *b)
{
	struct journal *j = b->inode->fs->journal;
	struct file_ioend *fi;
	uint64_t done_bytes = 0;

	for (fi = b->list; fi; fi = fi->next) {
		if (fi->waits)
			journal_wait_end(j, &fi->wait, fi->ioend->err);
		if (fi->has_handle)
			journal_unreserve(&fi->handle);
		done_bytes += fi->ioend->len_bytes;
	}
	file_reserve_settle(b->inode, done_bytes);
}

/* The folios leave writeback, and the inode may go. */
static void list_finish(struct file_ioend *list, int err)
{
	while (list) {
		struct file_ioend *fi = list;

		list = fi->next;
		iomap_ioend_finish(fi->ioend, fi->ioend->err ? fi->ioend->err : err);
		free(fi);
	}
}

static void ioend_work(struct work *work)
{
	struct file_io *io = container_of(work, struct file_io, work);
	struct inode *inode = container_of(io, struct inode, io);
	struct file_ioend *more;

	mutex_lock(&io->lock);
	more = take_ready(io);
	mutex_unlock(&io->lock);
	while (more) {
		struct batch b = { .inode = inode };
		int err;

		b.list = b.spare = sort_by_position(more);
		batch_complete(&b);
		err = batch_close(&b);
		batch_settle(&b);
		mutex_lock(&io->lock);
		more = take_ready(io);
		io->working = more;
		mutex_unlock(&io->lock);
		list_finish(b.list, err);
	}
}
