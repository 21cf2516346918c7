/* SPDX-License-Identifier: MIT */
/* inode.h - the inode in memory, and its way to and from the inode table */
#ifndef UEXT4_EXT4_INODE_H
#define UEXT4_EXT4_INODE_H

#include <sys/stat.h>
#include <time.h>

#include "base/rcu.h"
#include "cache/mapping.h"
#include "ext4/es.h"
#include "ext4/file_io.h"
#include "ext4/fs.h"

#define EXT4_ROOT_INO        2u
#define EXT4_JOURNAL_INO     8u
#define EXT4_LINK_MAX        65000u
#define EXT4_INODE_NAME_MAX  255u

/* i_flags */
#define EXT4_SECRM_FL        0x00000001u
#define EXT4_UNRM_FL         0x00000002u
#define EXT4_COMPR_FL        0x00000004u
#define EXT4_SYNC_FL         0x00000008u
#define EXT4_IMMUTABLE_FL    0x00000010u
#define EXT4_APPEND_FL       0x00000020u
#define EXT4_NODUMP_FL       0x00000040u
#define EXT4_NOATIME_FL      0x00000080u
#define EXT4_ENCRYPT_FL      0x00000800u
#define EXT4_INDEX_FL        0x00001000u
#define EXT4_JOURNAL_DATA_FL 0x00004000u
#define EXT4_NOTAIL_FL       0x00008000u
#define EXT4_DIRSYNC_FL      0x00010000u
#define EXT4_TOPDIR_FL       0x00020000u
#define EXT4_HUGE_FILE_FL    0x00040000u
#define EXT4_EXTENTS_FL      0x00080000u
#define EXT4_VERITY_FL       0x00100000u
#define EXT4_EA_INODE_FL     0x00200000u
#define EXT4_DAX_FL          0x02000000u
#define EXT4_INLINE_DATA_FL  0x10000000u
#define EXT4_PROJINHERIT_FL  0x20000000u
#define EXT4_CASEFOLD_FL     0x40000000u
#define EXT4_FL_USER_VISIBLE    0x705BDFFFu
#define EXT4_FL_USER_MODIFIABLE 0x604BC0FFu

/* inode.state bits [atomic] */
#define INODE_NEW          0x001u /* being created, not yet on disk */
#define INODE_FREEING      0x002u /* vfs: being evicted; grab fails */
#define INODE_DIRTY_TIME   0x004u /* times differ from the inode table (lazytime) */
#define INODE_XATTR_IN_BODY 0x008u /* the inode body has xattrs */
#define INODE_BAD          0x010u
#define INODE_ORPHAN       0x020u /* on the on-disk orphan list or in the orphan file */
#define INODE_DA_ALLOC_CLOSE 0x040u /* replace via truncate/rename: allocate at close/rename */
#define INODE_NO_ACL       0x080u /* known to have no ACL xattr */
#define INODE_NO_XATTR     0x100u
#define INODE_RAW_CLEARED  0x200u /* with INODE_NEW: the slot in the inode table was zeroed by this creation */
#define INODE_ORPHAN_COUNTED 0x800u /* among orphans_count() */
#define INODE_FAST_SYMLINK 0x400u /* the target is in i_block, as it was from the beginning */
#define INODE_LINKABLE     0x1000u /* made without a name, and may get a first one */

struct inode {
	struct ext4_fs *fs;              /* [const] */
	ino_num ino;                     /* [const once not INODE_NEW] */
	_Atomic uint32_t state;          /* [atomic] INODE_* */
	struct rwsem rwsem;              /* RANK_INODE: size, names, attributes */
	struct rwsem xattr_sem;          /* RANK_XATTR */
	struct rwsem map_sem;            /* RANK_MAP: i_block, extent tree, disksize */
	struct mutex raw_lock;           /* RANK_LEAF: packing into the inode table; blocks_512, times while packing */

	/* [rwsem writes; reads may race, each field is read whole] */
	_Atomic uint16_t mode;
	_Atomic uint32_t uid, gid, projid;
	_Atomic uint32_t nlink;
	_Atomic uint32_t flags;          /* on-disk EXT4_*_FL */
	uint32_t generation;             /* [const] */
	struct timespec atime, mtime, ctime, crtime; /* [raw_lock; relatime reads without it] inode_time_set() */
	dev_t rdev;                      /* [const] device nodes */
	uint64_t iversion;               /* [raw_lock] i_version, 64 bits */
	uint16_t extra_isize;            /* [xattr_sem] */
	_Atomic fsblk_t file_acl;        /* [xattr_sem writes; packing reads] xattr block, 0: none */

	struct mapping mapping;          /* data; mapping.size_bytes is i_size for every type of inode */
	uint64_t disksize_bytes;         /* [map_sem] size on disk: only what I/O completed */
	uint64_t blocks_512;             /* [raw_lock] i_blocks in 512-byte units (in memory always sectors) */
	le32 i_block[15];                /* [map_sem] extent root, indirect map, fast symlink or device */
	struct es_tree es;               /* extent status */
	_Atomic uint32_t reserved_blocks; /* [es_lock writes; reads may race] delayed blocks not yet allocated */
	_Atomic uint64_t map_seq;        /* [atomic] bumped whenever the mapping of some block changes other than hole->delayed */

	_Atomic tid_t sync_tid, datasync_tid; /* [atomic] last transactions that changed the inode / what fdatasync needs */
	_Atomic uint32_t last_alloc_group, last_alloc_goal; /* hints of balloc */
	void *prealloc;                  /* balloc's per-inode preallocation; [map_sem] */
	group_t block_group;             /* [const] where it lives */
	uint32_t dir_start_lookup;       /* [rwsem] hint for linear searches */
	uint32_t dir_insert_hint;        /* [rwsem exclusive] last leaf that took an entry */
	_Atomic int32_t ioends;          /* [atomic] conversions outstanding */
	struct file_io io;               /* data I/O in flight */

	struct list_head orphan_node;    /* [orphan_lock] */
	uint32_t orphan_slot;            /* [orphan_lock] */
	_Atomic uint32_t dtime;          /* [orphan_lock while listed] i_dtime: deletion time, or the next orphan's number */
	struct list_head times_node;     /* [fs.dirty_times_lock] */

	/* for vfs/ */
	_Atomic int64_t refs;            /* [atomic] */
	_Atomic uint64_t lookups;        /* [atomic] node API lookup count */
	_Atomic(struct inode *) hash_next;
	struct list_head lru;
	void *vfs_private;
	_Atomic uint32_t vfs_flags;      /* [atomic] vfs's own bits; 0 from inode_alloc() */
	_Atomic uint64_t append_floor;   /* [atomic] append_only.c; 0: not known, also from inode_alloc() */
	_Atomic uint32_t node_wb_err;    /* [atomic] errseq sample of fsync by inode number; 0 from inode_alloc() */
	struct rcu_head rcu;
};

static inline uint64_t inode_size(const struct inode *inode)
{
	return __atomic_load_n((const uint64_t *)&inode->mapping.size_bytes, __ATOMIC_ACQUIRE);
}
static inline void inode_size_set(struct inode *inode, uint64_t size_bytes)
{
	__atomic_store_n((uint64_t *)&inode->mapping.size_bytes, size_bytes, __ATOMIC_RELEASE);
}
static inline bool inode_test(const struct inode *inode, uint32_t bits)
{
	return (__atomic_load_n((const uint32_t *)&inode->state, __ATOMIC_ACQUIRE) & bits) != 0;
}
static inline uint32_t inode_set(struct inode *inode, uint32_t bits)
{
	return __atomic_fetch_or((uint32_t *)&inode->state, bits, __ATOMIC_ACQ_REL);
}
static inline uint32_t inode_clear(struct inode *inode, uint32_t bits)
{
	return __atomic_fetch_and((uint32_t *)&inode->state, ~bits, __ATOMIC_ACQ_REL);
}
static inline bool inode_has_extents(const struct inode *inode) { return (inode->flags & EXT4_EXTENTS_FL) != 0; }
/* Does the data of this file go through the log (file_logged.c)? Changes under rwsem, and then map_seq does too. */
bool inode_logs_data(const struct inode *inode);
static inline bool inode_is_dir(const struct inode *inode) { return S_ISDIR(inode->mode); }
static inline bool inode_is_fast_symlink(const struct inode *inode) { return inode_test(inode, INODE_FAST_SYMLINK); }

/* A blank inode (INODE_NEW, refs 1), all locks initialised, no number. NULL: no memory. */
struct inode *inode_alloc(struct ext4_fs *fs);
/* Frees the memory after an RCU grace period; the mapping is empty. */
void inode_free(struct inode *inode);

/**
 * inode_load() - read inode @ino from its table into a blank one
 * Verifies checksum, mode, extra_isize, extent root, size. @allow_unlinked: an inode with no links is no error (orphans).
 * Return: 0; -ESTALE (free or no links), -EUCLEAN (also @ino out of range), -EBADMSG, -EIO, -ENOMEM
 */
int inode_load(struct ext4_fs *fs, ino_num ino, bool allow_unlinked, struct inode *inode);
/*
 * Packs the inode into its table block through the handle (1 credit); notes the tids. The inode is then on disk after
 * the commit. Caller: holds map_sem exclusive or not at all (it is taken shared for a consistent root and size), no
 * lock of a rank above RANK_MAP, and not the buffer lock of the table block.
 */
int inode_write(struct handle *h, struct inode *inode);
/* inode_write() that counts for fdatasync too (size, blocks, mapping changed). */
int inode_write_datasync(struct handle *h, struct inode *inode);

/**
 * inode_raw_access() - the inode's table block with write access had, to change its in-body xattrs
 * The slot of a new inode is zeroed the first time, and never again by inode_write(), so both may come first. Change
 * the bytes past 128 + extra_isize under the buffer lock, and call inode_write() in the same handle, which sets the
 * checksum and dirties the buffer.
 * Return: 0 with a reference in *bh_out and the inode's offset in the block; -EIO, -ENOMEM, -EROFS, -EUCLEAN
 */
int inode_raw_access(struct handle *h, struct inode *inode, struct buffer_head **bh_out, uint32_t *off_out);
/* crc32c over the file system's seed, the inode's number and generation: the seed of everything that belongs to it. */
uint32_t inode_csum_seed(const struct inode *inode);

/* The table block of @ino, read (or built when all its neighbours are free), and the offset in it. */
int inode_table_block(struct ext4_fs *fs, ino_num ino, struct buffer_head **bh_out, uint32_t *off_out);

/* Stamps. lazy: kept in memory and put on fs.dirty_times; reaches disk with the next inode_write(), fsync, tick or evict. */
#define TIME_ATIME 1u
#define TIME_MTIME 2u
#define TIME_CTIME 4u
void inode_stamp(struct inode *inode, unsigned which);                /* before an inode_write() of the same handle */
void inode_stamp_lazy(struct inode *inode, unsigned which);           /* data writes, atime */
int  inode_flush_times(struct inode *inode);                          /* starts its own handle */
int  fs_flush_dirty_times(struct ext4_fs *fs);
/* relatime and friends: should a read now update atime? */
bool inode_needs_atime(const struct inode *inode);

/* Adds to i_blocks (file-system blocks, may be negative). */
void inode_add_blocks(struct inode *inode, int64_t blks);

/**
 * inode_evict() - the last reference is gone
 * nlink > 0: dirty data written (unless the device is dead), lazy times flushed, folios dropped, preallocation given back.
 * nlink == 0: data dropped, truncated to nothing, xattrs freed, inode freed, off the orphan list; in as many handles as needed.
 * The object stays for inode_free(). Errors are logged; returned for the caller's information.
 */
int inode_evict(struct inode *inode);

/* For attributes: clamps a time to what the inode's size can store (34 bits with extra fields, else 32 signed). */
struct timespec inode_clamp_time(const struct inode *inode, struct timespec t);

/* Link counts with dir_nlink (1 once 65,000 is passed on a directory). -EMLINK. */
int inode_inc_nlink_check(const struct inode *inode);  /* would inode_inc_nlink() be allowed? 0 or -EMLINK */
void inode_inc_nlink(struct inode *inode);
void inode_drop_nlink(struct inode *inode);

#endif
