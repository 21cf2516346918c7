/* SPDX-License-Identifier: MIT */
/* dir_iterate.c - reading directories in an order that survives changes */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "ext4/dir_private.h"
#include "ext4/map.h"

/*
 * A cookie says where to go on, and must do so whatever happened to the directory meanwhile.
 *
 * Linear directories: the byte offset behind the entry. Entries never move there; what can change is where
 * others start and end. So the block is walked from its start, and entries before the cookie are passed over.
 *
 * Indexed directories: entries move when leaves are split, but their hashes stay. The order is that of
 * (hash >> 1) << 32 | minor hash, and the cookie the position behind the entry's. A directory of one block that can
 * get an index at any time is read in hash order too. "." is at 0, ".." at 1, names from 2 on. The legacy hash has no
 * minor part, so a checksum of the name stands in for it. Two names that agree even so share a position; a caller that
 * stops between them gets the first one again rather than losing the second.
 *
 * Names of one hash can fill several leaves (X2), so the names of the last hash of a leaf wait for the next leaf
 * when that one continues it.
 */

#define POS_DOT       0u
#define POS_DOTDOT    1u
#define POS_FIRST     2u
#define HELD_LEAVES_MAX 256u /* leaves that may wait at once, so that colliding names cannot take all memory */
#define READAHEAD_LEAVES 16u

struct emitter {
	struct inode *dir;
	int (*emit)(void *arg, const struct dir_entry_info *e);
	void *arg;
	bool stopped;
};

static uint8_t dirent_type(const struct ext4_fs *fs, uint8_t file_type)
{
	static const uint8_t types[] = { DT_UNKNOWN, DT_REG, DT_DIR, DT_CHR, DT_BLK, DT_FIFO, DT_SOCK, DT_LNK };

	if (!fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_FILETYPE) || file_type >= ARRAY_SIZE(types))
		return DT_UNKNOWN;
	return types[file_type];
}

/* A name with '/' or NUL would be another path in the hands of a caller. */
static bool name_is_sane(const struct ext4_dir_entry *de)
{
	return de->name_len && !memchr(de->name, '/', de->name_len) && !memchr(de->name, 0, de->name_len);
}

static int emit_entry(struct emitter *out, const struct buffer_head *bh, const struct ext4_dir_entry *de,
		      uint64_t next_cookie)
{
	const struct dir_entry_info info = {
		.ino = le32_get(de->inode),
		.type = dirent_type(out->dir->fs, de->file_type),
		.name_len = de->name_len,
		.name = de->name,
		.next_cookie = next_cookie,
	};

	if (unlikely(!name_is_sane(de)))
		return INODE_ERROR(out->dir, -EUCLEAN, bh->blk, "an entry of inode %u has a bad name", info.ino);
	if (unlikely(info.ino > out->dir->fs->inodes_count))
		return INODE_ERROR(out->dir, -EUCLEAN, bh->blk, "entry \"%.*s\" names inode %u", info.name_len, info.name,
				   info.ino);
	out->stopped = out->emit(out->arg, &info) != 0;
	return 0;
}

/* ---- in byte order ---- */

static int linear_block(struct emitter *out, const struct buffer_head *bh, lblk_t lblk, uint32_t from_off)
{
	const struct ext4_fs *fs = out->dir->fs;
	uint64_t base = (uint64_t)lblk << fs->block_bits;
	uint32_t rec_len;
	int err;

	for (uint32_t off = 0; off < fs->block_bytes && !out->stopped; off += rec_len) {
		const struct ext4_dir_entry *de = dir_entry_at(bh->data, off);

		rec_len = dir_rec_len_get(de, fs->block_bytes);
		if (!dir_entry_is_sound(de, rec_len, fs->block_bytes - off))
			return dir_entry_report(out->dir, bh, lblk, off);
		if (off < from_off || !de->inode.raw)
			continue;
		err = emit_entry(out, bh, de, base + off + rec_len);
		if (err)
			return err;
	}
	return 0;
}

static int iterate_linear(struct emitter *out, uint64_t cookie)
{
	struct inode *dir = out->dir;
	lblk_t blocks = dir_blocks(dir), lblk;
	uint32_t from_off = (uint32_t)(cookie & (dir->fs->block_bytes - 1));
	lblk_t read_ahead = 0;

	if (cookie >= inode_size(dir))
		return 0;
	for (lblk = (lblk_t)(cookie >> dir->fs->block_bits); lblk < blocks && !out->stopped; from_off = 0) {
		struct buffer_head *bh;
		int64_t hole;
		int err;

		if (lblk >= read_ahead) {
			read_ahead = lblk + min_of(blocks - lblk, DIR_READAHEAD_BLKS);
			dir_block_readahead(dir, lblk, read_ahead - lblk);
		}
		err = dir_block_read(dir, lblk, DIR_BLOCK_ANY, &bh);
		if (err)
			return err;
		if (!bh) {
			(void)INODE_ERROR(dir, -EUCLEAN, 0, "directory block %u is a hole", lblk);
			hole = dir_hole_len(dir, lblk, blocks);
			if (hole < 0)
				return (int)hole;
			lblk += (lblk_t)hole;
			continue;
		}
		err = linear_block(out, bh, lblk, from_off);
		buffer_put(bh);
		if (err)
			return err;
		lblk++;
	}
	return 0;
}

/* ---- in hash order ---- */

struct batch_entry {
	uint64_t pos;
	const struct buffer_head *bh; /* one of the batch's leaves */
	uint32_t off;
};

/* Entries read and not emitted yet, and the leaves they lie in. */
struct batch {
	struct batch_entry *entries; /* owned */
	size_t count, room;
	struct buffer_head **leaves; /* owned, with references */
	size_t leaf_count, leaf_room;
	uint64_t from;               /* positions before are done */
};

static uint64_t entry_pos(uint8_t hash_version, uint32_t hash, uint32_t minor, const struct ext4_dir_entry *de)
{
	uint64_t pos;

	if (hash_version == DX_HASH_LEGACY || hash_version == DX_HASH_LEGACY_UNSIGNED)
		minor = crc32c(~0u, de->name, de->name_len);
	pos = (uint64_t)(hash >> 1) << 32 | minor;
	return max_of(pos, (uint64_t)POS_FIRST);
}

static int pos_compare(const void *a, const void *b)
{
	const struct batch_entry *x = a, *y = b;

	return x->pos < y->pos ? -1 : x->pos > y->pos;
}

static void batch_put_leaves(struct batch *b)
{
	for (size_t i = 0; i < b->leaf_count; i++)
		buffer_put(b->leaves[i]);
	b->leaf_count = 0;
}

static void batch_exit(struct batch *b)
{
	batch_put_leaves(b);
	free(b->leaves);
	free(b->entries);
}

/* Room for one leaf more. */
static int batch_grow(const struct ext4_fs *fs, struct batch *b)
{
	size_t need = b->count + dir_map_max(fs);
	void *grown;

	if (need > b->room) {
		grown = realloc(b->entries, (need + b->count) * sizeof(*b->entries));
		if (!grown)
			return -ENOMEM;
		b->entries = grown;
		b->room = need + b->count;
	}
	if (b->leaf_count == b->leaf_room) {
		grown = realloc(b->leaves, (b->leaf_room * 2 + 4) * sizeof(*b->leaves));
		if (!grown)
			return -ENOMEM;
		b->leaves = grown;
		b->leaf_room = b->leaf_room * 2 + 4;
	}
	return 0;
}

static int batch_add_entries(struct inode *dir, struct batch *b, const struct buffer_head *bh, lblk_t lblk,
			     uint8_t hash_version)
{
	const uint32_t block_bytes = dir->fs->block_bytes, end = dir_leaf_bytes(dir->fs);
	uint32_t rec_len, hash, minor;

	for (uint32_t off = 0; off < end; off += rec_len) {
		const struct ext4_dir_entry *de = dir_entry_at(bh->data, off);
		const struct name name = { de->name, de->name_len };
		struct batch_entry *e = &b->entries[b->count];

		rec_len = dir_rec_len_get(de, block_bytes);
		if (!dir_entry_is_sound(de, rec_len, end - off))
			return dir_entry_report(dir, bh, lblk, off);
		if (!de->inode.raw || (lblk == 0 && name.len && name_is_dots(&name)))
			continue;
		if (dir_hash(dir->fs, hash_version, name.str, name.len, &hash, &minor))
			return -EUCLEAN;
		e->pos = entry_pos(hash_version, hash, minor, de);
		if (e->pos < b->from)
			continue;
		e->bh = bh;
		e->off = off;
		b->count++;
	}
	return 0;
}

static int batch_add_leaf(struct inode *dir, struct batch *b, lblk_t lblk, uint8_t hash_version)
{
	struct buffer_head *bh;
	int err = batch_grow(dir->fs, b);

	if (!err)
		err = dir_block_read(dir, lblk, DIR_BLOCK_LEAF, &bh);
	if (err)
		return err;
	b->leaves[b->leaf_count++] = bh;
	return batch_add_entries(dir, b, bh, lblk, hash_version);
}

/* Emits what lies before position @limit, in order; the rest stays. */
static int batch_emit(struct emitter *out, struct batch *b, uint64_t limit)
{
	size_t done = 0;
	int err;

	qsort(b->entries, b->count, sizeof(*b->entries), pos_compare);
	for (; done < b->count && b->entries[done].pos < limit && !out->stopped; done++) {
		const struct batch_entry *e = &b->entries[done];
		bool shared = done + 1 < b->count && b->entries[done + 1].pos == e->pos;

		err = emit_entry(out, e->bh, dir_entry_at(e->bh->data, e->off), e->pos + !shared);
		if (err)
			return err;
		b->from = e->pos + !shared;
	}
	b->count -= done;
	memmove(b->entries, b->entries + done, b->count * sizeof(*b->entries));
	if (!b->count)
		batch_put_leaves(b);
	return 0;
}

/* Starts reading the next leaves, if the one the path has come to is not in memory. */
static void readahead_leaves(struct inode *dir, const struct dx_path *path)
{
	const struct dx_frame *f = &path->frame[path->depth - 1];
	uint32_t end = min_of(f->count, f->at + READAHEAD_LEAVES);
	struct map_result map;

	if (dir_block_is_cached(dir, dx_path_leaf(path)))
		return;
	for (uint32_t i = f->at; i < end; i++)
		if (!map_lookup(dir, dx_block_of(&f->entries[i]), 1, &map) && map.status == ES_WRITTEN)
			buffer_readahead(dir->fs->bc, map.blk, 1);
}

static int walk_leaves(struct emitter *out, struct dx_path *path, struct batch *b)
{
	struct inode *dir = out->dir;
	int err = dx_path_seek(dir, path, (uint32_t)(b->from >> 32) << 1);

	for (lblk_t visited = 0; !err && !out->stopped; visited++) {
		uint64_t limit = UINT64_MAX;
		uint32_t next_hash = 0;
		int more;

		if (visited >= dir_blocks(dir)) /* X3: a sound index leads to each block once */
			return INODE_ERROR(dir, -EUCLEAN, 0, "the directory index leads to more leaves than there are blocks");
		readahead_leaves(dir, path);
		err = batch_add_leaf(dir, b, dx_path_leaf(path), path->hash_version);
		if (err)
			break;
		more = dx_path_next(dir, path, &next_hash);
		if (more < 0)
			return more;
		if (more && (next_hash & 1u) && b->leaf_count < HELD_LEAVES_MAX)
			limit = (uint64_t)(next_hash >> 1) << 32;
		err = batch_emit(out, b, limit);
		if (!more)
			break;
	}
	return err;
}

static int emit_names_by_hash(struct emitter *out, uint64_t cookie)
{
	struct inode *dir = out->dir;
	struct batch b = { .from = max_of(cookie, (uint64_t)POS_FIRST) };
	struct dx_path path;
	int err;

	if (dir_is_indexed(dir)) {
		err = dx_path_open(dir, &path);
		if (err)
			return err;
		err = walk_leaves(out, &path, &b);
		dx_path_close(&path);
	} else {
		err = batch_add_leaf(dir, &b, 0, dir_hash_version(dir->fs, dir->fs->def_hash_version));
		if (!err)
			err = batch_emit(out, &b, UINT64_MAX);
	}
	batch_exit(&b);
	return err;
}

static int emit_dots(struct emitter *out, uint64_t cookie)
{
	static const struct name names[] = { { ".", 1 }, { "..", 2 } };

	for (uint64_t pos = cookie; pos < POS_FIRST && !out->stopped; pos++) {
		struct dir_pos found;
		int err = dir_find(out->dir, &names[pos], &found);

		if (err == -ENOENT)
			err = INODE_ERROR(out->dir, -EUCLEAN, 0, "the directory has no \"%s\"", names[pos].str);
		if (err)
			return err;
		err = emit_entry(out, found.bh, dir_entry_at(found.bh->data, found.off), pos + 1);
		dir_pos_put(&found);
		if (err)
			return err;
	}
	return 0;
}

/* Is the directory read in hash order? Not if its hash is unknown to us: what Linux does then is byte order. */
static int order_is_by_hash(struct inode *dir, bool *by_hash_out)
{
	struct dx_path path;
	int err;

	*by_hash_out = dir_blocks(dir) == 1 && dir_index_is_wanted(dir);
	if (!dir_is_indexed(dir))
		return 0;
	err = dx_path_open(dir, &path);
	if (!err)
		dx_path_close(&path);
	*by_hash_out = !err;
	return err == -EOPNOTSUPP ? 0 : err;
}

int dir_iterate(struct inode *dir, uint64_t cookie, int (*emit)(void *arg, const struct dir_entry_info *e), void *arg)
{
	struct emitter out = { .dir = dir, .emit = emit, .arg = arg };
	bool by_hash;
	int err;

	if (!dir->nlink) /* removed while open: as Linux, not even "." */
		return -ENOENT;
	err = order_is_by_hash(dir, &by_hash);
	if (err)
		return err;
	if (!by_hash)
		return iterate_linear(&out, cookie);
	err = emit_dots(&out, cookie);
	if (err || out.stopped)
		return err;
	return emit_names_by_hash(&out, cookie);
}
