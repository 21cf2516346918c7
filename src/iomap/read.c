/* SPDX-License-Identifier: MIT */
/*
 * read.c - buffered reads
 *
 * A hit takes no lock: the folio is found under RCU, held, its uptodate state asked, and the bytes copied. A miss goes
 * through readahead, then waits for the folio's lock, which the read in flight holds. What is still not uptodate then (a
 * part of it was written to before, or the read failed) is read block by block as needed, on this thread, and
 * that is where an error is reported.
 */
#include <errno.h>

#include "iomap/iomap_private.h"

/* Bytes from @off on that the folio holds, up to @len; without its lock. */
static size_t uptodate_prefix(const struct folio *f, size_t off, size_t len)
{
	size_t end = block_ceil(f, off + 1), done;

	if (folio_range_is_uptodate_unlocked(f, off, len))
		return len;
	if (end >= off + len || !folio_range_is_uptodate_unlocked(f, off, end - off))
		return 0;
	do {
		done = end - off;
		end += (size_t)1 << f->block_bits;
	} while (end < off + len && folio_range_is_uptodate_unlocked(f, off, end - off));
	return done;
}

static void check_marker(struct mapping *m, struct folio *f, const struct iomap_ops *ops)
{
	if (likely(!(atomic_load_explicit(&f->flags, memory_order_relaxed) & FOLIO_READAHEAD)))
		return;
	if (atomic_fetch_and(&f->flags, ~FOLIO_READAHEAD) & FOLIO_READAHEAD)
		readahead_marker(m, f->index, ops);
}

/* Folio locked. Copies what is uptodate of [off, off + len); 0: nothing at @off. */
static size_t copy_locked(struct folio *f, size_t off, size_t len, struct iov_cursor *to)
{
	size_t done = 0;

	while (done < len) {
		size_t n = min_of(block_ceil(f, off + done + 1) - (off + done), len - done);

		if (!folio_range_is_uptodate(f, off + done, n))
			break;
		done += n;
	}
	cursor_copy_out(to, f->data + off, done);
	return done;
}

/*
 * Waits for whoever fills the folio, and fills what is still missing. Returns bytes copied, 0: look again (it may have
 * been truncated), or an error. Caller holds invalidate_lock shared.
 */
static ssize_t read_locked(struct mapping *m, struct folio *f, uint64_t pos, uint64_t want, struct iov_cursor *to,
			   const struct iomap_ops *ops)
{
	size_t off = (size_t)(pos - folio_pos(f)), n = 0;
	size_t len = (size_t)min_of(want, (uint64_t)folio_bytes(f) - off);
	uint64_t first = folio_pos(f) + block_floor(f, off);
	struct iomap map;
	bool gone;
	int err;

	folio_lock(f);
	gone = f->mapping != m;
	if (!gone)
		n = copy_locked(f, off, len, to);
	folio_unlock(f);
	if (gone || n)
		return (ssize_t)n;
	err = iomap_begin(m, ops, first, pos + len - first, 0, &map); /* before the folio lock */
	if (err)
		return err;
	folio_lock(f);
	if (f->mapping == m && iomap_still_valid(m, ops, &map)) {
		len = (size_t)(min_of(pos + len, iomap_end(&map)) - pos);
		err = iomap_fill_range(f, off, len, &map);
		if (!err)
			n = copy_locked(f, off, len, to);
	}
	folio_unlock(f);
	return err ? err : (ssize_t)n;
}

ssize_t iomap_read_step(struct mapping *m, uint64_t pos, uint64_t want, struct iov_cursor *to,
			const struct iomap_ops *ops)
{
	struct folio *f = mapping_find(m, pos >> PAGE_SHIFT_BITS);
	size_t off, n;
	ssize_t res;

	if (!f)
		return readahead_miss(m, pos, want, ops);
	check_marker(m, f, ops);
	off = (size_t)(pos - folio_pos(f));
	n = uptodate_prefix(f, off, (size_t)min_of(want, (uint64_t)folio_bytes(f) - off));
	if (likely(n)) {
		cursor_copy_out(to, f->data + off, n);
		folio_put(f);
		return (ssize_t)n;
	}
	rwsem_read_lock(&m->invalidate_lock);
	res = read_locked(m, f, pos, want, to, ops);
	rwsem_read_unlock(&m->invalidate_lock);
	folio_put(f);
	return res;
}

ssize_t iomap_buffered_read(struct mapping *m, uint64_t pos_bytes, struct iov_cursor *to, const struct iomap_ops *ops)
{
	return iomap_read_steps(m, pos_bytes, to, ops, iomap_read_step);
}
