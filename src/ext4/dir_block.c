/* SPDX-License-Identifier: MIT */
/* dir_block.c - one directory block: reading and verifying, the entries in it, its checksum */
#include <errno.h>
#include <string.h>

#include "base/checksum.h"
#include "ext4/dir_private.h"
#include "ext4/map.h"

/* D1 */
static void note_set(struct buffer_head *bh, uint32_t off)
{
	atomic_store_explicit(&bh->note, off, memory_order_relaxed);
}

static struct ext4_dir_entry_tail *leaf_tail(const struct ext4_fs *fs, const uint8_t *data)
{
	return (struct ext4_dir_entry_tail *)(uintptr_t)(data + fs->block_bytes - sizeof(struct ext4_dir_entry_tail));
}

static uint32_t leaf_csum(const struct inode *dir, const uint8_t *data)
{
	return crc32c(inode_csum_seed(dir), data, dir_leaf_bytes(dir->fs));
}

static bool leaf_has_tail(const struct ext4_fs *fs, const uint8_t *data)
{
	const struct ext4_dir_entry_tail *tail = leaf_tail(fs, data);

	return !le32_get(tail->det_reserved_zero1) && le16_get(tail->det_rec_len) == sizeof(*tail) &&
	       !tail->det_reserved_zero2 && tail->det_reserved_ft == EXT4_FT_DIR_CSUM;
}

static const char *entry_verify(const struct ext4_fs *fs, const struct ext4_dir_entry *de, uint32_t rest_bytes)
{
	uint32_t rec_len = dir_rec_len_get(de, fs->block_bytes);

	if (rec_len < DIR_REC_MIN)
		return "rec_len is smaller than minimal";
	if (rec_len & 3u)
		return "rec_len is not a multiple of 4";
	if (rec_len < dir_rec_bytes(de->name_len))
		return "rec_len is too small for name_len";
	if (rec_len > rest_bytes)
		return "entry overruns the block";
	if (rec_len != rest_bytes && rec_len + DIR_REC_MIN > rest_bytes)
		return "entry ends too close to the block's end";
	if (le32_get(de->inode) > fs->inodes_count)
		return "inode number out of range";
	return NULL;
}

const char *dir_leaf_verify(const struct ext4_fs *fs, const uint8_t *data)
{
	uint32_t end = dir_leaf_bytes(fs);

	for (uint32_t off = 0; off < end;) {
		const struct ext4_dir_entry *de = dir_entry_at(data, off);
		const char *broken = entry_verify(fs, de, end - off);

		if (broken)
			return broken;
		off += dir_rec_len_get(de, fs->block_bytes);
	}
	return NULL;
}

int dir_entry_report(struct inode *dir, const struct buffer_head *bh, lblk_t lblk, uint32_t off)
{
	const struct ext4_dir_entry *de = dir_entry_at(bh->data, off);
	uint32_t block_bytes = dir->fs->block_bytes;
	const char *broken = entry_verify(dir->fs, de, block_bytes - off);

	return INODE_ERROR(dir, -EUCLEAN, bh->blk, "directory block %u, offset %u: %s: inode %u, rec_len %u, name_len %u",
			   lblk, off, broken ? broken : "entry overruns the block", le32_get(de->inode),
			   dir_rec_len_get(de, block_bytes), de->name_len);
}

static int block_verify(struct inode *dir, lblk_t lblk, enum dir_block_kind kind, struct buffer_head *bh)
{
	const struct ext4_fs *fs = dir->fs;
	bool is_index = kind == DIR_BLOCK_INDEX || (kind == DIR_BLOCK_ANY && dx_block_is_index(dir, lblk, bh->data));
	const char *broken;

	if (is_index) {
		broken = dx_block_verify(fs, lblk, bh->data);
		if (!broken && fs->has_metadata_csum && !dx_csum_is_valid(dir, lblk, bh->data))
			return INODE_ERROR(dir, -EBADMSG, bh->blk, "directory index block %u fails its checksum", lblk);
	} else {
		if (fs->has_metadata_csum && !leaf_has_tail(fs, bh->data))
			return INODE_ERROR(dir, -EBADMSG, bh->blk, "directory block %u has no checksum", lblk);
		if (fs->has_metadata_csum && le32_get(leaf_tail(fs, bh->data)->det_checksum) != leaf_csum(dir, bh->data))
			return INODE_ERROR(dir, -EBADMSG, bh->blk, "directory block %u fails its checksum", lblk);
		broken = dir_leaf_verify(fs, bh->data);
	}
	if (broken)
		return INODE_ERROR(dir, -EUCLEAN, bh->blk, "directory block %u: %s", lblk, broken);
	note_set(bh, 0); /* these contents have come from the device */
	buffer_set(bh, BH_VERIFIED);
	return 0;
}

int dir_block_read(struct inode *dir, lblk_t lblk, enum dir_block_kind kind, struct buffer_head **bh_out)
{
	struct buffer_head *bh;
	int err;

	*bh_out = NULL;
	err = inode_block_read(dir, lblk, &bh);
	if (err)
		return err;
	if (!bh)
		return kind == DIR_BLOCK_ANY ? 0 : INODE_ERROR(dir, -EUCLEAN, 0, "directory block %u is a hole", lblk);
	if (unlikely(!buffer_test(bh, BH_VERIFIED))) {
		err = block_verify(dir, lblk, kind, bh);
		if (err) {
			buffer_put(bh);
			return err;
		}
	}
	*bh_out = bh;
	return 0;
}

bool dir_block_is_cached(struct inode *dir, lblk_t lblk)
{
	struct map_result map;
	struct buffer_head *bh;
	bool cached;

	if (map_lookup(dir, lblk, 1, &map) || map.status != ES_WRITTEN)
		return true; /* nothing to read */
	bh = buffer_find(dir->fs->bc, map.blk);
	cached = bh && buffer_test(bh, BH_UPTODATE);
	buffer_put(bh);
	return cached;
}

void dir_block_readahead(struct inode *dir, lblk_t lblk, uint32_t count)
{
	if (count <= 1 || dir_block_is_cached(dir, lblk))
		return;
	while (count) {
		struct map_result map;

		if (map_lookup(dir, lblk, count, &map))
			return;
		map.len = min_of(map.len, count);
		if (map.status == ES_WRITTEN)
			buffer_readahead(dir->fs->bc, map.blk, map.len);
		lblk += map.len;
		count -= map.len;
	}
}

int64_t dir_hole_len(struct inode *dir, lblk_t lblk, lblk_t end)
{
	struct map_result map;
	int err = map_lookup(dir, lblk, end - lblk, &map);

	if (err)
		return err;
	return map.status == ES_HOLE && map.len ? map.len : 1;
}

void dir_size_set(struct inode *dir, uint64_t size_bytes)
{
	rwsem_write_lock(&dir->map_sem);
	inode_size_set(dir, size_bytes);
	dir->disksize_bytes = size_bytes;
	rwsem_write_unlock(&dir->map_sem);
}

/* Without largedir readers take i_size_high of a directory for something else, and old ones read i_size as signed. */
static uint64_t dir_size_max(const struct ext4_fs *fs)
{
	return fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_LARGEDIR) ? (uint64_t)DX_BLOCK_MASK << fs->block_bits : INT32_MAX;
}

int dir_block_append(struct handle *h, struct inode *dir, lblk_t *lblk_out, struct buffer_head **bh_out)
{
	uint64_t size = (uint64_t)dir_blocks(dir) << dir->fs->block_bits;
	lblk_t lblk = dir_blocks(dir);
	int err;

	if (size + dir->fs->block_bytes > dir_size_max(dir->fs))
		return -ENOSPC;
	err = inode_block_create(h, dir, lblk, bh_out);
	if (err)
		return err;
	note_set(*bh_out, 0);
	dir_size_set(dir, size + dir->fs->block_bytes);
	*lblk_out = lblk;
	return 0;
}

int dir_leaf_dirty(struct handle *h, struct inode *dir, struct buffer_head *bh)
{
	if (dir->fs->has_metadata_csum)
		leaf_tail(dir->fs, bh->data)->det_checksum = le32_make(leaf_csum(dir, bh->data));
	buffer_set(bh, BH_VERIFIED);
	return journal_dirty_metadata(h, bh);
}

/* ---- looking for a name ---- */

typedef uint32_t words __attribute__((vector_size(16)));

static words words_at(const uint8_t *data)
{
	words w;

	memcpy(&w, data, sizeof(w));
	return w;
}

static bool any_set(words w)
{
	uint64_t half[2];

	memcpy(half, &w, sizeof(half));
	return half[0] | half[1];
}

/*
 * False: the name is not there. Entries begin at multiples of 4, so a name's last four bytes (all of a shorter one) can
 * only be at every fourth offset, and these are looked at without walking from entry to entry.
 */
static bool block_may_hold(const uint8_t *data, uint32_t bytes, const struct name *name)
{
	uint32_t part = min_of(name->len, 4u), at = (uint32_t)sizeof(struct ext4_dir_entry) + name->len - part;
	uint32_t key = 0, mask = 0, word;
	words keys, masks;

	memcpy(&key, name->str + name->len - part, part);
	memset(&mask, 0xff, part);
	keys = (words){ key, key, key, key };
	masks = (words){ mask, mask, mask, mask };
	for (; at + 4 * sizeof(words) <= bytes; at += 4 * sizeof(words)) {
		const uint8_t *p = data + at;

		if (any_set((words)(((words_at(p) & masks) == keys) | ((words_at(p + 16) & masks) == keys) |
				    ((words_at(p + 32) & masks) == keys) | ((words_at(p + 48) & masks) == keys))))
			return true;
	}
	for (; at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, data + at, sizeof(word));
		if ((word & mask) == key)
			return true;
	}
	return false;
}

int dir_block_find(struct inode *dir, const struct name *name, struct dir_pos *pos)
{
	const uint32_t block_bytes = dir->fs->block_bytes, len = name->len;
	const uint8_t *data = pos->bh->data;
	const char last = name->str[len - 1];
	uint32_t off = 0, rec_len;

	if (!block_may_hold(data, block_bytes, name))
		return -ENOENT;
	for (pos->before = 0; off < block_bytes; pos->before = off, off += rec_len) {
		const struct ext4_dir_entry *de = dir_entry_at(data, off);

		rec_len = dir_rec_len_get(de, block_bytes);
		if (unlikely(!dir_entry_is_sound(de, rec_len, block_bytes - off)))
			return dir_entry_report(dir, pos->bh, pos->lblk, off);
		if (de->name_len == len && de->name[len - 1] == last && de->inode.raw && !memcmp(de->name, name->str, len)) {
			pos->off = off;
			return 0;
		}
	}
	return -ENOENT;
}

/* From the entry at @off on; -EUCLEAN is not reported yet, and *off_out is where. */
static int find_room_from(const struct ext4_fs *fs, const uint8_t *data, uint32_t off, uint32_t need_bytes, uint32_t *off_out)
{
	const uint32_t block_bytes = fs->block_bytes, end = dir_leaf_bytes(fs);
	uint32_t rec_len;

	for (; off < end; off += rec_len) {
		const struct ext4_dir_entry *de = dir_entry_at(data, off);
		uint32_t used = de->inode.raw ? dir_rec_bytes(de->name_len) : 0;

		rec_len = dir_rec_len_get(de, block_bytes);
		*off_out = off;
		if (unlikely(!dir_entry_is_sound(de, rec_len, end - off)))
			return -EUCLEAN;
		if (rec_len >= used + need_bytes)
			return 0;
	}
	return -ENOSPC;
}

int dir_block_find_room(struct inode *dir, uint32_t need_bytes, struct dir_pos *pos)
{
	struct buffer_head *bh = pos->bh;
	uint32_t note = atomic_load_explicit(&bh->note, memory_order_relaxed);
	int err = -ENOSPC;

	if (note && note < dir_leaf_bytes(dir->fs))
		err = find_room_from(dir->fs, bh->data, note, need_bytes, &pos->off);
	if (err)
		err = find_room_from(dir->fs, bh->data, 0, need_bytes, &pos->off);
	if (!err)
		note_set(bh, pos->off);
	return err == -EUCLEAN ? dir_entry_report(dir, bh, pos->lblk, pos->off) : err;
}

static void entry_write(const struct ext4_fs *fs, struct ext4_dir_entry *de, const struct name *name, ino_num ino,
			uint8_t type)
{
	uint32_t name_room = dir_rec_bytes(name->len) - (uint32_t)sizeof(*de);

	de->inode = le32_make(ino);
	de->name_len = name->len;
	de->file_type = fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_FILETYPE) ? type : 0;
	memcpy(de->name, name->str, name->len);
	memset(de->name + name->len, 0, name_room - name->len);
}

void dir_block_insert(const struct ext4_fs *fs, struct buffer_head *bh, uint32_t off, const struct name *name, ino_num ino,
		      uint8_t type)
{
	struct ext4_dir_entry *de = dir_entry_at(bh->data, off);

	if (de->inode.raw) {
		uint32_t used = dir_rec_bytes(de->name_len), rec_len = dir_rec_len_get(de, fs->block_bytes);

		dir_rec_len_set(de, used);
		off += used;
		de = dir_entry_at(bh->data, off);
		dir_rec_len_set(de, rec_len - used);
	}
	note_set(bh, off);
	entry_write(fs, de, name, ino, type);
}

/* The entry in front of @pos, which has one. What was inserted since it was found may have got between. */
static int entry_before(struct inode *dir, const struct dir_pos *pos, uint32_t *before_out)
{
	const uint32_t block_bytes = dir->fs->block_bytes;
	uint32_t rec_len;

	for (uint32_t at = pos->before; at < pos->off; at += rec_len) {
		const struct ext4_dir_entry *de = dir_entry_at(pos->bh->data, at);

		rec_len = dir_rec_len_get(de, block_bytes);
		if (!dir_entry_is_sound(de, rec_len, block_bytes - at) || rec_len > pos->off - at)
			return dir_entry_report(dir, pos->bh, pos->lblk, at);
		*before_out = at;
	}
	return 0;
}

int dir_block_remove(struct inode *dir, const struct dir_pos *pos)
{
	const uint32_t block_bytes = dir->fs->block_bytes;
	struct ext4_dir_entry *de = dir_entry_at(pos->bh->data, pos->off), *before = NULL;
	uint32_t rec_len, used = dir_rec_bytes(de->name_len), before_off = 0;
	int err = pos->off ? entry_before(dir, pos, &before_off) : 0;

	if (err)
		return err;
	if (pos->off)
		before = dir_entry_at(pos->bh->data, before_off);
	note_set(pos->bh, before_off);
	rec_len = dir_rec_len_get(de, block_bytes);
	/* The name is wiped, so that it does not outlive its file on disk. */
	memset(de->name, 0, used - sizeof(*de));
	if (before) {
		dir_rec_len_set(before, dir_rec_len_get(before, block_bytes) + rec_len);
		memset(de, 0, sizeof(*de));
	} else {
		memset(de, 0, sizeof(*de));
		dir_rec_len_set(de, rec_len);
	}
	return 0;
}

static void leaf_tail_init(const struct ext4_fs *fs, uint8_t *data)
{
	if (fs->has_metadata_csum)
		*leaf_tail(fs, data) = (struct ext4_dir_entry_tail){
			.det_rec_len = le16_make(sizeof(struct ext4_dir_entry_tail)),
			.det_reserved_ft = EXT4_FT_DIR_CSUM,
		};
}

void dir_leaf_init(const struct ext4_fs *fs, struct buffer_head *bh)
{
	memset(bh->data, 0, fs->block_bytes);
	dir_rec_len_set(dir_entry_at(bh->data, 0), dir_leaf_bytes(fs));
	leaf_tail_init(fs, bh->data);
	note_set(bh, 0);
}

uint32_t dir_map_max(const struct ext4_fs *fs)
{
	return dir_leaf_bytes(fs) / DIR_REC_MIN;
}

int dir_leaf_map(struct inode *dir, const struct buffer_head *bh, lblk_t lblk, uint8_t hash_version,
		 struct dir_map_entry *map)
{
	const uint32_t block_bytes = dir->fs->block_bytes, end = dir_leaf_bytes(dir->fs);
	uint32_t off = 0, rec_len, minor;
	int count = 0;

	for (; off < end; off += rec_len) {
		const struct ext4_dir_entry *de = dir_entry_at(bh->data, off);
		const struct name name = { de->name, de->name_len };

		rec_len = dir_rec_len_get(de, block_bytes);
		if (unlikely(!dir_entry_is_sound(de, rec_len, end - off)))
			return dir_entry_report(dir, bh, lblk, off);
		if (!de->inode.raw || !name.len || (lblk == 0 && name_is_dots(&name)))
			continue;
		map[count].off = off;
		map[count].rec_bytes = dir_rec_bytes(name.len);
		if (dir_hash(dir->fs, hash_version, name.str, name.len, &map[count].hash, &minor))
			return -EUCLEAN;
		count++;
	}
	return count;
}

void dir_leaf_pack(const struct ext4_fs *fs, struct buffer_head *bh, const uint8_t *from, const struct dir_map_entry *map,
		   uint32_t count)
{
	uint8_t *data = bh->data;
	uint32_t to = 0, last = 0;

	dir_leaf_init(fs, bh);
	for (uint32_t i = 0; i < count; i++) {
		memcpy(data + to, from + map[i].off, map[i].rec_bytes);
		dir_rec_len_set(dir_entry_at(data, to), map[i].rec_bytes);
		last = to;
		to += map[i].rec_bytes;
	}
	dir_rec_len_set(dir_entry_at(data, last), dir_leaf_bytes(fs) - last);
	note_set(bh, last);
}
