/* SPDX-License-Identifier: MIT */
/* log_parse.c - reads what a commit left in the log, independently of recovery */
#include "log_parse.h"

#include "base/checksum.h"
#include "jbd2/csum.h"

uint8_t *parsed_log_block(const struct toy *toy, uint8_t *image, uint32_t index)
{
	return image + toy_log_blk(toy, index) * toy->opt.block_bytes;
}

struct journal_superblock *parsed_super(const struct toy *toy, uint8_t *image)
{
	return (struct journal_superblock *)parsed_log_block(toy, image, 0);
}

static uint32_t next_index(const struct toy *toy, uint32_t index)
{
	return index + 1 == toy->opt.log_blocks - toy->opt.fc_blocks ? 1 : index + 1;
}

static void parse_revoke(const struct toy *toy, const struct journal_layout *lo, const uint8_t *block,
			 struct parsed_transaction *out)
{
	const struct revoke_header *rh = (const void *)block;
	uint32_t end = be32_get(rh->r_count);

	assert_null(revoke_header_verify(rh, lo));
	assert_true(journal_tail_csum_ok(lo, block));
	for (uint32_t pos = sizeof(*rh); pos < end; pos += lo->revoke_bytes) {
		be64 wide = { 0 };
		be32 narrow;

		memcpy(&narrow, block + pos, sizeof(narrow));
		if (lo->is_64bit)
			memcpy(&wide, block + pos, sizeof(wide));
		assert_true(out->revokes < PARSED_MAX);
		out->revoke[out->revokes++] = lo->is_64bit ? be64_get(wide) : be32_get(narrow);
	}
}

/* Returns the index after the last block that the descriptor at @index covers. */
static uint32_t parse_descriptor(const struct toy *toy, const struct journal_layout *lo, uint8_t *image, uint32_t index,
				 struct parsed_transaction *out)
{
	const uint8_t *block = parsed_log_block(toy, image, index);
	uint32_t count, pos = sizeof(struct journal_header);
	struct journal_tag tag = { 0 };

	assert_null(descriptor_block_verify(block, lo, &count));
	assert_true(journal_tail_csum_ok(lo, block));
	assert_true(count > 0);
	out->descriptors++;
	for (uint32_t i = 0; i < count; i++) {
		struct parsed_block *pb = &out->block[out->blocks++];

		tag = journal_tag_decode(lo, block + pos);
		assert_int_equal(!!(tag.flags & JBD2_FLAG_SAME_UUID), i > 0);
		if (!i)
			assert_memory_equal(block + pos + lo->tag_bytes, parsed_super(toy, image)->s_uuid, 16);
		pos += journal_tag_stride(lo, tag.flags);
		index = next_index(toy, index);
		assert_true(out->blocks <= PARSED_MAX);
		*pb = (struct parsed_block){
			.blk = tag.blk, .log_index = index, .escaped = tag.flags & JBD2_FLAG_ESCAPE,
			.bytes = parsed_log_block(toy, image, index),
		};
		assert_true(journal_tag_csum_ok(lo, &tag, out->tid, pb->bytes));
	}
	assert_true(tag.flags & JBD2_FLAG_LAST_TAG);
	return next_index(toy, index);
}

void parse_transaction(const struct toy *toy, uint8_t *image, uint32_t index, tid_t tid, struct parsed_transaction *out)
{
	struct journal_layout lo;

	memset(out, 0, sizeof(*out));
	journal_layout_init(&lo, parsed_super(toy, image), toy->opt.block_bytes);
	out->tid = tid;
	out->start = index;
	for (;;) {
		const uint8_t *block = parsed_log_block(toy, image, index);
		const struct journal_header *h = (const void *)block;

		assert_int_equal(be32_get(h->h_magic), JBD2_MAGIC);
		assert_int_equal(be32_get(h->h_sequence), tid);
		switch (be32_get(h->h_blocktype)) {
		case JBD2_REVOKE_BLOCK:
			assert_int_equal(out->descriptors, 0); /* J3: before what they might concern */
			parse_revoke(toy, &lo, block, out);
			index = next_index(toy, index);
			break;
		case JBD2_DESCRIPTOR_BLOCK:
			index = parse_descriptor(toy, &lo, image, index, out);
			break;
		default:
			assert_int_equal(be32_get(h->h_blocktype), JBD2_COMMIT_BLOCK);
			assert_true(commit_block_csum_ok(&lo, block));
			memcpy(&out->commit, block, sizeof(out->commit));
			out->end = next_index(toy, index);
			return;
		}
	}
}
