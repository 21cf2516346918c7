/* SPDX-License-Identifier: MIT */
/* iomap.h - mapping-driven I/O: buffered reads and writes, readahead, writeback, seek, fiemap */
#ifndef UEXT4_IOMAP_IOMAP_H
#define UEXT4_IOMAP_IOMAP_H

#include <sys/uio.h>

#include "base/types.h"
#include "block/block.h"
#include "cache/mapping.h"

enum iomap_type { IOMAP_HOLE, IOMAP_DELALLOC, IOMAP_MAPPED, IOMAP_UNWRITTEN };

#define IOMAP_F_NEW    0x1u /* just allocated or reserved: bytes outside the write read as zeros */
#define IOMAP_F_MERGED 0x2u /* fiemap: may be joined with the next */
#define IOMAP_F_LAST   0x4u
/* Writeback: the I/O goes out before map_blocks is called again and before the folio's lock is dropped; a commit waits for it. */
#define IOMAP_F_SUBMIT 0x8u
/* Writeback: no I/O; the bytes are given to store(). */
#define IOMAP_F_STORE  0x10u

/* One run of a file: where its bytes are. Half-open, in bytes; covers the asked position; may be longer than asked. */
struct iomap {
	enum iomap_type type;
	unsigned flags;
	uint64_t pos_bytes;
	uint64_t len_bytes;
	uint64_t addr_bytes;   /* on the device; MAPPED and UNWRITTEN only */
	uint64_t seq;          /* of the mapping's sequence count when this was looked up */
	/*
	 * MAPPED: NULL, or the device may hold older bytes than the file system, and this brings the right ones: whole
	 * blocks, into a locked folio. Such a run is read through folios only, whatever way was asked for.
	 */
	int (*fetch)(struct mapping *m, uint64_t addr_bytes, void *buf, uint64_t len_bytes);
};

#define IOMAP_WRITE  0x1u  /* reserve or allocate as needed */
#define IOMAP_ZERO   0x2u  /* will zero: holes and unwritten stay as they are */
#define IOMAP_REPORT 0x4u  /* only asking (fiemap, seek) */

struct iomap_ops {
	/* Fills *map for @pos. Write: -ENOSPC, -EDQUOT here and never later. */
	int (*begin)(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, unsigned flags, struct iomap *map_out);
	/* @written of @len were done; gives back what was reserved and not used. NULL allowed. */
	int (*end)(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, uint64_t written_bytes, unsigned flags,
		   struct iomap *map);
	/* Still the truth? Checked under the folio lock before a write trusts @map. NULL: always. */
	bool (*is_valid)(struct mapping *m, const struct iomap *map);
};

struct iov_cursor {
	const struct iovec *iov;
	unsigned iov_count;
	size_t iov_off;        /* into iov[0] */
	size_t left_bytes;
};
void iov_cursor_skip(struct iov_cursor *cur, size_t len_bytes);

/**
 * iomap_buffered_write() - copy @from into folios at @pos and dirty them
 *
 * Grows size_bytes (before each folio is unlocked) when it writes past it. Zeroing between the old end of file and @pos is the caller's.
 * Context: inode.rwsem exclusive. Throttles between pieces. Takes folio locks; calls begin without one.
 * Return: bytes written (> 0, possibly short), or negative errno when none was
 */
ssize_t iomap_buffered_write(struct mapping *m, uint64_t pos_bytes, struct iov_cursor *from, const struct iomap_ops *ops);

/* Reads up to size_bytes; returns bytes, 0 at end of file. Lock-free for cached folios; starts readahead. -EIO, -ENOMEM. */
ssize_t iomap_buffered_read(struct mapping *m, uint64_t pos_bytes, struct iov_cursor *to, const struct iomap_ops *ops);

/*
 * The same for a caller who keeps what he reads: what no folio holds is read into his memory, and not cached. The
 * memory up to the end of to's last sector may be written even past the end of the file.
 */
ssize_t iomap_uncached_read(struct mapping *m, uint64_t pos_bytes, struct iov_cursor *to, const struct iomap_ops *ops);

/**
 * iomap_splice_read() - a range of the file into a pipe by reference, then to where it is wanted
 * @pipe_fd: the writing end of a pipe
 * @deliver: empties the pipe, and returns what this function returns; no block of the range is given to anybody else
 *           until then. It must not call back into the file
 *
 * All or nothing. Only for what the device alone holds: a range that is in part cached, not written, fetched, or past the end
 * of the file is to be read by iomap_uncached_read().
 *
 * Context: holds invalidate_lock shared around @deliver.
 * Return: @deliver's; -EOPNOTSUPP or an error of the device or the map, and the pipe may then hold a part of the range
 */
int iomap_splice_read(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, int pipe_fd, int (*deliver)(void *arg),
		      void *arg, const struct iomap_ops *ops);

/* Memory and where it goes, or comes from, on the device; whole sectors. */
struct iomap_piece {
	void *buf;
	uint64_t len_bytes, addr_bytes;
};
#define IOMAP_PIECES_MAX 32u
/* BIO_READ or BIO_WRITE of up to IOMAP_PIECES_MAX pieces; waits for all. The first error. */
int iomap_transfer(struct block_device *dev, enum bio_op op, const struct iomap_piece *pieces, unsigned count);

/* Zeroes [pos, pos + len) in the cache where it is mapped; holes and clean unwritten parts are left. Folios get dirty. */
int iomap_zero_range(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, const struct iomap_ops *ops);

/* SEEK_DATA / SEEK_HOLE with dirty folios over unwritten extents counted as data. -ENXIO past the end. */
int64_t iomap_seek_data(struct mapping *m, uint64_t pos_bytes, const struct iomap_ops *ops);
int64_t iomap_seek_hole(struct mapping *m, uint64_t pos_bytes, const struct iomap_ops *ops);

/* Calls @emit for each run that is no hole; stops when it returns non-zero (1: full, negative: error). */
int iomap_fiemap(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, const struct iomap_ops *ops,
		 int (*emit)(void *arg, const struct iomap *map), void *arg);

/* ---- writeback ---- */

/* Blocks of one file, contiguous in file and on device, written together. */
struct iomap_ioend {
	struct mapping *mapping;
	uint64_t pos_bytes, len_bytes;
	uint64_t addr_bytes;
	enum iomap_type type;      /* MAPPED or UNWRITTEN when it was mapped */
	int err;                   /* of the I/O */
	bool last;                 /* of an integrity pass: nothing more is sent, mapped or waited for by the thread that sends it */
	void *private_data;        /* the file system's: reserved handle, wait ... */
	struct list_head node;     /* for the file system between end_io and iomap_ioend_finish() */
};

struct iomap_writeback_ops {
	/*
	 * Where the dirty bytes [pos, pos + len) go; called with the folio locked, so folio before handle. May allocate
	 * far more than asked (the whole delayed extent) as *unwritten*; *map may be reused for later folios while
	 * is_valid. HOLE: nothing is written, the folio is cleaned (truncated meanwhile).
	 * -EAGAIN: out of credits; the folio's remaining part stays dirty, what was mapped is submitted, and writepages goes on.
	 */
	int (*map_blocks)(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, struct iomap *map_out);
	bool (*is_valid)(struct mapping *m, const struct iomap *map);
	/*
	 * IOMAP_F_STORE: takes bytes of a locked folio, whole blocks, and keeps a copy before it returns; then they are clean. It may
	 * start handles. *done_out: how many it took, all of @len or not; on an error those before it. NULL: no map asks for it.
	 */
	int (*store)(struct mapping *m, uint64_t pos_bytes, const void *data, size_t len_bytes, size_t *done_out);
	/*
	 * Just before the bios go out; may reserve journal credits, set private_data. An error fails the ioend.
	 * IOMAP_SUBMIT_LATER: the file system calls iomap_ioend_issue() when it is time, perhaps already.
	 */
	int (*submit)(struct iomap_ioend *ioend);
	/*
	 * All I/O of the ioend is done. Runs in end_io context: either returns true ("nothing to do", iomap finishes
	 * it) or takes it to a work queue and calls iomap_ioend_finish() after converting extents.
	 */
	bool (*end_io)(struct iomap_ioend *ioend);
};

/* Writes dirty folios of the range: only dirty blocks, up to i_size, the rest of the last block zeroed. Does not wait. */
int iomap_writepages(struct mapping *m, struct writeback_control *wbc, const struct iomap_writeback_ops *ops,
		     struct counters *counters);
#define IOMAP_SUBMIT_LATER 1
/* The bios of an ioend kept back by submit() go out: for the journal's commit, and counted so. */
void iomap_ioend_issue(struct iomap_ioend *ioend, struct counters *counters);
/* Ends writeback on its folios; err is recorded in the mapping. Frees it. */
void iomap_ioend_finish(struct iomap_ioend *ioend, int err);

#endif
