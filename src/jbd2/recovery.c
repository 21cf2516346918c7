/* SPDX-License-Identifier: MIT */
/*
 * recovery.c - bringing a file system to the state of its last commit
 *
 *   scan      recovery_scan(): where does the log end? Nothing is written unless its checksums are sound.
 *   revoke    recovery_gather(): all revoke records of the committed transactions, and where in the log the copies of
 *             which blocks are. Home blocks are checked, and fast commits looked at, before anything is written.
 *   replay    recovery_replay(): the newest copy of each block that was not revoked goes home.
 *
 * Then the device is flushed, and only then the superblock says that the log is empty (J4). So a crash at any point, or
 * an error, leaves a log from which recovery does the same once more: it never reads what it wrote.
 *
 * With fast commits on top the superblock is left as it is. They are handed to the file system before anything is written,
 * which turns them into the first transaction of the new log; see journal_fast_commits_pending().
 */
#include <errno.h>
#include <string.h>

#include "jbd2/csum.h"
#include "jbd2/recovery_private.h"

struct recovery {
	struct journal *j;
	struct journal_recovery_info *info;
	struct log_reader reader;
	struct log_span span;
	struct replay_revokes revokes;
	struct replay_list blocks;
	struct fc_area fc;
};

/* ---- second pass ---- */

static int gather_descriptor(struct recovery *r, struct log_walk *walk, const uint8_t *desc)
{
	const struct journal *j = r->j;
	uint32_t pos = sizeof(struct journal_header), count;
	uint32_t log_pos = log_distance(j, be32_get(j->super->s_start), walk->index);
	const char *rule;
	int err = 0;

	if (!journal_tail_csum_ok(&j->layout, desc))
		return -EBADMSG;
	rule = descriptor_block_verify(desc, &j->layout, &count);
	if (rule || !log_walk_skip(walk, count))
		return -EUCLEAN;
	for (uint32_t i = 0; i < count && !err; i++) {
		struct journal_tag tag = journal_tag_decode(&j->layout, desc + pos);
		struct replay_block block = {
			.blk = tag.blk, .pos = log_pos + i, .tid = walk->tid, .flags = tag.flags, .checksum = tag.checksum,
		};

		err = replay_list_add(&r->blocks, &block);
		pos += journal_tag_stride(&j->layout, tag.flags);
	}
	return err;
}

static int gather_block(struct recovery *r, struct log_walk *walk, const uint8_t *block, uint32_t type)
{
	switch (type) {
	case JBD2_DESCRIPTOR_BLOCK:
		return gather_descriptor(r, walk, block);
	case JBD2_REVOKE_BLOCK:
		return replay_revokes_add_block(&r->revokes, r->j, block, walk->tid, &r->info->revokes_seen);
	default:
		walk->tid++;
		return 0;
	}
}

/* The scan has been here, so whatever is amiss now came between. */
static int recovery_gather(struct recovery *r)
{
	struct log_walk walk;
	int err = 0;

	log_walk_begin(&walk, &r->reader);
	while (!err && walk.tid != r->span.end_tid) {
		const uint8_t *block;
		uint32_t type;
		int found = log_walk_next(&walk, &block, &type);

		if (found > 0)
			err = gather_block(r, &walk, block, type);
		else
			err = found ? found : -EIO;
	}
	if (err)
		log_print(r->j->params.log, LOG_ERROR, "journal: transaction %u cannot be gathered from the log: %s",
			  walk.tid, strerror(-err));
	return err;
}

/* ---- third pass ---- */

static int recovery_replay(struct recovery *r)
{
	struct journal *j = r->j;
	int err = replay_list_write(&r->blocks, j, &r->info->blocks_replayed);

	if (!err)
		err = buffer_cache_sync(j->bc);
	if (!err)
		err = block_flush(buffer_cache_device(j->bc));
	if (err)
		return err;
	if (r->fc.commits) {
		j->fc_pending = true; /* J8: the log stays until they are carried out */
		j->fc_tid = r->span.end_tid;
		j->fc_seen_tid = r->span.last_seen_tid;
		return 0;
	}
	/* Numbers that blocks behind the log's end may carry are not used again: they would look like its continuation. */
	return journal_super_reset(j, r->span.last_seen_tid);
}

static void recovery_report(const struct recovery *r)
{
	const struct journal_recovery_info *info = r->info;

	log_print(r->j->params.log, LOG_INFO,
		  "journal: recovery complete: transactions [%u, %u), %llu blocks replayed, "
		  "%llu copies revoked by %llu records, %llu fast commits to carry out",
		  info->first_tid, info->end_tid, (unsigned long long)info->blocks_replayed,
		  (unsigned long long)info->revokes_hit, (unsigned long long)info->revokes_seen,
		  (unsigned long long)info->fast_commits);
}

static int recovery_run(struct recovery *r)
{
	struct journal *j = r->j;
	int err = recovery_scan(j, &r->reader, &r->span);

	if (err)
		return err;
	r->info->first_tid = r->span.first_tid;
	r->info->end_tid = r->span.end_tid;
	r->info->transactions = r->span.end_tid - r->span.first_tid;
	err = recovery_gather(r);
	if (!err)
		err = replay_list_reduce(&r->blocks, j, &r->revokes, &r->info->revokes_hit);
	if (!err)
		err = fc_area_scan(j, &r->reader, r->span.end_tid, &r->fc);
	if (err)
		return err;
	r->info->fast_commits = r->fc.commits;
	if (j->params.read_only)
		return 0;
	err = fc_area_hand_over(j, &r->reader, &r->fc);
	if (!err)
		err = recovery_replay(r);
	if (!err)
		recovery_report(r);
	return err;
}

int journal_recover(struct journal *j, struct journal_recovery_info *info_out)
{
	struct recovery r = { .j = j, .info = info_out };
	int err;

	*info_out = (struct journal_recovery_info){ .needed = journal_needs_recovery(j) };
	if (!info_out->needed)
		return 0;
	UEXT4_ASSERT(!j->threads_run);
	err = log_reader_init(&r.reader, j);
	if (err)
		return err;
	replay_revokes_init(&r.revokes);
	err = recovery_run(&r);
	replay_list_exit(&r.blocks);
	replay_revokes_exit(&r.revokes);
	log_reader_exit(&r.reader);
	return err;
}
