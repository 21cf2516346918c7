/* SPDX-License-Identifier: MIT */
/* mount.c - from a device to a running file system, and back to a clean image */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block/overlay.h"
#include "ext4/balloc.h"
#include "ext4/es.h"
#include "ext4/fast_commit.h"
#include "ext4/features.h"
#include "ext4/fs_private.h"
#include "ext4/group_private.h"
#include "ext4/ialloc.h"
#include "ext4/inode.h"
#include "ext4/orphan.h"
#include "ext4/super.h"

#define IOEND_THREADS 4u

static int fs_alloc(struct block_device *dev, const struct ext4_options *opt, const struct log_sink *log,
		    const char *name, struct ext4_fs **fs_out)
{
	struct ext4_fs *fs = calloc(1, sizeof(*fs));
	char *path;

	if (!fs)
		return -ENOMEM;
	fs->priv = calloc(1, sizeof(*fs->priv));
	fs->counters = aligned_alloc(64, round_up_to(sizeof(*fs->counters), 64));
	fs->opt.journal_path = opt->journal_path ? strdup(opt->journal_path) : NULL;
	if (!fs->priv || !fs->counters || (opt->journal_path && !fs->opt.journal_path)) {
		free(fs->opt.journal_path);
		free(fs->priv);
		free(fs->counters);
		free(fs);
		return -ENOMEM;
	}
	memset(fs->counters, 0, sizeof(*fs->counters));
	fs->dev = dev;
	fs->dev->counters = fs->counters;
	path = fs->opt.journal_path;
	fs->opt = *opt;
	fs->opt.journal_path = path;
	fs->log = *log;
	snprintf(fs->name, sizeof(fs->name), "%s", name);
	mutex_init(&fs->super_lock, RANK_GROUP);
	mutex_init(&fs->orphan_lock, RANK_ORPHAN);
	mutex_init(&fs->dirty_times_lock, RANK_LEAF);
	list_init(&fs->dirty_times);
	fs->priv->fs = fs;
	background_init(fs);
	error_init(fs);
	*fs_out = fs;
	return 0;
}

static int refuse_incompat(struct ext4_fs *fs, const struct ext4_super_block *es)
{
	uint32_t bad = features_unsupported(FEATURE_INCOMPAT, le32_get(es->s_feature_incompat));
	char names[256];

	if (le32_get(es->s_rev_level) == EXT4_REV_GOOD_OLD || !bad)
		return 0;
	features_to_text(FEATURE_INCOMPAT, bad, names, sizeof(names));
	if (bad & EXT4_FEATURE_INCOMPAT_JOURNAL_DEV)
		log_print(&fs->log, LOG_ERROR, "%s: this is an external journal, not a file system (journal_dev)", fs->name);
	else
		log_print(&fs->log, LOG_ERROR, "%s: cannot mount: unsupported features: %s", fs->name, names);
	return -EOPNOTSUPP;
}

static void demote_ro_compat(struct ext4_fs *fs, const struct ext4_super_block *es)
{
	uint32_t bad = features_unsupported(FEATURE_RO_COMPAT, le32_get(es->s_feature_ro_compat));
	char names[256];

	if (le32_get(es->s_rev_level) == EXT4_REV_GOOD_OLD || !bad || fs->opt.read_only)
		return;
	features_to_text(FEATURE_RO_COMPAT, bad, names, sizeof(names));
	log_print(&fs->log, LOG_WARNING, "%s: mounting read-only: features that cannot be written: %s", fs->name, names);
	fs->opt.read_only = true;
}

/* Only a mount that writes needs the file; said before anything is written. */
static int check_orphan_file(struct ext4_fs *fs, const struct ext4_super_block *es)
{
	uint32_t ino = le32_get(es->s_orphan_file_inum), inodes = le32_get(es->s_inodes_count);

	if (fs->opt.read_only || !(le32_get(es->s_feature_compat) & EXT4_FEATURE_COMPAT_ORPHAN_FILE) || (ino && ino <= inodes))
		return 0;
	log_print(&fs->log, LOG_ERROR, "%s: superblock: s_orphan_file_inum is %u, not an inode from 1 to %u, but orphan_file is set",
		  fs->name, ino, inodes);
	return -EUCLEAN;
}

/* Is this superblock one that we can go on with? Says why not. */
static int super_accept(struct ext4_fs *fs, const struct ext4_super_block *es)
{
	char why[256];
	int err;

	/* Features before geometry: an external journal has no groups. */
	if (le16_get(es->s_magic) == EXT4_SUPER_MAGIC) {
		err = refuse_incompat(fs, es);
		if (err)
			return err;
	}
	err = super_verify(es, fs->dev->size_bytes, why);
	if (err) {
		log_print(&fs->log, LOG_ERROR, "%s: %s", fs->name, why);
		return err;
	}
	demote_ro_compat(fs, es);
	return check_orphan_file(fs, es);
}

static int check_options(struct ext4_fs *fs)
{
	struct ext4_options *opt = &fs->opt;

	if (opt->replay_in_memory && !opt->read_only) {
		log_print(&fs->log, LOG_WARNING, "%s: mounting read-only: the journal is replayed in memory", fs->name);
		opt->read_only = true;
	}
	if (opt->noload && !opt->read_only) {
		log_print(&fs->log, LOG_ERROR, "%s: noload needs a read-only mount (ro)", fs->name);
		return -EINVAL;
	}
	if (opt->sb_blk && !opt->read_only) {
		log_print(&fs->log, LOG_ERROR, "%s: sb= needs a read-only mount (ro)", fs->name);
		return -EINVAL;
	}
	return 0;
}

static int check_writable(struct ext4_fs *fs)
{
	if (fs->opt.read_only || !fs->dev->read_only)
		return 0;
	log_print(&fs->log, LOG_ERROR, "%s: the image cannot be written: mount it read-only (ro)", fs->name);
	return -EROFS;
}

/* The journal of an image mounted read-only is replayed into memory over it. */
static int put_overlay(struct ext4_fs *fs, const struct ext4_super_block *es)
{
	int err;

	if (!fs->opt.read_only || fs->opt.noload || !fs_has_dirty_journal(es))
		return 0;
	log_print(&fs->log, LOG_INFO, "%s: read-only: replaying the journal in memory, the image stays as it is", fs->name);
	err = block_open_overlay(fs->dev, &fs->dev);
	if (!err)
		fs->dev->counters = fs->counters;
	return err;
}

static uint64_t cache_limit(const struct ext4_options *opt)
{
	uint64_t quarter = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4;

	return opt->cache_bytes ? opt->cache_bytes : min_of(quarter, UINT64_C(1) << 30);
}

static int open_caches(struct ext4_fs *fs)
{
	struct cache_options options = {
		.limit_bytes = cache_limit(&fs->opt), .counters = fs->counters, .log = &fs->log,
		.meta_pressure = background_pressure, .tick = background_tick, .arg = fs,
	};
	uint64_t super_pos = fs->opt.sb_blk ? fs->opt.sb_blk * 1024 : EXT4_SUPER_OFFSET_BYTES;
	int err;

	if (fs->dev->sector_bytes > fs->block_bytes) {
		log_print(&fs->log, LOG_ERROR, "%s: blocks of %u bytes are smaller than the device's sectors of %u", fs->name,
			  fs->block_bytes, fs->dev->sector_bytes);
		return -EINVAL;
	}
	err = cache_create(&options, &fs->cache);
	if (!err)
		err = buffer_cache_create(fs->cache, fs->dev, fs->block_bytes, &fs->log, &fs->bc);
	if (!err)
		err = buffer_read(fs->bc, super_pos / fs->block_bytes, &fs->super_bh);
	fs->super_offset = (uint32_t)(super_pos % fs->block_bytes);
	return err;
}

static int read_super(struct ext4_fs *fs)
{
	uint64_t pos = fs->opt.sb_blk ? fs->opt.sb_blk * 1024 : EXT4_SUPER_OFFSET_BYTES;
	struct ext4_super_block es;
	int err;

	err = super_read(fs->dev, pos, &es);
	if (err) {
		log_print(&fs->log, LOG_ERROR, "%s: cannot read the superblock: %s", fs->name,
			  err == -EINVAL ? "the image is too small to hold a file system" : strerror(-err));
		return err;
	}
	err = super_accept(fs, &es);
	if (!err)
		err = check_writable(fs);
	if (!err)
		err = put_overlay(fs, &es);
	if (!err)
		super_decode(fs, &es);
	return err;
}

/* Replay may have brought another superblock: it is checked and decoded once more. */
static int reread_super(struct ext4_fs *fs)
{
	uint32_t block_bytes = fs->block_bytes;
	bool was_read_only = fs->opt.read_only;
	int err = super_accept(fs, fs_super(fs));

	if (err)
		return err;
	super_decode(fs, fs_super(fs));
	if (fs->block_bytes != block_bytes)
		return FS_ERROR(fs, -EUCLEAN, "the block size in the journal is another one");
	if (fs->opt.read_only && !was_read_only)
		return FS_ERROR(fs, -EOPNOTSUPP, "the journal brought features that cannot be written: mount it read-only");
	return 0;
}

static int recover(struct ext4_fs *fs)
{
	int err;

	err = groups_load_first(fs);
	if (!err)
		err = journal_glue_recover(fs);
	groups_free(fs);
	return err ? err : reread_super(fs);
}

static enum ext4_data_mode data_mode(const struct ext4_fs *fs)
{
	uint32_t mode = le32_get(fs_super(fs)->s_default_mount_opts) & EXT4_DEFM_JMODE;

	if (!fs_has_compat(fs, EXT4_FEATURE_COMPAT_HAS_JOURNAL))
		return fs->opt.data == DATA_JOURNAL ? DATA_ORDERED : fs->opt.data;
	if ((fs->opt.given & OPT_GIVEN_DATA) || fs->opt.data != DATA_ORDERED || !mode)
		return fs->opt.data;
	return mode == EXT4_DEFM_JMODE_DATA ? DATA_JOURNAL : mode == EXT4_DEFM_JMODE_WBACK ? DATA_WRITEBACK : DATA_ORDERED;
}

/* Without a flush before the commit block, blocks could be there after a crash, and the data in them not. */
static int check_async_commit(struct ext4_fs *fs)
{
	if (!fs->opt.journal_async_commit || data_mode(fs) == DATA_WRITEBACK ||
	    !fs_has_compat(fs, EXT4_FEATURE_COMPAT_HAS_JOURNAL))
		return 0;
	log_print(&fs->log, LOG_ERROR, "%s: journal_async_commit needs data=writeback", fs->name);
	return -EINVAL;
}

/* As Linux: the journal inside is not to be taken for the one that the user means. */
static int check_journal_path(struct ext4_fs *fs)
{
	if (!fs->opt.journal_path || fs->opt.noload)
		return 0;
	if (!fs_has_compat(fs, EXT4_FEATURE_COMPAT_HAS_JOURNAL)) {
		log_print(&fs->log, LOG_WARNING, "%s: the image has no journal: journal_path=%s is ignored", fs->name,
			  fs->opt.journal_path);
		return 0;
	}
	if (!le32_get(fs_super(fs)->s_journal_inum))
		return 0;
	log_print(&fs->log, LOG_ERROR, "%s: journal_path=%s: the journal is inside the image, not on another device", fs->name,
		  fs->opt.journal_path);
	return -EINVAL;
}

/* What the image wants where the user said nothing. */
static void resolve_options(struct ext4_fs *fs)
{
	const struct ext4_super_block *es = fs_super(fs);
	uint32_t defaults = le32_get(es->s_default_mount_opts);
	struct ext4_options *opt = &fs->opt;

	if (!opt->errors)
		opt->errors = le16_get(es->s_errors) == ERRORS_CONTINUE ? ERRORS_CONTINUE : ERRORS_REMOUNT_RO;
	opt->data = data_mode(fs);
	if (defaults & EXT4_DEFM_NOBARRIER && !(opt->given & OPT_GIVEN_BARRIER))
		opt->barrier = false;
	if (defaults & EXT4_DEFM_DISCARD && !(opt->given & OPT_GIVEN_DISCARD))
		opt->discard = true;
	if (defaults & EXT4_DEFM_NODELALLOC && !(opt->given & OPT_GIVEN_DELALLOC))
		opt->delalloc = false;
	if (defaults & EXT4_DEFM_BSDGROUPS && !(opt->given & OPT_GIVEN_GRPID))
		opt->grpid = true;
	if (!opt->resuid)
		opt->resuid = le16_get(es->s_def_resuid);
	if (!opt->resgid)
		opt->resgid = le16_get(es->s_def_resgid);
}

static void count_space(struct ext4_fs *fs)
{
	const struct ext4_super_block *es = fs_super(fs);
	struct fs_private *priv = fs->priv;
	uint64_t overhead = fs->first_data_block + system_zone_blocks(fs) + journal_glue_internal_blocks(fs);

	/* With clusters the sum would count shared ones twice; mke2fs has stored the right one. */
	if (fs->cluster_bits && le32_get(es->s_overhead_clusters))
		overhead = (uint64_t)le32_get(es->s_overhead_clusters) << fs->cluster_bits;
	priv->overhead_blocks = min_of(overhead, fs->blocks_count);
	priv->kbytes_written_at_mount = le64_get(es->s_kbytes_written);
	priv->mount_state = le16_get(es->s_state);
}

static int load_layout(struct ext4_fs *fs)
{
	int err;

	err = groups_load(fs);
	if (!err)
		err = system_zone_build(fs);
	if (!err)
		count_space(fs);
	return err;
}

static int check_root(struct ext4_fs *fs)
{
	struct inode *root = inode_alloc(fs);
	int err;

	if (!root)
		return -ENOMEM;
	err = inode_load(fs, EXT4_ROOT_INO, false, root);
	if (err == -ESTALE || (!err && !inode_is_dir(root)))
		err = FS_ERROR(fs, -EUCLEAN, "the root inode is no directory: run e2fsck");
	inode_free(root);
	return err;
}

static int start_parts(struct ext4_fs *fs)
{
	int err;

	err = workqueue_start("uext4-ioend", IOEND_THREADS, &fs->ioend_wq);
	if (!err)
		err = es_shrinker_init(fs, cache_limit(&fs->opt) / 16);
	if (!err)
		err = balloc_init(fs);
	if (!err)
		err = ialloc_init(fs);
	if (!err)
		err = orphan_init(fs);
	return err;
}

/* ---- mount ---- */

static int process_orphans(struct ext4_fs *fs)
{
	uint32_t truncated = 0, freed = 0;
	int err = orphan_process_all(fs, &truncated, &freed);

	if (truncated || freed)
		log_print(&fs->log, LOG_INFO, "%s: orphans: %u truncated, %u freed", fs->name, truncated, freed);
	return err;
}

static void warn_about_state(struct ext4_fs *fs)
{
	uint16_t state = le16_get(fs_super(fs)->s_state);

	if (!(state & EXT4_STATE_VALID_FS))
		log_print(&fs->log, LOG_WARNING, "%s: was not unmounted cleanly: running e2fsck is recommended", fs->name);
	else if (state & EXT4_STATE_ERROR_FS)
		log_print(&fs->log, LOG_WARNING, "%s: has known errors: running e2fsck is recommended", fs->name);
}

static int start_writing(struct ext4_fs *fs)
{
	int err;

	warn_about_state(fs);
	fs->priv->writable = true;
	err = error_start(fs);
	if (!err)
		err = super_open(fs);
	return err ? err : process_orphans(fs);
}

static int mount_steps(struct ext4_fs *fs)
{
	int err;

	err = check_options(fs);
	if (!err)
		err = read_super(fs);
	if (!err)
		err = open_caches(fs);
	if (!err)
		err = check_async_commit(fs);
	if (!err)
		err = check_journal_path(fs);
	if (!err && !fs->opt.read_only)
		err = mmp_start(fs);
	atomic_store(&fs->read_only, fs->opt.read_only);
	if (!err)
		err = recover(fs);
	if (err)
		return err;
	resolve_options(fs);
	err = load_layout(fs);
	if (!err)
		err = fast_commit_prepare(fs);
	if (!err)
		err = journal_glue_start(fs);
	if (!err)
		err = start_parts(fs);
	if (!err)
		err = fast_commit_apply(fs);
	if (!err)
		err = check_root(fs);
	if (!err && !fs_is_read_only(fs))
		err = start_writing(fs);
	return err;
}

int ext4_mount(struct block_device *dev, const struct ext4_options *opt, const struct log_sink *log, const char *name,
	       const struct ext4_vfs_ops *vfs_ops, void *vfs_private, struct ext4_fs **fs_out)
{
	struct ext4_fs *fs;
	int err;

	err = fs_alloc(dev, opt, log, name, &fs);
	if (err) {
		block_close(dev);
		return err;
	}
	fs->vfs_ops = vfs_ops;
	fs->vfs_private = vfs_private;
	err = mount_steps(fs);
	if (err) {
		fs_teardown(fs);
		return err;
	}
	background_open(fs);
	*fs_out = fs;
	return 0;
}
