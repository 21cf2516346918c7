/* SPDX-License-Identifier: MIT */
/*
 * fast_commit_model.c - from the records to the end state, in memory (K1)
 *
 * Records are read in order. In one fast commit come the names first, each new inode with its record and its ranges in
 * front of its name; then for each changed inode its ranges and its record. An inode that is gone by then has no record any
 * more, which is why links are counted here: the last record of an inode says how many there are, names that come or go
 * after it add and take away. At 0 the inode is gone, and what is said of its number later is about another inode.
 *
 * Of a directory whose names change there often is no record: its links follow from the subdirectories that come and go, and
 * its times are those of the recovery.
 *
 * What is said of an inode that is not known is passed over: it was made and removed again between two fast commits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/fast_commit_private.h"
#include "ext4/ialloc.h"
#include "ext4/map.h"

/* ---- tables ---- */

static uint32_t hash_mix(uint32_t seed, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		seed = (seed ^ p[i]) * 0x01000193u;
	return seed ^ seed >> 15;
}

/* As many slots as records: each makes at most two inodes and one name. */
static int tables_alloc(struct fast_commit *fc)
{
	uint32_t slots = 64;

	while (slots < fc->record_count && slots < 1u << 20)
		slots *= 2;
	fc->hash_mask = slots - 1;
	fc->inode_hash = calloc(slots, sizeof(fc->inode_hash[0]));
	fc->name_hash = calloc(slots, sizeof(fc->name_hash[0]));
	return fc->inode_hash && fc->name_hash ? 0 : -ENOMEM;
}

static struct fc_inode **inode_slot(const struct fast_commit *fc, ino_num ino)
{
	return &fc->inode_hash[hash_mix(0x811c9dc5u, &ino, sizeof(ino)) & fc->hash_mask];
}

struct fc_inode *fc_inode_find(const struct fast_commit *fc, ino_num ino)
{
	struct fc_inode *n = *inode_slot(fc, ino);

	while (n && n->ino != ino)
		n = n->hash_next;
	return n;
}

static struct fc_name **name_slot(const struct fast_commit *fc, const struct fc_inode *dir, const struct name *name)
{
	return &fc->name_hash[hash_mix(0x811c9dc5u ^ dir->ino, name->str, name->len) & fc->hash_mask];
}

/* ---- inodes ---- */

/* *base_out is NULL if the number is free. */
static int base_load(struct ext4_fs *fs, ino_num ino, struct inode **base_out)
{
	int err = ialloc_is_used(fs, ino);
	struct inode *inode;

	*base_out = NULL;
	if (err <= 0)
		return err;
	inode = inode_alloc(fs);
	if (!inode)
		return -ENOMEM;
	err = inode_load(fs, ino, true, inode);
	if (!err)
		*base_out = inode;
	else
		inode_free(inode);
	return err == -ESTALE ? FS_ERROR(fs, -EUCLEAN, "inode #%u is in use, but was never written", ino) : err;
}

static int inode_make(struct fast_commit *fc, ino_num ino, struct fc_inode **out)
{
	struct fc_inode *n = calloc(1, sizeof(*n)), **slot = inode_slot(fc, ino);
	int err;

	if (!n)
		return -ENOMEM;
	err = fc_array_grow(&fc->inodes, &fc->inode_room, fc->inode_count, sizeof(fc->inodes[0]));
	if (err) {
		free(n);
		return err;
	}
	fc->inodes[fc->inode_count++] = n;
	n->ino = ino;
	n->hash_next = *slot;
	*slot = n;
	n->names_end = &n->names;
	err = base_load(fc->fs, ino, &n->base);
	if (!err && n->base) {
		n->is_base = n->is_alive = true;
		n->links = n->base->nlink;
		err = inode_is_dir(n->base) ? 0 : fc_ranges_load(n->base, &n->old); /* blocks of directories are ours */
		for (size_t i = 0; !err && i < n->old.count; i++)
			err = fc_ranges_set(&n->now, &n->old.at[i]);
	}
	*out = n;
	return err;
}

int fc_inode_get(struct fast_commit *fc, ino_num ino, struct fc_inode **out)
{
	*out = fc_inode_find(fc, ino);
	return *out ? 0 : inode_make(fc, ino, out);
}

bool fc_inode_is_live(const struct fc_inode *n)
{
	return n->is_alive && !(n->unlinked && n->links == 0);
}

static uint16_t raw_mode(const uint8_t *raw)
{
	le16 mode;

	memcpy(&mode, raw + offsetof(struct ext4_inode, i_mode), sizeof(mode));
	return le16_get(mode);
}

static uint32_t raw_generation(const uint8_t *raw)
{
	le32 generation;

	memcpy(&generation, raw + offsetof(struct ext4_inode, i_generation), sizeof(generation));
	return le32_get(generation);
}

static uint16_t inode_mode(const struct fc_inode *n)
{
	return n->raw ? raw_mode(n->raw) : n->is_base ? n->base->mode : 0;
}

static bool is_another(const struct fc_inode *n, const uint8_t *raw)
{
	uint32_t generation = n->raw ? raw_generation(n->raw) : n->base ? n->base->generation : 0;

	return raw_generation(raw) != generation || (raw_mode(raw) & S_IFMT) != (inode_mode(n) & S_IFMT);
}

/* Names in a directory that is gone lead nowhere. */
static void names_forget(struct fc_inode *n)
{
	for (struct fc_name *name = n->names; name; name = name->next)
		name->dir = NULL;
}

/* From here on the number is of another inode, of which nothing is known yet. */
static void inode_begin(struct fc_inode *n)
{
	names_forget(n);
	n->now.count = 0;
	n->raw = NULL;
	n->is_base = n->is_alive = n->unlinked = n->is_early = n->is_stale = false;
	n->links = 0;
	n->parent = 0;
}

static int take_inode(struct fast_commit *fc, const struct fc_record *r)
{
	const uint8_t *raw = fc->bytes + r->pos + sizeof(struct fc_inode_record);
	struct fc_inode *n;
	le16 links;
	le32 ino;
	int err;

	memcpy(&ino, fc->bytes + r->pos, sizeof(ino));
	err = fc_inode_get(fc, le32_get(ino), &n);
	if (err)
		return err;
	if (!n->is_early && (!n->is_alive || is_another(n, raw)))
		inode_begin(n);
	memcpy(&links, raw + offsetof(struct ext4_inode, i_links_count), sizeof(links));
	n->links = le16_get(links);
	n->raw = raw;
	n->raw_bytes = r->len_bytes - (uint32_t)sizeof(struct fc_inode_record);
	n->is_alive = true;
	n->unlinked = n->is_early = n->is_stale = false;
	return 0;
}

/* ---- ranges ---- */

/* Ranges of an inode whose record follows, as those of a file that never had a name. */
static int ranges_inode(struct fast_commit *fc, uint32_t ino, struct fc_inode **out)
{
	int err = fc_inode_get(fc, ino, out);

	if (err)
		return err;
	if (!fc_inode_is_live(*out) && !(*out)->is_early) {
		inode_begin(*out);
		(*out)->is_early = true;
	}
	if ((*out)->is_alive && !S_ISREG(inode_mode(*out)) && !S_ISLNK(inode_mode(*out)))
		return FS_ERROR(fc->fs, -EUCLEAN, "fast commits: blocks of inode #%u, which is no file", ino);
	return 0;
}

static int take_add_range(struct fast_commit *fc, const struct fc_record *r)
{
	struct fc_add_range range;
	struct ext_extent e;
	struct fc_inode *n;
	int err;

	memcpy(&range, fc->bytes + r->pos, sizeof(range));
	e.lblk = le32_get(range.fc_ex.ee_block);
	e.len = le16_get(range.fc_ex.ee_len);
	e.unwritten = e.len > EXT4_EXT_WRITTEN_MAX;
	e.len -= e.unwritten ? EXT4_EXT_WRITTEN_MAX : 0;
	e.pblk = (fsblk_t)le16_get(range.fc_ex.ee_start_hi) << 32 | le32_get(range.fc_ex.ee_start_lo);
	if (!fs_data_blocks_valid(fc->fs, e.pblk, e.len))
		return FS_ERROR(fc->fs, -EUCLEAN, "fast commits: blocks %llu+%u of inode #%u are metadata",
				(unsigned long long)e.pblk, e.len, le32_get(range.fc_ino));
	err = ranges_inode(fc, le32_get(range.fc_ino), &n);
	return err ? err : fc_ranges_set(&n->now, &e);
}

static int take_del_range(struct fast_commit *fc, const struct fc_record *r)
{
	struct fc_del_range range;
	struct fc_inode *n;
	uint64_t start;
	int err;

	memcpy(&range, fc->bytes + r->pos, sizeof(range));
	start = le32_get(range.fc_lblk);
	err = ranges_inode(fc, le32_get(range.fc_ino), &n);
	return err ? err : fc_ranges_remove(&n->now, start, start + le32_get(range.fc_len));
}

/* ---- names ---- */

static int name_set(struct fast_commit *fc, struct fc_inode *dir, const struct name *name, ino_num ino)
{
	struct fc_name **slot = name_slot(fc, dir, name), *d = *slot;

	while (d && (d->dir != dir || d->name.len != name->len || memcmp(d->name.str, name->str, name->len)))
		d = d->hash_next;
	if (!d) {
		d = calloc(1, sizeof(*d));
		if (!d)
			return -ENOMEM;
		*d = (struct fc_name){ .hash_next = *slot, .dir = dir, .name = *name };
		*slot = d;
		*dir->names_end = d;
		dir->names_end = &d->next;
	}
	d->ino = ino;
	return 0;
}

/* A directory goes with its one name, and takes its ".." along. A count of 1 was given up (dir_nlink). */
static void subdir_count(struct fc_inode *n, enum fc_tag tag, struct fc_inode *dir)
{
	if (tag == FC_UNLINK) {
		n->links = 0;
		dir->links -= dir->links > 2;
		return;
	}
	dir->links += dir->links > 1;
	if (dir->links > EXT4_LINK_MAX)
		dir->links = 1;
	n->parent = dir->ino;
}

/* An inode that was made since, too, has its links counted in the record before FC_CREAT. */
static void link_count(struct fc_inode *n, enum fc_tag tag, struct fc_inode *dir)
{
	if (!fc_inode_is_live(n))
		return;
	n->unlinked |= tag == FC_UNLINK;
	if (S_ISDIR(inode_mode(n)))
		subdir_count(n, tag, dir);
	else if (tag == FC_UNLINK)
		n->links -= n->links > 0;
	else
		n->links += tag == FC_LINK;
}

static int take_dentry(struct fast_commit *fc, const struct fc_record *r)
{
	const char *bytes = (const char *)fc->bytes + r->pos;
	struct name name = { bytes + sizeof(struct fc_dentry), (uint8_t)(r->len_bytes - sizeof(struct fc_dentry)) };
	struct fc_inode *dir, *n;
	struct fc_dentry d;
	int err;

	memcpy(&d, bytes, sizeof(d));
	err = fc_inode_get(fc, le32_get(d.fc_ino), &n);
	if (!err)
		err = fc_inode_get(fc, le32_get(d.fc_parent_ino), &dir);
	if (err)
		return err;
	link_count(n, r->tag, dir);
	if (!fc_inode_is_live(dir))
		return 0;
	if (!S_ISDIR(inode_mode(dir)))
		return FS_ERROR(fc->fs, -EUCLEAN, "fast commits: name \"%.*s\" in inode #%u, which is no directory", name.len,
				name.str, dir->ino);
	dir->is_stale = true;
	return name_set(fc, dir, &name, r->tag == FC_UNLINK ? 0 : n->ino);
}

/* ---- the end ---- */

static int record_take(struct fast_commit *fc, const struct fc_record *r)
{
	switch (r->tag) {
	case FC_ADD_RANGE:
		return take_add_range(fc, r);
	case FC_DEL_RANGE:
		return take_del_range(fc, r);
	case FC_INODE:
		return take_inode(fc, r);
	default:
		return take_dentry(fc, r);
	}
}

/* A truncate that the fast commit came in the middle of ends now: written blocks past the end go. */
static int ranges_trim(const struct ext4_fs *fs, struct fc_inode *n)
{
	struct ext4_inode raw;
	uint64_t size, end;
	int err = 0;

	if (!n->raw || !S_ISREG(inode_mode(n)))
		return 0;
	memcpy(&raw, n->raw, EXT4_INODE_BYTES_MIN);
	size = (uint64_t)le32_get(raw.i_size_high) << 32 | le32_get(raw.i_size_lo);
	end = div_round_up(size, (uint64_t)fs->block_bytes);
	for (size_t i = n->now.count; !err && i > 0 && ext_end(&n->now.at[i - 1]) > end; i--) {
		struct ext_extent e = n->now.at[i - 1];

		if (!e.unwritten)
			err = fc_ranges_remove(&n->now, max_of((uint64_t)e.lblk, end), ext_end(&e));
	}
	return err;
}

static int inode_compare(const void *a, const void *b)
{
	const struct fc_inode *x = *(struct fc_inode *const *)a, *y = *(struct fc_inode *const *)b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* What is left of @n: dead, or to be filled in. */
static int inode_end(struct fast_commit *fc, struct fc_inode *n)
{
	int err;

	if (!n->is_alive || n->links == 0) {
		inode_begin(n);
		fc->inodes_gone += n->base != NULL;
		return 0;
	}
	err = ranges_trim(fc->fs, n);
	return err ? err : fc_inode_fill(fc, n);
}

int fc_model_build(struct fast_commit *fc)
{
	int err = tables_alloc(fc);

	for (size_t i = 0; !err && i < fc->record_count; i++)
		err = record_take(fc, &fc->records[i]);
	if (err)
		return err;
	if (fc->inode_count)
		qsort(fc->inodes, fc->inode_count, sizeof(fc->inodes[0]), inode_compare);
	for (size_t i = 0; !err && i < fc->inode_count; i++)
		err = inode_end(fc, fc->inodes[i]);
	return err;
}
