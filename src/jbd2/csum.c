/* SPDX-License-Identifier: MIT */
/* csum.c - checksums of journal blocks, set by commit and checked by recovery */
#include <string.h>

#include "base/checksum.h"
#include "jbd2/csum.h"

/* Of @len_bytes at @block with the four bytes at @field_pos taken as zero. */
static uint32_t csum_without_field(uint32_t seed, const void *block, uint32_t len_bytes, uint32_t field_pos)
{
	const uint8_t *bytes = block;
	be32 zero = { 0 };

	seed = crc32c(seed, bytes, field_pos);
	seed = crc32c(seed, &zero, sizeof(zero));
	field_pos += sizeof(zero);
	return crc32c(seed, bytes + field_pos, len_bytes - field_pos);
}

static void field_put(uint8_t *block, uint32_t pos, uint32_t value)
{
	be32 v = be32_make(value);

	memcpy(block + pos, &v, sizeof(v));
}

static uint32_t field_get(const uint8_t *block, uint32_t pos)
{
	be32 v;

	memcpy(&v, block + pos, sizeof(v));
	return be32_get(v);
}

static bool superblock_has_csum(const struct journal_superblock *sb)
{
	return be32_get(sb->s_header.h_blocktype) == JBD2_SUPERBLOCK_V2 &&
	       (be32_get(sb->s_feature_incompat) & (JBD2_INCOMPAT_CSUM_V2 | JBD2_INCOMPAT_CSUM_V3));
}

static uint32_t superblock_csum(const struct journal_superblock *sb)
{
	return csum_without_field(~0u, sb, sizeof(*sb), offsetof(struct journal_superblock, s_checksum));
}

void journal_superblock_csum_set(struct journal_superblock *sb)
{
	if (superblock_has_csum(sb))
		sb->s_checksum = be32_make(superblock_csum(sb));
}

bool journal_superblock_csum_ok(const struct journal_superblock *sb)
{
	return !superblock_has_csum(sb) || be32_get(sb->s_checksum) == superblock_csum(sb);
}

static uint32_t tail_pos(const struct journal_layout *layout)
{
	return layout->block_bytes - (uint32_t)sizeof(struct journal_block_tail);
}

void journal_tail_csum_set(const struct journal_layout *layout, uint8_t *block)
{
	uint32_t pos = tail_pos(layout);

	if (layout->has_csum)
		field_put(block, pos, csum_without_field(layout->csum_seed, block, layout->block_bytes, pos));
}

bool journal_tail_csum_ok(const struct journal_layout *layout, const uint8_t *block)
{
	uint32_t pos = tail_pos(layout);

	return !layout->has_csum ||
	       field_get(block, pos) == csum_without_field(layout->csum_seed, block, layout->block_bytes, pos);
}

void commit_block_csum_set(const struct journal_layout *layout, uint8_t *block)
{
	uint32_t pos = offsetof(struct commit_header, h_chksum);

	if (layout->has_csum)
		field_put(block, pos, csum_without_field(layout->csum_seed, block, layout->block_bytes, pos));
}

bool commit_block_csum_ok(const struct journal_layout *layout, const uint8_t *block)
{
	uint32_t pos = offsetof(struct commit_header, h_chksum);

	return !layout->has_csum ||
	       field_get(block, pos) == csum_without_field(layout->csum_seed, block, layout->block_bytes, pos);
}

uint32_t journal_tag_csum(const struct journal_layout *layout, tid_t tid, const uint8_t *log_block)
{
	be32 seq = be32_make(tid);
	uint32_t csum;

	if (!layout->has_csum)
		return 0;
	csum = crc32c(crc32c(layout->csum_seed, &seq, sizeof(seq)), log_block, layout->block_bytes);
	return layout->csum_v3 ? csum : csum & 0xffff;
}

bool journal_tag_csum_ok(const struct journal_layout *layout, const struct journal_tag *tag, tid_t tid,
			 const uint8_t *log_block)
{
	return tag->checksum == journal_tag_csum(layout, tid, log_block) || !layout->has_csum;
}
