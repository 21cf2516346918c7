/* SPDX-License-Identifier: MIT */
/* counters.h - always-on counters, sharded by thread, one set per file system */
#ifndef UEXT4_BASE_COUNTERS_H
#define UEXT4_BASE_COUNTERS_H

#include <stdatomic.h>

#include "base/types.h"

/* X(id, section, key): the keys of `uext4 stats --json`. Gauges (es.entries ...) are set by deltas. */
#define UEXT4_COUNTERS(X)                                                    \
	X(ES_ENTRIES, "es", "entries")                                       \
	X(ES_BYTES, "es", "bytes")                                           \
	X(ES_INSERTS, "es", "inserts")                                       \
	X(ES_HITS, "es", "hits")                                             \
	X(ES_MISSES, "es", "misses")                                         \
	X(ES_SHRUNK, "es", "shrunk")                                         \
	X(JOURNAL_HANDLES, "journal", "handles")                             \
	X(JOURNAL_COMMITS, "journal", "commits")                             \
	X(JOURNAL_FSYNCS, "journal", "fsyncs")                               \
	X(JOURNAL_BLOCKS_LOGGED, "journal", "blocks_logged")                 \
	X(JOURNAL_DATA_BLOCKS_LOGGED, "journal", "data_blocks_logged")       \
	X(JOURNAL_FLUSHES, "journal", "flushes")                             \
	X(JOURNAL_DATA_PAGES_BY_COMMIT, "journal", "data_pages_by_commit")   \
	X(JOURNAL_DATA_WAITS, "journal", "data_waits")                       \
	X(JOURNAL_CHECKPOINTS, "journal", "checkpoints")                     \
	X(JOURNAL_REVOKES, "journal", "revokes")                             \
	X(WB_BYTES_DIRTIED, "writeback", "bytes_dirtied")                    \
	X(WB_BYTES_WRITTEN, "writeback", "bytes_written")                    \
	X(WB_DATA_PAGES_BY_FLUSHER, "writeback", "data_pages_by_flusher")    \
	X(WB_IOENDS, "writeback", "ioends")                                  \
	X(WB_MAP_CALLS, "writeback", "map_calls")                            \
	X(FOLIO_STATES_ALLOCATED, "folio", "states_allocated")               \
	X(FOLIO_STATES_INLINE, "folio", "states_inline")                     \
	X(FOLIO_READS_FOR_WRITE, "folio", "reads_for_write")                 \
	X(FOLIO_LARGE_FOLIOS, "folio", "large_folios")                       \
	X(DAX_OVERWRITES, "dax", "overwrites")                               \
	X(DAX_OVERWRITES_WITH_HANDLE, "dax", "overwrites_with_handle")       \
	X(DAX_BYTES, "dax", "bytes")                                         \
	X(DAX_ALLOCATIONS, "dax", "allocations")                             \
	X(CACHE_DATA_BYTES, "cache", "data_bytes")                           \
	X(CACHE_META_BYTES, "cache", "meta_bytes")                           \
	X(CACHE_LIMIT_BYTES, "cache", "limit_bytes")                         \
	X(CACHE_EVICTIONS, "cache", "evictions")                             \
	X(CACHE_THROTTLED, "cache", "throttled")                             \
	X(DEVICE_READS, "device", "reads")                                   \
	X(DEVICE_WRITES, "device", "writes")                                 \
	X(DEVICE_FLUSHES, "device", "flushes")                               \
	X(DEVICE_BYTES_READ, "device", "bytes_read")                         \
	X(DEVICE_BYTES_WRITTEN, "device", "bytes_written")

enum counter_id {
#define X(id, section, key) CNT_##id,
	UEXT4_COUNTERS(X)
#undef X
	CNT_COUNT
};

#define COUNTER_SHARDS 16

struct counters {
	struct counter_shard {
		_Atomic uint64_t v[CNT_COUNT];
	} __attribute__((aligned(64))) shard[COUNTER_SHARDS];
};

/* Shard of this thread plus one, 0 before its first use; initial-exec, so that reading it costs one load. */
extern __thread unsigned counter_shard_tls __attribute__((tls_model("initial-exec")));
unsigned counter_shard_assign(void);

/* Of this thread, below COUNTER_SHARDS; stable. */
static inline unsigned counter_shard_index(void)
{
	unsigned shard = counter_shard_tls;

	return likely(shard) ? shard - 1 : counter_shard_assign();
}

static inline void counter_add(struct counters *c, enum counter_id id, int64_t delta)
{
	__atomic_fetch_add((uint64_t *)&c->shard[counter_shard_index()].v[id], (uint64_t)delta,
			   __ATOMIC_RELAXED);
}

uint64_t counter_read(const struct counters *c, enum counter_id id); /* sum over shards */

#endif
