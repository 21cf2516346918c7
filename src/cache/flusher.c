/* SPDX-License-Identifier: MIT */
/*
 * flusher.c - writes dirty data and old metadata in the background, and holds back who dirties too fast
 *
 * Once a second, or when kicked, the thread makes a pass: once round the list of mappings, writing those whose oldest
 * dirty data has expired; all of them while dirty data is above the background mark or reclaim asks. A large file
 * is written a budget at a time, so that the others get their turn. Then come dirty buffers, by age.
 *
 * F1  A mapping with dirty or writeback bytes is on dirty_mappings. Who dirties first adds the bytes, then looks at
 *     MAPPING_ON_DIRTY_LIST; the pass first clears the flag, then looks at the bytes: one of them sees the other.
 * F2  MAPPING_FLUSHING is set, under dirty_lock, from taking a mapping off the list's front until its owner is
 *     grabbed or refuses. mapping_exit() waits for it, so the mapping cannot vanish in between; grab() itself runs
 *     without dirty_lock, since the owner has locks of lower rank to take.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/thread.h"
#include "cache/cache_private.h"
#include "cache/mapping.h"
#include "cache/mapping_private.h"

#define TICK_NS UINT64_C(1000000000)
/* One turn of one mapping: several of the largest I/Os, well below a second of a slow disk. */
#define TURN_BYTES (INT64_C(64) << 20)
/* While over the background mark and nothing could be written, e.g. for want of journal credits. */
#define RETRY_NS UINT64_C(20000000)
/* A throttled caller looks again, whatever wake-ups say. */
#define THROTTLE_RECHECK_NS UINT64_C(100000000)

void flusher_kick(struct cache *cache)
{
	struct flusher *fl = &cache->flusher;

	if (atomic_load_explicit(&fl->kicked, memory_order_relaxed))
		return;
	if (atomic_exchange(&fl->kicked, true))
		return;
	mutex_lock(&fl->lock);
	cond_signal(&fl->wake);
	mutex_unlock(&fl->lock);
}

static bool mapping_has_work(const struct mapping *m)
{
	return atomic_load(&m->dirty_bytes) != 0 || atomic_load(&m->writeback_bytes) != 0;
}

void flusher_add_mapping(struct cache *cache, struct mapping *m)
{
	struct flusher *fl = &cache->flusher;

	if (atomic_load(&m->private_flags) & MAPPING_ON_DIRTY_LIST)
		return;
	mutex_lock(&fl->dirty_lock);
	if (!(atomic_fetch_or(&m->private_flags, MAPPING_ON_DIRTY_LIST) & MAPPING_ON_DIRTY_LIST)) {
		m->dirtied_ns = cache_now_ns();
		list_add_tail(&m->dirty_node, &fl->dirty_mappings);
		fl->dirty_count++;
	}
	mutex_unlock(&fl->dirty_lock);
}

/* dirty_lock held. */
static void mapping_unlist(struct flusher *fl, struct mapping *m)
{
	list_del(&m->dirty_node);
	fl->dirty_count--;
	atomic_fetch_and(&m->private_flags, ~MAPPING_ON_DIRTY_LIST);
}

void flusher_remove_mapping(struct cache *cache, struct mapping *m)
{
	struct flusher *fl = &cache->flusher;

	for (;;) {
		uint32_t flags;

		mutex_lock(&fl->dirty_lock);
		flags = atomic_load(&m->private_flags);
		if (!(flags & MAPPING_FLUSHING)) {
			if (flags & MAPPING_ON_DIRTY_LIST)
				mapping_unlist(fl, m);
			mutex_unlock(&fl->dirty_lock);
			return;
		}
		mutex_unlock(&fl->dirty_lock);
		word_bit_wait_clear(&m->private_flags, MAPPING_FLUSHING, MAPPING_WAITERS);
	}
}

/* dirty_lock held: takes it off if there is nothing to do any more (F1). */
static bool mapping_unlist_if_clean(struct flusher *fl, struct mapping *m)
{
	if (mapping_has_work(m))
		return false;
	mapping_unlist(fl, m);
	if (!mapping_has_work(m))
		return true;
	atomic_fetch_or(&m->private_flags, MAPPING_ON_DIRTY_LIST);
	list_add_tail(&m->dirty_node, &fl->dirty_mappings);
	fl->dirty_count++;
	return false;
}

/* dirty_lock held on entry, dropped on return. The owner pinned, or false. */
static bool mapping_grab_unlock(struct flusher *fl, struct mapping *m)
{
	bool grabbed;

	atomic_fetch_or(&m->private_flags, MAPPING_FLUSHING);
	mutex_unlock(&fl->dirty_lock);
	grabbed = m->ops->grab(m);
	word_bit_unlock(&m->private_flags, MAPPING_FLUSHING, MAPPING_WAITERS);
	return grabbed;
}

/* The list's first mapping for which @wanted is true, rotated to the end and its owner pinned; NULL after *turns. */
static struct mapping *flusher_next(struct cache *cache, uint64_t *turns,
				    bool (*wanted)(struct cache *cache, struct mapping *m, uint64_t now_ns))
{
	struct flusher *fl = &cache->flusher;
	uint64_t now_ns = cache_now_ns();

	mutex_lock(&fl->dirty_lock);
	while (*turns > 0 && !list_empty(&fl->dirty_mappings)) {
		struct mapping *m = list_first(&fl->dirty_mappings, struct mapping, dirty_node);

		--*turns;
		if (mapping_unlist_if_clean(fl, m))
			continue;
		list_move_tail(&m->dirty_node, &fl->dirty_mappings);
		if (!wanted(cache, m, now_ns))
			continue;
		if (mapping_grab_unlock(fl, m))
			return m;
		mutex_lock(&fl->dirty_lock);
	}
	mutex_unlock(&fl->dirty_lock);
	return NULL;
}

/* ---- the thread ---- */

static bool over_background(const struct cache *cache)
{
	return atomic_load(&cache->dirty_bytes) > cache->background_bytes;
}

static bool flusher_wants(struct cache *cache, struct mapping *m, uint64_t now_ns)
{
	if (!atomic_load(&m->dirty_bytes))
		return false;
	return over_background(cache) || cache->flusher.pass_pressure ||
	       now_ns - m->dirtied_ns >= cache->options.dirty_expire_ns;
}

/* Writes up to a turn's worth from where the last turn stopped. */
static void flusher_turn(struct cache *cache, struct mapping *m)
{
	struct flusher *fl = &cache->flusher;
	struct writeback_control wbc = {
		.start_bytes = m->wb_cursor_bytes, .end_bytes = UINT64_MAX, .budget_bytes = TURN_BYTES,
	};

	m->ops->writepages(m, &wbc); /* errors are kept in the mapping, for fsync */
	if (wbc.budget_bytes <= 0) {
		m->wb_cursor_bytes = wbc.start_bytes;
	} else {
		if (m->wb_cursor_bytes) {
			wbc.start_bytes = 0;
			wbc.end_bytes = m->wb_cursor_bytes;
			m->ops->writepages(m, &wbc);
		}
		m->wb_cursor_bytes = 0;
		mutex_lock(&fl->dirty_lock);
		m->dirtied_ns = cache_now_ns();
		mutex_unlock(&fl->dirty_lock);
	}
	m->ops->drop(m);
}

static void flush_buffers(struct cache *cache)
{
	uint64_t now_ns = cache_now_ns();
	uint64_t expire_ns = cache->options.dirty_expire_ns;
	uint64_t before_ns = cache->flusher.pass_pressure ? now_ns : now_ns > expire_ns ? now_ns - expire_ns : 0;
	struct list_head *node;

	for (node = cache->flusher.buffer_caches.next; node != &cache->flusher.buffer_caches; node = node->next)
		buffer_cache_write_old(buffer_cache_of_flusher_node(node), before_ns); /* kept for take_error */
}

static void flusher_pass(struct cache *cache)
{
	struct flusher *fl = &cache->flusher;
	struct mapping *m;
	uint64_t turns;

	mutex_lock(&fl->pass_lock);
	fl->pass_pressure = atomic_exchange(&fl->pressure, false);
	mutex_lock(&fl->dirty_lock);
	turns = fl->dirty_count;
	mutex_unlock(&fl->dirty_lock);
	while ((m = flusher_next(cache, &turns, flusher_wants)) != NULL)
		flusher_turn(cache, m);
	flush_buffers(cache);
	mutex_unlock(&fl->pass_lock);
}

/* Sleeps until kicked, stopped, or @deadline_ns. False: stop. */
static bool flusher_sleep(struct cache *cache, uint64_t deadline_ns)
{
	struct flusher *fl = &cache->flusher;
	bool run;

	mutex_lock(&fl->lock);
	while (!fl->stop && !atomic_load(&fl->kicked)) {
		uint64_t now_ns = cache_now_ns();

		if (now_ns >= deadline_ns)
			break;
		cond_wait_timeout(&fl->wake, &fl->lock, deadline_ns - now_ns);
	}
	run = !fl->stop;
	mutex_unlock(&fl->lock);
	return run;
}

static void *flusher_thread(void *arg)
{
	struct cache *cache = arg;
	struct flusher *fl = &cache->flusher;
	uint64_t tick_ns = cache_now_ns() + TICK_NS;
	uint64_t wake_ns = tick_ns;

	while (flusher_sleep(cache, wake_ns)) {
		uint64_t dirty_before = atomic_load(&cache->dirty_bytes);

		/* Kicks stay quiet while it is over the mark anyway, and are missed by nobody after the pass. */
		flusher_pass(cache);
		atomic_store(&fl->kicked, false);
		if (cache_now_ns() >= tick_ns) {
			page_pool_age(cache->pool);
			if (cache->options.tick)
				cache->options.tick(cache->options.arg);
			tick_ns = cache_now_ns() + TICK_NS;
		}
		wake_ns = tick_ns;
		if (over_background(cache)) {
			bool progress = atomic_load(&cache->dirty_bytes) < dirty_before;

			wake_ns = min_of(tick_ns, cache_now_ns() + (progress ? 0 : RETRY_NS));
		}
		if (atomic_load(&fl->pressure))
			wake_ns = min_of(wake_ns, cache_now_ns() + RETRY_NS);
	}
	return NULL;
}

int flusher_start(struct cache *cache)
{
	struct flusher *fl = &cache->flusher;
	int err;

	mutex_init(&fl->pass_lock, RANK_FLUSH_PASS);
	mutex_init(&fl->dirty_lock, RANK_CACHE_LRU);
	mutex_init(&fl->lock, RANK_WORK);
	cond_init(&fl->wake);
	cond_init(&fl->progress);
	list_init(&fl->dirty_mappings);
	list_init(&fl->buffer_caches);
	err = thread_start("uext4-flush", flusher_thread, cache, &fl->thread);
	if (err) {
		cond_exit(&fl->progress);
		cond_exit(&fl->wake);
		mutex_exit(&fl->lock);
		mutex_exit(&fl->dirty_lock);
		mutex_exit(&fl->pass_lock);
	}
	return err;
}

void flusher_stop(struct cache *cache)
{
	struct flusher *fl = &cache->flusher;

	mutex_lock(&fl->lock);
	fl->stop = true;
	cond_signal(&fl->wake);
	mutex_unlock(&fl->lock);
	pthread_join(fl->thread, NULL);
	UEXT4_ASSERT(list_empty(&fl->dirty_mappings) && list_empty(&fl->buffer_caches));
	cond_exit(&fl->progress);
	cond_exit(&fl->wake);
	mutex_exit(&fl->lock);
	mutex_exit(&fl->dirty_lock);
	mutex_exit(&fl->pass_lock);
}

/* ---- callers ---- */

void cache_throttle_dirty(struct cache *cache)
{
	struct flusher *fl = &cache->flusher;

	if (likely(cache_dirty_bytes(cache) <= cache->throttle_bytes))
		return;
	counter_add(cache->options.counters, CNT_CACHE_THROTTLED, 1);
	atomic_fetch_add(&fl->throttled, 1);
	while (cache_dirty_bytes(cache) > cache->throttle_bytes) {
		flusher_kick(cache);
		mutex_lock(&fl->lock);
		if (cache_dirty_bytes(cache) > cache->throttle_bytes)
			cond_wait_timeout(&fl->progress, &fl->lock, THROTTLE_RECHECK_NS);
		mutex_unlock(&fl->lock);
	}
	atomic_fetch_sub(&fl->throttled, 1);
}

/* A mapping and what its error mark was when its writes were started. */
struct written_mapping {
	struct mapping *m;
	uint32_t err_before;
};

struct written_list {
	struct written_mapping *items;
	size_t count, room;
};

static bool written_list_add(struct written_list *list, struct mapping *m, uint32_t err_before)
{
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		struct written_mapping *items = realloc(list->items, room * sizeof(*items));

		if (!items)
			return false;
		list->items = items;
		list->room = room;
	}
	list->items[list->count++] = (struct written_mapping){ m, err_before };
	return true;
}

static int written_mapping_finish(struct mapping *m, uint32_t err_before, bool wait)
{
	int err = 0;

	if (wait) {
		mapping_wait_writeback(m, 0, UINT64_MAX);
		err = mapping_error_since(m, err_before);
	}
	m->ops->drop(m);
	return err;
}

static bool not_yet_in_pass(struct cache *cache, struct mapping *m, uint64_t now_ns)
{
	if (m->wb_pass == cache->flusher.pass)
		return false;
	m->wb_pass = cache->flusher.pass;
	return true;
}

int cache_writeback_all(struct cache *cache, bool wait)
{
	struct flusher *fl = &cache->flusher;
	struct written_list list = { 0 };
	struct mapping *m;
	uint64_t turns;
	int err, first_err = 0;

	mutex_lock(&fl->pass_lock);
	fl->pass++;
	mutex_lock(&fl->dirty_lock);
	turns = fl->dirty_count;
	mutex_unlock(&fl->dirty_lock);
	while ((m = flusher_next(cache, &turns, not_yet_in_pass)) != NULL) {
		struct writeback_control wbc = {
			.end_bytes = UINT64_MAX, .wait_for_writeback = wait, .budget_bytes = INT64_MAX,
		};
		uint32_t err_before = mapping_error_mark(m);

		err = m->ops->writepages(m, &wbc);
		first_err = first_err ? first_err : err;
		if (!written_list_add(&list, m, err_before)) {
			err = written_mapping_finish(m, err_before, wait);
			first_err = first_err ? first_err : err;
		}
	}
	mutex_unlock(&fl->pass_lock);
	for (size_t i = 0; i < list.count; i++) {
		err = written_mapping_finish(list.items[i].m, list.items[i].err_before, wait);
		first_err = first_err ? first_err : err;
	}
	free(list.items);
	return first_err;
}
