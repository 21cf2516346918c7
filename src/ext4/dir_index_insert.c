/* SPDX-License-Identifier: MIT */
/* dir_index_insert.c - making room in an indexed directory: splits, new levels, and the first index */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/dir_private.h"
#include "ext4/map.h"

/*
 * Room is made in steps, each of which leaves a sound directory, until the leaf for a name has room:
 *
 *   leaf has the bytes, but scattered      -> compact it
 *   leaf full, its parent has a free entry -> split the leaf at the median of its hashes
 *   parent full, some index block above is not -> split the topmost full one into that
 *   all full up to the root                -> the root's entries move to a new node, one level more
 *
 * After each step the search starts again from the root. A step gets write access to what it changes, and memory,
 * before it allocates its block: after the allocation only the journal can fail. (X1 to X4 are in dir_index.c.)
 */

#define STEPS_MAX (2 * DX_LEVELS_MAX + 4) /* every level split or grown once, leaf split, compaction: more is no progress */

/* Scratch memory of a leaf split: the sorted map and a copy of the leaf. */
struct leaf_map {
	struct dir_map_entry *map; /* owned; the copy lies in the same allocation */
	uint8_t *copy;
	uint32_t count;
	uint32_t used_bytes;
};

static int map_compare(const void *a, const void *b)
{
	const struct dir_map_entry *x = a, *y = b;

	return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : (x->off < y->off ? -1 : 1);
}

static int leaf_map_init(struct inode *dir, const struct buffer_head *bh, lblk_t lblk, uint8_t hash_version,
			 struct leaf_map *m)
{
	size_t map_bytes = dir_map_max(dir->fs) * sizeof(*m->map);
	int count;

	m->map = malloc(map_bytes + dir->fs->block_bytes);
	if (!m->map)
		return -ENOMEM;
	count = dir_leaf_map(dir, bh, lblk, hash_version, m->map);
	if (count < 0) {
		free(m->map);
		return count;
	}
	m->copy = (uint8_t *)m->map + map_bytes;
	memcpy(m->copy, bh->data, dir->fs->block_bytes);
	m->count = (uint32_t)count;
	m->used_bytes = 0;
	for (int i = 0; i < count; i++)
		m->used_bytes += m->map[i].rec_bytes;
	qsort(m->map, m->count, sizeof(*m->map), map_compare);
	return 0;
}

static void leaf_map_exit(struct leaf_map *m)
{
	free(m->map);
}

/* Entries that stay, so that neither half has much more than half a block: what is moved comes from the end. */
static uint32_t leaf_split_point(const struct ext4_fs *fs, const struct leaf_map *m)
{
	uint32_t half = fs->block_bytes / 2, moved_bytes = 0, keep = m->count;

	while (keep > 0 && moved_bytes + m->map[keep - 1].rec_bytes / 2 <= half)
		moved_bytes += m->map[--keep].rec_bytes;
	return keep > 1 ? keep : m->count / 2;
}

static void frame_set_count(struct dx_frame *frame, uint32_t count)
{
	dx_countlimit_of(frame->entries)->count = le16_make((uint16_t)count);
	frame->count = count;
}

/* Behind the entry that the path follows. */
static void frame_insert(struct dx_frame *frame, uint32_t hash, lblk_t lblk)
{
	struct dx_entry *at = &frame->entries[frame->at + 1];

	memmove(at + 1, at, (frame->count - frame->at - 1) * sizeof(*at));
	at->hash = le32_make(hash);
	at->block = le32_make(lblk);
	frame_set_count(frame, frame->count + 1);
}

static lblk_t frame_lblk(const struct dx_path *path, uint32_t level)
{
	const struct dx_frame *up;

	if (level == 0)
		return 0;
	up = &path->frame[level - 1];
	return dx_block_of(&up->entries[up->at]);
}

static int frame_dirty(struct handle *h, struct inode *dir, const struct dx_path *path, uint32_t level)
{
	return dx_block_dirty(h, dir, frame_lblk(path, level), path->frame[level].bh);
}

static int leaf_split(struct handle *h, struct inode *dir, struct dx_path *path, struct buffer_head *bh,
		      const struct leaf_map *m)
{
	struct dx_frame *parent = &path->frame[path->depth - 1];
	uint32_t keep = leaf_split_point(dir->fs, m), key;
	struct buffer_head *new_bh;
	lblk_t new_lblk;
	int err;

	if (m->count < 2) /* two entries of any length leave room for a third: the lengths in this block lie */
		return INODE_ERROR(dir, -EUCLEAN, bh->blk, "a full directory block with %u entries", m->count);
	err = journal_get_write_access(h, bh);
	if (!err)
		err = journal_get_write_access(h, parent->bh);
	if (!err)
		err = dir_block_append(h, dir, &new_lblk, &new_bh);
	if (err)
		return err;
	key = m->map[keep].hash | (m->map[keep].hash == m->map[keep - 1].hash); /* X2 */
	dir_leaf_pack(dir->fs, bh, m->copy, m->map, keep);
	dir_leaf_pack(dir->fs, new_bh, m->copy, m->map + keep, m->count - keep);
	frame_insert(parent, key, new_lblk);
	err = dir_leaf_dirty(h, dir, new_bh);
	buffer_put(new_bh);
	if (!err)
		err = dir_leaf_dirty(h, dir, bh);
	return err ? err : frame_dirty(h, dir, path, path->depth - 1);
}

static int leaf_compact(struct handle *h, struct inode *dir, struct buffer_head *bh, const struct leaf_map *m)
{
	int err = journal_get_write_access(h, bh);

	if (err)
		return err;
	dir_leaf_pack(dir->fs, bh, m->copy, m->map, m->count);
	return dir_leaf_dirty(h, dir, bh);
}

/* The head of a new index node, with @count entries from @from. */
static void node_init(const struct ext4_fs *fs, uint8_t *data, const struct dx_entry *from, uint32_t count)
{
	struct dx_entry *entries = (struct dx_entry *)(void *)(data + DX_NODE_ENTRIES);

	memset(data, 0, fs->block_bytes);
	dir_rec_len_set(dir_entry_at(data, 0), fs->block_bytes);
	memcpy(entries, from, count * sizeof(*entries));
	*dx_countlimit_of(entries) = (struct dx_countlimit){
		.limit = le16_make((uint16_t)dx_node_limit(fs)),
		.count = le16_make((uint16_t)count),
	};
}

/* The upper half of the full node at @level moves to a new one; the index block above has room for it. */
static int node_split(struct handle *h, struct inode *dir, struct dx_path *path, uint32_t level)
{
	struct dx_frame *frame = &path->frame[level], *up = &path->frame[level - 1];
	uint32_t keep = frame->count / 2, key = le32_get(frame->entries[keep].hash);
	struct buffer_head *new_bh;
	lblk_t new_lblk;
	int err;

	err = journal_get_write_access(h, frame->bh);
	if (!err)
		err = journal_get_write_access(h, up->bh);
	if (!err)
		err = dir_block_append(h, dir, &new_lblk, &new_bh);
	if (err)
		return err;
	node_init(dir->fs, new_bh->data, frame->entries + keep, frame->count - keep);
	err = dx_block_dirty(h, dir, new_lblk, new_bh);
	buffer_put(new_bh);
	frame_set_count(frame, keep);
	if (!err)
		err = frame_dirty(h, dir, path, level);
	frame_insert(up, key, new_lblk);
	return err ? err : frame_dirty(h, dir, path, level - 1);
}

/* One level more: all that the root holds moves to a new node, the root's only one. */
static int root_grow(struct handle *h, struct inode *dir, struct dx_path *path)
{
	struct dx_frame *root = &path->frame[0];
	struct buffer_head *new_bh;
	lblk_t new_lblk;
	int err;

	if (path->depth == dx_levels_max(dir->fs)) {
		log_print(&dir->fs->log, LOG_WARNING, "%s: inode %u: the directory index is full at %u levels", dir->fs->name,
			  dir->ino, path->depth);
		return -ENOSPC;
	}
	err = journal_get_write_access(h, root->bh);
	if (!err)
		err = dir_block_append(h, dir, &new_lblk, &new_bh);
	if (err)
		return err;
	node_init(dir->fs, new_bh->data, root->entries, root->count);
	err = dx_block_dirty(h, dir, new_lblk, new_bh);
	buffer_put(new_bh);
	root->entries[0].block = le32_make(new_lblk);
	frame_set_count(root, 1);
	dx_root_info_of(root->bh->data)->indirect_levels++;
	return err ? err : dx_block_dirty(h, dir, 0, root->bh);
}

/* One step so that the leaf's parent gets a free entry. */
static int index_make_room(struct handle *h, struct inode *dir, struct dx_path *path)
{
	uint32_t level = path->depth - 1;

	while (level > 0 && path->frame[level - 1].count == path->frame[level - 1].limit)
		level--;
	return level == 0 ? root_grow(h, dir, path) : node_split(h, dir, path, level);
}

/* The leaf @bh has no room of @need_bytes in one piece: one step. */
static int leaf_make_room(struct handle *h, struct inode *dir, struct dx_path *path, struct buffer_head *bh, lblk_t lblk,
			  uint32_t need_bytes)
{
	struct dx_frame *parent = &path->frame[path->depth - 1];
	struct leaf_map m;
	int err = leaf_map_init(dir, bh, lblk, path->hash_version, &m);

	if (err)
		return err;
	if (m.used_bytes + need_bytes <= dir_leaf_bytes(dir->fs))
		err = leaf_compact(h, dir, bh, &m);
	else if (parent->count < parent->limit)
		err = leaf_split(h, dir, path, bh, &m);
	else
		err = index_make_room(h, dir, path);
	leaf_map_exit(&m);
	return err;
}

/* The credits of dir_credits() follow from the size; a crafted tree can be higher than its size needs. */
static int ensure_credits(struct handle *h, const struct inode *dir)
{
	uint32_t need = 3 + map_credits(dir, 1);
	int err;

	if (h->credits >= (int32_t)need)
		return 0;
	err = journal_extend(h, need, 0);
	return err > 0 ? -ENOSPC : err;
}

/* 1: the position is found and accessible; 0: a step was made, look again. */
static int reserve_step(struct handle *h, struct inode *dir, struct dx_path *path, uint32_t hash, uint32_t need_bytes,
			struct dir_pos *pos)
{
	int err = dx_path_seek(dir, path, hash);

	if (err)
		return err;
	pos->lblk = dx_path_leaf(path);
	err = dir_block_read(dir, pos->lblk, DIR_BLOCK_LEAF, &pos->bh);
	if (err)
		return err;
	err = dir_block_find_room(dir, need_bytes, pos);
	if (!err) {
		err = journal_get_write_access(h, pos->bh);
		if (!err)
			return 1;
	} else if (err == -ENOSPC) {
		err = ensure_credits(h, dir);
		if (!err)
			err = leaf_make_room(h, dir, path, pos->bh, pos->lblk, need_bytes);
	}
	dir_pos_put(pos);
	return err;
}

int dir_index_reserve(struct handle *h, struct inode *dir, const struct name *name, struct dir_pos *pos_out)
{
	uint32_t hash, minor;
	int found = 0, err;

	for (int step = 0; step < STEPS_MAX && found == 0; step++) {
		struct dx_path path;

		err = dx_path_open(dir, &path); /* again each time: the root may have grown */
		if (err == -EOPNOTSUPP)
			return INODE_ERROR(dir, -EUCLEAN, 0, "the directory index has an unknown hash version or flag");
		if (err)
			return err;
		found = dir_hash(dir->fs, path.hash_version, name->str, name->len, &hash, &minor);
		if (!found)
			found = reserve_step(h, dir, &path, hash, dir_rec_bytes(name->len), pos_out);
		dx_path_close(&path);
	}
	if (found < 0)
		return found;
	return found ? 0 : INODE_ERROR(dir, -EUCLEAN, 0, "the directory index gets no room for a name by splitting");
}

bool dir_index_is_wanted(const struct inode *dir)
{
	return fs_has_compat(dir->fs, EXT4_FEATURE_COMPAT_DIR_INDEX) && dir->fs->def_hash_version <= DX_HASH_TEA;
}

/* Turns the first block into an index root over one leaf, block @leaf_lblk. */
static void root_init(const struct ext4_fs *fs, struct buffer_head *bh, ino_num self, ino_num parent, lblk_t leaf_lblk)
{
	static const struct name dot = { ".", 1 }, dotdot = { "..", 2 };
	uint8_t *data = bh->data;
	struct dx_entry *entries = (struct dx_entry *)(void *)(data + DX_ROOT_ENTRIES);

	memset(data, 0, fs->block_bytes);
	dir_rec_len_set(dir_entry_at(data, 0), DX_ROOT_DOTDOT);
	dir_block_insert(fs, bh, 0, &dot, self, EXT4_FT_DIR);
	dir_rec_len_set(dir_entry_at(data, DX_ROOT_DOTDOT), fs->block_bytes - DX_ROOT_DOTDOT);
	dir_block_insert(fs, bh, DX_ROOT_DOTDOT, &dotdot, parent, EXT4_FT_DIR);
	*dx_root_info_of(data) = (struct dx_root_info){
		.hash_version = fs->def_hash_version,
		.info_length = sizeof(struct dx_root_info),
	};
	entries[0].block = le32_make(leaf_lblk);
	*dx_countlimit_of(entries) = (struct dx_countlimit){
		.limit = le16_make((uint16_t)dx_root_limit(fs)),
		.count = le16_make(1),
	};
}

/* The inode that an entry of the first block names; -EUCLEAN if it is missing. */
static int first_block_ino(struct inode *dir, struct buffer_head *bh, const struct name *name, ino_num *ino_out)
{
	struct dir_pos pos = { .bh = bh };
	int err = dir_block_find(dir, name, &pos);

	if (err == -ENOENT)
		return INODE_ERROR(dir, -EUCLEAN, bh->blk, "the directory has no \"%.*s\"", name->len, name->str);
	if (!err)
		*ino_out = dir_pos_ino(&pos);
	return err;
}

static int index_create(struct handle *h, struct inode *dir, struct buffer_head *root)
{
	static const struct name dotdot = { "..", 2 };
	struct buffer_head *leaf;
	struct leaf_map m;
	lblk_t leaf_lblk;
	ino_num parent = 0;
	int err = first_block_ino(dir, root, &dotdot, &parent);

	if (!err)
		err = journal_get_write_access(h, root);
	if (err)
		return err;
	err = leaf_map_init(dir, root, 0, dir_hash_version(dir->fs, dir->fs->def_hash_version), &m);
	if (err)
		return err;
	err = dir_block_append(h, dir, &leaf_lblk, &leaf);
	if (err)
		goto free_map;
	dir_leaf_pack(dir->fs, leaf, m.copy, m.map, m.count);
	root_init(dir->fs, root, dir->ino, parent, leaf_lblk);
	dir->flags |= EXT4_INDEX_FL;
	err = dir_leaf_dirty(h, dir, leaf);
	buffer_put(leaf);
	if (!err)
		err = dx_block_dirty(h, dir, 0, root);
free_map:
	leaf_map_exit(&m);
	return err;
}

int dir_index_create(struct handle *h, struct inode *dir)
{
	struct buffer_head *root;
	int err = dir_block_read(dir, 0, DIR_BLOCK_LEAF, &root);

	if (err)
		return err;
	err = index_create(h, dir, root);
	buffer_put(root);
	return err;
}
