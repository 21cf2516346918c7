/* SPDX-License-Identifier: MIT */
/*
 * ialloc.c - claiming and freeing inode numbers
 *
 * I1  A number below first_ino is never given or taken back.
 * I2  The lowest free bit of a group is taken first, so that the used part of its inode table has no holes that were
 *     never written: bg_itable_unused counts the rest, which fsck need not read and nobody has initialised.
 * I3  The first inode in a table block that was never used zeroes the block instead of reading it.
 *
 * A number freed by an uncommitted transaction may be given again at once: bitmap, table and the names that led to it
 * are all metadata of the same journal, so a crash brings back either all of the old use or all of the new.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ext4/balloc_private.h"
#include "ext4/ialloc_private.h"
#include "ext4/inode_format.h"
#include "ext4/map.h"

/* Flags that a new inode has from its directory, and of those the ones that mean something for its type. */
#define FLAGS_INHERITED                                                                                              \
	(EXT4_SECRM_FL | EXT4_UNRM_FL | EXT4_COMPR_FL | EXT4_SYNC_FL | EXT4_NODUMP_FL | EXT4_NOATIME_FL |            \
	 EXT4_NOCOMPR_FL | EXT4_JOURNAL_DATA_FL | EXT4_NOTAIL_FL | EXT4_DIRSYNC_FL | EXT4_PROJINHERIT_FL |           \
	 EXT4_CASEFOLD_FL | EXT4_DAX_FL)
#define EXT4_NOCOMPR_FL 0x00000400u
#define FLAGS_NOT_FOR_FILES (EXT4_DIRSYNC_FL | EXT4_TOPDIR_FL | EXT4_CASEFOLD_FL | EXT4_PROJINHERIT_FL)
#define FLAGS_FOR_OTHERS (EXT4_NODUMP_FL | EXT4_NOATIME_FL)

int ialloc_init(struct ext4_fs *fs)
{
	struct ialloc *ia = calloc(1, sizeof(*ia));
	uint64_t seed = 0;
	group_t i;

	if (!ia)
		return -ENOMEM;
	ia->first_free = calloc(fs->group_count, sizeof(*ia->first_free));
	ia->dirs = calloc(fs->group_count, sizeof(*ia->dirs));
	if (!ia->first_free || !ia->dirs) {
		free(ia->first_free);
		free((void *)ia->dirs);
		free(ia);
		return -ENOMEM;
	}
	for (i = 0; i < fs->group_count; i++)
		atomic_init(&ia->dirs[i], fs->groups[i].used_dirs);
	ia->first_free[0] = fs->first_ino - 1; /* I1 */
	ia->unit_bits = min_of(fs->flex_bits, 31u);
	ia->units = (uint32_t)((((uint64_t)fs->group_count - 1) >> ia->unit_bits) + 1);
	/* Generations tell old file handles from new inodes; where there is no entropy yet, time does for that. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = (uint64_t)fs_now(fs).tv_sec * 1000000007u ^ (uint64_t)fs_now(fs).tv_nsec;
	ia->seed = seed;
	atomic_init(&ia->random, fs->hash_seed[0]); /* where directories go repeats from run to run */
	fs->ialloc = ia;
	return 0;
}

void ialloc_exit(struct ext4_fs *fs)
{
	if (!fs->ialloc)
		return;
	free(fs->ialloc->first_free);
	free((void *)fs->ialloc->dirs);
	free(fs->ialloc);
	fs->ialloc = NULL;
}

/* ---- one group ---- */

static bool bit_test(const uint8_t *map, uint32_t bit) { return map[bit / 8] & (1u << (bit % 8)); }

/* First clear bit in [from, end), or @end. */
static uint32_t bit_next_clear(const uint8_t *map, uint32_t from, uint32_t end)
{
	uint32_t bit = from;

	while (bit < end) {
		if (bit % 64 == 0 && end - bit >= 64) {
			le64 raw;

			memcpy(&raw, map + bit / 8, sizeof(raw));
			if (le64_get(raw) == UINT64_MAX) {
				bit += 64;
				continue;
			}
		}
		if (!bit_test(map, bit))
			return bit;
		bit++;
	}
	return end;
}

/* bg_itable_unused and the *_UNINIT flags mean something only with group checksums. */
static bool has_lazy_groups(const struct ext4_fs *fs) { return fs->has_gdt_csum || fs->has_metadata_csum; }

/* Inodes of the last group may be fewer. */
static uint32_t group_inodes(const struct ext4_fs *fs, group_t group)
{
	uint64_t first = (uint64_t)group * fs->inodes_per_group;

	return first >= fs->inodes_count ? 0 : (uint32_t)min_of((uint64_t)fs->inodes_count - first,
								 (uint64_t)fs->inodes_per_group);
}

/* I3: is @bit the first of a table block none of whose inodes were ever used? Caller: g->lock. */
static bool opens_table_block(const struct ext4_fs *fs, const struct ext4_group *g, const uint8_t *map, uint32_t bit)
{
	uint32_t per_block = fs->block_bytes / fs->inode_bytes, i;

	if (!has_lazy_groups(fs) || bit % per_block)
		return false;
	if (!(g->flags & EXT4_BG_INODE_UNINIT) && bit + g->itable_unused < fs->inodes_per_group)
		return false;
	for (i = 0; i < per_block; i++)
		if (bit + i < fs->inodes_per_group && bit_test(map, bit + i))
			return false;
	return true;
}

static int zero_table_block(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, uint32_t bit)
{
	fsblk_t blk = g->inode_table + bit / (fs->block_bytes / fs->inode_bytes);
	struct buffer_head *bh;
	int err;

	err = buffer_get(fs->bc, blk, &bh);
	if (err)
		return err;
	err = journal_get_create_access(h, bh);
	if (!err) {
		buffer_lock(bh);
		memset(bh->data, 0, fs->block_bytes);
		buffer_set(bh, BH_UPTODATE);
		buffer_unlock(bh);
		err = journal_dirty_metadata(h, bh);
	}
	buffer_put(bh);
	return err;
}

/* Locks the group; one that was never used at all gets its block bitmap's buddy built, to be written with the inode's. */
static int lock_for_claim(struct ext4_fs *fs, struct ext4_group *g)
{
	mutex_lock(&g->lock);
	if (!has_lazy_groups(fs) || !(g->flags & EXT4_BG_BLOCK_UNINIT))
		return 0;
	mutex_unlock(&g->lock);
	return group_lock_buddy(fs, g, true);
}

static int claim_access(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, struct buffer_head *bh, uint32_t bit)
{
	int err;

	err = journal_get_write_access(h, bh);
	if (!err)
		err = journal_get_write_access(h, g->desc_bh);
	if (!err && has_lazy_groups(fs) && (g->flags & EXT4_BG_BLOCK_UNINIT))
		err = group_bitmap_materialise(h, fs, g);
	if (!err && opens_table_block(fs, g, bh->data, bit))
		err = zero_table_block(h, fs, g, bit);
	return err;
}

static int store_group(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, struct buffer_head *bh)
{
	atomic_store_explicit(&fs->ialloc->dirs[g->group], g->used_dirs, memory_order_relaxed);
	group_inode_bitmap_csum_set(fs, g, bh);
	return group_store(h, fs, g, bh);
}

static int claim_bit(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, struct buffer_head *bh, uint32_t bit,
		     bool is_dir)
{
	uint32_t unused_after = fs->inodes_per_group - bit - 1;
	int err;

	err = claim_access(h, fs, g, bh, bit);
	if (err)
		return err;
	group_inode_bitmap_init(fs, g, bh);
	bh->data[bit / 8] |= (uint8_t)(1u << (bit % 8));
	if (has_lazy_groups(fs) && g->itable_unused > unused_after)
		g->itable_unused = unused_after;
	g->free_inodes--;
	g->used_dirs += is_dir;
	fs->ialloc->first_free[g->group] = bit + 1;
	return store_group(h, fs, g, bh);
}

/* Caller: g->lock. 1: claimed; 0: nothing free here; negative: error. */
static int claim_locked(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, struct buffer_head *bh, bool is_dir,
			ino_num *ino_out)
{
	uint32_t count = group_inodes(fs, g->group), bit;
	int err;

	if (g->bad || !g->free_inodes)
		return 0;
	bit = bit_next_clear(bh->data, fs->ialloc->first_free[g->group], count);
	if (bit >= count) {
		group_withdraw(fs, g);
		FS_ERROR(fs, -EUCLEAN, "group %u: descriptor says %u inodes are free, bitmap says none", g->group,
			 g->free_inodes);
		return 0;
	}
	err = claim_bit(h, fs, g, bh, bit, is_dir);
	*ino_out = g->group * fs->inodes_per_group + bit + 1;
	return err ? err : 1;
}

/* As claim_locked(). A group that cannot be read has been reported, and another one will do, unless none has any. */
static int claim_in_group(struct handle *h, struct ext4_fs *fs, group_t group, bool is_dir, int *first_err,
			  ino_num *ino_out)
{
	struct ext4_group *g = &fs->groups[group];
	struct buffer_head *bh;
	int err;

	if (!atomic_load_explicit(&g->free_inodes_hint, memory_order_relaxed))
		return 0;
	err = group_inode_bitmap(fs, g, &bh);
	if (err)
		goto skip_group;
	err = lock_for_claim(fs, g);
	if (!err) {
		err = claim_locked(h, fs, g, bh, is_dir, ino_out);
		mutex_unlock(&g->lock);
		buffer_put(bh);
		return err;
	}
	buffer_put(bh);
skip_group:
	if (err == -ENOMEM)
		return err;
	if (!*first_err)
		*first_err = err;
	return 0;
}

static int claim_number(struct handle *h, struct ext4_fs *fs, const struct inode *dir, bool is_dir, ino_num *ino_out)
{
	group_t first = is_dir ? ialloc_group_for_dir(fs, dir) : ialloc_group_for_file(fs, dir), i;
	int got, first_err = 0;

	for (i = 0; i < fs->group_count; i++) {
		group_t group = (group_t)((first + (uint64_t)i) % fs->group_count);

		got = claim_in_group(h, fs, group, is_dir, &first_err, ino_out);
		if (got)
			return got < 0 ? got : 0;
	}
	return first_err ? first_err : -ENOSPC;
}

/* ---- a given number ---- */

/* Not the lowest free one, maybe: table blocks before it that were never used must be written too (I2). */
static int zero_skipped_blocks(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, uint32_t bit)
{
	uint32_t per_block = fs->block_bytes / fs->inode_bytes, first;
	int err = 0;

	if (!has_lazy_groups(fs))
		return 0;
	first = g->flags & EXT4_BG_INODE_UNINIT ? 0 : fs->inodes_per_group - g->itable_unused;
	for (uint32_t b = round_up_to(first, per_block); b + per_block <= bit && !err; b += per_block)
		err = h->credits > (int32_t)IALLOC_CREDITS ? zero_table_block(h, fs, g, b) : -ENOSPC;
	return err;
}

static int claim_given_locked(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, struct buffer_head *bh,
			      const struct inode *inode)
{
	uint32_t bit = (inode->ino - 1) % fs->inodes_per_group, first_free = fs->ialloc->first_free[g->group];
	int err;

	if (g->bad)
		return -EUCLEAN; /* reported when it was found */
	if (bit_test(bh->data, bit) || !g->free_inodes)
		return INODE_ERROR(inode, -EUCLEAN, 0, "claiming an inode that is in use");
	err = zero_skipped_blocks(h, fs, g, bit);
	if (!err)
		err = claim_bit(h, fs, g, bh, bit, inode_is_dir(inode));
	if (bit > first_free)
		fs->ialloc->first_free[g->group] = first_free;
	return err;
}

int ialloc_claim(struct handle *h, struct inode *inode)
{
	struct ext4_fs *fs = inode->fs;
	struct ext4_group *g = &fs->groups[fs_group_of_ino(fs, inode->ino)];
	struct buffer_head *bh;
	int err = group_inode_bitmap(fs, g, &bh);

	if (err)
		return err;
	err = lock_for_claim(fs, g);
	if (!err) {
		err = claim_given_locked(h, fs, g, bh, inode);
		mutex_unlock(&g->lock);
	}
	buffer_put(bh);
	return err;
}

/* ---- the new inode ---- */

static uint32_t inherited_flags(const struct inode *dir, uint16_t mode)
{
	uint32_t flags = dir->flags & FLAGS_INHERITED;

	if (S_ISDIR(mode))
		return flags;
	if (S_ISREG(mode))
		return flags & ~FLAGS_NOT_FOR_FILES;
	return flags & FLAGS_FOR_OTHERS;
}

/* Unlike that of an earlier use of the number; nothing here is shared between threads that create. */
static uint32_t generation_make(const struct ialloc *ia, ino_num ino, struct timespec now)
{
	return (uint32_t)ialloc_mix(ia->seed + ((uint64_t)ino << 32) + (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

static void inode_fill(struct inode *inode, const struct inode *dir, ino_num ino)
{
	struct ext4_fs *fs = inode->fs;
	struct timespec now = fs_now(fs);

	inode->ino = ino;
	inode->block_group = fs_group_of_ino(fs, ino);
	inode->generation = generation_make(fs->ialloc, ino, now);
	inode->atime = inode->mtime = inode->ctime = inode->crtime = now;
	inode->flags = inherited_flags(dir, inode->mode);
	if (fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_EXTENTS) &&
	    (S_ISDIR(inode->mode) || S_ISREG(inode->mode) || S_ISLNK(inode->mode)))
		inode->flags |= EXT4_EXTENTS_FL;
	if (fs_has_ro_compat(fs, EXT4_FEATURE_RO_COMPAT_PROJECT) && (dir->flags & EXT4_PROJINHERIT_FL))
		inode->projid = dir->projid;
	else
		inode->projid = 0;
	inode->extra_isize = fs->inode_bytes > EXT4_INODE_BYTES_MIN ? (uint16_t)fs->want_extra_isize : 0;
	inode->file_acl = 0;
	inode_set(inode, INODE_NO_XATTR | INODE_NO_ACL);
	inode_clear(inode, INODE_RAW_CLEARED); /* a create that is tried again may get another slot */
	inode->blocks_512 = 0;
	inode->disksize_bytes = 0;
	inode_size_set(inode, 0);
	map_init_inode(inode);
}

int ialloc_new(struct handle *h, struct inode *dir, struct inode *inode)
{
	ino_num ino;
	int err;

	err = claim_number(h, inode->fs, dir, S_ISDIR(inode->mode), &ino);
	if (err)
		return err;
	inode_fill(inode, dir, ino);
	return 0;
}

/* ---- giving a number back ---- */

static int free_locked(struct handle *h, struct ext4_fs *fs, struct ext4_group *g, struct buffer_head *bh,
		       const struct inode *inode, uint32_t bit)
{
	int err;

	if (g->bad)
		return -EUCLEAN; /* reported when it was found */
	if (!bit_test(bh->data, bit)) {
		group_withdraw(fs, g);
		return INODE_ERROR(inode, -EUCLEAN, 0, "freeing an inode that is free");
	}
	err = journal_get_write_access(h, bh);
	if (!err)
		err = journal_get_write_access(h, g->desc_bh);
	if (err)
		return err;
	bh->data[bit / 8] &= (uint8_t)~(1u << (bit % 8));
	g->free_inodes++;
	if (inode_is_dir(inode) && g->used_dirs)
		g->used_dirs--;
	if (bit < fs->ialloc->first_free[g->group])
		fs->ialloc->first_free[g->group] = bit;
	return store_group(h, fs, g, bh);
}

int ialloc_free(struct handle *h, struct inode *inode)
{
	struct ext4_fs *fs = inode->fs;
	struct buffer_head *bh;
	struct ext4_group *g;
	int err;

	if (inode->ino < fs->first_ino || inode->ino > fs->inodes_count) /* I1 */
		return INODE_ERROR(inode, -EUCLEAN, 0, "freeing a reserved or impossible inode number");
	g = &fs->groups[fs_group_of_ino(fs, inode->ino)];
	err = group_inode_bitmap(fs, g, &bh);
	if (err)
		return err;
	mutex_lock(&g->lock);
	err = free_locked(h, fs, g, bh, inode, (inode->ino - 1) % fs->inodes_per_group);
	mutex_unlock(&g->lock);
	buffer_put(bh);
	return err;
}

int ialloc_is_used(struct ext4_fs *fs, ino_num ino)
{
	struct buffer_head *bh;
	struct ext4_group *g;
	int err;

	if (!ino || ino > fs->inodes_count)
		return -EUCLEAN;
	g = &fs->groups[fs_group_of_ino(fs, ino)];
	err = group_inode_bitmap(fs, g, &bh);
	if (err)
		return err;
	mutex_lock(&g->lock);
	err = bit_test(bh->data, (ino - 1) % fs->inodes_per_group);
	mutex_unlock(&g->lock);
	buffer_put(bh);
	return err;
}
