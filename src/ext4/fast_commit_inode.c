/* SPDX-License-Identifier: MIT */
/* fast_commit_inode.c - inodes of the end state: filled in, freed, written, mapped */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ext4/balloc.h"
#include "ext4/fast_commit_private.h"
#include "ext4/group.h"
#include "ext4/ialloc.h"
#include "ext4/map.h"
#include "ext4/xattr.h"

/* Of a record these bytes are another's business: i_block is what the ranges say. */
#define I_BLOCK_START ((uint32_t)offsetof(struct ext4_inode, i_block))
#define I_BLOCK_END   ((uint32_t)offsetof(struct ext4_inode, i_generation))

/* ---- filling in ---- */

/* The record over what is in the table now: records of older kernels end behind the fields. */
static int raw_compose(struct fast_commit *fc, const struct fc_inode *n, uint8_t *raw)
{
	struct buffer_head *bh;
	uint32_t off;
	int err;

	memset(raw, 0, fc->fs->inode_bytes);
	if (n->is_base) {
		err = inode_table_block(fc->fs, n->ino, &bh, &off);
		if (err)
			return err;
		memcpy(raw, bh->data + off, fc->fs->inode_bytes);
		buffer_put(bh);
	}
	memcpy(raw, n->raw, n->raw_bytes);
	return 0;
}

static void keep_flags(struct inode *inode, uint32_t own, bool is_base)
{
	uint32_t ours = is_base ? EXT4_EXTENTS_FL | EXT4_INDEX_FL : EXT4_INDEX_FL;

	inode->flags = (inode->flags & ~ours) | (own & ours);
}

static void keep_symlink(struct inode *inode)
{
	if (!S_ISLNK(inode->mode))
		return;
	if (inode_size(inode) < sizeof(inode->i_block))
		inode_set(inode, INODE_FAST_SYMLINK);
	else
		inode_clear(inode, INODE_FAST_SYMLINK);
}

/* Takes the record's fields over, but for those that follow from blocks of ours. */
static int inode_take_raw(struct fast_commit *fc, const struct fc_inode *n, const struct ext4_inode *raw)
{
	struct inode *inode = n->inode;
	uint64_t own_size = inode_size(inode), own_blocks = inode->blocks_512;
	uint32_t own_flags = inode->flags, own_dtime = atomic_load(&inode->dtime);
	fsblk_t own_acl = inode->file_acl;
	le32 own_map[15];
	const char *rule = inode_raw_verify(fc->fs, raw);

	memcpy(own_map, inode->i_block, sizeof(own_map));
	if (!rule) {
		inode_raw_unpack(inode, raw);
		if (inode->file_acl != own_acl)
			rule = "i_file_acl: a block that no record tells of";
	}
	if (rule)
		return INODE_ERROR(inode, -EUCLEAN, 0, "fast commits: %s", rule);
	inode->nlink = n->links;
	inode->blocks_512 = own_blocks;
	atomic_store(&inode->dtime, own_dtime);
	keep_flags(inode, own_flags, n->is_base);
	keep_symlink(inode);
	if (inode_is_dir(inode)) {
		inode_size_set(inode, own_size);
		inode->disksize_bytes = own_size;
	}
	if (!map_has_tree(inode))
		return 0;
	if (n->is_base)
		memcpy(inode->i_block, own_map, sizeof(own_map));
	else
		map_init_inode(inode);
	return 0;
}

static int inode_fill_checked(struct fast_commit *fc, const struct fc_inode *n)
{
	uint8_t *raw = malloc(max_of(fc->fs->inode_bytes, (uint32_t)sizeof(struct ext4_inode)));
	const char *rule;
	int err;

	if (!raw)
		return -ENOMEM;
	err = raw_compose(fc, n, raw);
	if (!err)
		err = inode_take_raw(fc, n, (const struct ext4_inode *)(const void *)raw);
	free(raw);
	rule = err ? NULL : inode_verify(n->inode);
	if (!rule && !err && !n->is_base && inode_is_dir(n->inode) && !n->parent)
		rule = "a new directory without a name";
	return rule ? INODE_ERROR(n->inode, -EUCLEAN, 0, "fast commits: %s", rule) : err;
}

int fc_inode_fill(struct fast_commit *fc, struct fc_inode *n)
{
	if (n->is_base) {
		n->inode = n->base;
	} else {
		n->inode = inode_alloc(fc->fs);
		if (!n->inode)
			return -ENOMEM;
		n->inode->ino = n->ino;
		n->inode->block_group = fs_group_of_ino(fc->fs, n->ino);
	}
	if (n->raw)
		return inode_fill_checked(fc, n);
	n->inode->nlink = n->links;
	return 0;
}

/* ---- blocks ---- */

static int in_one_handle(int err, struct ext4_fs *fs)
{
	return err > 0 ? fc_room(NULL, fs, 0) : err;
}

/* Unmaps [lblk, lblk + len), which lies at @pblk: what another inode gets stays in use. */
static int unmap_piece(struct handle *h, struct fast_commit *fc, struct inode *inode, const struct ext_extent *was)
{
	struct ext_extent e = *was;
	int err = 0;

	while (!err && e.len) {
		bool given;
		uint32_t len = fc_runs_piece(&fc->owned, e.pblk, e.len, &given);

		err = given ? map_detach(h, inode, e.lblk, (uint64_t)e.lblk + len)
			    : map_remove_in(h, inode, e.lblk, (uint64_t)e.lblk + len);
		err = in_one_handle(err, fc->fs);
		e.lblk += len;
		e.pblk += len;
		e.len -= len;
	}
	return err;
}

int fc_inode_unmap(struct handle *h, struct fast_commit *fc, struct fc_inode *n)
{
	struct ext_extent was, is;
	uint64_t lblk = 0;
	int err = 0;

	if (!n->base || n->inode != n->base)
		return 0;
	while (!err && fc_ranges_next_diff(&n->old, &n->now, &lblk, &was, &is))
		if (was.len && (!is.len || is.pblk != was.pblk))
			err = unmap_piece(h, fc, n->base, &was);
	return err;
}

static int map_piece(struct handle *h, struct fast_commit *fc, struct inode *inode, const struct ext_extent *is)
{
	uint32_t max = is->unwritten ? EXT4_EXT_UNWRITTEN_MAX : EXT4_EXT_WRITTEN_MAX;
	struct ext_extent e = *is;
	int err = 0;

	for (uint32_t left = is->len; !err && left; left -= e.len, e.lblk += e.len, e.pblk += e.len) {
		e.len = min_of(left, max);
		err = fc_room(h, fc->fs, map_credits(inode, e.len) + 1);
		if (!err)
			err = map_attach(h, inode, &e);
		if (err)
			break;
	}
	return err;
}

int fc_inode_map(struct handle *h, struct fast_commit *fc, struct fc_inode *n)
{
	static const struct fc_ranges none;
	const struct fc_ranges *old = n->inode == n->base ? &n->old : &none;
	struct ext_extent was, is;
	uint64_t lblk = 0;
	int err = 0;

	while (n->inode && !err && fc_ranges_next_diff(old, &n->now, &lblk, &was, &is)) {
		lblk_t start = is.lblk;

		if (was.len && is.len && was.pblk == is.pblk)
			err = in_one_handle(map_set_state(h, n->inode, &start, ext_end(&is), is.unwritten), fc->fs);
		else if (is.len)
			err = map_piece(h, fc, n->inode, &is);
	}
	return err;
}

/* ---- the base inode goes ---- */

static int base_unmap(struct handle *h, struct fast_commit *fc, struct fc_inode *n)
{
	int err = 0;

	for (size_t i = 0; S_ISREG(n->base->mode) && !err && i < n->old.count; i++)
		err = unmap_piece(h, fc, n->base, &n->old.at[i]);
	if (!err && map_has_tree(n->base))
		err = in_one_handle(map_remove_in(h, n->base, 0, LBLK_END), fc->fs);
	return err;
}

int fc_inode_free_base(struct handle *h, struct fast_commit *fc, struct fc_inode *n)
{
	struct inode *inode = n->base;
	int err;

	if (!inode || n->inode == inode)
		return 0;
	n->was_orphan = true;
	err = base_unmap(h, fc, n);
	if (!err)
		err = fc_room(h, fc->fs, 2 * BALLOC_CREDITS + IALLOC_CREDITS + 2);
	if (!err && inode->file_acl)
		err = xattr_free_all(h, inode);
	if (err)
		return err;
	inode->nlink = 0;
	inode_size_set(inode, 0);
	inode->disksize_bytes = 0;
	atomic_store(&inode->dtime, (uint32_t)fs_now(fc->fs).tv_sec);
	err = inode_write(h, inode);
	return err ? err : ialloc_free(h, inode);
}

/* ---- writing ---- */

/* In-body xattrs and whatever fields we do not know. */
static int raw_store(struct handle *h, struct fc_inode *n)
{
	struct buffer_head *bh;
	uint32_t off;
	int err = inode_raw_access(h, n->inode, &bh, &off);

	if (err)
		return err;
	buffer_lock(bh);
	memcpy(bh->data + off, n->raw, I_BLOCK_START);
	memcpy(bh->data + off + I_BLOCK_END, n->raw + I_BLOCK_END, n->raw_bytes - I_BLOCK_END);
	buffer_unlock(bh);
	buffer_put(bh);
	return 0;
}

int fc_inode_store(struct handle *h, struct fc_inode *n)
{
	int err;

	if (!n->inode)
		return 0;
	err = fc_room(h, n->inode->fs, IALLOC_CREDITS + 4);
	if (!err && n->inode != n->base)
		err = ialloc_claim(h, n->inode);
	if (!err && n->raw)
		err = raw_store(h, n);
	if (!err)
		err = inode_write(h, n->inode);
	if (!err)
		inode_clear(n->inode, INODE_NEW);
	return err;
}
