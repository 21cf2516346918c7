/* SPDX-License-Identifier: MIT */
/* Recovery of journals written by hand (log_builder.h), in every format, sound, cut off and damaged. */
#include "log_builder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checksum.h"

#define HOME_BLOCKS 200u
#define SUPER_SEQUENCE 0x18
#define SUPER_START 0x1c

static struct builder_options options(int csum)
{
	return (struct builder_options){
		.block_bytes = 1024, .log_blocks = 1100, .home_blocks = HOME_BLOCKS, .csum = csum, .first_tid = 100,
	};
}

/* What each home block must hold. */
struct model {
	uint64_t version[HOME_BLOCKS]; /* logged last, of a transaction that counts */
	uint64_t before[HOME_BLOCKS];  /* logged before the open transaction */
};

static void log_block(struct builder *b, struct model *m, uint32_t n, uint64_t version)
{
	builder_block(b, builder_home(b, n), version);
	m->version[n] = version;
}

/* All that was logged so far and in this transaction is forbidden. */
static void log_revoke(struct builder *b, struct model *m, uint32_t n)
{
	builder_revoke(b, builder_home(b, n));
	m->version[n] = 0;
}

static void assert_model(const struct builder *b, const uint8_t *image, const struct model *m)
{
	for (uint32_t n = 0; n < HOME_BLOCKS; n++)
		if (!builder_holds(b, image, n, m->version[n]))
			fail_msg("home block %u does not hold version %llx", n, (unsigned long long)m->version[n]);
}

static void assert_log_reset(struct builder *b, const uint8_t *image, tid_t sequence)
{
	const uint8_t *sb = image + builder_log_blk(b, 0) * b->opt.block_bytes;

	assert_int_equal(builder_get32(sb + SUPER_START), 0);
	assert_int_equal(builder_get32(sb + SUPER_SEQUENCE), sequence);
}

/* Nothing at all was written. */
static void assert_untouched(struct runner *r)
{
	assert_memory_equal(r->image, r->b->image, r->b->image_bytes);
	assert_false(r->reported);
}

/* Recovers a copy of @b's image, which must work, and compares. */
static void assert_recovers(struct builder *b, const struct model *m, tid_t end_tid)
{
	struct runner *r = runner_create(b, b->image);

	assert_int_equal(runner_recover(r), 0);
	assert_true(r->info.needed);
	assert_int_equal(r->info.first_tid, b->opt.first_tid);
	assert_int_equal(r->info.end_tid, end_tid);
	assert_int_equal(r->info.transactions, end_tid - b->opt.first_tid);
	assert_true(r->reported);
	assert_model(b, r->image, m);
	assert_log_reset(b, r->image, end_tid);
	runner_destroy(r);
}

static void assert_refuses(struct builder *b, int err)
{
	struct runner *r = runner_create(b, b->image);

	assert_int_equal(runner_recover(r), err);
	assert_string_not_equal(r->last_error, "");
	assert_untouched(r);
	runner_destroy(r);
}

/* ---- sound logs ---- */

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void log_random_transaction(struct builder *b, struct model *m, uint32_t *random)
{
	uint32_t count = 1 + next_random(random) % 90;
	bool used[HOME_BLOCKS] = { false };

	for (uint32_t i = 0; i < count; i++) {
		uint32_t n = next_random(random) % HOME_BLOCKS;
		uint64_t version = 1 + next_random(random);

		if (used[n])
			continue;
		used[n] = true;
		if (next_random(random) % 8 == 0)
			log_revoke(b, m, n);
		else
			log_block(b, m, n, version | (next_random(random) % 8 ? 0 : VERSION_ESCAPED));
	}
	builder_commit(b);
}

static void run_random(struct builder_options opt, uint32_t random)
{
	struct model m = { 0 };
	struct builder b;

	builder_init(&b, &opt);
	for (int i = 0; i < 14; i++) /* at most 98 blocks each: the log is not full */
		log_random_transaction(&b, &m, &random);
	assert_recovers(&b, &m, opt.first_tid + 14);
	builder_exit(&b);
}

static void every_format_is_replayed(void **state)
{
	uint32_t seed = 1;

	for (int csum = 0; csum <= 3; csum++)
		for (int wide = 0; wide <= 1; wide++)
			for (int async = 0; async <= 1; async++)
				for (uint32_t block_bytes = 1024; block_bytes <= 16384; block_bytes *= 4) {
					struct builder_options opt = options(csum);

					opt.log_blocks = 1500;
					opt.block_bytes = block_bytes;
					opt.is_64bit = wide;
					opt.async_commit = async;
					run_random(opt, seed++);
				}
}

static void log_wraps_at_its_end(void **state)
{
	for (int csum = 0; csum <= 3; csum++)
		for (uint32_t back = 1; back < 60; back += 7) {
			struct builder_options opt = options(csum);

			opt.log_blocks = 1500;
			opt.start = opt.log_blocks - back;
			run_random(opt, back);
		}
}

static void log_wraps_before_the_fast_commit_area(void **state)
{
	for (int deflt = 0; deflt <= 1; deflt++) {
		struct builder_options opt = options(3);

		opt.log_blocks = 1500;
		opt.fc_blocks = deflt ? 256 : 100;
		opt.fc_default = deflt;
		opt.start = opt.log_blocks - opt.fc_blocks - 20;
		run_random(opt, 77);
	}
}

static void sequence_numbers_wrap(void **state)
{
	for (int csum = 0; csum <= 3; csum++) {
		struct builder_options opt = options(csum);

		opt.log_blocks = 1500;
		opt.first_tid = 0xfffffffau;
		run_random(opt, 5);
	}
}

static void clean_journal_needs_nothing(void **state)
{
	struct builder_options opt = options(3);
	struct builder b;
	struct runner *r;

	builder_init(&b, &opt);
	builder_put32(builder_log(&b, 0) + SUPER_START, 0);
	builder_put32(builder_log(&b, 0) + 0xfc, 0);
	builder_put32(builder_log(&b, 0) + 0xfc, crc32c(~0u, builder_log(&b, 0), 1024));
	r = runner_create(&b, b.image);
	assert_int_equal(runner_recover(r), 0);
	assert_false(r->info.needed);
	assert_untouched(r);
	runner_destroy(r);
	builder_exit(&b);
}

static void log_full_of_transactions_ends(void **state)
{
	struct builder_options opt = options(0);
	struct builder b;
	struct model m = { 0 };

	builder_init(&b, &opt);
	for (uint32_t i = 1; i < opt.log_blocks; i++)
		builder_commit(&b);
	/* The block after the last is the first again, and the number it carries is made the one expected. */
	builder_put32(builder_log(&b, 1) + 8, opt.first_tid);
	assert_recovers(&b, &m, opt.first_tid + opt.log_blocks - 1);
	builder_exit(&b);
}

static void each_block_goes_home_once_in_long_runs(void **state)
{
	struct builder_options opt = options(3);
	struct builder b;
	struct model m = { 0 };
	struct runner *r;
	uint64_t bytes = 0;
	size_t writes = 0;

	builder_init(&b, &opt);
	for (uint64_t version = 1; version <= 4; version++) {
		for (uint32_t n = 0; n < HOME_BLOCKS; n++)
			log_block(&b, &m, n * 7 % HOME_BLOCKS, version);
		builder_commit(&b);
	}
	r = runner_create(&b, b.image);
	assert_int_equal(runner_recover(r), 0);
	assert_model(&b, r->image, &m);
	assert_int_equal(r->info.blocks_replayed, HOME_BLOCKS);
	for (size_t i = 0; i < record_count(r->record); i++) {
		const struct record_entry *e = record_get(r->record, i);

		if (e->op == BIO_WRITE && e->pos_bytes >= builder_home(&b, 0) * opt.block_bytes) {
			bytes += e->len_bytes;
			writes++;
		}
	}
	assert_int_equal(bytes, HOME_BLOCKS * opt.block_bytes);
	assert_true(writes <= 4);
	runner_destroy(r);
	builder_exit(&b);
}

/* ---- J3 ---- */

static void revoked_block_is_replayed_from_later_transactions_only(void **state)
{
	struct builder_options opt = options(3);
	struct builder b;
	struct model m = { 0 };
	struct runner *r;

	builder_init(&b, &opt);
	for (uint32_t n = 0; n < 6; n++)
		log_block(&b, &m, n, 1);
	builder_commit(&b);
	log_revoke(&b, &m, 1);                         /* never again */
	log_revoke(&b, &m, 2);                         /* again later */
	builder_block(&b, builder_home(&b, 3), 2);
	log_revoke(&b, &m, 3);                         /* in the same transaction: forbidden too */
	builder_commit(&b);
	log_block(&b, &m, 2, 3);
	log_revoke(&b, &m, 4);
	builder_commit(&b);
	log_block(&b, &m, 5, 4);
	builder_commit(&b);
	r = runner_create(&b, b.image);
	assert_int_equal(runner_recover(r), 0);
	assert_model(&b, r->image, &m);
	assert_int_equal(r->info.revokes_seen, 4);
	assert_int_equal(r->info.revokes_hit, 5); /* 1, 2, 3 twice, 4 */
	assert_int_equal(r->info.blocks_replayed, 3);
	runner_destroy(r);
	builder_exit(&b);
}

static void newest_of_several_revokes_counts_across_the_number_wrap(void **state)
{
	struct builder_options opt = options(3);
	struct builder b;
	struct model m = { 0 };

	opt.first_tid = 0xfffffffeu;
	builder_init(&b, &opt);
	log_revoke(&b, &m, 1);
	log_block(&b, &m, 2, 1);
	builder_commit(&b);
	log_block(&b, &m, 1, 2);
	builder_commit(&b);
	log_revoke(&b, &m, 1);   /* number 0 */
	log_revoke(&b, &m, 2);
	builder_commit(&b);
	log_block(&b, &m, 2, 3); /* number 1 */
	builder_commit(&b);
	assert_recovers(&b, &m, 2);
	builder_exit(&b);
}

static void revokes_of_an_uncommitted_transaction_do_not_count(void **state)
{
	struct builder_options opt = options(3);
	struct builder b;
	struct model m = { 0 };

	builder_init(&b, &opt);
	log_block(&b, &m, 1, 1);
	builder_commit(&b);
	builder_revoke(&b, builder_home(&b, 1));
	builder_block(&b, builder_home(&b, 2), 2);
	builder_flush(&b);
	assert_recovers(&b, &m, opt.first_tid + 1);
	builder_exit(&b);
}

static void million_revoke_records_are_kept(void **state)
{
	struct builder_options opt = options(3);
	struct builder b;
	struct model m = { 0 };
	struct runner *r;

	opt.block_bytes = 4096;
	opt.log_blocks = 1400;
	builder_init(&b, &opt);
	for (uint32_t n = 0; n < HOME_BLOCKS; n++)
		log_block(&b, &m, n, 1);
	builder_commit(&b);
	for (uint32_t blk = 1000000; blk > 0; blk--)
		builder_revoke(&b, blk);
	memset(&m, 0, sizeof(m));
	builder_commit(&b);
	log_block(&b, &m, 0, 2);
	builder_commit(&b);
	r = runner_create(&b, b.image);
	assert_int_equal(runner_recover(r), 0);
	assert_model(&b, r->image, &m);
	assert_int_equal(r->info.revokes_seen, 1000000);
	assert_int_equal(r->info.revokes_hit, HOME_BLOCKS);
	runner_destroy(r);
	builder_exit(&b);
}

/* ---- where the log ends ---- */

/* Three transactions that write block i: version i + 1; the last is then damaged by the test. */
static void build_three(struct builder *b, struct model *m, struct builder_options opt)
{
	builder_init(b, &opt);
	*m = (struct model){ 0 };
	for (uint32_t i = 0; i < 3; i++) {
		memcpy(m->before, m->version, sizeof(m->before));
		log_block(b, m, i, i + 1);
		builder_commit(b);
	}
}

static void drop_last(struct model *m)
{
	memcpy(m->version, m->before, sizeof(m->version));
}

static void transaction_without_commit_block_is_dropped(void **state)
{
	for (int csum = 0; csum <= 3; csum++) {
		struct builder b;
		struct model m;

		build_three(&b, &m, options(csum));
		memset(builder_log(&b, b.commit_index), 0, b.opt.block_bytes);
		drop_last(&m);
		assert_recovers(&b, &m, b.opt.first_tid + 2);
		builder_exit(&b);
	}
}

static void block_of_unknown_type_ends_the_log(void **state)
{
	struct builder b;
	struct model m;

	build_three(&b, &m, options(0));
	builder_put32(builder_log(&b, b.desc_index) + 4, 9);
	drop_last(&m);
	assert_recovers(&b, &m, b.opt.first_tid + 2);
	builder_exit(&b);
}

static void stale_blocks_behind_the_end_are_not_reused_as_continuation(void **state)
{
	struct builder_options opt = options(0);
	struct builder b;
	struct model m;
	uint32_t index;

	build_three(&b, &m, opt);
	index = b.index;
	b.tid--; /* an older life of the log had a transaction of this number here */
	builder_block(&b, builder_home(&b, 9), 9);
	builder_commit(&b);
	assert_int_not_equal(index, b.index);
	assert_recovers(&b, &m, opt.first_tid + 3);
	builder_exit(&b);
}

static void last_commit_with_wrong_checksum_is_an_interrupted_one(void **state)
{
	for (int csum = 1; csum <= 3; csum++)
		for (int async = 0; async <= 1; async++) {
			struct builder_options opt = options(csum);
			struct builder b;
			struct model m;

			opt.async_commit = async;
			build_three(&b, &m, opt);
			builder_log(&b, b.commit_index)[0x10] ^= 1;
			drop_last(&m);
			/* The number of the transaction that was dropped is on disk: the next one skips it. */
			struct runner *r = runner_create(&b, b.image);

			assert_int_equal(runner_recover(r), 0);
			assert_int_equal(r->info.end_tid, opt.first_tid + 2);
			assert_model(&b, r->image, &m);
			assert_log_reset(&b, r->image, opt.first_tid + 3);
			runner_destroy(r);
			builder_exit(&b);
		}
}

static void commit_with_wrong_checksum_and_a_later_commit_is_corruption(void **state)
{
	for (int csum = 1; csum <= 3; csum++)
		for (int async = 0; async <= 1; async++) {
			struct builder_options opt = options(csum);
			struct builder b;
			struct model m;

			opt.async_commit = async;
			build_three(&b, &m, opt);
			builder_log(&b, b.commit_index)[0x10] ^= 1;
			builder_block(&b, builder_home(&b, 9), 9);
			builder_commit(&b);
			assert_refuses(&b, -EBADMSG);
			builder_exit(&b);
		}
}

static void older_commit_with_wrong_checksum_is_stale(void **state)
{
	for (int csum = 2; csum <= 3; csum++) {
		struct builder b;
		struct model m;
		struct runner *r;

		build_three(&b, &m, options(csum));
		builder_put32(builder_log(&b, b.commit_index) + 0x34, 1); /* seconds; the checksum no longer fits */
		drop_last(&m);
		b.commit_sec = 0;
		builder_block(&b, builder_home(&b, 9), 9);
		builder_commit(&b);
		r = runner_create(&b, b.image);
		assert_int_equal(runner_recover(r), 0);
		assert_int_equal(r->info.end_tid, b.opt.first_tid + 2);
		assert_model(&b, r->image, &m);
		runner_destroy(r);
		builder_exit(&b);
	}
}

static void commit_block_torn_behind_its_header_counts(void **state)
{
	for (int csum = 0; csum <= 3; csum++) {
		struct builder b;
		struct model m;

		build_three(&b, &m, options(csum));
		memset(builder_log(&b, b.commit_index) + 512, 0x5a, b.opt.block_bytes - 512);
		assert_recovers(&b, &m, b.opt.first_tid + 3);
		builder_exit(&b);
	}
}

static void damaged_descriptor_of_a_committed_transaction_is_corruption(void **state)
{
	for (int csum = 2; csum <= 3; csum++)
		for (int kind = 0; kind <= 1; kind++) {
			struct builder_options opt = options(csum);
			struct builder b;

			builder_init(&b, &opt);
			builder_revoke(&b, 5);
			builder_block(&b, builder_home(&b, 1), 1);
			builder_commit(&b);
			builder_log(&b, kind ? b.revoke_index : b.desc_index)[opt.block_bytes - 20] ^= 1;
			assert_refuses(&b, -EBADMSG);
			builder_exit(&b);
		}
}

static void damaged_descriptor_of_an_older_life_ends_the_log(void **state)
{
	struct builder b;
	struct model m;

	build_three(&b, &m, options(3));
	builder_log(&b, b.desc_index)[b.opt.block_bytes - 20] ^= 1;
	builder_put32(builder_log(&b, b.commit_index) + 0x34, 1);
	builder_seal_commit(&b, b.commit_index);
	drop_last(&m);
	assert_recovers(&b, &m, b.opt.first_tid + 2);
	builder_exit(&b);
}

static void async_commit_drops_a_last_transaction_whose_blocks_did_not_arrive(void **state)
{
	for (int csum = 1; csum <= 3; csum++)
		for (int kind = 0; kind <= 1; kind++) {
			struct builder_options opt = options(csum);
			struct builder b;
			struct model m;
			struct runner *r;

			opt.async_commit = true;
			build_three(&b, &m, opt);
			builder_log(&b, kind ? b.data_index : b.desc_index)[200] ^= 1;
			drop_last(&m);
			r = runner_create(&b, b.image);
			assert_int_equal(runner_recover(r), 0);
			assert_int_equal(r->info.end_tid, opt.first_tid + 2);
			assert_model(&b, r->image, &m);
			runner_destroy(r);
			builder_exit(&b);
		}
}

static void v1_commit_without_checksum_counts(void **state)
{
	struct builder b;
	struct model m;

	build_three(&b, &m, options(1));
	memset(builder_log(&b, b.commit_index) + 0xc, 0, 8);
	assert_recovers(&b, &m, b.opt.first_tid + 3);
	builder_exit(&b);
}

static void v1_damaged_block_ends_the_log(void **state)
{
	struct builder b;
	struct model m;
	struct runner *r;

	build_three(&b, &m, options(1));
	builder_log(&b, b.data_index)[7] ^= 1;
	drop_last(&m);
	r = runner_create(&b, b.image);
	assert_int_equal(runner_recover(r), 0);
	assert_int_equal(r->info.end_tid, b.opt.first_tid + 2);
	assert_model(&b, r->image, &m);
	runner_destroy(r);
	builder_exit(&b);
}

/* ---- damage that recovery must report ---- */

static void block_with_wrong_checksum_is_skipped_and_reported(void **state)
{
	for (int csum = 2; csum <= 3; csum++) {
		struct builder b;
		struct model m;
		struct runner *r;

		build_three(&b, &m, options(csum));
		builder_log(&b, b.data_index)[7] ^= 1;
		drop_last(&m);
		r = runner_create(&b, b.image);
		assert_int_equal(runner_recover(r), -EBADMSG);
		assert_model(&b, r->image, &m);
		assert_false(r->reported);
		/* The log is as it was, superblock included. */
		assert_memory_equal(r->image, b.image, builder_home(&b, 0) * b.opt.block_bytes);
		runner_destroy(r);
		builder_exit(&b);
	}
}

static void home_blocks_out_of_place_are_refused(void **state)
{
	for (int kind = 0; kind < 4; kind++) {
		struct builder_options opt = options(3);
		struct builder b;
		struct model m;

		opt.is_64bit = true;
		build_three(&b, &m, opt);
		builder_block(&b, kind == 0 ? builder_home(&b, HOME_BLOCKS) :
				  kind == 1 ? UINT64_C(1) << 40 :
				  kind == 2 ? builder_log_blk(&b, 0) : builder_log_blk(&b, 900), 9);
		builder_commit(&b);
		assert_refuses(&b, -EUCLEAN);
		builder_exit(&b);
	}
}

static void revoke_block_with_impossible_count_is_refused(void **state)
{
	static const uint32_t counts[] = { 0, 15, 18, 1021, 1024, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		struct builder_options opt = options(3);
		struct builder b;

		builder_init(&b, &opt);
		builder_revoke(&b, 5);
		builder_block(&b, builder_home(&b, 1), 1);
		builder_commit(&b);
		builder_put32(builder_log(&b, b.revoke_index) + 12, counts[i]);
		builder_seal_tail(&b, b.revoke_index);
		assert_refuses(&b, -EUCLEAN);
		builder_exit(&b);
	}
}

/* Whatever the bytes, recovery comes to an end, and an error of the gathering passes has written nothing. */
static void random_damage_is_survived(void **state)
{
	uint32_t random = 4711;

	for (int round = 0; round < 150; round++) {
		struct builder_options opt = options(round % 4);
		struct model m = { 0 };
		struct builder b;
		struct runner *r;
		int err;

		opt.is_64bit = round & 4;
		opt.log_blocks = 1500;
		builder_init(&b, &opt);
		for (int i = 0; i < 12; i++)
			log_random_transaction(&b, &m, &random);
		for (int i = 0; i < 20; i++) {
			uint8_t *block = builder_log(&b, 1 + next_random(&random) % 900);

			block[next_random(&random) % (i % 2 ? 32 : opt.block_bytes)] = (uint8_t)next_random(&random);
		}
		r = runner_create(&b, b.image);
		err = runner_recover(r);
		assert_true(err == 0 || err == -EUCLEAN || err == -EBADMSG);
		if (err == -EUCLEAN)
			assert_untouched(r);
		runner_destroy(r);
		builder_exit(&b);
	}
}

/* ---- errors and crashes meanwhile ---- */

static void failed_io_leaves_a_log_to_recover_again(void **state)
{
	for (int op = 0; op < 3; op++) {
		struct fault_rule rule = { .nth = 1, .count = 0, .action = FAULT_FAIL, .err = -EIO };
		struct builder b;
		struct model m;
		struct runner *r;

		build_three(&b, &m, options(3));
		r = runner_create(&b, b.image);
		rule.ops = FAULT_OP(op == 0 ? BIO_READ : op == 1 ? BIO_WRITE : BIO_FLUSH);
		rule.start_bytes = op == 0 ? builder_log_blk(&b, b.data_index) * b.opt.block_bytes :
				   op == 1 ? builder_home(&b, 1) * b.opt.block_bytes : 0;
		rule.len_bytes = op == 2 ? 0 : b.opt.block_bytes;
		assert_int_equal(fault_add_rule(r->fault, &rule), 0);
		assert_int_equal(runner_recover(r), -EIO);
		assert_memory_equal(r->image, b.image, builder_home(&b, 0) * b.opt.block_bytes);
		fault_clear_rules(r->fault);
		assert_int_equal(runner_recover(r), 0);
		assert_model(&b, r->image, &m);
		runner_destroy(r);
		builder_exit(&b);
	}
}

/* Cuts the power at every write of a recovery, recovers what is left, and compares. */
static void crash_while_recovering_is_recovered(void **state)
{
	struct builder_options opt = options(3);
	struct model m = { 0 };
	uint32_t random = 99;
	struct builder b;
	struct runner *r;

	opt.log_blocks = 1500;
	builder_init(&b, &opt);
	for (int i = 0; i < 10; i++)
		log_random_transaction(&b, &m, &random);
	r = runner_create(&b, b.image);
	assert_int_equal(runner_recover(r), 0);
	for (size_t cut = 0; cut <= record_count(r->record); cut++)
		for (int kind = RECORD_CUT_KEEPS_ALL; kind <= RECORD_CUT_RANDOM; kind++) {
			uint8_t *image = image_memory_copy(b.image, b.image_bytes);
			struct runner *again;

			record_build_image(r->record, cut, kind, cut, image);
			again = runner_create(&b, image);
			assert_int_equal(runner_recover(again), 0);
			assert_model(&b, again->image, &m);
			runner_destroy(again);
			image_memory_free(image);
		}
	runner_destroy(r);
	builder_exit(&b);
}

static void log_is_reset_only_after_a_flush_of_the_homes(void **state)
{
	struct builder b;
	struct model m;
	struct runner *r;
	bool flushed = false;

	build_three(&b, &m, options(3));
	r = runner_create(&b, b.image);
	r->params.barriers = false;
	assert_int_equal(runner_recover(r), 0);
	for (size_t i = 0; i < record_count(r->record); i++) {
		const struct record_entry *e = record_get(r->record, i);

		if (e->op == BIO_FLUSH)
			flushed = true;
		else if (e->pos_bytes == builder_log_blk(&b, 0) * b.opt.block_bytes)
			assert_true(flushed);
		else
			assert_false(flushed);
	}
	assert_true(flushed);
	runner_destroy(r);
	builder_exit(&b);
}

static void read_only_only_looks(void **state)
{
	struct builder b;
	struct model m;
	struct runner *r;

	build_three(&b, &m, options(3));
	r = runner_create(&b, b.image);
	r->params.read_only = true;
	assert_int_equal(runner_recover(r), 0);
	assert_int_equal(r->info.transactions, 3);
	assert_int_equal(r->info.blocks_replayed, 0);
	assert_int_equal(record_count(r->record), 0);
	assert_untouched(r);
	runner_destroy(r);
	builder_exit(&b);
}

static void stale_cached_buffer_shows_the_replayed_contents(void **state)
{
	struct buffer_head *bh;
	struct builder b;
	struct model m;
	struct runner *r;

	build_three(&b, &m, options(3));
	r = runner_create(&b, b.image);
	assert_int_equal(buffer_read(r->bc, builder_home(&b, 1), &bh), 0);
	buffer_set(bh, BH_VERIFIED);
	assert_int_equal(runner_recover(r), 0);
	assert_false(buffer_test(bh, BH_VERIFIED | BH_DIRTY));
	assert_memory_equal(bh->data, r->image + bh->blk * b.opt.block_bytes, b.opt.block_bytes);
	assert_model(&b, r->image, &m);
	buffer_put(bh);
	runner_destroy(r);
	builder_exit(&b);
}

/* ---- fast commits ---- */

static void put_le(uint8_t *at, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

/* Appends one record at *pos of the area; the crc goes on in *crc. */
static void fc_put(struct builder *b, uint32_t *pos, uint32_t *crc, uint32_t tag, const void *value, uint32_t len)
{
	uint8_t *at = builder_log(b, b->end + 1) + *pos;

	put_le(at, tag, 2);
	put_le(at + 2, len, 2);
	if (len)
		memcpy(at + 4, value, len);
	*crc = crc32c(*crc, at, 4 + len);
	*pos += 4 + len;
}

static void fc_put_head(struct builder *b, uint32_t *pos, uint32_t *crc, tid_t tid, uint32_t features)
{
	uint8_t head[8];

	put_le(head, features, 4);
	put_le(head + 4, tid, 4);
	fc_put(b, pos, crc, 9, head, 8);
}

/* A tail fills the rest of its block. */
static void fc_put_tail(struct builder *b, uint32_t *pos, uint32_t *crc, tid_t tid)
{
	uint8_t *at = builder_log(b, b->end + 1) + *pos;
	uint32_t left = b->opt.block_bytes - *pos % b->opt.block_bytes;

	put_le(at, 8, 2);
	put_le(at + 2, left - 4, 2);
	put_le(at + 4, tid, 4);
	put_le(at + 8, crc32c(*crc, at, 8), 4);
	*crc = 0;
	*pos += left;
}

static void fc_put_body(struct builder *b, uint32_t *pos, uint32_t *crc, uint32_t len)
{
	static const uint8_t inode[900];

	fc_put(b, pos, crc, 6, inode, len);
}

struct fc_seen {
	uint32_t blocks;
	uint32_t bytes;    /* that count, of the last block */
	int err;
};

static int fc_take(void *arg, const uint8_t *block, uint32_t len_bytes, uint32_t index)
{
	struct fc_seen *seen = arg;

	assert_int_equal(index, seen->blocks);
	seen->blocks++;
	seen->bytes = len_bytes;
	return seen->err;
}

static void build_fc(struct builder *b, struct model *m)
{
	struct builder_options opt = options(3);

	opt.log_blocks = 1200;
	opt.fc_blocks = 64;
	build_three(b, m, opt);
}

/* Two fast commits, the second of two blocks. */
static void put_two_fast_commits(struct builder *b, tid_t tid, uint32_t features)
{
	uint32_t pos = 0, crc = 0;

	fc_put_head(b, &pos, &crc, tid, features);
	fc_put_body(b, &pos, &crc, 100);
	fc_put_tail(b, &pos, &crc, tid);
	fc_put_body(b, &pos, &crc, 900);
	fc_put(b, &pos, &crc, 7, (uint8_t[1024]){ 0 }, b->opt.block_bytes - pos % b->opt.block_bytes - 4);
	fc_put_body(b, &pos, &crc, 50);
	fc_put_tail(b, &pos, &crc, tid);
	fc_put_body(b, &pos, &crc, 50); /* a third one was cut off */
}

static void fast_commits_are_handed_over(void **state)
{
	struct fc_seen seen = { 0 };
	struct builder b;
	struct model m;
	struct runner *r;

	build_fc(&b, &m);
	put_two_fast_commits(&b, 103, 0);
	r = runner_create(&b, b.image);
	r->params.fc_take = fc_take;
	r->params.fc_arg = &seen;
	assert_int_equal(runner_recover(r), 0);
	assert_int_equal(seen.blocks, 3);
	assert_int_equal(seen.bytes, b.opt.block_bytes);
	assert_int_equal(r->info.fast_commits, 2);
	/* J8: they count until somebody has carried them out. */
	assert_memory_equal(r->image + builder_log_blk(&b, 0) * b.opt.block_bytes, builder_log(&b, 0), 1024);
	assert_model(&b, r->image, &m);
	runner_destroy(r);
	builder_exit(&b);
}

/* Four bytes left of a block hold padding without a value, which counts for the checksum. */
static void padding_may_have_no_length(void **state)
{
	struct fc_seen seen = { 0 };
	uint32_t pos = 0, crc = 0;
	struct builder b;
	struct model m;
	struct runner *r;

	build_fc(&b, &m);
	fc_put_head(&b, &pos, &crc, 103, 0);
	while (b.opt.block_bytes - pos > 900)
		fc_put_body(&b, &pos, &crc, 400);
	fc_put_body(&b, &pos, &crc, b.opt.block_bytes - pos - 8);
	fc_put(&b, &pos, &crc, 7, NULL, 0);
	assert_int_equal(pos, b.opt.block_bytes);
	fc_put_body(&b, &pos, &crc, 50);
	fc_put_tail(&b, &pos, &crc, 103);
	r = runner_create(&b, b.image);
	r->params.fc_take = fc_take;
	r->params.fc_arg = &seen;
	assert_int_equal(runner_recover(r), 0);
	assert_int_equal(seen.blocks, 2);
	assert_int_equal(r->info.fast_commits, 1);
	runner_destroy(r);
	builder_exit(&b);
}

static void fast_commits_without_a_taker_are_refused(void **state)
{
	struct builder b;
	struct model m;

	build_fc(&b, &m);
	put_two_fast_commits(&b, 103, 0);
	assert_refuses(&b, -EOPNOTSUPP);
	builder_exit(&b);
}

static void fast_commits_with_unknown_features_are_refused(void **state)
{
	struct builder b;
	struct model m;

	build_fc(&b, &m);
	put_two_fast_commits(&b, 103, 2);
	assert_refuses(&b, -EOPNOTSUPP);
	builder_exit(&b);
}

/* Of a type that nobody knows, in front of a sound tail: it happened, and would be lost. */
static void fast_commit_with_an_unknown_record_is_refused(void **state)
{
	uint32_t pos = 0, crc = 0;
	struct builder b;
	struct model m;

	build_fc(&b, &m);
	fc_put_head(&b, &pos, &crc, 103, 0);
	fc_put(&b, &pos, &crc, 10, "new", 3);
	fc_put_tail(&b, &pos, &crc, 103);
	assert_refuses(&b, -EOPNOTSUPP);
	builder_exit(&b);
}

static void error_of_the_taker_keeps_the_log(void **state)
{
	struct fc_seen seen = { .err = -EUCLEAN };
	struct builder b;
	struct model m;
	struct runner *r;

	build_fc(&b, &m);
	put_two_fast_commits(&b, 103, 0);
	r = runner_create(&b, b.image);
	r->params.fc_take = fc_take;
	r->params.fc_arg = &seen;
	assert_int_equal(runner_recover(r), -EUCLEAN);
	assert_untouched(r);
	runner_destroy(r);
	builder_exit(&b);
}

static void fast_commits_of_other_transactions_or_torn_ones_are_ignored(void **state)
{
	for (int kind = 0; kind < 4; kind++) {
		struct builder b;
		struct model m;

		build_fc(&b, &m);
		put_two_fast_commits(&b, kind == 0 ? 102 : kind == 1 ? 104 : 103, 0);
		if (kind == 2)
			builder_log(&b, b.end + 1)[40] ^= 1;   /* the first tail does not fit */
		if (kind == 3)
			put_le(builder_log(&b, b.end + 1), 6, 2); /* no head */
		assert_recovers(&b, &m, 103);
		builder_exit(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format_is_replayed),
		cmocka_unit_test(log_wraps_at_its_end),
		cmocka_unit_test(log_wraps_before_the_fast_commit_area),
		cmocka_unit_test(sequence_numbers_wrap),
		cmocka_unit_test(clean_journal_needs_nothing),
		cmocka_unit_test(log_full_of_transactions_ends),
		cmocka_unit_test(each_block_goes_home_once_in_long_runs),
		cmocka_unit_test(revoked_block_is_replayed_from_later_transactions_only),
		cmocka_unit_test(newest_of_several_revokes_counts_across_the_number_wrap),
		cmocka_unit_test(revokes_of_an_uncommitted_transaction_do_not_count),
		cmocka_unit_test(million_revoke_records_are_kept),
		cmocka_unit_test(transaction_without_commit_block_is_dropped),
		cmocka_unit_test(block_of_unknown_type_ends_the_log),
		cmocka_unit_test(stale_blocks_behind_the_end_are_not_reused_as_continuation),
		cmocka_unit_test(last_commit_with_wrong_checksum_is_an_interrupted_one),
		cmocka_unit_test(commit_with_wrong_checksum_and_a_later_commit_is_corruption),
		cmocka_unit_test(older_commit_with_wrong_checksum_is_stale),
		cmocka_unit_test(commit_block_torn_behind_its_header_counts),
		cmocka_unit_test(damaged_descriptor_of_a_committed_transaction_is_corruption),
		cmocka_unit_test(damaged_descriptor_of_an_older_life_ends_the_log),
		cmocka_unit_test(async_commit_drops_a_last_transaction_whose_blocks_did_not_arrive),
		cmocka_unit_test(v1_commit_without_checksum_counts),
		cmocka_unit_test(v1_damaged_block_ends_the_log),
		cmocka_unit_test(block_with_wrong_checksum_is_skipped_and_reported),
		cmocka_unit_test(home_blocks_out_of_place_are_refused),
		cmocka_unit_test(revoke_block_with_impossible_count_is_refused),
		cmocka_unit_test(random_damage_is_survived),
		cmocka_unit_test(failed_io_leaves_a_log_to_recover_again),
		cmocka_unit_test(crash_while_recovering_is_recovered),
		cmocka_unit_test(log_is_reset_only_after_a_flush_of_the_homes),
		cmocka_unit_test(read_only_only_looks),
		cmocka_unit_test(stale_cached_buffer_shows_the_replayed_contents),
		cmocka_unit_test(fast_commits_are_handed_over),
		cmocka_unit_test(padding_may_have_no_length),
		cmocka_unit_test(fast_commits_without_a_taker_are_refused),
		cmocka_unit_test(fast_commits_with_unknown_features_are_refused),
		cmocka_unit_test(fast_commit_with_an_unknown_record_is_refused),
		cmocka_unit_test(error_of_the_taker_keeps_the_log),
		cmocka_unit_test(fast_commits_of_other_transactions_or_torn_ones_are_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
