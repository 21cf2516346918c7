/* SPDX-License-Identifier: MIT */
/*
 * xattr_block.c - the one block of xattrs that an inode may have, possibly shared with others
 *
 * A block with h_refcount above 1 is never changed in place: the inode gets one of its own and gives its reference up. Only
 * inodes that have a reference change the count, always under the buffer lock, and nobody adds one (uext4 does not
 * share blocks itself), so a count of 1 seen by an owner stays 1.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "ext4/balloc.h"
#include "ext4/xattr_private.h"

static struct ext4_xattr_header *block_header(const struct buffer_head *bh)
{
	return (struct ext4_xattr_header *)(void *)bh->data;
}

static struct xattr_region block_region(const struct ext4_fs *fs, const struct buffer_head *bh)
{
	return (struct xattr_region){ .base = bh->data, .first = sizeof(struct ext4_xattr_header),
				      .size = fs->block_bytes, .is_block = true };
}

static uint32_t block_csum(const struct ext4_fs *fs, fsblk_t blk, const uint8_t *data)
{
	const size_t at = offsetof(struct ext4_xattr_header, h_checksum), after = at + sizeof(le32);
	le64 disk_blk = le64_make(blk);
	le32 zero = { 0 };
	uint32_t csum;

	csum = fs_csum(fs, fs->csum_seed, &disk_blk, sizeof(disk_blk));
	csum = fs_csum(fs, csum, data, at);
	csum = fs_csum(fs, csum, &zero, sizeof(zero));
	return fs_csum(fs, csum, data + after, fs->block_bytes - after);
}

static void block_csum_set(const struct ext4_fs *fs, fsblk_t blk, uint8_t *data)
{
	if (fs->has_metadata_csum)
		((struct ext4_xattr_header *)(void *)data)->h_checksum = le32_make(block_csum(fs, blk, data));
}

/* Over all entries; an entry without a hash makes the block one that is not shared. */
static uint32_t block_hash(const struct xattr_region *r)
{
	const struct ext4_xattr_entry *e;
	uint32_t hash = 0;

	for (e = xattr_region_first(r); e; e = xattr_region_next(r, e)) {
		if (!le32_get(e->e_hash))
			return 0;
		hash = (hash << 16) ^ (hash >> 16) ^ le32_get(e->e_hash);
	}
	return hash;
}

static int block_verify(struct inode *inode, struct buffer_head *bh)
{
	const struct ext4_xattr_header *hdr = block_header(bh);
	struct xattr_region r = block_region(inode->fs, bh);
	const char *broken;

	if (le32_get(hdr->h_magic) != EXT4_XATTR_MAGIC)
		return INODE_ERROR(inode, -EUCLEAN, bh->blk, "xattr block: bad magic");
	if (inode->fs->has_metadata_csum && block_csum(inode->fs, bh->blk, bh->data) != le32_get(hdr->h_checksum))
		return INODE_ERROR(inode, -EBADMSG, bh->blk, "xattr block: bad checksum");
	if (le32_get(hdr->h_blocks) != 1 || !le32_get(hdr->h_refcount))
		return INODE_ERROR(inode, -EUCLEAN, bh->blk, "xattr block: h_blocks %u, h_refcount %u",
				   le32_get(hdr->h_blocks), le32_get(hdr->h_refcount));
	broken = xattr_region_verify(&r);
	if (broken)
		return INODE_ERROR(inode, -EUCLEAN, bh->blk, "xattr block: %s", broken);
	return 0;
}

int xattr_block_get(struct inode *inode, struct xattr_block *block)
{
	struct ext4_fs *fs = inode->fs;
	int err = 0;

	*block = (struct xattr_block){ 0 };
	if (!inode->file_acl)
		return 0;
	if (!fs_data_blocks_valid(fs, inode->file_acl, 1))
		return INODE_ERROR(inode, -EUCLEAN, inode->file_acl, "xattr block outside the data area");
	err = buffer_read(fs->bc, inode->file_acl, &block->bh);
	if (err)
		return err == -EIO ? INODE_ERROR(inode, err, inode->file_acl, "reading the xattr block") : err;
	if (!buffer_test(block->bh, BH_VERIFIED)) {
		buffer_lock(block->bh); /* another owner may be changing the count */
		err = block_verify(inode, block->bh);
		if (!err)
			buffer_set(block->bh, BH_VERIFIED);
		buffer_unlock(block->bh);
	}
	if (err)
		xattr_block_put(block);
	else
		block->region = block_region(fs, block->bh);
	return err;
}

void xattr_block_put(struct xattr_block *block)
{
	buffer_put(block->bh);
	block->bh = NULL;
}

/* ---- changes ---- */

static int block_alloc(struct handle *h, struct inode *inode, struct buffer_head **bh_out)
{
	struct balloc_request req = { .inode = inode, .goal = balloc_inode_goal(inode), .len = 1,
				      .flags = BALLOC_METADATA | BALLOC_NO_PREALLOC | balloc_rights(h) };
	struct ext4_fs *fs = inode->fs;
	struct buffer_head *bh;
	uint32_t len;
	fsblk_t blk;
	int err;

	err = balloc_alloc(h, &req, &blk, &len);
	if (err)
		return err;
	err = buffer_get(fs->bc, blk, &bh);
	if (err)
		goto free_blk;
	err = journal_get_create_access(h, bh);
	if (err) {
		buffer_put(bh);
		goto free_blk;
	}
	*bh_out = bh;
	return 0;
free_blk:
	balloc_free(h, inode, blk, 1, 0); /* nothing in it to revoke; a failure here has been reported */
	return err;
}

/* @data becomes the block's contents. */
static int block_fill(struct handle *h, struct inode *inode, struct buffer_head *bh, const uint8_t *data)
{
	struct ext4_fs *fs = inode->fs;
	struct ext4_xattr_header *hdr = block_header(bh);
	struct xattr_region r = block_region(fs, bh);

	buffer_lock(bh);
	memcpy(bh->data, data, fs->block_bytes);
	*hdr = (struct ext4_xattr_header){ .h_magic = le32_make(EXT4_XATTR_MAGIC), .h_refcount = le32_make(1),
					   .h_blocks = le32_make(1) };
	hdr->h_hash = le32_make(block_hash(&r));
	block_csum_set(fs, bh->blk, bh->data);
	buffer_set(bh, BH_UPTODATE | BH_VERIFIED);
	buffer_unlock(bh);
	return journal_dirty_metadata(h, bh);
}

/* The last reference frees the block. */
static int block_unref(struct handle *h, struct inode *inode, struct buffer_head *bh)
{
	struct ext4_xattr_header *hdr = block_header(bh);
	uint32_t refs;
	int err;

	err = journal_get_write_access(h, bh);
	if (err)
		return err;
	buffer_lock(bh);
	refs = le32_get(hdr->h_refcount) - 1;
	if (refs) {
		hdr->h_refcount = le32_make(refs);
		block_csum_set(inode->fs, bh->blk, bh->data);
	}
	buffer_unlock(bh);
	if (refs)
		return journal_dirty_metadata(h, bh);
	return balloc_free(h, inode, bh->blk, 1, BFREE_METADATA);
}

static bool block_is_shared(struct buffer_head *bh)
{
	bool shared;

	buffer_lock(bh);
	shared = le32_get(block_header(bh)->h_refcount) > 1;
	buffer_unlock(bh);
	return shared;
}

static int block_replace(struct handle *h, struct inode *inode, struct buffer_head *old, const uint8_t *data)
{
	struct buffer_head *bh;
	int err;

	err = block_alloc(h, inode, &bh);
	if (err)
		return err;
	err = block_fill(h, inode, bh, data);
	if (!err && old)
		err = block_unref(h, inode, old);
	if (!err) {
		if (!old)
			inode_add_blocks(inode, 1);
		inode->file_acl = bh->blk;
	}
	buffer_put(bh);
	return err;
}

int xattr_block_drop(struct handle *h, struct inode *inode)
{
	struct xattr_block block;
	int err;

	err = xattr_block_get(inode, &block);
	if (err || !block.bh)
		return err;
	err = block_unref(h, inode, block.bh);
	if (!err) {
		inode->file_acl = 0;
		inode_add_blocks(inode, -1);
	}
	xattr_block_put(&block);
	return err;
}

static int block_update(struct handle *h, struct inode *inode, struct xattr_block *block, const uint8_t *data)
{
	int err;

	if (!block->bh || block_is_shared(block->bh))
		return block_replace(h, inode, block->bh, data);
	err = journal_get_write_access(h, block->bh);
	return err ? err : block_fill(h, inode, block->bh, data);
}

int xattr_block_set(struct handle *h, struct inode *inode, struct xattr_block *block, const struct xattr_name *name,
		    const struct xattr_value *value)
{
	struct xattr_region r = block->region;
	uint8_t *data = calloc(2, inode->fs->block_bytes); /* the new contents, and an empty block to start from */
	uint32_t count;
	int err;

	if (!data)
		return -ENOMEM;
	if (!block->bh)
		r = (struct xattr_region){ .base = data + inode->fs->block_bytes, .first = sizeof(struct ext4_xattr_header),
					   .size = inode->fs->block_bytes, .is_block = true };
	err = xattr_region_rebuild(&r, name, value, data, &count);
	if (!err)
		err = count ? block_update(h, inode, block, data) : xattr_block_drop(h, inode);
	free(data);
	return err;
}
