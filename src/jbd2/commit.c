/* SPDX-License-Identifier: MIT */
/*
 * commit.c - makes one transaction after the other durable
 *
 *   T_RUNNING --asked for, full or 5 s old--> T_LOCKED --last handle stopped--> T_FLUSH --its blocks are copied and
 *   written--> T_COMMIT --commit block durable, buffers refiled--> T_FINISHED
 *
 * In the log: revoke blocks, then descriptors each followed by the blocks it names, then the commit block. Everything
 * but the commit block goes out in large vectored writes, many in flight. Data that the transaction has to wait for
 * (jbd2.h, journal_wait_begin()) is waited for meanwhile. Then one write with PREFLUSH and FUA, the commit block, makes
 * the transaction durable (J1). With async_commit it goes out with the rest, and checksums tell an incomplete one.
 *
 * A crash before the commit block is durable leaves the log ending with the transaction before; after it, replay
 * finds this one. Waiters are woken as soon as the commit block is durable; refiling and callbacks follow.
 *
 * One thread commits at a time: one that waits for the commit (group_commit.c), since handing it over would cost two
 * wake-ups, or the commit thread, for what is old and what nobody waits for.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/broken.h"
#include "base/checksum.h"
#include "jbd2/commit.h"
#include "jbd2/csum.h"
#include "jbd2/jbd2_private.h"
#include "jbd2/log_writer.h"

#define DEFAULT_INTERVAL_MS 5000u

/* ---- the blocks of the log ---- */

static void write_revoke_block(struct journal *j, tid_t tid, const fsblk_t *blks, uint32_t count)
{
	const struct journal_layout *lo = &j->layout;
	uint8_t *block = log_writer_next(j->writer, 1);
	struct revoke_header rh = { .r_count = be32_make((uint32_t)sizeof(rh) + count * lo->revoke_bytes) };
	uint8_t *at = block + sizeof(rh);

	memset(block, 0, lo->block_bytes);
	journal_header_fill(&rh.r_header, JBD2_REVOKE_BLOCK, tid);
	memcpy(block, &rh, sizeof(rh));
	for (uint32_t i = 0; i < count; i++, at += lo->revoke_bytes) {
		be64 wide = be64_make(blks[i]);
		be32 narrow = be32_make((uint32_t)blks[i]);

		if (lo->is_64bit)
			memcpy(at, &wide, sizeof(wide));
		else
			memcpy(at, &narrow, sizeof(narrow));
	}
	journal_tail_csum_set(lo, block);
}

/* J3. All handles have ended: the table does not change any more. */
static void write_revokes(struct journal *j, struct transaction *t)
{
	struct revoke_table *table = &t->revokes;
	uint32_t per_block = journal_revokes_per_block(&j->layout), count = 0;

	if (is_broken(BROKEN_NO_REVOKE))
		return;
	/* Squeezes the table: the records are wanted in no order, and nobody looks them up again. */
	for (uint32_t i = 0; i < table->room; i++)
		if (table->slots[i])
			table->slots[count++] = table->slots[i];
	for (uint32_t done = 0; done < count; done += per_block)
		write_revoke_block(j, t->tid, table->slots + done, min_of(per_block, count - done));
}

static bool jh_is_logged(const struct journal_head *jh)
{
	uint32_t flags = atomic_load_explicit(&jh->flags, memory_order_relaxed);

	return (flags & (JH_DIRTIED | JH_FORGET)) == JH_DIRTIED;
}

/* The transaction's version of the bytes; from here on others may change the buffer (J6). Returns tag flags. */
static uint32_t copy_block(struct journal_head *jh, uint32_t block_bytes, uint8_t *dst)
{
	const be32 magic = be32_make(JBD2_MAGIC);

	jh_lock(jh->bh);
	memcpy(dst, jh->frozen ? jh->frozen : jh->bh->data, block_bytes);
	atomic_fetch_or_explicit(&jh->flags, JH_COPIED, memory_order_relaxed);
	jh_unlock(jh->bh);
	if (memcmp(dst, &magic, sizeof(magic)))
		return 0;
	memset(dst, 0, sizeof(magic));
	return JBD2_FLAG_ESCAPE;
}

/* A descriptor and @count blocks from *jh_at on, which moves on. Returns the continued v1 checksum. */
static uint32_t write_group(struct journal *j, struct transaction *t, struct journal_head **jh_at, uint32_t count,
			    uint32_t crc)
{
	const struct journal_layout *lo = &j->layout;
	uint8_t *block = log_writer_next(j->writer, count + 1);
	uint8_t *tag_at = block + sizeof(struct journal_header), *data = block;
	struct journal_head *jh = *jh_at;

	memset(block, 0, lo->block_bytes);
	journal_header_fill((struct journal_header *)block, JBD2_DESCRIPTOR_BLOCK, t->tid);
	for (uint32_t i = 0; i < count; i++, jh = jh->t_next) {
		struct journal_tag tag;

		while (!jh_is_logged(jh))
			jh = jh->t_next;
		data += lo->block_bytes;
		tag.blk = jh->bh->blk;
		tag.flags = copy_block(jh, lo->block_bytes, data);
		tag.flags |= (i ? JBD2_FLAG_SAME_UUID : 0) | (i + 1 == count ? JBD2_FLAG_LAST_TAG : 0);
		tag.checksum = journal_tag_csum(lo, t->tid, data);
		journal_tag_encode(lo, &tag, tag_at);
		if (!i)
			memcpy(tag_at + lo->tag_bytes, j->super->s_uuid, JBD2_TAG_UUID_BYTES);
		tag_at += journal_tag_stride(lo, tag.flags);
	}
	*jh_at = jh;
	journal_tail_csum_set(lo, block);
	return lo->csum_v1 ? crc32_be(crc, block, (size_t)(count + 1) * lo->block_bytes) : crc;
}

/* Returns the v1 checksum. */
static uint32_t write_metadata(struct journal *j, struct transaction *t)
{
	struct journal_head *first = atomic_load_explicit(&t->buffers, memory_order_acquire), *jh;
	uint32_t left = 0, crc = ~0u;

	for (jh = first; jh; jh = jh->t_next)
		left += jh_is_logged(jh);
	counter_add(j->counters, CNT_JOURNAL_BLOCKS_LOGGED, left);
	for (jh = first; left > 0;) {
		uint32_t count = min_of(left, j->tags_per_desc);

		crc = write_group(j, t, &jh, count, crc);
		left -= count;
	}
	return crc;
}

static void fill_commit_block(struct journal *j, struct transaction *t, uint32_t crc, uint8_t *block)
{
	struct commit_header ch = { 0 };
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	journal_header_fill(&ch.h_header, JBD2_COMMIT_BLOCK, t->tid);
	ch.h_commit_sec = be64_make((uint64_t)now.tv_sec);
	ch.h_commit_nsec = be32_make((uint32_t)now.tv_nsec);
	if (j->layout.csum_v1) {
		ch.h_chksum_type = JBD2_CRC32_CHKSUM;
		ch.h_chksum_size = sizeof(ch.h_chksum[0]);
		ch.h_chksum[0] = be32_make(crc);
	}
	memset(block, 0, j->layout.block_bytes);
	memcpy(block, &ch, sizeof(ch));
	commit_block_csum_set(&j->layout, block);
}

/* ---- making it durable ---- */

/* Data that must be durable with or before the transaction, also when it is lost already: its memory is ours. */
static int wait_for_data(struct journal *j, struct transaction *t)
{
	mutex_lock(&j->state_lock);
	if (atomic_load_explicit(&t->data_waits, memory_order_acquire))
		counter_add(j->counters, CNT_JOURNAL_DATA_WAITS, 1);
	while (atomic_load_explicit(&t->data_waits, memory_order_acquire))
		cond_wait(&j->drained, &j->state_lock);
	mutex_unlock(&j->state_lock);
	return atomic_load_explicit(&t->data_err, memory_order_relaxed);
}

/* Replay looks for the transaction only if the superblock says that there is a log. */
static int begin_log(struct journal *j, struct transaction *t)
{
	int err = 0;

	mutex_lock(&j->super_lock);
	if (j->super_says_empty)
		err = journal_super_write_tail(j, t->log_start, t->tid);
	mutex_unlock(&j->super_lock);
	return err;
}

static void mark_flush_sent(struct journal *j, struct transaction *t)
{
	mutex_lock(&j->state_lock);
	t->flush_sent = true;
	mutex_unlock(&j->state_lock);
}

static int flush_counted(struct journal *j, struct block_device *dev)
{
	counter_add(j->counters, CNT_JOURNAL_FLUSHES, 1);
	return block_flush(dev);
}

/* The commit block after everything else (J1). */
static int commit_ordered(struct journal *j, struct transaction *t, uint32_t crc, uint32_t *end_out)
{
	bool barriers = j->params.barriers;
	unsigned preflush = is_broken(BROKEN_NO_FLUSH) ? 0 : BIO_PREFLUSH;
	uint32_t index;
	int err = log_writer_finish(j->writer, &index), data_err = wait_for_data(j, t);
	uint8_t *block;

	err = err ? err : data_err;
	if (err)
		return err;
	mark_flush_sent(j, t);
	if (j->external && barriers)
		err = flush_counted(j, buffer_cache_device(j->bc));
	if (err)
		return err;
	log_writer_begin(j->writer, index);
	block = log_writer_next(j->writer, 1);
	fill_commit_block(j, t, crc, block);
	if (barriers)
		counter_add(j->counters, CNT_JOURNAL_FLUSHES, 1);
	*end_out = log_advance(j, index, 1);
	return log_map_write(&j->map, index, 1, block, barriers ? preflush | BIO_FUA : 0);
}

/* The commit block along with the rest; checksums make up for the order. */
static int commit_async(struct journal *j, struct transaction *t, uint32_t crc, uint32_t *end_out)
{
	int err = wait_for_data(j, t);

	if (err) {
		log_writer_finish(j->writer, end_out);
		return err;
	}
	mark_flush_sent(j, t);
	if (j->external && j->params.barriers)
		err = flush_counted(j, buffer_cache_device(j->bc));
	if (!err)
		fill_commit_block(j, t, crc, log_writer_next(j->writer, 1));
	if (log_writer_finish(j->writer, end_out) && !err)
		err = -EIO;
	if (!err && j->params.barriers)
		err = flush_counted(j, j->params.log_dev);
	return err;
}

/* Writes @t to the log; *end_out: the log block after it. */
static int commit_write(struct journal *j, struct transaction *t, uint32_t *end_out)
{
	int err = journal_error(j);
	uint32_t crc;

	if (!err)
		err = begin_log(j, t);
	if (err) {
		wait_for_data(j, t);
		return err;
	}
	log_writer_begin(j->writer, t->log_start);
	write_revokes(j, t);
	crc = write_metadata(j, t);
	return j->params.async_commit ? commit_async(j, t, crc, end_out) : commit_ordered(j, t, crc, end_out);
}

/* ---- transitions ---- */

/* state_lock held. T_RUNNING to T_FLUSH. */
static void transaction_close(struct journal *j, struct transaction *t)
{
	uint32_t need;

	transaction_lock_and_drain(t);
	need = min_of(log_blocks_for(j, reserve_blocks(atomic_load(&t->reserve))), t->grant);
	j->log_granted -= t->grant - need;
	t->grant = need;
	j->committing = t;
	atomic_store_explicit(&j->running, NULL, memory_order_release);
	t->state = T_FLUSH;
	transaction_check(t);
	t->log_start = j->head;
	t->state = T_COMMIT;
	cond_broadcast(&j->transition);
}

/* state_lock held. The commit block is durable. */
static void transaction_is_durable(struct journal *j, struct transaction *t, uint32_t end)
{
	uint32_t used = log_distance(j, t->log_start, end);

	UEXT4_ASSERT(used <= t->grant); /* J5 */
	t->grant -= used;
	j->log_granted -= used;
	j->log_free -= used;
	j->head = end;
	atomic_store_explicit(&j->committed_tid, t->tid, memory_order_release);
	counter_add(j->counters, CNT_JOURNAL_COMMITS, 1);
}

static void run_callbacks(struct transaction *t)
{
	struct journal_callback *cb, *tmp;

	/* All handles have ended: nobody adds any more. */
	list_for_each_safe(cb, tmp, &t->callbacks, node) {
		list_del(&cb->node);
		cb->func(cb, t->err);
	}
}

/* state_lock held. */
static void transaction_finish(struct journal *j, struct transaction *t)
{
	j->log_granted -= t->grant;
	t->grant = 0;
	t->state = T_FINISHED;
	j->committing = NULL;
	transaction_check(t);
	checkpoint_kick_if_needed(j);
	cond_broadcast(&j->transition);
}

/* Of what took much longer than usual, because the thread had to wait for a processor, most is left out. */
static void average_in(uint64_t *average_ns, uint64_t took_ns)
{
	uint64_t before_ns = *average_ns ? *average_ns : took_ns;

	*average_ns = (before_ns * 3 + min_of(took_ns, before_ns * 2)) / 4;
}

/* state_lock held, dropped meanwhile. */
static void commit_transaction(struct journal *j, struct transaction *t)
{
	uint64_t start_ns;
	uint32_t end = 0;
	int err;

	start_ns = journal_now_ns();
	transaction_close(j, t);
	mutex_unlock(&j->state_lock);
	commit_issue_data(t);
	err = commit_write(j, t, &end);
	if (err)
		journal_abort(j, err);
	t->err = err;
	mutex_lock(&j->state_lock);
	if (!err)
		transaction_is_durable(j, t, end);
	average_in(&j->commit_ns, journal_now_ns() - start_ns);
	mutex_unlock(&j->state_lock);
	word_bit_unlock(&t->pending, TXN_PENDING, TXN_WAITERS);
	transaction_refile(t);
	run_callbacks(t);
	mutex_lock(&j->state_lock);
	transaction_finish(j, t);
	transaction_put(t);
}

void journal_commit(struct journal *j, struct transaction *t)
{
	lock_assert_held(&j->state_lock);
	UEXT4_ASSERT(!j->commit_busy);
	j->commit_busy = true;
	commit_transaction(j, t);
	j->commit_busy = false;
	if (j->turn_waiters)
		cond_broadcast(&j->turn);
}

void journal_wait_turn(struct journal *j)
{
	lock_assert_held(&j->state_lock);
	j->turn_waiters++;
	cond_wait(&j->turn, &j->state_lock);
	j->turn_waiters--;
}

/* ---- the thread ---- */

/* state_lock held. */
static bool is_due(struct journal *j, const struct transaction *t, uint64_t now_ns, uint64_t interval_ns)
{
	return tid_geq(j->commit_request, t->tid) || now_ns - t->start_ns >= interval_ns || j->stop ||
	       journal_error(j);
}

/* state_lock held, dropped meanwhile: the next mount is to know why it aborted. */
static void report_abort(struct journal *j)
{
	int err;

	j->abort_reported = true;
	mutex_unlock(&j->state_lock);
	mutex_lock(&j->super_lock);
	err = journal_super_write_errno(j, journal_error(j));
	mutex_unlock(&j->super_lock);
	if (err)
		log_print(j->params.log, LOG_ERROR, "journal: the error could not be noted in the superblock: %s",
			  strerror(-err));
	mutex_lock(&j->state_lock);
}

void *journal_commit_thread(void *arg)
{
	struct journal *j = arg;
	uint32_t interval_ms = j->params.commit_interval_ms ? j->params.commit_interval_ms : DEFAULT_INTERVAL_MS;
	uint64_t interval_ns = (uint64_t)interval_ms * 1000000;

	mutex_lock(&j->state_lock);
	for (;;) {
		struct transaction *t = atomic_load_explicit(&j->running, memory_order_relaxed);
		uint64_t now_ns = journal_now_ns();

		if (journal_error(j) && !j->abort_reported)
			report_abort(j);
		else if (j->commit_busy)
			journal_wait_turn(j);
		else if (t && is_due(j, t, now_ns, interval_ns))
			journal_commit(j, t);
		else if (j->stop)
			break;
		else /* a transaction made while this sleeps is younger than the sleep, so it is in time for it */
			cond_wait_timeout(&j->commit_wake, &j->state_lock,
					  t ? t->start_ns + interval_ns - now_ns : interval_ns);
	}
	mutex_unlock(&j->state_lock);
	return NULL;
}
