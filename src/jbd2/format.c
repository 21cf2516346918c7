/* SPDX-License-Identifier: MIT */
/* format.c - variable parts of the jbd2 format, and the verifiers of its blocks */
#include <string.h>

#include "base/checksum.h"
#include "jbd2/jbd2_format.h"

void journal_layout_init(struct journal_layout *layout, const struct journal_superblock *sb, uint32_t block_bytes)
{
	bool v2_super = be32_get(sb->s_header.h_blocktype) == JBD2_SUPERBLOCK_V2;
	uint32_t compat = v2_super ? be32_get(sb->s_feature_compat) : 0;
	uint32_t incompat = v2_super ? be32_get(sb->s_feature_incompat) : 0;

	*layout = (struct journal_layout){
		.block_bytes = block_bytes,
		.csum_v3 = incompat & JBD2_INCOMPAT_CSUM_V3,
		.csum_v2 = incompat & JBD2_INCOMPAT_CSUM_V2,
		.csum_v1 = compat & JBD2_COMPAT_CHECKSUM,
		.is_64bit = incompat & JBD2_INCOMPAT_64BIT,
	};
	layout->has_csum = layout->csum_v3 || layout->csum_v2;
	layout->tail_bytes = layout->has_csum ? sizeof(struct journal_block_tail) : 0;
	layout->revoke_bytes = layout->is_64bit ? 8 : 4;
	if (layout->csum_v3)
		layout->tag_bytes = sizeof(struct journal_block_tag3);
	else
		layout->tag_bytes = (layout->is_64bit ? JBD2_TAG_BYTES_64 : JBD2_TAG_BYTES_32) +
				    (layout->csum_v2 ? JBD2_TAG_CSUM_V2_PAD : 0);
	if (layout->has_csum)
		layout->csum_seed = crc32c(~0u, sb->s_uuid, sizeof(sb->s_uuid));
}

uint32_t journal_tag_stride(const struct journal_layout *layout, uint32_t flags)
{
	return layout->tag_bytes + (flags & JBD2_FLAG_SAME_UUID ? 0 : JBD2_TAG_UUID_BYTES);
}

struct journal_tag journal_tag_decode(const struct journal_layout *layout, const uint8_t *tag)
{
	struct journal_tag out;

	if (layout->csum_v3) {
		struct journal_block_tag3 t;

		memcpy(&t, tag, sizeof(t));
		out.blk = be32_get(t.t_blocknr);
		if (layout->is_64bit)
			out.blk |= (fsblk_t)be32_get(t.t_blocknr_high) << 32;
		out.flags = be32_get(t.t_flags);
		out.checksum = be32_get(t.t_checksum);
	} else {
		struct journal_block_tag t = { 0 };

		memcpy(&t, tag, layout->is_64bit ? JBD2_TAG_BYTES_64 : JBD2_TAG_BYTES_32);
		out.blk = be32_get(t.t_blocknr) | (fsblk_t)be32_get(t.t_blocknr_high) << 32;
		out.flags = be16_get(t.t_flags);
		out.checksum = be16_get(t.t_checksum);
	}
	return out;
}

void journal_tag_encode(const struct journal_layout *layout, const struct journal_tag *in, uint8_t *tag)
{
	uint32_t high = layout->is_64bit ? (uint32_t)(in->blk >> 32) : 0;

	memset(tag, 0, layout->tag_bytes);
	if (layout->csum_v3) {
		struct journal_block_tag3 t = {
			be32_make((uint32_t)in->blk), be32_make(in->flags), be32_make(high), be32_make(in->checksum),
		};

		memcpy(tag, &t, sizeof(t));
	} else {
		struct journal_block_tag t = {
			be32_make((uint32_t)in->blk), be16_make((uint16_t)in->checksum),
			be16_make((uint16_t)in->flags), be32_make(high),
		};

		memcpy(tag, &t, layout->is_64bit ? JBD2_TAG_BYTES_64 : JBD2_TAG_BYTES_32);
	}
}

uint32_t journal_tags_per_block(const struct journal_layout *layout)
{
	/* Two uuids: one is written, and readers of old want room for another before they look at the next tag. */
	return (layout->block_bytes - (uint32_t)sizeof(struct journal_header) - 2 * JBD2_TAG_UUID_BYTES -
		layout->tail_bytes) / layout->tag_bytes;
}

uint32_t journal_revokes_per_block(const struct journal_layout *layout)
{
	return (layout->block_bytes - (uint32_t)sizeof(struct revoke_header) - layout->tail_bytes) /
	       layout->revoke_bytes;
}

void journal_header_fill(struct journal_header *h, uint32_t blocktype, tid_t tid)
{
	h->h_magic = be32_make(JBD2_MAGIC);
	h->h_blocktype = be32_make(blocktype);
	h->h_sequence = be32_make(tid);
}

/* The kernel leaves no room for fast commits where that would make the log proper too short; so must we. */
static uint32_t superblock_fc_blocks(const struct journal_superblock *sb)
{
	uint32_t count = be32_get(sb->s_num_fc_blks), maxlen = be32_get(sb->s_maxlen);

	if (be32_get(sb->s_header.h_blocktype) != JBD2_SUPERBLOCK_V2 ||
	    !(be32_get(sb->s_feature_incompat) & JBD2_INCOMPAT_FAST_COMMIT))
		return 0;
	count = count ? count : JBD2_DEFAULT_FAST_COMMIT_BLOCKS;
	return maxlen >= JBD2_MIN_JOURNAL_BLOCKS && count <= maxlen - JBD2_MIN_JOURNAL_BLOCKS ? count : 0;
}

uint32_t journal_superblock_log_end(const struct journal_superblock *sb)
{
	return be32_get(sb->s_maxlen) - superblock_fc_blocks(sb);
}

static const char *superblock_verify_length(const struct journal_superblock *sb, uint32_t log_blocks)
{
	uint32_t maxlen = be32_get(sb->s_maxlen), first = be32_get(sb->s_first), start = be32_get(sb->s_start);

	if (maxlen > log_blocks)
		return "s_maxlen is beyond the end of the journal";
	if (maxlen < JBD2_MIN_JOURNAL_BLOCKS)
		return "the journal is too short";
	/* An external journal begins behind the file system's own superblock block, hence the room of a few blocks. */
	if (first == 0 || first > JBD2_MIN_JOURNAL_BLOCKS / 2)
		return "s_first is outside the journal";
	if (start != 0 && (start < first || start >= journal_superblock_log_end(sb)))
		return "s_start is outside the log";
	return NULL;
}

const char *journal_superblock_verify(const struct journal_superblock *sb, uint32_t log_blocks, uint32_t block_bytes)
{
	uint32_t type = be32_get(sb->s_header.h_blocktype);

	if (be32_get(sb->s_header.h_magic) != JBD2_MAGIC)
		return "no journal magic";
	if (type != JBD2_SUPERBLOCK_V1 && type != JBD2_SUPERBLOCK_V2)
		return "h_blocktype is not that of a superblock";
	if (be32_get(sb->s_blocksize) != block_bytes)
		return "s_blocksize differs from the file system's";
	if (type == JBD2_SUPERBLOCK_V2) {
		uint32_t incompat = be32_get(sb->s_feature_incompat);
		bool v2 = incompat & JBD2_INCOMPAT_CSUM_V2, v3 = incompat & JBD2_INCOMPAT_CSUM_V3;

		if (v2 && v3)
			return "checksums v2 and v3 are both set";
		if ((v2 || v3) && (be32_get(sb->s_feature_compat) & JBD2_COMPAT_CHECKSUM))
			return "checksums v1 and v2 or v3 are both set";
		if ((v2 || v3) && sb->s_checksum_type != JBD2_CRC32C_CHKSUM)
			return "unknown s_checksum_type";
		if (be32_get(sb->s_nr_users) > JBD2_USERS_MAX)
			return "s_nr_users is too large";
	}
	return superblock_verify_length(sb, log_blocks);
}

bool journal_features_supported(const struct journal_superblock *sb, uint32_t *incompat_out, uint32_t *ro_compat_out)
{
	bool has_features = be32_get(sb->s_header.h_blocktype) == JBD2_SUPERBLOCK_V2;

	*incompat_out = has_features ? be32_get(sb->s_feature_incompat) & ~JBD2_INCOMPAT_SUPPORTED : 0;
	*ro_compat_out = has_features ? be32_get(sb->s_feature_ro_compat) : 0;
	return !*incompat_out && !*ro_compat_out;
}

const char *journal_header_verify(const struct journal_header *h, uint32_t blocktype)
{
	if (be32_get(h->h_magic) != JBD2_MAGIC)
		return "no journal magic";
	if (be32_get(h->h_blocktype) != blocktype)
		return "h_blocktype is another";
	return NULL;
}

const char *revoke_header_verify(const struct revoke_header *rh, const struct journal_layout *layout)
{
	uint32_t count = be32_get(rh->r_count);
	const char *rule = journal_header_verify(&rh->r_header, JBD2_REVOKE_BLOCK);

	if (rule)
		return rule;
	if (count < sizeof(*rh) || count > layout->block_bytes - layout->tail_bytes)
		return "r_count is outside the block";
	if ((count - sizeof(*rh)) % layout->revoke_bytes)
		return "r_count is not a whole number of records";
	return NULL;
}

const char *descriptor_block_verify(const uint8_t *block, const struct journal_layout *layout, uint32_t *count_out)
{
	uint32_t end = layout->block_bytes - layout->tail_bytes;
	uint32_t pos = sizeof(struct journal_header), count = 0;
	struct journal_header h;
	const char *rule;

	*count_out = 0;
	memcpy(&h, block, sizeof(h));
	rule = journal_header_verify(&h, JBD2_DESCRIPTOR_BLOCK);
	if (rule)
		return rule;
	while (pos + layout->tag_bytes <= end) {
		struct journal_tag tag = journal_tag_decode(layout, block + pos);

		pos += journal_tag_stride(layout, tag.flags);
		count++;
		if (tag.flags & JBD2_FLAG_LAST_TAG)
			break;
	}
	*count_out = count;
	return NULL;
}
