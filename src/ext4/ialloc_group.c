/* SPDX-License-Identifier: MIT */
/*
 * ialloc_group.c - placing inodes: directories by Orlov's method, other inodes beside their directory
 *
 * The disk is divided into units: flex groups, whose inode tables lie together, or single groups. Directories at the top
 * (children of the root, or of a directory marked TOPDIR) have little to do with one another: each goes to the unit
 * with the fewest directories among a sample of those with average room or more. Other directories stay in their parent's unit
 * unless that is much fuller than the average, or has too many directories. Within a unit, top-level directories
 * take the group with the fewest directories, so that their files, which follow them into their group, are
 * allocated under different locks. What no longer fits there goes to groups of the unit that have no directories, first.
 *
 * All counts are read without locks: a wrong guess costs locality, nothing else.
 */
#include "ext4/ialloc_private.h"

/* Directories are placed by averages at most this many placements old. */
#define AVERAGES_MAX_AGE 64u
/* Enough of a sample for a top-level directory, once one of them will do. */
#define UNITS_LOOKED_AT 64u
/* Odd, so that it makes different places of different groups of a unit, and those of neighbours are not neighbours. */
#define OVERFLOW_SPREAD 5u

struct room {
	uint64_t inodes, blocks, dirs;
};

static struct room group_room(const struct ext4_fs *fs, group_t group)
{
	const struct ext4_group *g = &fs->groups[group];

	return (struct room){
		.inodes = atomic_load_explicit(&g->free_inodes_hint, memory_order_relaxed),
		.blocks = atomic_load_explicit(&g->free_blocks_hint, memory_order_relaxed),
		.dirs = atomic_load_explicit(&fs->ialloc->dirs[group], memory_order_relaxed),
	};
}

static group_t unit_first(const struct ext4_fs *fs, uint32_t unit) { return (group_t)unit << fs->ialloc->unit_bits; }

static group_t unit_end(const struct ext4_fs *fs, uint32_t unit)
{
	return (group_t)min_of((uint64_t)(unit + 1ull) << fs->ialloc->unit_bits, (uint64_t)fs->group_count);
}

static struct room unit_room(const struct ext4_fs *fs, uint32_t unit)
{
	struct room sum = { 0 };
	group_t group;

	for (group = unit_first(fs, unit); group < unit_end(fs, unit); group++) {
		struct room r = group_room(fs, group);

		sum.inodes += r.inodes;
		sum.blocks += r.blocks;
		sum.dirs += r.dirs;
	}
	return sum;
}

static struct room averages_compute(struct ext4_fs *fs)
{
	struct ialloc *ia = fs->ialloc;
	struct room sum = { 0 };
	uint32_t unit;

	for (unit = 0; unit < ia->units; unit++) {
		struct room r = unit_room(fs, unit);

		sum.inodes += r.inodes;
		sum.blocks += r.blocks;
		sum.dirs += r.dirs;
	}
	sum.inodes /= ia->units;
	sum.blocks /= ia->units;
	sum.dirs /= ia->units;
	return sum;
}

static struct room averages_recent(struct ext4_fs *fs)
{
	struct ialloc *ia = fs->ialloc;
	struct room r;

	if (atomic_fetch_add(&ia->averages_age, 1) % AVERAGES_MAX_AGE == 0) {
		r = averages_compute(fs);
		atomic_store_explicit(&ia->average_inodes, r.inodes, memory_order_relaxed);
		atomic_store_explicit(&ia->average_blocks, r.blocks, memory_order_relaxed);
		atomic_store_explicit(&ia->average_dirs, r.dirs, memory_order_relaxed);
		return r;
	}
	return (struct room){
		.inodes = atomic_load_explicit(&ia->average_inodes, memory_order_relaxed),
		.blocks = atomic_load_explicit(&ia->average_blocks, memory_order_relaxed),
		.dirs = atomic_load_explicit(&ia->average_dirs, memory_order_relaxed),
	};
}

/* The group of @unit with the fewest directories, among those with free inodes and blocks where there are any. */
static group_t quietest_group(const struct ext4_fs *fs, uint32_t unit)
{
	group_t group, best = unit_first(fs, unit);
	bool have = false, have_blocks = false;
	uint64_t best_dirs = 0;

	for (group = best; group < unit_end(fs, unit); group++) {
		struct room r = group_room(fs, group);

		if (!r.inodes || (have_blocks && !r.blocks))
			continue;
		if (have && have_blocks == (r.blocks > 0) && r.dirs >= best_dirs)
			continue;
		have = true;
		have_blocks = r.blocks > 0;
		best_dirs = r.dirs;
		best = group;
	}
	return best;
}

static uint32_t top_dir_start(struct ialloc *ia)
{
	return (uint32_t)(ialloc_mix(atomic_fetch_add(&ia->random, 0x9e3779b97f4a7c15ull)) % ia->units);
}

static group_t place_top_dir(struct ext4_fs *fs, const struct inode *parent)
{
	struct ialloc *ia = fs->ialloc;
	struct room average = averages_recent(fs);
	uint32_t start = top_dir_start(ia), i, best = 0;
	uint64_t best_dirs = UINT64_MAX;

	for (i = 0; i < ia->units && (i < UNITS_LOOKED_AT || best_dirs == UINT64_MAX); i++) {
		uint32_t unit = (uint32_t)((start + (uint64_t)i) % ia->units);
		struct room r = unit_room(fs, unit);

		if (!r.inodes || !r.blocks || r.dirs >= best_dirs || r.inodes + r.inodes / 64 < average.inodes ||
		    r.blocks + r.blocks / 64 < average.blocks) /* the averages are a little old */
			continue;
		best = unit;
		best_dirs = r.dirs;
	}
	return best_dirs == UINT64_MAX ? ialloc_group_for_file(fs, parent) : quietest_group(fs, best);
}

/* Beside the parent, unless its group is nearly full. */
static group_t group_in_unit(const struct ext4_fs *fs, uint32_t unit, group_t parent_group)
{
	struct room r;

	if (parent_group >> fs->ialloc->unit_bits == unit) {
		r = group_room(fs, parent_group);
		if (r.inodes > fs->inodes_per_group / 16 && r.blocks > fs->blocks_per_group / 16)
			return parent_group;
	}
	return quietest_group(fs, unit);
}

static group_t place_sub_dir(struct ext4_fs *fs, const struct inode *parent)
{
	struct ialloc *ia = fs->ialloc;
	struct room average = averages_recent(fs);
	uint64_t unit_inodes = (uint64_t)fs->inodes_per_group << ia->unit_bits;
	uint64_t unit_blocks = (uint64_t)fs->blocks_per_group << ia->unit_bits;
	uint32_t home = parent->block_group >> ia->unit_bits, i;

	for (i = 0; i < ia->units; i++) {
		uint32_t unit = (uint32_t)((home + (uint64_t)i) % ia->units);
		struct room r = unit_room(fs, unit);

		if (r.inodes && r.dirs <= average.dirs + unit_inodes / 16 && r.inodes + unit_inodes / 4 >= average.inodes &&
		    r.blocks + unit_blocks / 4 >= average.blocks)
			return group_in_unit(fs, unit, parent->block_group);
	}
	return ialloc_group_for_file(fs, parent);
}

group_t ialloc_group_for_dir(struct ext4_fs *fs, const struct inode *parent)
{
	if (parent->ino == EXT4_ROOT_INO || (parent->flags & EXT4_TOPDIR_FL))
		return place_top_dir(fs, parent);
	return place_sub_dir(fs, parent);
}

static bool has_room(const struct ext4_fs *fs, group_t group)
{
	struct room r = group_room(fs, group);

	return r.inodes && r.blocks;
}

/* Quadratic steps from a place that differs by directory: full neighbours do not all flow into one group. */
static group_t probe_quadratic(const struct ext4_fs *fs, const struct inode *parent)
{
	uint64_t group = ((uint64_t)parent->block_group + parent->ino) % fs->group_count;
	group_t step;

	for (step = 1; step < fs->group_count; step <<= 1) {
		group = (group + step) % fs->group_count;
		if (has_room(fs, (group_t)group))
			return (group_t)group;
		if (step > fs->group_count / 2)
			break;
	}
	return parent->block_group;
}

/*
 * Another group of the parent's unit, @quiet: one without directories. Each full group's neighbours begin at a place of their own,
 * so that files of two directories, created at the same time, stay in two groups.
 */
static bool unit_overflow(const struct ext4_fs *fs, const struct inode *parent, bool quiet, group_t *group_out)
{
	uint32_t unit = parent->block_group >> fs->ialloc->unit_bits;
	group_t first = unit_first(fs, unit), count = unit_end(fs, unit) - first, i;
	group_t start = (parent->block_group - first) * OVERFLOW_SPREAD;

	for (i = 0; i < count; i++) {
		group_t group = first + (start + i) % count;
		struct room r = group_room(fs, group);

		if (r.inodes && r.blocks && !(quiet && r.dirs)) {
			*group_out = group;
			return true;
		}
	}
	return false;
}

group_t ialloc_group_for_file(struct ext4_fs *fs, const struct inode *parent)
{
	group_t group;

	if (has_room(fs, parent->block_group))
		return parent->block_group;
	if (unit_overflow(fs, parent, true, &group) || unit_overflow(fs, parent, false, &group))
		return group;
	return probe_quadratic(fs, parent);
}
