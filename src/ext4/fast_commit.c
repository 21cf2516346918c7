/* SPDX-License-Identifier: MIT */
/*
 * fast_commit.c - taking the records of fast commits, and checking each of them
 *
 * A fast commit tells what changed since the last full commit: which inodes look how, which of their blocks lie where,
 * which names came and went. It does not tell of directory blocks, extent tree blocks, bitmaps and counters; those follow.
 *
 * Carrying it out goes in four steps, none of which begins before the one ahead has succeeded for all records:
 *
 *   take      fast_commit_take(): form, numbers and bounds of each record; before recovery writes anything
 *   model     fast_commit_model.c, fast_commit_ranges.c: in memory, what each inode, map and name comes to in the end
 *   check     fast_commit_blocks.c: who owns which blocks before and after; the new inodes are verified as if just read
 *   apply     fast_commit_apply.c, fast_commit_inode.c: the difference, in one transaction
 *
 * K1  Only the end state is written. What a record says and a later one takes back is never seen on disk.
 * K2  All of it is one transaction, that whose fast commits these are (J8): a crash leaves the fast commits, to be
 *     carried out again from the same beginning, or the transaction, which is their end.
 * K3  A block gets a new owner only if it was free, or an inode of these records had it and has it no more.
 * K4  Blocks that records name are claimed before any block is allocated: the allocator cannot give them away.
 *
 * Directories get the names of the records, but their blocks, sizes and indexes are our own, as are the blocks of extent
 * trees. i_blocks is what was there plus what is added. An inode whose last name went is freed, whether its record says so
 * or there is none: it was evicted, or the crash has closed it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ext4/balloc.h"
#include "ext4/fast_commit_private.h"
#include "ext4/super.h"

int fc_array_grow(void *at, size_t *room, size_t count, size_t item_bytes)
{
	size_t more = *room ? 2 * *room : 16;
	void *grown;

	if (count < *room)
		return 0;
	grown = realloc(*(void **)at, more * item_bytes);
	if (!grown)
		return -ENOMEM;
	*(void **)at = grown;
	*room = more;
	return 0;
}

/* ---- one record: NULL, or the rule that it breaks ---- */

static const char *ino_verify(const struct ext4_fs *fs, uint32_t ino)
{
	const struct ext4_super_block *es = fs_super(fs);

	if (ino == 0 || ino > fs->inodes_count)
		return "inode number out of range";
	if (ino < fs->first_ino && ino != EXT4_ROOT_INO)
		return "reserved inode";
	if (ino == le32_get(es->s_journal_inum) ||
	    (fs_has_compat(fs, EXT4_FEATURE_COMPAT_ORPHAN_FILE) && ino == le32_get(es->s_orphan_file_inum)))
		return "inode of the file system's own";
	return NULL;
}

static const char *add_range_verify(const struct ext4_fs *fs, const uint8_t *value, uint32_t len_bytes)
{
	struct fc_add_range r;
	uint32_t len;
	fsblk_t blk;

	if (len_bytes != sizeof(r))
		return "wrong length";
	memcpy(&r, value, sizeof(r));
	len = le16_get(r.fc_ex.ee_len);
	len = len > EXT4_EXT_WRITTEN_MAX ? len - EXT4_EXT_WRITTEN_MAX : len;
	blk = (fsblk_t)le16_get(r.fc_ex.ee_start_hi) << 32 | le32_get(r.fc_ex.ee_start_lo);
	if (len == 0)
		return "no blocks";
	if ((uint64_t)le32_get(r.fc_ex.ee_block) + len > LBLK_END)
		return "file block out of range";
	if (blk <= fs->first_data_block || blk >= fs->blocks_count || len > fs->blocks_count - blk)
		return "blocks outside the file system";
	return ino_verify(fs, le32_get(r.fc_ino));
}

static const char *del_range_verify(const struct ext4_fs *fs, const uint8_t *value, uint32_t len_bytes)
{
	struct fc_del_range r;

	if (len_bytes != sizeof(r))
		return "wrong length";
	memcpy(&r, value, sizeof(r));
	if (le32_get(r.fc_len) == 0)
		return "no blocks";
	if ((uint64_t)le32_get(r.fc_lblk) + le32_get(r.fc_len) > (uint64_t)LBLK_END + 1)
		return "file block out of range";
	return ino_verify(fs, le32_get(r.fc_ino));
}

static const char *dentry_verify(const struct ext4_fs *fs, const uint8_t *value, uint32_t len_bytes)
{
	struct fc_dentry d;
	const char *name = (const char *)value + sizeof(d), *rule;
	uint32_t name_len = len_bytes - (uint32_t)sizeof(d);

	if (len_bytes <= sizeof(d) || name_len > EXT4_INODE_NAME_MAX)
		return "wrong length";
	memcpy(&d, value, sizeof(d));
	if (memchr(name, '/', name_len) || memchr(name, '\0', name_len))
		return "impossible name";
	if (name[0] == '.' && (name_len == 1 || (name_len == 2 && name[1] == '.')))
		return "name of a directory's own";
	rule = ino_verify(fs, le32_get(d.fc_parent_ino));
	if (!rule)
		rule = ino_verify(fs, le32_get(d.fc_ino));
	return !rule && le32_get(d.fc_ino) == EXT4_ROOT_INO ? "name for the root" : rule;
}

static bool type_is_known(uint16_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISCHR(mode) || S_ISBLK(mode) || S_ISFIFO(mode) ||
	       S_ISSOCK(mode);
}

static const char *inode_record_verify(const struct ext4_fs *fs, const uint8_t *value, uint32_t len_bytes)
{
	struct fc_inode_record head;
	uint32_t raw_bytes = len_bytes - (uint32_t)sizeof(head), known_bytes;
	struct ext4_inode raw = { 0 };

	if (len_bytes < sizeof(head) + EXT4_INODE_BYTES_MIN || raw_bytes > fs->inode_bytes)
		return "wrong length";
	memcpy(&head, value, sizeof(head));
	known_bytes = min_of(raw_bytes, (uint32_t)sizeof(raw));
	memcpy(&raw, value + sizeof(head), known_bytes);
	if (!type_is_known(le16_get(raw.i_mode)))
		return "i_mode: no known type";
	if (fs->inode_bytes > EXT4_INODE_BYTES_MIN && known_bytes < EXT4_INODE_BYTES_MIN + sizeof(raw.i_extra_isize))
		return "wrong length";
	if (raw_bytes > EXT4_INODE_BYTES_MIN && EXT4_INODE_BYTES_MIN + le16_get(raw.i_extra_isize) > raw_bytes)
		return "i_extra_isize: beyond the record";
	return ino_verify(fs, le32_get(head.fc_ino));
}

static const char *record_verify(const struct ext4_fs *fs, uint32_t tag, const uint8_t *value, uint32_t len_bytes)
{
	switch (tag) {
	case FC_ADD_RANGE:
		return add_range_verify(fs, value, len_bytes);
	case FC_DEL_RANGE:
		return del_range_verify(fs, value, len_bytes);
	case FC_CREAT:
	case FC_LINK:
	case FC_UNLINK:
		return dentry_verify(fs, value, len_bytes);
	case FC_INODE:
		return inode_record_verify(fs, value, len_bytes);
	case FC_PAD:
	case FC_TAIL:
	case FC_HEAD:
		return NULL; /* the journal has looked at them */
	default:
		return "unknown type";
	}
}

/* ---- taking them ---- */

static int fast_commit_alloc(struct ext4_fs *fs, struct fast_commit **fc_out)
{
	struct fast_commit *fc = calloc(1, sizeof(*fc));

	if (!fc)
		return -ENOMEM;
	fc->fs = fs;
	fs->priv->fast_commit = fc;
	*fc_out = fc;
	return 0;
}

static int block_keep(struct fast_commit *fc, const uint8_t *block, uint32_t index)
{
	uint32_t block_bytes = fc->fs->block_bytes;
	uint8_t *grown = realloc(fc->bytes, (size_t)(index + 1) * block_bytes);

	if (!grown)
		return -ENOMEM;
	fc->bytes = grown;
	fc->blocks = index + 1;
	memcpy(fc->bytes + (size_t)index * block_bytes, block, block_bytes);
	return 0;
}

static int record_take(struct fast_commit *fc, uint32_t pos, uint32_t tag, uint32_t len_bytes)
{
	const char *rule = record_verify(fc->fs, tag, fc->bytes + pos, len_bytes);
	int err;

	if (rule) {
		log_print(&fc->fs->log, LOG_ERROR, "%s: fast commits: record of type %u at byte %u of the area: %s",
			  fc->fs->name, tag, pos - (uint32_t)sizeof(struct fc_tl), rule);
		return -EUCLEAN;
	}
	if (tag >= FC_PAD)
		return 0;
	err = fc_array_grow(&fc->records, &fc->record_room, fc->record_count, sizeof(fc->records[0]));
	if (!err)
		fc->records[fc->record_count++] = (struct fc_record){ (enum fc_tag)tag, pos, len_bytes };
	return err;
}

int fast_commit_take(void *arg, const uint8_t *block, uint32_t len_bytes, uint32_t index)
{
	struct ext4_fs *fs = arg;
	struct fast_commit *fc = fs->priv->fast_commit;
	uint32_t first = index * fs->block_bytes, pos = 0;
	int err = fc ? 0 : fast_commit_alloc(fs, &fc);

	if (!err)
		err = block_keep(fc, block, index);
	while (!err && len_bytes - pos >= sizeof(struct fc_tl)) {
		struct fc_tl tl;
		uint32_t value_bytes;

		memcpy(&tl, block + pos, sizeof(tl));
		value_bytes = le16_get(tl.fc_len);
		pos += sizeof(tl);
		UEXT4_ASSERT(value_bytes <= len_bytes - pos); /* the journal has gone this way */
		err = record_take(fc, first + pos, le16_get(tl.fc_tag), value_bytes);
		pos += value_bytes;
	}
	return err;
}

static void fc_inode_free(struct fc_inode *n)
{
	struct fc_name *name, *next;

	if (n->inode && n->inode->prealloc) {
		rwsem_write_lock(&n->inode->map_sem);
		balloc_discard_prealloc(n->inode); /* a directory that has grown */
		rwsem_write_unlock(&n->inode->map_sem);
	}
	if (n->inode && n->inode != n->base)
		inode_free(n->inode);
	if (n->base)
		inode_free(n->base);
	fc_ranges_exit(&n->old);
	fc_ranges_exit(&n->now);
	for (name = n->names; name; name = next) {
		next = name->next;
		free(name);
	}
	free(n);
}

void fast_commit_free(struct ext4_fs *fs)
{
	struct fast_commit *fc = fs->priv->fast_commit;

	if (!fc)
		return;
	for (size_t i = 0; i < fc->inode_count; i++)
		fc_inode_free(fc->inodes[i]);
	free(fc->inodes);
	free(fc->inode_hash);
	free(fc->name_hash);
	free(fc->owned.at);
	free(fc->claimed.at);
	free(fc->orphans);
	free(fc->records);
	free(fc->bytes);
	free(fc);
	fs->priv->fast_commit = NULL;
}
