/* SPDX-License-Identifier: MIT */
/* acl_inode.c - ACLs of inodes: reading, setting, inheriting, following chmod */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/balloc.h"
#include "ext4/xattr_private.h"

static struct xattr_name acl_name(enum acl_type type)
{
	uint8_t index = type == ACL_ACCESS ? EXT4_XATTR_INDEX_POSIX_ACL_ACCESS : EXT4_XATTR_INDEX_POSIX_ACL_DEFAULT;

	return (struct xattr_name){ index, 0, "" };
}

/* ---- reading ---- */

/* Caller: xattr_sem. */
static int acl_read_locked(struct inode *inode, enum acl_type type, struct acl **acl_out)
{
	struct xattr_name name = acl_name(type);
	uint8_t *value;
	size_t len;
	int err;

	*acl_out = NULL;
	err = xattr_read_locked(inode, &name, &value, &len);
	if (err)
		return err == -ENODATA ? 0 : err;
	err = acl_from_disk(value, len, acl_out);
	free(value);
	if (err == -EUCLEAN)
		INODE_ERROR(inode, err, 0, "malformed %s ACL", type == ACL_ACCESS ? "access" : "default");
	return err;
}

int acl_read(struct inode *inode, enum acl_type type, struct acl **acl_out)
{
	int err;

	*acl_out = NULL;
	if (!inode->fs->opt.acl || S_ISLNK(inode->mode) || inode_test(inode, INODE_NO_ACL | INODE_NO_XATTR))
		return 0;
	rwsem_read_lock(&inode->xattr_sem);
	err = acl_read_locked(inode, type, acl_out);
	rwsem_read_unlock(&inode->xattr_sem);
	return err;
}

ssize_t acl_get_xattr(struct inode *inode, enum acl_type type, void *buf, size_t buf_bytes)
{
	struct acl *acl;
	ssize_t ret;

	if (S_ISLNK(inode->mode))
		return -EOPNOTSUPP;
	ret = acl_read(inode, type, &acl);
	if (ret)
		return ret;
	if (!acl)
		return -ENODATA;
	ret = acl_to_xattr(acl, buf, buf_bytes);
	free(acl);
	return ret;
}

/* ---- setting ---- */

/* @acl NULL: removes. */
static int acl_store(struct handle *h, struct inode *inode, enum acl_type type, const struct acl *acl)
{
	struct xattr_name name = acl_name(type);
	void *value = NULL;
	size_t len = 0;
	int err = 0;

	if (acl)
		err = acl_to_disk(acl, &value, &len);
	if (!err)
		err = xattr_set_handle(h, inode, name.index, name.str, name.len, value, len, 0);
	free(value);
	return err;
}

/* The mode shows what an access ACL grants; one that grants no more than a mode can is not stored. */
static int acl_apply(struct handle *h, struct inode *inode, enum acl_type type, const struct acl *acl)
{
	uint16_t mode = inode->mode, bits;
	int err;

	if (type == ACL_ACCESS && acl) {
		if (!acl_to_mode(acl, &bits))
			acl = NULL;
		mode = (uint16_t)((mode & ~(S_IRWXU | S_IRWXG | S_IRWXO)) | bits);
	}
	err = acl_store(h, inode, type, acl);
	if (err || mode == inode->mode)
		return err;
	inode->mode = mode;
	inode_stamp(inode, TIME_CTIME);
	return inode_write(h, inode);
}

static int acl_set_once(struct inode *inode, enum acl_type type, const struct acl *acl, bool root_blocks)
{
	struct handle h;
	int err, stop_err;

	err = fs_handle_start_for(inode->fs, root_blocks, XATTR_CREDITS, XATTR_REVOKES, &h);
	if (err)
		return err;
	err = acl_apply(&h, inode, type, acl);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

int acl_set_xattr(struct inode *inode, enum acl_type type, const void *value, size_t len_bytes, bool root_blocks)
{
	struct acl *acl = NULL;
	int err, retries = 0;

	if (S_ISLNK(inode->mode))
		return -EOPNOTSUPP;
	if (value) {
		err = acl_from_xattr(value, len_bytes, &acl);
		if (err)
			return err;
	}
	if (type == ACL_DEFAULT && !inode_is_dir(inode)) {
		err = acl ? -EACCES : 0;
	} else {
		do {
			err = acl_set_once(inode, type, acl, root_blocks);
		} while (err == -ENOSPC && balloc_should_retry(inode->fs, &retries) > 0);
	}
	free(acl);
	return err;
}

/* ---- inheriting ---- */

static uint16_t *class_perm(struct acl *acl, uint16_t tag)
{
	uint32_t i;

	for (i = 0; i < acl->count; i++)
		if (acl->entry[i].tag == tag)
			return &acl->entry[i].perm;
	return NULL;
}

/* Keeps what both @perm and the class's three bits of @mode at @shift allow, in both. */
static void class_intersect(uint16_t *perm, uint16_t *mode, unsigned shift)
{
	uint16_t both = (uint16_t)(*perm & (*mode >> shift) & 7);

	*perm = both;
	*mode = (uint16_t)((*mode & ~(7u << shift)) | (unsigned)both << shift);
}

/* The default ACL of a directory as the access ACL of something new in it that was asked for with @mode. */
static void acl_mask_by_mode(struct acl *acl, uint16_t *mode)
{
	uint16_t *group = class_perm(acl, ACL_TAG_MASK);

	if (!group)
		group = class_perm(acl, ACL_TAG_GROUP_OBJ);
	class_intersect(class_perm(acl, ACL_TAG_USER_OBJ), mode, 6);
	class_intersect(group, mode, 3);
	class_intersect(class_perm(acl, ACL_TAG_OTHER), mode, 0);
}

static int acl_inherit(struct handle *h, struct inode *inode, const struct acl *def)
{
	struct acl *access = acl_clone(def);
	uint16_t mode = inode->mode, bits;
	int err = 0;

	if (!access)
		return -ENOMEM;
	acl_mask_by_mode(access, &mode);
	inode->mode = mode;
	if (inode_is_dir(inode))
		err = acl_store(h, inode, ACL_DEFAULT, def);
	if (!err && acl_to_mode(access, &bits))
		err = acl_store(h, inode, ACL_ACCESS, access);
	free(access);
	return err;
}

int acl_init_inode(struct handle *h, struct inode *dir, struct inode *inode, uint16_t umask)
{
	struct acl *def;
	int err;

	if (S_ISLNK(inode->mode))
		return 0;
	err = acl_read(dir, ACL_DEFAULT, &def);
	if (err)
		return err;
	if (!def) {
		inode->mode &= (uint16_t)~(umask & (S_IRWXU | S_IRWXG | S_IRWXO));
		return 0;
	}
	err = acl_inherit(h, inode, def);
	free(def);
	return err;
}

uint32_t acl_init_credits(struct inode *dir)
{
	struct acl *def;
	uint32_t credits = 0;

	if (!acl_read(dir, ACL_DEFAULT, &def) && def)
		credits = 2 * XATTR_CREDITS;
	free(def);
	return credits;
}

/* ---- chmod ---- */

int acl_chmod(struct handle *h, struct inode *inode)
{
	uint16_t *group, mode = inode->mode;
	struct acl *acl;
	int err;

	err = acl_read(inode, ACL_ACCESS, &acl);
	if (err || !acl)
		return err;
	group = class_perm(acl, ACL_TAG_MASK);
	if (!group)
		group = class_perm(acl, ACL_TAG_GROUP_OBJ);
	*class_perm(acl, ACL_TAG_USER_OBJ) = (mode >> 6) & 7;
	*group = (mode >> 3) & 7;
	*class_perm(acl, ACL_TAG_OTHER) = mode & 7;
	err = acl_store(h, inode, ACL_ACCESS, acl);
	free(acl);
	return err;
}
