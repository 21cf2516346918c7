/* SPDX-License-Identifier: MIT */
/* fast_commit_apply.c - the end state of fast commits put on disk, in one transaction (K2) */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "ext4/balloc.h"
#include "ext4/dir_private.h"
#include "ext4/fast_commit_private.h"
#include "ext4/orphan.h"
#include "ext4/super.h"

/* Of the handle's room, for revoke records: only tree blocks, directories and symlinks that go need them. */
#define REVOKE_SHARE 16u
/* Less than any of them takes. */
#define REVOKE_BYTES_MAX 16u

int fc_room(struct handle *h, struct ext4_fs *fs, uint32_t credits)
{
	if (h && h->credits >= (int32_t)credits)
		return 0;
	log_print(&fs->log, LOG_ERROR, "%s: fast commits: they change more blocks than the log can hold: recover with e2fsck",
		  fs->name);
	return -ENOSPC;
}

/* ---- names ---- */

static ino_num name_target(const struct fast_commit *fc, const struct fc_name *d, uint16_t *mode_out)
{
	const struct fc_inode *n = d->ino ? fc_inode_find(fc, d->ino) : NULL;

	if (!n || !n->inode)
		return 0;
	*mode_out = n->inode->mode;
	return n->ino;
}

static int name_remove(struct handle *h, struct fast_commit *fc, struct inode *dir, const struct name *name)
{
	struct dir_pos pos;
	int err = dir_find(dir, name, &pos);

	if (err)
		return err == -ENOENT ? 0 : err;
	err = dir_pos_access(h, &pos);
	if (!err)
		err = dir_pos_remove(h, dir, &pos);
	dir_pos_put(&pos);
	fc->names_removed++;
	return err;
}

static int name_set(struct handle *h, struct fast_commit *fc, struct inode *dir, const struct name *name, ino_num ino,
		    uint16_t mode)
{
	struct dir_pos pos;
	int err = dir_find(dir, name, &pos);
	bool is_there = !err && dir_pos_ino(&pos) == ino;

	dir_pos_put(&pos);
	if (is_there || (err && err != -ENOENT))
		return is_there ? 0 : err;
	fc->names_set++;
	return err ? dir_add(h, dir, name, ino, mode) : dir_set(h, dir, name, ino, mode);
}

/* Names that go before those that come: there is room for them then. */
static int dir_names(struct handle *h, struct fast_commit *fc, struct fc_inode *n, bool coming)
{
	int err = 0;

	for (struct fc_name *d = n->names; d && !err; d = d->next) {
		uint16_t mode = 0;
		ino_num ino = name_target(fc, d, &mode);

		if (!d->dir || coming != (ino != 0))
			continue;
		err = fc_room(h, fc->fs, dir_credits(n->inode) + 2);
		if (!err)
			err = coming ? name_set(h, fc, n->inode, &d->name, ino, mode) : name_remove(h, fc, n->inode, &d->name);
	}
	return err;
}

/* A directory that moved. */
static int dir_parent(struct handle *h, struct fc_inode *n)
{
	static const struct name dotdot = { "..", 2 };
	ino_num parent;
	uint8_t type;
	int err;

	if (!n->parent || n->inode != n->base)
		return 0;
	err = dir_lookup(n->inode, &dotdot, &parent, &type);
	if (!err && parent != n->parent)
		err = dir_set(h, n->inode, &dotdot, n->parent, S_IFDIR);
	return err;
}

static int dir_apply(struct handle *h, struct fast_commit *fc, struct fc_inode *n)
{
	int err;

	if (!n->inode || !inode_is_dir(n->inode))
		return 0;
	err = fc_room(h, fc->fs, dir_credits(n->inode) + 3);
	if (!err && n->inode != n->base)
		err = dir_init(h, n->inode, n->parent);
	if (!err)
		err = dir_parent(h, n);
	if (!err)
		err = dir_names(h, fc, n, false);
	if (!err)
		err = dir_names(h, fc, n, true);
	if (!err && n->is_stale)
		inode_stamp(n->inode, TIME_MTIME | TIME_CTIME);
	return err ? err : inode_write(h, n->inode);
}

/* ---- orphans ---- */

static bool base_is_gone(void *arg, ino_num ino)
{
	const struct fc_inode *n = fc_inode_find(arg, ino);

	return n && n->was_orphan;
}

static int orphans_read(struct fast_commit *fc)
{
	struct ext4_fs *fs = fc->fs;
	ino_num ino = le32_get(fs_super(fs)->s_last_orphan);
	int err = 0;

	while (!err && ino >= fs->first_ino && ino <= fs->inodes_count && fc->orphan_count < fs->inodes_count) {
		struct buffer_head *bh;
		uint32_t off;

		err = fc_array_grow(&fc->orphans, &fc->orphan_room, fc->orphan_count, sizeof(fc->orphans[0]));
		if (err)
			break;
		fc->orphans[fc->orphan_count++] = ino;
		err = inode_table_block(fs, ino, &bh, &off);
		if (err)
			break;
		ino = le32_get(((const struct ext4_inode *)(const void *)(bh->data + off))->i_dtime);
		buffer_put(bh);
	}
	return err;
}

/* ---- all of it ---- */

static int claim_blocks(struct handle *h, struct fast_commit *fc)
{
	int err = 0;

	for (size_t i = 0; !err && i < fc->claimed.count; i++) {
		err = fc_room(h, fc->fs, BALLOC_CREDITS);
		if (!err)
			err = balloc_claim(h, fc->fs, fc->claimed.at[i].start,
					   (uint32_t)(fc->claimed.at[i].end - fc->claimed.at[i].start));
	}
	return err;
}

static int apply_inodes(struct handle *h, struct fast_commit *fc)
{
	int err = claim_blocks(h, fc); /* K4 */

	for (size_t i = 0; !err && i < fc->inode_count; i++)
		err = fc_inode_free_base(h, fc, fc->inodes[i]);
	for (size_t i = 0; !err && i < fc->inode_count; i++)
		err = fc_inode_unmap(h, fc, fc->inodes[i]);
	for (size_t i = 0; !err && i < fc->inode_count; i++)
		err = fc_inode_store(h, fc->inodes[i]);
	for (size_t i = 0; !err && i < fc->inode_count; i++) {
		err = fc_inode_map(h, fc, fc->inodes[i]);
		if (!err && fc->inodes[i]->inode)
			err = inode_write(h, fc->inodes[i]->inode);
	}
	for (size_t i = 0; !err && i < fc->inode_count; i++)
		err = dir_apply(h, fc, fc->inodes[i]);
	return err;
}

static int apply_start(struct ext4_fs *fs, struct handle *h)
{
	uint32_t room = journal_max_credits(fs->journal), revoke_blocks = room / REVOKE_SHARE;

	if (journal_is_null(fs->journal))
		return journal_start(fs->journal, room, 0, h);
	return journal_start(fs->journal, room - revoke_blocks - 1, revoke_blocks * (fs->block_bytes / REVOKE_BYTES_MAX), h);
}

static int apply_in_handle(struct fast_commit *fc)
{
	struct ext4_fs *fs = fc->fs;
	struct handle h;
	int err = orphans_read(fc), stop_err;

	if (!err)
		err = apply_start(fs, &h);
	if (err)
		return err;
	err = apply_inodes(&h, fc);
	if (!err)
		err = orphans_drop(&h, fs, fc->orphans, fc->orphan_count, base_is_gone, fc);
	if (err) /* before the handle ends: half of it may not commit */
		journal_abort(fs->journal, err);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

int fast_commit_prepare(struct ext4_fs *fs)
{
	struct fast_commit *fc = fs->priv->fast_commit;
	int err;

	if (!fc)
		return 0;
	if (fs->cluster_bits) { /* such images are not written, and bits of their bitmaps are no blocks */
		log_print(&fs->log, LOG_ERROR, "%s: fast commits on an image with bigalloc cannot be carried out", fs->name);
		return -EOPNOTSUPP;
	}
	err = fc_model_build(fc);
	return err ? err : fc_blocks_check(fc);
}

int fast_commit_apply(struct ext4_fs *fs)
{
	struct fast_commit *fc = fs->priv->fast_commit;
	int err;

	if (!fc)
		return 0;
	err = apply_in_handle(fc);
	if (!err)
		err = journal_is_null(fs->journal) ? buffer_cache_sync(fs->bc) : journal_fast_commits_done(fs->journal);
	if (err)
		log_print(&fs->log, LOG_ERROR, "%s: fast commits cannot be carried out: %s", fs->name, strerror(-err));
	else
		log_print(&fs->log, LOG_INFO,
			  "%s: fast commits carried out: %zu records, %zu inodes of which %zu freed, "
			  "%zu names added, %zu removed", fs->name, fc->record_count, fc->inode_count, fc->inodes_gone, fc->names_set, fc->names_removed);
	fast_commit_free(fs);
	return err;
}
