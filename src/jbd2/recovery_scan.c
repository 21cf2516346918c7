/* SPDX-License-Identifier: MIT */
/*
 * recovery_scan.c - the first pass: where does the log end?
 *
 * Transactions follow each other from s_start, each ended by its commit block. The log ends at the first block that has
 * no header, another sequence number, or an unknown type: what follows is of a transaction that a crash cut off, or older.
 *
 * Checksums tell more. A block of the log that was never cleared can carry the right sequence number by accident, and
 * a crash can leave a part of a block. So a transaction with a wrong checksum is
 *
 *   stale        if its commit is older than that of the transaction before it: the log ends before it, no error;
 *   corrupt      if it did commit: a later transaction's sound commit block follows, or its own commit block is sound
 *                though a descriptor is not. With async_commit the latter proves nothing, since the commit block may
 *                reach the disk first;
 *   interrupted  otherwise: the log ends before it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "jbd2/csum.h"
#include "jbd2/recovery_private.h"

/* h_chksum_size of JBD2_CRC32_CHKSUM. */
#define CRC32_CHKSUM_BYTES 4u

struct scan {
	struct journal *j;
	struct log_walk walk;
	struct log_walk transaction; /* where the current one begins */
	struct log_walk last;        /* where the last committed one begins */
	tid_t end_tid;
	uint64_t commit_sec;         /* of the last committed one */
	uint32_t crc;                /* v1: of the current one so far */
	bool bad_block;              /* a descriptor or revoke block of the current one has a wrong checksum */
	bool in_doubt;               /* end_tid failed its checksums: interrupted unless a later one committed */
};

static bool is_async(const struct journal *j)
{
	return be32_get(j->super->s_header.h_blocktype) == JBD2_SUPERBLOCK_V2 &&
	       (be32_get(j->super->s_feature_incompat) & JBD2_INCOMPAT_ASYNC_COMMIT);
}

static int scan_descriptor(struct scan *s, const uint8_t *block)
{
	const struct journal_layout *layout = &s->j->layout;
	uint32_t count;
	int found = 1;

	s->bad_block |= !journal_tail_csum_ok(layout, block);
	if (descriptor_block_verify(block, layout, &count))
		return 0;
	if (!layout->csum_v1)
		return log_walk_skip(&s->walk, count);
	s->crc = crc32_be(s->crc, block, layout->block_bytes);
	for (uint32_t i = 0; i < count && found > 0; i++) {
		found = log_walk_data(&s->walk, &block);
		if (found > 0)
			s->crc = crc32_be(s->crc, block, layout->block_bytes);
	}
	return found;
}

/* Blocks may be torn between sectors; everything behind the header is zero, so the header alone tells what it was. */
static bool commit_header_csum_ok(const struct journal_layout *layout, const uint8_t *block)
{
	uint8_t *alone = calloc(1, layout->block_bytes);
	bool ok;

	if (!alone)
		return false;
	memcpy(alone, block, sizeof(struct commit_header));
	ok = commit_block_csum_ok(layout, alone);
	free(alone);
	return ok;
}

static bool commit_is_sound(const struct scan *s, const uint8_t *block, const struct commit_header *ch)
{
	const struct journal_layout *layout = &s->j->layout;
	uint32_t stored = be32_get(ch->h_chksum[0]);

	if (!layout->csum_v1)
		return commit_block_csum_ok(layout, block) || commit_header_csum_ok(layout, block);
	if (ch->h_chksum_type == 0 && ch->h_chksum_size == 0)
		return stored == 0; /* written before the feature was set */
	return ch->h_chksum_type == JBD2_CRC32_CHKSUM && ch->h_chksum_size == CRC32_CHKSUM_BYTES && stored == s->crc;
}

static int report_corrupt(const struct scan *s, tid_t tid)
{
	log_print(s->j->params.log, LOG_ERROR,
		  "journal: transaction %u has a wrong checksum but was committed: the log is corrupt", tid);
	return -EBADMSG;
}

static void scan_accept(struct scan *s, uint64_t commit_sec)
{
	s->last = s->transaction;
	s->commit_sec = commit_sec;
	s->end_tid = s->walk.tid + 1;
}

static int scan_commit(struct scan *s, const uint8_t *block)
{
	struct commit_header ch;
	bool sound, is_newer;

	memcpy(&ch, block, sizeof(ch));
	sound = commit_is_sound(s, block, &ch);
	is_newer = be64_get(ch.h_commit_sec) >= s->commit_sec;
	if (s->in_doubt) {
		if (sound && is_newer)
			return report_corrupt(s, s->end_tid);
	} else if (sound && !s->bad_block) {
		scan_accept(s, be64_get(ch.h_commit_sec));
	} else if (!is_newer) {
		return 0;
	} else if (sound && !is_async(s->j)) {
		return report_corrupt(s, s->walk.tid);
	} else {
		s->in_doubt = true;
	}
	s->walk.tid++;
	s->transaction = s->walk;
	s->crc = ~0u;
	s->bad_block = false;
	return 1;
}

static int scan_block(struct scan *s, const uint8_t *block, uint32_t type)
{
	switch (type) {
	case JBD2_DESCRIPTOR_BLOCK:
		return scan_descriptor(s, block);
	case JBD2_COMMIT_BLOCK:
		return scan_commit(s, block);
	default:
		s->bad_block |= !journal_tail_csum_ok(&s->j->layout, block);
		return 1;
	}
}

/* ---- async_commit: did all blocks of the last transaction arrive? ---- */

/* @desc is a copy: reading on replaces the walk's block. 1: all are sound. */
static int check_tags(const struct scan *s, struct log_walk *walk, const uint8_t *desc)
{
	const struct journal_layout *layout = &s->j->layout;
	uint32_t pos = sizeof(struct journal_header), count;

	if (descriptor_block_verify(desc, layout, &count))
		return 0;
	while (count--) {
		struct journal_tag tag = journal_tag_decode(layout, desc + pos);
		const uint8_t *block;
		int found = log_walk_data(walk, &block);

		if (found <= 0)
			return found;
		if (!journal_tag_csum_ok(layout, &tag, walk->tid, block))
			return 0;
		pos += journal_tag_stride(layout, tag.flags);
	}
	return 1;
}

static int check_last_transaction(const struct scan *s, uint8_t *desc)
{
	struct log_walk walk = s->last;
	const uint8_t *block;
	uint32_t type;
	int found;

	while ((found = log_walk_next(&walk, &block, &type)) > 0 && type != JBD2_COMMIT_BLOCK) {
		if (type != JBD2_DESCRIPTOR_BLOCK)
			continue;
		memcpy(desc, block, s->j->params.block_bytes);
		found = check_tags(s, &walk, desc);
		if (found <= 0)
			break;
	}
	return found;
}

/*
 * With v2 and v3 the commit block's checksum does not cover the transaction's blocks, and with async_commit no flush
 * stood between them. Only the last transaction can be incomplete: the flush that ends each one precedes the next.
 */
static int scan_check_async(struct scan *s, tid_t first_tid)
{
	uint8_t *desc;
	int found;

	if (!s->j->layout.has_csum || !is_async(s->j) || s->end_tid == first_tid)
		return 0;
	desc = malloc(s->j->params.block_bytes);
	if (!desc)
		return -ENOMEM;
	found = check_last_transaction(s, desc);
	free(desc);
	if (found == 0) {
		s->end_tid--;
		s->in_doubt = true;
	}
	return found < 0 ? found : 0;
}

int recovery_scan(struct journal *j, struct log_reader *reader, struct log_span *span_out)
{
	struct scan s = { .j = j, .crc = ~0u };
	const uint8_t *block;
	uint32_t type;
	int found, err;

	log_walk_begin(&s.walk, reader);
	s.transaction = s.last = s.walk;
	s.end_tid = s.walk.tid;
	*span_out = (struct log_span){ .first_tid = s.walk.tid };
	do {
		found = log_walk_next(&s.walk, &block, &type);
		if (found > 0)
			found = scan_block(&s, block, type);
	} while (found > 0);
	err = found < 0 ? found : scan_check_async(&s, span_out->first_tid);
	if (!err && s.in_doubt)
		log_print(j->params.log, LOG_WARNING,
			  "journal: transaction %u has a wrong checksum and none follows: it was interrupted, and is dropped",
			  s.end_tid);
	span_out->end_tid = s.end_tid;
	span_out->last_seen_tid = s.walk.tid;
	return err;
}
