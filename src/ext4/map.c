/* SPDX-License-Identifier: MIT */
/*
 * map.c - a file's blocks to the device's: the same calls over extent trees and indirect maps
 *
 * The usual lookup is answered by the extent status without a lock. A miss reads the tree under map_sem shared and
 * remembers the whole extent or hole that is there (ES): a later lookup of any block of it is a hit.
 *
 * Whoever changes the mapping holds map_sem exclusive, changes the tree, then the extent status, with map_seq bumped before
 * and after: a reader that took map_seq before its lookup and finds it unchanged later has seen one state.
 */
#include <errno.h>
#include <string.h>

#include "base/counters.h"
#include "ext4/balloc.h"
#include "ext4/map_private.h"

#define REMOVE_CREDITS 96u /* a few steps of freeing between restarts; more are asked for as they are needed */
#define REMOVE_REVOKES 80u
#define LOGGED_FREE_MAX 64u

void map_seq_bump(struct inode *inode)
{
	atomic_fetch_add_explicit(&inode->map_seq, 1, memory_order_acq_rel);
}

bool map_has_tree(const struct inode *inode)
{
	if (S_ISLNK(inode->mode))
		return !inode_is_fast_symlink(inode);
	return S_ISREG(inode->mode) || S_ISDIR(inode->mode);
}

/* Blocks that go through the journal: each freed one needs a revoke record. */
static bool map_is_logged(const struct inode *inode)
{
	return !S_ISREG(inode->mode) || inode_logs_data(inode);
}

void map_init_inode(struct inode *inode)
{
	struct ext4_extent_header *hdr = (struct ext4_extent_header *)inode->i_block;

	memset(inode->i_block, 0, sizeof(inode->i_block));
	if (!inode_has_extents(inode))
		return;
	hdr->eh_magic = le16_make(EXT4_EXT_MAGIC);
	hdr->eh_max = le16_make((sizeof(inode->i_block) - sizeof(*hdr)) / sizeof(struct ext4_extent));
}

const char *map_verify_root(const struct inode *inode)
{
	const struct ext4_extent_header *hdr = (const struct ext4_extent_header *)inode->i_block;

	if (!map_has_tree(inode) || !inode_has_extents(inode))
		return NULL;
	if (le16_get(hdr->eh_depth) > EXT4_EXT_MAX_DEPTH)
		return "extent root: too deep";
	if (le16_get(hdr->eh_depth) && !le16_get(hdr->eh_entries))
		return "extent root: levels below it, but no index";
	return ext_node_verify(inode, hdr, (sizeof(inode->i_block) - sizeof(*hdr)) / sizeof(struct ext4_extent),
			       le16_get(hdr->eh_depth), 0, LBLK_END);
}

/* ---- lookups ---- */

/* Caller: map_sem. As ext_lookup(). */
static int tree_lookup(struct inode *inode, lblk_t lblk, struct ext_extent *out)
{
	return inode_has_extents(inode) ? ext_lookup(inode, lblk, out) : ind_lookup(inode, lblk, out);
}

static void es_from_tree(const struct ext_extent *e, bool mapped, struct es_extent *es)
{
	es->lblk = e->lblk;
	es->len = e->len;
	es->pblk = mapped ? e->pblk : 0;
	es->status = !mapped ? ES_HOLE : e->unwritten ? ES_UNWRITTEN : ES_WRITTEN;
}

static void result_fill(const struct es_extent *es, lblk_t lblk, uint32_t max_len, struct map_result *out)
{
	bool has_blocks = es->status == ES_WRITTEN || es->status == ES_UNWRITTEN;

	out->blk = has_blocks ? es->pblk + (lblk - es->lblk) : 0;
	out->len = min_of((uint32_t)(es_end(es) - lblk), max_len);
	out->status = es->status;
	out->allocated = false;
	out->es_lblk = es->lblk;
	out->es_len = es->len;
}

/* A hole on disk may hold delayed blocks: cuts @es to the part around @lblk that is of one kind. */
static void hole_cut_delayed(struct inode *inode, lblk_t lblk, struct es_extent *es)
{
	struct es_extent d;
	uint64_t end = es_end(es);

	if (!es_next_delayed(inode, es->lblk, end, &d))
		return;
	while (es_end(&d) <= lblk) {
		es->len = (uint32_t)(end - es_end(&d));
		es->lblk = (lblk_t)es_end(&d);
		if (!es_next_delayed(inode, es->lblk, end, &d))
			return;
	}
	if (d.lblk <= lblk)
		*es = d;
	else
		es->len = d.lblk - es->lblk;
}

/* Remembers what the tree says; the old way (ablation) keeps of a tree without levels only the piece asked for. */
static void lookup_cache(struct inode *inode, const struct es_extent *es, lblk_t lblk, uint32_t max_len)
{
	struct es_extent piece = *es;

	if ((inode->fs->opt.ablate & ABLATE_ES_ROOT) && inode_has_extents(inode) && ext_depth(inode) == 0) {
		piece.len = min_of((uint32_t)(es_end(es) - lblk), max_len);
		piece.pblk = es->pblk ? es->pblk + (lblk - es->lblk) : 0;
		piece.lblk = lblk;
	}
	es_cache(inode, &piece);
}

static int lookup_slow(struct inode *inode, lblk_t lblk, uint32_t max_len, struct map_result *out)
{
	struct ext_extent e;
	struct es_extent es;
	int err;

	rwsem_read_lock(&inode->map_sem);
	err = tree_lookup(inode, lblk, &e);
	if (err >= 0) {
		es_from_tree(&e, err == 1, &es);
		lookup_cache(inode, &es, lblk, max_len);
		if (es.status == ES_HOLE)
			hole_cut_delayed(inode, lblk, &es);
		result_fill(&es, lblk, max_len, out);
		err = 0;
	}
	rwsem_read_unlock(&inode->map_sem);
	return err;
}

int map_lookup(struct inode *inode, lblk_t lblk, uint32_t max_len, struct map_result *out)
{
	struct es_extent es;

	UEXT4_ASSERT(max_len > 0);
	if (likely(es_lookup(inode, lblk, &es))) {
		counter_add(inode->fs->counters, CNT_ES_HITS, 1);
		result_fill(&es, lblk, max_len, out);
		return 0;
	}
	if (lblk == LBLK_END)
		return -EFBIG;
	counter_add(inode->fs->counters, CNT_ES_MISSES, 1);
	return lookup_slow(inode, lblk, max_len, out);
}

int map_any(struct inode *inode, lblk_t start, uint64_t end)
{
	struct map_result r;
	int err;

	while (start < end) {
		err = map_lookup(inode, start, UINT32_MAX, &r);
		if (err)
			return err;
		if (r.status != ES_HOLE)
			return 1;
		start = (lblk_t)min_of((uint64_t)start + r.len, end);
	}
	return 0;
}

/* ---- blocks of trees, directories and data: claimed and given back ---- */

/* Takes one of the blocks promised for dirty data's tree. */
static bool take_reserved_meta(struct inode *inode)
{
	bool had;

	mutex_lock(&inode->es.lock);
	had = inode->io.reserved_meta > 0;
	if (had)
		inode->io.reserved_meta--;
	mutex_unlock(&inode->es.lock);
	return had;
}

int map_tree_block_alloc(struct handle *h, struct inode *inode, fsblk_t goal, struct buffer_head **bh_out)
{
	struct balloc_request req = { .inode = inode, .goal = goal ? goal : balloc_inode_goal(inode), .len = 1,
				      .flags = BALLOC_METADATA | balloc_rights(h) };
	fsblk_t blk;
	uint32_t len;
	int err;

	if (take_reserved_meta(inode))
		req.flags |= BALLOC_RESERVED;
	else if (S_ISREG(inode->mode) && !h->limited)
		req.flags |= BALLOC_SPARE; /* conversions at I/O completion may not fail */
	err = balloc_alloc(h, &req, &blk, &len);
	if (err)
		return err;
	err = buffer_get(inode->fs->bc, blk, bh_out);
	if (!err) {
		err = journal_get_create_access(h, *bh_out);
		if (!err) {
			inode_add_blocks(inode, 1);
			return 0;
		}
		buffer_put(*bh_out);
		*bh_out = NULL;
	}
	balloc_free(h, inode, blk, 1, 0);
	return err;
}

int map_tree_block_free(struct handle *h, struct inode *inode, struct buffer_head *bh)
{
	fsblk_t blk = bh->blk;

	buffer_put(bh);
	inode_add_blocks(inode, -1);
	return balloc_free(h, inode, blk, 1, BFREE_METADATA);
}

uint32_t map_free_max(const struct inode *inode)
{
	return map_is_logged(inode) ? LOGGED_FREE_MAX : EXT4_EXT_WRITTEN_MAX;
}

int map_data_free(struct handle *h, struct inode *inode, fsblk_t blk, uint32_t count)
{
	inode_add_blocks(inode, -(int64_t)count);
	return balloc_free(h, inode, blk, count, map_is_logged(inode) ? BFREE_METADATA : 0);
}

int map_free_credits(struct handle *h, const struct inode *inode, uint32_t count, uint32_t nodes)
{
	uint32_t groups = count ? count / inode->fs->blocks_per_group + 2 : 0;
	int32_t credits = (int32_t)((groups + nodes) * BALLOC_CREDITS + nodes + map_credits(inode, 1));
	int32_t revokes = (int32_t)(nodes + 1 + (map_is_logged(inode) ? count : 0));

	if (h->credits >= credits && h->revokes >= revokes)
		return 0;
	return journal_extend(h, (uint32_t)max_of(credits - h->credits, 0), (uint32_t)max_of(revokes - h->revokes, 0));
}

int map_data_alloc(struct handle *h, struct inode *inode, fsblk_t goal, struct map_alloc *a)
{
	const struct ext4_fs *fs = inode->fs;
	struct balloc_request req = { .inode = inode, .lblk = a->lblk, .goal = goal, .len = a->len };
	int err;

	if (a->flags & MAP_CLAIMED) {
		a->got = a->len;
		return 0;
	}
	req.flags = (a->flags & MAP_METADATA ? BALLOC_METADATA : BALLOC_DATA) | balloc_rights(h);
	if (a->reserved)
		req.flags |= BALLOC_RESERVED;
	err = balloc_alloc(h, &req, &a->blk, &a->got);
	if (err || !(a->flags & MAP_ZERO))
		return err;
	err = block_write_zeroes(fs->dev, a->blk << fs->block_bits, (uint64_t)a->got << fs->block_bits);
	if (err)
		map_data_unalloc(h, inode, a);
	return err;
}

void map_data_unalloc(struct handle *h, struct inode *inode, const struct map_alloc *a)
{
	(void)balloc_free(h, inode, a->blk, a->got, 0); /* reports for itself; the caller has an error to return */
	if (!a->reserved)
		return;
	/* The promise is spent, so the blocks may not stay delayed: their data is lost, which the writer is told. */
	es_remove(inode, a->lblk, (uint64_t)a->lblk + a->got);
}

/* ---- changes ---- */

uint32_t map_credits(const struct inode *inode, uint32_t len)
{
	/* Per level a changed node and a new one with its bitmap and descriptor; one level more; data; the inode. */
	uint32_t levels = inode_has_extents(inode) ? ext_depth(inode) + 2 : 3;

	(void)len; /* one run lies in one group */
	return levels * (2 + BALLOC_CREDITS) + BALLOC_CREDITS + 1;
}

static int tree_alloc(struct handle *h, struct inode *inode, struct map_alloc *a)
{
	struct ext_extent e;
	fsblk_t goal;
	int err;

	if (!inode_has_extents(inode))
		return ind_alloc(h, inode, a);
	err = ext_goal(inode, a->lblk, &goal);
	if (!err)
		err = map_data_alloc(h, inode, goal ? goal : balloc_inode_goal(inode), a);
	if (err)
		return err;
	e = (struct ext_extent){ a->lblk, a->got, a->blk, (a->flags & MAP_UNWRITTEN) != 0 };
	err = ext_insert(h, inode, &e);
	if (err)
		map_data_unalloc(h, inode, a);
	return err;
}

/* Cuts @a to blocks that are all delayed, or all not. */
static void alloc_clip(struct inode *inode, struct map_alloc *a)
{
	struct es_extent d;

	if (!es_next_delayed(inode, a->lblk, (uint64_t)a->lblk + a->len, &d))
		return;
	if (d.lblk > a->lblk) {
		a->len = d.lblk - a->lblk;
		return;
	}
	a->reserved = true;
	a->len = (uint32_t)(min_of(es_end(&d), (uint64_t)a->lblk + a->len) - a->lblk);
}

static int map_allocate(struct handle *h, struct inode *inode, struct map_alloc *a, struct map_result *out)
{
	struct es_extent es;
	int err, err2;

	a->len = min_of(a->len, a->flags & MAP_UNWRITTEN ? EXT4_EXT_UNWRITTEN_MAX : EXT4_EXT_WRITTEN_MAX);
	alloc_clip(inode, a);
	map_seq_bump(inode);
	err = tree_alloc(h, inode, a);
	if (!err) {
		es = (struct es_extent){ a->lblk, a->got, a->blk,
					 a->flags & MAP_UNWRITTEN ? ES_UNWRITTEN : ES_WRITTEN };
		es_set(inode, &es);
		inode_add_blocks(inode, a->got);
		result_fill(&es, a->lblk, a->got, out);
		out->allocated = true;
	}
	map_seq_bump(inode);
	err2 = inode_write_datasync(h, inode); /* also after an error: the tree may have been split already */
	return err ? err : err2;
}

/* Makes the unwritten extent at @lblk written as far as credits go. */
static int map_convert(struct handle *h, struct inode *inode, lblk_t lblk, struct map_result *out)
{
	lblk_t start = lblk;
	int err;

	map_seq_bump(inode);
	err = ext_set_state(h, inode, &start, (uint64_t)lblk + out->len, false);
	map_seq_bump(inode);
	if (err < 0 || start == lblk)
		return err < 0 ? err : -ENOSPC;
	out->len = start - lblk;
	out->status = ES_WRITTEN;
	return inode_write_datasync(h, inode);
}

int map_blocks(struct handle *h, struct inode *inode, lblk_t lblk, uint32_t len, unsigned flags, struct map_result *out)
{
	struct map_alloc a = { .lblk = lblk, .flags = flags };
	struct ext_extent e;
	struct es_extent es;
	int err;

	UEXT4_ASSERT(len > 0);
	if ((uint64_t)lblk + len > LBLK_END)
		return -EFBIG;
	if (!inode_has_extents(inode))
		a.flags &= ~MAP_UNWRITTEN;
	rwsem_write_lock(&inode->map_sem);
	err = tree_lookup(inode, lblk, &e);
	if (err < 0)
		goto unlock;
	es_from_tree(&e, err == 1, &es);
	result_fill(&es, lblk, len, out);
	if (err == 1) {
		err = es.status == ES_UNWRITTEN && (flags & MAP_CONVERT) ? map_convert(h, inode, lblk, out) : 0;
	} else if (flags & MAP_CREATE) {
		a.len = out->len;
		err = map_allocate(h, inode, &a, out);
	}
unlock:
	rwsem_write_unlock(&inode->map_sem);
	return err;
}

int map_set_state(struct handle *h, struct inode *inode, lblk_t *start, uint64_t end, bool unwritten)
{
	int err, err2;

	if (!inode_has_extents(inode)) {
		*start = (lblk_t)end;
		return 0;
	}
	rwsem_write_lock(&inode->map_sem);
	map_seq_bump(inode);
	err = ext_set_state(h, inode, start, end, unwritten);
	map_seq_bump(inode);
	err2 = inode_write_datasync(h, inode);
	rwsem_write_unlock(&inode->map_sem);
	return err ? err : err2;
}

void map_forget_delayed(struct inode *inode, lblk_t start, uint64_t end)
{
	uint32_t delayed;

	rwsem_write_lock(&inode->map_sem);
	map_seq_bump(inode);
	delayed = es_remove(inode, start, end);
	map_seq_bump(inode);
	rwsem_write_unlock(&inode->map_sem);
	if (delayed)
		balloc_unreserve(inode->fs, delayed);
}

/* ---- fast commits ---- */

static int ind_attach(struct handle *h, struct inode *inode, const struct ext_extent *e)
{
	struct map_alloc a = { .flags = MAP_CLAIMED };
	int err = e->pblk + e->len - 1 > UINT32_MAX || e->unwritten ? -EUCLEAN : 0;

	for (uint32_t done = 0; !err && done < e->len; done += a.got) {
		a.lblk = e->lblk + done;
		a.blk = e->pblk + done;
		a.len = e->len - done;
		err = ind_alloc(h, inode, &a);
	}
	return err;
}

int map_attach(struct handle *h, struct inode *inode, const struct ext_extent *e)
{
	struct es_extent es = { e->lblk, e->len, e->pblk, e->unwritten ? ES_UNWRITTEN : ES_WRITTEN };
	int err;

	rwsem_write_lock(&inode->map_sem);
	map_seq_bump(inode);
	err = inode_has_extents(inode) ? ext_insert(h, inode, e) : ind_attach(h, inode, e);
	if (!err) {
		es_set(inode, &es);
		inode_add_blocks(inode, e->len);
	}
	map_seq_bump(inode);
	rwsem_write_unlock(&inode->map_sem);
	return err;
}

int map_detach(struct handle *h, struct inode *inode, lblk_t start, uint64_t end)
{
	int err = -EUCLEAN;

	if (!inode_has_extents(inode))
		return INODE_ERROR(inode, err, 0, "blocks of an indirect map cannot go to another inode");
	rwsem_write_lock(&inode->map_sem);
	map_seq_bump(inode);
	err = ext_detach(h, inode, start, &end);
	map_seq_bump(inode);
	rwsem_write_unlock(&inode->map_sem);
	return err;
}

/* One handle's worth of removal. As ext_remove(). */
static int remove_some(struct handle *h, struct inode *inode, lblk_t start, uint64_t *end)
{
	int err, err2;

	rwsem_write_lock(&inode->map_sem);
	map_seq_bump(inode);
	err = inode_has_extents(inode) ? ext_remove(h, inode, start, end) : ind_remove(h, inode, start, end);
	map_seq_bump(inode);
	err2 = inode_write_datasync(h, inode);
	rwsem_write_unlock(&inode->map_sem);
	return err < 0 || !err2 ? err : err2;
}

int map_remove_in(struct handle *h, struct inode *inode, lblk_t start, uint64_t end)
{
	return start < end ? remove_some(h, inode, start, &end) : 0;
}

int map_renew(struct handle *h, uint32_t credits, uint32_t revokes)
{
	int err = 0;

	if (h->credits < (int32_t)credits || h->revokes < (int32_t)revokes)
		err = journal_extend(h, credits, revokes);
	return err == 1 ? journal_restart(h, credits, revokes) : err;
}

static uint32_t remove_credits(const struct inode *inode)
{
	return min_of(REMOVE_CREDITS, journal_max_credits(inode->fs->journal));
}

/* In the handle, and others when it is used up. */
static int remove_range(struct handle *h, struct inode *inode, lblk_t start, uint64_t end)
{
	int err;

	do {
		err = remove_some(h, inode, start, &end);
	} while (err == 1 && !(err = journal_restart(h, remove_credits(inode), REMOVE_REVOKES)) && end > start);
	return err;
}

int map_remove_range(struct inode *inode, lblk_t start, uint64_t end)
{
	struct handle h;
	int err, err2;

	end = min_of(end, (uint64_t)LBLK_END);
	if (!map_has_tree(inode) || start >= end)
		return 0;
	map_forget_delayed(inode, start, end);
	err = fs_handle_start(inode->fs, remove_credits(inode), REMOVE_REVOKES, &h);
	if (err)
		return err;
	err = remove_range(&h, inode, start, end);
	err2 = journal_stop(&h);
	return err ? err : err2;
}

int map_truncate(struct inode *inode, lblk_t start_lblk)
{
	if (!map_has_tree(inode))
		return 0;
	rwsem_write_lock(&inode->map_sem);
	balloc_discard_prealloc(inode);
	rwsem_write_unlock(&inode->map_sem);
	return map_remove_range(inode, start_lblk, LBLK_END);
}

/* One leaf's worth of shifting. As ext_shift(). */
static int shift_some(struct handle *h, struct inode *inode, lblk_t *from, lblk_t stop, int64_t delta)
{
	int err, err2;

	rwsem_write_lock(&inode->map_sem);
	map_seq_bump(inode);
	es_remove(inode, delta < 0 ? (lblk_t)(stop + delta) : stop, LBLK_END);
	err = ext_shift(h, inode, from, stop, delta);
	map_seq_bump(inode);
	err2 = inode_write_datasync(h, inode);
	rwsem_write_unlock(&inode->map_sem);
	return err < 0 || !err2 ? err : err2;
}

static uint32_t shift_credits(const struct inode *inode)
{
	return map_credits(inode, 1) + EXT4_EXT_MAX_DEPTH;
}

static int shift_range(struct handle *h, struct inode *inode, lblk_t start, int64_t delta)
{
	lblk_t from = delta < 0 ? start : LBLK_END;
	int err;

	do {
		err = map_renew(h, shift_credits(inode), 0);
		if (!err)
			err = shift_some(h, inode, &from, start, delta);
	} while (err == 1);
	return err;
}

int map_collapse(struct handle *h, struct inode *inode, lblk_t start, lblk_t end)
{
	int err = map_renew(h, remove_credits(inode), REMOVE_REVOKES);

	if (!err)
		err = remove_range(h, inode, start, end);
	return err ? err : shift_range(h, inode, end, -(int64_t)(end - start));
}

int map_insert(struct handle *h, struct inode *inode, lblk_t start, uint32_t len)
{
	int err = map_renew(h, shift_credits(inode), 0), err2;

	if (err)
		return err;
	rwsem_write_lock(&inode->map_sem);
	err = ext_split_at(h, inode, start);
	err2 = inode_write_datasync(h, inode);
	rwsem_write_unlock(&inode->map_sem);
	if (err || err2)
		return err ? err : err2;
	return shift_range(h, inode, start, len);
}

/* ---- blocks of directories and symlinks ---- */

int inode_block_read(struct inode *inode, lblk_t lblk, struct buffer_head **bh_out)
{
	struct map_result r;
	int err;

	*bh_out = NULL;
	err = map_lookup(inode, lblk, 1, &r);
	if (err || r.status == ES_HOLE)
		return err;
	if (r.status != ES_WRITTEN)
		return INODE_ERROR(inode, -EUCLEAN, r.blk, "block %u is unwritten", lblk);
	return buffer_read(inode->fs->bc, r.blk, bh_out);
}

int inode_block_create(struct handle *h, struct inode *inode, lblk_t lblk, struct buffer_head **bh_out)
{
	struct map_result r;
	int err;

	err = map_blocks(h, inode, lblk, 1, MAP_CREATE | MAP_METADATA, &r);
	if (err)
		return err;
	if (r.status != ES_WRITTEN)
		return INODE_ERROR(inode, -EUCLEAN, r.blk, "block %u is unwritten", lblk);
	err = buffer_get(inode->fs->bc, r.blk, bh_out);
	if (err)
		return err;
	err = journal_get_create_access(h, *bh_out);
	if (err) {
		buffer_put(*bh_out);
		*bh_out = NULL;
		return err;
	}
	buffer_set(*bh_out, BH_UPTODATE); /* what the caller fills in is the block, not what the device has */
	return 0;
}
