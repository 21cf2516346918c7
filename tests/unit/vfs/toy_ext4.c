/* SPDX-License-Identifier: MIT */
/* toy_ext4.c - inode_alloc() and friends over an array */
#include "toy_ext4.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vfs/icache.h"

struct toy toy = { .gate = PTHREAD_MUTEX_INITIALIZER };

void toy_start(uint64_t limit_inodes)
{
	for (unsigned i = 0; i < TOY_INODES; i++) {
		memset(&toy.slot[i], 0, sizeof(toy.slot[i]));
		atomic_store(&toy.slot[i].nlink, 1);
	}
	atomic_store(&toy.doubled, 0);
	atomic_store(&toy.gated_load, 0);
	atomic_store(&toy.gated_evict, 0);
	toy.fs.vfs_private = &toy.vfs;
	toy.vfs.fs = &toy.fs;
	if (icache_create(&toy.fs, limit_inodes, &toy.vfs.icache))
		abort();
}

void toy_stop(void)
{
	icache_destroy(toy.vfs.icache);
	rcu_drain();
}

struct inode *inode_alloc(struct ext4_fs *fs)
{
	struct inode *inode = calloc(1, sizeof(*inode));

	if (!inode)
		return NULL;
	inode->fs = fs;
	atomic_init(&inode->state, INODE_NEW);
	atomic_init(&inode->refs, 1);
	list_init(&inode->lru);
	return inode;
}

static void free_now(struct rcu_head *head)
{
	free(container_of(head, struct inode, rcu));
}

void inode_free(struct inode *inode)
{
	rcu_defer(&inode->rcu, free_now);
}

static void wait_at_gate(void)
{
	pthread_mutex_lock(&toy.gate);
	pthread_mutex_unlock(&toy.gate);
}

static void copy_appears(ino_num ino)
{
	if (atomic_fetch_add(&toy.slot[ino].live, 1) != 0)
		atomic_fetch_add(&toy.doubled, 1);
}

int inode_load(struct ext4_fs *fs, ino_num ino, bool allow_unlinked, struct inode *inode)
{
	struct toy_slot *slot = &toy.slot[ino];

	atomic_fetch_add(&slot->loads, 1);
	if (atomic_load(&toy.gated_load) == ino)
		wait_at_gate();
	if (atomic_load(&slot->load_err))
		return atomic_load(&slot->load_err);
	if (!atomic_load(&slot->nlink))
		return -ESTALE;
	copy_appears(ino);
	inode->nlink = atomic_load(&slot->nlink);
	return 0;
}

int inode_evict(struct inode *inode)
{
	struct toy_slot *slot = &toy.slot[inode->ino];

	if (atomic_load(&toy.gated_evict) == inode->ino)
		wait_at_gate();
	atomic_store(&toy.evictor, pthread_self());
	atomic_store(&slot->nlink, inode->nlink);
	atomic_fetch_add(&slot->evictions, 1);
	atomic_fetch_sub(&slot->live, 1);
	return 0;
}

struct inode *toy_create(ino_num ino)
{
	struct inode *inode = inode_alloc(&toy.fs);

	if (!inode)
		abort();
	copy_appears(ino);
	inode->ino = ino;
	inode->nlink = 1;
	inode_clear(inode, INODE_NEW);
	return inode;
}
