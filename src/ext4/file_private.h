/* SPDX-License-Identifier: MIT */
/* file_private.h - between the parts of file data I/O */
#ifndef UEXT4_EXT4_FILE_PRIVATE_H
#define UEXT4_EXT4_FILE_PRIVATE_H

#include "ext4/file.h"
#include "ext4/map.h"

/* file_iomap.c: reads, writes, seeks and fiemap through iomap. */
extern const struct iomap_ops file_iomap_ops;
extern const struct iomap_ops file_iomap_root_ops; /* the same for who may take the blocks kept for root */

static inline lblk_t file_lblk(const struct inode *inode, uint64_t pos_bytes)
{
	return (lblk_t)(pos_bytes >> inode->fs->block_bits);
}
static inline lblk_t file_lblk_up(const struct inode *inode, uint64_t pos_bytes)
{
	return (lblk_t)((pos_bytes + inode->fs->block_bytes - 1) >> inode->fs->block_bits);
}
static inline uint64_t file_block_down(const struct inode *inode, uint64_t pos_bytes)
{
	return pos_bytes & ~(uint64_t)(inode->fs->block_bytes - 1);
}
static inline uint64_t file_block_up(const struct inode *inode, uint64_t pos_bytes)
{
	return file_block_down(inode, pos_bytes + inode->fs->block_bytes - 1);
}
/* Largest size this file may have. */
uint64_t file_max_bytes(const struct inode *inode);

/* ---- file_reserve.c: what delayed allocation promises ---- */

/**
 * file_reserve() - promise @data_blks blocks, and what the tree may need once @dirty_blks more blocks are dirty
 * @root: of those kept for root too
 * Return: 0; -ENOSPC
 */
int file_reserve(struct inode *inode, uint32_t data_blks, uint32_t dirty_blks, bool root);
/* The write that file_reserve() was for has dirtied its blocks. */
void file_reserve_done(struct inode *inode);
/* Gives promised tree blocks back that the dirty data left, less @done_bytes of it, cannot need any more. */
void file_reserve_settle(struct inode *inode, uint64_t done_bytes);

/* ---- file_disksize.c: the size on disk follows what I/O completed ---- */

static inline uint64_t file_disksize(const struct inode *inode)
{
	return __atomic_load_n(&inode->disksize_bytes, __ATOMIC_RELAXED);
}
/* Sets it through @h (2 credits beyond those of the mapping). Caller: map_sem exclusive. */
int file_disksize_set(struct handle *h, struct inode *inode, uint64_t size_bytes);
#define DISKSIZE_CREDITS 2u /* inode, superblock (large_file) */

/* Moves it to @size_bytes, or to i_size if that is less, unless it is there already. Takes map_sem; credits as above. */
int file_disksize_raise(struct handle *h, struct inode *inode, uint64_t size_bytes);
/* i_size and disksize become @size_bytes: all data before is on disk or never was written. Starts its own handle. */
int file_grow(struct inode *inode, uint64_t size_bytes);

/* Zeroes from the end of file to the end of its block, on disk too where it is mapped: before i_size moves past it. */
int file_zero_tail(struct inode *inode, uint64_t size_bytes, bool write_out);

/* ---- file_logged.c: data that goes through the log ---- */

/* As store() of iomap_writeback_ops, and fetch() of struct iomap. */
int file_store(struct mapping *m, uint64_t pos_bytes, const void *data, size_t len_bytes, size_t *done_out);
int file_fetch(struct mapping *m, uint64_t addr_bytes, void *buf, uint64_t len_bytes);
/* What is dirty in [pos, end) of such a file joins a transaction now (L1). Errors are the mapping's. Caller: inode.rwsem exclusive. */
void file_log_dirty(struct inode *inode, uint64_t pos_bytes, uint64_t end_bytes);

/* ---- file_uncached.c ---- */

/*
 * Writes what of @from can go to the device at once, past the cache; @root: into the blocks kept for root too. Caller:
 * inode.rwsem exclusive, the file zeroed up to @pos. Bytes written; 0: none, it has to go through the cache; or an error.
 */
ssize_t file_write_uncached(struct inode *inode, uint64_t pos, struct iov_cursor *from, bool root);

/* ---- file_ioend.c: what is done when I/O has completed ---- */

/* Kept from submission to completion of I/O that needs more than its folios unlocked. */
struct file_ioend {
	struct file_ioend *next;       /* [io.lock] in a queue of struct file_io */
	struct iomap_ioend *ioend;
	uint64_t extends_to;           /* [const] disksize moves there, in bytes; 0: it does not */
	bool done;                     /* [io.lock] the I/O is */
	struct handle handle;          /* reserved (W2) */
	bool has_handle;
	bool waits;                    /* the commit waits for it (W5) */
	struct journal_data_wait wait;
};
/* @ioend goes out, with @fi, which it owns from now on, on its way. */
void file_ioend_sent(struct file_ioend *fi, struct iomap_ioend *ioend);
/*
 * Around the sending of the last I/O of an integrity pass, with @fi, on this thread: what is then to be done for @inode and
 * nobody does yet is done by file_ioend_last_done(). Call that one without a folio lock; it may wait for the journal.
 */
void file_ioend_last_begin(struct file_ioend *fi);
void file_ioend_last_done(struct inode *inode);
/* As end_io() of iomap_writeback_ops: true if there is nothing to do but to finish the ioend. */
bool file_ioend_done(struct iomap_ioend *ioend);

#endif
