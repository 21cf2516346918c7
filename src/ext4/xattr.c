/* SPDX-License-Identifier: MIT */
/*
 * xattr.c - extended attributes by name
 *
 * An attribute lives in the inode's body if it fits there, else in the block; setting it anew moves it to the body when
 * it fits by then, or out of it when it no longer does, as Linux does. inode.xattr_sem covers both places.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/balloc.h"
#include "ext4/super.h"
#include "ext4/xattr_private.h"

/* As the system calls limit them. */
#define VALUE_BYTES_MAX 65536u
#define NAME_BYTES_MAX  255u

enum prefix_kind { PREFIX_PLAIN, PREFIX_USER, PREFIX_ACL };

/* @text is the prefix, or the whole name for ACLs. Plain system.* is the file system's own: not for callers. */
static const struct prefix {
	uint8_t index;
	enum prefix_kind kind;
	const char *text;
} prefixes[] = {
	{ EXT4_XATTR_INDEX_USER, PREFIX_USER, "user." },
	{ EXT4_XATTR_INDEX_POSIX_ACL_ACCESS, PREFIX_ACL, "system.posix_acl_access" },
	{ EXT4_XATTR_INDEX_POSIX_ACL_DEFAULT, PREFIX_ACL, "system.posix_acl_default" },
	{ EXT4_XATTR_INDEX_TRUSTED, PREFIX_PLAIN, "trusted." },
	{ EXT4_XATTR_INDEX_SECURITY, PREFIX_PLAIN, "security." },
	{ EXT4_XATTR_INDEX_HURD, PREFIX_PLAIN, "gnu." },
};

static bool prefix_is_on(const struct ext4_fs *fs, const struct prefix *p)
{
	if (p->kind == PREFIX_USER)
		return fs->opt.user_xattr;
	return p->kind != PREFIX_ACL || fs->opt.acl;
}

static int name_parse(const struct ext4_fs *fs, const char *text, const struct prefix **prefix_out,
		      struct xattr_name *name_out)
{
	size_t len = strlen(text), i;

	if (!len || len > NAME_BYTES_MAX)
		return -ERANGE;
	for (i = 0; i < ARRAY_SIZE(prefixes); i++) {
		const struct prefix *p = &prefixes[i];
		size_t n = strlen(p->text);

		if (strncmp(text, p->text, n) || (p->kind == PREFIX_ACL && len > n))
			continue;
		if (!prefix_is_on(fs, p))
			return -EOPNOTSUPP;
		if (p->kind != PREFIX_ACL && len == n)
			return -EINVAL; /* a prefix alone */
		*prefix_out = p;
		*name_out = (struct xattr_name){ p->index, (uint8_t)(len - n), text + n };
		return 0;
	}
	return -EOPNOTSUPP;
}

static enum acl_type acl_type_of(const struct prefix *p)
{
	return p->index == EXT4_XATTR_INDEX_POSIX_ACL_ACCESS ? ACL_ACCESS : ACL_DEFAULT;
}

/* ---- both places together ---- */

struct xattr_places {
	struct xattr_body body;
	struct xattr_block block;
};

static int places_get(struct handle *h, struct inode *inode, struct xattr_places *p)
{
	int err;

	p->block = (struct xattr_block){ 0 };
	err = xattr_body_get(h, inode, &p->body);
	if (err)
		return err;
	err = xattr_block_get(inode, &p->block);
	if (err)
		xattr_body_put(&p->body);
	return err;
}

static void places_put(struct xattr_places *p)
{
	xattr_block_put(&p->block);
	xattr_body_put(&p->body);
}

static const struct ext4_xattr_entry *places_find(const struct xattr_places *p, const struct xattr_name *name,
						  const struct xattr_region **region_out)
{
	const struct ext4_xattr_entry *e;

	*region_out = &p->body.region;
	e = xattr_region_find(*region_out, name);
	if (e)
		return e;
	*region_out = &p->block.region;
	return xattr_region_find(*region_out, name);
}

/* Notes what is known to be absent, so that the next question needs no look. Readers share xattr_sem; writers clear it. */
static void note_absent(struct inode *inode, const struct xattr_places *p)
{
	static const struct xattr_name access = { EXT4_XATTR_INDEX_POSIX_ACL_ACCESS, 0, "" };
	static const struct xattr_name def = { EXT4_XATTR_INDEX_POSIX_ACL_DEFAULT, 0, "" };
	const struct xattr_region *region;

	if (!xattr_region_first(&p->body.region) && !xattr_region_first(&p->block.region))
		inode_set(inode, INODE_NO_XATTR | INODE_NO_ACL);
	else if (!places_find(p, &access, &region) && !places_find(p, &def, &region))
		inode_set(inode, INODE_NO_ACL);
}

/* ---- get and list ---- */

static bool known_absent(const struct inode *inode, const struct xattr_name *name)
{
	if (inode_test(inode, INODE_NO_XATTR))
		return true;
	return (name->index == EXT4_XATTR_INDEX_POSIX_ACL_ACCESS || name->index == EXT4_XATTR_INDEX_POSIX_ACL_DEFAULT) &&
	       inode_test(inode, INODE_NO_ACL);
}

static ssize_t value_copy(const struct xattr_region *r, const struct ext4_xattr_entry *e, void *buf, size_t buf_bytes)
{
	uint32_t len = le32_get(e->e_value_size);

	if (!buf_bytes)
		return len;
	if (len > buf_bytes)
		return -ERANGE;
	memcpy(buf, xattr_region_value(r, e), len);
	return len;
}

static ssize_t get_locked(struct inode *inode, const struct xattr_name *name, void *buf, size_t buf_bytes)
{
	const struct ext4_xattr_entry *e;
	const struct xattr_region *region;
	struct xattr_places places;
	ssize_t ret;

	ret = places_get(NULL, inode, &places);
	if (ret)
		return ret;
	e = places_find(&places, name, &region);
	if (e) {
		ret = value_copy(region, e, buf, buf_bytes);
	} else {
		note_absent(inode, &places);
		ret = -ENODATA;
	}
	places_put(&places);
	return ret;
}

ssize_t xattr_get(struct inode *inode, const char *text, void *buf, size_t buf_bytes)
{
	const struct prefix *prefix;
	struct xattr_name name;
	ssize_t ret;

	ret = name_parse(inode->fs, text, &prefix, &name);
	if (ret)
		return ret;
	if (prefix->kind == PREFIX_ACL)
		return acl_get_xattr(inode, acl_type_of(prefix), buf, buf_bytes);
	if (known_absent(inode, &name))
		return -ENODATA;
	rwsem_read_lock(&inode->xattr_sem);
	ret = get_locked(inode, &name, buf, buf_bytes);
	rwsem_read_unlock(&inode->xattr_sem);
	return ret;
}

int xattr_read_locked(struct inode *inode, const struct xattr_name *name, uint8_t **value_out, size_t *len_out)
{
	ssize_t len;

	if (known_absent(inode, name))
		return -ENODATA;
	len = get_locked(inode, name, NULL, 0);
	if (len < 0)
		return (int)len;
	*value_out = malloc((size_t)len + 1); /* of no length, too */
	if (!*value_out)
		return -ENOMEM;
	len = get_locked(inode, name, *value_out, (size_t)len + 1);
	if (len < 0) {
		free(*value_out);
		return (int)len;
	}
	*len_out = (size_t)len;
	return 0;
}

static const struct prefix *prefix_of_index(const struct ext4_fs *fs, uint8_t index)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (prefixes[i].index == index)
			return prefix_is_on(fs, &prefixes[i]) ? &prefixes[i] : NULL;
	return NULL;
}

/* Appends the region's names to @buf at @at; with buf_bytes 0 only counts. */
static ssize_t list_region(const struct ext4_fs *fs, const struct xattr_region *r, char *buf, size_t buf_bytes, size_t at)
{
	const struct ext4_xattr_entry *e;

	for (e = xattr_region_first(r); e; e = xattr_region_next(r, e)) {
		const struct prefix *p = prefix_of_index(fs, e->e_name_index);
		size_t prefix_len, name_len;

		if (!p)
			continue;
		prefix_len = strlen(p->text);
		name_len = p->kind == PREFIX_ACL ? 0 : e->e_name_len;
		if (buf_bytes) {
			if (at + prefix_len + name_len + 1 > buf_bytes)
				return -ERANGE;
			memcpy(buf + at, p->text, prefix_len);
			memcpy(buf + at + prefix_len, e->e_name, name_len);
			buf[at + prefix_len + name_len] = 0;
		}
		at += prefix_len + name_len + 1;
	}
	return (ssize_t)at;
}

static ssize_t list_locked(struct inode *inode, char *buf, size_t buf_bytes)
{
	struct xattr_places places;
	ssize_t ret;

	ret = places_get(NULL, inode, &places);
	if (ret)
		return ret;
	note_absent(inode, &places);
	ret = list_region(inode->fs, &places.body.region, buf, buf_bytes, 0);
	if (ret >= 0)
		ret = list_region(inode->fs, &places.block.region, buf, buf_bytes, (size_t)ret);
	places_put(&places);
	return ret;
}

ssize_t xattr_list(struct inode *inode, char *buf, size_t buf_bytes)
{
	ssize_t ret;

	if (inode_test(inode, INODE_NO_XATTR))
		return 0;
	rwsem_read_lock(&inode->xattr_sem);
	ret = list_locked(inode, buf, buf_bytes);
	rwsem_read_unlock(&inode->xattr_sem);
	return ret;
}

/* ---- set ---- */

static bool value_is(const struct xattr_region *r, const struct ext4_xattr_entry *e, const struct xattr_value *value)
{
	return le32_get(e->e_value_size) == value->len_bytes &&
	       !memcmp(xattr_region_value(r, e), value->data, value->len_bytes);
}

static int remove_from(struct handle *h, struct inode *inode, struct xattr_places *p, const struct xattr_name *name,
		       bool from_block)
{
	struct xattr_value none = { NULL, 0 };

	if (from_block)
		return xattr_block_set(h, inode, &p->block, name, &none);
	return xattr_body_set(inode, &p->body, name, &none);
}

/* Body first; a value that does not fit goes to the block. The other place loses what it had. */
static int store(struct handle *h, struct inode *inode, struct xattr_places *p, const struct xattr_name *name,
		 const struct xattr_value *value)
{
	bool in_body = xattr_region_find(&p->body.region, name), in_block = xattr_region_find(&p->block.region, name);
	int err;

	if (!value->data)
		return remove_from(h, inode, p, name, !in_body);
	err = xattr_body_set(inode, &p->body, name, value);
	if (!err)
		return in_block ? remove_from(h, inode, p, name, true) : 0;
	if (err != -ENOSPC)
		return err;
	err = xattr_block_set(h, inode, &p->block, name, value);
	if (err || !in_body)
		return err;
	xattr_body_put(&p->body);
	err = xattr_body_get(h, inode, &p->body);
	return err ? err : remove_from(h, inode, p, name, false);
}

/* The first attribute of an image makes it one that has them. */
static int mark_super(struct handle *h, struct ext4_fs *fs)
{
	if (fs_has_compat(fs, EXT4_FEATURE_COMPAT_EXT_ATTR))
		return 0;
	return super_set_compat(h, fs, EXT4_FEATURE_COMPAT_EXT_ATTR);
}

static int set_in_places(struct handle *h, struct inode *inode, struct xattr_places *p, const struct xattr_name *name,
			 const struct xattr_value *value, unsigned flags)
{
	const struct xattr_region *region;
	const struct ext4_xattr_entry *e = places_find(p, name, &region);
	int err;

	if (!e && flags & XATTR_FLAG_REPLACE)
		return -ENODATA;
	if (e && flags & XATTR_FLAG_CREATE)
		return -EEXIST;
	if (e ? value->data && value_is(region, e, value) : !value->data)
		return 0; /* nothing changes */
	inode_clear(inode, INODE_NO_XATTR | INODE_NO_ACL);
	err = store(h, inode, p, name, value);
	if (!err && value->data)
		err = mark_super(h, inode->fs);
	if (err)
		return err;
	if (!inode_test(inode, INODE_NEW))
		inode_stamp(inode, TIME_CTIME);
	return inode_write(h, inode);
}

int xattr_set_locked(struct handle *h, struct inode *inode, const struct xattr_name *name, const struct xattr_value *value,
		     unsigned flags)
{
	struct xattr_places places;
	int err;

	lock_assert_held(&inode->xattr_sem);
	err = places_get(h, inode, &places);
	if (err)
		return err;
	err = set_in_places(h, inode, &places, name, value, flags);
	places_put(&places);
	return err;
}

int xattr_set_handle(struct handle *h, struct inode *inode, uint8_t index, const char *text, size_t name_len,
		     const void *value, size_t len_bytes, unsigned flags)
{
	struct xattr_name name = { index, (uint8_t)name_len, text };
	struct xattr_value v = { value, len_bytes };
	int err;

	if (name_len > NAME_BYTES_MAX)
		return -ERANGE;
	rwsem_write_lock(&inode->xattr_sem);
	err = xattr_set_locked(h, inode, &name, &v, flags);
	rwsem_write_unlock(&inode->xattr_sem);
	return err;
}

static int set_once(struct inode *inode, const struct xattr_name *name, const void *value, size_t len_bytes,
		    unsigned flags)
{
	struct handle h;
	int err, stop_err;

	err = fs_handle_start_for(inode->fs, flags & XATTR_FLAG_ROOT_BLOCKS, XATTR_CREDITS, XATTR_REVOKES, &h);
	if (err)
		return err;
	err = xattr_set_handle(&h, inode, name->index, name->str, name->len, value, len_bytes, flags);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

int xattr_set(struct inode *inode, const char *text, const void *value, size_t len_bytes, unsigned flags)
{
	const struct prefix *prefix;
	struct xattr_name name;
	int err, retries = 0;

	err = name_parse(inode->fs, text, &prefix, &name);
	if (err)
		return err;
	if (value && len_bytes > VALUE_BYTES_MAX)
		return -E2BIG;
	if (prefix->kind == PREFIX_ACL)
		return acl_set_xattr(inode, acl_type_of(prefix), value, len_bytes, flags & XATTR_FLAG_ROOT_BLOCKS);
	if (!value)
		flags = (flags & XATTR_FLAG_ROOT_BLOCKS) | XATTR_FLAG_REPLACE; /* what is not there cannot be removed */
	do {
		err = set_once(inode, &name, value, len_bytes, flags);
	} while (err == -ENOSPC && balloc_should_retry(inode->fs, &retries) > 0);
	return err;
}

int xattr_free_all(struct handle *h, struct inode *inode)
{
	int err;

	rwsem_write_lock(&inode->xattr_sem);
	err = xattr_block_drop(h, inode);
	rwsem_write_unlock(&inode->xattr_sem);
	return err;
}
