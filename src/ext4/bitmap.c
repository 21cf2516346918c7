/* SPDX-License-Identifier: MIT */
/* bitmap.c - block and inode bitmaps: read and checked, or built for groups never used */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/checksum.h"
#include "ext4/fs_private.h"
#include "ext4/group_format.h"
#include "ext4/group_private.h"

/*
 * A bitmap buffer with BH_VERIFIED has been checked or built. The decoded checksum and the *_UNINIT flags of a group
 * change only by those who hold its bitmap's verified buffer, and buffers are unique, so that whoever verifies
 * under the buffer lock sees them still.
 */

static void bits_set(uint8_t *bitmap, uint32_t start, uint32_t end)
{
	while (start < end && start % 8)
		bitmap[start / 8] |= (uint8_t)(1u << start % 8), start++;
	memset(bitmap + start / 8, 0xFF, (end - start) / 8);
	start = round_down_to(end, 8u) > start ? round_down_to(end, 8u) : start;
	for (; start < end; start++)
		bitmap[start / 8] |= (uint8_t)(1u << start % 8);
}

static bool bits_are_set(const uint8_t *bitmap, uint32_t start, uint32_t end)
{
	for (; start < end && start % 8; start++)
		if (!(bitmap[start / 8] & 1u << start % 8))
			return false;
	for (; end - start >= 8; start += 8)
		if (bitmap[start / 8] != 0xFF)
			return false;
	for (; start < end; start++)
		if (!(bitmap[start / 8] & 1u << start % 8))
			return false;
	return true;
}

/* ---- checksums ---- */

static bool csum_has_high_half(const struct ext4_fs *fs)
{
	return fs->desc_bytes >= sizeof(struct ext4_group_desc);
}

static uint32_t bitmap_csum(const struct ext4_fs *fs, const struct buffer_head *bh, uint32_t bits)
{
	uint32_t csum = crc32c(fs->csum_seed, bh->data, bits / 8);

	return csum_has_high_half(fs) ? csum : csum & 0xFFFF;
}

static uint32_t block_bitmap_bits(const struct ext4_fs *fs)
{
	return fs->blocks_per_group >> fs->cluster_bits;
}

void group_block_bitmap_csum_set(struct ext4_fs *fs, struct ext4_group *g, const struct buffer_head *bh)
{
	lock_assert_held(&g->lock);
	if (fs->has_metadata_csum)
		g->block_bitmap_csum = bitmap_csum(fs, bh, block_bitmap_bits(fs));
}

void group_inode_bitmap_csum_set(struct ext4_fs *fs, struct ext4_group *g, const struct buffer_head *bh)
{
	lock_assert_held(&g->lock);
	if (fs->has_metadata_csum)
		g->inode_bitmap_csum = bitmap_csum(fs, bh, fs->inodes_per_group);
}

/* ---- building ---- */

struct zone_marker {
	uint8_t *bitmap;
	fsblk_t first;
	uint32_t cluster_bits;
	bool all_set;
};

static void mark_run(void *arg, fsblk_t blk, uint64_t count)
{
	struct zone_marker *m = arg;
	uint32_t start = (uint32_t)((blk - m->first) >> m->cluster_bits);
	uint32_t end = (uint32_t)((blk + count - 1 - m->first) >> m->cluster_bits) + 1;

	bits_set(m->bitmap, start, end);
}

static void check_run(void *arg, fsblk_t blk, uint64_t count)
{
	struct zone_marker *m = arg;
	uint32_t start = (uint32_t)((blk - m->first) >> m->cluster_bits);
	uint32_t end = (uint32_t)((blk + count - 1 - m->first) >> m->cluster_bits) + 1;

	m->all_set &= bits_are_set(m->bitmap, start, end);
}

/* Clusters of the group that exist; the rest of the bitmap block is padding, all ones. */
static uint32_t group_cluster_count(const struct ext4_fs *fs, group_t group)
{
	return (group_block_count(fs, group) + (1u << fs->cluster_bits) - 1) >> fs->cluster_bits;
}

static void block_bitmap_build(struct ext4_fs *fs, struct ext4_group *g, uint8_t *bitmap)
{
	fsblk_t first = group_first_block(fs, g->group);
	struct zone_marker marker = { .bitmap = bitmap, .first = first, .cluster_bits = fs->cluster_bits };

	memset(bitmap, 0, fs->block_bytes);
	system_zone_each(fs, first, group_block_count(fs, g->group), mark_run, &marker);
	bits_set(bitmap, group_cluster_count(fs, g->group), fs->block_bytes * 8);
}

static void inode_bitmap_build(struct ext4_fs *fs, struct ext4_group *g, uint8_t *bitmap)
{
	memset(bitmap, 0, fs->block_bytes);
	bits_set(bitmap, fs->inodes_per_group, fs->block_bytes * 8);
}

/* ---- checking ---- */

static int block_bitmap_check(struct ext4_fs *fs, struct ext4_group *g, uint8_t *bitmap, const struct buffer_head *bh)
{
	fsblk_t first = group_first_block(fs, g->group);
	struct zone_marker marker = { .bitmap = bitmap, .first = first, .cluster_bits = fs->cluster_bits, .all_set = true };
	uint32_t csum;

	if (fs->has_metadata_csum) {
		csum = bitmap_csum(fs, bh, block_bitmap_bits(fs));
		if (csum != g->block_bitmap_csum)
			return FS_ERROR(fs, -EBADMSG, "group %u: block bitmap at %" PRIu64 ": checksum 0x%08x, expected 0x%08x",
					g->group, bh->blk, g->block_bitmap_csum, csum);
	}
	system_zone_each(fs, first, group_block_count(fs, g->group), check_run, &marker);
	if (!marker.all_set)
		return FS_ERROR(fs, -EUCLEAN, "group %u: block bitmap at %" PRIu64 " shows metadata blocks as free", g->group,
				bh->blk);
	if (!bits_are_set(bitmap, group_cluster_count(fs, g->group), block_bitmap_bits(fs)))
		return FS_ERROR(fs, -EUCLEAN, "group %u: block bitmap at %" PRIu64 " shows blocks past the end as free",
				g->group, bh->blk);
	return 0;
}

static int inode_bitmap_check(struct ext4_fs *fs, struct ext4_group *g, uint8_t *bitmap, const struct buffer_head *bh)
{
	uint32_t csum;

	if (!fs->has_metadata_csum)
		return 0;
	csum = bitmap_csum(fs, bh, fs->inodes_per_group);
	if (csum != g->inode_bitmap_csum)
		return FS_ERROR(fs, -EBADMSG, "group %u: inode bitmap at %" PRIu64 ": checksum 0x%08x, expected 0x%08x",
				g->group, bh->blk, g->inode_bitmap_csum, csum);
	return 0;
}

/* ---- loading ---- */

/* What differs between the two bitmaps of a group. */
struct bitmap_kind {
	uint16_t uninit_flag;
	void (*build)(struct ext4_fs *fs, struct ext4_group *g, uint8_t *bitmap);
	int (*check)(struct ext4_fs *fs, struct ext4_group *g, uint8_t *bitmap, const struct buffer_head *bh);
};

static const struct bitmap_kind block_bitmap_kind = { EXT4_BG_BLOCK_UNINIT, block_bitmap_build, block_bitmap_check };
static const struct bitmap_kind inode_bitmap_kind = { EXT4_BG_INODE_UNINIT, inode_bitmap_build, inode_bitmap_check };

static uint16_t group_flags(const struct ext4_group *g)
{
	return __atomic_load_n(&g->flags, __ATOMIC_RELAXED);
}

/* Callers may hold the group's lock or not. */
static void group_mark_bad(struct ext4_group *g)
{
	bool held = mutex_is_held(&g->lock);

	if (!held)
		mutex_lock(&g->lock);
	g->bad = true;
	if (!held)
		mutex_unlock(&g->lock);
}

/* -EAGAIN: the group got initialised and its bitmap written and dropped since the caller looked; it must be read. */
static int bitmap_verify(struct ext4_fs *fs, struct ext4_group *g, const struct bitmap_kind *kind, struct buffer_head *bh)
{
	int err = 0;

	buffer_lock(bh);
	if (!buffer_test(bh, BH_VERIFIED)) {
		if (group_flags(g) & kind->uninit_flag) {
			kind->build(fs, g, bh->data);
			buffer_set(bh, BH_UPTODATE);
		} else {
			err = buffer_test(bh, BH_UPTODATE) ? kind->check(fs, g, bh->data, bh) : -EAGAIN;
		}
		if (!err)
			buffer_set(bh, BH_VERIFIED);
	}
	buffer_unlock(bh);
	return err;
}

/* Twice, if need be: a group whose bitmap cannot be read is out of use until the next mount, and what is freed in it is lost. */
static int bitmap_read(struct ext4_fs *fs, fsblk_t blk, struct buffer_head **bh_out)
{
	int err = buffer_read(fs->bc, blk, bh_out);

	return err == -EIO ? buffer_read(fs->bc, blk, bh_out) : err;
}

static int bitmap_load_once(struct ext4_fs *fs, struct ext4_group *g, fsblk_t blk, const struct bitmap_kind *kind,
			    struct buffer_head **bh_out)
{
	struct buffer_head *bh;
	int err;

	if (group_flags(g) & kind->uninit_flag)
		err = buffer_get(fs->bc, blk, &bh);
	else
		err = bitmap_read(fs, blk, &bh);
	if (err)
		return err == -EIO ? FS_ERROR(fs, err, "group %u: cannot read the bitmap at %" PRIu64, g->group, blk) : err;
	if (!buffer_test(bh, BH_VERIFIED))
		err = bitmap_verify(fs, g, kind, bh);
	if (err)
		buffer_put(bh);
	else
		*bh_out = bh;
	return err;
}

static int bitmap_load(struct ext4_fs *fs, struct ext4_group *g, fsblk_t blk, const struct bitmap_kind *kind,
		       struct buffer_head **bh_out)
{
	int err;

	do
		err = bitmap_load_once(fs, g, blk, kind, bh_out);
	while (err == -EAGAIN);
	if (err && err != -ENOMEM)
		group_mark_bad(g);
	return err;
}

int group_block_bitmap(struct ext4_fs *fs, struct ext4_group *g, struct buffer_head **bh_out)
{
	return bitmap_load(fs, g, g->block_bitmap, &block_bitmap_kind, bh_out);
}

int group_inode_bitmap(struct ext4_fs *fs, struct ext4_group *g, struct buffer_head **bh_out)
{
	return bitmap_load(fs, g, g->inode_bitmap, &inode_bitmap_kind, bh_out);
}

/* ---- first use ---- */

static uint32_t count_free_bits(const uint8_t *bitmap, uint32_t bits)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < bits / 8; i++)
		used += (uint32_t)__builtin_popcount(bitmap[i]);
	for (uint32_t i = round_down_to(bits, 8u); i < bits; i++)
		used += bitmap[i / 8] >> i % 8 & 1u;
	return bits - used;
}

void group_block_bitmap_init(struct ext4_fs *fs, struct ext4_group *g, const struct buffer_head *bh)
{
	lock_assert_held(&g->lock);
	if (!(g->flags & EXT4_BG_BLOCK_UNINIT))
		return;
	g->free_blocks = count_free_bits(bh->data, group_cluster_count(fs, g->group));
	__atomic_store_n(&g->flags, (uint16_t)(g->flags & ~EXT4_BG_BLOCK_UNINIT), __ATOMIC_RELAXED);
	group_block_bitmap_csum_set(fs, g, bh);
}

void group_inode_bitmap_init(struct ext4_fs *fs, struct ext4_group *g, const struct buffer_head *bh)
{
	lock_assert_held(&g->lock);
	if (!(g->flags & EXT4_BG_INODE_UNINIT))
		return;
	__atomic_store_n(&g->flags, (uint16_t)(g->flags & ~EXT4_BG_INODE_UNINIT), __ATOMIC_RELAXED);
	group_inode_bitmap_csum_set(fs, g, bh);
}
