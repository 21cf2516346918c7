/* SPDX-License-Identifier: MIT */
/* super.c - the superblock: reading, checking, decoding, changing */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "ext4/balloc.h"
#include "ext4/fs_private.h"
#include "ext4/group.h"
#include "ext4/inode_format.h"
#include "ext4/orphan.h"
#include "ext4/super.h"

uint64_t super_blocks_count(const struct ext4_super_block *es)
{
	uint64_t count = le32_get(es->s_blocks_count_lo);

	if (le32_get(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_64BIT)
		count |= (uint64_t)le32_get(es->s_blocks_count_hi) << 32;
	return count;
}

int super_read(struct block_device *dev, uint64_t pos_bytes, struct ext4_super_block *es_out)
{
	uint64_t start = round_down_to(pos_bytes, (uint64_t)dev->sector_bytes);
	uint64_t end = round_up_to(pos_bytes + EXT4_SUPER_BYTES, (uint64_t)dev->sector_bytes);
	void *buf;
	int err;

	if (end > dev->size_bytes)
		return -EINVAL;
	err = -posix_memalign(&buf, max_of((size_t)dev->sector_bytes, (size_t)4096), end - start);
	if (err)
		return err;
	err = block_read(dev, start, buf, end - start);
	if (!err)
		memcpy(es_out, (char *)buf + (pos_bytes - start), EXT4_SUPER_BYTES);
	free(buf);
	return err;
}

static uint32_t super_csum(const struct ext4_super_block *es)
{
	return crc32c(UINT32_MAX, es, offsetof(struct ext4_super_block, s_checksum));
}

void super_csum_set(struct ext4_super_block *es)
{
	if (le32_get(es->s_feature_ro_compat) & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM)
		es->s_checksum = le32_make(super_csum(es));
}

/* ---- verification: each returns NULL or the rule broken ---- */

static bool is_power_of_two(uint64_t v)
{
	return v && !(v & (v - 1));
}

static const char *verify_block_size(const struct ext4_super_block *es)
{
	uint32_t log = le32_get(es->s_log_block_size), cluster_log = le32_get(es->s_log_cluster_size);
	bool bigalloc = le32_get(es->s_feature_ro_compat) & EXT4_FEATURE_RO_COMPAT_BIGALLOC;
	uint32_t first = le32_get(es->s_first_data_block);

	if (log > 6)
		return "s_log_block_size: blocks larger than 64 KiB";
	if (bigalloc ? cluster_log < log || cluster_log > 20 : cluster_log != log)
		return "s_log_cluster_size does not fit the block size";
	if (bigalloc ? first > (log == 0) : first != (log == 0))
		return "s_first_data_block: must be 1 with 1 KiB blocks, else 0";
	return NULL;
}

static const char *verify_inode_size(const struct ext4_super_block *es)
{
	uint32_t block_bytes = 1024u << le32_get(es->s_log_block_size);
	uint32_t bytes = le16_get(es->s_inode_size);

	if (le32_get(es->s_rev_level) == EXT4_REV_GOOD_OLD)
		return NULL;
	if (le32_get(es->s_rev_level) != EXT4_REV_DYNAMIC)
		return "s_rev_level: unknown revision";
	if (!is_power_of_two(bytes) || bytes < EXT4_INODE_BYTES_MIN || bytes > block_bytes)
		return "s_inode_size: not a power of two from 128 to the block size";
	if (le32_get(es->s_first_ino) < EXT4_GOOD_OLD_FIRST_INO)
		return "s_first_ino: below 11";
	if (bytes > EXT4_INODE_BYTES_MIN &&
	    (le16_get(es->s_want_extra_isize) > bytes - EXT4_INODE_BYTES_MIN ||
	     le16_get(es->s_min_extra_isize) > bytes - EXT4_INODE_BYTES_MIN))
		return "s_want_extra_isize: larger than the inode";
	return NULL;
}

static uint32_t super_desc_bytes(const struct ext4_super_block *es)
{
	if (!(le32_get(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_64BIT))
		return EXT4_MIN_DESC_BYTES;
	return le16_get(es->s_desc_size);
}

static uint32_t super_inode_bytes(const struct ext4_super_block *es)
{
	if (le32_get(es->s_rev_level) == EXT4_REV_GOOD_OLD)
		return EXT4_GOOD_OLD_INODE_BYTES;
	return le16_get(es->s_inode_size);
}

static const char *verify_group_size(const struct ext4_super_block *es)
{
	uint32_t block_bytes = 1024u << le32_get(es->s_log_block_size);
	uint32_t bits = block_bytes * 8;
	uint32_t blocks = le32_get(es->s_blocks_per_group), inodes = le32_get(es->s_inodes_per_group);
	uint32_t clusters = le32_get(es->s_clusters_per_group);
	uint32_t ratio_log = le32_get(es->s_log_cluster_size) - le32_get(es->s_log_block_size);
	uint32_t desc = super_desc_bytes(es);

	if (desc < EXT4_MIN_DESC_BYTES || desc > 1024 || !is_power_of_two(desc) ||
	    (desc < EXT4_MIN_DESC_BYTES_64BIT && le32_get(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_64BIT))
		return "s_desc_size: not a power of two from 64 to 1024";
	if (blocks == 0 || blocks % 8 || (uint64_t)blocks > (uint64_t)bits << ratio_log)
		return "s_blocks_per_group: does not fit a bitmap block";
	if (ratio_log && (clusters == 0 || clusters > bits || (uint64_t)clusters << ratio_log != blocks))
		return "s_clusters_per_group: does not fit s_blocks_per_group";
	if (inodes < block_bytes / super_inode_bytes(es) || inodes > bits || inodes % 8)
		return "s_inodes_per_group: does not fit a bitmap block";
	if (le16_get(es->s_reserved_gdt_blocks) > block_bytes / 4)
		return "s_reserved_gdt_blocks: more than a block of pointers";
	if (es->s_log_groups_per_flex > 31)
		return "s_log_groups_per_flex: too large";
	return NULL;
}

static const char *verify_counts(const struct ext4_super_block *es)
{
	uint64_t blocks = super_blocks_count(es), first = le32_get(es->s_first_data_block);
	uint32_t per_group = le32_get(es->s_blocks_per_group);
	uint32_t block_bytes = 1024u << le32_get(es->s_log_block_size);
	uint64_t groups, desc_blocks;

	if (blocks <= first + 1)
		return "s_blocks_count: too small";
	groups = div_round_up(blocks - first, (uint64_t)per_group);
	desc_blocks = div_round_up(groups, (uint64_t)(block_bytes / super_desc_bytes(es)));
	if (groups > UINT32_MAX || groups * le32_get(es->s_inodes_per_group) != le32_get(es->s_inodes_count))
		return "s_inodes_count: not the number of groups times s_inodes_per_group";
	if (le32_get(es->s_inodes_count) <= le32_get(es->s_first_ino) &&
	    le32_get(es->s_rev_level) != EXT4_REV_GOOD_OLD)
		return "s_first_ino: past the last inode";
	if (!(le32_get(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_META_BG)) {
		if (1 + desc_blocks + le16_get(es->s_reserved_gdt_blocks) >= per_group)
			return "s_blocks_per_group: no room for the group descriptors";
	} else if (le32_get(es->s_first_meta_bg) > desc_blocks) {
		return "s_first_meta_bg: past the last descriptor block";
	}
	return NULL;
}

static int verify_device_size(const struct ext4_super_block *es, uint64_t dev_bytes, char why_out[256])
{
	uint64_t blocks = super_blocks_count(es);
	uint32_t bits = 10 + le32_get(es->s_log_block_size);

	if (blocks <= dev_bytes >> bits)
		return 0;
	if (blocks > UINT64_MAX >> bits)
		snprintf(why_out, 256, "s_blocks_count: %" PRIu64 " blocks are more than any device has", blocks);
	else
		snprintf(why_out, 256,
			 "the image is truncated: the file system has %" PRIu64 " bytes, the device %" PRIu64,
			 blocks << bits, dev_bytes);
	return -EUCLEAN;
}

int super_verify(const struct ext4_super_block *es, uint64_t dev_bytes, char why_out[256])
{
	static const char *(*const rules[])(const struct ext4_super_block *) = {
		verify_block_size, verify_inode_size, verify_group_size, verify_counts,
	};
	uint32_t ro_compat = le32_get(es->s_feature_ro_compat);

	if (le16_get(es->s_magic) != EXT4_SUPER_MAGIC) {
		snprintf(why_out, 256, "no ext2, ext3 or ext4 file system: bad magic 0x%04x in the superblock",
			 le16_get(es->s_magic));
		return -EINVAL;
	}
	if (ro_compat & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) {
		if (es->s_checksum_type != EXT4_CHECKSUM_CRC32C) {
			snprintf(why_out, 256, "superblock: unknown s_checksum_type %u", es->s_checksum_type);
			return -EUCLEAN;
		}
		if (super_csum(es) != le32_get(es->s_checksum)) {
			snprintf(why_out, 256, "superblock: checksum 0x%08x, expected 0x%08x",
				 le32_get(es->s_checksum), super_csum(es));
			return -EBADMSG;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const char *broken = rules[i](es);

		if (broken) {
			snprintf(why_out, 256, "superblock: %s", broken);
			return -EUCLEAN;
		}
	}
	return verify_device_size(es, dev_bytes, why_out);
}

/* ---- decoding ---- */

/* i_blocks counts 512-byte units in 32 bits, or with huge_file blocks in 48. */
static uint64_t max_blocks_of_inode(const struct ext4_fs *fs)
{
	if (fs_has_ro_compat(fs, EXT4_FEATURE_RO_COMPAT_HUGE_FILE))
		return (UINT64_C(1) << 48) - 1;
	return UINT32_MAX >> (fs->block_bits - 9);
}

static void decode_file_limits(struct ext4_fs *fs)
{
	uint64_t ppb = fs->block_bytes / 4, limit = max_blocks_of_inode(fs);
	uint64_t mapped = 12 + ppb + ppb * ppb + ppb * ppb * ppb;
	uint64_t metadata = 1 + (1 + ppb) + (1 + ppb + ppb * ppb);

	fs->max_file_bytes_extents = min_of(limit, (uint64_t)UINT32_MAX) << fs->block_bits;
	if (mapped > limit - min_of(limit, metadata))
		mapped = limit - min_of(limit, metadata);
	fs->max_file_bytes_indirect = min_of(mapped, (uint64_t)UINT32_MAX) << fs->block_bits;
}

static void decode_features(struct ext4_fs *fs, const struct ext4_super_block *es)
{
	bool old = le32_get(es->s_rev_level) == EXT4_REV_GOOD_OLD;

	fs->compat = old ? 0 : le32_get(es->s_feature_compat);
	fs->incompat = old ? 0 : le32_get(es->s_feature_incompat);
	fs->ro_compat = old ? 0 : le32_get(es->s_feature_ro_compat);
	fs->has_metadata_csum = fs_has_ro_compat(fs, EXT4_FEATURE_RO_COMPAT_METADATA_CSUM);
	fs->has_gdt_csum = !fs->has_metadata_csum && fs_has_ro_compat(fs, EXT4_FEATURE_RO_COMPAT_GDT_CSUM);
	fs->csum_seed = fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_CSUM_SEED)
				? le32_get(es->s_checksum_seed)
				: crc32c(UINT32_MAX, es->s_uuid, sizeof(es->s_uuid));
	for (unsigned i = 0; i < 4; i++)
		fs->hash_seed[i] = le32_get(es->s_hash_seed[i]);
	fs->def_hash_version = es->s_def_hash_version;
	fs->hash_unsigned = le32_get(es->s_flags) & EXT4_FLAGS_UNSIGNED_HASH;
}

/* Fields that fit the inode: all we know of, or what the image wants and promises. */
static uint32_t decode_extra_isize(const struct ext4_fs *fs, const struct ext4_super_block *es)
{
	uint32_t room = fs->inode_bytes - EXT4_INODE_BYTES_MIN;
	uint32_t want = sizeof(struct ext4_inode) - EXT4_INODE_BYTES_MIN;

	if (room == 0)
		return 0;
	if (fs_has_ro_compat(fs, EXT4_FEATURE_RO_COMPAT_EXTRA_ISIZE)) {
		want = max_of(want, (uint32_t)le16_get(es->s_want_extra_isize));
		want = max_of(want, (uint32_t)le16_get(es->s_min_extra_isize));
	}
	return round_down_to(min_of(want, room), 4u);
}

void super_decode(struct ext4_fs *fs, const struct ext4_super_block *es)
{
	bool old = le32_get(es->s_rev_level) == EXT4_REV_GOOD_OLD;

	decode_features(fs, es);
	fs->block_bits = (uint8_t)(10 + le32_get(es->s_log_block_size));
	fs->block_bytes = 1u << fs->block_bits;
	fs->cluster_bits = le32_get(es->s_log_cluster_size) - le32_get(es->s_log_block_size);
	fs->inode_bytes = super_inode_bytes(es);
	fs->first_ino = old ? EXT4_GOOD_OLD_FIRST_INO : le32_get(es->s_first_ino);
	fs->desc_bytes = super_desc_bytes(es);
	fs->descs_per_block = fs->block_bytes / fs->desc_bytes;
	fs->blocks_per_group = le32_get(es->s_blocks_per_group);
	fs->inodes_per_group = le32_get(es->s_inodes_per_group);
	fs->inode_table_blocks = div_round_up(fs->inodes_per_group, fs->block_bytes / fs->inode_bytes);
	fs->first_data_block = le32_get(es->s_first_data_block);
	fs->blocks_count = super_blocks_count(es);
	fs->inodes_count = le32_get(es->s_inodes_count);
	fs->group_count = (group_t)div_round_up(fs->blocks_count - fs->first_data_block, (uint64_t)fs->blocks_per_group);
	fs->flex_bits = fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_FLEX_BG) ? es->s_log_groups_per_flex : 0;
	fs->want_extra_isize = decode_extra_isize(fs, es);
	decode_file_limits(fs);
}

/* ---- changes ---- */

const struct ext4_super_block *fs_super(const struct ext4_fs *fs)
{
	return (const struct ext4_super_block *)(const void *)(fs->super_bh->data + fs->super_offset);
}

int super_change_begin(struct handle *h, struct ext4_fs *fs, struct ext4_super_block **es_out)
{
	int err = journal_get_write_access(h, fs->super_bh);

	if (err)
		return err;
	mutex_lock(&fs->super_lock);
	*es_out = (struct ext4_super_block *)(void *)(fs->super_bh->data + fs->super_offset);
	return 0;
}

int super_change_end(struct handle *h, struct ext4_fs *fs)
{
	super_csum_set((struct ext4_super_block *)(void *)(fs->super_bh->data + fs->super_offset));
	mutex_unlock(&fs->super_lock);
	return journal_dirty_metadata(h, fs->super_bh);
}

void super_time_set(le32 *lo, uint8_t *hi, uint64_t time_s)
{
	*lo = le32_make((uint32_t)time_s);
	*hi = (uint8_t)(time_s >> 32);
}

static void super_kbytes_set(struct ext4_fs *fs, struct ext4_super_block *es)
{
	uint64_t written = counter_read(fs->counters, CNT_DEVICE_BYTES_WRITTEN) >> 10;

	es->s_kbytes_written = le64_make(fs->priv->kbytes_written_at_mount + written);
}

bool super_refresh_counts(struct ext4_fs *fs, struct ext4_super_block *es)
{
	uint64_t blocks = groups_free_blocks(fs), inodes = groups_free_inodes(fs);
	bool changed = le32_get(es->s_free_inodes_count) != (uint32_t)inodes ||
		       le32_get(es->s_free_blocks_count_lo) != (uint32_t)blocks;

	lock_assert_held(&fs->super_lock);
	es->s_free_blocks_count_lo = le32_make((uint32_t)blocks);
	if (fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_64BIT))
		es->s_free_blocks_count_hi = le32_make((uint32_t)(blocks >> 32));
	es->s_free_inodes_count = le32_make((uint32_t)inodes);
	super_time_set(&es->s_wtime, &es->s_wtime_hi, (uint64_t)fs_now(fs).tv_sec);
	super_kbytes_set(fs, es);
	return changed;
}

int super_write_through(struct ext4_fs *fs)
{
	int err;

	buffer_lock(fs->super_bh);
	buffer_mark_dirty(fs->super_bh);
	buffer_unlock(fs->super_bh);
	err = buffers_write(fs->bc, &fs->super_bh, 1);
	if (!err)
		err = block_flush(fs->dev);
	return err;
}

/* Revision 0 has no feature fields; the first feature makes it revision 1 with the constants of revision 0. */
static void super_make_dynamic(struct ext4_super_block *es)
{
	if (le32_get(es->s_rev_level) != EXT4_REV_GOOD_OLD)
		return;
	es->s_first_ino = le32_make(EXT4_GOOD_OLD_FIRST_INO);
	es->s_inode_size = le16_make(EXT4_GOOD_OLD_INODE_BYTES);
	es->s_feature_compat = es->s_feature_incompat = es->s_feature_ro_compat = le32_make(0);
	es->s_rev_level = le32_make(EXT4_REV_DYNAMIC);
}

int super_set_ro_compat(struct handle *h, struct ext4_fs *fs, uint32_t feature)
{
	struct ext4_super_block *es;
	int err;

	err = super_change_begin(h, fs, &es);
	if (err)
		return err;
	super_make_dynamic(es);
	es->s_feature_ro_compat = le32_make(le32_get(es->s_feature_ro_compat) | feature);
	fs->ro_compat |= feature;
	return super_change_end(h, fs);
}

int super_set_compat(struct handle *h, struct ext4_fs *fs, uint32_t feature)
{
	struct ext4_super_block *es;
	int err;

	err = super_change_begin(h, fs, &es);
	if (err)
		return err;
	super_make_dynamic(es);
	es->s_feature_compat = le32_make(le32_get(es->s_feature_compat) | feature);
	fs->compat |= feature;
	return super_change_end(h, fs);
}

int super_set_last_mounted(struct ext4_fs *fs, const char *path)
{
	struct ext4_super_block *es;
	struct handle h;
	int err, stop_err;

	err = fs_handle_start(fs, 1, 0, &h);
	if (err)
		return err;
	err = super_change_begin(&h, fs, &es);
	if (!err) {
		memset(es->s_last_mounted, 0, sizeof(es->s_last_mounted));
		memcpy(es->s_last_mounted, path, strnlen(path, sizeof(es->s_last_mounted) - 1));
		err = super_change_end(&h, fs);
	}
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

void ext4_statfs(struct ext4_fs *fs, struct ext4_statfs *out)
{
	const struct ext4_super_block *es = fs_super(fs);
	uint64_t kept = balloc_kept_blocks(fs);
	le64 uuid[2];

	memcpy(uuid, es->s_uuid, sizeof(uuid));
	out->block_bytes = fs->block_bytes;
	out->blocks = fs->blocks_count - fs->priv->overhead_blocks;
	out->blocks_free = balloc_free_count(fs) << fs->cluster_bits;
	out->blocks_available = out->blocks_free > kept ? out->blocks_free - kept : 0;
	out->inodes = fs->inodes_count;
	out->inodes_free = groups_free_inodes(fs);
	out->inodes_orphaned = orphans_count(fs);
	out->name_max = 255;
	out->time_gran_ns = fs->inode_bytes > EXT4_GOOD_OLD_INODE_BYTES ? 1 : 1000000000;
	out->fsid = le64_get(uuid[0]) ^ le64_get(uuid[1]);
}
