/* SPDX-License-Identifier: MIT */
/* xattr.h - extended attributes in the inode body and in one block; POSIX ACLs */
#ifndef UEXT4_EXT4_XATTR_H
#define UEXT4_EXT4_XATTR_H

#include "ext4/inode.h"

#define XATTR_FLAG_CREATE  1u
#define XATTR_FLAG_REPLACE 2u
#define XATTR_FLAG_ROOT_BLOCKS 0x100u /* the caller may take the blocks kept for root */

/* @name with its prefix ("user.x", "system.posix_acl_access" ...). Takes xattr_sem. */
/* Value length with buf_bytes 0; -ERANGE too small; -ENODATA; -EOPNOTSUPP unknown prefix. */
ssize_t xattr_get(struct inode *inode, const char *name, void *buf, size_t buf_bytes);
/* NUL-separated names. */
ssize_t xattr_list(struct inode *inode, char *buf, size_t buf_bytes);
/* value NULL removes. Starts its own handle, stamps ctime. -EEXIST, -ENODATA, -ENOSPC (no room), -ERANGE (name), -E2BIG. inode->rwsem exclusive.
 * system.* other than the ACLs: -EOPNOTSUPP, as Linux.
 * system.posix_acl_*: checked, converted from the xattr wire form (version 2) to the disk form (version 1); an access ACL sets mode bits as Linux does. */
int xattr_set(struct inode *inode, const char *name, const void *value, size_t len_bytes, unsigned flags);
/* The same inside an open handle with XATTR_CREDITS; index is the on-disk prefix index. Removing what is not there: 0, or -ENODATA with REPLACE. */
#define XATTR_CREDITS 12u
#define XATTR_REVOKES 1u /* where the change may free the block: removal, or a move into the body */
int xattr_set_handle(struct handle *h, struct inode *inode, uint8_t index, const char *name, size_t name_len,
		     const void *value, size_t len_bytes, unsigned flags);
/* Frees the xattr block (shared ones: drops a reference) when an inode is freed. */
int xattr_free_all(struct handle *h, struct inode *inode);

/* ---- ACLs ---- */
struct acl_entry { uint16_t tag, perm; uint32_t id; };
struct acl { uint32_t count; struct acl_entry entry[]; }; /* malloc'd */
enum acl_type { ACL_ACCESS, ACL_DEFAULT };
/* NULL in *acl_out: none. Caller frees. */
int acl_read(struct inode *inode, enum acl_type type, struct acl **acl_out);
/* For a new inode inside its handle: applies the parent's default ACL or the umask to inode->mode and stores inherited ACLs. inode->mode holds the asked mode. */
int acl_init_inode(struct handle *h, struct inode *dir, struct inode *inode, uint16_t umask);
/* Finds out, before the number is claimed, how many credits that needs. */
uint32_t acl_init_credits(struct inode *dir);
/* After chmod: rewrites the access ACL's owner/mask/other. */
int acl_chmod(struct handle *h, struct inode *inode);
/* Linux's check: 0 or -EACCES; want is bits 4 read 2 write 1 execute. */
int acl_permission(const struct acl *acl, const struct inode *inode, uint32_t uid, const uint32_t *gids, uint32_t gid_count, unsigned want);

#endif
