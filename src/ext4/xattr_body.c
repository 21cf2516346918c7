/* SPDX-License-Identifier: MIT */
/* xattr_body.c - xattrs in the inode's own slot of the inode table, behind its fields */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/inode_format.h"
#include "ext4/xattr_private.h"

/* The region counts from the first entry, right behind the magic. */
static int body_region(struct inode *inode, struct xattr_body *body)
{
	const uint8_t *start = body->bh->data + body->off;
	const char *broken;
	le32 magic;

	memcpy(&magic, start, sizeof(magic));
	if (le32_get(magic) != EXT4_XATTR_MAGIC)
		return 0;
	body->region = (struct xattr_region){ .base = start + EXT4_XATTR_BODY_HEADER_BYTES,
					      .size = body->bytes - EXT4_XATTR_BODY_HEADER_BYTES };
	broken = xattr_region_verify(&body->region);
	if (broken)
		return INODE_ERROR(inode, -EUCLEAN, body->bh->blk, "xattrs in the inode: %s", broken);
	return 0;
}

int xattr_body_get(struct handle *h, struct inode *inode, struct xattr_body *body)
{
	uint32_t fields = EXT4_INODE_BYTES_MIN + inode->extra_isize;
	int err;

	*body = (struct xattr_body){ 0 };
	if (!inode->extra_isize ||
	    fields + EXT4_XATTR_BODY_HEADER_BYTES + EXT4_XATTR_END_BYTES > inode->fs->inode_bytes)
		return 0;
	if (h)
		err = inode_raw_access(h, inode, &body->bh, &body->off);
	else if (inode_test(inode, INODE_NEW) && !inode_test(inode, INODE_RAW_CLEARED))
		return 0; /* whatever is in the slot is not this inode's */
	else
		err = inode_table_block(inode->fs, inode->ino, &body->bh, &body->off);
	if (err)
		return err;
	body->off += fields;
	body->bytes = inode->fs->inode_bytes - fields;
	err = body_region(inode, body);
	if (err)
		xattr_body_put(body);
	return err;
}

void xattr_body_put(struct xattr_body *body)
{
	buffer_put(body->bh);
	body->bh = NULL;
}

int xattr_body_set(struct inode *inode, struct xattr_body *body, const struct xattr_name *name,
		   const struct xattr_value *value)
{
	struct xattr_region *r = &body->region;
	le32 magic = le32_make(EXT4_XATTR_MAGIC);
	uint8_t *bytes;
	uint32_t count;
	int err;

	if (!body->bh)
		return -ENOSPC;
	bytes = calloc(1, body->bytes);
	if (!bytes)
		return -ENOMEM;
	if (!r->size) /* an empty area over the copy's zero bytes */
		*r = (struct xattr_region){ .base = bytes + EXT4_XATTR_BODY_HEADER_BYTES,
					    .size = body->bytes - EXT4_XATTR_BODY_HEADER_BYTES };
	err = xattr_region_rebuild(r, name, value, bytes + EXT4_XATTR_BODY_HEADER_BYTES, &count);
	if (!err) {
		if (count)
			memcpy(bytes, &magic, sizeof(magic));
		buffer_lock(body->bh);
		memcpy(body->bh->data + body->off, bytes, body->bytes);
		buffer_unlock(body->bh);
		if (count)
			inode_set(inode, INODE_XATTR_IN_BODY);
		else
			inode_clear(inode, INODE_XATTR_IN_BODY);
	}
	free(bytes);
	*r = (struct xattr_region){ 0 };
	return err;
}
