/* SPDX-License-Identifier: MIT */
/* record.h - a device that remembers every write, and rebuilds what a power cut may have left */
#ifndef UEXT4_BLOCK_RECORD_H
#define UEXT4_BLOCK_RECORD_H

#include "block/block.h"

/* What happened to the device, in the order of submission. */
struct record_entry {
	bool is_mark;           /* [const] inserted by record_mark(); no I/O */
	enum bio_op op;         /* [const] write, flush, discard or write-zeroes; reads are not recorded */
	unsigned flags;         /* [const] BIO_* */
	uint64_t pos_bytes;     /* [const] */
	uint64_t len_bytes;     /* [const] */
	const char *mark;       /* [const] text of a mark */
	uint64_t mark_value;    /* [const] */
	uint64_t submitted;     /* [const] sequence number of the event; submissions, completions and marks count */
	uint64_t completed;     /* of the completion, 0 while in flight */
	int err;                /* as completed */
	unsigned char bytes[];  /* [const] what a write carried */
};

/* Wraps @lower, owned by the wrapper from then on. Reads go through; the log lives in memory until close. */
int block_open_record(struct block_device *lower, struct block_device **dev_out);

/* Adds a mark, "fsync 12 returned" for example: what completed before it is known to be complete. */
int record_mark(struct block_device *dev, const char *text, uint64_t value);

/*
 * Entries stay where they are until the device is closed or record_reset() drops them. The pointer may be
 * used while I/O goes on; `completed` and `err` may change meanwhile.
 */
size_t record_count(struct block_device *dev);
const struct record_entry *record_get(struct block_device *dev, size_t index);
void record_reset(struct block_device *dev); /* no I/O in flight */

/**
 * record_is_durable() - must the entry survive a power cut just before entry @cut was submitted?
 * @index: of a write, discard or write-zeroes
 * @cut:   number of entries that had been submitted; record_count() for the end of the log
 *
 * It must if it had completed with FUA by then, or if a flush (or a write with BIO_PREFLUSH) that was submitted
 * after its completion had completed by then.
 */
bool record_is_durable(struct block_device *dev, size_t index, size_t cut);

/* What becomes of writes that a power cut may lose. The durable ones are always there. */
enum record_cut_kind {
	RECORD_CUT_KEEPS_ALL,        /* every write submitted so far has arrived */
	RECORD_CUT_DROPS_UNFLUSHED,  /* none of them */
	RECORD_CUT_RANDOM,           /* each arrives, is lost, or is torn between 512-byte sectors, by @seed */
};

/**
 * record_build_image() - what a power cut may have left
 * @cut:         as for record_is_durable()
 * @image:       dev->size_bytes, holding what the device held when recording started; changed in place
 *
 * Losing a later write while an earlier one of the same block survives is the reordering that caches do. A write with
 * BIO_PREFLUSH in flight that arrives, even torn, does so after everything that was complete when it was submitted.
 */
void record_build_image(struct block_device *dev, size_t cut, enum record_cut_kind kind, uint64_t seed, void *image);

#endif
