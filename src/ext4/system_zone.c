/* SPDX-License-Identifier: MIT */
/* system_zone.c - blocks that no file may own: superblocks, descriptors, bitmaps, inode tables, the journal */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/fs_private.h"
#include "ext4/group_private.h"
#include "ext4/super.h"

/*
 * A sorted array of disjoint runs, built once at mount and never changed, so that lookups need no lock: every block
 * number that comes from disk is looked up here. Neighbours of one kind are merged, which with flex_bg leaves a few
 * runs per flex group.
 *
 * Static metadata is what the layout itself places; it is marked in the bitmap of an uninitialised group. Owned blocks
 * (journal, MMP) are allocated like any others, so their bits are in bitmaps that are initialised.
 */
enum zone_kind { ZONE_STATIC, ZONE_OWNED };

struct zone_run {
	fsblk_t start;
	uint64_t count;
	enum zone_kind kind;
};

struct system_zone {
	struct zone_run *runs;
	size_t count, room;
	uint64_t static_blocks;
};

/* ---- the structures ---- */

struct structure {
	fsblk_t start;
	uint64_t count;
	enum zone_kind kind;
	const char *name; /* as messages call it */
	const struct ext4_group *group; /* NULL: of none */
};

struct each {
	int (*emit)(void *arg, const struct structure *s);
	void *arg;
};

static int each_of_group(const struct ext4_fs *fs, const struct ext4_group *g, const struct each *each)
{
	fsblk_t first = group_first_block(fs, g->group);
	uint32_t base = min_of(group_base_blocks(fs, g->group), group_block_count(fs, g->group));
	const struct structure structures[] = {
		{ first, base, ZONE_STATIC, "superblock and descriptors", g },
		{ g->block_bitmap, 1, ZONE_STATIC, "block bitmap", g },
		{ g->inode_bitmap, 1, ZONE_STATIC, "inode bitmap", g },
		{ g->inode_table, fs->inode_table_blocks, ZONE_STATIC, "inode table", g },
	};
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(structures); i++)
		err = each->emit(each->arg, &structures[i]);
	return err;
}

static int each_of_journal(void *arg, fsblk_t blk, uint64_t count)
{
	const struct each *each = arg;

	return each->emit(each->arg, &(struct structure){ blk, count, ZONE_OWNED, "journal", NULL });
}

static int each_structure(const struct ext4_fs *fs, struct each *each)
{
	int err = 0;

	for (group_t group = 0; !err && group < fs->group_count; group++)
		err = each_of_group(fs, &fs->groups[group], each);
	if (!err)
		err = journal_glue_each_run(fs, each_of_journal, each);
	if (!err && fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_MMP))
		err = each->emit(each->arg, &(struct structure){ le64_get(fs_super(fs)->s_mmp_block), 1, ZONE_OWNED, "MMP block", NULL });
	return err;
}

/* ---- the zone ---- */

static int zone_add(struct system_zone *zone, fsblk_t start, uint64_t count, enum zone_kind kind)
{
	struct zone_run *last = zone->count ? &zone->runs[zone->count - 1] : NULL;

	if (!count)
		return 0;
	if (last && last->kind == kind && last->start + last->count == start) {
		last->count += count;
		return 0;
	}
	if (zone->count == zone->room) {
		size_t room = zone->room ? 2 * zone->room : 64;
		struct zone_run *runs = realloc(zone->runs, room * sizeof(runs[0]));

		if (!runs)
			return -ENOMEM;
		zone->runs = runs;
		zone->room = room;
	}
	zone->runs[zone->count++] = (struct zone_run){ start, count, kind };
	return 0;
}

static int zone_add_structure(void *arg, const struct structure *s)
{
	return zone_add(arg, s->start, s->count, s->kind);
}

static int compare_runs(const void *a, const void *b)
{
	const struct zone_run *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

struct claims {
	fsblk_t blk;
	unsigned count;
	char names[128]; /* of the first two */
};

static int claim(void *arg, const struct structure *s)
{
	struct claims *c = arg;
	size_t used = strlen(c->names), room = sizeof(c->names) - used;
	const char *and = c->count ? " and " : "";

	if (c->blk < s->start || c->blk - s->start >= s->count || c->count == 2)
		return 0;
	c->count++;
	if (s->group)
		snprintf(c->names + used, room, "%sthe %s of group %u", and, s->name, s->group->group);
	else
		snprintf(c->names + used, room, "%sthe %s", and, s->name);
	return 0;
}

/* Whose it is, is searched for only now. */
static int overlap_error(struct ext4_fs *fs, fsblk_t blk)
{
	struct claims c = { .blk = blk };

	each_structure(fs, &(struct each){ claim, &c });
	return FS_ERROR(fs, -EUCLEAN, "block %" PRIu64 " is claimed twice: by %s", blk, c.names);
}

/* Sorts and merges; two structures on one block are corruption. */
static int zone_finish(struct ext4_fs *fs, struct system_zone *zone)
{
	size_t kept = 0;

	qsort(zone->runs, zone->count, sizeof(zone->runs[0]), compare_runs);
	for (size_t i = 0; i < zone->count; i++) {
		struct zone_run *run = &zone->runs[i], *last = kept ? &zone->runs[kept - 1] : NULL;

		if (last && last->start + last->count > run->start)
			return overlap_error(fs, run->start);
		if (run->kind == ZONE_STATIC)
			zone->static_blocks += run->count;
		if (last && last->kind == run->kind && last->start + last->count == run->start)
			last->count += run->count;
		else
			zone->runs[kept++] = *run;
	}
	zone->count = kept;
	return 0;
}

int system_zone_build(struct ext4_fs *fs)
{
	struct system_zone *zone = calloc(1, sizeof(*zone));
	int err;

	if (!zone)
		return -ENOMEM;
	fs->priv->zone = zone;
	err = each_structure(fs, &(struct each){ zone_add_structure, zone });
	return err ? err : zone_finish(fs, zone);
}

void system_zone_free(struct ext4_fs *fs)
{
	if (fs->priv->zone)
		free(fs->priv->zone->runs);
	free(fs->priv->zone);
	fs->priv->zone = NULL;
}

/* Index of the first run that ends after @blk. */
static size_t zone_search(const struct system_zone *zone, fsblk_t blk)
{
	size_t low = 0, high = zone->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (zone->runs[mid].start + zone->runs[mid].count <= blk)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool fs_data_blocks_valid(const struct ext4_fs *fs, fsblk_t blk, uint64_t count)
{
	const struct system_zone *zone = fs->priv->zone;
	size_t i;

	if (blk <= fs->first_data_block || blk >= fs->blocks_count || count > fs->blocks_count - blk)
		return false;
	if (!zone) /* the journal's own inode is mapped before the zone is known */
		return true;
	i = zone_search(zone, blk);
	return i == zone->count || zone->runs[i].start >= blk + count;
}

void system_zone_each(const struct ext4_fs *fs, fsblk_t blk, uint64_t count,
		      void (*emit)(void *arg, fsblk_t blk, uint64_t count), void *arg)
{
	const struct system_zone *zone = fs->priv->zone;
	fsblk_t end = blk + count;

	for (size_t i = zone_search(zone, blk); i < zone->count && zone->runs[i].start < end; i++) {
		const struct zone_run *run = &zone->runs[i];
		fsblk_t from = max_of(run->start, blk), to = min_of(run->start + run->count, end);

		if (run->kind == ZONE_STATIC)
			emit(arg, from, to - from);
	}
}

uint64_t system_zone_blocks(const struct ext4_fs *fs)
{
	return fs->priv->zone->static_blocks;
}
