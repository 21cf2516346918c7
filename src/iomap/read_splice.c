/* SPDX-License-Identifier: MIT */
/* read_splice.c - reads by reference: the device's memory goes into a pipe, and no byte is copied here */
#include <errno.h>

#include "iomap/iomap_private.h"

/* What @map has of the range from @pos on. Returns 0 with *moved_out set, or an error. */
static int splice_map(struct mapping *m, const struct iomap *map, uint64_t pos, uint64_t end, int pipe_fd,
		      uint64_t *moved_out)
{
	uint64_t len = min_of(end, iomap_end(map)) - pos;
	ssize_t moved;

	if (map->type != IOMAP_MAPPED || map->fetch)
		return -EOPNOTSUPP;
	moved = block_splice(m->dev, map->addr_bytes + (pos - map->pos_bytes), len, pipe_fd);
	if (moved < 0)
		return (int)moved;
	*moved_out = (uint64_t)moved;
	return 0;
}

static int splice_range(struct mapping *m, uint64_t pos, uint64_t end, int pipe_fd, const struct iomap_ops *ops)
{
	struct iomap map = { 0 };
	uint64_t moved = 0;
	int err = 0;

	for (; !err && pos < end; pos += moved) {
		if (!iomap_covers(&map, pos))
			err = iomap_begin(m, ops, pos, end - pos, 0, &map);
		if (!err)
			err = splice_map(m, &map, pos, end, pipe_fd, &moved);
	}
	return err;
}

int iomap_splice_read(struct mapping *m, uint64_t pos_bytes, uint64_t len_bytes, int pipe_fd, int (*deliver)(void *arg),
		      void *arg, const struct iomap_ops *ops)
{
	uint64_t size = atomic_load(&m->size_bytes), end = pos_bytes + len_bytes;
	int err = -EOPNOTSUPP;

	if (pos_bytes > size || len_bytes > size - pos_bytes)
		return err;
	rwsem_read_lock(&m->invalidate_lock);
	if (iomap_first_folio(m, pos_bytes, end) == end) /* first this, then the map: see U1 in read_uncached.c */
		err = splice_range(m, pos_bytes, end, pipe_fd, ops);
	if (!err)
		err = deliver(arg);
	rwsem_read_unlock(&m->invalidate_lock);
	return err;
}
