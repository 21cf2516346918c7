/* SPDX-License-Identifier: MIT */
/* acl.c - POSIX ACLs: rules, the form on disk, and the form that getxattr and setxattr carry */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/xattr_private.h"

static struct acl *acl_alloc(size_t count)
{
	struct acl *acl = malloc(sizeof(*acl) + count * sizeof(acl->entry[0]));

	if (acl)
		acl->count = (uint32_t)count;
	return acl;
}

struct acl *acl_clone(const struct acl *acl)
{
	struct acl *copy = acl_alloc(acl->count);

	if (copy)
		memcpy(copy->entry, acl->entry, acl->count * sizeof(acl->entry[0]));
	return copy;
}

static bool tag_has_id(uint16_t tag) { return tag == ACL_TAG_USER || tag == ACL_TAG_GROUP; }

/* Place of a tag in the only order allowed; 0: no such tag. */
static unsigned tag_place(uint16_t tag)
{
	switch (tag) {
	case ACL_TAG_USER_OBJ:  return 1;
	case ACL_TAG_USER:      return 2;
	case ACL_TAG_GROUP_OBJ: return 3;
	case ACL_TAG_GROUP:     return 4;
	case ACL_TAG_MASK:      return 5;
	case ACL_TAG_OTHER:     return 6;
	default:                return 0;
	}
}

const char *acl_verify(const struct acl *acl)
{
	unsigned seen = 0, last = 0;
	uint32_t i;

	for (i = 0; i < acl->count; i++) {
		const struct acl_entry *e = &acl->entry[i];
		unsigned place = tag_place(e->tag);

		if (!place || e->perm > 7)
			return "unknown tag or permission";
		if (place < last || (place == last && !tag_has_id(e->tag)))
			return "entries out of order or twice";
		if (tag_has_id(e->tag) && e->id == ACL_ID_UNDEFINED)
			return "named entry without an id";
		last = place;
		seen |= e->tag;
	}
	if ((seen & (ACL_TAG_USER_OBJ | ACL_TAG_GROUP_OBJ | ACL_TAG_OTHER)) !=
	    (ACL_TAG_USER_OBJ | ACL_TAG_GROUP_OBJ | ACL_TAG_OTHER))
		return "no entry for owner, group or others";
	if (seen & (ACL_TAG_USER | ACL_TAG_GROUP) && !(seen & ACL_TAG_MASK))
		return "named entries without a mask";
	return NULL;
}

int acl_to_mode(const struct acl *acl, uint16_t *mode_bits_out)
{
	uint16_t mode = 0;
	bool more = false;
	uint32_t i;

	for (i = 0; i < acl->count; i++) {
		const struct acl_entry *e = &acl->entry[i];

		if (e->tag == ACL_TAG_USER_OBJ)
			mode |= (uint16_t)(e->perm << 6);
		else if (e->tag == ACL_TAG_GROUP_OBJ && !more)
			mode |= (uint16_t)(e->perm << 3);
		else if (e->tag == ACL_TAG_MASK)
			mode = (uint16_t)((mode & ~S_IRWXG) | e->perm << 3); /* the group bits show the mask */
		else if (e->tag == ACL_TAG_OTHER)
			mode |= e->perm;
		if (tag_has_id(e->tag) || e->tag == ACL_TAG_MASK)
			more = true;
	}
	*mode_bits_out = mode;
	return more;
}

/* ---- deciding ---- */

static bool in_groups(uint32_t gid, const uint32_t *gids, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (gids[i] == gid)
			return true;
	return false;
}

/* Does the entry speak of this caller's groups? */
static bool entry_is_callers_group(const struct acl_entry *e, const struct inode *inode, const uint32_t *gids,
				   uint32_t gid_count)
{
	if (e->tag == ACL_TAG_GROUP_OBJ)
		return in_groups(inode->gid, gids, gid_count);
	return e->tag == ACL_TAG_GROUP && in_groups(e->id, gids, gid_count);
}

static int grant(unsigned perm, unsigned want) { return (perm & want) == want ? 0 : -EACCES; }

int acl_permission(const struct acl *acl, const struct inode *inode, uint32_t uid, const uint32_t *gids,
		   uint32_t gid_count, unsigned want)
{
	const struct acl_entry *e;
	unsigned mask = 7, other = 0;
	bool in_group = false, granted = false;
	uint32_t i;

	for (i = 0; i < acl->count; i++) {
		if (acl->entry[i].tag == ACL_TAG_MASK)
			mask = acl->entry[i].perm;
		if (acl->entry[i].tag == ACL_TAG_OTHER)
			other = acl->entry[i].perm;
	}
	for (e = acl->entry; e < acl->entry + acl->count; e++) {
		if (e->tag == ACL_TAG_USER_OBJ && uid == inode->uid)
			return grant(e->perm, want);
		if (e->tag == ACL_TAG_USER && uid == e->id)
			return grant(e->perm & mask, want);
		if (entry_is_callers_group(e, inode, gids, gid_count)) {
			in_group = true;
			granted |= !grant(e->perm, want); /* one entry must allow all of it */
		}
	}
	if (in_group)
		return granted ? grant(mask, want) : -EACCES;
	return grant(other, want);
}

/* ---- the form of getxattr and setxattr: version 2 ---- */

int acl_from_xattr(const void *value, size_t len_bytes, struct acl **acl_out)
{
	const uint8_t *bytes = value;
	struct acl_xattr_entry raw;
	size_t count, i;
	struct acl *acl;
	le32 version;

	*acl_out = NULL;
	if (len_bytes < sizeof(version))
		return -EINVAL;
	memcpy(&version, bytes, sizeof(version));
	if (le32_get(version) != ACL_XATTR_VERSION)
		return -EOPNOTSUPP;
	if ((len_bytes - sizeof(version)) % sizeof(raw))
		return -EINVAL;
	count = (len_bytes - sizeof(version)) / sizeof(raw);
	if (!count)
		return 0;
	acl = acl_alloc(count);
	if (!acl)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		memcpy(&raw, bytes + sizeof(version) + i * sizeof(raw), sizeof(raw));
		acl->entry[i] = (struct acl_entry){ le16_get(raw.e_tag), le16_get(raw.e_perm), le32_get(raw.e_id) };
	}
	if (acl_verify(acl)) {
		free(acl);
		return -EINVAL;
	}
	*acl_out = acl;
	return 0;
}

ssize_t acl_to_xattr(const struct acl *acl, void *buf, size_t buf_bytes)
{
	size_t len = sizeof(le32) + acl->count * sizeof(struct acl_xattr_entry);
	le32 version = le32_make(ACL_XATTR_VERSION);
	uint8_t *bytes = buf;
	uint32_t i;

	if (!buf_bytes)
		return (ssize_t)len;
	if (len > buf_bytes)
		return -ERANGE;
	memcpy(bytes, &version, sizeof(version));
	for (i = 0; i < acl->count; i++) {
		const struct acl_entry *e = &acl->entry[i];
		struct acl_xattr_entry raw = { le16_make(e->tag), le16_make(e->perm),
					       le32_make(tag_has_id(e->tag) ? e->id : ACL_ID_UNDEFINED) };

		memcpy(bytes + sizeof(version) + i * sizeof(raw), &raw, sizeof(raw));
	}
	return (ssize_t)len;
}

/* ---- the form on disk: version 1, entries without an id are short ---- */

static size_t disk_entry_bytes(uint16_t tag)
{
	return tag_has_id(tag) ? sizeof(struct ext4_acl_entry) : EXT4_ACL_SHORT_BYTES;
}

/* One entry from [@at, @end); its length, or 0. */
static size_t entry_from_disk(const uint8_t *at, const uint8_t *end, struct acl_entry *e)
{
	struct ext4_acl_entry raw = { .e_id = le32_make(ACL_ID_UNDEFINED) };
	size_t bytes;

	if ((size_t)(end - at) < EXT4_ACL_SHORT_BYTES)
		return 0;
	memcpy(&raw, at, EXT4_ACL_SHORT_BYTES);
	bytes = disk_entry_bytes(le16_get(raw.e_tag));
	if ((size_t)(end - at) < bytes)
		return 0;
	memcpy(&raw, at, bytes);
	*e = (struct acl_entry){ le16_get(raw.e_tag), le16_get(raw.e_perm), le32_get(raw.e_id) };
	return bytes;
}

int acl_from_disk(const void *value, size_t len_bytes, struct acl **acl_out)
{
	const uint8_t *at = value, *end = at + len_bytes;
	struct ext4_acl_header hdr;
	struct acl *acl;
	size_t bytes;

	*acl_out = NULL;
	if (len_bytes < sizeof(hdr))
		return -EUCLEAN;
	memcpy(&hdr, at, sizeof(hdr));
	if (le32_get(hdr.a_version) != EXT4_ACL_VERSION)
		return -EUCLEAN;
	at += sizeof(hdr);
	acl = acl_alloc((size_t)(end - at) / EXT4_ACL_SHORT_BYTES); /* as many as there could be */
	if (!acl)
		return -ENOMEM;
	acl->count = 0;
	while (at < end) {
		bytes = entry_from_disk(at, end, &acl->entry[acl->count]);
		if (!bytes)
			break;
		at += bytes;
		acl->count++;
	}
	if (at < end || (acl->count && acl_verify(acl))) {
		free(acl);
		return -EUCLEAN;
	}
	if (!acl->count) {
		free(acl);
		return 0;
	}
	*acl_out = acl;
	return 0;
}

int acl_to_disk(const struct acl *acl, void **value_out, size_t *len_out)
{
	struct ext4_acl_header hdr = { le32_make(EXT4_ACL_VERSION) };
	uint8_t *bytes = malloc(sizeof(hdr) + acl->count * sizeof(struct ext4_acl_entry));
	size_t at = sizeof(hdr);
	uint32_t i;

	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, &hdr, sizeof(hdr));
	for (i = 0; i < acl->count; i++) {
		const struct acl_entry *e = &acl->entry[i];
		struct ext4_acl_entry raw = { le16_make(e->tag), le16_make(e->perm), le32_make(e->id) };

		memcpy(bytes + at, &raw, disk_entry_bytes(e->tag));
		at += disk_entry_bytes(e->tag);
	}
	*value_out = bytes;
	*len_out = at;
	return 0;
}
