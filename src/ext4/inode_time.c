/* SPDX-License-Identifier: MIT */
/* inode_time.c - timestamps: stamped at once with a change, or lazily and written later */
#include <errno.h>

#include "ext4/fs_private.h"
#include "ext4/inode_private.h"

/*
 * Data writes and reads change times only in memory (lazytime): the inode goes on fs.dirty_times with
 * INODE_DIRTY_TIME set, and the next inode_write() for whatever reason, an fsync, the timer or eviction takes them to
 * disk. inode_write() clears the bit but leaves the inode on the list, so that creates and renames take no
 * global lock; whoever walks the list drops those whose bit is clear.
 */

struct timespec inode_clamp_time(const struct inode *inode, struct timespec t)
{
	bool extra = EXT4_INODE_HAS_FIELD(inode->extra_isize, i_ctime_extra);
	int64_t max = extra ? INT64_C(0x37FFFFFFF) : INT32_MAX;

	if (t.tv_sec < INT32_MIN)
		return (struct timespec){ .tv_sec = INT32_MIN };
	if (t.tv_sec > max)
		return (struct timespec){ .tv_sec = max };
	if (!extra)
		t.tv_nsec = 0;
	return t;
}

/* True if one of them was not @now already. Caller: raw_lock. */
static bool times_set(struct inode *inode, unsigned which, struct timespec now)
{
	struct timespec *const times[] = { &inode->atime, &inode->mtime, &inode->ctime };
	bool changed = false;

	for (unsigned i = 0; i < ARRAY_SIZE(times); i++) {
		if (!(which & TIME_ATIME << i))
			continue;
		changed |= times[i]->tv_sec != now.tv_sec || times[i]->tv_nsec != now.tv_nsec;
		inode_time_set(times[i], now);
	}
	return changed;
}

void inode_stamp(struct inode *inode, unsigned which)
{
	struct timespec now = inode_clamp_time(inode, fs_now(inode->fs));

	mutex_lock(&inode->raw_lock);
	times_set(inode, which, now);
	if (which & TIME_CTIME)
		inode->iversion++;
	mutex_unlock(&inode->raw_lock);
}

void inode_stamp_lazy(struct inode *inode, unsigned which)
{
	struct ext4_fs *fs = inode->fs;
	struct timespec now = inode_clamp_time(inode, fs_now(fs));
	bool changed;

	mutex_lock(&inode->raw_lock);
	changed = times_set(inode, which, now);
	if (which & TIME_CTIME)
		inode->iversion++;
	if (changed)
		changed = !(inode_set(inode, INODE_DIRTY_TIME) & INODE_DIRTY_TIME);
	mutex_unlock(&inode->raw_lock);
	if (!changed || fs_is_read_only(fs))
		return;
	mutex_lock(&fs->dirty_times_lock);
	if (list_empty(&inode->times_node))
		list_add_tail(&inode->times_node, &fs->dirty_times);
	mutex_unlock(&fs->dirty_times_lock);
}

void inode_times_forget(struct inode *inode)
{
	struct ext4_fs *fs = inode->fs;

	inode_clear(inode, INODE_DIRTY_TIME);
	mutex_lock(&fs->dirty_times_lock);
	list_del(&inode->times_node);
	mutex_unlock(&fs->dirty_times_lock);
}

int inode_flush_times(struct inode *inode)
{
	struct handle h;
	int err, stop_err;

	if (!inode_test(inode, INODE_DIRTY_TIME))
		return 0;
	err = fs_handle_start(inode->fs, 1, 0, &h);
	if (err)
		return err;
	err = inode_write(&h, inode);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

static struct inode *times_pop(struct ext4_fs *fs, struct list_head *todo)
{
	struct inode *inode = NULL;

	mutex_lock(&fs->dirty_times_lock);
	if (!list_empty(todo)) {
		inode = list_first(todo, struct inode, times_node);
		list_del(&inode->times_node);
	}
	mutex_unlock(&fs->dirty_times_lock);
	return inode;
}

/*
 * The next inode that owes its times, with a reference; NULL: none. Those being evicted write their own. Off the list
 * only RCU keeps an inode's memory until the reference is had.
 */
static struct inode *times_next(struct ext4_fs *fs, struct list_head *todo)
{
	struct inode *inode;

	rcu_enter();
	do
		inode = times_pop(fs, todo);
	while (inode && !(inode_test(inode, INODE_DIRTY_TIME) && fs->vfs_ops->inode_grab(inode)));
	rcu_leave();
	return inode;
}

int fs_flush_dirty_times(struct ext4_fs *fs)
{
	struct list_head todo;
	struct inode *inode;
	int err = 0;

	list_init(&todo);
	mutex_lock(&fs->dirty_times_lock);
	list_splice_tail(&fs->dirty_times, &todo);
	mutex_unlock(&fs->dirty_times_lock);
	while ((inode = times_next(fs, &todo))) {
		int flush_err = inode_flush_times(inode);

		err = err ? err : flush_err;
		fs->vfs_ops->inode_drop(inode);
	}
	return err;
}

static struct timespec time_peek(const struct timespec *time)
{
	return (struct timespec){ .tv_sec = __atomic_load_n(&time->tv_sec, __ATOMIC_RELAXED),
				  .tv_nsec = __atomic_load_n(&time->tv_nsec, __ATOMIC_RELAXED) };
}

/*
 * Asked by every read, so without a lock. Halves of two times that are just being replaced may come together; then the
 * answer is the one for a moment before or after, and the next read asks again.
 */
bool inode_needs_atime(const struct inode *inode)
{
	const struct ext4_options *opt = &inode->fs->opt;
	struct timespec a, m, c;

	if (opt->noatime || fs_is_read_only(inode->fs) || (inode->flags & EXT4_NOATIME_FL))
		return false;
	if (opt->nodiratime && inode_is_dir(inode))
		return false;
	if (opt->strictatime)
		return true;
	/* relatime: once a day, or when it does not lie after the last change. */
	a = time_peek(&inode->atime);
	m = time_peek(&inode->mtime);
	c = time_peek(&inode->ctime);
	if (a.tv_sec < m.tv_sec || (a.tv_sec == m.tv_sec && a.tv_nsec <= m.tv_nsec))
		return true;
	if (a.tv_sec < c.tv_sec || (a.tv_sec == c.tv_sec && a.tv_nsec <= c.tv_nsec))
		return true;
	return fs_now(inode->fs).tv_sec - a.tv_sec >= 24 * 60 * 60;
}
