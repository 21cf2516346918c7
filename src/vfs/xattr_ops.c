/* SPDX-License-Identifier: MIT */
/* xattr_ops.c - extended attributes, with their name spaces' rules */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/xattr.h"
#include "vfs/vfs.h"

#define XATTR_NAME_BYTES_MAX 255u
#define XATTR_VALUE_BYTES_MAX 65536u

static int check_name(const char *name)
{
	size_t len = strnlen(name, XATTR_NAME_BYTES_MAX + 1);

	return len == 0 || len > XATTR_NAME_BYTES_MAX ? -ERANGE : 0;
}

ssize_t vfs_getxattr(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, const char *name, void *buf,
		     size_t buf_bytes)
{
	int err = check_name(name);

	if (!err)
		err = perm_xattr(cred, inode, name, MAY_READ);
	return err ? err : xattr_get(inode, name, buf, buf_bytes);
}

/* Without the names that only root may see. Returns the bytes left. */
static size_t hide_trusted(char *names, size_t len)
{
	size_t kept = 0, at = 0;

	while (at < len) {
		size_t bytes = strnlen(names + at, len - at - 1) + 1;

		if (strncmp(names + at, "trusted.", strlen("trusted.")) != 0) {
			memmove(names + kept, names + at, bytes);
			kept += bytes;
		}
		at += bytes;
	}
	return kept;
}

/* The names as root sees them, malloc'd. They may become more between asking for the length and for the names. */
static ssize_t list_all(struct inode *inode, char **names_out)
{
	for (;;) {
		ssize_t len = xattr_list(inode, NULL, 0);
		char *names;

		if (len <= 0)
			return len;
		names = malloc((size_t)len);
		if (!names)
			return -ENOMEM;
		len = xattr_list(inode, names, (size_t)len);
		if (len >= 0) {
			*names_out = names;
			return len;
		}
		free(names);
		if (len != -ERANGE)
			return len;
	}
}

ssize_t vfs_listxattr(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, char *buf, size_t buf_bytes)
{
	char *names = NULL;
	ssize_t len;

	if (cred->is_root)
		return xattr_list(inode, buf, buf_bytes);
	len = list_all(inode, &names);
	if (len > 0)
		len = (ssize_t)hide_trusted(names, (size_t)len);
	if (len > 0 && buf_bytes) {
		if ((size_t)len > buf_bytes)
			len = -ERANGE;
		else
			memcpy(buf, names, (size_t)len);
	}
	free(names);
	return len;
}

int vfs_setxattr(struct vfs *vfs, const struct vfs_cred *cred, struct inode *inode, const char *name,
		 const void *value, size_t len_bytes, unsigned flags)
{
	int err = check_name(name);

	if (err)
		return err;
	if (flags & ~(XATTR_FLAG_CREATE | XATTR_FLAG_REPLACE))
		return -EINVAL;
	if (len_bytes > XATTR_VALUE_BYTES_MAX)
		return -E2BIG;
	rwsem_write_lock(&inode->rwsem);
	err = perm_xattr(cred, inode, name, MAY_WRITE);
	if (!err && cred_has_root_blocks(cred, inode->fs))
		flags |= XATTR_FLAG_ROOT_BLOCKS;
	if (!err)
		err = xattr_set(inode, name, value, len_bytes, flags);
	rwsem_write_unlock(&inode->rwsem);
	return err;
}
