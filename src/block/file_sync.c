/* SPDX-License-Identifier: MIT */
/* file_sync.c - I/O on the calling thread: continued when short, repeated when interrupted */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "block/file_private.h"
#include "block/iov.h"

#define ZERO_PIECE_BYTES (1u << 20)

/* Only from descriptors that somebody else has made non-blocking; sleep rather than burn the processor. */
#define AGAIN_SLEEP_US 200

static ssize_t rw_once(int fd, enum bio_op op, const struct iovec *iov, int iov_count, uint64_t pos_bytes, int rwf_flags)
{
	if (op == BIO_READ)
		return preadv(fd, iov, iov_count, (off_t)pos_bytes);
	if (rwf_flags)
		return pwritev2(fd, iov, iov_count, (off_t)pos_bytes, rwf_flags);
	return pwritev(fd, iov, iov_count, (off_t)pos_bytes);
}

/*
 * One call as long as the system takes it: the rest of a started iovec goes alone, so that the submitter's array
 * can be passed as it is otherwise. Returns the bytes moved.
 */
static ssize_t rw_some(struct file_device *file, enum bio_op op, const struct iov_cursor *cur, uint64_t pos_bytes,
		       uint64_t max_bytes, int rwf_flags)
{
	struct iovec rest;

	if (cur->skip_bytes || cur->iov->iov_len > max_bytes) {
		rest.iov_base = (char *)cur->iov->iov_base + cur->skip_bytes;
		rest.iov_len = min_of(cur->iov->iov_len - cur->skip_bytes, max_bytes);
		return rw_once(file->fd, op, &rest, 1, pos_bytes, rwf_flags);
	}
	return rw_once(file->fd, op, cur->iov, (int)min_of(cur->count, (size_t)IOV_MAX), pos_bytes, rwf_flags);
}

int file_rw_full(struct file_device *file, enum bio_op op, uint64_t pos_bytes, const struct iovec *iov, size_t iov_count,
		 uint64_t skip_bytes, uint64_t len_bytes, int rwf_flags)
{
	struct iov_cursor cur = iov_cursor_make(iov, iov_count, skip_bytes);
	ssize_t moved;

	while (len_bytes) {
		moved = rw_some(file, op, &cur, pos_bytes, len_bytes, rwf_flags);
		if (moved > 0) {
			iov_cursor_advance(&cur, (uint64_t)moved);
			pos_bytes += (uint64_t)moved;
			len_bytes -= (uint64_t)moved;
		} else if (!moved) {
			return -EIO; /* the file ends before its size at opening: somebody truncated it */
		} else if (errno == EAGAIN) {
			usleep(AGAIN_SLEEP_US);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

int file_datasync(struct file_device *file)
{
	while (fdatasync(file->fd)) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int file_rw_any(struct file_device *file, struct bio *bio, uint64_t done_bytes, int rwf_flags)
{
	uint64_t pos_bytes = bio->pos_bytes + done_bytes;
	uint64_t len_bytes = bio->len_bytes - done_bytes;
	int err = -EINVAL;

	if (!file->direct || file_bio_is_aligned(file, bio))
		err = file_rw_full(file, bio->op, pos_bytes, bio->iov, bio->iov_count, done_bytes, len_bytes, rwf_flags);
	/* Also where the kernel asks for more than it said, or a short transfer has left an odd position. */
	if (err == -EINVAL && file->direct)
		err = file_rw_bounced(file, bio->op, pos_bytes, bio->iov, bio->iov_count, done_bytes, len_bytes,
				      rwf_flags);
	return err;
}

static int file_rw(struct file_device *file, struct bio *bio, uint64_t done_bytes)
{
	int err;

	if (!(bio->flags & BIO_FUA))
		return file_rw_any(file, bio, done_bytes, 0);
	err = file_rw_any(file, bio, done_bytes, RWF_DSYNC);
	if (err != -EOPNOTSUPP)
		return err;
	err = file_rw_any(file, bio, done_bytes, 0); /* a kernel or file system that does not know RWF_DSYNC */
	return err ? err : file_datasync(file);
}

static int file_punch(struct file_device *file, int mode, uint64_t pos_bytes, uint64_t len_bytes)
{
	while (fallocate(file->fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)pos_bytes, (off_t)len_bytes)) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int device_range_ioctl(struct file_device *file, unsigned long request, uint64_t pos_bytes, uint64_t len_bytes)
{
	uint64_t range[2] = { pos_bytes, len_bytes };

	if (!ioctl(file->fd, request, range))
		return 0;
	return errno == ENOTTY ? -EOPNOTSUPP : -errno;
}

static int file_discard(struct file_device *file, struct bio *bio)
{
	if (file->is_block_device)
		return device_range_ioctl(file, BLKDISCARD, bio->pos_bytes, bio->len_bytes);
	return file_punch(file, FALLOC_FL_PUNCH_HOLE, bio->pos_bytes, bio->len_bytes);
}

static int file_write_zeroes_by_hand(struct file_device *file, uint64_t pos_bytes, uint64_t len_bytes)
{
	void *zeros;
	int err = 0;

	if (posix_memalign(&zeros, 4096, ZERO_PIECE_BYTES))
		return -ENOMEM;
	memset(zeros, 0, ZERO_PIECE_BYTES);
	while (len_bytes && !err) {
		struct iovec iov = { .iov_base = zeros, .iov_len = min_of(len_bytes, (uint64_t)ZERO_PIECE_BYTES) };
		struct bio piece = { .dev = &file->dev, .op = BIO_WRITE, .pos_bytes = pos_bytes,
				     .len_bytes = iov.iov_len, .iov = &iov, .iov_count = 1 };

		err = file_rw_any(file, &piece, 0, 0);
		pos_bytes += iov.iov_len;
		len_bytes -= iov.iov_len;
	}
	free(zeros);
	return err;
}

static int file_write_zeroes(struct file_device *file, struct bio *bio)
{
	int err;

	if (file->is_block_device) {
		err = device_range_ioctl(file, BLKZEROOUT, bio->pos_bytes, bio->len_bytes);
	} else {
		err = file_punch(file, FALLOC_FL_ZERO_RANGE, bio->pos_bytes, bio->len_bytes);
		if (err == -EOPNOTSUPP)
			err = file_punch(file, FALLOC_FL_PUNCH_HOLE, bio->pos_bytes, bio->len_bytes);
	}
	/* -EINVAL: a device whose sectors are larger than the range's alignment. */
	if (err == -EOPNOTSUPP || err == -EINVAL)
		err = file_write_zeroes_by_hand(file, bio->pos_bytes, bio->len_bytes);
	if (!err && (bio->flags & BIO_FUA))
		err = file_datasync(file);
	return err;
}

int file_run(struct file_device *file, struct bio *bio, uint64_t done_bytes)
{
	int err;

	if (!done_bytes && (bio->flags & BIO_PREFLUSH) && bio->op != BIO_FLUSH) {
		err = file_datasync(file);
		if (err)
			return err;
	}
	switch (bio->op) {
	case BIO_READ:
	case BIO_WRITE:
		return file_rw(file, bio, done_bytes);
	case BIO_FLUSH:
		return file_datasync(file);
	case BIO_DISCARD:
		return file_discard(file, bio);
	case BIO_WRITE_ZEROES:
		return file_write_zeroes(file, bio);
	}
	return -EOPNOTSUPP;
}
