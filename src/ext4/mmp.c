/* SPDX-License-Identifier: MIT */
/* mmp.c - multiple mount protection: a block that says, every few seconds, that somebody has the image */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/checksum.h"
#include "base/thread.h"
#include "ext4/fs_private.h"
#include "ext4/mmp_format.h"
#include "ext4/super.h"

/*
 * The holder adds one to mmp_seq every update interval. Who wants the image waits for longer than that and looks
 * whether the number moved; then writes a random number and waits once more, so that of two who came at the same time
 * only the one that wrote last still finds its own. The block is read and written past all caches.
 */
struct mmp {
	struct ext4_fs *fs;          /* [const] */
	fsblk_t blk;                 /* [const] */
	uint8_t *buf;                /* [owner thread] block_bytes: mount first, then the thread, then unmount */
	uint32_t update_interval_s;  /* [const] */
	uint32_t check_interval_s;   /* [owner thread] promised to others: an update comes within that time */
	uint32_t seq;                /* [owner thread] */
	struct mutex lock;           /* RANK_LEAF */
	struct cond cond;
	bool stop;                   /* [lock] */
	pthread_t thread;
};

static struct mmp_struct *mmp_block(const struct mmp *m)
{
	return (struct mmp_struct *)(void *)m->buf;
}

static uint32_t mmp_csum(const struct mmp *m)
{
	return crc32c(m->fs->csum_seed, m->buf, offsetof(struct mmp_struct, mmp_checksum));
}

static int mmp_read(struct mmp *m)
{
	struct ext4_fs *fs = m->fs;
	int err;

	err = block_read(fs->dev, m->blk << fs->block_bits, m->buf, fs->block_bytes);
	if (err) {
		log_print(&fs->log, LOG_ERROR, "%s: cannot read the MMP block %" PRIu64 ": %s", fs->name, m->blk, strerror(-err));
		return err;
	}
	if (le32_get(mmp_block(m)->mmp_magic) != EXT4_MMP_MAGIC) {
		log_print(&fs->log, LOG_ERROR, "%s: MMP block %" PRIu64 ": bad magic", fs->name, m->blk);
		return -EUCLEAN;
	}
	if (fs->has_metadata_csum && le32_get(mmp_block(m)->mmp_checksum) != mmp_csum(m)) {
		log_print(&fs->log, LOG_ERROR, "%s: MMP block %" PRIu64 ": bad checksum", fs->name, m->blk);
		return -EBADMSG;
	}
	return 0;
}

static int mmp_write(struct mmp *m, uint32_t seq)
{
	struct mmp_struct *block = mmp_block(m);

	block->mmp_seq = le32_make(seq);
	block->mmp_time = le64_make((uint64_t)time(NULL));
	block->mmp_check_interval = le16_make((uint16_t)m->check_interval_s);
	if (m->fs->has_metadata_csum)
		block->mmp_checksum = le32_make(mmp_csum(m));
	return block_write(m->fs->dev, m->blk << m->fs->block_bits, m->buf, m->fs->block_bytes, BIO_FUA);
}

static int mmp_refuse(const struct mmp *m, const char *what)
{
	const struct mmp_struct *block = mmp_block(m);

	log_print(&m->fs->log, LOG_ERROR, "%s: %s (MMP: last by %.64s on %.32s, time %" PRIu64 ")", m->fs->name, what,
		  block->mmp_nodename, block->mmp_bdevname, le64_get(block->mmp_time));
	return -EBUSY;
}

/* Sleeps, unless told to stop; true once that happened. */
static bool mmp_sleep(struct mmp *m, uint32_t seconds)
{
	bool in_time = true, stop;

	mutex_lock(&m->lock);
	while (!m->stop && in_time)
		in_time = cond_wait_timeout(&m->cond, &m->lock, seconds * UINT64_C(1000000000));
	stop = m->stop;
	mutex_unlock(&m->lock);
	return stop;
}

static uint32_t random_seq(void)
{
	uint32_t seq;

	do {
		if (getrandom(&seq, sizeof(seq), 0) != (ssize_t)sizeof(seq))
			seq = (uint32_t)time(NULL);
		seq &= UINT32_MAX >> 1; /* all below EXT4_MMP_SEQ_MAX */
	} while (!seq);
	return seq;
}

/* Waits until it is sure that nobody else is at work, and takes the image. */
static int mmp_take(struct mmp *m)
{
	uint32_t found = le32_get(mmp_block(m)->mmp_seq), wait_s;
	struct utsname names;
	int err;

	if (found == EXT4_MMP_SEQ_FSCK)
		return mmp_refuse(m, "fsck is running on the file system");
	wait_s = min_of(2 * m->check_interval_s + 1, m->check_interval_s + 60);
	if (found != EXT4_MMP_SEQ_CLEAN) {
		log_print(&m->fs->log, LOG_WARNING, "%s: MMP: waiting %u seconds to see whether somebody else has it mounted",
			  m->fs->name, wait_s);
		mmp_sleep(m, wait_s);
		err = mmp_read(m);
		if (err)
			return err;
		if (le32_get(mmp_block(m)->mmp_seq) != found)
			return mmp_refuse(m, "already in use on another node");
	}
	m->seq = random_seq();
	memset(mmp_block(m)->mmp_nodename, 0, sizeof(mmp_block(m)->mmp_nodename));
	if (uname(&names) == 0)
		memcpy(mmp_block(m)->mmp_nodename, names.nodename, strnlen(names.nodename, 63));
	memset(mmp_block(m)->mmp_bdevname, 0, sizeof(mmp_block(m)->mmp_bdevname));
	memcpy(mmp_block(m)->mmp_bdevname, m->fs->name, strnlen(m->fs->name, 31));
	err = mmp_write(m, m->seq);
	if (err)
		return err;
	mmp_sleep(m, wait_s);
	err = mmp_read(m);
	if (err)
		return err;
	return le32_get(mmp_block(m)->mmp_seq) == m->seq ? 0 : mmp_refuse(m, "another node has just taken it");
}

static uint64_t monotonic_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

/* After a long pause others may have thought us dead: is the number still ours? */
static int mmp_still_ours(struct mmp *m)
{
	int err = mmp_read(m);

	if (err)
		return err;
	return le32_get(mmp_block(m)->mmp_seq) == m->seq ? 0 : mmp_refuse(m, "taken over while this server was stalled");
}

static void *mmp_thread(void *arg)
{
	struct mmp *m = arg;
	uint64_t written_s = monotonic_s();
	int err = 0;

	while (!err && !mmp_sleep(m, m->update_interval_s)) {
		if (monotonic_s() - written_s > m->check_interval_s)
			err = mmp_still_ours(m);
		if (err)
			break;
		m->seq = m->seq >= EXT4_MMP_SEQ_MAX ? 1 : m->seq + 1;
		err = mmp_write(m, m->seq);
		written_s = monotonic_s();
	}
	if (err) {
		atomic_store(&m->fs->read_only, true);
		if (m->fs->journal)
			journal_abort(m->fs->journal, -EIO);
		FS_ERROR(m->fs, err, "MMP: the image cannot be kept: %s", strerror(-err));
	}
	return NULL;
}

static int mmp_alloc(struct ext4_fs *fs, struct mmp **mmp_out)
{
	struct mmp *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	err = -posix_memalign((void **)&m->buf, max_of(fs->block_bytes, 4096u), fs->block_bytes);
	if (err) {
		free(m);
		return err;
	}
	m->fs = fs;
	m->blk = le64_get(fs_super(fs)->s_mmp_block);
	mutex_init(&m->lock, RANK_LEAF);
	cond_init(&m->cond);
	*mmp_out = m;
	return 0;
}

static void mmp_free(struct mmp *m)
{
	cond_exit(&m->cond);
	mutex_exit(&m->lock);
	free(m->buf);
	free(m);
}

static int mmp_begin(struct mmp *m)
{
	struct ext4_fs *fs = m->fs;
	uint32_t interval = le16_get(fs_super(fs)->s_mmp_interval);
	int err;

	if (m->blk <= fs->first_data_block || m->blk >= fs->blocks_count)
		return FS_ERROR(fs, -EUCLEAN, "MMP block %" PRIu64 " is out of range", m->blk);
	err = mmp_read(m);
	if (err)
		return err;
	m->update_interval_s = interval ? interval : EXT4_MMP_DEFAULT_UPDATE_INTERVAL_S;
	m->check_interval_s = max_of((uint32_t)le16_get(mmp_block(m)->mmp_check_interval), EXT4_MMP_MIN_CHECK_INTERVAL_S);
	m->check_interval_s = max_of(m->check_interval_s, 2 * m->update_interval_s);
	m->check_interval_s = min_of(m->check_interval_s, EXT4_MMP_MAX_CHECK_INTERVAL_S);
	return mmp_take(m);
}

int mmp_start(struct ext4_fs *fs)
{
	struct mmp *m;
	int err;

	if (!fs_has_incompat(fs, EXT4_FEATURE_INCOMPAT_MMP))
		return 0;
	err = mmp_alloc(fs, &m);
	if (err)
		return err;
	err = mmp_begin(m);
	if (!err)
		err = thread_start("uext4-mmp", mmp_thread, m, &m->thread);
	if (err)
		mmp_free(m);
	else
		fs->mmp = m;
	return err;
}

int mmp_stop(struct ext4_fs *fs)
{
	struct mmp *m = fs->mmp;
	int err = 0;

	if (!m)
		return 0;
	mutex_lock(&m->lock);
	m->stop = true;
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	/* Only what is still ours may be given back. */
	err = mmp_still_ours(m);
	if (!err)
		err = mmp_write(m, EXT4_MMP_SEQ_CLEAN);
	mmp_free(m);
	fs->mmp = NULL;
	return err;
}
