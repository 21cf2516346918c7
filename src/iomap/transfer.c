/* SPDX-License-Identifier: MIT */
/* transfer.c - between the caller's memory and the device, without folios: all pieces at once */
#include "base/lock.h"
#include "iomap/iomap_private.h"

#define TRANSFER_BUSY    1u
#define TRANSFER_WAITERS 2u

struct transfer {
	_Atomic unsigned pending; /* bios in flight, and one while they are submitted */
	_Atomic uint32_t state;
	_Atomic int err;          /* first */
};

static void transfer_put(struct transfer *t)
{
	if (atomic_fetch_sub(&t->pending, 1) == 1)
		word_bit_unlock(&t->state, TRANSFER_BUSY, TRANSFER_WAITERS);
}

static void piece_done(struct bio *bio, int err)
{
	struct transfer *t = bio->private_data;
	int none = 0;

	if (err)
		atomic_compare_exchange_strong(&t->err, &none, err);
	transfer_put(t);
}

int iomap_transfer(struct block_device *dev, enum bio_op op, const struct iomap_piece *pieces, unsigned count)
{
	struct transfer t = { .pending = 1, .state = TRANSFER_BUSY };
	struct iovec iov[IOMAP_PIECES_MAX];
	struct bio bios[IOMAP_PIECES_MAX];

	UEXT4_ASSERT(count <= IOMAP_PIECES_MAX);
	for (unsigned i = 0; i < count; i++)
		iov[i] = (struct iovec){ pieces[i].buf, pieces[i].len_bytes };
	if (count == 1) /* on this thread: nobody has to be woken */
		return block_rwv(dev, op, pieces[0].addr_bytes, iov, 1, 0);
	block_plug(dev);
	for (unsigned i = 0; i < count; i++) {
		bios[i] = (struct bio){
			.dev = dev, .op = op, .pos_bytes = pieces[i].addr_bytes, .len_bytes = pieces[i].len_bytes,
			.iov = &iov[i], .iov_count = 1, .end_io = piece_done, .private_data = &t,
		};
		atomic_fetch_add(&t.pending, 1);
		block_submit(&bios[i]);
	}
	block_unplug(dev);
	transfer_put(&t);
	word_bit_wait_clear(&t.state, TRANSFER_BUSY, TRANSFER_WAITERS);
	return atomic_load(&t.err);
}
