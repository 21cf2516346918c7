/* SPDX-License-Identifier: MIT */
/* inode_raw.c - the raw inode: packing, unpacking, checksum, checks */
#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/broken.h"
#include "base/checksum.h"
#include "ext4/inode_private.h"
#include "ext4/map.h"

#define NSEC_PER_SEC 1000000000

/* ---- checksum ---- */

uint32_t inode_csum_seed(const struct inode *inode)
{
	const le32 who[2] = { le32_make(inode->ino), le32_make(inode->generation) };

	return crc32c(inode->fs->csum_seed, who, sizeof(who));
}

static bool has_csum_hi(const struct inode *inode)
{
	return inode->fs->inode_bytes > EXT4_INODE_BYTES_MIN &&
	       EXT4_INODE_HAS_FIELD(inode->extra_isize, i_checksum_hi);
}

uint32_t inode_raw_csum(const struct inode *inode, const struct ext4_inode *raw)
{
	static const le16 zero;
	const size_t lo = offsetof(struct ext4_inode, i_checksum_lo), hi = offsetof(struct ext4_inode, i_checksum_hi);
	const uint8_t *bytes = (const uint8_t *)raw;
	size_t done = lo + sizeof(zero);
	uint32_t csum = inode_csum_seed(inode);

	csum = crc32c(csum, bytes, lo);
	csum = crc32c(csum, &zero, sizeof(zero));
	if (has_csum_hi(inode)) {
		csum = crc32c(csum, bytes + done, hi - done);
		csum = crc32c(csum, &zero, sizeof(zero));
		done = hi + sizeof(zero);
	}
	csum = crc32c(csum, bytes + done, inode->fs->inode_bytes - done);
	return has_csum_hi(inode) ? csum : csum & 0xFFFF;
}

bool inode_raw_csum_is_right(const struct inode *inode, const struct ext4_inode *raw)
{
	uint32_t stored = le16_get(raw->i_checksum_lo);

	if (!inode->fs->has_metadata_csum)
		return true;
	if (has_csum_hi(inode))
		stored |= (uint32_t)le16_get(raw->i_checksum_hi) << 16;
	return stored == inode_raw_csum(inode, raw);
}

void inode_raw_csum_set(const struct inode *inode, struct ext4_inode *raw)
{
	uint32_t csum;

	if (!inode->fs->has_metadata_csum)
		return;
	raw->i_checksum_lo = le16_make(0); /* both count as zeros */
	if (has_csum_hi(inode))
		raw->i_checksum_hi = le16_make(0);
	csum = crc32c(inode_csum_seed(inode), raw, inode->fs->inode_bytes);
	raw->i_checksum_lo = le16_make((uint16_t)csum);
	if (has_csum_hi(inode))
		raw->i_checksum_hi = le16_make((uint16_t)(csum >> 16));
}

/* ---- times ---- */

/* Seconds are signed 32 bits; two epoch bits add multiples of 2^32, which reaches from 1901 to 2446. */
static struct timespec time_unpack(le32 seconds, const le32 *extra)
{
	struct timespec t = { .tv_sec = (int32_t)le32_get(seconds) };
	uint32_t bits;

	if (!extra) /* and nothing of it is read: a small inode may be the last thing in its block */
		return t;
	bits = le32_get(*extra);
	t.tv_sec += (time_t)(bits & EXT4_EPOCH_MASK) << 32;
	t.tv_nsec = min_of(bits >> EXT4_EPOCH_BITS, (uint32_t)NSEC_PER_SEC - 1);
	return t;
}

static le32 time_pack_extra(struct timespec t)
{
	uint64_t epoch = (uint64_t)((int64_t)t.tv_sec - (int32_t)t.tv_sec) >> 32;

	return le32_make((uint32_t)(epoch & EXT4_EPOCH_MASK) | (uint32_t)t.tv_nsec << EXT4_EPOCH_BITS);
}

#define EXTRA_OF(raw, extra_isize, field) (EXT4_INODE_HAS_FIELD(extra_isize, field) ? &(raw)->field : NULL)

static void times_unpack(struct inode *inode, const struct ext4_inode *raw, uint32_t extra_isize)
{
	inode->ctime = time_unpack(raw->i_ctime, EXTRA_OF(raw, extra_isize, i_ctime_extra));
	inode->mtime = time_unpack(raw->i_mtime, EXTRA_OF(raw, extra_isize, i_mtime_extra));
	inode->atime = time_unpack(raw->i_atime, EXTRA_OF(raw, extra_isize, i_atime_extra));
	if (EXT4_INODE_HAS_FIELD(extra_isize, i_crtime))
		inode->crtime = time_unpack(raw->i_crtime, EXTRA_OF(raw, extra_isize, i_crtime_extra));
}

static void times_pack(const struct inode *inode, struct ext4_inode *raw)
{
	raw->i_ctime = le32_make((uint32_t)inode->ctime.tv_sec);
	raw->i_mtime = le32_make((uint32_t)inode->mtime.tv_sec);
	raw->i_atime = le32_make((uint32_t)inode->atime.tv_sec);
	if (EXT4_INODE_HAS_FIELD(inode->extra_isize, i_ctime_extra))
		raw->i_ctime_extra = time_pack_extra(inode->ctime);
	if (EXT4_INODE_HAS_FIELD(inode->extra_isize, i_mtime_extra))
		raw->i_mtime_extra = time_pack_extra(inode->mtime);
	if (EXT4_INODE_HAS_FIELD(inode->extra_isize, i_atime_extra))
		raw->i_atime_extra = time_pack_extra(inode->atime);
	if (EXT4_INODE_HAS_FIELD(inode->extra_isize, i_crtime))
		raw->i_crtime = le32_make((uint32_t)inode->crtime.tv_sec);
	if (EXT4_INODE_HAS_FIELD(inode->extra_isize, i_crtime_extra))
		raw->i_crtime_extra = time_pack_extra(inode->crtime);
}

/* ---- blocks ---- */

static uint64_t blocks_unpack(const struct ext4_fs *fs, const struct ext4_inode *raw)
{
	uint64_t blocks = le32_get(raw->i_blocks_lo);

	if (!fs_has_ro_compat(fs, EXT4_FEATURE_RO_COMPAT_HUGE_FILE))
		return blocks;
	blocks |= (uint64_t)le16_get(raw->i_blocks_high) << 32;
	return le32_get(raw->i_flags) & EXT4_HUGE_FILE_FL ? blocks << (fs->block_bits - 9) : blocks;
}

/* Small counts are in sectors everywhere; only what needs more than 48 bits is counted in blocks. */
static int blocks_pack(const struct inode *inode, struct ext4_inode *raw, uint32_t *flags)
{
	uint64_t blocks = inode->blocks_512;

	*flags &= ~EXT4_HUGE_FILE_FL;
	if (blocks > UINT32_MAX && !fs_has_ro_compat(inode->fs, EXT4_FEATURE_RO_COMPAT_HUGE_FILE))
		return -EFBIG;
	if (blocks >= UINT64_C(1) << 48) {
		blocks >>= inode->fs->block_bits - 9;
		*flags |= EXT4_HUGE_FILE_FL;
	}
	raw->i_blocks_lo = le32_make((uint32_t)blocks);
	if (fs_has_ro_compat(inode->fs, EXT4_FEATURE_RO_COMPAT_HUGE_FILE))
		raw->i_blocks_high = le16_make((uint16_t)(blocks >> 32));
	return 0;
}

/* ---- device numbers: 8:8 bits in i_block[0], or else 12:20 bits in i_block[1] ---- */

static dev_t rdev_unpack(const struct ext4_inode *raw)
{
	uint32_t old = le32_get(raw->i_block[0]), v = le32_get(raw->i_block[1]);

	if (old)
		return makedev(old >> 8 & 0xFF, old & 0xFF);
	return makedev(v >> 8 & 0xFFF, (v & 0xFF) | (v >> 12 & 0xFFF00));
}

static void rdev_pack(const struct inode *inode, struct ext4_inode *raw)
{
	uint32_t major_number = major(inode->rdev), minor_number = minor(inode->rdev);

	memset(raw->i_block, 0, sizeof(raw->i_block));
	if (major_number < 256 && minor_number < 256)
		raw->i_block[0] = le32_make(major_number << 8 | minor_number);
	else
		raw->i_block[1] = le32_make((minor_number & 0xFF) | (major_number & 0xFFF) << 8 |
					    (minor_number & 0xFFF00) << 12);
}

/* ---- unpacking ---- */

static bool is_device(uint16_t mode)
{
	return S_ISCHR(mode) || S_ISBLK(mode);
}

const char *inode_raw_verify(const struct ext4_fs *fs, const struct ext4_inode *raw)
{
	uint32_t extra;

	if (fs->inode_bytes == EXT4_INODE_BYTES_MIN)
		return NULL;
	extra = le16_get(raw->i_extra_isize);
	if (extra > fs->inode_bytes - EXT4_INODE_BYTES_MIN || extra % 4)
		return "i_extra_isize does not fit the inode";
	return NULL;
}

static void unpack_owner(struct inode *inode, const struct ext4_inode *raw)
{
	inode->uid = le16_get(raw->i_uid) | (uint32_t)le16_get(raw->i_uid_high) << 16;
	inode->gid = le16_get(raw->i_gid) | (uint32_t)le16_get(raw->i_gid_high) << 16;
	inode->projid = 0;
	if (fs_has_ro_compat(inode->fs, EXT4_FEATURE_RO_COMPAT_PROJECT) &&
	    EXT4_INODE_HAS_FIELD(inode->extra_isize, i_projid))
		inode->projid = le32_get(raw->i_projid);
}

static void unpack_size(struct inode *inode, const struct ext4_inode *raw)
{
	uint64_t size = le32_get(raw->i_size_lo);

	/* The high half of a directory's size was another field until large_dir. */
	if (S_ISREG(inode->mode) || fs_has_incompat(inode->fs, EXT4_FEATURE_INCOMPAT_LARGEDIR))
		size |= (uint64_t)le32_get(raw->i_size_high) << 32;
	inode->disksize_bytes = size;
	inode_size_set(inode, size);
}

/* Kept as a bit, for the two counts do not change at once when an xattr block comes or goes. */
static bool unpacked_fast_symlink(const struct inode *inode)
{
	uint64_t xattr_sectors = inode->file_acl ? inode->fs->block_bytes >> 9 : 0;

	return S_ISLNK(inode->mode) && inode->blocks_512 == xattr_sectors && inode_size(inode) < sizeof(inode->i_block);
}

void inode_raw_unpack(struct inode *inode, const struct ext4_inode *raw)
{
	bool large = inode->fs->inode_bytes > EXT4_INODE_BYTES_MIN;
	uint32_t extra_on_disk = large ? le16_get(raw->i_extra_isize) : 0;

	inode->extra_isize = (uint16_t)extra_on_disk;
	inode->mode = le16_get(raw->i_mode);
	inode->nlink = le16_get(raw->i_links_count);
	inode->flags = le32_get(raw->i_flags);
	inode->generation = le32_get(raw->i_generation);
	atomic_store_explicit(&inode->dtime, le32_get(raw->i_dtime), memory_order_relaxed);
	unpack_owner(inode, raw);
	unpack_size(inode, raw);
	times_unpack(inode, raw, extra_on_disk);
	inode->blocks_512 = blocks_unpack(inode->fs, raw);
	inode->file_acl = le32_get(raw->i_file_acl_lo);
	if (fs_has_incompat(inode->fs, EXT4_FEATURE_INCOMPAT_64BIT))
		inode->file_acl |= (fsblk_t)le16_get(raw->i_file_acl_high) << 32;
	inode->iversion = le32_get(raw->i_version_lo);
	if (EXT4_INODE_HAS_FIELD(extra_on_disk, i_version_hi))
		inode->iversion |= (uint64_t)le32_get(raw->i_version_hi) << 32;
	memcpy(inode->i_block, raw->i_block, sizeof(inode->i_block));
	if (unpacked_fast_symlink(inode))
		inode_set(inode, INODE_FAST_SYMLINK);
	if (is_device(inode->mode))
		inode->rdev = rdev_unpack(raw);
	/* Room that holds no fields yet gets all that we know at the next write. */
	if (large && extra_on_disk == 0)
		inode->extra_isize = (uint16_t)(sizeof(struct ext4_inode) - EXT4_INODE_BYTES_MIN);
}

static bool mode_is_known(uint16_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || is_device(mode) || S_ISFIFO(mode) || S_ISSOCK(mode);
}

static bool has_block_map(const struct inode *inode)
{
	return S_ISREG(inode->mode) || S_ISDIR(inode->mode) ||
	       (S_ISLNK(inode->mode) && !inode_is_fast_symlink(inode));
}

const char *inode_verify(const struct inode *inode)
{
	uint64_t size = inode_size(inode);
	uint64_t limit = inode_has_extents(inode) ? inode->fs->max_file_bytes_extents
						  : inode->fs->max_file_bytes_indirect;

	if (!mode_is_known(inode->mode))
		return "i_mode: no known type";
	if (size > INT64_MAX || (S_ISREG(inode->mode) && size > limit))
		return "i_size: larger than its blocks can map";
	if (S_ISDIR(inode->mode) && size % inode->fs->block_bytes)
		return "i_size: a directory must have whole blocks";
	if (S_ISLNK(inode->mode) && size >= inode->fs->block_bytes)
		return "i_size: a symlink's target must fit one block";
	if (inode->file_acl && !fs_data_blocks_valid(inode->fs, inode->file_acl, 1))
		return "i_file_acl: not a data block";
	if (inode->flags & EXT4_INLINE_DATA_FL)
		return "i_flags: inline data without the feature";
	if (inode_has_extents(inode) && !fs_has_incompat(inode->fs, EXT4_FEATURE_INCOMPAT_EXTENTS))
		return "i_flags: extents without the feature";
	return has_block_map(inode) ? map_verify_root(inode) : NULL;
}

/* ---- packing ---- */

static void pack_owner(const struct inode *inode, struct ext4_inode *raw)
{
	raw->i_uid = le16_make((uint16_t)inode->uid);
	raw->i_uid_high = le16_make((uint16_t)(inode->uid >> 16));
	raw->i_gid = le16_make((uint16_t)inode->gid);
	raw->i_gid_high = le16_make((uint16_t)(inode->gid >> 16));
	if (fs_has_ro_compat(inode->fs, EXT4_FEATURE_RO_COMPAT_PROJECT) &&
	    EXT4_INODE_HAS_FIELD(inode->extra_isize, i_projid))
		raw->i_projid = le32_make(inode->projid);
}

static void pack_size(const struct inode *inode, struct ext4_inode *raw)
{
	/* Only file data is written behind the inode's back; everything else changes with its size in one handle. */
	uint64_t size = S_ISREG(inode->mode) && !is_broken(BROKEN_EARLY_SIZE) ? inode->disksize_bytes : inode_size(inode);

	raw->i_size_lo = le32_make((uint32_t)size);
	if (S_ISREG(inode->mode) || fs_has_incompat(inode->fs, EXT4_FEATURE_INCOMPAT_LARGEDIR))
		raw->i_size_high = le32_make((uint32_t)(size >> 32));
}

int inode_raw_pack(const struct inode *inode, struct ext4_inode *raw)
{
	uint32_t flags = inode->flags;
	int err;

	err = blocks_pack(inode, raw, &flags);
	if (err)
		return err;
	raw->i_mode = le16_make(inode->mode);
	raw->i_links_count = le16_make((uint16_t)inode->nlink);
	raw->i_flags = le32_make(flags);
	raw->i_generation = le32_make(inode->generation);
	raw->i_dtime = le32_make(atomic_load_explicit(&inode->dtime, memory_order_relaxed));
	if (inode->fs->inode_bytes > EXT4_INODE_BYTES_MIN)
		raw->i_extra_isize = le16_make(inode->extra_isize);
	pack_owner(inode, raw);
	pack_size(inode, raw);
	times_pack(inode, raw);
	raw->i_file_acl_lo = le32_make((uint32_t)inode->file_acl);
	if (fs_has_incompat(inode->fs, EXT4_FEATURE_INCOMPAT_64BIT))
		raw->i_file_acl_high = le16_make((uint16_t)(inode->file_acl >> 32));
	raw->i_version_lo = le32_make((uint32_t)inode->iversion);
	if (EXT4_INODE_HAS_FIELD(inode->extra_isize, i_version_hi))
		raw->i_version_hi = le32_make((uint32_t)(inode->iversion >> 32));
	if (is_device(inode->mode))
		rdev_pack(inode, raw);
	else
		memcpy(raw->i_block, inode->i_block, sizeof(raw->i_block));
	return 0;
}
