/* SPDX-License-Identifier: MIT */
/*
 * file_iomap.c - where a file's bytes are, as iomap asks: for reading, writing, zeroing and reporting
 *
 * A write to a hole promises blocks and marks them delayed; ENOSPC happens here or never. Everything else, an overwrite
 * above all, is one lookup without a lock, a handle or an allocation (DAX).
 */
#include <errno.h>

#include "ext4/balloc.h"
#include "ext4/extent_private.h"
#include "ext4/file_private.h"

uint64_t file_max_bytes(const struct inode *inode)
{
	return inode_has_extents(inode) ? inode->fs->max_file_bytes_extents : inode->fs->max_file_bytes_indirect;
}

static enum iomap_type type_of(enum es_status status)
{
	switch (status) {
	case ES_WRITTEN:
		return IOMAP_MAPPED;
	case ES_UNWRITTEN:
		return IOMAP_UNWRITTEN;
	case ES_DELAYED:
		return IOMAP_DELALLOC;
	case ES_HOLE:
		break;
	}
	return IOMAP_HOLE;
}

/* The whole run known around @lblk. */
static void map_fill(const struct inode *inode, const struct map_result *r, lblk_t lblk, struct iomap *map)
{
	uint8_t bits = inode->fs->block_bits;

	map->type = type_of(r->status);
	map->pos_bytes = (uint64_t)r->es_lblk << bits;
	map->len_bytes = (uint64_t)r->es_len << bits;
	map->addr_bytes = r->blk ? (r->blk - (lblk - r->es_lblk)) << bits : 0;
	map->fetch = r->status == ES_WRITTEN && inode_logs_data(inode) ? file_fetch : NULL;
}

/* Only [lblk, lblk + r->len). */
static void map_fill_from(const struct inode *inode, const struct map_result *r, lblk_t lblk, struct iomap *map)
{
	uint8_t bits = inode->fs->block_bits;

	map->type = type_of(r->status);
	map->pos_bytes = (uint64_t)lblk << bits;
	map->len_bytes = (uint64_t)r->len << bits;
	map->addr_bytes = r->blk << bits;
}

/* ---- writes to holes ---- */

/*
 * After -ENOSPC: is it worth trying again? This file's own dirty data gives back what was promised for its tree, and
 * committing gives back what was freed.
 */
static bool retry_after_enospc(struct inode *inode, bool *flushed, int *retries)
{
	if (!*flushed && atomic_load_explicit(&inode->io.reserved_meta, memory_order_relaxed)) {
		*flushed = true;
		if (mapping_write_and_wait(&inode->mapping, 0, UINT64_MAX))
			return false;
		file_reserve_done(inode);
		file_reserve_settle(inode, 0);
		return true;
	}
	return balloc_should_retry(inode->fs, retries) > 0;
}

/* Promises up to *len blocks; near the end of space fewer, at least one. */
static int reserve_some(struct inode *inode, uint32_t *len, bool root)
{
	int err = file_reserve(inode, *len, *len, root);

	while (err == -ENOSPC && *len > 1) {
		*len /= 2;
		err = file_reserve(inode, *len, *len, root);
	}
	return err;
}

static int delay_hole(struct inode *inode, lblk_t lblk, uint32_t len, bool root, struct map_result *r)
{
	struct es_extent es = { .lblk = lblk, .status = ES_DELAYED };
	bool flushed = false;
	int retries = 0, err;

	do {
		es.len = len;
		err = reserve_some(inode, &es.len, root);
	} while (err == -ENOSPC && retry_after_enospc(inode, &flushed, &retries));
	if (err)
		return err;
	es_set(inode, &es);
	*r = (struct map_result){ .len = es.len, .status = ES_DELAYED };
	return 0;
}

/* nodelalloc: allocates at once, unwritten, so that no stale block shows. */
static int allocate_hole(struct inode *inode, lblk_t lblk, uint32_t len, bool root, struct map_result *r)
{
	int retries = 0, err, stop_err;
	struct handle h;

	do {
		err = fs_handle_start_for(inode->fs, root, map_credits(inode, len), 0, &h);
		if (err)
			return err;
		err = map_blocks(&h, inode, lblk, len, MAP_CREATE | MAP_UNWRITTEN, r);
		stop_err = journal_stop(&h);
		if (!err)
			err = stop_err;
	} while (err == -ENOSPC && balloc_should_retry(inode->fs, &retries) > 0);
	return err ? err : file_reserve(inode, 0, r->len, root);
}

static int begin_write_hole(struct inode *inode, lblk_t lblk, uint32_t len, bool root, struct iomap *map)
{
	/* Indirect maps have no unwritten state; what is logged is mapped in the handle that logs it. */
	bool delay = inode->fs->opt.delalloc || !inode_has_extents(inode) || inode_logs_data(inode);
	struct map_result r;
	int err;

	err = delay ? delay_hole(inode, lblk, len, root, &r) : allocate_hole(inode, lblk, len, root, &r);
	if (err)
		return err;
	/* Its own allocation is no change that could make the map stale. */
	map->seq = atomic_load_explicit(&inode->map_seq, memory_order_acquire);
	map_fill_from(inode, &r, lblk, map);
	map->flags = IOMAP_F_NEW;
	return 0;
}

/* A write over an unwritten extent will split it: the tree may grow. */
static int begin_write_unwritten(struct inode *inode, uint32_t len, bool root)
{
	bool flushed = false;
	int retries = 0, err;

	do {
		err = file_reserve(inode, 0, len, root);
	} while (err == -ENOSPC && retry_after_enospc(inode, &flushed, &retries));
	return err;
}

/* ---- begin and end ---- */

static int begin(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, unsigned flags, bool root, struct iomap *map)
{
	struct inode *inode = m->host;
	lblk_t lblk = file_lblk(inode, pos_bytes);
	uint64_t end = (pos_bytes + max_of(len_bytes, UINT64_C(1)) - 1) >> inode->fs->block_bits;
	struct map_result r;
	uint32_t len;
	int err;

	if (pos_bytes >> inode->fs->block_bits >= LBLK_END)
		return -EFBIG;
	len = (uint32_t)(min_of(end + 1, (uint64_t)LBLK_END) - lblk);
	map->flags = inode_has_extents(inode) ? 0 : IOMAP_F_MERGED;
	map->seq = atomic_load_explicit(&inode->map_seq, memory_order_acquire);
	err = map_lookup(inode, lblk, len, &r);
	if (err)
		return err;
	if (flags & IOMAP_REPORT) {
		map_fill_from(inode, &r, lblk, map);
		return 0;
	}
	if (flags & IOMAP_WRITE && r.status == ES_HOLE)
		return begin_write_hole(inode, lblk, r.len, root, map);
	if (flags & IOMAP_WRITE && r.status == ES_UNWRITTEN)
		err = begin_write_unwritten(inode, r.len, root);
	map_fill(inode, &r, lblk, map);
	return err;
}

static int file_begin(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, unsigned flags, struct iomap *map)
{
	return begin(m, pos_bytes, len_bytes, flags, false, map);
}

static int file_begin_root(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, unsigned flags, struct iomap *map)
{
	return begin(m, pos_bytes, len_bytes, flags, true, map);
}

static int file_end(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, uint64_t written_bytes, unsigned flags,
		    struct iomap *map)
{
	struct inode *inode = m->host;
	uint64_t end;

	(void)len_bytes;
	if (!(flags & IOMAP_WRITE))
		return 0;
	if (atomic_load_explicit(&inode->io.begun_blks, memory_order_relaxed))
		file_reserve_done(inode);
	if (map->type != IOMAP_DELALLOC || !(map->flags & IOMAP_F_NEW))
		return 0;
	end = (map->pos_bytes + map->len_bytes) >> inode->fs->block_bits;
	if (file_lblk_up(inode, pos_bytes + written_bytes) < end)
		map_forget_delayed(inode, file_lblk_up(inode, pos_bytes + written_bytes), end);
	return 0;
}

static bool file_is_valid(struct mapping *m, const struct iomap *map)
{
	const struct inode *inode = m->host;

	return map->seq == atomic_load_explicit(&inode->map_seq, memory_order_acquire);
}

const struct iomap_ops file_iomap_ops = {
	.begin = file_begin,
	.end = file_end,
	.is_valid = file_is_valid,
};

const struct iomap_ops file_iomap_root_ops = {
	.begin = file_begin_root,
	.end = file_end,
	.is_valid = file_is_valid,
};
