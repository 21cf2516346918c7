/* SPDX-License-Identifier: MIT */
/*
 * extent_convert.c - written to unwritten and back
 *
 * A conversion replaces one extent by up to three. Where the converted part continues a neighbour it is added to that,
 * which is the usual case of writing a preallocated file in order and needs no new entry.
 */
#include <errno.h>
#include <string.h>

#include "ext4/extent_private.h"
#include "ext4/file_private.h"
#include "ext4/map_private.h"

/* The parts of one extent, in order; empty ones have len 0. */
struct pieces {
	struct ext_extent left, mid, right;
};

static void pieces_make(const struct ext_extent *e, lblk_t start, uint64_t end, bool unwritten, struct pieces *p)
{
	p->left = p->mid = p->right = *e;
	p->left.len = start - e->lblk;
	p->mid.lblk = start;
	p->mid.pblk += start - e->lblk;
	p->mid.len = (uint32_t)(end - start);
	p->mid.unwritten = unwritten;
	p->right.lblk = (lblk_t)end;
	p->right.pblk += end - e->lblk;
	p->right.len = (uint32_t)(ext_end(e) - end);
}

/* The start of the entry at pos goes to its left neighbour. True if it could. */
static bool give_left(struct ext_level *leaf, const struct pieces *p)
{
	struct ext_extent n;

	if (p->left.len || leaf->pos == 0)
		return false;
	ext_get(leaf, leaf->pos - 1, &n);
	if (!ext_can_merge(&n, &p->mid))
		return false;
	n.len += p->mid.len;
	ext_set(leaf, leaf->pos - 1, &n);
	if (p->right.len) {
		ext_set(leaf, leaf->pos, &p->right);
		return true;
	}
	ext_close(leaf, leaf->pos, 1);
	if (leaf->pos < ext_count(leaf)) {
		struct ext_extent next;

		ext_get(leaf, leaf->pos, &next);
		if (ext_can_merge(&n, &next)) {
			n.len += next.len;
			ext_set(leaf, leaf->pos - 1, &n);
			ext_close(leaf, leaf->pos, 1);
		}
	}
	return true;
}

/* The end of the entry at pos goes to its right neighbour. */
static bool give_right(struct ext_level *leaf, const struct pieces *p)
{
	struct ext_extent n;

	if (p->right.len || leaf->pos + 1 >= ext_count(leaf))
		return false;
	ext_get(leaf, leaf->pos + 1, &n);
	if (!ext_can_merge(&p->mid, &n))
		return false;
	n.lblk = p->mid.lblk;
	n.pblk = p->mid.pblk;
	n.len += p->mid.len;
	ext_set(leaf, leaf->pos + 1, &n);
	if (p->left.len)
		ext_set(leaf, leaf->pos, &p->left);
	else
		ext_close(leaf, leaf->pos, 1);
	return true;
}

/* Writes the pieces in the place of the entry at pos. The leaf has room. */
static void put_pieces(struct ext_level *leaf, const struct pieces *p)
{
	int pos = leaf->pos;

	if (p->left.len) {
		ext_set(leaf, pos++, &p->left);
		ext_open(leaf, pos);
		ext_set(leaf, pos++, &p->mid);
	} else {
		ext_set(leaf, pos++, &p->mid);
	}
	if (p->right.len) {
		ext_open(leaf, pos);
		ext_set(leaf, pos, &p->right);
	}
}

/* Replaces the extent that @path leads to by @p. */
static int replace_extent(struct handle *h, struct inode *inode, struct ext_path *path, const struct pieces *p)
{
	struct ext_level *leaf = ext_leaf(path);
	int err;

	err = ext_level_access(h, leaf);
	if (err)
		return err;
	if (!give_left(leaf, p) && !give_right(leaf, p)) {
		err = ext_make_room(h, inode, path, p->mid.lblk, !!p->left.len + !!p->right.len);
		if (err)
			return err;
		leaf = ext_leaf(path);
		err = ext_level_access(h, leaf);
		if (err)
			return err;
		put_pieces(leaf, p);
	}
	err = ext_level_dirty(h, inode, leaf);
	return err ? err : ext_fix_keys(h, path, path->depth);
}

/*
 * Credits of one conversion: a split of every node, a new root, the changed nodes and the inode. It leaves enough to move
 * the size on disk over what it converted in the same handle.
 */
static int convert_credits(struct handle *h, struct inode *inode)
{
	uint32_t need = map_credits(inode, 1) + DISKSIZE_CREDITS;

	if (h->credits >= (int32_t)need)
		return 0;
	return journal_extend(h, need - (uint32_t)max_of(h->credits, 0), 0);
}

/* Converts what one extent has in [*start, end), or skips what needs no conversion. */
static int convert_step(struct handle *h, struct inode *inode, lblk_t *start, uint64_t end, bool unwritten)
{
	uint32_t max = unwritten ? EXT4_EXT_UNWRITTEN_MAX : EXT4_EXT_WRITTEN_MAX;
	struct ext_path path;
	struct ext_level *leaf;
	struct ext_extent e;
	struct pieces p;
	uint64_t stop;
	int err;

	err = ext_path_find(inode, *start, &path);
	if (err)
		goto put;
	leaf = ext_leaf(&path);
	e = (struct ext_extent){ 0 };
	if (leaf->pos >= 0)
		ext_get(leaf, leaf->pos, &e);
	if (ext_end(&e) <= *start) { /* a hole: on to the next extent */
		stop = leaf->pos + 1 < ext_count(leaf) ? ext_key(leaf, leaf->pos + 1) : leaf->end;
	} else {
		stop = ext_end(&e);
		if (e.unwritten != unwritten) {
			stop = min_of(stop, end);
			stop = min_of(stop, (uint64_t)*start + max);
			pieces_make(&e, *start, stop, unwritten, &p);
			err = replace_extent(h, inode, &path, &p);
			if (!err)
				es_set(inode, &(struct es_extent){ p.mid.lblk, p.mid.len, p.mid.pblk,
								  unwritten ? ES_UNWRITTEN : ES_WRITTEN });
		}
	}
	if (!err)
		*start = (lblk_t)min_of(stop, end);
put:
	ext_path_put(&path);
	return err;
}

int ext_set_state(struct handle *h, struct inode *inode, lblk_t *start, uint64_t end, bool unwritten)
{
	int err;

	while (*start < end) {
		err = convert_credits(h, inode);
		if (!err)
			err = convert_step(h, inode, start, end, unwritten);
		if (err)
			return err;
	}
	return 0;
}
