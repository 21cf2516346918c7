/* SPDX-License-Identifier: MIT */
/* file_bounce.c - requests that O_DIRECT would refuse, through aligned memory */
#include <errno.h>
#include <stdlib.h>

#include "block/file_private.h"
#include "block/iov.h"

/*
 * The page cache is never used beside O_DIRECT: two ways to the same bytes would not stay coherent. What is
 * not aligned in memory is copied. What is not aligned on the device (possible where its unit is larger
 * than 512 bytes) is read, changed and written back; rmw_lock keeps two such writes of one unit apart. A
 * write of whole units needs no lock: it would overlap any smaller write to the same unit, which the
 * submitter rules out.
 */
#define BOUNCE_BYTES (1u << 20)
#define BOUNCE_ALIGN 4096u

bool file_bio_is_aligned(const struct file_device *file, const struct bio *bio)
{
	uint64_t io_bits = bio->pos_bytes | bio->len_bytes;
	uint64_t mem_bits = 0;

	for (unsigned i = 0; i < bio->iov_count; i++) {
		mem_bits |= (uintptr_t)bio->iov[i].iov_base;
		io_bits |= bio->iov[i].iov_len;
	}
	return !(io_bits & (file->io_align_bytes - 1)) && !(mem_bits & (file->mem_align_bytes - 1));
}

struct bounce {
	struct file_device *file;
	char *buf;             /* BOUNCE_BYTES, aligned for any device */
	int rwf_flags;
	struct iov_cursor cur; /* the submitter's side */
};

/* A piece of the request and the whole units around it. */
struct bounce_span {
	uint64_t pos_bytes;
	uint64_t len_bytes;
	uint64_t unit_start;
	uint64_t unit_end;
};

static struct bounce_span bounce_span_make(const struct file_device *file, uint64_t pos_bytes, uint64_t len_bytes)
{
	uint64_t unit = file->io_align_bytes;
	uint64_t start = round_down_to(pos_bytes, unit);
	uint64_t len = min_of(len_bytes, BOUNCE_BYTES - (pos_bytes - start));

	return (struct bounce_span){ pos_bytes, len, start, round_up_to(pos_bytes + len, unit) };
}

static int bounce_move(struct bounce *b, enum bio_op op, const struct bounce_span *span)
{
	uint64_t len = span->unit_end - span->unit_start;
	struct iovec iov = { .iov_base = b->buf, .iov_len = len };

	return file_rw_full(b->file, op, span->unit_start, &iov, 1, 0, len, op == BIO_WRITE ? b->rwf_flags : 0);
}

static int bounce_read(struct bounce *b, const struct bounce_span *span)
{
	int err = bounce_move(b, BIO_READ, span);

	if (!err)
		iov_copy_to(&b->cur, b->buf + (span->pos_bytes - span->unit_start), span->len_bytes);
	return err;
}

static int bounce_write(struct bounce *b, const struct bounce_span *span)
{
	bool whole = span->pos_bytes == span->unit_start && span->pos_bytes + span->len_bytes == span->unit_end;
	int err = 0;

	if (!whole) {
		mutex_lock(&b->file->rmw_lock);
		err = bounce_move(b, BIO_READ, span);
	}
	if (!err) {
		iov_copy_from(&b->cur, b->buf + (span->pos_bytes - span->unit_start), span->len_bytes);
		err = bounce_move(b, BIO_WRITE, span);
	}
	if (!whole)
		mutex_unlock(&b->file->rmw_lock);
	return err;
}

int file_rw_bounced(struct file_device *file, enum bio_op op, uint64_t pos_bytes, const struct iovec *iov,
		    size_t iov_count, uint64_t skip_bytes, uint64_t len_bytes, int rwf_flags)
{
	struct bounce b = { .file = file, .rwf_flags = rwf_flags, .cur = iov_cursor_make(iov, iov_count, skip_bytes) };
	uint64_t buf_bytes = min_of(round_up_to(len_bytes, (uint64_t)BOUNCE_ALIGN) + 2 * (uint64_t)file->io_align_bytes,
				    (uint64_t)BOUNCE_BYTES);
	uint32_t device_align = max_of(file->mem_align_bytes, file->io_align_bytes);
	int err = 0;

	if (posix_memalign((void **)&b.buf, max_of(device_align, BOUNCE_ALIGN), buf_bytes))
		return -ENOMEM;
	while (len_bytes && !err) {
		struct bounce_span span = bounce_span_make(file, pos_bytes, len_bytes);

		err = op == BIO_READ ? bounce_read(&b, &span) : bounce_write(&b, &span);
		pos_bytes += span.len_bytes;
		len_bytes -= span.len_bytes;
	}
	free(b.buf);
	return err;
}
