/* SPDX-License-Identifier: MIT */
/* file_ring.c - asynchronous I/O of a file device through io_uring */
#include <errno.h>
#include <liburing.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"
#include "block/file_private.h"

/*
 * Submitters put requests on `pending` and move as many as fit into the ring, under `lock`; one thread takes the
 * completions. The ring does only what it can do in one step: a request that comes back short, cancelled or
 * refused goes to a worker, which finishes it with plain system calls. (The kernel cancels requests that
 * have not started when the thread that submitted them exits, and callers' threads may exit at any time.)
 *
 * R1  At most RING_IN_FLIGHT requests are in the kernel, so that the completion ring cannot overflow.
 * R2  When `starved` is set, requests wait although nobody will submit: the completion thread pumps. Set
 *     before in_flight is looked at again; the completion thread lowers in_flight before it looks at starved.
 *
 * A write with BIO_PREFLUSH goes in as a sync first, marked in the low bit of user_data, and joins `pending` again.
 */
#define RING_ENTRIES   128
#define RING_IN_FLIGHT 1024
#define RING_REAP      64
#define RING_MAX_BYTES (1u << 30) /* more does not fit the result of a completion */
#define PLUG_MAX       64         /* longer queues wait for no unplug */
#define RETRY_SLEEP_US 100        /* the kernel has no memory for the first request of an idle ring */

#define USER_DATA_PREFLUSH 1u

struct file_ring {
	struct file_device *file;    /* [const] */
	struct mutex lock;
	struct io_uring uring;       /* submission side: [lock]; completion side: the completion thread */
	struct list_head pending;    /* [lock] bios that are not in the ring yet, oldest first */
	unsigned unsubmitted;        /* [lock] prepared entries that the kernel has not taken */
	atomic_uint in_flight;       /* [atomic] prepared and not completed */
	atomic_bool starved;         /* [atomic] R2 */
	pthread_t thread;            /* [const] */
};

static __thread struct {
	struct file_ring *ring;
	unsigned depth;
	unsigned count;
	struct list_head bios;
} plug;

static void ring_prepare(struct file_ring *ring, struct io_uring_sqe *sqe, struct bio *bio)
{
	int fd = ring->file->fd;
	uint64_t tag = 0;

	if (bio->op == BIO_FLUSH || (bio->flags & BIO_PREFLUSH && !bio->dev_work.func)) {
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
		tag = bio->op == BIO_FLUSH ? 0 : USER_DATA_PREFLUSH;
	} else if (bio->op == BIO_READ) {
		io_uring_prep_readv(sqe, fd, bio->iov, bio->iov_count, bio->pos_bytes);
	} else {
		io_uring_prep_writev(sqe, fd, bio->iov, bio->iov_count, bio->pos_bytes);
		if (bio->flags & BIO_FUA)
			sqe->rw_flags = RWF_DSYNC;
	}
	io_uring_sqe_set_data64(sqe, (uintptr_t)bio | tag);
}
