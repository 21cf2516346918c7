/* SPDX-License-Identifier: MIT */
/* super.c - the journal superblock: read, checked, and rewritten as the log's tail moves */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jbd2/csum.h"
#include "jbd2/jbd2_private.h"

/* One megabyte of log per descriptor group is where larger writes gain nothing any more. */
#define DESC_GROUP_BYTES (1u << 20)
/* Blocks of 64 KiB still get a few to a group. */
#define DESC_GROUP_MIN_BLOCKS 32u

void journal_grant_set(struct journal *j, uint32_t blocks)
{
	j->grant_blocks = blocks;
	/* The inverse of log_blocks_for(). */
	j->max_credits = (uint32_t)((uint64_t)(blocks - 2) * j->tags_per_desc / (j->tags_per_desc + 1));
}

/* What follows from the features. */
static void super_derive(struct journal *j)
{
	uint32_t group = max_of(DESC_GROUP_BYTES / j->params.block_bytes, DESC_GROUP_MIN_BLOCKS);

	journal_layout_init(&j->layout, j->super, j->params.block_bytes);
	j->tags_per_desc = min_of(journal_tags_per_block(&j->layout), group - 1);
	journal_grant_set(j, j->log_blocks / JOURNAL_TRANSACTION_SHARE);
	/* The first transaction has the log for itself: nothing of it may be left to a second. */
	if (j->fc_pending)
		journal_grant_set(j, j->log_blocks);
}

static int super_check(struct journal *j)
{
	const struct journal_superblock *sb = j->super;
	const struct log_sink *log = j->params.log;
	const char *rule = journal_superblock_verify(sb, j->params.log_blocks, j->params.block_bytes);
	uint32_t incompat, ro_compat;

	if (rule) {
		log_print(log, LOG_ERROR, "journal: superblock: %s", rule);
		return -EUCLEAN;
	}
	if (!journal_features_supported(sb, &incompat, &ro_compat)) {
		log_print(log, LOG_ERROR, "journal: unknown features: incompat 0x%x, ro_compat 0x%x", incompat, ro_compat);
		return -EOPNOTSUPP;
	}
	if (!journal_superblock_csum_ok(sb)) {
		log_print(log, LOG_ERROR, "journal: superblock: wrong checksum");
		return -EBADMSG;
	}
	return 0;
}

/* An external journal names the file systems that may use it. */
static int super_check_user(struct journal *j)
{
	const struct journal_superblock *sb = j->super;
	uint32_t users = be32_get(sb->s_nr_users);

	if (!j->params.fs_uuid)
		return 0;
	for (uint32_t i = 0; i < users; i++)
		if (!memcmp(sb->s_users + 16 * i, j->params.fs_uuid, 16))
			return 0;
	log_print(j->params.log, LOG_ERROR, "journal: the external journal belongs to another file system");
	return -EUCLEAN;
}

int journal_super_read(struct journal *j)
{
	const struct journal_params *p = &j->params;
	int err = p->map_log_block(p->map_arg, 0, &j->super_blk);

	if (err)
		return err;
	if (j->super_blk >= p->log_dev->size_bytes / p->block_bytes) {
		log_print(p->log, LOG_ERROR, "journal: superblock lies at block %llu, outside the device",
			  (unsigned long long)j->super_blk);
		return -EUCLEAN;
	}
	err = block_read(p->log_dev, j->super_blk * p->block_bytes, j->super_block, p->block_bytes);
	if (err)
		return err;
	err = super_check(j);
	if (!err)
		err = super_check_user(j);
	if (err)
		return err;
	j->first = be32_get(j->super->s_first);
	j->maxlen = be32_get(j->super->s_maxlen);
	j->end = journal_superblock_log_end(j->super);
	j->log_blocks = j->end - j->first - 1;
	j->disk_errno = (int32_t)be32_get(j->super->s_errno);
	j->disk_errno = j->disk_errno > 0 ? -j->disk_errno : j->disk_errno;
	j->super_says_empty = be32_get(j->super->s_start) == 0;
	super_derive(j);
	return 0;
}

/* super_lock held. */
static int super_write(struct journal *j, unsigned flags)
{
	uint64_t pos_bytes = j->super_blk * j->params.block_bytes;

	lock_assert_held(&j->super_lock);
	if (j->params.read_only)
		return -EROFS;
	journal_superblock_csum_set(j->super);
	if (!j->params.barriers)
		flags = 0;
	if (flags & BIO_PREFLUSH)
		counter_add(j->counters, CNT_JOURNAL_FLUSHES, 1);
	return block_write(j->params.log_dev, pos_bytes, j->super_block, j->params.block_bytes, flags);
}

/*
 * After a failure the superblock in memory says again what it said before: the next to write it is the abort, without a flush
 * of the homes, and the log still holds all from the old tail on (J4).
 */
int journal_super_write_tail(struct journal *j, uint32_t start, tid_t tid)
{
	const be32 sequence = j->super->s_sequence, old_start = j->super->s_start, head = j->super->s_head;
	int err = 0;

	lock_assert_held(&j->super_lock);
	if (j->external && j->params.barriers) {
		counter_add(j->counters, CNT_JOURNAL_FLUSHES, 1);
		err = block_flush(buffer_cache_device(j->bc));
	}
	if (err)
		return err;
	j->super->s_sequence = be32_make(tid);
	j->super->s_start = be32_make(start);
	j->super->s_head = be32_make(0); /* not known: the kernel then begins at s_first of an empty log */
	err = super_write(j, BIO_PREFLUSH | BIO_FUA);
	if (!err) {
		j->super_says_empty = start == 0;
	} else {
		j->super->s_sequence = sequence;
		j->super->s_start = old_start;
		j->super->s_head = head;
	}
	return err;
}

int journal_super_write_errno(struct journal *j, int err)
{
	lock_assert_held(&j->super_lock);
	j->super->s_errno = be32_make((uint32_t)err);
	return super_write(j, BIO_FUA);
}

int journal_super_reset(struct journal *j, tid_t next_tid)
{
	int err;

	mutex_lock(&j->super_lock);
	err = journal_super_write_tail(j, 0, next_tid);
	mutex_unlock(&j->super_lock);
	return err;
}

/* Version 1 has no features; its superblock ends where theirs begin. */
static void super_upgrade(struct journal_superblock *sb)
{
	size_t v1_bytes = offsetof(struct journal_superblock, s_feature_compat);

	if (be32_get(sb->s_header.h_blocktype) == JBD2_SUPERBLOCK_V2)
		return;
	memset((uint8_t *)sb + v1_bytes, 0, sizeof(*sb) - v1_bytes);
	sb->s_header.h_blocktype = be32_make(JBD2_SUPERBLOCK_V2);
	sb->s_nr_users = be32_make(1);
}

int journal_super_set_features(struct journal *j, bool csum_v3, bool is_64bit)
{
	struct journal_superblock *sb = j->super;
	uint32_t compat, incompat;
	int err = 0;

	mutex_lock(&j->super_lock);
	/* Blocks in the log follow the features they were written with. */
	UEXT4_ASSERT(be32_get(sb->s_start) == 0 || j->fc_pending);
	if (j->fc_pending) {
		/* The log is empty, but not over: transaction fc_tid is to begin here (J8). */
		sb->s_start = be32_make(j->first);
		sb->s_sequence = be32_make(j->fc_tid);
		sb->s_head = be32_make(0);
	}
	super_upgrade(sb);
	compat = be32_get(sb->s_feature_compat) & ~JBD2_COMPAT_CHECKSUM;
	incompat = be32_get(sb->s_feature_incompat) &
		   ~(JBD2_INCOMPAT_CSUM_V2 | JBD2_INCOMPAT_CSUM_V3 | JBD2_INCOMPAT_ASYNC_COMMIT);
	incompat |= JBD2_INCOMPAT_REVOKE;
	if (is_64bit)
		incompat |= JBD2_INCOMPAT_64BIT;
	if (csum_v3)
		incompat |= JBD2_INCOMPAT_CSUM_V3;
	if (j->params.async_commit) {
		/* Without a flush before it, only checksums tell a commit block whose blocks did not all arrive. */
		incompat |= JBD2_INCOMPAT_ASYNC_COMMIT;
		compat |= csum_v3 ? 0 : JBD2_COMPAT_CHECKSUM;
	}
	sb->s_checksum_type = csum_v3 ? JBD2_CRC32C_CHKSUM : 0;
	sb->s_feature_compat = be32_make(compat);
	sb->s_feature_incompat = be32_make(incompat);
	super_derive(j);
	if (j->fc_pending) /* else with the first commit, which says where the log begins: until then nothing in it counts */
		err = super_write(j, BIO_FUA);
	mutex_unlock(&j->super_lock);
	return err;
}
