/* SPDX-License-Identifier: MIT */
/* dir_private.h - shared by the files of directories and of name operations */
#ifndef UEXT4_EXT4_DIR_PRIVATE_H
#define UEXT4_EXT4_DIR_PRIVATE_H

#include "ext4/dir.h"
#include "ext4/dir_format.h"

/* Where an entry is, or where one will go; holds the buffer. */
struct dir_pos {
	struct buffer_head *bh; /* owned; NULL: no position */
	lblk_t lblk;
	uint32_t off;           /* of the entry; of a room, the entry whose slack it is */
	uint32_t before;        /* of the entry in front of one that was found; 0: none, or the first */
};

static inline void dir_pos_put(struct dir_pos *pos)
{
	buffer_put(pos->bh);
	pos->bh = NULL;
}

static inline struct ext4_dir_entry *dir_entry_at(const uint8_t *data, uint32_t off)
{
	return (struct ext4_dir_entry *)(uintptr_t)(data + off);
}

static inline ino_num dir_pos_ino(const struct dir_pos *pos)
{
	return le32_get(dir_entry_at(pos->bh->data, pos->off)->inode);
}

static inline lblk_t dir_blocks(const struct inode *dir)
{
	return (lblk_t)(inode_size(dir) >> dir->fs->block_bits);
}

static inline bool name_is_dots(const struct name *name)
{
	return name->str[0] == '.' && (name->len == 1 || (name->len == 2 && name->str[1] == '.'));
}

/* Has the directory an index that counts? Without dir_index a left-over flag means nothing. */
static inline bool dir_is_indexed(const struct inode *dir)
{
	return (dir->flags & EXT4_INDEX_FL) && fs_has_compat(dir->fs, EXT4_FEATURE_COMPAT_DIR_INDEX);
}

/* Bytes of a leaf that hold entries. */
static inline uint32_t dir_leaf_bytes(const struct ext4_fs *fs)
{
	return fs->block_bytes - (fs->has_metadata_csum ? (uint32_t)sizeof(struct ext4_dir_entry_tail) : 0u);
}

/*
 * May the bytes at @off be taken as an entry? Checked in every walk, not only once per buffer: a crafted image can
 * use one block as two things. rec_len >= DIR_REC_MIN makes every walk end.
 */
static inline bool dir_entry_is_sound(const struct ext4_dir_entry *de, uint32_t rec_len, uint32_t rest_bytes)
{
	return rec_len >= dir_rec_bytes(de->name_len) && rec_len >= DIR_REC_MIN && !(rec_len & 3u) &&
	       (rec_len == rest_bytes || rec_len + DIR_REC_MIN <= rest_bytes);
}

/* ---- dir_block.c: one block ---- */

enum dir_block_kind {
	DIR_BLOCK_LEAF,
	DIR_BLOCK_INDEX,
	DIR_BLOCK_ANY,   /* in linear walks, which may meet both and holes */
};

/**
 * dir_block_read() - block @lblk of @dir, its contents verified once per buffer
 * Return: 0; a hole is *bh_out NULL for DIR_BLOCK_ANY and -EUCLEAN for others; -EBADMSG, -EIO, -ENOMEM
 */
int dir_block_read(struct inode *dir, lblk_t lblk, enum dir_block_kind kind, struct buffer_head **bh_out);
#define DIR_READAHEAD_BLKS 32u /* in linear walks */
/* No read is needed for the block. */
bool dir_block_is_cached(struct inode *dir, lblk_t lblk);
/* Starts reading @count blocks if @lblk, the first, is not cached; a hint, so errors are for the real read to find. */
void dir_block_readahead(struct inode *dir, lblk_t lblk, uint32_t count);
/* How many blocks from @lblk on are a hole, at least 1; negative errno. */
int64_t dir_hole_len(struct inode *dir, lblk_t lblk, lblk_t end);
/* A new block at the end; size grows. The caller fills it and calls dir_leaf_dirty() or dir_index_dirty(). -ENOSPC too. */
int dir_block_append(struct handle *h, struct inode *dir, lblk_t *lblk_out, struct buffer_head **bh_out);
void dir_size_set(struct inode *dir, uint64_t size_bytes);

/* Logs a broken entry. Returns -EUCLEAN. */
int dir_entry_report(struct inode *dir, const struct buffer_head *bh, lblk_t lblk, uint32_t off);
/* NULL or the rule that the leaf breaks. */
const char *dir_leaf_verify(const struct ext4_fs *fs, const uint8_t *data);
/* The checksum is computed and the block logged; write access was had. */
int dir_leaf_dirty(struct handle *h, struct inode *dir, struct buffer_head *bh);

/*
 * D1  A leaf's buffer_head.note is the offset of one of its entries, where room was last seen; 0 is always one. Whatever moves
 *     entries or joins them sets it anew. Under the directory's rwsem, exclusively.
 */

/* Looks for @name in block @pos->lblk, @pos->bh. 0 with off and before, -ENOENT, -EUCLEAN. */
int dir_block_find(struct inode *dir, const struct name *name, struct dir_pos *pos);
/* Room for an entry of @need_bytes in the same block. 0 with off, -ENOSPC, -EUCLEAN. */
int dir_block_find_room(struct inode *dir, uint32_t need_bytes, struct dir_pos *pos);
/* Writes an entry into the room at @off. */
void dir_block_insert(const struct ext4_fs *fs, struct buffer_head *bh, uint32_t off, const struct name *name, ino_num ino,
		      uint8_t type);
/* Frees the entry at @pos: it becomes slack of the one before, or unused if it is the first. -EUCLEAN. */
int dir_block_remove(struct inode *dir, const struct dir_pos *pos);
/* One unused entry over the whole leaf, and the tail. */
void dir_leaf_init(const struct ext4_fs *fs, struct buffer_head *bh);

/* An entry of a leaf that is being taken apart. */
struct dir_map_entry {
	uint32_t hash;
	uint32_t off;
	uint32_t rec_bytes; /* without slack */
};

/* The entries in use except "." and "..", hashed. @map has room for dir_map_max(). Count or negative errno. */
int dir_leaf_map(struct inode *dir, const struct buffer_head *bh, lblk_t lblk, uint8_t hash_version,
		 struct dir_map_entry *map);
uint32_t dir_map_max(const struct ext4_fs *fs);
/* Fills a leaf with the @count entries of @map, which lie in @from (another memory). */
void dir_leaf_pack(const struct ext4_fs *fs, struct buffer_head *bh, const uint8_t *from, const struct dir_map_entry *map,
		   uint32_t count);

/* ---- dir_hash.c ---- */

/* The version to hash with, given the one stored on disk: signed or unsigned by the superblock's flag. */
static inline uint8_t dir_hash_version(const struct ext4_fs *fs, uint8_t disk_version)
{
	return fs->hash_unsigned && disk_version <= DX_HASH_TEA ? (uint8_t)(disk_version + 3u) : disk_version;
}

/* ---- dir_linear.c ---- */

int dir_linear_find(struct inode *dir, const struct name *name, struct dir_pos *pos_out);
int dir_linear_reserve(struct handle *h, struct inode *dir, const struct name *name, struct dir_pos *pos_out);

/* ---- dir_index.c: reading the index ---- */

struct dx_frame {
	struct buffer_head *bh;
	struct dx_entry *entries;
	uint32_t limit, count;
	uint32_t at; /* entry followed */
};

/* From the root to the parent of one leaf. */
struct dx_path {
	struct dx_frame frame[DX_LEVELS_MAX];
	uint32_t depth;        /* frames in use */
	uint8_t hash_version;  /* to hash with; see dir_hash_version() */
};

static inline uint32_t dx_block_of(const struct dx_entry *e) { return le32_get(e->block) & DX_BLOCK_MASK; }
static inline struct dx_countlimit *dx_countlimit_of(struct dx_entry *entries)
{
	return (struct dx_countlimit *)(void *)entries;
}
static inline struct dx_root_info *dx_root_info_of(uint8_t *data)
{
	return (struct dx_root_info *)(void *)(data + DX_ROOT_INFO);
}

static inline lblk_t dx_path_leaf(const struct dx_path *path)
{
	const struct dx_frame *f = &path->frame[path->depth - 1];

	return dx_block_of(&f->entries[f->at]);
}

uint32_t dx_root_limit(const struct ext4_fs *fs);
uint32_t dx_node_limit(const struct ext4_fs *fs);
uint32_t dx_levels_max(const struct ext4_fs *fs);
/* Is the block part of the index (as opposed to a leaf)? By its form, for linear walks. */
bool dx_block_is_index(const struct inode *dir, lblk_t lblk, const uint8_t *data);
/* NULL or the rule broken; the checksum apart. */
const char *dx_block_verify(const struct ext4_fs *fs, lblk_t lblk, const uint8_t *data);
bool dx_csum_is_valid(const struct inode *dir, lblk_t lblk, const uint8_t *data);
int dx_block_dirty(struct handle *h, struct inode *dir, lblk_t lblk, struct buffer_head *bh);

/* Reads the root. -EOPNOTSUPP: a hash version or flag that we do not know. */
int dx_path_open(struct inode *dir, struct dx_path *path);
void dx_path_close(struct dx_path *path);
/* From the root down to the first leaf that can hold @hash. */
int dx_path_seek(struct inode *dir, struct dx_path *path, uint32_t hash);
/* To the next leaf; *hash_out: its lowest hash, bit 0: continues the one before. 1, 0 at the end, negative errno. */
int dx_path_next(struct inode *dir, struct dx_path *path, uint32_t *hash_out);
int dir_index_find(struct inode *dir, const struct name *name, struct dir_pos *pos_out);

/* ---- dir_index_insert.c: growing it ---- */

int dir_index_reserve(struct handle *h, struct inode *dir, const struct name *name, struct dir_pos *pos_out);
/* Makes an index over a directory of one block; the handle has the credits of dir_credits(). */
int dir_index_create(struct handle *h, struct inode *dir);
/* Can new indexes be made? The default hash of the superblock may be unknown to us. */
bool dir_index_is_wanted(const struct inode *dir);

/* ---- dir.c: what name operations use ---- */

/*
 * An operation first finds and reserves all its positions and gets write access to them, all of which can fail with
 * nothing changed; then it changes them, which only a dying journal can stop. dir_reserve() may move entries of the same
 * directory: find others after it.
 *
 * None of these writes the directory's inode: the caller does, in the same handle, also if a step failed, since the
 * directory may have grown.
 */
int dir_find(struct inode *dir, const struct name *name, struct dir_pos *pos_out);
/* As dir_find(), and the entry must be of @ino: else reports and returns -EUCLEAN. */
int dir_find_ino(struct inode *dir, const struct name *name, ino_num ino, struct dir_pos *pos_out);
/* Room for @name with write access had. Credits: dir_credits(). */
int dir_reserve(struct handle *h, struct inode *dir, const struct name *name, struct dir_pos *pos_out);
int dir_pos_access(struct handle *h, const struct dir_pos *pos);
int dir_pos_fill(struct handle *h, struct inode *dir, const struct dir_pos *pos, const struct name *name, ino_num ino,
		 uint16_t mode);
int dir_pos_set(struct handle *h, struct inode *dir, const struct dir_pos *pos, ino_num ino, uint16_t mode);
int dir_pos_remove(struct handle *h, struct inode *dir, const struct dir_pos *pos);

#endif
