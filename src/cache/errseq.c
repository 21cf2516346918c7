/* SPDX-License-Identifier: MIT */
/*
 * errseq.c - a write error, told once to everyone concerned
 *
 * One word per mapping: the last error, a sequence number that each error moves on, and whether anybody has been
 * told. A user remembers the word when he opens the file; it differs when he asks exactly if an error came in between
 * (or half a million). An error that nobody has seen yet is told to the next one who opens, too: else it would be lost
 * when the writer had closed the file.
 */
#include "cache/mapping_private.h"

#define ERRSEQ_ERRNO_MASK 0xfffu
#define ERRSEQ_SEEN       0x1000u
#define ERRSEQ_STEP       0x2000u

void mapping_record_error(struct mapping *m, int err)
{
	uint32_t old = atomic_load(&m->wb_err), new;

	if (!err)
		return;
	UEXT4_ASSERT(err < 0 && -err <= (int)ERRSEQ_ERRNO_MASK);
	do {
		new = ((old & ~(ERRSEQ_ERRNO_MASK | ERRSEQ_SEEN)) + ERRSEQ_STEP) | (uint32_t)-err;
	} while (!atomic_compare_exchange_weak(&m->wb_err, &old, new));
}

uint32_t mapping_sample_error(const struct mapping *m)
{
	uint32_t now = atomic_load(&m->wb_err);

	return now & ERRSEQ_SEEN ? now : 0;
}

int mapping_check_error(struct mapping *m, uint32_t *since)
{
	uint32_t now = atomic_load(&m->wb_err);

	if (now == *since)
		return 0;
	/* Fails only against a newer error or another who has seen it: what is told stays true. */
	if (!(now & ERRSEQ_SEEN)) {
		if (atomic_compare_exchange_strong(&m->wb_err, &now, now | ERRSEQ_SEEN) || (now & ERRSEQ_SEEN))
			now |= ERRSEQ_SEEN;
	}
	if (now == *since)
		return 0;
	*since = now;
	return -(int)(now & ERRSEQ_ERRNO_MASK);
}

uint32_t mapping_error_mark(const struct mapping *m)
{
	return atomic_load(&m->wb_err) & ~ERRSEQ_SEEN;
}

int mapping_error_since(const struct mapping *m, uint32_t mark)
{
	uint32_t now = atomic_load(&m->wb_err) & ~ERRSEQ_SEEN;

	return now == mark ? 0 : -(int)(now & ERRSEQ_ERRNO_MASK);
}
