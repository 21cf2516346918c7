/* SPDX-License-Identifier: MIT */
/* symlink.c - targets of symbolic links: in i_block when they fit, else in blocks */
#include <errno.h>
#include <string.h>

#include "ext4/file.h"
#include "ext4/map.h"

#define PATH_MAX_BYTES 4096u /* as PATH_MAX of Linux, the NUL included */

/* Bytes of the target in block @lblk. */
static int read_block(struct inode *inode, lblk_t lblk, char *buf, size_t len_bytes)
{
	struct buffer_head *bh;
	int err;

	err = inode_block_read(inode, lblk, &bh);
	if (err)
		return err;
	if (!bh)
		return INODE_ERROR(inode, -EUCLEAN, 0, "symlink: target has a hole");
	memcpy(buf, bh->data, len_bytes);
	buffer_put(bh);
	return 0;
}

static int read_slow(struct inode *inode, char *buf, size_t len_bytes)
{
	size_t off, n;
	int err;

	for (off = 0; off < len_bytes; off += n) {
		n = min_of(len_bytes - off, (size_t)inode->fs->block_bytes);
		err = read_block(inode, (lblk_t)(off / inode->fs->block_bytes), buf + off, n);
		if (err)
			return err;
	}
	return 0;
}

int symlink_read(struct inode *inode, char *buf, size_t buf_bytes, size_t *len_out)
{
	uint64_t len = inode_size(inode);
	int err = 0;

	if (!S_ISLNK(inode->mode))
		return -EINVAL;
	if (len == 0 || len >= PATH_MAX_BYTES)
		return INODE_ERROR(inode, -EUCLEAN, 0, "symlink: bad length %llu", (unsigned long long)len);
	if (len >= buf_bytes)
		return -ENAMETOOLONG;
	if (inode_is_fast_symlink(inode))
		memcpy(buf, inode->i_block, len);
	else
		err = read_slow(inode, buf, len);
	if (err)
		return err;
	buf[len] = '\0';
	*len_out = strlen(buf); /* the kernel stops at the first NUL too */
	return 0;
}
