/* SPDX-License-Identifier: MIT */
/* log_parse.h - reads what a commit left in the log, independently of recovery */
#ifndef UEXT4_TESTS_JBD2_LOG_PARSE_H
#define UEXT4_TESTS_JBD2_LOG_PARSE_H

#include "toy.h"

#define PARSED_MAX 2048u

struct parsed_block {
	fsblk_t blk;
	uint32_t log_index;
	bool escaped;
	const uint8_t *bytes; /* in the image, as logged */
};

struct parsed_transaction {
	tid_t tid;
	uint32_t start, end;            /* log blocks */
	uint32_t descriptors, blocks, revokes;
	struct parsed_block block[PARSED_MAX];
	fsblk_t revoke[PARSED_MAX];
	struct commit_header commit;
};

/* The superblock in @image. */
struct journal_superblock *parsed_super(const struct toy *toy, uint8_t *image);
/* Log block @index in @image. */
uint8_t *parsed_log_block(const struct toy *toy, uint8_t *image, uint32_t index);
/* Fails the test unless a whole, sound transaction @tid begins at log block @index. */
void parse_transaction(const struct toy *toy, uint8_t *image, uint32_t index, tid_t tid, struct parsed_transaction *out);

#endif
