/* SPDX-License-Identifier: MIT */
/*
 * null.c - handles of a file system without a journal: changed blocks are dirty in the cache at once
 *
 * They may go home as soon as the handle ends, and not before: buffer_changes_begin().
 */
#include <errno.h>
#include <stdlib.h>

#include "jbd2/jbd2_private.h"

void null_begin(struct handle *h)
{
	list_init(&h->callbacks);
	lock_rank_enter(RANK_HANDLE);
	buffer_changes_begin(h->journal->bc);
}

void null_restart(struct handle *h)
{
	buffer_changes_end(h->journal->bc);
	buffer_changes_begin(h->journal->bc);
}

void null_end(struct handle *h)
{
	struct journal_callback *cb, *tmp;

	buffer_changes_end(h->journal->bc);
	lock_rank_leave(RANK_HANDLE);
	list_for_each_safe(cb, tmp, &h->callbacks, node) {
		list_del(&cb->node);
		cb->func(cb, 0);
	}
}

int null_get_access(struct handle *h, struct buffer_head *bh)
{
	return journal_error(h->journal) ? -EROFS : 0;
}

int null_dirty_metadata(struct handle *h, struct buffer_head *bh)
{
	if (journal_error(h->journal))
		return -EROFS;
	buffer_mark_dirty(bh);
	return 0;
}

int null_forget(struct handle *h, struct buffer_head *bh)
{
	buffer_lock(bh); /* a read ahead in flight would bring the old contents back */
	buffer_clean(bh);
	buffer_wait_writeback(bh); /* or it would land on the block's next use */
	buffer_clear(bh, BH_UPTODATE | BH_VERIFIED);
	buffer_unlock(bh);
	buffer_put(bh);
	return 0;
}

int journal_create_null(struct buffer_cache *bc, struct counters *counters, struct journal **journal_out)
{
	struct journal *j = aligned_alloc(64, round_up_to(sizeof(*j), 64));

	if (!j)
		return -ENOMEM;
	*j = (struct journal){ .is_null = true, .bc = bc, .counters = counters, .max_credits = INT32_MAX };
	*journal_out = j;
	return 0;
}

bool journal_is_null(const struct journal *j)
{
	return j->is_null;
}
