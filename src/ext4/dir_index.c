/* SPDX-License-Identifier: MIT */
/* dir_index.c - the hash index of a directory: verifying its blocks, walking it, looking names up */
#include <errno.h>

#include "base/checksum.h"
#include "ext4/dir_private.h"

/*
 * An indexed directory is a tree of fixed depth. Block 0 is the root: it begins with "." and "..", the latter's
 * rec_len spanning the rest, so that a reader without index support sees an ordinary block. Nodes pose as blocks
 * with one unused entry, leaves are ordinary blocks. An index entry (hash, block) leads to the names whose hash is at
 * least its own and below the next one's.
 *
 * X1  Entries of an index block are sorted by hash; the first has none (it begins where the block's own entry begins).
 * X2  A leaf holds only names of its range. Names of one hash may fill several leaves: the later ones' index entries
 *     carry that hash with bit 0 set (no name's hash has it), so a search for the hash finds the first of them
 *     and goes on while the next leaf's entry is (hash | 1).
 * X3  All leaves are at the same depth: indirect_levels + 1 index blocks lead to each.
 * X4  The index is found by file blocks below the directory's size, never by following data of a leaf.
 */

static uint32_t entries_limit(const struct ext4_fs *fs, uint32_t entries_off)
{
	uint32_t tail_bytes = fs->has_metadata_csum ? (uint32_t)sizeof(struct dx_tail) : 0;

	return (fs->block_bytes - entries_off - tail_bytes) / (uint32_t)sizeof(struct dx_entry);
}

uint32_t dx_root_limit(const struct ext4_fs *fs)
{
	return entries_limit(fs, DX_ROOT_ENTRIES);
}

uint32_t dx_node_limit(const struct ext4_fs *fs)
{
	return entries_limit(fs, DX_NODE_ENTRIES);
}

uint32_t dx_levels_max(const struct ext4_fs *fs)
{
	return fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_LARGEDIR) ? DX_LEVELS_MAX : DX_LEVELS_MAX - 1;
}

static uint32_t entries_offset(lblk_t lblk)
{
	return lblk == 0 ? DX_ROOT_ENTRIES : DX_NODE_ENTRIES;
}

static struct dx_entry *entries_of(lblk_t lblk, const uint8_t *data)
{
	return (struct dx_entry *)(uintptr_t)(data + entries_offset(lblk));
}

/*
 * Without checksums an empty leaf too is one unused entry that spans the block: only the limit, where a leaf's first entry had
 * its name, tells a node. With them a leaf's entries end before its tail.
 */
bool dx_block_is_index(const struct inode *dir, lblk_t lblk, const uint8_t *data)
{
	const struct ext4_fs *fs = dir->fs;
	const struct ext4_dir_entry *de = dir_entry_at(data, 0);

	if (!dir_is_indexed(dir))
		return false;
	if (lblk == 0)
		return true;
	if (de->inode.raw || de->name_len || de->file_type || dir_rec_len_get(de, fs->block_bytes) != fs->block_bytes)
		return false;
	return fs->has_metadata_csum || le16_get(dx_countlimit_of(entries_of(lblk, data))->limit) == dx_node_limit(fs);
}

static const char *root_verify(const struct ext4_fs *fs, const uint8_t *data)
{
	const struct ext4_dir_entry *dot = dir_entry_at(data, 0), *dotdot = dir_entry_at(data, DX_ROOT_DOTDOT);
	const struct dx_root_info *info = (const struct dx_root_info *)(const void *)(data + DX_ROOT_INFO);

	if (dir_rec_len_get(dot, fs->block_bytes) != DX_ROOT_DOTDOT || dot->name_len != 1 || dot->name[0] != '.')
		return "the index root does not begin with \".\"";
	if (dir_rec_len_get(dotdot, fs->block_bytes) != fs->block_bytes - DX_ROOT_DOTDOT || dotdot->name_len != 2 ||
	    dotdot->name[0] != '.' || dotdot->name[1] != '.')
		return "the index root has no \"..\" that spans it";
	if (le32_get(info->reserved_zero) || info->info_length != sizeof(*info))
		return "bad header of the index root";
	if (info->indirect_levels >= dx_levels_max(fs))
		return "the index has too many levels";
	return NULL;
}

static const char *node_verify(const struct ext4_fs *fs, const uint8_t *data)
{
	const struct ext4_dir_entry *fake = dir_entry_at(data, 0);

	if (fake->inode.raw || dir_rec_len_get(fake, fs->block_bytes) != fs->block_bytes)
		return "the index node does not begin with an unused entry that spans it";
	return NULL;
}

const char *dx_block_verify(const struct ext4_fs *fs, lblk_t lblk, const uint8_t *data)
{
	struct dx_entry *entries = entries_of(lblk, data);
	const struct dx_countlimit *cl = dx_countlimit_of(entries);
	const char *broken = lblk == 0 ? root_verify(fs, data) : node_verify(fs, data);

	if (broken)
		return broken;
	if (le16_get(cl->limit) != (lblk == 0 ? dx_root_limit(fs) : dx_node_limit(fs)))
		return "bad limit of index entries";
	if (!le16_get(cl->count) || le16_get(cl->count) > le16_get(cl->limit))
		return "bad count of index entries";
	for (uint32_t i = 2; i < le16_get(cl->count); i++)
		if (le32_get(entries[i].hash) < le32_get(entries[i - 1].hash))
			return "index entries out of order"; /* X1 */
	return NULL;
}

static struct dx_tail *index_tail(const struct ext4_fs *fs, lblk_t lblk, const uint8_t *data)
{
	return (struct dx_tail *)(void *)(entries_of(lblk, data) + entries_limit(fs, entries_offset(lblk)));
}

static uint32_t index_csum(const struct inode *dir, lblk_t lblk, const uint8_t *data)
{
	struct dx_tail tail = { .dt_reserved = index_tail(dir->fs, lblk, data)->dt_reserved };
	uint32_t count = le16_get(dx_countlimit_of(entries_of(lblk, data))->count);
	uint32_t csum;

	csum = crc32c(inode_csum_seed(dir), data, entries_offset(lblk) + count * sizeof(struct dx_entry));
	return crc32c(csum, &tail, sizeof(tail));
}

/* After dx_block_verify(): the count is in range. */
bool dx_csum_is_valid(const struct inode *dir, lblk_t lblk, const uint8_t *data)
{
	return le32_get(index_tail(dir->fs, lblk, data)->dt_checksum) == index_csum(dir, lblk, data);
}

int dx_block_dirty(struct handle *h, struct inode *dir, lblk_t lblk, struct buffer_head *bh)
{
	if (dir->fs->has_metadata_csum)
		index_tail(dir->fs, lblk, bh->data)->dt_checksum = le32_make(index_csum(dir, lblk, bh->data));
	buffer_set(bh, BH_VERIFIED);
	return journal_dirty_metadata(h, bh);
}

/* Fills the frame from @bh, whose reference it takes in every case. Bounds are checked each time: see dir_entry_is_sound(). */
static int frame_init(struct inode *dir, struct dx_frame *frame, lblk_t lblk, struct buffer_head *bh)
{
	uint32_t limit = lblk == 0 ? dx_root_limit(dir->fs) : dx_node_limit(dir->fs);
	struct dx_entry *entries = entries_of(lblk, bh->data);
	uint32_t count = le16_get(dx_countlimit_of(entries)->count);

	if (!count || count > limit) {
		int err = INODE_ERROR(dir, -EUCLEAN, bh->blk, "directory index block %u has %u of %u entries", lblk, count,
				      limit);

		buffer_put(bh);
		return err;
	}
	frame->bh = bh;
	frame->entries = entries;
	frame->limit = limit;
	frame->count = count;
	frame->at = 0;
	return 0;
}

/* Reads the node that frame @level - 1 points to into frame @level. */
static int frame_descend(struct inode *dir, struct dx_path *path, uint32_t level)
{
	const struct dx_frame *up = &path->frame[level - 1];
	lblk_t lblk = dx_block_of(&up->entries[up->at]);
	struct buffer_head *bh;
	int err;

	if (lblk == 0 || lblk >= dir_blocks(dir))
		return INODE_ERROR(dir, -EUCLEAN, up->bh->blk, "directory index points to block %u", lblk);
	err = dir_block_read(dir, lblk, DIR_BLOCK_INDEX, &bh);
	if (err)
		return err;
	buffer_put(path->frame[level].bh);
	path->frame[level].bh = NULL;
	return frame_init(dir, &path->frame[level], lblk, bh);
}

int dx_path_open(struct inode *dir, struct dx_path *path)
{
	struct buffer_head *bh;
	const struct dx_root_info *info;
	int err;

	for (uint32_t i = 0; i < DX_LEVELS_MAX; i++)
		path->frame[i].bh = NULL;
	err = dir_block_read(dir, 0, DIR_BLOCK_INDEX, &bh);
	if (err)
		return err;
	err = frame_init(dir, &path->frame[0], 0, bh);
	if (err)
		return err;
	info = dx_root_info_of(bh->data);
	path->depth = info->indirect_levels + 1u;
	path->hash_version = dir_hash_version(dir->fs, info->hash_version);
	if (path->depth > dx_levels_max(dir->fs))
		err = INODE_ERROR(dir, -EUCLEAN, bh->blk, "the directory index has %u levels", path->depth);
	else if (info->hash_version > DX_HASH_TEA || (info->unused_flags & 1u))
		err = -EOPNOTSUPP;
	if (err)
		dx_path_close(path);
	return err;
}

void dx_path_close(struct dx_path *path)
{
	for (uint32_t i = 0; i < DX_LEVELS_MAX; i++) {
		buffer_put(path->frame[i].bh);
		path->frame[i].bh = NULL;
	}
}

/* The last entry whose hash is not above @hash; the first one counts as 0. */
static uint32_t frame_search(const struct dx_frame *frame, uint32_t hash)
{
	uint32_t low = 1, high = frame->count; /* entries below low are <= hash, from high on they are > hash */

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (le32_get(frame->entries[middle].hash) > hash)
			high = middle;
		else
			low = middle + 1;
	}
	return low - 1;
}

static int check_leaf(struct inode *dir, const struct dx_path *path)
{
	lblk_t leaf = dx_path_leaf(path);

	if (leaf == 0 || leaf >= dir_blocks(dir))
		return INODE_ERROR(dir, -EUCLEAN, path->frame[path->depth - 1].bh->blk, "directory index points to block %u",
				   leaf);
	return 0;
}

int dx_path_seek(struct inode *dir, struct dx_path *path, uint32_t hash)
{
	for (uint32_t level = 0;; level++) {
		int err;

		path->frame[level].at = frame_search(&path->frame[level], hash);
		if (level + 1 == path->depth)
			return check_leaf(dir, path);
		err = frame_descend(dir, path, level + 1);
		if (err)
			return err;
	}
}

int dx_path_next(struct inode *dir, struct dx_path *path, uint32_t *hash_out)
{
	uint32_t level = path->depth - 1;
	int err;

	while (path->frame[level].at + 1 >= path->frame[level].count) {
		if (level == 0)
			return 0;
		level--;
	}
	path->frame[level].at++;
	*hash_out = le32_get(path->frame[level].entries[path->frame[level].at].hash);
	while (++level < path->depth) {
		err = frame_descend(dir, path, level);
		if (err)
			return err;
	}
	err = check_leaf(dir, path);
	return err ? err : 1;
}

static int find_by_hash(struct inode *dir, struct dx_path *path, const struct name *name, struct dir_pos *pos)
{
	uint32_t hash, minor, next_hash;
	int err = dir_hash(dir->fs, path->hash_version, name->str, name->len, &hash, &minor);

	if (!err)
		err = dx_path_seek(dir, path, hash);
	if (err)
		return err;
	/* Bounded: the entries of a crafted index can say (hash | 1) at most as often as there are entries. */
	for (;;) {
		pos->lblk = dx_path_leaf(path);
		err = dir_block_read(dir, pos->lblk, DIR_BLOCK_LEAF, &pos->bh);
		if (err)
			return err;
		err = dir_block_find(dir, name, pos);
		if (err != -ENOENT)
			break;
		dir_pos_put(pos);
		err = dx_path_next(dir, path, &next_hash);
		if (err < 0)
			return err;
		if (err == 0 || next_hash != (hash | 1u)) /* X2 */
			return -ENOENT;
	}
	if (err)
		dir_pos_put(pos);
	return err;
}

int dir_index_find(struct inode *dir, const struct name *name, struct dir_pos *pos_out)
{
	struct dx_path path;
	int err = dx_path_open(dir, &path);

	if (err == -EOPNOTSUPP)
		return dir_linear_find(dir, name, pos_out); /* a hash of the future: the names are there all the same */
	if (err)
		return err;
	err = find_by_hash(dir, &path, name, pos_out);
	dx_path_close(&path);
	return err;
}
