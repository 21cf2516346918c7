/* SPDX-License-Identifier: MIT */
/*
 * xattr_region.c - entries and values in one area
 *
 * A change rewrites the area from a copy: entries in order, values packed to the end. That keeps one piece of code for
 * adding, replacing and removing, and never leaves gaps.
 */
#include <errno.h>
#include <string.h>

#include "ext4/xattr_private.h"

/* Values are padded to words of this size, which is what can overlap. */
#define WORD_BYTES 4u
#define WORDS_MAX  (65536u / WORD_BYTES)

static const struct ext4_xattr_entry *entry_at(const struct xattr_region *r, uint32_t off)
{
	return (const struct ext4_xattr_entry *)(const void *)(r->base + off);
}

static uint32_t entry_off(const struct xattr_region *r, const struct ext4_xattr_entry *e)
{
	return (uint32_t)((const uint8_t *)e - r->base);
}

static bool is_end(const struct xattr_region *r, uint32_t off)
{
	static const uint8_t end[EXT4_XATTR_END_BYTES];

	return !memcmp(r->base + off, end, sizeof(end));
}

/* ---- verification ---- */

/* Marks the words of a value; false if one was marked before. */
static bool words_claim(uint64_t *words, uint32_t off, uint32_t len)
{
	uint32_t word;

	for (word = off / WORD_BYTES; word < div_round_up(off + len, WORD_BYTES); word++) {
		if (words[word / 64] & 1ull << (word % 64))
			return false;
		words[word / 64] |= 1ull << (word % 64);
	}
	return true;
}

static const char *value_verify(const struct xattr_region *r, const struct ext4_xattr_entry *e, uint32_t names_end,
				uint64_t *words)
{
	uint32_t off = le16_get(e->e_value_offs), size = le32_get(e->e_value_size);

	if (!size)
		return NULL;
	if (size > r->size || EXT4_XATTR_PAD(size) > r->size)
		return "value larger than its area";
	if (off < names_end || off % WORD_BYTES || off > r->size - EXT4_XATTR_PAD(size))
		return "value outside its area";
	if (!words_claim(words, off, size))
		return "values overlap";
	return NULL;
}

/* Names first, so that where they end is known when the values are looked at. */
static const char *names_verify(const struct xattr_region *r, uint32_t *end_out)
{
	uint32_t off = r->first;

	for (;;) {
		const struct ext4_xattr_entry *e = entry_at(r, off);

		if (r->size - off < EXT4_XATTR_END_BYTES)
			return "entries run past the end";
		if (is_end(r, off))
			break;
		if (r->size - off < sizeof(*e) || r->size - off < EXT4_XATTR_ENTRY_BYTES(e->e_name_len))
			return "entry runs past the end";
		if (memchr(e->e_name, 0, e->e_name_len))
			return "NUL in a name";
		if (le32_get(e->e_value_inum))
			return "value in an inode of its own (ea_inode is not supported)";
		off += EXT4_XATTR_ENTRY_BYTES(e->e_name_len);
	}
	*end_out = off + EXT4_XATTR_END_BYTES;
	return NULL;
}

const char *xattr_region_verify(const struct xattr_region *r)
{
	uint64_t words[WORDS_MAX / 64] = { 0 };
	const struct ext4_xattr_entry *e;
	const char *broken;
	uint32_t names_end;

	if (!r->size)
		return NULL;
	if (r->size > WORDS_MAX * WORD_BYTES || r->first > r->size)
		return "no room for entries";
	broken = names_verify(r, &names_end);
	for (e = broken ? NULL : xattr_region_first(r); e && !broken; e = xattr_region_next(r, e))
		broken = value_verify(r, e, names_end, words);
	return broken;
}

/* ---- reading ---- */

const struct ext4_xattr_entry *xattr_region_first(const struct xattr_region *r)
{
	return r->size && !is_end(r, r->first) ? entry_at(r, r->first) : NULL;
}

const struct ext4_xattr_entry *xattr_region_next(const struct xattr_region *r, const struct ext4_xattr_entry *e)
{
	uint32_t off = entry_off(r, e) + EXT4_XATTR_ENTRY_BYTES(e->e_name_len);

	return is_end(r, off) ? NULL : entry_at(r, off);
}

/* Order in a block: index, length, bytes. */
static int name_cmp(const struct xattr_name *name, const struct ext4_xattr_entry *e)
{
	if (name->index != e->e_name_index)
		return name->index - e->e_name_index;
	if (name->len != e->e_name_len)
		return name->len - e->e_name_len;
	return memcmp(name->str, e->e_name, name->len);
}

const struct ext4_xattr_entry *xattr_region_find(const struct xattr_region *r, const struct xattr_name *name)
{
	const struct ext4_xattr_entry *e;

	for (e = xattr_region_first(r); e; e = xattr_region_next(r, e))
		if (!name_cmp(name, e))
			break;
	return e;
}

const uint8_t *xattr_region_value(const struct xattr_region *r, const struct ext4_xattr_entry *e)
{
	return r->base + le16_get(e->e_value_offs);
}

uint32_t xattr_entry_hash(const struct xattr_name *name, const uint8_t *value, uint32_t value_len)
{
	uint32_t hash = 0, i;

	for (i = 0; i < name->len; i++)
		hash = (hash << 5) ^ (hash >> 27) ^ (uint8_t)name->str[i];
	for (i = 0; i < value_len; i += WORD_BYTES) {
		le32 word = { 0 };

		memcpy(&word, value + i, min_of(WORD_BYTES, value_len - i));
		hash = (hash << 16) ^ (hash >> 16) ^ le32_get(word);
	}
	return hash;
}

/* ---- rebuilding ---- */

/* What is written so far: entries up to names_end, values from values_start on. */
struct rebuild {
	uint8_t *dst;
	uint32_t names_end, values_start, count;
	bool is_block;
};

static int rebuild_append(struct rebuild *rb, const struct xattr_name *name, const uint8_t *value, size_t value_len)
{
	struct ext4_xattr_entry *e = (struct ext4_xattr_entry *)(void *)(rb->dst + rb->names_end);
	uint32_t name_bytes = EXT4_XATTR_ENTRY_BYTES(name->len), value_bytes;

	if (value_len > rb->values_start) /* before padding, which could wrap */
		return -ENOSPC;
	value_bytes = EXT4_XATTR_PAD(value_len);
	if (rb->names_end + name_bytes + EXT4_XATTR_END_BYTES + value_bytes > rb->values_start)
		return -ENOSPC;
	rb->values_start -= value_bytes;
	*e = (struct ext4_xattr_entry){ .e_name_len = name->len, .e_name_index = name->index };
	memcpy(e->e_name, name->str, name->len);
	e->e_value_size = le32_make((uint32_t)value_len);
	if (value_len) {
		e->e_value_offs = le16_make((uint16_t)rb->values_start);
		memcpy(rb->dst + rb->values_start, value, value_len);
	}
	if (rb->is_block)
		e->e_hash = le32_make(xattr_entry_hash(name, value, (uint32_t)value_len));
	rb->names_end += name_bytes;
	rb->count++;
	return 0;
}

static int rebuild_copy(struct rebuild *rb, const struct xattr_region *r, const struct ext4_xattr_entry *e)
{
	struct xattr_name name = { e->e_name_index, e->e_name_len, e->e_name };

	return rebuild_append(rb, &name, xattr_region_value(r, e), le32_get(e->e_value_size));
}

int xattr_region_rebuild(const struct xattr_region *r, const struct xattr_name *name, const struct xattr_value *value,
			 uint8_t *dst, uint32_t *count_out)
{
	struct rebuild rb = { dst, r->first, r->size, 0, r->is_block };
	const struct ext4_xattr_entry *e, *old = xattr_region_find(r, name);
	bool pending = value->data != NULL;
	int err = 0;

	memset(dst + r->first, 0, r->size - r->first);
	for (e = xattr_region_first(r); e && !err; e = xattr_region_next(r, e)) {
		/* The new one takes the old one's place, else its place in the order of a block, else the end. */
		if (pending && (old ? e == old : r->is_block && name_cmp(name, e) < 0)) {
			err = rebuild_append(&rb, name, value->data, value->len_bytes);
			pending = false;
		}
		if (e != old && !err)
			err = rebuild_copy(&rb, r, e);
	}
	if (pending && !err)
		err = rebuild_append(&rb, name, value->data, value->len_bytes);
	*count_out = rb.count;
	return err;
}
