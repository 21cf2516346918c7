/* SPDX-License-Identifier: MIT */
/* dir.c - directories as the rest of the file system sees them */
#include <errno.h>

#include "ext4/dir_private.h"
#include "ext4/map.h"

uint8_t dir_type_of_mode(uint16_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return EXT4_FT_REG_FILE;
	case S_IFDIR:
		return EXT4_FT_DIR;
	case S_IFCHR:
		return EXT4_FT_CHRDEV;
	case S_IFBLK:
		return EXT4_FT_BLKDEV;
	case S_IFIFO:
		return EXT4_FT_FIFO;
	case S_IFSOCK:
		return EXT4_FT_SOCK;
	case S_IFLNK:
		return EXT4_FT_SYMLINK;
	default:
		return EXT4_FT_UNKNOWN;
	}
}

/* "." and ".." are in the first block, in front of the index if there is one. */
static int find_dots(struct inode *dir, const struct name *name, struct dir_pos *pos)
{
	int err = dir_block_read(dir, 0, DIR_BLOCK_ANY, &pos->bh);

	if (err)
		return err;
	if (!pos->bh)
		return INODE_ERROR(dir, -EUCLEAN, 0, "the directory has no first block");
	pos->lblk = 0;
	err = dir_block_find(dir, name, pos);
	if (err)
		dir_pos_put(pos);
	return err;
}

int dir_find(struct inode *dir, const struct name *name, struct dir_pos *pos_out)
{
	pos_out->bh = NULL;
	if (!name->len)
		return -ENOENT;
	if (name_is_dots(name))
		return find_dots(dir, name, pos_out);
	if (dir_is_indexed(dir))
		return dir_index_find(dir, name, pos_out);
	return dir_linear_find(dir, name, pos_out);
}

int dir_find_ino(struct inode *dir, const struct name *name, ino_num ino, struct dir_pos *pos_out)
{
	int err = dir_find(dir, name, pos_out);

	if (err || dir_pos_ino(pos_out) == ino)
		return err;
	err = INODE_ERROR(dir, -EUCLEAN, pos_out->bh->blk, "entry \"%.*s\" is of inode %u, not %u", name->len, name->str,
			  dir_pos_ino(pos_out), ino);
	dir_pos_put(pos_out);
	return err;
}

int dir_lookup(struct inode *dir, const struct name *name, ino_num *ino_out, uint8_t *type_out)
{
	const struct ext4_fs *fs = dir->fs;
	struct dir_pos pos;
	int err = dir_find(dir, name, &pos);

	if (err)
		return err;
	*ino_out = dir_pos_ino(&pos);
	*type_out = fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_FILETYPE) ? dir_entry_at(pos.bh->data, pos.off)->file_type : 0;
	if (*ino_out > fs->inodes_count)
		err = INODE_ERROR(dir, -EUCLEAN, pos.bh->blk, "entry \"%.*s\" names inode %u of %u", name->len, name->str,
				  *ino_out, fs->inodes_count);
	dir_pos_put(&pos);
	return err;
}

/* The directory is about to be changed as a linear one: a left-over index would no longer fit. */
static void drop_stale_index_flag(struct inode *dir)
{
	if (!fs_has_compat(dir->fs, EXT4_FEATURE_COMPAT_DIR_INDEX))
		dir->flags &= ~EXT4_INDEX_FL;
}

int dir_reserve(struct handle *h, struct inode *dir, const struct name *name, struct dir_pos *pos_out)
{
	pos_out->bh = NULL;
	if (!dir_blocks(dir))
		return INODE_ERROR(dir, -EUCLEAN, 0, "the directory has no first block");
	if (dir_is_indexed(dir))
		return dir_index_reserve(h, dir, name, pos_out);
	drop_stale_index_flag(dir);
	return dir_linear_reserve(h, dir, name, pos_out);
}

int dir_pos_access(struct handle *h, const struct dir_pos *pos)
{
	return journal_get_write_access(h, pos->bh);
}

/* Only "." and ".." lie in an index block, the root. */
static int pos_dirty(struct handle *h, struct inode *dir, const struct dir_pos *pos)
{
	if (pos->lblk == 0 && dir_is_indexed(dir))
		return dx_block_dirty(h, dir, 0, pos->bh);
	return dir_leaf_dirty(h, dir, pos->bh);
}

int dir_pos_fill(struct handle *h, struct inode *dir, const struct dir_pos *pos, const struct name *name, ino_num ino,
		 uint16_t mode)
{
	dir_block_insert(dir->fs, pos->bh, pos->off, name, ino, dir_type_of_mode(mode));
	return dir_leaf_dirty(h, dir, pos->bh);
}

int dir_pos_set(struct handle *h, struct inode *dir, const struct dir_pos *pos, ino_num ino, uint16_t mode)
{
	struct ext4_dir_entry *de = dir_entry_at(pos->bh->data, pos->off);

	drop_stale_index_flag(dir);
	de->inode = le32_make(ino);
	if (fs_has_incompat(dir->fs, EXT4_FEATURE_INCOMPAT_FILETYPE))
		de->file_type = dir_type_of_mode(mode);
	return pos_dirty(h, dir, pos);
}

int dir_pos_remove(struct handle *h, struct inode *dir, const struct dir_pos *pos)
{
	int err;

	drop_stale_index_flag(dir);
	err = dir_block_remove(dir, pos);
	if (err)
		return err;
	dir->dir_insert_hint = min_of(dir->dir_insert_hint, pos->lblk);
	return dir_leaf_dirty(h, dir, pos->bh);
}

int dir_add(struct handle *h, struct inode *dir, const struct name *name, ino_num ino, uint16_t mode)
{
	struct dir_pos pos;
	int err = dir_reserve(h, dir, name, &pos);

	if (err)
		return err;
	err = dir_pos_fill(h, dir, &pos, name, ino, mode);
	dir_pos_put(&pos);
	return err;
}

int dir_remove(struct handle *h, struct inode *dir, const struct name *name, ino_num expect_ino)
{
	struct dir_pos pos;
	int err = dir_find_ino(dir, name, expect_ino, &pos);

	if (err)
		return err;
	err = dir_pos_access(h, &pos);
	if (!err)
		err = dir_pos_remove(h, dir, &pos);
	dir_pos_put(&pos);
	return err;
}

int dir_set(struct handle *h, struct inode *dir, const struct name *name, ino_num ino, uint16_t mode)
{
	struct dir_pos pos;
	int err = dir_find(dir, name, &pos);

	if (err)
		return err;
	err = dir_pos_access(h, &pos);
	if (!err)
		err = dir_pos_set(h, dir, &pos, ino, mode);
	dir_pos_put(&pos);
	return err;
}

/*
 * Blocks that making room may change: per new block itself and its allocation, and the path of index blocks with the leaf.
 * As many index levels are assumed full as the size can have.
 */
uint32_t dir_credits(const struct inode *dir)
{
	lblk_t blocks = dir_blocks(dir);
	uint32_t new_blocks, path;

	if (!dir_is_indexed(dir)) {
		new_blocks = blocks <= 1 && dir_index_is_wanted(dir) ? 2 : 1; /* the first leaf and its split */
		path = 1;
	} else if (blocks <= dx_root_limit(dir->fs)) {
		new_blocks = 1; /* the root cannot be full: each of its entries has a block */
		path = 2;
	} else {
		new_blocks = 1 + dx_levels_max(dir->fs);
		path = 1 + dx_levels_max(dir->fs);
	}
	return path + new_blocks * (1 + map_credits(dir, 1));
}

int dir_init(struct handle *h, struct inode *dir, ino_num parent)
{
	static const struct name dot = { ".", 1 }, dotdot = { "..", 2 };
	struct buffer_head *bh;
	lblk_t lblk;
	int err = dir_block_append(h, dir, &lblk, &bh);

	if (err)
		return err;
	dir_leaf_init(dir->fs, bh);
	dir_block_insert(dir->fs, bh, 0, &dot, dir->ino, EXT4_FT_DIR);
	dir_block_insert(dir->fs, bh, 0, &dotdot, parent, EXT4_FT_DIR);
	err = dir_leaf_dirty(h, dir, bh);
	buffer_put(bh);
	return err;
}

/* 1, 0 or negative errno. */
static int block_is_empty(struct inode *dir, const struct buffer_head *bh, lblk_t lblk)
{
	const uint32_t block_bytes = dir->fs->block_bytes;
	uint32_t rec_len;

	for (uint32_t off = 0; off < block_bytes; off += rec_len) {
		const struct ext4_dir_entry *de = dir_entry_at(bh->data, off);
		const struct name name = { de->name, de->name_len };

		rec_len = dir_rec_len_get(de, block_bytes);
		if (!dir_entry_is_sound(de, rec_len, block_bytes - off))
			return dir_entry_report(dir, bh, lblk, off);
		if (de->inode.raw && !(lblk == 0 && name.len && name_is_dots(&name)))
			return 0;
	}
	return 1;
}

int dir_is_empty(struct inode *dir)
{
	lblk_t blocks = dir_blocks(dir);

	for (lblk_t lblk = 0; lblk < blocks;) {
		struct buffer_head *bh;
		int64_t hole;
		int empty;

		if (lblk % DIR_READAHEAD_BLKS == 0)
			dir_block_readahead(dir, lblk, min_of(blocks - lblk, DIR_READAHEAD_BLKS));
		empty = dir_block_read(dir, lblk, DIR_BLOCK_ANY, &bh);
		if (empty)
			return empty;
		if (!bh) {
			hole = dir_hole_len(dir, lblk, blocks);
			if (hole < 0)
				return (int)hole;
			lblk += (lblk_t)hole;
			continue;
		}
		empty = block_is_empty(dir, bh, lblk);
		buffer_put(bh);
		if (empty <= 0)
			return empty;
		lblk++;
	}
	return 1;
}
