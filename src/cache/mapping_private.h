/* SPDX-License-Identifier: MIT */
/* mapping_private.h - what folio, mapping, tree and flusher share */
#ifndef UEXT4_CACHE_MAPPING_PRIVATE_H
#define UEXT4_CACHE_MAPPING_PRIVATE_H

#include "cache/mapping.h"

/* Bits of mapping.private_flags. */
#define MAPPING_ON_DIRTY_LIST 0x1u
#define MAPPING_FLUSHING      0x2u /* F2 */
#define MAPPING_WAITERS       0x4u
#define MAPPING_WHOLE_DIRTY   0x8u

/* ---- folio.c ---- */

/* Locked, with two references: the tree's and the caller's. NULL: no memory. */
struct folio *folio_alloc(struct mapping *m, uint64_t index, uint8_t order);
/* Never was in a tree, or is out of it, with no reference but the caller's. */
void folio_free(struct folio *f);
bool folio_hold_unless_zero(struct folio *f);

/* ---- folio_state.c ---- */

void folio_state_free(struct folio *f);

/* ---- mapping_tree.c: all but the lookup with tree_lock held ---- */

struct folio *tree_lookup(struct mapping *m, uint64_t index); /* with a reference */
/* The largest order up to @order that is vacant around @index and not below @min_order; -EEXIST: none. */
int tree_vacant_order(struct mapping *m, uint64_t index, uint8_t order, uint8_t min_order);
int tree_insert(struct mapping *m, struct folio *f); /* -EEXIST, -ENOMEM */
void tree_remove(struct mapping *m, struct folio *f);
void tree_tag_set(struct mapping *m, struct folio *f, enum folio_tag tag);
void tree_tag_clear(struct mapping *m, struct folio *f, enum folio_tag tag);
struct folio *tree_next(struct mapping *m, uint64_t index, enum folio_tag tag); /* no reference */

/* ---- mapping.c ---- */

/* Folio locked, not dirty, not under writeback: takes it out of the mapping; the tree's reference is put. */
void mapping_remove_folio(struct folio *f);
/* Folio locked by the caller, who holds one of two references: takes it out and frees it if it is idle. Else unlocks and puts. */
uint64_t mapping_evict_folio(struct folio *f);
void mapping_wait_writeback(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes);

/* ---- errseq.c: a mark that does not count as having seen the error ---- */
uint32_t mapping_error_mark(const struct mapping *m);
int mapping_error_since(const struct mapping *m, uint32_t mark);

#endif
