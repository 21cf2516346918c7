/* SPDX-License-Identifier: MIT */
/* block.h - block devices: asynchronous vectored I/O with a completion callback */
#ifndef UEXT4_BLOCK_BLOCK_H
#define UEXT4_BLOCK_BLOCK_H

#include <sys/uio.h>

#include "base/counters.h"
#include "base/list.h"
#include "base/log.h"
#include "base/types.h"
#include "base/workqueue.h"

struct block_device;

enum bio_op { BIO_READ, BIO_WRITE, BIO_FLUSH, BIO_DISCARD, BIO_WRITE_ZEROES };

#define BIO_FUA      0x1u /* write: durable when end_io runs */
#define BIO_PREFLUSH 0x2u /* write: everything completed before submission is durable first */

/*
 * One request. The submitter owns it and everything it points to until end_io runs; then it is the
 * submitter's again (end_io may free it). Positions and lengths are bytes, multiples of the device's
 * logical block size (512 at least).
 *
 * end_io runs exactly once, on any thread, possibly before block_submit() returns: it may set bits, wake
 * waiters, queue work and submit further bios; it may not wait for I/O or take a lock of a rank below
 * RANK_WORK.
 */
struct bio {
	struct block_device *dev;
	enum bio_op op;
	unsigned flags;           /* BIO_FUA | BIO_PREFLUSH */
	uint64_t pos_bytes;
	uint64_t len_bytes;       /* sum of iov for reads and writes; range for discard and zeroes; 0 for flush */
	struct iovec *iov;
	unsigned iov_count;       /* any number; the device splits what the system cannot take */
	void (*end_io)(struct bio *bio, int err); /* err: 0 or negative errno; reads past the end: -EIO */
	void *private_data;       /* the submitter's */
	struct list_head node;    /* the submitter's before submission, the device's after */
	union {                   /* the device's while submitted; stacked devices must not use it for theirs */
		void *dev_private[5];
		struct {
			struct work dev_work;
			uint64_t dev_done_bytes;
			uint64_t dev_state;
		};
	};
};

struct block_device_ops {
	const char *name;
	/* Takes the bio; must call end_io exactly once. */
	void (*submit)(struct block_device *dev, struct bio *bio);
	/* Optional: the same, synchronously on this thread (no hand-over to a completion thread). NULL: submit and wait. */
	int (*submit_sync)(struct block_device *dev, struct bio *bio);
	/* Optional, memory-mapped devices: pointer to device bytes, or -EOPNOTSUPP. */
	int (*direct_access)(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes, void **addr_out);
	/* Optional: see block_splice(). Any position and length. */
	ssize_t (*splice)(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes, int pipe_fd);
	/* Optional: called before a batch and after it, so that submissions may go out in one system call. */
	void (*plug)(struct block_device *dev);
	void (*unplug)(struct block_device *dev);
	/* All I/O has completed. Releases everything, dev itself too. Returns the last error that nobody saw. */
	int (*close)(struct block_device *dev);
};

/* Devices embed this as their first member. */
struct block_device {
	const struct block_device_ops *ops; /* [const] */
	uint64_t size_bytes;                /* [const] */
	uint32_t sector_bytes;              /* [const] logical block size; 512 where anything goes */
	bool read_only;                     /* [const] */
	bool volatile_cache;                /* [const] flush does something */
	struct counters *counters;          /* set by the owner before I/O starts; NULL: not counted */
};

/* Counts the request and hands it to the device. Checks range and read_only: -EIO past the end, -EROFS. */
void block_submit(struct bio *bio);

/*
 * Between the two, what this thread submits to @dev may be held back to go out in one system call. They nest. A
 * thread unplugs before it waits for anything that it has submitted. The synchronous forms need no plug and do
 * not look at it.
 */
void block_plug(struct block_device *dev);
void block_unplug(struct block_device *dev);

/* Synchronous forms. Block. Return 0 or a negative errno. */
int block_read(struct block_device *dev, uint64_t pos_bytes, void *buf, size_t len_bytes);
int block_write(struct block_device *dev, uint64_t pos_bytes, const void *buf, size_t len_bytes, unsigned flags);
int block_rwv(struct block_device *dev, enum bio_op op, uint64_t pos_bytes, struct iovec *iov, unsigned iov_count, unsigned flags);
int block_flush(struct block_device *dev);
int block_discard(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes);
int block_write_zeroes(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes);
int block_close(struct block_device *dev);

/**
 * block_splice() - bytes of the device into a pipe, by reference to the memory that holds them
 * @pos_bytes, @len_bytes: any; not only sectors
 * @pipe_fd:   the writing end; a pipe without room does not block
 *
 * What is written to the device before the pipe is read may or may not show.
 *
 * Return: bytes moved, > 0, possibly short; -EOPNOTSUPP (the device's bytes are in no memory that could be
 *         shared), -EAGAIN (no room), -EIO (past the end)
 */
ssize_t block_splice(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes, int pipe_fd);

#define BLOCK_OPEN_READ_ONLY 0x1u
#define BLOCK_OPEN_BUFFERED  0x2u /* never O_DIRECT */
#define BLOCK_OPEN_NO_URING  0x4u /* pread and pwrite only */
#define BLOCK_OPEN_NO_LOCK   0x8u /* do not take the exclusive lock (read-only inspection) */

/**
 * block_open_file() - open an image file or a block device
 * @path:      the file; a directory, fifo, socket or character device is refused
 * @flags:     BLOCK_OPEN_*
 * @log:       gets one clear line for whatever fails
 * @dev_out:   the device; block_close() it
 *
 * Exclusive use: flock(LOCK_EX, or LOCK_SH read-only) on a file, O_EXCL on a block device (so a mounted
 * one is refused). io_uring with O_DIRECT; falls back to pread/pwrite threads and to buffered I/O where
 * either is refused, silently.
 *
 * Return: 0; -EBUSY in use; -EISDIR, -ENOENT, -EACCES, -EROFS, -EINVAL (not a file or block device) ...
 */
int block_open_file(const char *path, unsigned flags, const struct log_sink *log, struct block_device **dev_out);

/* A device in memory of @size_bytes, zero-filled, or over @bytes that the caller keeps (not freed). DAX-capable. */
int block_open_memory(uint64_t size_bytes, void *bytes, struct block_device **dev_out);

/* A window [start, start + len) of @lower, owned by the window (closed with it). */
int block_open_window(struct block_device *lower, uint64_t start_bytes, uint64_t len_bytes, struct block_device **dev_out);

/* Finds partition @number (from 1) of the file or device @path with libblkid. -ENOENT: no such partition; -ENODATA: no table. */
int block_find_partition(const char *path, int number, uint64_t *start_out, uint64_t *len_out);

#endif
