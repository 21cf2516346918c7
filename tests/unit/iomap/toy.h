/* SPDX-License-Identifier: MIT */
/* toy.h - a file system of one file in an array, for the tests of iomap */
#ifndef UEXT4_TESTS_IOMAP_TOY_H
#define UEXT4_TESTS_IOMAP_TOY_H

#include "../cache/env.h"

#include "base/workqueue.h"
#include "iomap/iomap.h"

#define TOY_BLOCKS 65536u

/* Where a block of the file is. */
struct toy_block {
	enum iomap_type type;
	uint32_t addr_blk;
};

struct toy {
	struct env *env;
	struct mapping mapping;
	struct mutex lock;             /* RANK_LEAF: end_io takes it */
	struct toy_block *blocks;      /* [lock] TOY_BLOCKS of them */
	uint32_t next_addr_blk;        /* [lock] */
	bool *used;                    /* [lock] by address */
	_Atomic uint64_t seq;
	uint64_t free_blocks;          /* [lock] what may still be reserved */
	_Atomic int grabs;
	_Atomic int begins, maps;      /* calls */
	_Atomic int map_again;         /* the next so many map_blocks() return -EAGAIN */
	_Atomic int map_error;         /* the next map_blocks() returns it */
	_Atomic int submit_error;
	bool hold;                   /* submit() keeps the ioend back */
	struct iomap_ioend *held;
	bool alloc_written;            /* map_blocks() allocates MAPPED and announces the I/O, as indirect files do */
	uint8_t *log;                  /* NULL, or the file system stores all data here, by address, and the device has older bytes */
	bool *logged;                  /* [lock] by address: what the log has */
	size_t store_max;              /* one store() takes no more */
	_Atomic int stores;            /* calls that took something */
	_Atomic int store_again;       /* the next so many store() take half of it and return -EAGAIN */
	struct workqueue *wq;          /* ends ioends there; NULL: in end_io */
	uint32_t run_max;              /* longest run a map tells */
	bool reverse;                  /* allocates downwards: nothing is contiguous */
};

extern const struct iomap_ops toy_ops;

struct toy *toy_create(uint64_t limit_bytes, unsigned block_bits);
void toy_destroy(struct toy *toy);
/* From now on data is stored, at most @store_max bytes at a time. */
void toy_log_data(struct toy *toy, size_t store_max);
/* Forgets all folios, as unmounting would; what was dirty is lost. */
void toy_drop_cache(struct toy *toy);
/* Blocks [blk, blk + count) become @type; MAPPED and UNWRITTEN ones get addresses and device bytes @byte. */
void toy_set_blocks(struct toy *toy, uint32_t blk, uint32_t count, enum iomap_type type, uint8_t byte);
void toy_set_size(struct toy *toy, uint64_t size_bytes);
enum iomap_type toy_type(struct toy *toy, uint32_t blk);
/* The device's bytes of a block that has an address. */
uint8_t *toy_device(struct toy *toy, uint32_t blk);

ssize_t toy_write(struct toy *toy, uint64_t pos_bytes, const void *buf, size_t len_bytes);
ssize_t toy_fill(struct toy *toy, uint64_t pos_bytes, uint8_t byte, size_t len_bytes);
ssize_t toy_read(struct toy *toy, uint64_t pos_bytes, void *buf, size_t len_bytes);
/* Asserts that the file's bytes there are all @byte. */
void toy_expect(struct toy *toy, uint64_t pos_bytes, uint8_t byte, size_t len_bytes);
int toy_sync(struct toy *toy);

#endif
