/* SPDX-License-Identifier: MIT */
/* toy.h - a client of the journal that is no file system: numbered blocks with a version in each */
#ifndef UEXT4_TESTS_JBD2_TOY_H
#define UEXT4_TESTS_JBD2_TOY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "image_memory.h"

#include "block/block.h"
#include "block/fault.h"
#include "block/record.h"
#include "cache/buffer.h"
#include "cache/cache.h"
#include "jbd2/jbd2.h"
#include "jbd2/jbd2_private.h"

/* Device: block 0 unused, then the journal, scattered over two extents, then the home blocks. */
#define TOY_LOG_FIRST 8u

struct toy_options {
	uint32_t block_bytes;
	uint32_t log_blocks;
	uint32_t home_blocks;
	uint32_t fc_blocks;         /* 0: no fast-commit area */
	tid_t first_tid;            /* s_sequence of the fresh journal */
	bool csum_v3, is_64bit, async_commit, record, fault, no_barriers;
	uint64_t cache_bytes;       /* 0: 64 MiB */
	struct cache *cache;        /* another toy's to share, which outlives this one; NULL: its own */
};

struct toy {
	struct toy_options opt;
	uint8_t *image;             /* what the memory device holds */
	uint64_t image_bytes;
	uint8_t *start_image;       /* at the time recording began; record only */
	struct block_device *memory, *record, *fault, *dev; /* dev: the uppermost */
	struct log_sink sink;
	struct counters *counters;
	struct cache *cache;
	struct buffer_cache *bc;
	struct journal *j;
	_Atomic int aborted;        /* error given to on_abort */
	_Atomic int logged_errors;  /* messages of level error */
};

/* Makes an image with an empty journal and starts it. */
void toy_open(struct toy *toy, const struct toy_options *opt);
/* Over an existing image of the same options (copied); recovers if needed and then starts, unless @recover_only. */
void toy_open_image(struct toy *toy, const struct toy_options *opt, const uint8_t *image, bool recover_only,
		    struct journal_recovery_info *info_out);
/* journal_close() and the rest; returns what journal_close() did. */
int toy_close(struct toy *toy);
/* Gives up without closing the journal in an orderly way, as after a crash. The journal is aborted. */
void toy_kill(struct toy *toy);

fsblk_t toy_home(const struct toy *toy, uint32_t n); /* device block of home block @n */
fsblk_t toy_log_blk(const struct toy *toy, uint32_t index); /* of log block @index */
uint64_t toy_count(const struct toy *toy, enum counter_id id);

/* Every eight bytes of a block hold its number and version, so that a mixture shows. */
void toy_fill(const struct toy *toy, uint8_t *data, uint32_t n, uint64_t version);
/* The version that fills block @n in @image; UINT64_MAX: a mixture. Never written: 0. */
uint64_t toy_version_in(const struct toy *toy, const uint8_t *image, uint32_t n);

/* Changes home block @n in @h to @version. */
int toy_write(struct toy *toy, struct handle *h, uint32_t n, uint64_t version);
/* The same as a freshly allocated block. */
int toy_create(struct toy *toy, struct handle *h, uint32_t n, uint64_t version);
/* Frees home block @n in @h: forget and revoke. */
int toy_free(struct toy *toy, struct handle *h, uint32_t n);
/* One handle that writes one block; returns its tid. */
tid_t toy_write_one(struct toy *toy, uint32_t n, uint64_t version);

/* Image after a power cut before record entry @cut; free() it. */
uint8_t *toy_cut(struct toy *toy, size_t cut, enum record_cut_kind kind, uint64_t seed);

#endif
