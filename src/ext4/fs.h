/* SPDX-License-Identifier: MIT */
/* fs.h - one mounted file system: geometry, features, options, and what its parts share */
#ifndef UEXT4_EXT4_FS_H
#define UEXT4_EXT4_FS_H

#include "base/counters.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/types.h"
#include "base/workqueue.h"
#include "block/block.h"
#include "cache/buffer.h"
#include "cache/cache.h"
#include "jbd2/jbd2.h"

struct ext4_group;       /* group_private.h */
struct ext4_group_desc;  /* group_format.h */
struct ext4_super_block; /* super_format.h */
struct balloc;           /* allocator-wide state; balloc_private.h */
struct ialloc;           /* ialloc.c */
struct orphan_state;     /* orphan.c */
struct mmp;              /* mmp.c */
struct es_shrinker;      /* es_shrink.c */
struct fs_private;       /* fs_private.h: what super, mount, error, journal glue and system zone keep */
struct inode;

/* s_feature_compat */
#define EXT4_FEATURE_COMPAT_DIR_PREALLOC   0x0001u
#define EXT4_FEATURE_COMPAT_IMAGIC_INODES  0x0002u
#define EXT4_FEATURE_COMPAT_HAS_JOURNAL    0x0004u
#define EXT4_FEATURE_COMPAT_EXT_ATTR       0x0008u
#define EXT4_FEATURE_COMPAT_RESIZE_INODE   0x0010u
#define EXT4_FEATURE_COMPAT_DIR_INDEX      0x0020u
#define EXT4_FEATURE_COMPAT_SPARSE_SUPER2  0x0200u
#define EXT4_FEATURE_COMPAT_FAST_COMMIT    0x0400u
#define EXT4_FEATURE_COMPAT_STABLE_INODES  0x0800u
#define EXT4_FEATURE_COMPAT_ORPHAN_FILE    0x1000u
/* s_feature_incompat */
#define EXT4_FEATURE_INCOMPAT_COMPRESSION  0x00001u
#define EXT4_FEATURE_INCOMPAT_FILETYPE     0x00002u
#define EXT4_FEATURE_INCOMPAT_RECOVER      0x00004u
#define EXT4_FEATURE_INCOMPAT_JOURNAL_DEV  0x00008u
#define EXT4_FEATURE_INCOMPAT_META_BG      0x00010u
#define EXT4_FEATURE_INCOMPAT_EXTENTS      0x00040u
#define EXT4_FEATURE_INCOMPAT_64BIT        0x00080u
#define EXT4_FEATURE_INCOMPAT_MMP          0x00100u
#define EXT4_FEATURE_INCOMPAT_FLEX_BG      0x00200u
#define EXT4_FEATURE_INCOMPAT_EA_INODE     0x00400u
#define EXT4_FEATURE_INCOMPAT_DIRDATA      0x01000u
#define EXT4_FEATURE_INCOMPAT_CSUM_SEED    0x02000u
#define EXT4_FEATURE_INCOMPAT_LARGEDIR     0x04000u
#define EXT4_FEATURE_INCOMPAT_INLINE_DATA  0x08000u
#define EXT4_FEATURE_INCOMPAT_ENCRYPT      0x10000u
#define EXT4_FEATURE_INCOMPAT_CASEFOLD     0x20000u
/* s_feature_ro_compat */
#define EXT4_FEATURE_RO_COMPAT_SPARSE_SUPER  0x0001u
#define EXT4_FEATURE_RO_COMPAT_LARGE_FILE    0x0002u
#define EXT4_FEATURE_RO_COMPAT_HUGE_FILE     0x0008u
#define EXT4_FEATURE_RO_COMPAT_GDT_CSUM      0x0010u
#define EXT4_FEATURE_RO_COMPAT_DIR_NLINK     0x0020u
#define EXT4_FEATURE_RO_COMPAT_EXTRA_ISIZE   0x0040u
#define EXT4_FEATURE_RO_COMPAT_QUOTA         0x0100u
#define EXT4_FEATURE_RO_COMPAT_BIGALLOC      0x0200u
#define EXT4_FEATURE_RO_COMPAT_METADATA_CSUM 0x0400u
#define EXT4_FEATURE_RO_COMPAT_READONLY      0x1000u
#define EXT4_FEATURE_RO_COMPAT_PROJECT       0x2000u
#define EXT4_FEATURE_RO_COMPAT_VERITY        0x8000u
#define EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT 0x10000u

enum ext4_errors_mode { ERRORS_CONTINUE = 1, ERRORS_REMOUNT_RO = 2, ERRORS_PANIC = 3 };
enum ext4_data_mode { DATA_ORDERED, DATA_JOURNAL, DATA_WRITEBACK };

#define ABLATE_DAX_OVERWRITE   0x1u
#define ABLATE_FOLIO_DIRTY     0x2u
#define ABLATE_ES_ROOT         0x4u
#define ABLATE_ORDERED_EXTENTS 0x8u

/* Parsed mount options; defaults by options_init(). */
struct ext4_options {
	bool read_only;
	bool noload;                  /* do not replay the journal (needs ro) */
	bool replay_in_memory;        /* replay=memory: through an overlay; implied when the image cannot be written */
	uint64_t cache_bytes;         /* cache_size=; 0: a quarter of RAM, at most 1 GiB */
	enum ext4_errors_mode errors; /* 0: the superblock's */
	enum ext4_data_mode data;
	bool data_err_abort;
	uint32_t commit_interval_ms;  /* commit= (seconds in the option); 0: 5000 */
	uint32_t max_batch_us;
	bool barrier;                 /* default true */
	bool journal_async_commit;
	bool discard;                 /* discard freed blocks after commit */
	bool noatime, nodiratime, strictatime, relatime; /* relatime is the default */
	bool delalloc;                /* default true */
	bool acl, user_xattr;         /* default true */
	bool grpid;                   /* BSD group semantics */
	bool nobarrier_alias;
	uint32_t resuid, resgid;
	uint64_t sb_blk;              /* sb=N: use this superblock copy (1 KiB units), 0: primary */
	unsigned ablate;              /* ABLATE_* */
	int partition;                /* partition=N, 0: none */
	uint64_t offset_bytes;        /* offset=BYTES */
	char *journal_path;           /* external journal device: journal_path=; owned */
	unsigned given;               /* OPT_GIVEN_*: named by the user, so the superblock's default does not apply */
};
#define OPT_GIVEN_DATA     0x01u
#define OPT_GIVEN_BARRIER  0x02u
#define OPT_GIVEN_DISCARD  0x04u
#define OPT_GIVEN_DELALLOC 0x08u
#define OPT_GIVEN_GRPID    0x10u

struct ext4_fs {
	struct block_device *dev;      /* [const] owned */
	struct block_device *journal_dev; /* [const] owned external journal, or NULL */
	struct cache *cache;           /* [const] owned */
	struct buffer_cache *bc;       /* [const] owned */
	struct journal *journal;       /* [const after mount] owned; the null journal where there is none */
	struct counters *counters;     /* [const] owned */
	struct log_sink log;           /* [const] */
	struct ext4_options opt;       /* [const after mount] */
	struct workqueue *ioend_wq;    /* [const] extent conversions at I/O completion */
	char name[64];                 /* [const] for messages: the image's last path component */

	/* geometry [const] */
	uint32_t block_bytes;
	uint8_t block_bits;
	uint32_t inode_bytes;          /* s_inode_size */
	uint32_t desc_bytes;           /* 32 or s_desc_size */
	uint32_t descs_per_block;
	uint32_t blocks_per_group, inodes_per_group, inode_table_blocks;
	uint32_t cluster_bits;         /* log2 blocks per cluster; non-zero only with bigalloc: read-only */
	uint32_t first_data_block;
	uint32_t first_ino;
	group_t group_count;
	uint32_t flex_bits;            /* log2 groups per flex group, 0: none */
	fsblk_t blocks_count;
	ino_num inodes_count;
	uint32_t want_extra_isize;
	uint64_t max_file_bytes_extents, max_file_bytes_indirect;

	/* features [const after mount, except what a first use sets under super_lock] */
	_Atomic uint32_t compat, incompat, ro_compat;
	bool has_metadata_csum, has_gdt_csum; /* the second only without the first */
	uint32_t csum_seed;            /* metadata_csum */
	uint32_t hash_seed[4];
	uint8_t def_hash_version;      /* s_def_hash_version, for new indexes */
	bool hash_unsigned;            /* s_flags says unsigned char */

	struct buffer_head *super_bh;  /* [super_lock via handle] block that holds the primary superblock */
	uint32_t super_offset;         /* [const] of it within that block */
	struct mutex super_lock;       /* RANK_GROUP: superblock bytes */
	struct ext4_group *groups;     /* [const pointer] group_count of them */

	_Atomic bool read_only;        /* [atomic] now */
	_Atomic bool shutdown;         /* [atomic] no I/O any more */
	_Atomic bool has_errors;       /* [atomic] an error was found since mount */

	struct balloc *balloc;         /* owned by balloc.c */
	struct ialloc *ialloc;         /* owned by ialloc.c */
	struct orphan_state *orphans;  /* owned by orphan.c */
	struct mmp *mmp;               /* owned by mmp.c, NULL without */
	struct es_shrinker *es_shrinker; /* owned by es_shrink.c, see es_shrinker_init(); NULL: extent status is not bounded */
	struct fs_private *priv;       /* owned by mount.c */
	struct mutex orphan_lock;      /* RANK_ORPHAN: orphan list and slots */

	/* Inodes with times changed in memory only (lazytime), flushed by tick. [dirty_times_lock] */
	struct mutex dirty_times_lock; /* RANK_LEAF */
	struct list_head dirty_times;

	/* What vfs/ plugs in. grab: takes a reference unless the inode is being evicted; drop: gives it back (may evict). */
	const struct ext4_vfs_ops {
		bool (*inode_grab)(struct inode *inode);
		void (*inode_drop)(struct inode *inode);
	} *vfs_ops;
	void *vfs_private;             /* vfs's per-fs object */
};

static inline bool fs_has_compat(const struct ext4_fs *fs, uint32_t f)
{
	return (atomic_load_explicit(&fs->compat, memory_order_relaxed) & f) != 0;
}
static inline bool fs_has_incompat(const struct ext4_fs *fs, uint32_t f)
{
	return (atomic_load_explicit(&fs->incompat, memory_order_relaxed) & f) != 0;
}
static inline bool fs_has_ro_compat(const struct ext4_fs *fs, uint32_t f)
{
	return (atomic_load_explicit(&fs->ro_compat, memory_order_relaxed) & f) != 0;
}
static inline bool fs_is_read_only(const struct ext4_fs *fs) { return __atomic_load_n((const bool *)&fs->read_only, __ATOMIC_RELAXED); }

/**
 * fs_error() - report corruption or a failed write of metadata, once, where it is found
 * @err: -EUCLEAN, -EBADMSG, -EIO; returned as is, for `return fs_error(...)`
 *
 * Logs "NAME: FUNCTION: text", marks the superblock (ERROR_FS, s_error_count, first/last error) and follows errors=.
 * Context: any lock may be held; does not block on I/O (the superblock is written later by a worker).
 */
int fs_error(struct ext4_fs *fs, const char *func, int err, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
#define FS_ERROR(fs, err, ...) fs_error(fs, __func__, err, __VA_ARGS__)
/* The same, naming an inode and optionally a block (0: none). */
int fs_inode_error(const struct inode *inode, const char *func, int err, fsblk_t blk, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define INODE_ERROR(inode, err, blk, ...) fs_inode_error(inode, __func__, err, blk, __VA_ARGS__)

/* crc32c over fs->csum_seed and @data: the start of most metadata checksums. */
uint32_t fs_csum(const struct ext4_fs *fs, uint32_t seed, const void *data, size_t len);

/* True if [blk, blk + count) is inside the device and touches no superblock/descriptor/bitmap/inode table ("system zone"). */
bool fs_data_blocks_valid(const struct ext4_fs *fs, fsblk_t blk, uint64_t count);

/* journal_start(fs->journal) after checking read_only and shutdown: -EROFS, -EIO (the errors of journal_start() too). */
int fs_handle_start(struct ext4_fs *fs, uint32_t credits, uint32_t revokes, struct handle *h);

/*
 * The same for a caller who has the right to the blocks kept for root or not: what such a handle allocates without a reservation
 * is -ENOSPC to others while only these are free. What fs_handle_start() starts is the file system's own work and may have them.
 */
int fs_handle_start_for(struct ext4_fs *fs, bool root_blocks, uint32_t credits, uint32_t revokes, struct handle *h);

/* Current time as the file system stamps it (coarse clock is fine). */
struct timespec fs_now(const struct ext4_fs *fs);

#endif
