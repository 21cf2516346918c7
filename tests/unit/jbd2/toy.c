/* SPDX-License-Identifier: MIT */
/* toy.c - a client of the journal that is no file system */
#include "toy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "jbd2/csum.h"

static void toy_log(void *arg, int level, const char *text)
{
	struct toy *toy = arg;

	if (level <= LOG_ERROR)
		atomic_fetch_add(&toy->logged_errors, 1);
	if (getenv("UEXT4_TEST_VERBOSE"))
		fprintf(stderr, "[%d] %s\n", level, text);
}

static void toy_on_abort(void *arg, int err)
{
	struct toy *toy = arg;

	atomic_store(&toy->aborted, err);
}

/* Two extents, the second before the first, so that runs break in mid-log. */
static fsblk_t log_blk(const struct toy_options *opt, uint32_t index)
{
	uint32_t half = opt->log_blocks / 2;

	return TOY_LOG_FIRST + (index < half ? opt->log_blocks - half + index : index - half);
}

static int toy_map(void *arg, uint32_t index, fsblk_t *blk_out)
{
	const struct toy *toy = arg;

	*blk_out = log_blk(&toy->opt, index);
	return 0;
}

fsblk_t toy_log_blk(const struct toy *toy, uint32_t index)
{
	return log_blk(&toy->opt, index);
}

fsblk_t toy_home(const struct toy *toy, uint32_t n)
{
	return TOY_LOG_FIRST + toy->opt.log_blocks + n;
}

uint64_t toy_count(const struct toy *toy, enum counter_id id)
{
	return counter_read(toy->counters, id);
}

static void format_journal(struct toy *toy)
{
	const struct toy_options *opt = &toy->opt;
	struct journal_superblock *sb = (void *)(toy->image + log_blk(opt, 0) * opt->block_bytes);

	memset(sb, 0, sizeof(*sb));
	sb->s_header.h_magic = be32_make(JBD2_MAGIC);
	sb->s_header.h_blocktype = be32_make(JBD2_SUPERBLOCK_V2);
	sb->s_blocksize = be32_make(opt->block_bytes);
	sb->s_maxlen = be32_make(opt->log_blocks);
	sb->s_first = be32_make(1);
	sb->s_sequence = be32_make(opt->first_tid);
	sb->s_nr_users = be32_make(1);
	memset(sb->s_uuid, 0xA5, sizeof(sb->s_uuid));
	if (opt->fc_blocks) {
		sb->s_feature_incompat = be32_make(JBD2_INCOMPAT_FAST_COMMIT);
		sb->s_num_fc_blks = be32_make(opt->fc_blocks);
	}
}

static void open_devices(struct toy *toy)
{
	assert_int_equal(block_open_memory(toy->image_bytes, toy->image, &toy->memory), 0);
	toy->dev = toy->memory;
	if (toy->opt.fault) {
		assert_int_equal(block_open_fault(toy->dev, 1, &toy->fault), 0);
		toy->dev = toy->fault;
	}
	if (toy->opt.record) {
		toy->start_image = image_memory_copy(toy->image, toy->image_bytes);
		assert_int_equal(block_open_record(toy->dev, &toy->record), 0);
		toy->dev = toy->record;
	}
}

static void open_caches(struct toy *toy)
{
	struct cache_options options = {
		.limit_bytes = toy->opt.cache_bytes ? toy->opt.cache_bytes : UINT64_C(64) << 20,
		.counters = toy->counters,
		.log = &toy->sink,
	};

	toy->cache = toy->opt.cache;
	if (!toy->cache)
		assert_int_equal(cache_create(&options, &toy->cache), 0);
	assert_int_equal(buffer_cache_create(toy->cache, toy->dev, toy->opt.block_bytes, options.log, &toy->bc), 0);
}

static void open_journal(struct toy *toy)
{
	struct journal_params params = {
		.log_dev = toy->dev, .map_log_block = toy_map, .map_arg = toy, .log_blocks = toy->opt.log_blocks,
		.block_bytes = toy->opt.block_bytes, .bc = toy->bc,
		.fs_blocks = TOY_LOG_FIRST + toy->opt.log_blocks + toy->opt.home_blocks, .counters = toy->counters,
		.log = &toy->sink, .barriers = !toy->opt.no_barriers, .async_commit = toy->opt.async_commit,
		.on_abort = toy_on_abort, .abort_arg = toy,
	};

	assert_int_equal(journal_open(&params, &toy->j), 0);
}

static void toy_prepare(struct toy *toy, const struct toy_options *opt)
{
	*toy = (struct toy){ .opt = *opt };
	toy->sink = (struct log_sink){ .func = toy_log, .arg = toy };
	toy->image_bytes = (uint64_t)(TOY_LOG_FIRST + opt->log_blocks + opt->home_blocks) * opt->block_bytes;
	toy->image = image_memory(toy->image_bytes);
	toy->counters = aligned_alloc(64, sizeof(*toy->counters));
	assert_non_null(toy->counters);
	memset(toy->counters, 0, sizeof(*toy->counters));
}

void toy_open(struct toy *toy, const struct toy_options *opt)
{
	toy_prepare(toy, opt);
	memset(toy->image, 0, toy->image_bytes);
	format_journal(toy);
	open_devices(toy);
	open_caches(toy);
	open_journal(toy);
	assert_int_equal(journal_start_running(toy->j, opt->csum_v3, opt->is_64bit), 0);
}

void toy_open_image(struct toy *toy, const struct toy_options *opt, const uint8_t *image, bool recover_only,
		    struct journal_recovery_info *info_out)
{
	struct journal_recovery_info info = { 0 };

	toy_prepare(toy, opt);
	memcpy(toy->image, image, toy->image_bytes);
	open_devices(toy);
	open_caches(toy);
	open_journal(toy);
	if (journal_needs_recovery(toy->j))
		assert_int_equal(journal_recover(toy->j, &info), 0);
	assert_false(journal_needs_recovery(toy->j));
	if (!recover_only)
		assert_int_equal(journal_start_running(toy->j, opt->csum_v3, opt->is_64bit), 0);
	if (info_out)
		*info_out = info;
}

int toy_close(struct toy *toy)
{
	int err = journal_close(toy->j);

	buffer_cache_destroy(toy->bc);
	if (!toy->opt.cache)
		cache_destroy(toy->cache);
	block_close(toy->dev);
	image_memory_free(toy->start_image);
	image_memory_free(toy->image);
	free(toy->counters);
	return err;
}

void toy_kill(struct toy *toy)
{
	journal_abort(toy->j, -EIO);
	toy_close(toy);
}

/* ---- blocks ---- */

static uint64_t stamp(uint32_t n, uint64_t version)
{
	return (uint64_t)n << 48 | version;
}

void toy_fill(const struct toy *toy, uint8_t *data, uint32_t n, uint64_t version)
{
	uint64_t value = stamp(n, version);

	for (uint32_t i = 0; i < toy->opt.block_bytes; i += sizeof(value))
		memcpy(data + i, &value, sizeof(value));
}

uint64_t toy_version_in(const struct toy *toy, const uint8_t *image, uint32_t n)
{
	const uint8_t *data = image + toy_home(toy, n) * toy->opt.block_bytes;
	uint64_t first, value;

	memcpy(&first, data, sizeof(first));
	for (uint32_t i = 0; i < toy->opt.block_bytes; i += sizeof(value)) {
		memcpy(&value, data + i, sizeof(value));
		if (value != first)
			return UINT64_MAX;
	}
	if (first == 0)
		return 0;
	return first >> 48 == n ? first & ((UINT64_C(1) << 48) - 1) : UINT64_MAX;
}

static int change(struct toy *toy, struct handle *h, uint32_t n, uint64_t version, bool create)
{
	struct buffer_head *bh;
	int err = create ? buffer_get(toy->bc, toy_home(toy, n), &bh) : buffer_read(toy->bc, toy_home(toy, n), &bh);

	if (err)
		return err;
	err = create ? journal_get_create_access(h, bh) : journal_get_write_access(h, bh);
	if (!err) {
		buffer_lock(bh);
		toy_fill(toy, bh->data, n, version);
		buffer_set(bh, BH_UPTODATE);
		buffer_unlock(bh);
		err = journal_dirty_metadata(h, bh);
	}
	buffer_put(bh);
	return err;
}

int toy_write(struct toy *toy, struct handle *h, uint32_t n, uint64_t version)
{
	return change(toy, h, n, version, false);
}

int toy_create(struct toy *toy, struct handle *h, uint32_t n, uint64_t version)
{
	return change(toy, h, n, version, true);
}

int toy_free(struct toy *toy, struct handle *h, uint32_t n)
{
	return journal_revoke(h, toy_home(toy, n), NULL);
}

tid_t toy_write_one(struct toy *toy, uint32_t n, uint64_t version)
{
	struct handle h;

	assert_int_equal(journal_start(toy->j, 1, 0, &h), 0);
	assert_int_equal(toy_write(toy, &h, n, version), 0);
	assert_int_equal(journal_stop(&h), 0);
	return h.tid;
}

uint8_t *toy_cut(struct toy *toy, size_t cut, enum record_cut_kind kind, uint64_t seed)
{
	uint8_t *image = image_memory_copy(toy->start_image, toy->image_bytes);

	record_build_image(toy->record, cut, kind, seed, image);
	return image;
}
