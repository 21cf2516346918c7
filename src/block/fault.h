/* SPDX-License-Identifier: MIT */
/* fault.h - a device that fails, cuts short, tears, loses or delays chosen requests */
#ifndef UEXT4_BLOCK_FAULT_H
#define UEXT4_BLOCK_FAULT_H

#include "block/block.h"

enum fault_action {
	FAULT_FAIL,  /* nothing is done */
	FAULT_SHORT, /* the first half, in 512-byte sectors, is done */
	FAULT_TEAR,  /* of a write: a random choice of its 512-byte sectors is written; else as FAULT_SHORT */
	FAULT_DELAY, /* done in full, @delay_ns later */
};

#define FAULT_OP(op) (1u << (op))
#define FAULT_ANY_OP (~0u)

/*
 * A request matches by its operation and range; of those that match, the rule hits the @nth (from 1) and the
 * @count - 1 that follow, or, with @nth 0, each with @chance_ppm in a million.
 */
struct fault_rule {
	unsigned ops;             /* FAULT_OP(BIO_READ) | ... */
	uint64_t start_bytes;     /* requests that touch [start, start + len); len 0: all, flushes too */
	uint64_t len_bytes;
	uint64_t nth;
	uint64_t count;           /* 0: for ever */
	uint32_t chance_ppm;
	enum fault_action action;
	int err;                  /* reported; 0 for a device that lies about what it did */
	uint64_t delay_ns;        /* before anything is done; with every action */
};

/* Wraps @lower, owned by the wrapper from then on. @seed decides everything that is left to chance. */
int block_open_fault(struct block_device *lower, uint64_t seed, struct block_device **dev_out);

/* Rules are asked in the order of their addition; the first that hits acts. Any time, also under I/O. */
int fault_add_rule(struct block_device *dev, const struct fault_rule *rule);
void fault_clear_rules(struct block_device *dev);

uint64_t fault_hits(struct block_device *dev);                      /* requests that a rule acted upon */
uint64_t fault_requests(struct block_device *dev, enum bio_op op);  /* requests of one kind so far */

#endif
