/* SPDX-License-Identifier: MIT */
/* api_private.h - between the public structures and vfs's */
#ifndef UEXT4_API_API_PRIVATE_H
#define UEXT4_API_API_PRIVATE_H

#include "uext4.h"
#include "vfs/vfs.h"

struct uext4_fs {
	struct vfs *vfs;
};

/* The caller as vfs sees him. NULL: the superuser. */
struct vfs_cred api_cred(const struct uext4_fs *fs, const struct uext4_cred *cred);
void api_attr_out(const struct vfs_attr *from, struct uext4_attr *to);
void api_attr_in(const struct uext4_attr *from, struct vfs_attr *to);
void api_getattr(struct inode *inode, struct uext4_attr *attr_out);

struct block_device_ops;
/* A device over the caller's functions. */
int api_device_open(const struct uext4_device_ops *ops, void *device, uint64_t size_bytes,
		    struct block_device **dev_out);

#endif
