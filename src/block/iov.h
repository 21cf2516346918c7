/* SPDX-License-Identifier: MIT */
/* iov.h - a position in an array of iovecs, and copying from and to there */
#ifndef UEXT4_BLOCK_IOV_H
#define UEXT4_BLOCK_IOV_H

#include <sys/uio.h>

#include "base/types.h"

/* Points at the next byte; the array itself is never changed, it is the submitter's. */
struct iov_cursor {
	const struct iovec *iov;
	size_t count;      /* iovecs left, the current one included */
	size_t skip_bytes; /* of the current one */
};

/* @skip_bytes into the array; past its end the cursor is empty. */
struct iov_cursor iov_cursor_make(const struct iovec *iov, size_t count, uint64_t skip_bytes);
void iov_cursor_advance(struct iov_cursor *cur, uint64_t len_bytes);

/* Copies up to @len_bytes and advances. Return the bytes copied, fewer only at the end of the array. */
size_t iov_copy_to(struct iov_cursor *cur, const void *src, size_t len_bytes);   /* into the iovecs */
size_t iov_copy_from(struct iov_cursor *cur, void *dst, size_t len_bytes);       /* out of the iovecs */
size_t iov_fill_zero(struct iov_cursor *cur, size_t len_bytes);

uint64_t iov_total_bytes(const struct iovec *iov, size_t count);

#endif
