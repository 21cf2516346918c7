/* SPDX-License-Identifier: MIT */
/*
 * file_disksize.c - the size on disk
 *
 * S1  disksize is never larger than i_size, and moves only past bytes that are on disk or were never written: after a
 *     crash no zeros stand for bytes that an application wrote below the size that survived.
 * S2  A completion moves it as far as S1 allows (file_disksize_reach()); one whose predecessor is still in flight moves
 *     nothing, the predecessor's completion then moves it past both.
 * S3  fsync moves it to what i_size was when it began: all that was dirty then is on disk by then.
 */
#include <errno.h>

#include "ext4/file_private.h"

int file_disksize_set(struct handle *h, struct inode *inode, uint64_t size_bytes)
{
	lock_assert_held(&inode->map_sem);
	__atomic_store_n(&inode->disksize_bytes, size_bytes, __ATOMIC_RELAXED);
	return inode_write_datasync(h, inode);
}

/* First byte from @pos on, below @end, that a folio with the tag covers; @end if none does. */
static uint64_t first_tagged(struct mapping *m, uint64_t pos, uint64_t end, enum folio_tag tag)
{
	uint64_t index = pos >> PAGE_SHIFT_BITS, start = end;
	struct folio *f;

	if (mapping_find_tagged(m, &index, div_round_up(end, (uint64_t)PAGE_BYTES), tag, &f, 1)) {
		start = max_of(folio_pos(f), pos);
		folio_put(f);
	}
	return min_of(start, end);
}

/* A folio of several blocks may be dirty over a hole without data in it. End of the hole at @pos, or @pos. */
static uint64_t hole_end(struct inode *inode, uint64_t pos)
{
	struct es_extent es;

	if (!es_lookup(inode, file_lblk(inode, pos), &es) || es.status != ES_HOLE)
		return pos;
	return es_end(&es) << inode->fs->block_bits;
}

/* End of the completed range that covers @pos, or @pos. */
static uint64_t done_end(const struct file_done *done, size_t *at, uint64_t pos)
{
	while (*at < done->count && done->range[*at].end <= pos)
		++*at;
	return *at < done->count && done->range[*at].start <= pos ? done->range[*at].end : pos;
}

uint64_t file_disksize_reach(struct inode *inode, const struct file_done *done)
{
	struct mapping *m = &inode->mapping;
	uint64_t limit = min_of(inode_size(inode), inode->io.completed_end), pos = file_disksize(inode), next;
	size_t at = 0;

	while (pos < limit) {
		next = done_end(done, &at, pos);
		if (next == pos) {
			next = first_tagged(m, pos, limit, TAG_DIRTY);
			next = first_tagged(m, pos, next, TAG_WRITEBACK);
		}
		if (next == pos)
			next = hole_end(inode, pos);
		if (next == pos)
			break;
		pos = next;
	}
	return min_of(pos, limit);
}

/* All data below @size_bytes is on disk, unless the file was cut since @shrinks was read. */
static int disksize_settle(struct inode *inode, uint64_t size_bytes, uint32_t shrinks)
{
	struct handle h;
	int err, stop_err;

	if (file_disksize(inode) >= size_bytes)
		return 0;
	err = fs_handle_start(inode->fs, DISKSIZE_CREDITS, 0, &h);
	if (err)
		return err;
	rwsem_write_lock(&inode->map_sem);
	size_bytes = min_of(size_bytes, inode_size(inode));
	if (shrinks == atomic_load(&inode->io.shrinks) && file_disksize(inode) < size_bytes)
		err = file_disksize_set(&h, inode, size_bytes);
	rwsem_write_unlock(&inode->map_sem);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

int file_flush(struct inode *inode)
{
	uint32_t shrinks = atomic_load(&inode->io.shrinks);
	uint64_t size = inode_size(inode);
	int err = 0;

	if (atomic_load(&inode->mapping.nr_pages))
		err = mapping_write_and_wait(&inode->mapping, 0, UINT64_MAX);
	if (!err)
		file_reserve_settle(inode, 0);
	return err ? err : disksize_settle(inode, size, shrinks);
}

int file_grow(struct inode *inode, uint64_t size_bytes)
{
	struct handle h;
	int err, stop_err;

	if (file_disksize(inode) < inode_size(inode)) {
		err = file_flush(inode); /* S1 */
		if (err)
			return err;
	}
	err = fs_handle_start(inode->fs, DISKSIZE_CREDITS, 0, &h);
	if (err)
		return err;
	rwsem_write_lock(&inode->map_sem);
	inode_size_set(inode, size_bytes);
	inode->io.completed_end = max_of(inode->io.completed_end, size_bytes);
	err = file_disksize_set(&h, inode, size_bytes);
	rwsem_write_unlock(&inode->map_sem);
	stop_err = journal_stop(&h);
	return err ? err : stop_err;
}

int file_zero_tail(struct inode *inode, uint64_t size_bytes, bool write_out)
{
	uint64_t end = file_block_up(inode, size_bytes);
	struct map_result r;
	int err;

	if (end == size_bytes)
		return 0;
	err = iomap_zero_range(&inode->mapping, size_bytes, end - size_bytes, &file_iomap_ops);
	if (err || !write_out)
		return err;
	err = map_lookup(inode, file_lblk(inode, size_bytes), 1, &r);
	if (err || r.status != ES_WRITTEN)
		return err; /* a new block gets its zeros when it is first written */
	return mapping_write_and_wait(&inode->mapping, file_block_down(inode, size_bytes), end);
}
