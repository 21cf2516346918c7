/* SPDX-License-Identifier: MIT */
/* file_private.h - the device over an image file or a block device, split over file*.c */
#ifndef UEXT4_BLOCK_FILE_PRIVATE_H
#define UEXT4_BLOCK_FILE_PRIVATE_H

#include "base/lock.h"
#include "block/block_private.h"

struct file_ring;
struct stat;

struct file_device {
	struct block_device dev;
	int fd;                     /* [const] */
	bool is_block_device;       /* [const] */
	bool in_memory;             /* [const] tmpfs or ramfs: I/O is a copy, no thread is worth its wake-up */
	bool direct;                /* [const] the descriptor has O_DIRECT; the two alignments hold */
	uint32_t mem_align_bytes;   /* [const] of buffers; a power of two */
	uint32_t io_align_bytes;    /* [const] of positions and lengths; a power of two */
	struct mutex rmw_lock;      /* serialises writes of less than an io_align unit; see file_bounce.c */
	struct file_ring *ring;     /* [const] NULL where io_uring is refused */
	struct workqueue *workers;  /* [const] what the ring cannot do, or everything; NULL if in_memory */
};

static inline struct file_device *file_of(struct block_device *dev)
{
	return container_of(dev, struct file_device, dev);
}

/*
 * file_claim.c: makes us the only writer of @fd, or one of its readers if @shared, until it is closed. -EBUSY: another has
 * it; @holder gets his name if it is known.
 */
int file_claim(int fd, const struct stat *st, bool shared, char *holder, size_t holder_bytes);

/* file_geometry.c: turns O_DIRECT on if the file takes it and a read proves it, and notes the alignments. */
void file_enable_direct(struct file_device *file);

/* file_sync.c: does all of @bio from byte @done_bytes on, on this thread. */
int file_run(struct file_device *file, struct bio *bio, uint64_t done_bytes);

/* One position of a file and a buffer that the descriptor takes as they are; all of it or an error. */
int file_rw_full(struct file_device *file, enum bio_op op, uint64_t pos_bytes, const struct iovec *iov, size_t iov_count,
		 uint64_t skip_bytes, uint64_t len_bytes, int rwf_flags);
int file_datasync(struct file_device *file);

/* file_splice.c: the device's splice */
ssize_t file_splice(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes, int pipe_fd);

/* file_bounce.c */
bool file_bio_is_aligned(const struct file_device *file, const struct bio *bio);
/* The same through aligned memory, for whatever O_DIRECT refuses. */
int file_rw_bounced(struct file_device *file, enum bio_op op, uint64_t pos_bytes, const struct iovec *iov,
		    size_t iov_count, uint64_t skip_bytes, uint64_t len_bytes, int rwf_flags);

/* file_ring.c */
int file_ring_start(struct file_device *file, struct file_ring **ring_out);
void file_ring_stop(struct file_ring *ring); /* nothing is in flight */
bool file_ring_takes(const struct file_device *file, const struct bio *bio);
void file_ring_submit(struct file_ring *ring, struct bio *bio);
void file_ring_plug(struct file_ring *ring);
void file_ring_unplug(struct file_ring *ring);

/* file.c: to a worker, which goes on from bio->dev_done_bytes. */
void file_submit_to_worker(struct file_device *file, struct bio *bio);

#endif
