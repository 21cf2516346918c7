/* SPDX-License-Identifier: MIT */
/* fs.c - small things that all parts of a mounted file system use */
#include "ext4/fs.h"

#include <errno.h>
#include <time.h>

#include "base/checksum.h"
#include "ext4/inode_format.h"

uint32_t fs_csum(const struct ext4_fs *fs, uint32_t seed, const void *data, size_t len)
{
	return crc32c(seed, data, len);
}

struct timespec fs_now(const struct ext4_fs *fs)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (fs->inode_bytes == EXT4_INODE_BYTES_MIN)
		now.tv_nsec = 0; /* what cannot be stored is not shown either */
	return now;
}

int fs_handle_start(struct ext4_fs *fs, uint32_t credits, uint32_t revokes, struct handle *h)
{
	if (unlikely(atomic_load_explicit(&fs->shutdown, memory_order_relaxed)))
		return -EIO;
	if (unlikely(fs_is_read_only(fs)))
		return -EROFS;
	return journal_start(fs->journal, credits, revokes, h);
}

int fs_handle_start_for(struct ext4_fs *fs, bool root_blocks, uint32_t credits, uint32_t revokes, struct handle *h)
{
	int err = fs_handle_start(fs, credits, revokes, h);

	if (!err)
		h->limited = !root_blocks;
	return err;
}
