/* SPDX-License-Identifier: MIT */
/*
 * extent.c - nodes of extent trees, and the way down
 *
 * X1  Entries of a node are sorted, do not overlap, and lie in what the parent's index gives the node.
 * X2  An index names exactly the first block of the node below it (e2fsck insists), so changing a node's first entry
 *     changes the indexes above.
 * X3  A node's depth is its parent's less one: no walk goes deeper than EXT4_EXT_MAX_DEPTH, whatever the disk says.
 * X4  A node is verified in full once per read (BH_VERIFIED), and its depth and bounds each time it is reached. Counts
 *     are clamped to the memory there is each time they are used: another inode of a corrupt image may share the block.
 *
 * Locks: map_sem, shared to read, exclusive to change.
 */
#include <errno.h>
#include <string.h>

#include "base/checksum.h"
#include "ext4/balloc.h"
#include "ext4/extent_private.h"

#define ROOT_CAPACITY 4u /* 60 bytes of i_block */

uint32_t ext_block_capacity(const struct ext4_fs *fs)
{
	return (fs->block_bytes - (uint32_t)sizeof(struct ext4_extent_header)) / (uint32_t)sizeof(struct ext4_extent);
}

static struct ext4_extent_header *root_header(const struct inode *inode)
{
	return (struct ext4_extent_header *)(uintptr_t)inode->i_block;
}

unsigned ext_depth(const struct inode *inode)
{
	le16 raw;

	__atomic_load(&root_header(inode)->eh_depth, &raw, __ATOMIC_RELAXED);
	return min_of((unsigned)le16_get(raw), EXT4_EXT_MAX_DEPTH);
}

void ext_get(const struct ext_level *leaf, int pos, struct ext_extent *out)
{
	const struct ext4_extent *e = &ext_entries(leaf)[pos];
	uint32_t len = le16_get(e->ee_len);

	out->lblk = le32_get(e->ee_block);
	out->unwritten = len > EXT4_EXT_WRITTEN_MAX;
	out->len = out->unwritten ? len - EXT4_EXT_WRITTEN_MAX : len;
	out->pblk = (fsblk_t)le16_get(e->ee_start_hi) << 32 | le32_get(e->ee_start_lo);
}

void ext_set(struct ext_level *leaf, int pos, const struct ext_extent *e)
{
	struct ext4_extent *d = &ext_entries(leaf)[pos];

	UEXT4_ASSERT(e->len > 0 && e->len <= (e->unwritten ? EXT4_EXT_UNWRITTEN_MAX : EXT4_EXT_WRITTEN_MAX));
	d->ee_block = le32_make(e->lblk);
	d->ee_len = le16_make((uint16_t)(e->unwritten ? e->len + EXT4_EXT_WRITTEN_MAX : e->len));
	d->ee_start_hi = le16_make((uint16_t)(e->pblk >> 32));
	d->ee_start_lo = le32_make((uint32_t)e->pblk);
}

/* ---- verification ---- */

static const char *leaf_verify(const struct inode *inode, const struct ext_level *l, lblk_t start, uint64_t end)
{
	uint64_t next = start;
	struct ext_extent e;
	int i;

	for (i = 0; i < ext_count(l); i++) {
		ext_get(l, i, &e);
		if (e.len == 0)
			return "extent of no length";
		if (e.lblk < next)
			return "extents out of order or overlapping";
		if (ext_end(&e) > end)
			return "extent beyond its node's range";
		if (!fs_data_blocks_valid(inode->fs, e.pblk, e.len))
			return "extent over metadata or outside the file system";
		next = ext_end(&e);
	}
	return NULL;
}

static const char *index_verify(const struct inode *inode, const struct ext_level *l, lblk_t start, uint64_t end)
{
	uint64_t next = start;
	int i;

	for (i = 0; i < ext_count(l); i++) {
		lblk_t key = ext_key(l, i);

		if (key < next)
			return "indexes out of order";
		if (key >= end)
			return "index beyond its node's range";
		if (!fs_data_blocks_valid(inode->fs, ext_index_child(&ext_indexes(l)[i]), 1))
			return "index to metadata or outside the file system";
		next = (uint64_t)key + 1;
	}
	return NULL;
}

/* Header alone: what has to hold before an entry is looked at. */
static const char *header_verify(const struct ext4_extent_header *hdr, uint32_t max, unsigned depth)
{
	if (le16_get(hdr->eh_magic) != EXT4_EXT_MAGIC)
		return "bad magic";
	if (le16_get(hdr->eh_depth) != depth)
		return "unexpected depth";
	if (le16_get(hdr->eh_max) == 0 || le16_get(hdr->eh_max) > max)
		return "bad room for entries";
	if (le16_get(hdr->eh_entries) > le16_get(hdr->eh_max))
		return "more entries than room";
	return NULL;
}

const char *ext_node_verify(const struct inode *inode, const struct ext4_extent_header *hdr, uint32_t max,
			    unsigned depth, lblk_t start, uint64_t end)
{
	struct ext_level l = { .hdr = (struct ext4_extent_header *)(uintptr_t)hdr, .max = max };
	const char *rule = header_verify(hdr, max, depth);

	if (rule)
		return rule;
	return depth ? index_verify(inode, &l, start, end) : leaf_verify(inode, &l, start, end);
}

/* ---- checksums ---- */

static struct ext4_extent_tail *node_tail(struct ext4_extent_header *hdr)
{
	return (struct ext4_extent_tail *)((struct ext4_extent *)(hdr + 1) + le16_get(hdr->eh_max));
}

static uint32_t node_csum(const struct inode *inode, struct ext4_extent_header *hdr)
{
	le32 ino = le32_make(inode->ino), generation = le32_make(inode->generation);
	uint32_t csum = crc32c(inode->fs->csum_seed, &ino, sizeof(ino));

	csum = crc32c(csum, &generation, sizeof(generation));
	return crc32c(csum, hdr, (size_t)((uint8_t *)node_tail(hdr) - (uint8_t *)hdr));
}

/* The tail lies within the block: eh_max was checked. Older tools leave no room for it in some block sizes. */
static bool node_has_tail(const struct inode *inode, struct ext4_extent_header *hdr)
{
	size_t off = (size_t)((uint8_t *)node_tail(hdr) - (uint8_t *)hdr);

	return inode->fs->has_metadata_csum && off + sizeof(struct ext4_extent_tail) <= inode->fs->block_bytes;
}

/* ---- reading nodes ---- */

/* A cached node that was verified: its place in the tree may still be wrong. */
static const char *place_verify(const struct ext_level *l, unsigned depth, lblk_t start)
{
	const char *rule = header_verify(l->hdr, l->max, depth);
	int count = ext_count(l);
	struct ext_extent last;

	if (rule)
		return rule;
	if (count == 0)
		return "empty node";
	if (ext_key(l, 0) < start)
		return "node begins before its index";
	if (depth)
		return ext_key(l, count - 1) >= l->end ? "index beyond its node's range" : NULL;
	ext_get(l, count - 1, &last);
	return ext_end(&last) > l->end ? "extent beyond its node's range" : NULL;
}

/* Verifies a node just read and marks it. */
static int node_check(struct inode *inode, struct ext_level *l, unsigned depth, lblk_t start)
{
	const char *rule;

	if (!buffer_test(l->bh, BH_VERIFIED)) {
		rule = header_verify(l->hdr, l->max, depth);
		if (!rule && node_has_tail(inode, l->hdr) &&
		    le32_get(node_tail(l->hdr)->et_checksum) != node_csum(inode, l->hdr))
			return INODE_ERROR(inode, -EBADMSG, l->bh->blk, "extent tree block: bad checksum");
		if (!rule)
			rule = ext_node_verify(inode, l->hdr, l->max, depth, start, l->end);
		if (rule)
			return INODE_ERROR(inode, -EUCLEAN, l->bh->blk, "extent tree block: %s", rule);
		buffer_set(l->bh, BH_VERIFIED);
	}
	rule = place_verify(l, depth, start);
	return rule ? INODE_ERROR(inode, -EUCLEAN, l->bh->blk, "extent tree block: %s", rule) : 0;
}

/* Last entry that begins at or before @lblk, -1 if none does. */
static int level_search(const struct ext_level *l, lblk_t lblk)
{
	int low = 0, high = ext_count(l);

	while (low < high) {
		int mid = low + (high - low) / 2;

		if (ext_key(l, mid) <= lblk)
			low = mid + 1;
		else
			high = mid;
	}
	return low - 1;
}

/* Fills level @to from the index its parent's pos names. */
static int path_descend(struct ext_path *path, unsigned to)
{
	struct ext_level *parent = &path->level[to - 1], *l = &path->level[to];
	struct inode *inode = path->inode;
	int err;

	if (parent->pos < 0)
		parent->pos = 0; /* before everything: belongs into the first leaf */
	err = buffer_read(inode->fs->bc, ext_index_child(&ext_indexes(parent)[parent->pos]), &l->bh);
	if (err)
		return err == -EUCLEAN ? INODE_ERROR(inode, err, 0, "extent index points outside the device") : err;
	l->hdr = (struct ext4_extent_header *)l->bh->data;
	l->max = ext_block_capacity(inode->fs);
	l->end = parent->pos + 1 < ext_count(parent) ? ext_key(parent, parent->pos + 1) : parent->end;
	return node_check(inode, l, path->depth - to, ext_key(parent, parent->pos));
}

int ext_path_find(struct inode *inode, lblk_t lblk, struct ext_path *path)
{
	unsigned i;
	int err;

	memset(path, 0, sizeof(*path));
	path->inode = inode;
	path->level[0].hdr = root_header(inode);
	path->level[0].max = ROOT_CAPACITY;
	path->level[0].end = LBLK_END;
	path->depth = le16_get(path->level[0].hdr->eh_depth);
	if (path->depth > EXT4_EXT_MAX_DEPTH || (path->depth && ext_count(&path->level[0]) == 0)) {
		path->depth = 0;
		return INODE_ERROR(inode, -EUCLEAN, 0, "extent root: bad depth or no index");
	}
	path->level[0].pos = level_search(&path->level[0], lblk);
	for (i = 1; i <= path->depth; i++) {
		err = path_descend(path, i);
		if (err)
			return err;
		path->level[i].pos = level_search(&path->level[i], lblk);
	}
	return 0;
}

void ext_path_put(struct ext_path *path)
{
	unsigned i;

	for (i = 1; i <= EXT4_EXT_MAX_DEPTH; i++) {
		buffer_put(path->level[i].bh);
		path->level[i].bh = NULL;
	}
}

/* ---- lookups ---- */

/* The hole around @lblk, which no extent covers. */
static void path_hole(struct ext_path *path, struct ext_extent *out)
{
	struct ext_level *leaf = ext_leaf(path);
	uint64_t start = 0, end = leaf->end;
	struct ext_extent left;

	if (leaf->pos >= 0) {
		ext_get(leaf, leaf->pos, &left);
		start = ext_end(&left);
	}
	if (leaf->pos + 1 < ext_count(leaf))
		end = ext_key(leaf, leaf->pos + 1);
	memset(out, 0, sizeof(*out));
	out->lblk = (lblk_t)start;
	out->len = (uint32_t)(end - start);
}

int ext_lookup(struct inode *inode, lblk_t lblk, struct ext_extent *out)
{
	struct ext_path path;
	int err;

	err = ext_path_find(inode, lblk, &path);
	if (!err && ext_leaf(&path)->pos >= 0) {
		ext_get(ext_leaf(&path), ext_leaf(&path)->pos, out);
		err = ext_end(out) > lblk;
	}
	if (!err)
		path_hole(&path, out);
	ext_path_put(&path);
	return err;
}

int ext_goal(struct inode *inode, lblk_t lblk, fsblk_t *goal_out)
{
	struct ext_path path;
	struct ext_extent e;
	struct ext_level *leaf;
	int err;

	*goal_out = 0;
	err = ext_path_find(inode, lblk, &path);
	leaf = ext_leaf(&path);
	if (err || ext_count(leaf) == 0)
		goto put;
	ext_get(leaf, max_of(leaf->pos, 0), &e);
	if (lblk >= e.lblk)
		*goal_out = e.pblk + (lblk - e.lblk);
	else if (e.pblk > e.lblk - lblk)
		*goal_out = e.pblk - (e.lblk - lblk);
	if (*goal_out >= inode->fs->blocks_count)
		*goal_out = 0;
put:
	ext_path_put(&path);
	return err;
}

/* ---- changes ---- */

void ext_open(struct ext_level *l, int pos)
{
	struct ext4_extent *e = ext_entries(l);
	int count = ext_count(l);

	UEXT4_ASSERT(ext_room(l) > 0);
	memmove(&e[pos + 1], &e[pos], (size_t)(count - pos) * sizeof(*e));
	l->hdr->eh_entries = le16_make((uint16_t)(count + 1));
}

void ext_close(struct ext_level *l, int pos, int n)
{
	struct ext4_extent *e = ext_entries(l);
	int count = ext_count(l);

	memmove(&e[pos], &e[pos + n], (size_t)(count - pos - n) * sizeof(*e));
	l->hdr->eh_entries = le16_make((uint16_t)(count - n));
}

bool ext_can_merge(const struct ext_extent *a, const struct ext_extent *b)
{
	uint32_t max = a->unwritten ? EXT4_EXT_UNWRITTEN_MAX : EXT4_EXT_WRITTEN_MAX;

	return a->unwritten == b->unwritten && ext_end(a) == b->lblk && a->pblk + a->len == b->pblk &&
	       a->len + b->len <= max;
}

int ext_level_access(struct handle *h, struct ext_level *l)
{
	return l->bh ? journal_get_write_access(h, l->bh) : 0;
}

int ext_level_dirty(struct handle *h, const struct inode *inode, struct ext_level *l)
{
	if (!l->bh)
		return 0;
	if (node_has_tail(inode, l->hdr))
		node_tail(l->hdr)->et_checksum = le32_make(node_csum(inode, l->hdr));
	return journal_dirty_metadata(h, l->bh);
}

int ext_fix_keys(struct handle *h, struct ext_path *path, unsigned level)
{
	lblk_t key = ext_key(&path->level[level], 0);
	int err;

	for (; level > 0; level--) {
		struct ext_level *parent = &path->level[level - 1];

		if (ext_key(parent, parent->pos) == key)
			return 0;
		err = ext_level_access(h, parent);
		if (err)
			return err;
		ext_indexes(parent)[parent->pos].ei_block = le32_make(key);
		err = ext_level_dirty(h, path->inode, parent);
		if (err || parent->pos != 0)
			return err;
	}
	return 0;
}
