/* SPDX-License-Identifier: MIT */
/* file_splice.c - out of the page cache of an image file into a pipe */
#include <errno.h>
#include <fcntl.h>

#include "block/file_private.h"

/* With O_DIRECT there is no page cache to refer to: the kernel would read into new pages, which is no gain. */
ssize_t file_splice(struct block_device *dev, uint64_t pos_bytes, uint64_t len_bytes, int pipe_fd)
{
	struct file_device *file = file_of(dev);
	loff_t pos = (loff_t)pos_bytes;
	ssize_t moved;

	if (file->direct)
		return -EOPNOTSUPP;
	do {
		moved = splice(file->fd, &pos, pipe_fd, NULL, len_bytes, SPLICE_F_NONBLOCK);
	} while (moved < 0 && errno == EINTR);
	if (moved < 0)
		return errno == EINVAL ? -EOPNOTSUPP : -errno; /* a file system without it */
	return moved ? moved : -EIO; /* the file ends before its size at opening: somebody truncated it */
}
