/* SPDX-License-Identifier: MIT */
/* file.c - calls on open files */
#include <stdlib.h>

#include "api/api_private.h"
#include "vfs/open_file.h"

/* The public handle is vfs's file under another name. */
static struct vfs_file *vfs_file_of(struct uext4_file *file)
{
	return (struct vfs_file *)file;
}

int uext4_open(struct uext4_fs *fs, const struct uext4_cred *cred, const char *path, int flags, mode_t mode,
	       struct uext4_file **file_out)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct vfs_file *file;
	int err = vfs_file_open(fs->vfs, &who, path, flags, mode, &file);

	if (!err)
		*file_out = (struct uext4_file *)file;
	return err;
}

int uext4_close(struct uext4_file *file)
{
	return vfs_file_close(vfs_file_of(file));
}

uext4_ino uext4_file_ino(const struct uext4_file *file)
{
	return ((const struct vfs_file *)file)->inode->ino;
}

ssize_t uext4_preadv(struct uext4_file *file, const struct iovec *iov, int iov_count, off_t pos)
{
	return vfs_file_preadv(vfs_file_of(file), iov, iov_count, pos);
}

ssize_t uext4_pwritev(struct uext4_file *file, const struct iovec *iov, int iov_count, off_t pos)
{
	return vfs_file_pwritev(vfs_file_of(file), iov, iov_count, pos);
}

ssize_t uext4_pread(struct uext4_file *file, void *buf, size_t len_bytes, off_t pos)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len_bytes };

	return vfs_file_preadv(vfs_file_of(file), &iov, 1, pos);
}

ssize_t uext4_pwrite(struct uext4_file *file, const void *buf, size_t len_bytes, off_t pos)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len_bytes };

	return vfs_file_pwritev(vfs_file_of(file), &iov, 1, pos);
}

ssize_t uext4_read(struct uext4_file *file, void *buf, size_t len_bytes)
{
	return vfs_file_read(vfs_file_of(file), buf, len_bytes);
}

ssize_t uext4_write(struct uext4_file *file, const void *buf, size_t len_bytes)
{
	return vfs_file_write(vfs_file_of(file), buf, len_bytes);
}

off_t uext4_lseek(struct uext4_file *file, off_t offset, int whence)
{
	return vfs_file_seek(vfs_file_of(file), offset, whence);
}

int uext4_fsync(struct uext4_file *file)
{
	return vfs_file_fsync(vfs_file_of(file), false);
}

int uext4_fdatasync(struct uext4_file *file)
{
	return vfs_file_fsync(vfs_file_of(file), true);
}

int uext4_ftruncate(struct uext4_file *file, off_t size)
{
	return vfs_file_truncate(vfs_file_of(file), size);
}

int uext4_fallocate(struct uext4_file *file, int mode, off_t pos, off_t len)
{
	return vfs_file_fallocate(vfs_file_of(file), mode, pos, len);
}

int uext4_fstat(struct uext4_file *file, struct uext4_attr *attr_out)
{
	api_getattr(vfs_file_of(file)->inode, attr_out);
	return 0;
}
