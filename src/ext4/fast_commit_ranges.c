/* SPDX-License-Identifier: MIT */
/* fast_commit_ranges.c - maps of files in memory, and runs of blocks on the device */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/fast_commit_private.h"
#include "ext4/map.h"

void fc_ranges_exit(struct fc_ranges *r)
{
	free(r->at);
	*r = (struct fc_ranges){ 0 };
}

/* Index of the first one that ends behind @lblk. */
static size_t ranges_search(const struct fc_ranges *r, uint64_t lblk)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ext_end(&r->at[mid]) <= lblk)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int ranges_open(struct fc_ranges *r, size_t i)
{
	int err = fc_array_grow(&r->at, &r->room, r->count, sizeof(r->at[0]));

	if (err)
		return err;
	memmove(&r->at[i + 1], &r->at[i], (r->count - i) * sizeof(r->at[0]));
	r->count++;
	return 0;
}

static struct ext_extent extent_from(const struct ext_extent *e, uint64_t start)
{
	struct ext_extent part = *e;

	part.pblk += start - e->lblk;
	part.len = (uint32_t)(ext_end(e) - start);
	part.lblk = (lblk_t)start;
	return part;
}

/* Sees to it that one begins at @lblk, if any covers it. Index of the first one from there on. */
static int ranges_split(struct fc_ranges *r, uint64_t lblk, size_t *i_out)
{
	size_t i = ranges_search(r, lblk);
	int err;

	if (i < r->count && r->at[i].lblk < lblk) {
		err = ranges_open(r, i + 1);
		if (err)
			return err;
		r->at[i + 1] = extent_from(&r->at[i], lblk);
		r->at[i].len = (uint32_t)(lblk - r->at[i].lblk);
		i++;
	}
	*i_out = i;
	return 0;
}

int fc_ranges_remove(struct fc_ranges *r, uint64_t start, uint64_t end)
{
	size_t first, after;
	int err = ranges_split(r, start, &first);

	if (!err)
		err = ranges_split(r, end, &after);
	if (err || first == after)
		return err;
	memmove(&r->at[first], &r->at[after], (r->count - after) * sizeof(r->at[0]));
	r->count -= after - first;
	return 0;
}

int fc_ranges_set(struct fc_ranges *r, const struct ext_extent *e)
{
	size_t i;
	int err = fc_ranges_remove(r, e->lblk, ext_end(e));

	if (err)
		return err;
	i = ranges_search(r, e->lblk);
	err = ranges_open(r, i);
	if (!err)
		r->at[i] = *e;
	return err;
}

bool fc_ranges_find(const struct fc_ranges *r, lblk_t lblk, struct ext_extent *out)
{
	size_t i = ranges_search(r, lblk);

	if (i < r->count && r->at[i].lblk <= lblk) {
		*out = extent_from(&r->at[i], lblk);
		return true;
	}
	*out = (struct ext_extent){ .lblk = lblk };
	out->len = (uint32_t)((i < r->count ? r->at[i].lblk : LBLK_END) - lblk);
	return false;
}

int fc_ranges_load(struct inode *inode, struct fc_ranges *r)
{
	uint64_t lblk = 0;
	int err = 0;

	while (!err && lblk < LBLK_END && map_has_tree(inode)) {
		struct map_result found;

		err = map_lookup(inode, (lblk_t)lblk, UINT32_MAX, &found);
		if (!err && found.status != ES_HOLE) {
			err = fc_array_grow(&r->at, &r->room, r->count, sizeof(r->at[0]));
			if (!err)
				r->at[r->count++] = (struct ext_extent){ (lblk_t)lblk, found.len, found.blk,
									 found.status == ES_UNWRITTEN };
		}
		if (!err)
			lblk += found.len;
	}
	return err;
}

/* ---- where two maps differ ---- */

static bool is_same(bool has_old, const struct ext_extent *old, bool has_now, const struct ext_extent *now)
{
	if (!has_old || !has_now)
		return has_old == has_now;
	return old->pblk == now->pblk && old->unwritten == now->unwritten;
}

bool fc_ranges_next_diff(const struct fc_ranges *old, const struct fc_ranges *now, uint64_t *lblk,
			 struct ext_extent *old_out, struct ext_extent *now_out)
{
	while (*lblk < LBLK_END) {
		bool has_old = fc_ranges_find(old, (lblk_t)*lblk, old_out);
		bool has_now = fc_ranges_find(now, (lblk_t)*lblk, now_out);
		uint32_t len = min_of(old_out->len, now_out->len);

		*lblk += len;
		if (is_same(has_old, old_out, has_now, now_out))
			continue;
		old_out->len = has_old ? len : 0;
		now_out->len = has_now ? len : 0;
		return true;
	}
	return false;
}

/* ---- runs of device blocks ---- */

int fc_runs_add(struct fc_runs *runs, fsblk_t start, uint64_t len)
{
	int err = fc_array_grow(&runs->at, &runs->room, runs->count, sizeof(runs->at[0]));

	if (!err)
		runs->at[runs->count++] = (struct fc_run){ start, start + len };
	return err;
}

static int run_compare(const void *a, const void *b)
{
	const struct fc_run *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

bool fc_runs_sort(struct fc_runs *runs)
{
	if (runs->count)
		qsort(runs->at, runs->count, sizeof(runs->at[0]), run_compare);
	for (size_t i = 1; i < runs->count; i++)
		if (runs->at[i].start < runs->at[i - 1].end)
			return false;
	return true;
}

uint32_t fc_runs_piece(const struct fc_runs *runs, fsblk_t blk, uint32_t len, bool *in_out)
{
	size_t low = 0, high = runs->count;

	while (low < high) { /* the first one that ends behind blk */
		size_t mid = low + (high - low) / 2;

		if (runs->at[mid].end <= blk)
			low = mid + 1;
		else
			high = mid;
	}
	*in_out = low < runs->count && runs->at[low].start <= blk;
	if (*in_out)
		return (uint32_t)min_of(runs->at[low].end - blk, (uint64_t)len);
	return low < runs->count ? (uint32_t)min_of(runs->at[low].start - blk, (uint64_t)len) : len;
}
