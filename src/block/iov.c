/* SPDX-License-Identifier: MIT */
/* iov.c - a position in an array of iovecs, and copying from and to there */
#include "block/iov.h"

#include <string.h>

struct iov_cursor iov_cursor_make(const struct iovec *iov, size_t count, uint64_t skip_bytes)
{
	struct iov_cursor cur = { .iov = iov, .count = count };

	iov_cursor_advance(&cur, skip_bytes);
	return cur;
}

void iov_cursor_advance(struct iov_cursor *cur, uint64_t len_bytes)
{
	while (cur->count) {
		size_t left = cur->iov->iov_len - cur->skip_bytes;

		if (len_bytes < left) {
			cur->skip_bytes += len_bytes;
			return;
		}
		len_bytes -= left;
		cur->iov++;
		cur->count--;
		cur->skip_bytes = 0;
	}
}

/* The rest of the current iovec, at most @max_bytes, and the cursor moved past it. */
static struct iovec iov_take(struct iov_cursor *cur, size_t max_bytes)
{
	struct iovec piece = {
		.iov_base = (char *)cur->iov->iov_base + cur->skip_bytes,
		.iov_len = min_of(cur->iov->iov_len - cur->skip_bytes, max_bytes),
	};

	iov_cursor_advance(cur, piece.iov_len);
	return piece;
}

size_t iov_copy_to(struct iov_cursor *cur, const void *src, size_t len_bytes)
{
	size_t done = 0;

	while (done < len_bytes && cur->count) {
		struct iovec piece = iov_take(cur, len_bytes - done);

		memcpy(piece.iov_base, (const char *)src + done, piece.iov_len);
		done += piece.iov_len;
	}
	return done;
}

size_t iov_copy_from(struct iov_cursor *cur, void *dst, size_t len_bytes)
{
	size_t done = 0;

	while (done < len_bytes && cur->count) {
		struct iovec piece = iov_take(cur, len_bytes - done);

		memcpy((char *)dst + done, piece.iov_base, piece.iov_len);
		done += piece.iov_len;
	}
	return done;
}

size_t iov_fill_zero(struct iov_cursor *cur, size_t len_bytes)
{
	size_t done = 0;

	while (done < len_bytes && cur->count) {
		struct iovec piece = iov_take(cur, len_bytes - done);

		memset(piece.iov_base, 0, piece.iov_len);
		done += piece.iov_len;
	}
	return done;
}

uint64_t iov_total_bytes(const struct iovec *iov, size_t count)
{
	uint64_t total = 0;

	for (size_t i = 0; i < count; i++)
		total += iov[i].iov_len;
	return total;
}
