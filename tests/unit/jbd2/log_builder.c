/* SPDX-License-Identifier: MIT */
#include "log_builder.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checksum.h"

#define MAGIC 0xC03B3998u
#define LOG_BLK 3u            /* the log's first block on the device */
#define LOG_SPLIT 700u        /* log blocks from here on lie elsewhere */
#define LOG_GAP 5u
#define UUID_POS 0x30u

enum { TYPE_DESC = 1, TYPE_COMMIT = 2, TYPE_SUPER_V2 = 4, TYPE_REVOKE = 5 };
enum { FLAG_ESCAPE = 1, FLAG_SAME_UUID = 2, FLAG_LAST = 8 };

void builder_put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, 4);
}

uint32_t builder_get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, 4);
	return be32toh(value);
}

fsblk_t builder_log_blk(const struct builder *b, uint32_t index)
{
	return LOG_BLK + index + (index >= LOG_SPLIT ? LOG_GAP : 0);
}

fsblk_t builder_home(const struct builder *b, uint32_t n)
{
	return LOG_BLK + b->opt.log_blocks + LOG_GAP + n;
}

uint8_t *builder_log(struct builder *b, uint32_t index)
{
	return b->image + builder_log_blk(b, index) * b->opt.block_bytes;
}

uint32_t builder_super32(struct builder *b, uint32_t pos)
{
	return builder_get32(builder_log(b, 0) + pos);
}

static bool has_tails(const struct builder *b)
{
	return b->opt.csum >= 2;
}

static uint32_t csum_seed(struct builder *b)
{
	return crc32c(~0u, builder_log(b, 0) + UUID_POS, 16);
}

static void header_put(struct builder *b, uint8_t *block, uint32_t type)
{
	memset(block, 0, b->opt.block_bytes);
	builder_put32(block, MAGIC);
	builder_put32(block + 4, type);
	builder_put32(block + 8, b->tid);
}

static void super_put(struct builder *b)
{
	const struct builder_options *opt = &b->opt;
	uint8_t *sb = builder_log(b, 0);
	uint32_t incompat = 1;

	builder_put32(sb, MAGIC);
	builder_put32(sb + 4, TYPE_SUPER_V2);
	builder_put32(sb + 0xc, opt->block_bytes);
	builder_put32(sb + 0x10, opt->log_blocks);
	builder_put32(sb + 0x14, 1);
	builder_put32(sb + 0x18, opt->first_tid);
	builder_put32(sb + 0x1c, b->index);
	builder_put32(sb + 0x24, opt->csum == 1);
	incompat |= opt->is_64bit ? 2 : 0;
	incompat |= opt->async_commit ? 4 : 0;
	incompat |= opt->csum == 2 ? 8 : 0;
	incompat |= opt->csum == 3 ? 0x10 : 0;
	incompat |= opt->fc_blocks ? 0x20 : 0;
	builder_put32(sb + 0x28, incompat);
	for (int i = 0; i < 16; i++)
		sb[UUID_POS + i] = (uint8_t)(0xa0 + i);
	builder_put32(sb + 0x40, 1);
	sb[0x50] = has_tails(b) ? 4 : 0;
	builder_put32(sb + 0x54, opt->fc_default ? 0 : opt->fc_blocks);
	if (has_tails(b))
		builder_put32(sb + 0xfc, crc32c(~0u, sb, 1024));
}

void builder_init(struct builder *b, const struct builder_options *opt)
{
	*b = (struct builder){ .opt = *opt, .tid = opt->first_tid, .crc = ~0u, .commit_sec = 1000 };
	b->end = opt->log_blocks - opt->fc_blocks;
	b->index = opt->start ? opt->start : 1;
	b->image_bytes = (builder_home(b, opt->home_blocks)) * opt->block_bytes;
	b->image = memset(image_memory(b->image_bytes), 0, b->image_bytes);
	super_put(b);
}

void builder_exit(struct builder *b)
{
	image_memory_free(b->image);
	free(b->tags);
	free(b->revokes);
}

static uint32_t next_index(struct builder *b)
{
	uint32_t index = b->index;

	b->index = index + 1 == b->end ? 1 : index + 1;
	return index;
}

void builder_fill(const struct builder *b, uint8_t *data, fsblk_t blk, uint64_t version)
{
	uint64_t word = blk << 32 ^ version;

	for (uint32_t i = 0; i < b->opt.block_bytes; i += 8)
		memcpy(data + i, &word, 8);
	if (version & VERSION_ESCAPED)
		builder_put32(data, MAGIC);
}

void builder_block(struct builder *b, fsblk_t blk, uint64_t version)
{
	if (b->tag_count == b->tag_room) {
		b->tag_room = b->tag_room ? b->tag_room * 2 : 64;
		b->tags = realloc(b->tags, b->tag_room * sizeof(b->tags[0]));
		assert_non_null(b->tags);
	}
	b->tags[b->tag_count++] = (struct builder_tag){ blk, version };
}

void builder_revoke(struct builder *b, fsblk_t blk)
{
	if (b->revoke_count == b->revoke_room) {
		b->revoke_room = b->revoke_room ? b->revoke_room * 2 : 64;
		b->revokes = realloc(b->revokes, b->revoke_room * sizeof(b->revokes[0]));
		assert_non_null(b->revokes);
	}
	b->revokes[b->revoke_count++] = blk;
}

static uint32_t csum_at(struct builder *b, uint8_t *block, uint32_t pos)
{
	builder_put32(block + pos, 0);
	return crc32c(csum_seed(b), block, b->opt.block_bytes);
}

void builder_seal_tail(struct builder *b, uint32_t index)
{
	uint8_t *block = builder_log(b, index);

	if (has_tails(b))
		builder_put32(block + b->opt.block_bytes - 4, csum_at(b, block, b->opt.block_bytes - 4));
}

void builder_seal_commit(struct builder *b, uint32_t index)
{
	uint8_t *block = builder_log(b, index);

	if (has_tails(b))
		builder_put32(block + 0x10, csum_at(b, block, 0x10));
}

static uint32_t tag_put(struct builder *b, uint8_t *at, fsblk_t blk, uint32_t flags, const uint8_t *data)
{
	uint8_t tid[4];
	uint32_t csum, len = 8;

	builder_put32(tid, b->tid);
	csum = crc32c(crc32c(csum_seed(b), tid, 4), data, b->opt.block_bytes);
	builder_put32(at, (uint32_t)blk);
	if (b->opt.csum == 3) {
		builder_put32(at + 4, flags);
		builder_put32(at + 8, b->opt.is_64bit ? (uint32_t)(blk >> 32) : 0);
		builder_put32(at + 12, csum);
		return 16;
	}
	builder_put32(at + 4, (b->opt.csum == 2 ? csum << 16 : 0) | flags);
	if (b->opt.is_64bit) {
		builder_put32(at + 8, (uint32_t)(blk >> 32));
		len = 12;
	}
	return len + (b->opt.csum == 2 ? 2 : 0);
}

static void crc_add(struct builder *b, const uint8_t *block)
{
	b->crc = crc32_be(b->crc, block, b->opt.block_bytes);
}

/* Writes one descriptor and its blocks; returns how many tags went into it. */
static uint32_t descriptor_put(struct builder *b, const struct builder_tag *tags, uint32_t count)
{
	uint32_t limit = b->opt.block_bytes - (has_tails(b) ? 4 : 0), pos = 12, done = 0;
	uint8_t *desc;

	b->desc_index = next_index(b);
	desc = builder_log(b, b->desc_index);
	header_put(b, desc, TYPE_DESC);
	while (done < count) {
		const struct builder_tag *t = &tags[done];
		bool escaped = t->version & VERSION_ESCAPED, last = done + 1 == count || pos + 3 * 16 + 16 > limit;
		uint32_t flags = (escaped ? FLAG_ESCAPE : 0) | (done ? FLAG_SAME_UUID : 0) | (last ? FLAG_LAST : 0);
		uint8_t *data;

		b->data_index = next_index(b);
		data = builder_log(b, b->data_index);
		builder_fill(b, data, t->blk, t->version);
		if (escaped)
			builder_put32(data, 0);
		pos += tag_put(b, desc + pos, t->blk, flags, data);
		if (!done++) {
			memcpy(desc + pos, builder_log(b, 0) + UUID_POS, 16);
			pos += 16;
		}
		if (last)
			break;
	}
	builder_seal_tail(b, b->desc_index);
	return done;
}

static void descriptors_put(struct builder *b)
{
	uint32_t done = 0;

	while (done < b->tag_count) {
		uint32_t before = b->index, count = descriptor_put(b, b->tags + done, b->tag_count - done);

		for (uint32_t i = 0, index = before; i <= count; i++, index = index + 1 == b->end ? 1 : index + 1)
			crc_add(b, builder_log(b, index));
		done += count;
	}
	b->tag_count = 0;
}

static void revokes_put(struct builder *b)
{
	uint32_t limit = b->opt.block_bytes - (has_tails(b) ? 4 : 0), bytes = b->opt.is_64bit ? 8 : 4, done = 0;

	while (done < b->revoke_count) {
		uint8_t *block = builder_log(b, b->revoke_index = next_index(b));
		uint32_t pos = 16;

		header_put(b, block, TYPE_REVOKE);
		for (; done < b->revoke_count && pos + bytes <= limit; pos += bytes) {
			fsblk_t blk = b->revokes[done++];

			if (bytes == 8)
				builder_put32(block + pos, (uint32_t)(blk >> 32));
			builder_put32(block + pos + bytes - 4, (uint32_t)blk);
		}
		builder_put32(block + 12, pos);
		builder_seal_tail(b, b->revoke_index);
	}
	b->revoke_count = 0;
}

void builder_flush(struct builder *b)
{
	revokes_put(b);
	descriptors_put(b);
}

void builder_commit(struct builder *b)
{
	uint8_t *block;

	builder_flush(b);
	b->commit_index = next_index(b);
	block = builder_log(b, b->commit_index);
	header_put(b, block, TYPE_COMMIT);
	builder_put32(block + 0x34, (uint32_t)++b->commit_sec);
	if (b->opt.csum == 1) {
		block[0xc] = 1;
		block[0xd] = 4;
		builder_put32(block + 0x10, b->crc);
	}
	builder_seal_commit(b, b->commit_index);
	b->crc = ~0u;
	b->tid++;
}

bool builder_holds(const struct builder *b, const uint8_t *image, uint32_t n, uint64_t version)
{
	uint8_t *data = calloc(1, b->opt.block_bytes);
	fsblk_t blk = builder_home(b, n);
	bool same;

	assert_non_null(data);
	if (version)
		builder_fill(b, data, blk, version);
	same = !memcmp(data, image + blk * b->opt.block_bytes, b->opt.block_bytes);
	free(data);
	return same;
}

/* ---- recovery ---- */

static void runner_log(void *arg, int level, const char *text)
{
	struct runner *r = arg;

	if (level == LOG_ERROR)
		snprintf(r->last_error, sizeof(r->last_error), "%s", text);
	if (level == LOG_INFO && strstr(text, "recovery complete"))
		r->reported = true;
}

static int runner_map(void *arg, uint32_t index, fsblk_t *blk_out)
{
	*blk_out = builder_log_blk(arg, index);
	return 0;
}

struct runner *runner_create(struct builder *b, const uint8_t *image)
{
	struct runner *r = aligned_alloc(64, round_up_to(sizeof(*r), 64));
	struct cache_options options;

	assert_non_null(r);
	memset(r, 0, sizeof(*r));
	r->b = b;
	r->sink = (struct log_sink){ runner_log, r };
	r->image = image_memory_copy(image, b->image_bytes);
	assert_int_equal(block_open_memory(b->image_bytes, r->image, &r->memory), 0);
	assert_int_equal(block_open_fault(r->memory, 1, &r->fault), 0);
	assert_int_equal(block_open_record(r->fault, &r->record), 0);
	options = (struct cache_options){
		.limit_bytes = 16u << 20, .dirty_expire_ns = UINT64_MAX, .counters = &r->counters, .log = &r->sink,
	};
	assert_int_equal(cache_create(&options, &r->cache), 0);
	assert_int_equal(buffer_cache_create(r->cache, r->record, b->opt.block_bytes, &r->sink, &r->bc), 0);
	r->params = (struct journal_params){
		.log_dev = r->record, .map_log_block = runner_map, .map_arg = b, .log_blocks = b->opt.log_blocks,
		.block_bytes = b->opt.block_bytes, .bc = r->bc, .fs_blocks = builder_home(b, b->opt.home_blocks),
		.counters = &r->counters, .log = &r->sink, .barriers = true,
	};
	return r;
}

int runner_recover(struct runner *r)
{
	struct journal *j;
	int err = journal_open(&r->params, &j);

	if (err)
		return err;
	err = journal_recover(j, &r->info);
	if (!err)
		assert_int_equal(journal_needs_recovery(j), (r->params.read_only && r->info.needed) || r->info.fast_commits);
	assert_int_equal(journal_close(j), 0);
	return err;
}

void runner_destroy(struct runner *r)
{
	buffer_cache_destroy(r->bc);
	cache_destroy(r->cache);
	assert_int_equal(block_close(r->record), 0);
	image_memory_free(r->image);
	free(r);
}
