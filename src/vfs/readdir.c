/* SPDX-License-Identifier: MIT */
/*
 * readdir.c - reading directories
 *
 * Entries are collected in batches under the directory's rwsem and handed out without it, since the one who takes
 * them may well look them up, which wants the rwsem again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/dir.h"
#include "vfs/icache.h"
#include "vfs/vfs.h"

#define BATCH_BYTES 32768u

/* With inodes: what the receiver does not take this time was loaded in vain. */
#define BATCH_PLUS_BYTES 4096u

/* One entry as it is kept: then the name with its NUL, then up to 7 bytes of padding. */
struct batch_entry {
	uint64_t next_cookie;
	struct inode *inode; /* held; NULL unless asked for */
	ino_num ino;
	uint8_t type;
	uint8_t name_len;
	char name[];
};

struct batch {
	uint64_t used, limit;
	bool full;
	char bytes[BATCH_BYTES] __attribute__((aligned(8)));
};

static size_t entry_bytes(uint8_t name_len)
{
	return round_up_to(sizeof(struct batch_entry) + name_len + 1, sizeof(uint64_t));
}

static int batch_add(void *arg, const struct dir_entry_info *info)
{
	struct batch *batch = arg;
	struct batch_entry *entry = (struct batch_entry *)(batch->bytes + batch->used);

	if (batch->used + entry_bytes(info->name_len) > batch->limit) {
		batch->full = true;
		return 1;
	}
	entry->next_cookie = info->next_cookie;
	entry->inode = NULL;
	entry->ino = info->ino;
	entry->type = info->type;
	entry->name_len = info->name_len;
	memcpy(entry->name, info->name, info->name_len);
	entry->name[info->name_len] = '\0';
	batch->used += entry_bytes(info->name_len);
	return 0;
}

static struct batch_entry *batch_next(struct batch *batch, uint64_t *at)
{
	struct batch_entry *entry = (struct batch_entry *)(batch->bytes + *at);

	if (*at >= batch->used)
		return NULL;
	*at += entry_bytes(entry->name_len);
	return entry;
}

static bool is_dot_or_dotdot(const struct batch_entry *entry)
{
	return entry->name[0] == '.' && (entry->name_len == 1 || (entry->name_len == 2 && entry->name[1] == '.'));
}

/* Caller: dir->rwsem, so that each number still belongs to its name. What fails to load is left to the one who looks it up. */
static void batch_hold_inodes(struct inode *dir, struct batch *batch)
{
	struct vfs *vfs = vfs_of(dir);
	struct batch_entry *entry;
	uint64_t at = 0;

	while ((entry = batch_next(batch, &at))) {
		if (!is_dot_or_dotdot(entry) && vfs_node_get(vfs, entry->ino, &entry->inode))
			entry->inode = NULL;
	}
}

static void batch_put_inodes(struct batch *batch)
{
	struct batch_entry *entry;
	uint64_t at = 0;

	while ((entry = batch_next(batch, &at)))
		icache_put(entry->inode);
}

static int batch_fill(struct inode *dir, uint64_t cookie, bool plus, struct batch *batch)
{
	int err = -ENOENT;

	batch->used = 0;
	batch->full = false;
	rwsem_read_lock(&dir->rwsem);
	if (dir->nlink)
		err = dir_iterate(dir, cookie, batch_add, batch);
	if (plus)
		batch_hold_inodes(dir, batch);
	rwsem_read_unlock(&dir->rwsem);
	/* Entries before a damaged block are good: they are given out, and the error comes with the next call. */
	return batch->used ? 0 : err;
}

struct emitter {
	int (*emit)(void *arg, const struct vfs_dirent *entry);
	int (*emit_plus)(void *arg, const struct vfs_dirent *entry, struct inode *inode);
	void *arg;
};

/* Returns non-zero once the receiver has enough. */
static int batch_emit(struct batch *batch, const struct emitter *to, uint64_t *cookie)
{
	struct batch_entry *entry;
	uint64_t at = 0;
	int stop = 0;

	while (!stop && (entry = batch_next(batch, &at))) {
		struct vfs_dirent dirent = {
			.ino = entry->ino,
			.next_cookie = entry->next_cookie,
			.name = entry->name,
			.name_len = entry->name_len,
			.type = entry->type,
		};

		stop = to->emit ? to->emit(to->arg, &dirent) : to->emit_plus(to->arg, &dirent, entry->inode);
		*cookie = entry->next_cookie;
	}
	return stop;
}

static int readdir_batches(struct inode *dir, uint64_t cookie, const struct emitter *to, struct batch *batch)
{
	uint64_t start;
	int err, stop;

	do {
		start = cookie;
		err = batch_fill(dir, cookie, to->emit_plus != NULL, batch);
		if (err)
			return err;
		stop = batch_emit(batch, to, &cookie);
		if (to->emit_plus)
			batch_put_inodes(batch);
		if (batch->full && !stop && cookie == start)
			return INODE_ERROR(dir, -EUCLEAN, 0, "directory cookie %llu leads to itself",
					   (unsigned long long)start);
	} while (!stop && batch->used);
	return 0;
}

static int readdir_run(struct inode *dir, uint64_t cookie, const struct emitter *to)
{
	struct batch *batch;
	int err;

	if (!inode_is_dir(dir))
		return -ENOTDIR;
	batch = malloc(sizeof(*batch));
	if (!batch)
		return -ENOMEM;
	batch->limit = to->emit_plus ? BATCH_PLUS_BYTES : BATCH_BYTES;
	err = readdir_batches(dir, cookie, to, batch);
	free(batch);
	if (inode_needs_atime(dir))
		inode_stamp_lazy(dir, TIME_ATIME);
	return err;
}

int vfs_readdir(struct inode *dir, uint64_t cookie, int (*emit)(void *arg, const struct vfs_dirent *entry), void *arg)
{
	return readdir_run(dir, cookie, &(struct emitter){ .emit = emit, .arg = arg });
}

int vfs_readdir_plus(struct inode *dir, uint64_t cookie,
		     int (*emit)(void *arg, const struct vfs_dirent *entry, struct inode *inode), void *arg)
{
	return readdir_run(dir, cookie, &(struct emitter){ .emit_plus = emit, .arg = arg });
}
