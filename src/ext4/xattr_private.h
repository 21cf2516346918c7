/* SPDX-License-Identifier: MIT */
/* xattr_private.h - the two areas that hold xattrs: the inode's body and its block */
#ifndef UEXT4_EXT4_XATTR_PRIVATE_H
#define UEXT4_EXT4_XATTR_PRIVATE_H

#include "ext4/xattr.h"
#include "ext4/xattr_format.h"

/* An attribute's name as stored. */
struct xattr_name {
	uint8_t index;
	uint8_t len;
	const char *str; /* not NUL-terminated */
};

/* A new value; data NULL: the attribute goes. */
struct xattr_value {
	const void *data;
	size_t len_bytes;
};

/* ---- region: a verified run of entries and values, wherever it lies ---- */

struct xattr_region {
	const uint8_t *base; /* value offsets count from here */
	uint32_t first;      /* offset of the first entry */
	uint32_t size;       /* bytes from base to the end of the area; 0: there is no area */
	bool is_block;       /* sorted, with entry hashes */
};

/* NULL if sound, else the rule that is broken. Every other function relies on it having been called. */
const char *xattr_region_verify(const struct xattr_region *r);
/* Entry at or after @e (NULL: the first); NULL at the end. */
const struct ext4_xattr_entry *xattr_region_first(const struct xattr_region *r);
const struct ext4_xattr_entry *xattr_region_next(const struct xattr_region *r, const struct ext4_xattr_entry *e);
const struct ext4_xattr_entry *xattr_region_find(const struct xattr_region *r, const struct xattr_name *name);
const uint8_t *xattr_region_value(const struct xattr_region *r, const struct ext4_xattr_entry *e);
/**
 * xattr_region_rebuild() - @r with @name set to @value, compacted, into @dst
 * @dst: r->size bytes; those before r->first are left alone, the rest is written whole
 * @count_out: entries now in it
 * Return: 0; -ENOSPC (does not fit; @dst then holds nothing useful)
 */
int xattr_region_rebuild(const struct xattr_region *r, const struct xattr_name *name, const struct xattr_value *value,
			 uint8_t *dst, uint32_t *count_out);
/*
 * Hash over name and value, with the name's bytes unsigned. Kernels before 6.2 sign-extended them on most machines, so
 * hashes found on disk are not compared with this; whatever is written anew gets it.
 */
uint32_t xattr_entry_hash(const struct xattr_name *name, const uint8_t *value, uint32_t value_len);

/* ---- body ---- */

struct xattr_body {
	struct buffer_head *bh;     /* the inode's table block, referenced; NULL: the inode has no room for xattrs */
	uint32_t off;               /* of the body's xattr header in it */
	uint32_t bytes;             /* from there to the inode's end */
	struct xattr_region region; /* size 0: no header yet */
};

/* With a handle: access to change it is had. Put with xattr_body_put(). -EUCLEAN, -EBADMSG, -EIO, -ENOMEM, -EROFS */
int xattr_body_get(struct handle *h, struct inode *inode, struct xattr_body *body);
void xattr_body_put(struct xattr_body *body);
/* Writes the bytes; the caller's inode_write() makes the checksum. -ENOSPC, -ENOMEM */
int xattr_body_set(struct inode *inode, struct xattr_body *body, const struct xattr_name *name,
		   const struct xattr_value *value);

/* ---- block ---- */

struct xattr_block {
	struct buffer_head *bh;     /* NULL: the inode has none */
	struct xattr_region region;
};

int xattr_block_get(struct inode *inode, struct xattr_block *block);
void xattr_block_put(struct xattr_block *block);
/* In place, or in a new block if there is none or it is shared; frees it with the last attribute. Changes file_acl, i_blocks. */
int xattr_block_set(struct handle *h, struct inode *inode, struct xattr_block *block, const struct xattr_name *name,
		    const struct xattr_value *value);
/* The inode no longer refers to its block. */
int xattr_block_drop(struct handle *h, struct inode *inode);

/* Lookup by stored name, for ACLs: a malloc'd copy. -ENODATA. Caller: xattr_sem. */
int xattr_read_locked(struct inode *inode, const struct xattr_name *name, uint8_t **value_out, size_t *len_out);
/* xattr_set_handle() for a caller that holds xattr_sem exclusive. */
int xattr_set_locked(struct handle *h, struct inode *inode, const struct xattr_name *name, const struct xattr_value *value,
		     unsigned flags);

/* ---- ACLs: acl.c ---- */

/* NULL if sound, else the rule broken. */
const char *acl_verify(const struct acl *acl);
/* 0 and the permission bits if the ACL says no more than a mode can; 1 if it says more. */
int acl_to_mode(const struct acl *acl, uint16_t *mode_bits_out);
/* *acl_out NULL: no entries. -EINVAL, -EOPNOTSUPP (version), -ENOMEM */
int acl_from_xattr(const void *value, size_t len_bytes, struct acl **acl_out);
/* Length; with buf_bytes 0 only that. -ERANGE */
ssize_t acl_to_xattr(const struct acl *acl, void *buf, size_t buf_bytes);
/* -EUCLEAN, -ENOMEM */
int acl_from_disk(const void *value, size_t len_bytes, struct acl **acl_out);
/* malloc'd. -ENOMEM */
int acl_to_disk(const struct acl *acl, void **value_out, size_t *len_out);
struct acl *acl_clone(const struct acl *acl);
/* For system.posix_acl_*: gets the wire form, sets it with everything that follows. Locks as xattr_get() and xattr_set(). */
ssize_t acl_get_xattr(struct inode *inode, enum acl_type type, void *buf, size_t buf_bytes);
int acl_set_xattr(struct inode *inode, enum acl_type type, const void *value, size_t len_bytes, bool root_blocks);

#endif
