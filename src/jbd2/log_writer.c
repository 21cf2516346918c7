/* SPDX-License-Identifier: MIT */
/* log_writer.c - fills large buffers with consecutive log blocks and keeps several in flight */
#include "jbd2/log_writer.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "jbd2/jbd2_private.h"

/* In flight at once, a megabyte or so each: a device is busy with two, the rest covers the copying. */
#define CHUNKS 4u
#define BUFFER_ALIGN 4096u

struct log_chunk {
	uint8_t *bytes;          /* NULL until first used; chunk 0 is always there */
	struct log_batch batch;
	bool in_flight;
};

struct log_writer {
	struct journal *j;
	uint32_t chunk_blocks;   /* [const] */
	uint32_t index;          /* log block of the current chunk's first block */
	uint32_t used;           /* blocks filled in the current chunk */
	unsigned current;
	int err;                 /* the first */
	struct log_chunk chunk[CHUNKS];
};

static bool chunk_alloc(struct log_writer *w, struct log_chunk *c)
{
	size_t bytes = (size_t)w->chunk_blocks * w->j->layout.block_bytes;

	if (!c->bytes)
		c->bytes = aligned_alloc(BUFFER_ALIGN, round_up_to(bytes, BUFFER_ALIGN));
	return c->bytes != NULL;
}

int log_writer_create(struct journal *j, struct log_writer **w_out)
{
	struct log_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->j = j;
	w->chunk_blocks = j->tags_per_desc + 1;
	for (unsigned i = 0; i < CHUNKS; i++)
		log_batch_init(&w->chunk[i].batch, &j->map);
	if (!chunk_alloc(w, &w->chunk[0])) {
		free(w);
		return -ENOMEM;
	}
	*w_out = w;
	return 0;
}

void log_writer_destroy(struct log_writer *w)
{
	if (!w)
		return;
	for (unsigned i = 0; i < CHUNKS; i++)
		free(w->chunk[i].bytes);
	free(w);
}

static void chunk_wait(struct log_writer *w, struct log_chunk *c)
{
	int err;

	if (!c->in_flight)
		return;
	err = log_batch_wait(&c->batch);
	c->in_flight = false;
	if (err && !w->err)
		w->err = err;
}

static void chunk_submit(struct log_writer *w)
{
	struct log_chunk *c = &w->chunk[w->current];
	uint32_t to_end = min_of(w->used, w->j->end - w->index);

	if (!w->used)
		return;
	block_plug(w->j->map.dev);
	log_batch_add(&c->batch, BIO_WRITE, w->index, to_end, c->bytes, 0);
	if (w->used > to_end)
		log_batch_add(&c->batch, BIO_WRITE, w->j->first, w->used - to_end,
			      c->bytes + (size_t)to_end * w->j->layout.block_bytes, 0);
	block_unplug(w->j->map.dev);
	c->in_flight = true;
	w->index = log_advance(w->j, w->index, w->used);
	w->used = 0;
}

/* Each processor has a chunk to begin with, in its own cache, where threads on several commit in turn. */
static unsigned first_chunk(struct log_writer *w)
{
	int cpu = sched_getcpu();
	unsigned first = cpu < 0 ? 0 : (unsigned)cpu % CHUNKS;

	return chunk_alloc(w, &w->chunk[first]) ? first : 0;
}

void log_writer_begin(struct log_writer *w, uint32_t index)
{
	w->index = index;
	w->used = 0;
	w->current = first_chunk(w);
	w->err = 0;
}

uint8_t *log_writer_next(struct log_writer *w, uint32_t count)
{
	uint8_t *at;

	UEXT4_ASSERT(count <= w->chunk_blocks);
	if (w->used + count > w->chunk_blocks) {
		chunk_submit(w);
		w->current = (w->current + 1) % CHUNKS;
		if (!chunk_alloc(w, &w->chunk[w->current]))
			w->current = 0;
		chunk_wait(w, &w->chunk[w->current]);
	}
	at = w->chunk[w->current].bytes + (size_t)w->used * w->j->layout.block_bytes;
	w->used += count;
	return at;
}

int log_writer_finish(struct log_writer *w, uint32_t *index_out)
{
	chunk_submit(w);
	for (unsigned i = 0; i < CHUNKS; i++)
		chunk_wait(w, &w->chunk[i]);
	*index_out = w->index;
	return w->err;
}
