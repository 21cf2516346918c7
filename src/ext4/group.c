/* SPDX-License-Identifier: MIT */
/* group.c - where groups and their descriptors lie; descriptors read, checked and written */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "ext4/balloc.h"
#include "ext4/fs_private.h"
#include "ext4/group_format.h"
#include "ext4/group_private.h"
#include "ext4/super.h"

/* ---- layout ---- */

group_t fs_group_of_block(const struct ext4_fs *fs, fsblk_t blk)
{
	return (group_t)((blk - fs->first_data_block) / fs->blocks_per_group);
}

fsblk_t group_first_block(const struct ext4_fs *fs, group_t group)
{
	return (fsblk_t)group * fs->blocks_per_group + fs->first_data_block;
}

uint32_t group_block_count(const struct ext4_fs *fs, group_t group)
{
	if (group + 1 < fs->group_count)
		return fs->blocks_per_group;
	return (uint32_t)(fs->blocks_count - group_first_block(fs, group));
}

group_t fs_group_of_ino(const struct ext4_fs *fs, ino_num ino)
{
	return (ino - 1) / fs->inodes_per_group;
}

static bool is_power_of(group_t group, group_t base)
{
	uint64_t power = base;

	while (power < group)
		power *= base;
	return power == group;
}

bool group_has_super(const struct ext4_fs *fs, group_t group)
{
	if (group == 0)
		return true;
	if (fs_has_compat(fs, EXT4_FEATURE_COMPAT_SPARSE_SUPER2)) {
		const struct ext4_super_block *es = fs_super(fs);

		return group == le32_get(es->s_backup_bgs[0]) || group == le32_get(es->s_backup_bgs[1]);
	}
	if (group == 1 || !fs_has_ro_compat(fs, EXT4_FEATURE_RO_COMPAT_SPARSE_SUPER))
		return true;
	return (group & 1) && (is_power_of(group, 3) || is_power_of(group, 5) || is_power_of(group, 7));
}

static uint32_t desc_blocks_count(const struct ext4_fs *fs)
{
	return div_round_up(fs->group_count, fs->descs_per_block);
}

/* Descriptor blocks before this index follow each superblock copy; those from it on lie in their own meta group. */
static uint32_t first_meta_desc_block(const struct ext4_fs *fs)
{
	if (!fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_META_BG))
		return desc_blocks_count(fs);
	return le32_get(fs_super(fs)->s_first_meta_bg);
}

uint32_t group_base_blocks(const struct ext4_fs *fs, group_t group)
{
	uint32_t meta_group = group / fs->descs_per_block, in_meta = group % fs->descs_per_block;
	bool has_super = group_has_super(fs, group);
	uint32_t blocks = has_super;

	/* With 1 KiB blocks that start at 0 (bigalloc) the superblock is the second block. */
	if (group == 0 && fs->block_bytes == 1024 && fs->first_data_block == 0)
		blocks++;
	if (meta_group < first_meta_desc_block(fs)) {
		if (has_super)
			blocks += first_meta_desc_block(fs) + le16_get(fs_super(fs)->s_reserved_gdt_blocks);
	} else if (in_meta == 0 || in_meta == 1 || in_meta == fs->descs_per_block - 1) {
		blocks++;
	}
	return blocks;
}

/* Block of the descriptors of meta group @index, in the copy that belongs to the superblock in use. */
static fsblk_t desc_block_location(const struct ext4_fs *fs, uint32_t index)
{
	group_t group = index * fs->descs_per_block;
	fsblk_t blk;

	if (index < first_meta_desc_block(fs))
		return fs->super_bh->blk + 1 + index;
	blk = group_first_block(fs, group) + group_has_super(fs, group);
	if (group == 0 && fs->block_bytes == 1024 && fs->first_data_block == 0)
		blk++;
	return blk;
}

/* ---- checksums ---- */

static uint16_t desc_csum(const struct ext4_fs *fs, group_t group, const struct ext4_group_desc *desc)
{
	const size_t off = offsetof(struct ext4_group_desc, bg_checksum), after = off + sizeof(desc->bg_checksum);
	const uint8_t *bytes = (const uint8_t *)desc;
	le32 number = le32_make(group);

	if (fs->has_metadata_csum) {
		struct {
			le32 number;
			uint8_t before[offsetof(struct ext4_group_desc, bg_checksum)];
			le16 zero;
		} head = { .number = number };
		static_assert(sizeof(head) == sizeof(number) + offsetof(struct ext4_group_desc, bg_checksum) + sizeof(le16), "no padding");

		memcpy(head.before, bytes, off);
		return (uint16_t)crc32c(crc32c(fs->csum_seed, &head, sizeof(head)), bytes + after, fs->desc_bytes - after);
	}
	if (fs->has_gdt_csum) {
		uint16_t csum = crc16(UINT16_MAX, fs_super(fs)->s_uuid, 16);

		csum = crc16(csum, &number, sizeof(number));
		csum = crc16(csum, bytes, off);
		return crc16(csum, bytes + after, fs->desc_bytes - after);
	}
	return 0;
}

static bool desc_csum_is_right(const struct ext4_fs *fs, group_t group, const struct ext4_group_desc *desc)
{
	if (!fs->has_metadata_csum && !fs->has_gdt_csum)
		return true;
	return desc_csum(fs, group, desc) == le16_get(desc->bg_checksum);
}

/* ---- decoding and packing ---- */

static struct ext4_group_desc *group_desc(const struct ext4_group *g)
{
	return (struct ext4_group_desc *)(void *)(g->desc_bh->data + g->desc_off);
}

static bool has_high_half(const struct ext4_fs *fs)
{
	return fs->desc_bytes >= sizeof(struct ext4_group_desc);
}

static void group_decode(const struct ext4_fs *fs, struct ext4_group *g)
{
	const struct ext4_group_desc *desc = group_desc(g);

	g->block_bitmap = le32_get(desc->bg_block_bitmap_lo);
	g->inode_bitmap = le32_get(desc->bg_inode_bitmap_lo);
	g->inode_table = le32_get(desc->bg_inode_table_lo);
	g->free_blocks = le16_get(desc->bg_free_blocks_count_lo);
	g->free_inodes = le16_get(desc->bg_free_inodes_count_lo);
	g->used_dirs = le16_get(desc->bg_used_dirs_count_lo);
	g->itable_unused = le16_get(desc->bg_itable_unused_lo);
	g->block_bitmap_csum = le16_get(desc->bg_block_bitmap_csum_lo);
	g->inode_bitmap_csum = le16_get(desc->bg_inode_bitmap_csum_lo);
	g->flags = le16_get(desc->bg_flags);
	if (has_high_half(fs)) {
		g->block_bitmap |= (fsblk_t)le32_get(desc->bg_block_bitmap_hi) << 32;
		g->inode_bitmap |= (fsblk_t)le32_get(desc->bg_inode_bitmap_hi) << 32;
		g->inode_table |= (fsblk_t)le32_get(desc->bg_inode_table_hi) << 32;
		g->free_blocks |= (uint32_t)le16_get(desc->bg_free_blocks_count_hi) << 16;
		g->free_inodes |= (uint32_t)le16_get(desc->bg_free_inodes_count_hi) << 16;
		g->used_dirs |= (uint32_t)le16_get(desc->bg_used_dirs_count_hi) << 16;
		g->itable_unused |= (uint32_t)le16_get(desc->bg_itable_unused_hi) << 16;
		g->block_bitmap_csum |= (uint32_t)le16_get(desc->bg_block_bitmap_csum_hi) << 16;
		g->inode_bitmap_csum |= (uint32_t)le16_get(desc->bg_inode_bitmap_csum_hi) << 16;
	}
	/* Without a descriptor checksum these fields were never kept. */
	if (!fs->has_metadata_csum && !fs->has_gdt_csum) {
		g->flags = 0;
		g->itable_unused = 0;
	}
	atomic_store_explicit(&g->free_blocks_hint, g->free_blocks, memory_order_relaxed);
	atomic_store_explicit(&g->free_inodes_hint, g->free_inodes, memory_order_relaxed);
}

void group_desc_store(struct ext4_fs *fs, struct ext4_group *g)
{
	struct ext4_group_desc *desc = group_desc(g);

	lock_assert_held(&g->lock);
	desc->bg_free_blocks_count_lo = le16_make((uint16_t)g->free_blocks);
	desc->bg_free_inodes_count_lo = le16_make((uint16_t)g->free_inodes);
	desc->bg_used_dirs_count_lo = le16_make((uint16_t)g->used_dirs);
	desc->bg_itable_unused_lo = le16_make((uint16_t)g->itable_unused);
	desc->bg_flags = le16_make(g->flags);
	desc->bg_block_bitmap_csum_lo = le16_make((uint16_t)g->block_bitmap_csum);
	desc->bg_inode_bitmap_csum_lo = le16_make((uint16_t)g->inode_bitmap_csum);
	if (has_high_half(fs)) {
		desc->bg_free_blocks_count_hi = le16_make((uint16_t)(g->free_blocks >> 16));
		desc->bg_free_inodes_count_hi = le16_make((uint16_t)(g->free_inodes >> 16));
		desc->bg_used_dirs_count_hi = le16_make((uint16_t)(g->used_dirs >> 16));
		desc->bg_itable_unused_hi = le16_make((uint16_t)(g->itable_unused >> 16));
		desc->bg_block_bitmap_csum_hi = le16_make((uint16_t)(g->block_bitmap_csum >> 16));
		desc->bg_inode_bitmap_csum_hi = le16_make((uint16_t)(g->inode_bitmap_csum >> 16));
	}
	desc->bg_checksum = le16_make(desc_csum(fs, g->group, desc));
	atomic_store_explicit(&g->free_blocks_hint, g->free_blocks, memory_order_relaxed);
	atomic_store_explicit(&g->free_inodes_hint, g->free_inodes, memory_order_relaxed);
}

/* ---- verification ---- */

static bool range_in(fsblk_t blk, uint64_t count, fsblk_t start, fsblk_t end)
{
	return blk >= start && blk < end && count <= end - blk;
}

/* NULL, or what is wrong with a decoded descriptor. */
static const char *group_verify_locations(const struct ext4_fs *fs, const struct ext4_group *g)
{
	fsblk_t start = group_first_block(fs, g->group), end = start + group_block_count(fs, g->group);

	if (fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_FLEX_BG)) {
		start = fs->first_data_block;
		end = fs->blocks_count;
	}
	if (!range_in(g->block_bitmap, 1, start, end))
		return "block bitmap is out of range";
	if (!range_in(g->inode_bitmap, 1, start, end))
		return "inode bitmap is out of range";
	if (!range_in(g->inode_table, fs->inode_table_blocks, start, end))
		return "inode table is out of range";
	return NULL;
}

static const char *group_verify_counts(const struct ext4_fs *fs, const struct ext4_group *g)
{
	if (g->free_blocks > group_block_count(fs, g->group))
		return "more free blocks than blocks";
	if (g->free_inodes > fs->inodes_per_group)
		return "more free inodes than inodes";
	if (g->used_dirs > fs->inodes_per_group)
		return "more directories than inodes";
	if (g->itable_unused > fs->inodes_per_group)
		return "more unused inodes than inodes";
	return NULL;
}

/* Wrong locations make the image unusable, a wrong checksum forbids writing; wrong counts take the group out of use. */
static int group_verify(struct ext4_fs *fs, struct ext4_group *g)
{
	const char *broken = group_verify_locations(fs, g);

	if (broken)
		return FS_ERROR(fs, -EUCLEAN, "group %u: %s (block bitmap %" PRIu64 ", inode bitmap %" PRIu64
				", inode table %" PRIu64 ")", g->group, broken, g->block_bitmap, g->inode_bitmap,
				g->inode_table);
	if (!desc_csum_is_right(fs, g->group, group_desc(g))) {
		FS_ERROR(fs, -EBADMSG, "group %u: descriptor checksum 0x%04x, expected 0x%04x", g->group,
			 le16_get(group_desc(g)->bg_checksum), desc_csum(fs, g->group, group_desc(g)));
		if (!fs->opt.read_only)
			return -EBADMSG;
		g->bad = true;
	}
	broken = group_verify_counts(fs, g);
	if (broken) {
		FS_ERROR(fs, -EUCLEAN, "group %u: %s", g->group, broken);
		g->bad = true;
		g->free_blocks = min_of(g->free_blocks, group_block_count(fs, g->group));
		g->free_inodes = min_of(g->free_inodes, fs->inodes_per_group);
		g->itable_unused = min_of(g->itable_unused, fs->inodes_per_group);
	}
	return 0;
}

/* ---- loading ---- */

static int groups_alloc(struct ext4_fs *fs)
{
	fs->groups = calloc(fs->group_count, sizeof(fs->groups[0]));
	if (!fs->groups)
		return -ENOMEM;
	for (group_t group = 0; group < fs->group_count; group++) {
		mutex_init(&fs->groups[group].lock, RANK_GROUP);
		fs->groups[group].group = group;
	}
	return 0;
}

/* Attaches the groups of one descriptor block to its buffer. */
static void groups_attach(struct ext4_fs *fs, uint32_t index, struct buffer_head *bh)
{
	group_t first = index * fs->descs_per_block;
	uint32_t count = min_of(fs->descs_per_block, fs->group_count - first);

	for (uint32_t i = 0; i < count; i++) {
		struct ext4_group *g = &fs->groups[first + i];

		buffer_hold(bh);
		g->desc_bh = bh;
		g->desc_off = i * fs->desc_bytes;
		group_decode(fs, g);
	}
}

#define DESC_READAHEAD_BLOCKS 64u

static void desc_blocks_readahead(struct ext4_fs *fs, uint32_t index)
{
	uint32_t end = min_of(index + DESC_READAHEAD_BLOCKS, desc_blocks_count(fs));
	uint32_t flat_end = min_of(end, first_meta_desc_block(fs));

	if (index % DESC_READAHEAD_BLOCKS)
		return;
	if (index < flat_end)
		buffer_readahead(fs->bc, desc_block_location(fs, index), flat_end - index);
	for (uint32_t i = max_of(index, flat_end); i < end; i++)
		buffer_readahead(fs->bc, desc_block_location(fs, i), 1);
}

static int desc_block_load(struct ext4_fs *fs, uint32_t index)
{
	struct buffer_head *bh;
	int err;

	desc_blocks_readahead(fs, index);
	err = buffer_read(fs->bc, desc_block_location(fs, index), &bh);
	if (err)
		return FS_ERROR(fs, err, "cannot read block %" PRIu64 " of the group descriptors",
				desc_block_location(fs, index));
	groups_attach(fs, index, bh);
	buffer_put(bh);
	return 0;
}

int groups_load_first(struct ext4_fs *fs)
{
	const char *broken;
	int err;

	err = groups_alloc(fs);
	if (!err)
		err = desc_block_load(fs, 0);
	if (err)
		return err;
	broken = group_verify_locations(fs, &fs->groups[0]);
	return broken ? FS_ERROR(fs, -EUCLEAN, "group 0: %s", broken) : 0;
}

int groups_load(struct ext4_fs *fs)
{
	int err;

	err = groups_alloc(fs);
	for (uint32_t index = 0; !err && index < desc_blocks_count(fs); index++)
		err = desc_block_load(fs, index);
	for (group_t group = 0; !err && group < fs->group_count; group++)
		err = group_verify(fs, &fs->groups[group]);
	return err;
}

void groups_free(struct ext4_fs *fs)
{
	if (!fs->groups)
		return;
	for (group_t group = 0; group < fs->group_count; group++) {
		buffer_put(fs->groups[group].desc_bh);
		mutex_exit(&fs->groups[group].lock);
	}
	free(fs->groups);
	fs->groups = NULL;
}

/* ---- sums ---- */

uint64_t groups_free_blocks(struct ext4_fs *fs)
{
	uint64_t sum = 0;

	for (group_t group = 0; group < fs->group_count; group++)
		sum += atomic_load_explicit(&fs->groups[group].free_blocks_hint, memory_order_relaxed);
	return sum;
}

uint64_t groups_free_inodes(struct ext4_fs *fs)
{
	uint64_t sum = 0;

	for (group_t group = 0; group < fs->group_count; group++)
		sum += atomic_load_explicit(&fs->groups[group].free_inodes_hint, memory_order_relaxed);
	return sum;
}
