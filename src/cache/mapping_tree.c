/* SPDX-License-Identifier: MIT */
/*
 * mapping_tree.c - the index of a mapping's folios: a radix tree of 64 slots a node, read under RCU
 *
 * A node of shift s covers 64 << s pages, a slot 1 << s; s is a multiple of 6. A folio of order o sits on the level
 * with the largest s <= o, in 1 << (o - s) slots in a row. So a slot points to a folio or (lowest bit set) to a node.
 *
 * T1  A node in the tree has at least one slot in use; an empty one is taken out and freed after a grace period.
 * T2  Each tag is a bit per slot. A parent's bit for a child is set exactly if some bit of the child is. TAG_ANY is the
 *     slots in use, so all walks skip what they do not look for.
 * T3  A lookup takes a reference unless that is zero and then checks that the slot still points there. A folio
 *     whose reference is zero is leaving the tree: the lookup tries again.
 */
#include <errno.h>

#include "base/object.h"
#include "cache/cache_private.h"
#include "cache/mapping_private.h"

#define LEVEL_BITS 6u
#define SLOTS 64u
#define TAGS 3u
#define MAX_SHIFT 54u /* 60 bits of page index: more than 64 bits of file position hold */

struct folio_node {
	_Atomic(void *) slots[SLOTS]; /* [tree_lock] writes, RCU reads */
	uint64_t tags[TAGS];          /* [tree_lock] by enum folio_tag */
	struct folio_node *parent;    /* [tree_lock] */
	struct cache *cache;          /* [const] */
	uint8_t shift;                /* [const] */
	uint8_t offset;               /* [tree_lock] its slot in the parent */
	struct rcu_head rcu;
};

static bool entry_is_node(const void *entry) { return (uintptr_t)entry & 1; }
static struct folio_node *entry_node(void *entry) { return (struct folio_node *)((uintptr_t)entry & ~(uintptr_t)1); }
static void *node_entry(struct folio_node *node) { return (void *)((uintptr_t)node | 1); }

static unsigned slot_of(const struct folio_node *node, uint64_t index)
{
	return (unsigned)(index >> node->shift) & (SLOTS - 1);
}

static bool node_covers(const struct folio_node *node, uint64_t index)
{
	return index >> node->shift >> LEVEL_BITS == 0; /* of the root: everything starts at page 0 */
}

static unsigned level_of_order(unsigned order)
{
	return order / LEVEL_BITS * LEVEL_BITS;
}

static void *slot_load(const struct folio_node *node, unsigned slot)
{
	return atomic_load_explicit(&node->slots[slot], memory_order_acquire);
}

/* ---- lookup ---- */

struct folio *tree_lookup(struct mapping *m, uint64_t index)
{
	struct folio_node *node;
	struct folio *f = NULL;
	void *entry;

	rcu_enter();
again:
	node = atomic_load_explicit(&m->root, memory_order_acquire);
	if (!node || !node_covers(node, index))
		goto leave;
	while (entry_is_node(entry = slot_load(node, slot_of(node, index))))
		node = entry_node(entry);
	if (!entry)
		goto leave;
	f = entry;
	if (!folio_hold_unless_zero(f)) {
		f = NULL;
		goto again;
	}
	if (unlikely(slot_load(node, slot_of(node, index)) != f)) { /* T3 */
		folio_put(f);
		f = NULL;
		goto again;
	}
leave:
	rcu_leave();
	return f;
}

/* ---- nodes ---- */

static struct folio_node *node_alloc(struct mapping *m, unsigned shift)
{
	struct folio_node *node = object_alloc(sizeof(*node));

	if (!node)
		return NULL;
	node->cache = m->cache;
	node->shift = (uint8_t)shift;
	cache_charge(m->cache, CACHE_DATA, 0, sizeof(*node));
	return node;
}

static void node_free_deferred(struct rcu_head *head)
{
	object_free(container_of(head, struct folio_node, rcu), sizeof(struct folio_node));
}

static void node_free(struct folio_node *node)
{
	cache_uncharge(node->cache, CACHE_DATA, 0, sizeof(*node));
	rcu_defer(&node->rcu, node_free_deferred);
}

static void tag_set_mask(struct folio_node *node, enum folio_tag tag, uint64_t mask)
{
	for (;;) {
		bool was_empty = node->tags[tag] == 0;

		node->tags[tag] |= mask;
		if (!was_empty || !node->parent)
			return;
		mask = UINT64_C(1) << node->offset;
		node = node->parent;
	}
}

static void tag_clear_mask(struct folio_node *node, enum folio_tag tag, uint64_t mask)
{
	for (;;) {
		node->tags[tag] &= ~mask;
		if (node->tags[tag] || !node->parent)
			return;
		mask = UINT64_C(1) << node->offset;
		node = node->parent;
	}
}

/* T1: takes out @node and the parents that become empty. Tags have been cleared, the parents' bits with them. */
static void tree_prune(struct mapping *m, struct folio_node *node)
{
	while (node && node->tags[TAG_ANY] == 0) {
		struct folio_node *parent = node->parent;

		if (parent)
			atomic_store_explicit(&parent->slots[node->offset], NULL, memory_order_release);
		else
			atomic_store_explicit(&m->root, NULL, memory_order_release);
		node_free(node);
		node = parent;
	}
}

/* Adds levels above until the root covers @index and has at least @shift. */
static int tree_grow(struct mapping *m, uint64_t index, unsigned shift)
{
	struct folio_node *root = atomic_load_explicit(&m->root, memory_order_relaxed);

	while (!root || !node_covers(root, index) || root->shift < shift) {
		struct folio_node *node = node_alloc(m, root ? root->shift + LEVEL_BITS : 0);

		if (!node)
			return -ENOMEM;
		if (root) {
			root->parent = node;
			root->offset = 0;
			atomic_store_explicit(&node->slots[0], node_entry(root), memory_order_relaxed);
			for (unsigned tag = 0; tag < TAGS; tag++)
				node->tags[tag] = root->tags[tag] ? 1 : 0;
		} else {
			while (!node_covers(node, index) || node->shift < shift)
				node->shift += LEVEL_BITS;
		}
		UEXT4_ASSERT(node->shift <= MAX_SHIFT);
		atomic_store_explicit(&m->root, node, memory_order_release);
		root = node;
	}
	return 0;
}

/* The node on level @shift for @index, creating the path; the tree has room for it. NULL: no memory. */
static struct folio_node *tree_make_path(struct mapping *m, uint64_t index, unsigned shift)
{
	struct folio_node *node, *child;

	if (tree_grow(m, index, shift)) {
		tree_prune(m, atomic_load_explicit(&m->root, memory_order_relaxed));
		return NULL;
	}
	node = atomic_load_explicit(&m->root, memory_order_relaxed);
	while (node->shift > shift) {
		unsigned slot = slot_of(node, index);
		void *entry = slot_load(node, slot);

		if (entry) {
			UEXT4_ASSERT(entry_is_node(entry));
			node = entry_node(entry);
			continue;
		}
		child = node_alloc(m, node->shift - LEVEL_BITS);
		if (!child) {
			tree_prune(m, node);
			return NULL;
		}
		child->parent = node;
		child->offset = (uint8_t)slot;
		atomic_store_explicit(&node->slots[slot], node_entry(child), memory_order_release);
		node = child;
	}
	return node;
}

/* ---- insertion and removal ---- */

static uint64_t folio_slots_mask(const struct folio_node *node, const struct folio *f)
{
	unsigned count = 1u << (f->order - node->shift);

	return (count == SLOTS ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1) << slot_of(node, f->index);
}

/* No folio in [index, index + 2^order), index aligned. */
static bool tree_is_vacant(struct mapping *m, uint64_t index, unsigned order)
{
	const struct folio *f = tree_next(m, index, TAG_ANY);

	return !f || f->index >= index + (UINT64_C(1) << order);
}

int tree_vacant_order(struct mapping *m, uint64_t index, uint8_t order, uint8_t min_order)
{
	for (int o = order; o >= min_order; o--)
		if (tree_is_vacant(m, index >> o << o, (unsigned)o))
			return o;
	return -EEXIST;
}

int tree_insert(struct mapping *m, struct folio *f)
{
	struct folio_node *node;
	uint64_t mask;

	lock_assert_held(&m->tree_lock);
	if (!tree_is_vacant(m, f->index, f->order))
		return -EEXIST;
	node = tree_make_path(m, f->index, level_of_order(f->order));
	if (!node)
		return -ENOMEM;
	mask = folio_slots_mask(node, f);
	for (uint64_t left = mask; left; left &= left - 1)
		atomic_store_explicit(&node->slots[__builtin_ctzll(left)], f, memory_order_release);
	tag_set_mask(node, TAG_ANY, mask);
	return 0;
}

/* The node that holds @f, which is in the tree. */
static struct folio_node *tree_node_of(struct mapping *m, const struct folio *f)
{
	struct folio_node *node = atomic_load_explicit(&m->root, memory_order_relaxed);
	void *entry;

	while (entry_is_node(entry = slot_load(node, slot_of(node, f->index))))
		node = entry_node(entry);
	UEXT4_ASSERT(entry == f);
	return node;
}

void tree_remove(struct mapping *m, struct folio *f)
{
	struct folio_node *node;
	uint64_t mask;

	lock_assert_held(&m->tree_lock);
	node = tree_node_of(m, f);
	mask = folio_slots_mask(node, f);
	for (uint64_t left = mask; left; left &= left - 1)
		atomic_store_explicit(&node->slots[__builtin_ctzll(left)], NULL, memory_order_release);
	for (unsigned tag = 0; tag < TAGS; tag++)
		tag_clear_mask(node, (enum folio_tag)tag, mask);
	tree_prune(m, node);
}

void tree_tag_set(struct mapping *m, struct folio *f, enum folio_tag tag)
{
	struct folio_node *node;

	lock_assert_held(&m->tree_lock);
	node = tree_node_of(m, f);
	tag_set_mask(node, tag, folio_slots_mask(node, f));
}

void tree_tag_clear(struct mapping *m, struct folio *f, enum folio_tag tag)
{
	struct folio_node *node;

	lock_assert_held(&m->tree_lock);
	node = tree_node_of(m, f);
	tag_clear_mask(node, tag, folio_slots_mask(node, f));
}

/* ---- walking ---- */

struct folio *tree_next(struct mapping *m, uint64_t index, enum folio_tag tag)
{
	struct folio_node *root = atomic_load_explicit(&m->root, memory_order_relaxed);
	struct folio_node *node = root;

	lock_assert_held(&m->tree_lock);
	while (node && node_covers(root, index)) {
		unsigned slot = slot_of(node, index);
		uint64_t bits = node->tags[tag] & (~UINT64_C(0) << slot);
		void *entry;

		if (!bits) { /* on behind this node, from the top: it may lie in another branch */
			unsigned span = node->shift + LEVEL_BITS;

			index = ((index >> span) + 1) << span;
			node = root;
			continue;
		}
		if ((unsigned)__builtin_ctzll(bits) != slot) {
			slot = (unsigned)__builtin_ctzll(bits);
			index = (index >> node->shift >> LEVEL_BITS << LEVEL_BITS | slot) << node->shift;
		}
		entry = slot_load(node, slot);
		if (!entry_is_node(entry))
			return entry;
		node = entry_node(entry);
	}
	return NULL;
}
