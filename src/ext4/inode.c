/* SPDX-License-Identifier: MIT */
/* inode.c - inodes in memory: made, loaded, freed; link counts */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/object.h"
#include "ext4/file.h"
#include "ext4/fs_private.h"
#include "ext4/group.h"
#include "ext4/inode_private.h"
#include "ext4/super.h"

struct inode *inode_alloc(struct ext4_fs *fs)
{
	struct inode *inode = object_alloc(sizeof(*inode));

	if (!inode)
		return NULL;
	inode->fs = fs;
	atomic_init(&inode->state, INODE_NEW);
	atomic_init(&inode->refs, 1);
	rwsem_init(&inode->rwsem, RANK_INODE);
	rwsem_init(&inode->xattr_sem, RANK_XATTR);
	rwsem_init(&inode->map_sem, RANK_MAP);
	mutex_init(&inode->raw_lock, RANK_LEAF);
	mutex_init(&inode->io.lock, RANK_WORK);
	mutex_init(&inode->io.pass_lock, RANK_WRITEBACK);
	mapping_init(&inode->mapping, fs->cache, fs->dev, &file_mapping_ops, inode, fs->block_bits);
	es_init(&inode->es);
	list_init(&inode->orphan_node);
	list_init(&inode->times_node);
	list_init(&inode->lru);
	return inode;
}

static void inode_free_rcu(struct rcu_head *head)
{
	object_free(container_of(head, struct inode, rcu), sizeof(struct inode));
}

void inode_free(struct inode *inode)
{
	inode_times_forget(inode);
	es_exit(inode);
	mapping_exit(&inode->mapping);
	mutex_exit(&inode->io.pass_lock);
	mutex_exit(&inode->io.lock);
	mutex_exit(&inode->raw_lock);
	rwsem_exit(&inode->map_sem);
	rwsem_exit(&inode->xattr_sem);
	rwsem_exit(&inode->rwsem);
	rcu_defer(&inode->rcu, inode_free_rcu);
}

/* ---- loading ---- */

static bool inode_is_special(struct ext4_fs *fs, ino_num ino)
{
	const struct ext4_super_block *es = fs_super(fs);

	if (ino < fs->first_ino)
		return ino != EXT4_ROOT_INO;
	return ino == le32_get(es->s_journal_inum) ||
	       (fs_has_compat(fs, EXT4_FEATURE_COMPAT_ORPHAN_FILE) && ino == le32_get(es->s_orphan_file_inum));
}

/* What is known of its xattrs without looking for one of them. */
static void note_xattrs(struct inode *inode, const uint8_t *raw)
{
	uint32_t body = EXT4_INODE_BYTES_MIN + inode->extra_isize;
	le32 magic;

	if (body + sizeof(magic) <= inode->fs->inode_bytes && inode->fs->inode_bytes > EXT4_INODE_BYTES_MIN) {
		memcpy(&magic, raw + body, sizeof(magic));
		if (le32_get(magic) == EXT4_INODE_XATTR_MAGIC)
			inode_set(inode, INODE_XATTR_IN_BODY);
	}
	if (!inode->file_acl && !inode_test(inode, INODE_XATTR_IN_BODY))
		inode_set(inode, INODE_NO_XATTR | INODE_NO_ACL);
}

/* A free slot, or an inode that lost its last name. */
static bool raw_is_gone(const struct ext4_inode *raw, bool allow_unlinked)
{
	return le16_get(raw->i_mode) == 0 || (le16_get(raw->i_links_count) == 0 && !allow_unlinked);
}

static int inode_unpack(struct inode *inode, const struct ext4_inode *raw, fsblk_t blk, bool allow_unlinked)
{
	const char *broken = inode_raw_verify(inode->fs, raw);

	if (broken)
		return INODE_ERROR(inode, -EUCLEAN, blk, "%s", broken);
	if (raw_is_gone(raw, allow_unlinked))
		return -ESTALE;
	inode_raw_unpack(inode, raw);
	if (!inode_raw_csum_is_right(inode, raw))
		return INODE_ERROR(inode, -EBADMSG, blk, "checksum of the inode is wrong, expected 0x%08x",
				   inode_raw_csum(inode, raw));
	broken = inode_verify(inode);
	if (broken)
		return INODE_ERROR(inode, -EUCLEAN, blk, "%s", broken);
	note_xattrs(inode, (const uint8_t *)raw);
	return 0;
}

static int inode_read(struct ext4_fs *fs, ino_num ino, bool allow_unlinked, struct inode *inode)
{
	struct buffer_head *bh;
	uint32_t off;
	int err;

	err = inode_table_block(fs, ino, &bh, &off);
	if (err)
		return err;
	inode->ino = ino;
	inode->block_group = fs_group_of_ino(fs, ino);
	buffer_lock(bh);
	err = inode_unpack(inode, (const struct ext4_inode *)(const void *)(bh->data + off), bh->blk, allow_unlinked);
	buffer_unlock(bh);
	buffer_put(bh);
	if (!err)
		inode_clear(inode, INODE_NEW);
	return err;
}

/* It may have been in memory before: any transaction that is not durable yet may have changed it. */
static void assume_changed(struct inode *inode)
{
	tid_t tid = inode->fs->journal ? journal_newest_tid(inode->fs->journal) : 0;

	atomic_store_explicit(&inode->sync_tid, tid, memory_order_release);
	atomic_store_explicit(&inode->datasync_tid, tid, memory_order_release);
}

int inode_load(struct ext4_fs *fs, ino_num ino, bool allow_unlinked, struct inode *inode)
{
	int err;

	if (inode_is_special(fs, ino))
		return FS_ERROR(fs, -EUCLEAN, "inode #%u is reserved and belongs to no directory", ino);
	err = inode_read(fs, ino, allow_unlinked, inode);
	if (!err)
		assume_changed(inode);
	return err;
}

int inode_load_special(struct ext4_fs *fs, ino_num ino, struct inode *inode)
{
	return inode_read(fs, ino, false, inode);
}

/* ---- attributes ---- */

void inode_add_blocks(struct inode *inode, int64_t blks)
{
	int64_t sectors = blks * (int64_t)(inode->fs->block_bytes >> 9);
	bool below_zero;

	mutex_lock(&inode->raw_lock);
	below_zero = sectors < 0 && inode->blocks_512 < (uint64_t)-sectors;
	inode->blocks_512 = below_zero ? 0 : inode->blocks_512 + (uint64_t)sectors;
	mutex_unlock(&inode->raw_lock);
	if (below_zero)
		INODE_ERROR(inode, -EUCLEAN, 0, "i_blocks would become negative");
}

/* A directory too large for its link count shows 1, where the image allows that. */
static bool counts_subdirs_by_one(const struct inode *inode)
{
	return inode_is_dir(inode) && fs_has_compat(inode->fs, EXT4_FEATURE_COMPAT_DIR_INDEX) &&
	       (inode->flags & EXT4_INDEX_FL);
}

int inode_inc_nlink_check(const struct inode *inode)
{
	if (inode->nlink < EXT4_LINK_MAX)
		return 0;
	if (counts_subdirs_by_one(inode) && fs_has_ro_compat(inode->fs, EXT4_FEATURE_RO_COMPAT_DIR_NLINK))
		return 0;
	return -EMLINK;
}

void inode_inc_nlink(struct inode *inode)
{
	uint32_t nlink = inode->nlink + 1;

	/* 2 is 1 and one more: the count was given up already. */
	if (counts_subdirs_by_one(inode) && (nlink > EXT4_LINK_MAX || nlink == 2))
		nlink = 1;
	inode->nlink = nlink;
}

void inode_drop_nlink(struct inode *inode)
{
	/* A directory keeps at least "." and its own name; at 1 it has given up counting. */
	if (inode_is_dir(inode) && inode->nlink <= 2)
		return;
	if (inode->nlink == 0) {
		INODE_ERROR(inode, -EUCLEAN, 0, "link count would become negative");
		return;
	}
	inode->nlink--;
}
