/* SPDX-License-Identifier: MIT */
/* recovery_walk.c - going forward over the log, block by block */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jbd2/recovery_private.h"

/* Enough for many small transactions at once; a full descriptor passes over about a megabyte. */
#define WINDOW_BYTES (256u << 10)

int log_reader_init(struct log_reader *reader, const struct journal *j)
{
	uint32_t block_bytes = j->params.block_bytes;
	uint32_t room = max_of(WINDOW_BYTES / block_bytes, 1u);

	*reader = (struct log_reader){ .j = j, .room = room };
	reader->window = aligned_alloc(max_of(block_bytes, 4096u), round_up_to((size_t)room * block_bytes, 4096u));
	return reader->window ? 0 : -ENOMEM;
}

void log_reader_exit(struct log_reader *reader)
{
	free(reader->window);
	reader->window = NULL;
}

/* A bad sector further on must not fail a block that can be read. */
static int window_fill(struct log_reader *reader, uint32_t index, uint32_t count)
{
	int err = log_map_read(&reader->j->map, index, count, reader->window);

	if (err && count > 1) {
		count = 1;
		err = log_map_read(&reader->j->map, index, count, reader->window);
	}
	reader->index = index;
	reader->count = err ? 0 : count;
	return err;
}

int log_reader_get(struct log_reader *reader, uint32_t index, const uint8_t **block_out)
{
	const struct journal *j = reader->j;
	uint32_t limit = index < j->end ? j->end : j->maxlen;

	UEXT4_ASSERT(index >= j->first && index < limit);
	if (index < reader->index || index - reader->index >= reader->count) {
		int err = window_fill(reader, index, min_of(reader->room, limit - index));

		if (err) {
			log_print(j->params.log, LOG_ERROR, "journal: log block %u cannot be read: %s", index,
				  strerror(-err));
			return err;
		}
	}
	*block_out = reader->window + (size_t)(index - reader->index) * j->params.block_bytes;
	return 0;
}

void log_walk_begin(struct log_walk *walk, struct log_reader *reader)
{
	const struct journal *j = reader->j;

	*walk = (struct log_walk){
		.j = j, .reader = reader, .left = j->end - j->first,
		.index = be32_get(j->super->s_start), .tid = be32_get(j->super->s_sequence),
	};
}

bool log_walk_skip(struct log_walk *walk, uint32_t count)
{
	if (count > walk->left)
		return false;
	walk->index = log_advance(walk->j, walk->index, count);
	walk->left -= count;
	return true;
}

int log_walk_data(struct log_walk *walk, const uint8_t **block_out)
{
	uint32_t index = walk->index;
	int err;

	if (!log_walk_skip(walk, 1))
		return 0;
	err = log_reader_get(walk->reader, index, block_out);
	return err ? err : 1;
}

int log_walk_next(struct log_walk *walk, const uint8_t **block_out, uint32_t *type_out)
{
	struct journal_header h;
	int found = log_walk_data(walk, block_out);

	if (found <= 0)
		return found;
	memcpy(&h, *block_out, sizeof(h));
	if (be32_get(h.h_magic) != JBD2_MAGIC || be32_get(h.h_sequence) != walk->tid)
		return 0;
	*type_out = be32_get(h.h_blocktype);
	return *type_out == JBD2_DESCRIPTOR_BLOCK || *type_out == JBD2_COMMIT_BLOCK || *type_out == JBD2_REVOKE_BLOCK;
}
