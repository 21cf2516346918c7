/* SPDX-License-Identifier: MIT */
/* super_state.c - what the superblock says of a file system in use, and of one put away */
#include "ext4/fs_private.h"
#include "ext4/super.h"

/*
 * The superblock over a mount's life:
 *
 *   mount rw    needs_recovery set (with a journal) or VALID_FS cleared (without), mount count and times; written and
 *               flushed before the first transaction
 *   running     changes go through the journal
 *   unmount     journal committed, checkpointed and marked empty; then needs_recovery cleared, state and counts
 *               stored; written and flushed
 *
 * A crash between any two of these leaves needs_recovery set over a journal that can be replayed, empty or not.
 */

static struct ext4_super_block *super_bytes(struct ext4_fs *fs)
{
	return (struct ext4_super_block *)(void *)(fs->super_bh->data + fs->super_offset);
}

static void bits_change(le32 *field, uint32_t set, uint32_t clear)
{
	*field = le32_make((le32_get(*field) | set) & ~clear);
}

int super_open(struct ext4_fs *fs)
{
	struct ext4_super_block *es = super_bytes(fs);

	mutex_lock(&fs->super_lock);
	if (journal_is_null(fs->journal))
		es->s_state = le16_make(le16_get(es->s_state) & ~EXT4_STATE_VALID_FS);
	else
		bits_change(&es->s_feature_incompat, EXT4_FEATURE_INCOMPAT_RECOVER, 0);
	if (!journal_is_null(fs->journal) && fs_has_compat(fs, EXT4_FEATURE_COMPAT_ORPHAN_FILE))
		bits_change(&es->s_feature_ro_compat, EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT, 0);
	if (!le16_get(es->s_max_mnt_count))
		es->s_max_mnt_count = le16_make(UINT16_MAX); /* -1: never force a check for it */
	es->s_mnt_count = le16_make(le16_get(es->s_mnt_count) + 1);
	super_time_set(&es->s_mtime, &es->s_mtime_hi, (uint64_t)fs_now(fs).tv_sec);
	super_time_set(&es->s_wtime, &es->s_wtime_hi, (uint64_t)fs_now(fs).tv_sec);
	super_csum_set(es);
	mutex_unlock(&fs->super_lock);
	return super_write_through(fs);
}

int super_close(struct ext4_fs *fs)
{
	struct ext4_super_block *es = super_bytes(fs);
	uint32_t orphans_gone = orphan_file_is_empty(fs) ? EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT : 0;

	mutex_lock(&fs->super_lock);
	buffer_lock(fs->super_bh); /* no handle: without a journal it may be on its way home just now */
	error_store(fs, es);
	super_refresh_counts(fs, es);
	bits_change(&es->s_feature_incompat, 0, EXT4_FEATURE_INCOMPAT_RECOVER);
	bits_change(&es->s_feature_ro_compat, 0, orphans_gone);
	es->s_state = le16_make(fs->priv->mount_state);
	super_csum_set(es);
	buffer_unlock(fs->super_bh);
	mutex_unlock(&fs->super_lock);
	return super_write_through(fs);
}
