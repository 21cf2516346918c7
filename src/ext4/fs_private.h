/* SPDX-License-Identifier: MIT */
/* fs_private.h - the part of a mounted file system that only mounting, errors and the superblock know */
#ifndef UEXT4_EXT4_FS_PRIVATE_H
#define UEXT4_EXT4_FS_PRIVATE_H

#include "base/workqueue.h"
#include "ext4/fs.h"
#include "ext4/super_format.h"

/* One error as the superblock remembers it. */
struct error_record {
	uint64_t time_s;
	uint32_t ino;
	uint64_t blk;
	uint8_t errcode;   /* EXT4_ERRCODE_* */
	char func[32];
};

/* Errors are found under any lock, and queued to a work queue. */
#define RANK_ERROR ((enum lock_rank)(RANK_WORK - 1))

struct error_batch {
	struct error_record first, last;
	uint32_t count;    /* 0: the records mean nothing */
};

/* error.c: errors found but not yet in the superblock, and the thread that writes them there. */
struct error_state {
	struct mutex lock;           /* RANK_ERROR */
	struct error_batch pending;  /* [lock] */
	bool queued;                 /* [lock] work is on wq */
	struct work work;
	struct workqueue *wq;        /* [lock] one thread; NULL: nothing is stored */
};

struct system_zone;  /* system_zone.c */
struct journal_runs; /* journal_glue.c */
struct fast_commit;  /* fast_commit.c */

struct fs_private {
	struct ext4_fs *fs;                   /* [const] */
	struct error_state error;
	struct system_zone *zone;             /* [const after mount] */
	struct log_sink journal_log;          /* [const] the journal's messages, with the name of the file system in front */
	struct journal_runs *journal_runs;    /* [const after mount] where the journal inode's blocks are; NULL: none inside */
	struct fast_commit *fast_commit;      /* [mount] what recovery found, until it is carried out; NULL: nothing */
	uint64_t overhead_blocks;             /* [const] for statfs */
	uint64_t kbytes_written_at_mount;     /* [const] */
	uint16_t mount_state;                 /* [super_lock] s_state to store at a clean unmount */
	_Atomic bool writable;                /* [atomic] mounted read-write at first: the superblock must be closed */

	/* Calls of the cache's threads, let in between mount and unmount only: background.c */
	struct mutex gate_lock;               /* RANK_LEAF */
	struct cond gate_cond;
	bool gate_open;                       /* [gate_lock] */
	unsigned gate_inside;                 /* [gate_lock] */
	unsigned ticks;                       /* [flusher thread] seconds since times were flushed */
};

/* ---- superblock bytes: super.c ---- */

/**
 * super_read() - the superblock copy at @pos_bytes of @dev, not checked
 * Return: 0; -EINVAL (device too small to hold it), -EIO, -ENOMEM
 */
int super_read(struct block_device *dev, uint64_t pos_bytes, struct ext4_super_block *es_out);

/**
 * super_verify() - is @es a superblock that we can work with on a device of @dev_bytes?
 * @why_out: the rule broken, as text for the log
 * Return: 0; -EINVAL (bad magic), -EBADMSG, -EUCLEAN
 */
int super_verify(const struct ext4_super_block *es, uint64_t dev_bytes, char why_out[256]);

/* Geometry, features and seeds of a verified superblock into @fs. */
void super_decode(struct ext4_fs *fs, const struct ext4_super_block *es);
void super_csum_set(struct ext4_super_block *es);

/*
 * A change of the superblock inside a handle (1 credit). begin: write access, then fs.super_lock is held and *es_out
 * points to the bytes; end: checksum, unlock, dirty.
 */
int super_change_begin(struct handle *h, struct ext4_fs *fs, struct ext4_super_block **es_out);
int super_change_end(struct handle *h, struct ext4_fs *fs);

/* Free counts and write time of now into @es. Caller: fs.super_lock. True if the counts changed. */
bool super_refresh_counts(struct ext4_fs *fs, struct ext4_super_block *es);
/* Writes the buffer's superblock home at once, durable; only while no transaction holds it. */
int super_write_through(struct ext4_fs *fs);
void super_time_set(le32 *lo, uint8_t *hi, uint64_t time_s);
uint64_t super_blocks_count(const struct ext4_super_block *es);

/* ---- super_state.c: not while a transaction holds the superblock ---- */
/* Marks the image as in use; durable on return. */
int super_open(struct ext4_fs *fs);
/* Marks it as put away: the journal is empty on disk, or there is none and all is written. */
int super_close(struct ext4_fs *fs);

/* ---- background.c ---- */
void background_init(struct ext4_fs *fs);
void background_exit(struct ext4_fs *fs);
void background_open(struct ext4_fs *fs);
void background_close(struct ext4_fs *fs);
void background_pressure(void *fs); /* cache_options.meta_pressure */
void background_tick(void *fs);     /* cache_options.tick */

/* ---- unmount.c ---- */
/* Ends whatever part of the mount was reached, writes what must be written, frees @fs. First error. */
int fs_teardown(struct ext4_fs *fs);

/* ---- errors: error.c ---- */
void error_init(struct ext4_fs *fs);
/* Starts the thread; read-write mounts only, since nothing is ever stored on others. -ENOMEM, -EAGAIN. */
int  error_start(struct ext4_fs *fs);
void error_stop(struct ext4_fs *fs);       /* stores what is pending, ends the thread; the journal still runs */
void error_store_left(struct ext4_fs *fs); /* stores what came after that, past the journal */
void error_exit(struct ext4_fs *fs);
/* Pending error records into @es. Caller: fs.super_lock. */
void error_store(struct ext4_fs *fs, struct ext4_super_block *es);
/* @es is about to be replayed over @before and may be older: what that says of errors stays. */
void error_survive_replay(struct ext4_super_block *es, const struct ext4_super_block *before);
void error_on_journal_abort(void *fs, int err);  /* journal_params.on_abort */

/* ---- journal: journal_glue.c ---- */

/* What the image's journal asks for before anything else is read. */
bool fs_has_dirty_journal(const struct ext4_super_block *es);
/**
 * journal_glue_recover() - find the journal, open it and replay it
 * fs.journal is open afterwards, not running; NULL where the image has none. Group 0 must be readable.
 * Return: 0; -EUCLEAN, -EBADMSG, -EIO, -ENOMEM, -EOPNOTSUPP, -EINVAL (external, no journal_path=)
 */
int journal_glue_recover(struct ext4_fs *fs);
/* Starts it running, or puts the null journal in its place. */
int journal_glue_start(struct ext4_fs *fs);
void journal_glue_exit(struct ext4_fs *fs);
/* Calls @emit for each run of device blocks of an internal journal. */
int journal_glue_each_run(const struct ext4_fs *fs, int (*emit)(void *arg, fsblk_t blk, uint64_t count), void *arg);
/* Blocks of the journal inode, opened or not; 0: none, or outside. Groups are loaded. */
uint64_t journal_glue_internal_blocks(struct ext4_fs *fs);

/* ---- system zone: system_zone.c ---- */
int  system_zone_build(struct ext4_fs *fs);
void system_zone_free(struct ext4_fs *fs);
/* Calls @emit for each run of static metadata within [blk, blk + count): superblocks, descriptors, bitmaps, tables. */
void system_zone_each(const struct ext4_fs *fs, fsblk_t blk, uint64_t count,
		      void (*emit)(void *arg, fsblk_t blk, uint64_t count), void *arg);
/* Metadata blocks in all groups, for statfs. */
uint64_t system_zone_blocks(const struct ext4_fs *fs);

/* ---- MMP: mmp.c ---- */
/* Waits to see that nobody else has the image, then keeps saying that we do. 0, -EBUSY, -EIO, -EUCLEAN, -EBADMSG ... */
int  mmp_start(struct ext4_fs *fs);
/* Marks the image free; NULL-safe. First error. */
int  mmp_stop(struct ext4_fs *fs);

/* ---- orphans ---- */
/* No live entry in the orphan file (true without one). */
bool orphan_file_is_empty(const struct ext4_fs *fs);

/* ---- special inodes: inode.c ---- */
/* inode_load() for the file system's own inodes: journal, orphan file. */
int inode_load_special(struct ext4_fs *fs, ino_num ino, struct inode *inode);

#endif
