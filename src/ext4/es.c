/* SPDX-License-Identifier: MIT */
/*
 * es.c - the ordered map of extent status
 *
 * A map is a sorted array of leaves, a leaf a sorted array of 16-byte entries. Inserting into a file of very many
 * extents moves at most one leaf's entries, and the array of leaves only when a leaf splits.
 *
 * E1  Entries do not overlap and are sorted; neighbours that could be one entry are one.
 * E2  A leaf in the map is not empty, and top[i].first is the first block of leaf i.
 * E3  Readers take no lock: they read under RCU, so leaves and arrays stay allocated, and accept what they saw only if
 *     es_tree.seq is even and unchanged. Every word they may see in mid-change is atomic; counts never exceed the
 *     capacity of the array they belong to. Stores release and loads acquire, so a reader that saw a new word sees
 *     the odd sequence number too.
 * E4  Delayed entries are the only record of their blocks: they are never dropped for want of memory.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/counters.h"
#include "base/object.h"
#include "base/rcu.h"
#include "ext4/balloc.h"
#include "ext4/es.h"
#include "ext4/es_private.h"

#define ES_LEAF_MAX  128u /* 2 KiB: the move on insertion stays around 100 ns */
#define ES_LEAF_STEP 8u   /* leaves grow by so much: little slack per entry */
#define ES_SPIN      200  /* tries of a reader before it waits on the writers' lock */

struct es_slot {
	_Atomic uint64_t where; /* lblk << 32 | len */
	_Atomic uint64_t what;  /* pblk << 3 | status */
};

struct es_leaf {
	struct rcu_head rcu;
	uint32_t capacity;      /* [const] */
	_Atomic uint32_t count;
	struct es_slot slot[];
};

struct es_top {
	_Atomic uint64_t first; /* lblk */
	_Atomic(struct es_leaf *) leaf;
};

struct es_map {
	struct rcu_head rcu;
	uint32_t capacity;      /* [const] */
	_Atomic uint32_t count;
	struct es_top top[];
};

/* A place in the map: entry @i of leaf @l; i may be the leaf's count, l the map's. */
struct es_pos {
	uint32_t l, i;
};

#define LOAD(x)     atomic_load_explicit(&(x), memory_order_acquire)
#define STORE(x, v) atomic_store_explicit(&(x), (v), memory_order_release)
#define PEEK(x)     atomic_load_explicit(&(x), memory_order_relaxed) /* writers, under es.lock */

static uint64_t slot_where(const struct es_extent *es)
{
	return (uint64_t)es->lblk << 32 | es->len;
}

static uint64_t slot_what(const struct es_extent *es)
{
	return es->pblk << 3 | (uint64_t)es->status;
}

static void slot_unpack(uint64_t where, uint64_t what, struct es_extent *out)
{
	out->lblk = (lblk_t)(where >> 32);
	out->len = (uint32_t)where;
	out->pblk = what >> 3;
	out->status = (enum es_status)(what & 7);
}

static void slot_set(struct es_slot *slot, const struct es_extent *es)
{
	STORE(slot->where, slot_where(es));
	STORE(slot->what, slot_what(es));
}

static void slot_copy(struct es_slot *to, struct es_slot *from)
{
	STORE(to->where, PEEK(from->where));
	STORE(to->what, PEEK(from->what));
}

static void slot_get(struct es_slot *slot, struct es_extent *out)
{
	slot_unpack(PEEK(slot->where), PEEK(slot->what), out);
}

static bool status_has_blocks(enum es_status status)
{
	return status == ES_WRITTEN || status == ES_UNWRITTEN;
}

/* @a ends where @b begins, and one entry could say both. */
static bool es_can_merge(const struct es_extent *a, const struct es_extent *b)
{
	if (a->status != b->status || es_end(a) != b->lblk || (uint64_t)a->len + b->len > UINT32_MAX)
		return false;
	return !status_has_blocks(a->status) || a->pblk + a->len == b->pblk;
}

/* Cuts @es to [start, end), which lies within it. */
static void es_trim(struct es_extent *es, uint64_t start, uint64_t end)
{
	if (status_has_blocks(es->status))
		es->pblk += start - es->lblk;
	es->lblk = (lblk_t)start;
	es->len = (uint32_t)(end - start);
}

/* ---- memory ---- */

/* @must: waits until there is memory (E4). */
static void *es_alloc(size_t bytes, bool must)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	void *p;

	while (!(p = object_alloc(bytes)) && must)
		nanosleep(&pause, NULL);
	return p;
}

static size_t leaf_bytes(uint32_t capacity)
{
	return sizeof(struct es_leaf) + capacity * sizeof(struct es_slot);
}

static size_t map_bytes(uint32_t capacity)
{
	return sizeof(struct es_map) + capacity * sizeof(struct es_top);
}

static struct es_leaf *leaf_alloc(struct inode *inode, uint32_t capacity, bool must)
{
	struct es_leaf *leaf = es_alloc(leaf_bytes(capacity), must);

	if (leaf) {
		leaf->capacity = capacity;
		es_shrinker_account(inode->fs, (int64_t)leaf_bytes(capacity));
	}
	return leaf;
}

static void leaf_free_rcu(struct rcu_head *head)
{
	struct es_leaf *leaf = container_of(head, struct es_leaf, rcu);

	object_free(leaf, leaf_bytes(leaf->capacity));
}

static void leaf_free(struct inode *inode, struct es_leaf *leaf)
{
	es_shrinker_account(inode->fs, -(int64_t)leaf_bytes(leaf->capacity));
	rcu_defer(&leaf->rcu, leaf_free_rcu);
}

static void map_free_rcu(struct rcu_head *head)
{
	struct es_map *map = container_of(head, struct es_map, rcu);

	object_free(map, map_bytes(map->capacity));
}

static void map_free(struct inode *inode, struct es_map *map)
{
	es_shrinker_account(inode->fs, -(int64_t)map_bytes(map->capacity));
	rcu_defer(&map->rcu, map_free_rcu);
}

/* Room for one more leaf; the map to use from now on, or NULL without memory. */
static struct es_map *map_reserve(struct inode *inode, bool must)
{
	struct es_map *old = PEEK(inode->es.map), *map;
	uint32_t count = old ? PEEK(old->count) : 0, i;

	if (old && count < old->capacity)
		return old;
	map = es_alloc(map_bytes(count ? count + count / 4 + 1 : 1), must);
	if (!map)
		return NULL;
	map->capacity = count ? count + count / 4 + 1 : 1;
	es_shrinker_account(inode->fs, (int64_t)map_bytes(map->capacity));
	for (i = 0; i < count; i++) {
		STORE(map->top[i].first, PEEK(old->top[i].first));
		STORE(map->top[i].leaf, PEEK(old->top[i].leaf));
	}
	STORE(map->count, count);
	STORE(inode->es.map, map);
	if (old)
		map_free(inode, old);
	return map;
}

/* ---- positions ---- */

/* Leaf that covers @lblk: the last that begins at or before it, or the first. */
static uint32_t map_search(struct es_map *map, uint32_t count, lblk_t lblk)
{
	uint32_t low = 0, high = count;

	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (LOAD(map->top[mid].first) <= lblk)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* First entry that begins after @lblk. */
static uint32_t leaf_search(struct es_leaf *leaf, uint32_t count, lblk_t lblk)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if ((LOAD(leaf->slot[mid].where) >> 32) <= lblk)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct es_leaf *pos_leaf(struct es_map *map, const struct es_pos *pos)
{
	return PEEK(map->top[pos->l].leaf);
}

/* Fills @out with the entry at @pos, moving on to the next leaf at a leaf's end. False at the end of the map. */
static bool pos_get(struct es_map *map, struct es_pos *pos, struct es_extent *out)
{
	if (!map)
		return false;
	if (pos->l < PEEK(map->count) && pos->i >= PEEK(pos_leaf(map, pos)->count)) {
		pos->l++;
		pos->i = 0;
	}
	if (pos->l >= PEEK(map->count))
		return false;
	slot_get(&pos_leaf(map, pos)->slot[pos->i], out);
	return true;
}

/* First entry that ends after @lblk. */
static void pos_find(struct es_map *map, lblk_t lblk, struct es_pos *pos)
{
	struct es_extent es;
	struct es_leaf *leaf;

	pos->l = pos->i = 0;
	if (!map || !PEEK(map->count))
		return;
	pos->l = map_search(map, PEEK(map->count), lblk);
	leaf = pos_leaf(map, pos);
	pos->i = leaf_search(leaf, PEEK(leaf->count), lblk);
	if (pos->i) {
		slot_get(&leaf->slot[pos->i - 1], &es);
		if (es_end(&es) > lblk)
			pos->i--;
	}
}

/* Steps back to the entry before @pos. False at the start. */
static bool pos_prev(struct es_map *map, struct es_pos *pos)
{
	if (pos->i == 0) {
		if (pos->l == 0)
			return false;
		pos->l--;
		pos->i = PEEK(pos_leaf(map, pos)->count);
	}
	pos->i--;
	return true;
}

/* ---- changes; es.lock held and seq odd ---- */

static void pos_set(struct es_map *map, const struct es_pos *pos, const struct es_extent *es)
{
	slot_set(&pos_leaf(map, pos)->slot[pos->i], es);
	if (pos->i == 0)
		STORE(map->top[pos->l].first, es->lblk);
}

static void map_remove_leaf(struct inode *inode, struct es_map *map, uint32_t l)
{
	struct es_leaf *leaf = PEEK(map->top[l].leaf);
	uint32_t count = PEEK(map->count) - 1;

	for (; l < count; l++) {
		STORE(map->top[l].first, PEEK(map->top[l + 1].first));
		STORE(map->top[l].leaf, PEEK(map->top[l + 1].leaf));
	}
	STORE(map->count, count);
	STORE(map->top[count].leaf, NULL);
	leaf_free(inode, leaf);
	if (count == 0) {
		STORE(inode->es.map, NULL);
		map_free(inode, map);
	}
}

static void map_insert_leaf(struct es_map *map, uint32_t l, struct es_leaf *leaf, lblk_t first)
{
	uint32_t count = PEEK(map->count), i;

	for (i = count; i > l; i--) {
		STORE(map->top[i].first, PEEK(map->top[i - 1].first));
		STORE(map->top[i].leaf, PEEK(map->top[i - 1].leaf));
	}
	STORE(map->top[l].first, first);
	STORE(map->top[l].leaf, leaf);
	STORE(map->count, count + 1);
}

/* A copy of slots [from, to) of @leaf in a leaf of its own. */
static struct es_leaf *leaf_copy(struct inode *inode, struct es_leaf *leaf, uint32_t from, uint32_t to,
				 uint32_t capacity, bool must)
{
	struct es_leaf *copy = leaf_alloc(inode, capacity, must);
	uint32_t i;

	if (!copy)
		return NULL;
	for (i = from; i < to; i++)
		slot_copy(&copy->slot[i - from], &leaf->slot[i]);
	STORE(copy->count, to - from);
	return copy;
}

/* Gives a leaf that became sparse a smaller home; keeps it without memory. */
static void leaf_compact(struct inode *inode, struct es_map *map, uint32_t l)
{
	struct es_leaf *leaf = PEEK(map->top[l].leaf), *small;
	uint32_t count = PEEK(leaf->count);

	if (leaf->capacity <= 2 * ES_LEAF_STEP || count * 2 > leaf->capacity)
		return;
	small = leaf_copy(inode, leaf, 0, count, round_up_to(count + 1, ES_LEAF_STEP), false);
	if (!small)
		return;
	STORE(map->top[l].leaf, small);
	leaf_free(inode, leaf);
}

/* Removes @n entries of one leaf from @pos on. The map may be gone afterwards. */
static void pos_remove(struct inode *inode, struct es_map *map, const struct es_pos *pos, uint32_t n)
{
	struct es_leaf *leaf = pos_leaf(map, pos);
	uint32_t count = PEEK(leaf->count), i;

	counter_add(inode->fs->counters, CNT_ES_ENTRIES, -(int64_t)n);
	if (n == count) {
		map_remove_leaf(inode, map, pos->l);
		return;
	}
	for (i = pos->i; i + n < count; i++)
		slot_copy(&leaf->slot[i], &leaf->slot[i + n]);
	STORE(leaf->count, count - n);
	if (pos->i == 0)
		STORE(map->top[pos->l].first, PEEK(leaf->slot[0].where) >> 32);
	leaf_compact(inode, map, pos->l);
}

/* Makes a full leaf larger. */
static int leaf_grow(struct inode *inode, struct es_map *map, uint32_t l, bool must)
{
	struct es_leaf *leaf = PEEK(map->top[l].leaf), *large;
	uint32_t count = PEEK(leaf->count);

	large = leaf_copy(inode, leaf, 0, count, leaf->capacity == 1 ? 4 : round_up_to(count + 1, ES_LEAF_STEP), must);
	if (!large)
		return -ENOMEM;
	STORE(map->top[l].leaf, large);
	leaf_free(inode, leaf);
	return 0;
}

/* Splits the full leaf of @pos where an entry is to go in; @pos then names the place in one of the halves. */
static int leaf_split(struct inode *inode, struct es_pos *pos, bool must)
{
	struct es_map *map = map_reserve(inode, must);
	struct es_leaf *leaf, *right;
	uint32_t count, at;

	if (!map)
		return -ENOMEM;
	leaf = pos_leaf(map, pos);
	count = PEEK(leaf->count);
	at = pos->i == count ? count - 1 : count / 2; /* appending leaves full leaves behind */
	right = leaf_copy(inode, leaf, at, count, round_up_to(count - at + 1, ES_LEAF_STEP), must);
	if (!right)
		return -ENOMEM;
	map_insert_leaf(map, pos->l + 1, right, (lblk_t)(PEEK(right->slot[0].where) >> 32));
	STORE(leaf->count, at);
	leaf_compact(inode, map, pos->l);
	if (pos->i > at) {
		pos->l++;
		pos->i -= at;
	}
	return 0;
}

/* Inserts @es before the entry at @pos. */
static int pos_insert(struct inode *inode, struct es_pos *pos, const struct es_extent *es, bool must)
{
	struct es_map *map = PEEK(inode->es.map);
	struct es_leaf *leaf;
	uint32_t i;
	int err = 0;

	if (!map) {
		leaf = leaf_alloc(inode, 1, must);
		map = leaf ? map_reserve(inode, must) : NULL;
		if (!map) {
			if (leaf)
				leaf_free(inode, leaf);
			return -ENOMEM;
		}
		slot_set(&leaf->slot[0], es);
		STORE(leaf->count, 1);
		map_insert_leaf(map, 0, leaf, es->lblk);
		goto counted;
	}
	if (pos->l == PEEK(map->count)) {
		pos->l--;
		pos->i = PEEK(pos_leaf(map, pos)->count);
	}
	leaf = pos_leaf(map, pos);
	if (PEEK(leaf->count) == ES_LEAF_MAX)
		err = leaf_split(inode, pos, must);
	else if (PEEK(leaf->count) == leaf->capacity)
		err = leaf_grow(inode, map, pos->l, must);
	if (err)
		return err;
	map = PEEK(inode->es.map);
	leaf = pos_leaf(map, pos);
	for (i = PEEK(leaf->count); i > pos->i; i--)
		slot_copy(&leaf->slot[i], &leaf->slot[i - 1]);
	STORE(leaf->count, PEEK(leaf->count) + 1);
	pos_set(map, pos, es);
counted:
	counter_add(inode->fs->counters, CNT_ES_ENTRIES, 1);
	return 0;
}

/* How many blocks of @es that lie in [start, end) are delayed. */
static uint32_t es_delayed_within(const struct es_extent *es, uint64_t start, uint64_t end)
{
	if (es->status != ES_DELAYED)
		return 0;
	return (uint32_t)(min_of(es_end(es), end) - max_of((uint64_t)es->lblk, start));
}

/* Entry @es at @pos covers [start, end) and more on both sides: leaves the two sides. */
static void es_cut_middle(struct inode *inode, struct es_pos *pos, struct es_extent es, uint64_t start, uint64_t end)
{
	struct es_extent right = es;

	es_trim(&right, end, es_end(&es));
	es_trim(&es, es.lblk, start);
	pos_set(PEEK(inode->es.map), pos, &es);
	pos->i++;
	(void)pos_insert(inode, pos, &right, true); /* waits for memory: cannot fail */
}

/* Removes what is known of [start, end). Returns delayed blocks among it. */
static uint32_t es_cut(struct inode *inode, uint64_t start, uint64_t end)
{
	uint32_t delayed = 0;
	struct es_pos pos;
	struct es_extent es;
	struct es_map *map;

	for (;;) {
		map = PEEK(inode->es.map);
		pos_find(map, (lblk_t)start, &pos);
		if (!pos_get(map, &pos, &es) || es.lblk >= end)
			return delayed;
		delayed += es_delayed_within(&es, start, end);
		if (es.lblk < start && es_end(&es) > end) {
			es_cut_middle(inode, &pos, es, start, end);
			return delayed;
		}
		if (es.lblk < start) {
			es_trim(&es, es.lblk, start);
			pos_set(map, &pos, &es);
		} else if (es_end(&es) > end) {
			es_trim(&es, end, es_end(&es));
			pos_set(map, &pos, &es);
			return delayed;
		} else {
			pos_remove(inode, map, &pos, 1);
		}
	}
}

/* Adds @es where nothing is known, merging with its neighbours (E1). */
static int es_put(struct inode *inode, const struct es_extent *es, bool must)
{
	struct es_map *map = PEEK(inode->es.map);
	struct es_extent left, right, sum = *es;
	struct es_pos pos, prev;
	bool has_right;

	pos_find(map, es->lblk, &pos);
	has_right = pos_get(map, &pos, &right) && es_can_merge(es, &right);
	prev = pos;
	if (map && pos_prev(map, &prev)) {
		slot_get(&pos_leaf(map, &prev)->slot[prev.i], &left);
		if (es_can_merge(&left, es)) {
			left.len += es->len;
			if (has_right && es_can_merge(&left, &right)) {
				left.len += right.len;
				pos_remove(inode, map, &pos, 1);
				map = PEEK(inode->es.map);
			}
			pos_set(map, &prev, &left);
			return 0;
		}
	}
	if (!has_right)
		return pos_insert(inode, &pos, es, must);
	sum.len += right.len;
	pos_set(map, &pos, &sum);
	return 0;
}

static void es_change_begin(struct inode *inode)
{
	mutex_lock(&inode->es.lock);
	STORE(inode->es.seq, PEEK(inode->es.seq) + 1);
}

static void es_change_end(struct inode *inode)
{
	STORE(inode->es.seq, PEEK(inode->es.seq) + 1);
	mutex_unlock(&inode->es.lock);
}

/* ---- lookups ---- */

/* One look without a lock. 1 found, 0 not, -1 the map changed meanwhile. */
static int es_try_lookup(struct es_tree *tree, lblk_t lblk, struct es_extent *out)
{
	uint32_t seq = LOAD(tree->seq), count, i;
	uint64_t where = 0, what = 0;
	struct es_leaf *leaf;
	struct es_map *map;

	if (seq & 1)
		return -1;
	map = LOAD(tree->map);
	count = map ? LOAD(map->count) : 0;
	if (count) {
		leaf = LOAD(map->top[map_search(map, count, lblk)].leaf);
		i = leaf ? leaf_search(leaf, LOAD(leaf->count), lblk) : 0;
		if (i) {
			where = LOAD(leaf->slot[i - 1].where);
			what = LOAD(leaf->slot[i - 1].what);
		}
	}
	if (LOAD(tree->seq) != seq)
		return -1;
	slot_unpack(where, what, out);
	return out->len && lblk >= out->lblk && es_end(out) > lblk;
}

static bool es_locked_lookup(struct inode *inode, lblk_t lblk, struct es_extent *out)
{
	struct es_map *map;
	struct es_pos pos;
	bool found;

	mutex_lock(&inode->es.lock);
	map = PEEK(inode->es.map);
	pos_find(map, lblk, &pos);
	found = pos_get(map, &pos, out) && out->lblk <= lblk;
	mutex_unlock(&inode->es.lock);
	return found;
}

bool es_lookup(struct inode *inode, lblk_t lblk, struct es_extent *out)
{
	struct es_tree *tree = &inode->es;
	int found = -1, i;

	rcu_enter();
	for (i = 0; i < ES_SPIN && found < 0; i++)
		found = es_try_lookup(tree, lblk, out);
	rcu_leave();
	if (unlikely(found < 0))
		found = es_locked_lookup(inode, lblk, out);
	if (found && !atomic_load_explicit(&tree->referenced, memory_order_relaxed))
		atomic_store_explicit(&tree->referenced, true, memory_order_relaxed);
	return found;
}

bool es_next(struct inode *inode, lblk_t from, struct es_extent *out)
{
	struct es_map *map;
	struct es_pos pos;
	bool found;

	mutex_lock(&inode->es.lock);
	map = PEEK(inode->es.map);
	pos_find(map, from, &pos);
	found = pos_get(map, &pos, out);
	mutex_unlock(&inode->es.lock);
	return found;
}

/* Caller: es.lock. */
static bool es_next_delayed_locked(struct inode *inode, lblk_t from, uint64_t end, struct es_extent *out)
{
	struct es_map *map = PEEK(inode->es.map);
	struct es_pos pos;

	if (!inode->reserved_blocks)
		return false;
	for (pos_find(map, from, &pos); pos_get(map, &pos, out) && out->lblk < end; pos.i++) {
		if (out->status == ES_DELAYED)
			return true;
	}
	return false;
}

bool es_next_delayed(struct inode *inode, lblk_t from, uint64_t end, struct es_extent *out)
{
	bool found;

	mutex_lock(&inode->es.lock);
	found = es_next_delayed_locked(inode, from, end, out);
	mutex_unlock(&inode->es.lock);
	return found;
}

/* ---- changes ---- */

uint32_t es_set(struct inode *inode, const struct es_extent *es)
{
	uint32_t delayed;

	UEXT4_ASSERT(es->len > 0 && es_end(es) <= UINT32_MAX);
	es_shrinker_add(inode);
	es_change_begin(inode);
	delayed = es_cut(inode, es->lblk, es_end(es));
	(void)es_put(inode, es, true); /* waits for memory: cannot fail */
	inode->reserved_blocks -= delayed;
	if (es->status == ES_DELAYED)
		inode->reserved_blocks += es->len;
	es_change_end(inode);
	counter_add(inode->fs->counters, CNT_ES_INSERTS, 1);
	es_shrinker_check(inode->fs);
	return delayed;
}

void es_cache(struct inode *inode, const struct es_extent *es)
{
	uint64_t start = es->lblk, end = es_end(es), stop;
	struct es_extent piece, delayed;

	if (es->len == 0 || end > UINT32_MAX)
		return;
	es_shrinker_add(inode);
	es_change_begin(inode);
	while (start < end) {
		bool found = es_next_delayed_locked(inode, (lblk_t)start, end, &delayed);

		stop = found ? delayed.lblk : end;
		if (stop > start) {
			piece = *es;
			es_trim(&piece, start, stop);
			es_cut(inode, start, stop);
			if (es_put(inode, &piece, false))
				break; /* no memory: only less is known */
		}
		start = found ? es_end(&delayed) : end;
	}
	es_change_end(inode);
	counter_add(inode->fs->counters, CNT_ES_INSERTS, 1);
	es_shrinker_check(inode->fs);
}

uint32_t es_remove(struct inode *inode, lblk_t start, uint64_t end)
{
	uint32_t delayed;

	if (!LOAD(inode->es.map))
		return 0;
	es_change_begin(inode);
	delayed = es_cut(inode, start, end);
	inode->reserved_blocks -= delayed;
	es_change_end(inode);
	return delayed;
}

/* Moves the delayed entries of leaf @l to its front. Returns how many entries went; the leaf may be empty now. */
static uint32_t leaf_drop_clean(struct es_leaf *leaf)
{
	uint32_t count = PEEK(leaf->count), kept = 0, i;

	for (i = 0; i < count; i++) {
		if ((PEEK(leaf->slot[i].what) & 7) == ES_DELAYED)
			slot_copy(&leaf->slot[kept++], &leaf->slot[i]);
	}
	STORE(leaf->count, kept);
	return count - kept;
}

uint64_t es_drop_clean(struct inode *inode)
{
	struct es_map *map = PEEK(inode->es.map);
	uint64_t dropped = 0;
	uint32_t l;

	if (!map)
		return 0;
	STORE(inode->es.seq, PEEK(inode->es.seq) + 1);
	for (l = PEEK(map->count); l-- > 0;) {
		struct es_leaf *leaf = PEEK(map->top[l].leaf);

		dropped += leaf_drop_clean(leaf);
		if (PEEK(leaf->count) == 0) {
			map_remove_leaf(inode, map, l);
		} else {
			STORE(map->top[l].first, PEEK(leaf->slot[0].where) >> 32);
			leaf_compact(inode, map, l);
		}
	}
	STORE(inode->es.seq, PEEK(inode->es.seq) + 1);
	counter_add(inode->fs->counters, CNT_ES_ENTRIES, -(int64_t)dropped);
	return dropped;
}

void es_init(struct es_tree *tree)
{
	atomic_init(&tree->seq, 0);
	atomic_init(&tree->referenced, false);
	atomic_init(&tree->listed, false);
	atomic_init(&tree->map, NULL);
	mutex_init(&tree->lock, RANK_ES);
	list_init(&tree->lru);
}

void es_exit(struct inode *inode)
{
	uint64_t reserved;

	if (inode->fs) {
		es_shrinker_del(inode);
		reserved = es_remove(inode, 0, UINT32_MAX);
		reserved += atomic_exchange(&inode->io.reserved_meta, 0);
		if (reserved)
			balloc_unreserve(inode->fs, reserved);
	}
	mutex_exit(&inode->es.lock);
}
