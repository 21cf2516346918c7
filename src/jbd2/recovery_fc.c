/* SPDX-License-Identifier: MIT */
/*
 * recovery_fc.c - the fast-commit area behind the log
 *
 * Fast commits describe changes on top of the last full commit, as little-endian tag-length-value records of the file
 * system. Only what frames them is known here: the area counts if it begins with a head of the transaction that would
 * have come next, and up to the last tail of that transaction whose crc32c covers the records since the tail before.
 *
 * The first of the blocks set aside for it stays unused: so does Linux, whose log ends before it and whose area begins behind.
 */
#include <errno.h>
#include <string.h>

#include "base/checksum.h"
#include "jbd2/recovery_private.h"

#define FC_TAG_PAD  7u  /* 1 .. 7: records of the file system and padding */
#define FC_TAG_TAIL 8u
#define FC_TAG_HEAD 9u

struct fc_tl {
	le16 fc_tag;      /* 0x0 */
	le16 fc_len;      /* 0x2 bytes of the value that follows */
};
static_assert(sizeof(struct fc_tl) == 4, "FORMAT.md: 4 bytes");

struct fc_head {
	le32 fc_features; /* 0x0 none are known */
	le32 fc_tid;      /* 0x4 */
};
static_assert(sizeof(struct fc_head) == 8, "FORMAT.md: 8 bytes");

struct fc_tail {
	le32 fc_tid;      /* 0x0 */
	le32 fc_crc;      /* 0x4 */
};
static_assert(sizeof(struct fc_tail) == 8, "FORMAT.md: 8 bytes");

static uint32_t fc_first(const struct journal *j)
{
	return j->end + 1;
}

struct fc_scan {
	const struct journal *j;
	tid_t tid;
	uint32_t crc;     /* of the records since the last tail */
	uint32_t block;   /* being looked at */
	uint32_t unknown; /* tag since the last tail that nobody knows; 0: none */
	struct fc_area area;
};

/* 1: go on; 0: the area ends here. */
static int fc_scan_head(struct fc_scan *s, const uint8_t *value, uint32_t len_bytes)
{
	struct fc_head head;

	if (len_bytes < sizeof(head))
		return 0;
	memcpy(&head, value, sizeof(head));
	if (le32_get(head.fc_tid) != s->tid)
		return 0;
	if (!le32_get(head.fc_features))
		return 1;
	log_print(s->j->params.log, LOG_ERROR, "journal: fast commits with unknown features 0x%x",
		  le32_get(head.fc_features));
	return -EOPNOTSUPP;
}

/* @end_bytes: where in its block the tail ends. */
static int fc_scan_tail(struct fc_scan *s, const uint8_t *value, uint32_t len_bytes, uint32_t end_bytes)
{
	struct fc_tail tail;

	if (len_bytes < sizeof(tail))
		return 0;
	memcpy(&tail, value, sizeof(tail));
	s->crc = crc32c(s->crc, value - sizeof(struct fc_tl), sizeof(struct fc_tl) + offsetof(struct fc_tail, fc_crc));
	if (le32_get(tail.fc_tid) != s->tid || le32_get(tail.fc_crc) != s->crc)
		return 0;
	if (s->unknown) {
		log_print(s->j->params.log, LOG_ERROR, "journal: a fast commit has a record of unknown type %u", s->unknown);
		return -EOPNOTSUPP;
	}
	s->crc = 0;
	s->area.blocks = s->block + 1;
	s->area.last_bytes = end_bytes;
	s->area.commits++;
	return 1;
}

/* A record of an unknown type may be rubbish behind the area's end; only a sound tail after it says that it is not. */
static int fc_scan_record(struct fc_scan *s, const uint8_t *record, uint32_t tag, uint32_t len_bytes, uint32_t end_bytes)
{
	const uint8_t *value = record + sizeof(struct fc_tl);
	int found = 1;

	if (tag == FC_TAG_TAIL)
		return fc_scan_tail(s, value, len_bytes, end_bytes);
	if (tag == FC_TAG_HEAD)
		found = fc_scan_head(s, value, len_bytes);
	else if (tag == 0)
		found = 0;
	else if (tag > FC_TAG_PAD)
		s->unknown = tag;
	if (found > 0)
		s->crc = crc32c(s->crc, record, sizeof(struct fc_tl) + len_bytes);
	return found;
}

static int fc_scan_block(struct fc_scan *s, const uint8_t *block)
{
	uint32_t end = s->j->params.block_bytes, pos = 0;
	int found = 1;

	while (found > 0 && end - pos >= sizeof(struct fc_tl)) { /* the last one may be padding of no length */
		struct fc_tl tl;
		uint32_t len_bytes;

		memcpy(&tl, block + pos, sizeof(tl));
		len_bytes = le16_get(tl.fc_len);
		if (s->block == 0 && pos == 0 && le16_get(tl.fc_tag) != FC_TAG_HEAD)
			return 0;
		if (len_bytes > end - pos - sizeof(tl))
			return 0;
		pos += sizeof(tl) + len_bytes;
		found = fc_scan_record(s, block + pos - sizeof(tl) - len_bytes, le16_get(tl.fc_tag), len_bytes, pos);
	}
	return found;
}

int fc_area_scan(const struct journal *j, struct log_reader *reader, tid_t tid, struct fc_area *area_out)
{
	struct fc_scan s = { .j = j, .tid = tid };
	int found = 1;

	for (s.block = 0; found > 0 && fc_first(j) + s.block < j->maxlen; s.block++) {
		const uint8_t *block;
		int err = log_reader_get(reader, fc_first(j) + s.block, &block);

		if (err)
			return err;
		found = fc_scan_block(&s, block);
	}
	*area_out = s.area;
	return found < 0 ? found : 0;
}

int fc_area_hand_over(const struct journal *j, struct log_reader *reader, const struct fc_area *area)
{
	const struct journal_params *p = &j->params;
	int err = 0;

	if (area->blocks && !p->fc_take) {
		log_print(p->log, LOG_ERROR,
			  "journal: %u fast commits wait to be replayed, which is not supported: recover with e2fsck",
			  area->commits);
		return -EOPNOTSUPP;
	}
	for (uint32_t i = 0; i < area->blocks && !err; i++) {
		const uint8_t *block;

		err = log_reader_get(reader, fc_first(j) + i, &block);
		if (!err)
			err = p->fc_take(p->fc_arg, block, i + 1 == area->blocks ? area->last_bytes : p->block_bytes, i);
	}
	return err;
}
