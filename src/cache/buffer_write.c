/* SPDX-License-Identifier: MIT */
/*
 * buffer_write.c - home writes of metadata
 *
 * A home write goes out from a snapshot (see buffer.h), so the journal's users never wait for it and never have
 * half-changed bytes written. The buffers are sorted; a run of neighbours is copied into one bounce block and goes out as
 * one write. Many are in flight at once, up to a bound on bounce memory.
 *
 * H1  Bytes are copied only under the buffer lock, while BH_DIRTY is set and BH_JBDDIRTY is not (J2). Where there is no
 *     journal to set that, they are copied in rounds during which nobody changes any (buffer_changes.c).
 * H2  At most one home write of a buffer is in flight: BH_WRITEBACK. An older copy cannot land on a newer.
 * H3  A failed buffer is BH_DIRTY again before BH_WRITEBACK clears, so it is never unprotected in between.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/buffer_private.h"

#define RUN_BYTES_MAX (UINT32_C(256) << 10)
/* Bounds on what one call has in flight: bounce memory, and requests of single blocks. */
#define IN_FLIGHT_BYTES_MAX (UINT64_C(16) << 20)
#define IN_FLIGHT_BIOS_MAX 512u
/* One round of copies, which holds back those who change blocks without a journal: well below a millisecond. */
#define ROUND_BYTES_MAX (UINT64_C(1) << 20)
#define ROUND_RUNS_MAX 64u
/* Gathered per round of a sync; the references and the array are all it costs. */
#define GATHER_MAX 4096u

/* One call of buffers_write(). */
struct home_write {
	struct buffer_cache *bc;
	struct list_head node;   /* [write_lock] bc.writers */
	uint64_t seq;            /* [const] */
	uint64_t pending_bytes;  /* [write_lock] */
	unsigned pending_bios;   /* [write_lock] */
	int err;                 /* [write_lock] the first */
};

/* One run in flight. */
struct home_run {
	struct bio bio;
	struct iovec iov;
	struct home_write *hw;
	uint8_t *bounce;
	uint8_t bounce_shift;
	unsigned count;
	struct buffer_head *bhs[]; /* pinned by BH_WRITEBACK */
};

static void home_write_failed(struct buffer_head *bh, int err)
{
	struct buffer_cache *bc = bh->cache;
	int none = 0;

	atomic_compare_exchange_strong(&bc->write_err, &none, err);
	log_print(bc->log, LOG_ERROR, "block %llu: write failed: %s", (unsigned long long)bh->blk,
		  strerror(-err));
	buffer_set(bh, BH_WRITE_ERR);
	buffer_mark_dirty(bh); /* H3 */
}

static void home_run_done(struct bio *bio, int err)
{
	struct home_run *run = bio->private_data;
	struct home_write *hw = run->hw;
	struct buffer_cache *bc = hw->bc;
	uint64_t bytes = bio->len_bytes;

	for (unsigned i = 0; i < run->count; i++) {
		if (unlikely(err))
			home_write_failed(run->bhs[i], err);
		else if (unlikely(buffer_test(run->bhs[i], BH_WRITE_ERR)))
			buffer_clear(run->bhs[i], BH_WRITE_ERR);
		word_bit_unlock(&run->bhs[i]->state, BH_WRITEBACK, BH_WAITERS);
	}
	page_pool_free(bc->cache->pool, run->bounce, run->bounce_shift);
	free(run);
	mutex_lock(&bc->write_lock);
	hw->err = hw->err ? hw->err : err;
	hw->pending_bytes -= bytes;
	hw->pending_bios--;
	cond_broadcast(&bc->write_cond);
	mutex_unlock(&bc->write_lock); /* the last touch of *hw, which is on the waiter's stack */
}

/* Waits until at most so much is in flight. */
static void home_write_wait(struct home_write *hw, uint64_t bytes, unsigned bios)
{
	struct buffer_cache *bc = hw->bc;

	mutex_lock(&bc->write_lock);
	if (hw->pending_bytes > bytes || hw->pending_bios > bios) {
		mutex_unlock(&bc->write_lock);
		block_unplug(bc->dev);
		mutex_lock(&bc->write_lock);
		while (hw->pending_bytes > bytes || hw->pending_bios > bios)
			cond_wait(&bc->write_cond, &bc->write_lock);
		mutex_unlock(&bc->write_lock);
		block_plug(bc->dev);
		return;
	}
	mutex_unlock(&bc->write_lock);
}

static void home_run_submit(struct home_write *hw, struct home_run *run)
{
	struct buffer_cache *bc = hw->bc;
	uint64_t bytes = (uint64_t)run->count << bc->block_shift;

	run->iov = (struct iovec){ run->bounce, bytes };
	run->bio = (struct bio){
		.dev = bc->dev,
		.op = BIO_WRITE,
		.pos_bytes = run->bhs[0]->blk << bc->block_shift,
		.len_bytes = bytes,
		.iov = &run->iov,
		.iov_count = 1,
		.end_io = home_run_done,
		.private_data = run,
	};
	mutex_lock(&bc->write_lock);
	hw->pending_bytes += bytes;
	hw->pending_bios++;
	mutex_unlock(&bc->write_lock);
	block_submit(&run->bio);
}

/* Room for @count blocks, or for fewer when memory is short; NULL when there is none for even one. */
static struct home_run *home_run_alloc(struct home_write *hw, size_t *count)
{
	struct buffer_cache *bc = hw->bc;

	for (; *count > 0; *count /= 2) {
		size_t bytes = *count << bc->block_shift;
		struct home_run *run = malloc(sizeof(*run) + *count * sizeof(run->bhs[0]));

		if (!run)
			continue;
		run->bounce_shift = bc->block_shift;
		while (((size_t)1 << run->bounce_shift) < bytes)
			run->bounce_shift++;
		run->bounce = page_pool_alloc(bc->cache->pool, run->bounce_shift);
		if (run->bounce) {
			run->hw = hw;
			run->count = 0;
			return run;
		}
		free(run);
	}
	return NULL;
}

static bool buffer_may_go_home(const struct buffer_head *bh)
{
	return buffer_test(bh, BH_DIRTY) && !buffer_test(bh, BH_JBDDIRTY);
}

enum snapshot { SNAPSHOT_TAKEN, SNAPSHOT_NOT_WANTED, SNAPSHOT_BUSY };

/* H1, H2. SNAPSHOT_BUSY: an earlier write is in flight. */
static enum snapshot buffer_snapshot(struct buffer_head *bh, uint8_t *dst)
{
	enum snapshot res = SNAPSHOT_NOT_WANTED;

	if (!buffer_may_go_home(bh))
		return res;
	/* A checkpoint comes here with its mutex, of higher rank; who holds a buffer lock never waits for a checkpoint. */
	word_bit_lock(&bh->state, BH_LOCKED, BH_WAITERS);
	lock_rank_enter_try(RANK_BUFFER);
	if (buffer_may_go_home(bh)) {
		if (buffer_test(bh, BH_WRITEBACK)) {
			res = SNAPSHOT_BUSY;
		} else {
			memcpy(dst, bh->data, bh->cache->block_bytes);
			buffer_set(bh, BH_WRITEBACK);
			buffer_clean(bh);
			res = SNAPSHOT_TAKEN;
		}
	}
	buffer_unlock(bh);
	return res;
}

/* Fills @run from neighbours bhs[0, count); stops at the first that cannot be taken. Returns how many were dealt with. */
static size_t home_run_fill(struct buffer_cache *bc, struct home_run *run, struct buffer_head **bhs, size_t count,
			    bool *busy_out)
{
	*busy_out = false;
	for (size_t i = 0; i < count; i++) {
		enum snapshot res = buffer_snapshot(bhs[i], run->bounce + ((size_t)run->count << bc->block_shift));

		if (res == SNAPSHOT_TAKEN) {
			run->bhs[run->count++] = bhs[i];
			continue;
		}
		*busy_out = res == SNAPSHOT_BUSY;
		return *busy_out ? i : i + 1;
	}
	return count;
}

/* bhs[0] and those after it that continue it on disk. */
static size_t neighbours(const struct buffer_cache *bc, struct buffer_head **bhs, size_t count)
{
	size_t most = min_of(count, (size_t)(RUN_BYTES_MAX >> bc->block_shift));
	size_t n = 1;

	while (n < most && bhs[n]->blk == bhs[0]->blk + n)
		n++;
	return n;
}

/* Copies and submits bhs[0] and its neighbours. Returns how many were dealt with, or -ENOMEM. */
static ssize_t home_write_run(struct home_write *hw, struct buffer_head **bhs, size_t count, bool *busy_out)
{
	struct buffer_cache *bc = hw->bc;
	size_t n = neighbours(bc, bhs, count);
	struct home_run *run = home_run_alloc(hw, &n);

	if (!run)
		return -ENOMEM;
	n = home_run_fill(bc, run, bhs, n, busy_out);
	if (run->count) {
		home_run_submit(hw, run);
	} else {
		page_pool_free(bc->cache->pool, run->bounce, run->bounce_shift);
		free(run);
	}
	return (ssize_t)n;
}

/* As many runs as make a round; nothing in it waits for I/O. As home_write_run(). */
static ssize_t home_write_round(struct home_write *hw, struct buffer_head **bhs, size_t count, bool *busy_out)
{
	size_t most = (size_t)(ROUND_BYTES_MAX >> hw->bc->block_shift), i = 0;

	*busy_out = false;
	for (unsigned runs = 0; i < min_of(count, most) && runs < ROUND_RUNS_MAX && !*busy_out; runs++) {
		ssize_t n = buffer_may_go_home(bhs[i]) ? home_write_run(hw, bhs + i, count - i, busy_out) : 1;

		if (n < 0)
			return n;
		i += (size_t)n;
	}
	return (ssize_t)i;
}

/* Waits, if it must, with nothing held back in the plug: what a changer waits for may be among it. */
static void round_begin(struct buffer_cache *bc)
{
	if (buffer_copies_begin(bc))
		return;
	block_unplug(bc->dev);
	buffer_copies_wait(bc);
	block_plug(bc->dev);
}

static int home_write_sorted(struct home_write *hw, struct buffer_head **bhs, size_t count)
{
	struct buffer_cache *bc = hw->bc;

	for (size_t i = 0; i < count;) {
		ssize_t n;
		bool busy;

		home_write_wait(hw, IN_FLIGHT_BYTES_MAX, IN_FLIGHT_BIOS_MAX);
		round_begin(bc);
		n = home_write_round(hw, bhs + i, count - i, &busy);
		buffer_copies_end(bc);
		if (n < 0)
			return (int)n;
		i += (size_t)n;
		if (busy) {
			block_unplug(bc->dev);
			buffer_wait_writeback(bhs[i]);
			block_plug(bc->dev);
		}
	}
	return 0;
}

static int compare_blk(const void *a, const void *b)
{
	const struct buffer_head *x = *(struct buffer_head *const *)a, *y = *(struct buffer_head *const *)b;

	return (x->blk > y->blk) - (x->blk < y->blk);
}

static bool is_sorted(struct buffer_head **bhs, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (bhs[i - 1]->blk > bhs[i]->blk)
			return false;
	return true;
}

static void home_write_begin(struct home_write *hw, struct buffer_cache *bc)
{
	*hw = (struct home_write){ .bc = bc };
	mutex_lock(&bc->write_lock);
	hw->seq = ++bc->write_seq;
	list_add_tail(&hw->node, &bc->writers);
	mutex_unlock(&bc->write_lock);
}

static void home_write_end(struct home_write *hw)
{
	struct buffer_cache *bc = hw->bc;

	mutex_lock(&bc->write_lock);
	list_del(&hw->node);
	cond_broadcast(&bc->write_cond);
	mutex_unlock(&bc->write_lock);
}

/* Waits for those that somebody else was writing already, and looks how it went. */
static int wait_for_others(struct buffer_head **bhs, size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count; i++) {
		buffer_wait_writeback(bhs[i]);
		if (buffer_test(bhs[i], BH_WRITE_ERR) && buffer_test(bhs[i], BH_DIRTY))
			err = -EIO;
	}
	return err;
}

int buffers_write(struct buffer_cache *bc, struct buffer_head **bhs, size_t count)
{
	struct buffer_head **sorted = bhs;
	struct home_write hw;
	int err, others_err;

	if (!count)
		return 0;
	if (!is_sorted(bhs, count)) {
		sorted = malloc(count * sizeof(*sorted));
		if (!sorted)
			return -ENOMEM;
		memcpy(sorted, bhs, count * sizeof(*sorted));
		qsort(sorted, count, sizeof(*sorted), compare_blk);
	}
	home_write_begin(&hw, bc);
	block_plug(bc->dev);
	err = home_write_sorted(&hw, sorted, count);
	home_write_wait(&hw, 0, 0);
	block_unplug(bc->dev);
	err = hw.err ? hw.err : err;
	home_write_end(&hw);
	others_err = wait_for_others(sorted, count);
	if (sorted != bhs)
		free(sorted);
	return err ? err : others_err;
}

/* Dirty buffers that may go home now, each with a reference; at most GATHER_MAX. */
static size_t gather_dirty(struct buffer_cache *bc, uint64_t dirtied_before_ns, struct buffer_head **bhs)
{
	struct buffer_head *bh;
	size_t count = 0;

	for (unsigned i = 0; i < BUFFER_SHARDS && count < GATHER_MAX; i++) {
		struct buffer_shard *shard = &bc->shard[i];

		mutex_lock(&shard->lock);
		list_for_each(bh, &shard->dirty, dirty_node) {
			if (count == GATHER_MAX || bh->dirtied_ns > dirtied_before_ns)
				break;
			if (!buffer_may_go_home(bh))
				continue;
			buffer_hold(bh);
			bhs[count++] = bh;
		}
		mutex_unlock(&shard->lock);
	}
	return count;
}

/* A buffer whose write failed counts as dirtied anew, so that the rounds end. */
int buffer_cache_write_old(struct buffer_cache *bc, uint64_t dirtied_before_ns)
{
	struct buffer_head **bhs = malloc(GATHER_MAX * sizeof(*bhs));
	int err, first_err = 0;
	size_t count;

	if (!bhs)
		return -ENOMEM;
	while ((count = gather_dirty(bc, dirtied_before_ns, bhs)) > 0) {
		err = buffers_write(bc, bhs, count);
		for (size_t i = 0; i < count; i++)
			buffer_put(bhs[i]);
		first_err = first_err ? first_err : err;
		if (err == -ENOMEM)
			break;
	}
	free(bhs);
	return first_err;
}

/* Writes that others began before now. */
static void wait_for_older_writers(struct buffer_cache *bc)
{
	uint64_t seq;

	mutex_lock(&bc->write_lock);
	seq = bc->write_seq;
	while (!list_empty(&bc->writers) && list_first(&bc->writers, struct home_write, node)->seq <= seq)
		cond_wait(&bc->write_cond, &bc->write_lock);
	mutex_unlock(&bc->write_lock);
}

int buffer_cache_sync(struct buffer_cache *bc)
{
	int err = buffer_cache_write_old(bc, cache_now_ns());

	wait_for_older_writers(bc);
	return err;
}

int buffer_cache_take_error(struct buffer_cache *bc)
{
	return atomic_exchange(&bc->write_err, 0);
}
