/* SPDX-License-Identifier: MIT */
/* log_writer.h - fills large buffers with consecutive log blocks and keeps several in flight */
#ifndef UEXT4_JBD2_LOG_WRITER_H
#define UEXT4_JBD2_LOG_WRITER_H

#include "base/types.h"

struct journal;
struct log_writer;

int log_writer_create(struct journal *j, struct log_writer **w_out); /* -ENOMEM */
void log_writer_destroy(struct log_writer *w);                        /* nothing in flight; NULL is fine */

/* The next block goes to log block @index. */
void log_writer_begin(struct log_writer *w, uint32_t index);
/*
 * Room in memory for the next @count log blocks, contiguous, at most a descriptor and what it covers. They need not
 * be contiguous in the log: it may wrap among them. Stays valid until the next call. May wait for earlier writes.
 */
uint8_t *log_writer_next(struct log_writer *w, uint32_t count);
/* Submits what is filled and waits for all of it. First error. *index_out: of the block after the last. */
int log_writer_finish(struct log_writer *w, uint32_t *index_out);

#endif
