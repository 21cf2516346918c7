/* SPDX-License-Identifier: MIT */
/* background.c - what the cache's threads ask of a file system: commits under memory pressure, lazy times */
#include "ext4/fs_private.h"
#include "ext4/inode.h"

#define TIMES_FLUSH_S 5u

/*
 * The cache exists before the file system works and after it has stopped. The gate lets its threads in only in
 * between, and closing it waits until they have left.
 */
void background_init(struct ext4_fs *fs)
{
	mutex_init(&fs->priv->gate_lock, RANK_LEAF);
	cond_init(&fs->priv->gate_cond);
}

void background_exit(struct ext4_fs *fs)
{
	cond_exit(&fs->priv->gate_cond);
	mutex_exit(&fs->priv->gate_lock);
}

void background_open(struct ext4_fs *fs)
{
	mutex_lock(&fs->priv->gate_lock);
	fs->priv->gate_open = true;
	mutex_unlock(&fs->priv->gate_lock);
}

void background_close(struct ext4_fs *fs)
{
	struct fs_private *priv = fs->priv;

	mutex_lock(&priv->gate_lock);
	priv->gate_open = false;
	while (priv->gate_inside)
		cond_wait(&priv->gate_cond, &priv->gate_lock);
	mutex_unlock(&priv->gate_lock);
}

static bool gate_enter(struct fs_private *priv)
{
	bool open;

	mutex_lock(&priv->gate_lock);
	open = priv->gate_open;
	priv->gate_inside += open;
	mutex_unlock(&priv->gate_lock);
	return open;
}

static void gate_leave(struct fs_private *priv)
{
	mutex_lock(&priv->gate_lock);
	priv->gate_inside--;
	cond_broadcast(&priv->gate_cond);
	mutex_unlock(&priv->gate_lock);
}

void background_pressure(void *arg)
{
	struct ext4_fs *fs = arg;

	if (!gate_enter(fs->priv))
		return;
	journal_checkpoint_all(fs->journal); /* an error aborts the journal, which reports it */
	gate_leave(fs->priv);
}

void background_tick(void *arg)
{
	struct ext4_fs *fs = arg;

	if (!gate_enter(fs->priv))
		return;
	if (++fs->priv->ticks >= TIMES_FLUSH_S) {
		fs->priv->ticks = 0;
		if (!fs_is_read_only(fs))
			fs_flush_dirty_times(fs); /* an error aborts the journal, which reports it */
	}
	gate_leave(fs->priv);
}
