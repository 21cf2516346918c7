/* SPDX-License-Identifier: MIT */
/* log_builder.h - journals written by hand, byte by byte, without the code under test */
#ifndef UEXT4_TESTS_JBD2_LOG_BUILDER_H
#define UEXT4_TESTS_JBD2_LOG_BUILDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "image_memory.h"

#include "block/fault.h"
#include "block/record.h"
#include "cache/buffer.h"
#include "cache/cache.h"
#include "jbd2/jbd2.h"

/* A version with this bit makes a block that begins with the journal's magic. */
#define VERSION_ESCAPED (UINT64_C(1) << 63)

struct builder_options {
	uint32_t block_bytes;
	uint32_t log_blocks;
	uint32_t home_blocks;
	uint32_t fc_blocks;       /* 0: no fast commits */
	bool fc_default;          /* s_num_fc_blks stays 0 */
	int csum;                 /* 0 none, 1, 2, 3 */
	bool is_64bit, async_commit;
	tid_t first_tid;
	uint32_t start;           /* s_start; 0: the log's first block */
};

/* One transaction is put together by builder_block() and builder_revoke(), in parts if builder_flush() comes between. */
struct builder {
	struct builder_options opt;
	uint8_t *image;
	uint64_t image_bytes;
	uint32_t end;             /* of the log proper */
	uint32_t index;           /* next log block */
	tid_t tid;                /* of the transaction being built */
	uint64_t commit_sec;      /* goes up by one with each commit */
	uint32_t crc;             /* v1 */
	uint32_t desc_index, data_index, revoke_index, commit_index; /* where the latest of each went */
	struct builder_tag { fsblk_t blk; uint64_t version; } *tags;
	uint32_t tag_count, tag_room;
	fsblk_t *revokes;
	uint32_t revoke_count, revoke_room;
};

void builder_init(struct builder *b, const struct builder_options *opt);
void builder_exit(struct builder *b);
void builder_block(struct builder *b, fsblk_t blk, uint64_t version);
void builder_revoke(struct builder *b, fsblk_t blk);
void builder_flush(struct builder *b);
void builder_commit(struct builder *b);

uint8_t *builder_log(struct builder *b, uint32_t index);  /* bytes of a log block */
fsblk_t builder_log_blk(const struct builder *b, uint32_t index);
fsblk_t builder_home(const struct builder *b, uint32_t n);
void builder_fill(const struct builder *b, uint8_t *data, fsblk_t blk, uint64_t version);
void builder_put32(uint8_t *at, uint32_t value);
uint32_t builder_get32(const uint8_t *at);
uint32_t builder_super32(struct builder *b, uint32_t pos); /* a field of the journal superblock in the image */
/* Sets the checksum of a changed descriptor or revoke block, or of a commit block. */
void builder_seal_tail(struct builder *b, uint32_t index);
void builder_seal_commit(struct builder *b, uint32_t index);

/* Recovery over a copy of an image. */
struct runner {
	struct counters counters;
	struct log_sink sink;
	struct builder *b;
	uint8_t *image;           /* what the memory device holds */
	struct block_device *memory, *fault, *record;
	struct cache *cache;
	struct buffer_cache *bc;
	struct journal_params params; /* to be changed before runner_recover() */
	struct journal_recovery_info info;
	char last_error[1024];
	bool reported;            /* "recovery complete" was logged */
};

struct runner *runner_create(struct builder *b, const uint8_t *image);
int runner_recover(struct runner *r);
void runner_destroy(struct runner *r);

/* Home block @n in @image holds @version. */
bool builder_holds(const struct builder *b, const uint8_t *image, uint32_t n, uint64_t version);

#endif
