/* SPDX-License-Identifier: MIT */
/* orphan.c - inodes to be truncated or freed at the next mount */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/fs_private.h"
#include "ext4/ialloc.h"
#include "ext4/inode_private.h"
#include "ext4/map.h"
#include "ext4/orphan_private.h"
#include "ext4/super.h"

/*
 * The linked list: s_last_orphan names the newest orphan, and each orphan's i_dtime the next older one. Memory keeps the
 * same inodes in the same order, so that the neighbour whose link must change is at hand. With an orphan file, inodes
 * go there, and on the list only when the file is full.
 *
 *  O1  An inode is an orphan on disk from the transaction that takes its last name until the one that frees it.
 *  O2  At mount an orphan is taken off in the transaction that ends its work, so a crash in between repeats it.
 */

int orphan_init(struct ext4_fs *fs)
{
	fs->orphans = calloc(1, sizeof(*fs->orphans));
	if (!fs->orphans)
		return -ENOMEM;
	list_init(&fs->orphans->list);
	return orphan_file_open(fs);
}

void orphan_exit(struct ext4_fs *fs)
{
	if (!fs->orphans)
		return;
	orphan_file_close(fs);
	free(fs->orphans);
	fs->orphans = NULL;
}

/* ---- the linked list; all with orphan_lock ---- */

static int list_head_set(struct handle *h, struct ext4_fs *fs, ino_num ino)
{
	struct ext4_super_block *es;
	int err;

	err = super_change_begin(h, fs, &es);
	if (err)
		return err;
	es->s_last_orphan = le32_make(ino);
	return super_change_end(h, fs);
}

static int list_link_set(struct handle *h, struct inode *inode, ino_num next)
{
	atomic_store(&inode->dtime, next);
	return inode_write_dtime(h, inode);
}

static int orphan_list_add(struct handle *h, struct inode *inode)
{
	struct ext4_fs *fs = inode->fs;
	int err;

	mutex_lock(&fs->orphan_lock);
	err = list_link_set(h, inode, le32_get(fs_super(fs)->s_last_orphan));
	if (!err)
		err = list_head_set(h, fs, inode->ino);
	if (!err) {
		list_add(&inode->orphan_node, &fs->orphans->list);
		inode->orphan_slot = ORPHAN_SLOT_NONE;
	}
	mutex_unlock(&fs->orphan_lock);
	return err;
}

static int orphan_list_del(struct handle *h, struct inode *inode)
{
	struct ext4_fs *fs = inode->fs;
	ino_num next;
	int err = 0;

	mutex_lock(&fs->orphan_lock);
	next = atomic_load(&inode->dtime);
	if (h && inode->orphan_node.prev == &fs->orphans->list)
		err = list_head_set(h, fs, next);
	else if (h)
		err = list_link_set(h, list_entry(inode->orphan_node.prev, struct inode, orphan_node), next);
	list_del(&inode->orphan_node);
	if (h && !err)
		err = list_link_set(h, inode, 0);
	mutex_unlock(&fs->orphan_lock);
	return err;
}

/* ---- either way ---- */

static void mark(struct inode *inode)
{
	inode_set(inode, INODE_ORPHAN);
	if (!(inode_set(inode, INODE_ORPHAN_COUNTED) & INODE_ORPHAN_COUNTED))
		atomic_fetch_add(&inode->fs->orphans->count, 1);
}

void orphan_uncount(struct inode *inode)
{
	if (inode_clear(inode, INODE_ORPHAN_COUNTED) & INODE_ORPHAN_COUNTED)
		atomic_fetch_sub(&inode->fs->orphans->count, 1);
}

int orphan_add(struct handle *h, struct inode *inode)
{
	int err;

	if (inode_test(inode, INODE_ORPHAN))
		return 0;
	err = orphan_file_add(h, inode);
	if (err == -ENOSPC)
		err = orphan_list_add(h, inode);
	if (err)
		return err;
	mark(inode);
	return 0;
}

int orphan_del(struct handle *h, struct inode *inode)
{
	int err = 0;

	if (!inode_test(inode, INODE_ORPHAN))
		return 0;
	if (inode->orphan_slot == ORPHAN_SLOT_NONE)
		err = orphan_list_del(h, inode);
	else if (h)
		err = orphan_file_del(h, inode);
	inode_clear(inode, INODE_ORPHAN);
	if (inode->nlink)
		orphan_uncount(inode);
	return err;
}

uint64_t orphans_count(const struct ext4_fs *fs)
{
	return fs->orphans ? atomic_load(&fs->orphans->count) : 0;
}

/* ---- fast commits ---- */

/* @ino, 0: the superblock. */
static int list_relink(struct handle *h, struct ext4_fs *fs, ino_num ino, ino_num next)
{
	struct inode *inode;
	int err;

	if (!ino) {
		mutex_lock(&fs->orphan_lock);
		err = list_head_set(h, fs, next);
		mutex_unlock(&fs->orphan_lock);
		return err;
	}
	inode = inode_alloc(fs);
	if (!inode)
		return -ENOMEM;
	err = inode_load(fs, ino, true, inode);
	if (!err)
		err = list_link_set(h, inode, next);
	inode_free(inode);
	return err;
}

int orphans_drop(struct handle *h, struct ext4_fs *fs, const ino_num *list, size_t count,
		 bool (*is_gone)(void *arg, ino_num ino), void *arg)
{
	ino_num left = 0; /* the last one that stays */
	bool skipped = false;
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		if (is_gone(arg, list[i])) {
			skipped = true;
			continue;
		}
		if (skipped)
			err = list_relink(h, fs, left, list[i]);
		skipped = false;
		left = list[i];
	}
	if (skipped && !err)
		err = list_relink(h, fs, left, 0);
	for (uint32_t slot = 0; !err && slot < orphan_file_slots(fs->orphans); slot++)
		if (orphan_file_slot(fs->orphans, slot) && is_gone(arg, orphan_file_slot(fs->orphans, slot)))
			err = orphan_file_clear_slot(h, fs, slot);
	return err;
}

/* ---- at mount ---- */

/* A crash may have come between the new size and the zeroing of the last block's tail. */
static int zero_tail_on_disk(struct inode *inode)
{
	struct ext4_fs *fs = inode->fs;
	uint32_t used = (uint32_t)(inode_size(inode) % fs->block_bytes);
	struct map_result map;
	uint8_t *buf;
	int err;

	if (!used || !S_ISREG(inode->mode))
		return 0;
	err = map_lookup(inode, (lblk_t)(inode_size(inode) >> fs->block_bits), 1, &map);
	if (err || map.status != ES_WRITTEN)
		return err;
	err = -posix_memalign((void **)&buf, max_of(fs->block_bytes, 4096u), fs->block_bytes);
	if (err)
		return err;
	err = block_read(fs->dev, map.blk << fs->block_bits, buf, fs->block_bytes);
	if (!err) {
		memset(buf + used, 0, fs->block_bytes - used);
		err = block_write(fs->dev, map.blk << fs->block_bits, buf, fs->block_bytes, 0);
	}
	free(buf);
	return err;
}

static int orphan_truncate(struct inode *inode)
{
	uint64_t blocks = div_round_up(inode_size(inode), (uint64_t)inode->fs->block_bytes);
	struct handle h;
	int err, stop_err;

	err = zero_tail_on_disk(inode);
	if (!err && blocks <= UINT32_MAX)
		err = map_truncate(inode, (lblk_t)blocks);
	if (!err)
		err = fs_handle_start(inode->fs, 1 + ORPHAN_CREDITS, 0, &h);
	if (err)
		return err;
	err = orphan_del(&h, inode);
	if (!err)
		err = inode_write(&h, inode);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

struct orphan_counts {
	uint32_t truncated, freed;
};

/* Does the work that the orphan waits for; it is off the list afterwards (O2). */
static int orphan_finish(struct inode *inode, struct orphan_counts *counts)
{
	bool linked = inode->nlink != 0;
	int err = 0, evict_err;

	if (linked)
		err = orphan_truncate(inode);
	evict_err = inode_evict(inode);
	err = err ? err : evict_err;
	if (!err && linked)
		counts->truncated++;
	else if (!err)
		counts->freed++;
	return err;
}

/* Loads an inode said to be an orphan. -EUCLEAN: it cannot be one. */
static int orphan_load(struct ext4_fs *fs, ino_num ino, struct inode **inode_out)
{
	struct inode *inode;
	int err;

	if (ino < fs->first_ino || ino > fs->inodes_count)
		return FS_ERROR(fs, -EUCLEAN, "orphan inode number %u is out of range", ino);
	err = ialloc_is_used(fs, ino);
	if (err == 0)
		return FS_ERROR(fs, -EUCLEAN, "orphan inode #%u is free already", ino);
	if (err < 0)
		return err;
	inode = inode_alloc(fs);
	if (!inode)
		return -ENOMEM;
	err = inode_load(fs, ino, true, inode);
	if (err == -ESTALE)
		err = FS_ERROR(fs, -EUCLEAN, "orphan inode #%u was never in use", ino);
	if (err)
		inode_free(inode);
	else
		*inode_out = inode;
	return err;
}

/* Drops what is left of a list that cannot be followed: its inodes stay lost until e2fsck finds them. */
static int orphan_list_cut(struct ext4_fs *fs)
{
	struct handle h;
	int err, stop_err;

	err = fs_handle_start(fs, 1, 0, &h);
	if (err)
		return err;
	mutex_lock(&fs->orphan_lock);
	err = list_head_set(&h, fs, 0);
	mutex_unlock(&fs->orphan_lock);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

static int orphan_list_take(struct ext4_fs *fs, ino_num ino, struct orphan_counts *counts)
{
	struct inode *inode;
	int err;

	err = orphan_load(fs, ino, &inode);
	if (err)
		return err;
	mutex_lock(&fs->orphan_lock);
	list_add(&inode->orphan_node, &fs->orphans->list);
	inode->orphan_slot = ORPHAN_SLOT_NONE;
	mutex_unlock(&fs->orphan_lock);
	mark(inode);
	err = orphan_finish(inode, counts);
	inode_free(inode);
	return err;
}

/* Each step unlinks the head, so a cycle comes to inodes that are free or have no link any more, and ends. */
static int orphan_list_process(struct ext4_fs *fs, struct orphan_counts *counts)
{
	ino_num ino;
	int err = 0;

	for (uint32_t steps = 0; (ino = le32_get(fs_super(fs)->s_last_orphan)); steps++) {
		err = steps < fs->inodes_count ? orphan_list_take(fs, ino, counts) : -EUCLEAN;
		if (!err)
			continue;
		log_print(&fs->log, LOG_ERROR, "%s: the orphan list is cut off at inode #%u", fs->name, ino);
		return err == -EUCLEAN || err == -EBADMSG ? orphan_list_cut(fs) : err;
	}
	return 0;
}

static int orphan_slot_drop(struct ext4_fs *fs, uint32_t slot)
{
	struct handle h;
	int err, stop_err;

	err = fs_handle_start(fs, 1, 0, &h);
	if (err)
		return err;
	err = orphan_file_clear_slot(&h, fs, slot);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

static int orphan_slot_take(struct ext4_fs *fs, uint32_t slot, struct orphan_counts *counts)
{
	ino_num ino = orphan_file_slot(fs->orphans, slot);
	struct inode *inode;
	int err;

	if (!ino)
		return 0;
	err = orphan_load(fs, ino, &inode);
	if (err == -EUCLEAN || err == -EBADMSG)
		return orphan_slot_drop(fs, slot);
	if (err)
		return err;
	inode->orphan_slot = slot;
	mark(inode);
	err = orphan_finish(inode, counts);
	inode_free(inode);
	return err;
}

int orphan_process_all(struct ext4_fs *fs, uint32_t *truncated_out, uint32_t *freed_out)
{
	struct orphan_counts counts = { 0 };
	int err;

	/* Links of a damaged file system are not to be trusted: e2fsck finds the inodes. */
	if (le16_get(fs_super(fs)->s_state) & EXT4_STATE_ERROR_FS) {
		if (!le32_get(fs_super(fs)->s_last_orphan))
			return 0;
		log_print(&fs->log, LOG_WARNING, "%s: errors on the file system, clearing the orphan list", fs->name);
		return orphan_list_cut(fs);
	}
	err = orphan_list_process(fs, &counts);
	for (uint32_t slot = 0; !err && slot < orphan_file_slots(fs->orphans); slot++)
		err = orphan_slot_take(fs, slot, &counts);
	*truncated_out = counts.truncated;
	*freed_out = counts.freed;
	return err;
}
