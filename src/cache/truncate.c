/* SPDX-License-Identifier: MIT */
/*
 * truncate.c - taking ranges out of a mapping for truncate and punch hole
 *
 * The caller holds invalidate_lock exclusively, so no read brings a folio back, and inode.rwsem, so no write does. Each
 * folio is locked in turn and its writeback waited for: afterwards nothing of the range is in memory as data, on its
 * way to the device, or going to be.
 *
 * A folio that the range cuts stays. Its bytes in the range become zeros, and its blocks wholly in the range become
 * clean: there is no block on disk to write them to. They stay uptodate if they were, since a hole reads as zeros. Blocks
 * that were not uptodate stay so; their bytes mean nothing.
 */
#include <errno.h>
#include <string.h>

#include "cache/cache_private.h"
#include "cache/mapping_private.h"

#define BATCH 32u

/* Bytes [start, end) of the file, within the folio or beyond it on either side. */
static void folio_cut(struct folio *f, uint64_t start, uint64_t end)
{
	uint64_t pos = folio_pos(f), folio_end = pos + folio_bytes(f);
	size_t from = start > pos ? (size_t)(start - pos) : 0;
	size_t to = (size_t)(min_of(end, folio_end) - pos);

	if (from == 0 && to == folio_bytes(f)) {
		folio_clear_range_dirty(f, 0, folio_bytes(f));
		mapping_remove_folio(f);
		return;
	}
	memset(f->data + from, 0, to - from);
	folio_clear_range_dirty(f, from, to - from);
}

static void mapping_cut(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes)
{
	uint64_t index = start_bytes >> PAGE_SHIFT_BITS;
	uint64_t end_index = end_bytes == UINT64_MAX ? UINT64_MAX : div_round_up(end_bytes, (uint64_t)PAGE_BYTES);
	struct folio *batch[BATCH];
	unsigned count;

	while ((count = mapping_find_tagged(m, &index, end_index, TAG_ANY, batch, BATCH)) > 0) {
		for (unsigned i = 0; i < count; i++) {
			struct folio *f = batch[i];

			folio_lock(f);
			if (f->mapping == m) {
				folio_wait_writeback(f);
				folio_cut(f, start_bytes, end_bytes);
			}
			folio_unlock(f);
			folio_put(f);
		}
	}
}

void mapping_truncate(struct mapping *m, uint64_t new_size_bytes)
{
	mapping_cut(m, new_size_bytes, UINT64_MAX);
}

void mapping_punch(struct mapping *m, uint64_t start_bytes, uint64_t end_bytes)
{
	if (start_bytes < end_bytes)
		mapping_cut(m, start_bytes, end_bytes);
}
