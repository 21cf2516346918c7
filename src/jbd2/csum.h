/* SPDX-License-Identifier: MIT */
/* csum.h - checksums of journal blocks, set by commit and checked by recovery */
#ifndef UEXT4_JBD2_CSUM_H
#define UEXT4_JBD2_CSUM_H

#include "jbd2/jbd2_format.h"

/* Setters fill the field in place; the ok-forms compare. All are right for journals without checksums: set nothing, true. */

/* The superblock's, over its 1,024 bytes; only with CSUM_V2 or V3 in its own feature bits. */
void journal_superblock_csum_set(struct journal_superblock *sb);
bool journal_superblock_csum_ok(const struct journal_superblock *sb);

/* The tail of a descriptor or revoke block. */
void journal_tail_csum_set(const struct journal_layout *layout, uint8_t *block);
bool journal_tail_csum_ok(const struct journal_layout *layout, const uint8_t *block);

/* h_chksum[0] of a commit block, v2 and v3. (v1 covers the transaction and is handled where that is known.) */
void commit_block_csum_set(const struct journal_layout *layout, uint8_t *block);
bool commit_block_csum_ok(const struct journal_layout *layout, const uint8_t *block);

/* Of a logged block as it lies in the log (escaped); goes into its tag. With v2 the low 16 bits are stored. */
uint32_t journal_tag_csum(const struct journal_layout *layout, tid_t tid, const uint8_t *log_block);
bool journal_tag_csum_ok(const struct journal_layout *layout, const struct journal_tag *tag, tid_t tid,
			 const uint8_t *log_block);

#endif
