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

/* bio->dev_state */
enum ring_bio_state { RING_BIO_FRESH, RING_BIO_PREFLUSHED };

static bool needs_preflush(const struct bio *bio)
{
	return (bio->flags & BIO_PREFLUSH) && bio->dev_state == RING_BIO_FRESH;
}

static void ring_prepare(struct file_ring *ring, struct io_uring_sqe *sqe, struct bio *bio)
{
	int fd = ring->file->fd;
	uint64_t tag = 0;

	if (bio->op == BIO_FLUSH) {
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	} else if (needs_preflush(bio)) {
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
		tag = USER_DATA_PREFLUSH;
	} else if (bio->op == BIO_READ) {
		io_uring_prep_readv(sqe, fd, bio->iov, bio->iov_count, bio->pos_bytes);
	} else {
		io_uring_prep_writev(sqe, fd, bio->iov, bio->iov_count, bio->pos_bytes);
		if (bio->flags & BIO_FUA)
			sqe->rw_flags = RWF_DSYNC;
	}
	io_uring_sqe_set_data64(sqe, (uintptr_t)bio | tag);
}

/* Gives the kernel what is prepared. What it does not take stays in the ring and goes with the next call. */
static void ring_enter(struct file_ring *ring)
{
	while (io_uring_sq_ready(&ring->uring)) {
		int taken = io_uring_submit(&ring->uring);

		if (taken <= 0 && taken != -EINTR)
			return;
	}
}

static void ring_fill(struct file_ring *ring)
{
	struct io_uring_sqe *sqe;
	struct bio *bio;

	while (!list_empty(&ring->pending) && atomic_load(&ring->in_flight) < RING_IN_FLIGHT) {
		sqe = io_uring_get_sqe(&ring->uring);
		if (!sqe) {
			ring_enter(ring);
			sqe = io_uring_get_sqe(&ring->uring);
			if (!sqe)
				return;
		}
		bio = list_first(&ring->pending, struct bio, node);
		list_del(&bio->node);
		ring_prepare(ring, sqe, bio);
		atomic_fetch_add(&ring->in_flight, 1);
	}
}

/* Moves as much as possible into the kernel; what remains is certain to be pumped again (R2). */
static void ring_pump(struct file_ring *ring)
{
	unsigned in_flight, prepared;

	lock_assert_held(&ring->lock);
	for (;;) {
		atomic_store(&ring->starved, false);
		ring_fill(ring);
		ring_enter(ring);
		prepared = io_uring_sq_ready(&ring->uring);
		if (list_empty(&ring->pending) && !prepared)
			return;
		atomic_store(&ring->starved, true);
		in_flight = atomic_load(&ring->in_flight);
		if (in_flight == prepared)
			usleep(RETRY_SLEEP_US);
		else if (prepared || in_flight == RING_IN_FLIGHT)
			return;
	}
}

static void ring_add(struct file_ring *ring, struct list_head *bios)
{
	mutex_lock(&ring->lock);
	list_splice_tail(bios, &ring->pending);
	ring_pump(ring);
	mutex_unlock(&ring->lock);
}

bool file_ring_takes(const struct file_device *file, const struct bio *bio)
{
	if (bio->op == BIO_FLUSH)
		return true;
	if (bio->op != BIO_READ && bio->op != BIO_WRITE)
		return false;
	if (!bio->len_bytes || bio->len_bytes > RING_MAX_BYTES || bio->iov_count > IOV_MAX)
		return false;
	return !file->direct || file_bio_is_aligned(file, bio);
}

static void plug_flush(void)
{
	if (!plug.count)
		return;
	plug.count = 0;
	ring_add(plug.ring, &plug.bios);
}

void file_ring_submit(struct file_ring *ring, struct bio *bio)
{
	struct list_head one;

	bio->dev_state = RING_BIO_FRESH;
	if (plug.ring == ring) {
		list_add_tail(&bio->node, &plug.bios);
		if (++plug.count == PLUG_MAX)
			plug_flush();
		return;
	}
	list_init(&one);
	list_add(&bio->node, &one);
	ring_add(ring, &one);
}

/* A thread plugs one ring at a time; requests to another one go out at once. */
void file_ring_plug(struct file_ring *ring)
{
	if (!plug.ring) {
		plug.ring = ring;
		list_init(&plug.bios);
	}
	if (plug.ring == ring)
		plug.depth++;
}

void file_ring_unplug(struct file_ring *ring)
{
	if (plug.ring != ring || --plug.depth)
		return;
	plug_flush();
	plug.ring = NULL;
}

/* Results that a plain system call on a worker answers better: try there, and let it have the last word. */
static bool result_is_provisional(int res)
{
	return res == -EAGAIN || res == -EINTR || res == -ECANCELED || res == -EINVAL || res == -EOPNOTSUPP;
}

static void ring_complete(struct file_ring *ring, uint64_t user_data, int res)
{
	struct bio *bio = (struct bio *)(uintptr_t)(user_data & ~(uint64_t)USER_DATA_PREFLUSH);
	uint64_t expected = bio->op == BIO_FLUSH ? 0 : bio->len_bytes;

	if ((user_data & USER_DATA_PREFLUSH) && !res) {
		struct list_head one;

		bio->dev_state = RING_BIO_PREFLUSHED;
		list_init(&one);
		list_add(&bio->node, &one);
		ring_add(ring, &one);
	} else if (result_is_provisional(res) || (res >= 0 && (uint64_t)res < expected)) {
		bio->dev_done_bytes = res > 0 ? (uint64_t)res : 0;
		file_submit_to_worker(ring->file, bio);
	} else {
		bio->end_io(bio, res < 0 ? res : 0);
	}
}

struct completion {
	uint64_t user_data;
	int res;
};

/* Waits for one at least. Copied out, so that the ring's slots are free before any end_io runs. */
static unsigned ring_reap(struct file_ring *ring, struct completion done[RING_REAP])
{
	struct io_uring_cqe *cqes[RING_REAP];
	struct io_uring_cqe *first;
	unsigned count;

	while (io_uring_wait_cqe(&ring->uring, &first))
		; /* only signals, which are blocked here, and ptrace interrupt it */
	count = io_uring_peek_batch_cqe(&ring->uring, cqes, RING_REAP);
	for (unsigned i = 0; i < count; i++)
		done[i] = (struct completion){ io_uring_cqe_get_data64(cqes[i]), cqes[i]->res };
	io_uring_cq_advance(&ring->uring, count);
	atomic_fetch_sub(&ring->in_flight, count);
	return count;
}

static void *ring_thread(void *arg)
{
	struct file_ring *ring = arg;
	struct completion done[RING_REAP];
	bool stopping = false;

	while (!stopping) {
		unsigned count = ring_reap(ring, done);

		if (atomic_load(&ring->starved)) {
			mutex_lock(&ring->lock);
			ring_pump(ring);
			mutex_unlock(&ring->lock);
		}
		for (unsigned i = 0; i < count; i++) {
			if (done[i].user_data)
				ring_complete(ring, done[i].user_data, done[i].res);
			else
				stopping = true;
		}
	}
	return NULL;
}

static int ring_setup(struct io_uring *uring)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE, .cq_entries = RING_IN_FLIGHT };
	int err = io_uring_queue_init_params(RING_ENTRIES, uring, &params);

	if (err)
		return err;
	if (!(params.features & IORING_FEAT_NODROP)) { /* before 5.5 completions could be lost */
		io_uring_queue_exit(uring);
		return -EOPNOTSUPP;
	}
	return 0;
}

int file_ring_start(struct file_device *file, struct file_ring **ring_out)
{
	struct file_ring *ring = calloc(1, sizeof(*ring));
	int err;

	if (!ring)
		return -ENOMEM;
	err = ring_setup(&ring->uring);
	if (err)
		goto free_ring;
	ring->file = file;
	mutex_init(&ring->lock, RANK_DEVICE);
	list_init(&ring->pending);
	err = thread_start("uext4-ring", ring_thread, ring, &ring->thread);
	if (err)
		goto exit_uring;
	*ring_out = ring;
	return 0;
exit_uring:
	mutex_exit(&ring->lock);
	io_uring_queue_exit(&ring->uring);
free_ring:
	free(ring);
	return err;
}

/* A request without a bio tells the completion thread to end. */
static void ring_send_stop(struct file_ring *ring)
{
	struct io_uring_sqe *sqe;

	mutex_lock(&ring->lock);
	sqe = io_uring_get_sqe(&ring->uring);
	UEXT4_ASSERT(sqe); /* nothing is in flight */
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data64(sqe, 0);
	atomic_fetch_add(&ring->in_flight, 1);
	ring_pump(ring);
	mutex_unlock(&ring->lock);
}

void file_ring_stop(struct file_ring *ring)
{
	if (!ring)
		return;
	ring_send_stop(ring);
	pthread_join(ring->thread, NULL);
	io_uring_queue_exit(&ring->uring);
	mutex_exit(&ring->lock);
	free(ring);
}
