/* SPDX-License-Identifier: MIT */
/* record.c - a device that remembers every write, and rebuilds what a power cut may have left */
#include "block/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "block/block_private.h"
#include "block/iov.h"
#include "block/random.h"

#define SECTOR_BYTES 512u

struct record_device {
	struct block_device dev;
	struct block_device *lower;      /* [const] owned */
	struct mutex lock;
	struct record_entry **entry;     /* [lock] */
	size_t count;                    /* [lock] */
	size_t capacity;                 /* [lock] */
	uint64_t next_seq;               /* [lock] of the next event, from 1 */
};

static struct record_device *record_of(struct block_device *dev)
{
	return container_of(dev, struct record_device, dev);
}

static int record_append(struct record_device *rec, struct record_entry *entry)
{
	struct record_entry **grown;
	size_t capacity;
	int err = 0;

	mutex_lock(&rec->lock);
	if (rec->count == rec->capacity) {
		capacity = rec->capacity ? 2 * rec->capacity : 256;
		grown = realloc(rec->entry, capacity * sizeof(*grown));
		if (!grown) {
			err = -ENOMEM;
			goto unlock;
		}
		rec->entry = grown;
		rec->capacity = capacity;
	}
	entry->submitted = rec->next_seq++;
	rec->entry[rec->count++] = entry;
unlock:
	mutex_unlock(&rec->lock);
	return err;
}

static struct record_entry *record_entry_make(const struct bio *bio)
{
	size_t bytes = bio->op == BIO_WRITE ? bio->len_bytes : 0;
	struct iov_cursor cur = iov_cursor_make(bio->iov, bio->iov_count, 0);
	struct record_entry *entry = calloc(1, sizeof(*entry) + bytes);

	if (!entry)
		return NULL;
	entry->op = bio->op;
	entry->flags = bio->flags;
	entry->pos_bytes = bio->pos_bytes;
	entry->len_bytes = bio->len_bytes;
	iov_copy_from(&cur, entry->bytes, bytes);
	return entry;
}

static void record_end_io(struct bio *bio, int err)
{
	struct bio_clone *clone = bio_clone_of(bio);
	struct record_device *rec = record_of(clone->orig->dev);
	struct record_entry *entry = bio->private_data;

	if (entry) {
		mutex_lock(&rec->lock);
		entry->completed = rec->next_seq++;
		entry->err = err;
		mutex_unlock(&rec->lock);
	}
	bio_clone_end(bio, err);
}

static void record_submit(struct block_device *dev, struct bio *bio)
{
	struct record_device *rec = record_of(dev);
	struct bio_clone *clone = bio_clone_alloc(bio, rec->lower, record_end_io);
	struct record_entry *entry = NULL;

	if (!clone)
		goto no_memory;
	if (bio->op != BIO_READ) {
		entry = record_entry_make(bio);
		if (!entry || record_append(rec, entry))
			goto free_clone;
	}
	clone->bio.private_data = entry;
	block_submit(&clone->bio);
	return;
free_clone:
	free(entry);
	free(clone);
no_memory:
	bio->end_io(bio, -ENOMEM);
}

static void record_plug(struct block_device *dev)
{
	block_plug(record_of(dev)->lower);
}

static void record_unplug(struct block_device *dev)
{
	block_unplug(record_of(dev)->lower);
}

void record_reset(struct block_device *dev)
{
	struct record_device *rec = record_of(dev);

	mutex_lock(&rec->lock);
	for (size_t i = 0; i < rec->count; i++)
		free(rec->entry[i]);
	rec->count = 0;
	mutex_unlock(&rec->lock);
}

static int record_close(struct block_device *dev)
{
	struct record_device *rec = record_of(dev);
	int err = block_close(rec->lower);

	record_reset(dev);
	free(rec->entry);
	mutex_exit(&rec->lock);
	free(rec);
	return err;
}

static const struct block_device_ops record_ops = {
	.name = "record",
	.submit = record_submit,
	.plug = record_plug,
	.unplug = record_unplug,
	.close = record_close,
};

int block_open_record(struct block_device *lower, struct block_device **dev_out)
{
	struct record_device *rec = calloc(1, sizeof(*rec));

	if (!rec)
		return -ENOMEM;
	rec->lower = lower;
	rec->next_seq = 1;
	rec->dev = *lower;
	rec->dev.ops = &record_ops;
	lower->counters = NULL;
	mutex_init(&rec->lock, RANK_DEVICE);
	*dev_out = &rec->dev;
	return 0;
}

int record_mark(struct block_device *dev, const char *text, uint64_t value)
{
	size_t bytes = strlen(text) + 1;
	struct record_entry *entry = calloc(1, sizeof(*entry) + bytes);
	int err;

	if (!entry)
		return -ENOMEM;
	memcpy(entry->bytes, text, bytes);
	entry->is_mark = true;
	entry->mark = (const char *)entry->bytes;
	entry->mark_value = value;
	err = record_append(record_of(dev), entry);
	if (err)
		free(entry);
	return err;
}

size_t record_count(struct block_device *dev)
{
	struct record_device *rec = record_of(dev);
	size_t count;

	mutex_lock(&rec->lock);
	count = rec->count;
	mutex_unlock(&rec->lock);
	return count;
}

const struct record_entry *record_get(struct block_device *dev, size_t index)
{
	struct record_device *rec = record_of(dev);
	struct record_entry *entry;

	mutex_lock(&rec->lock);
	UEXT4_ASSERT(index < rec->count);
	entry = rec->entry[index];
	mutex_unlock(&rec->lock);
	return entry;
}

static uint64_t record_cut_seq(const struct record_device *rec, size_t cut)
{
	return cut < rec->count ? rec->entry[cut]->submitted : rec->next_seq;
}

static bool entry_completed_before(const struct record_entry *entry, uint64_t seq)
{
	return entry->completed && !entry->err && entry->completed < seq;
}

static bool entry_flushes(const struct record_entry *entry)
{
	return !entry->is_mark && (entry->op == BIO_FLUSH || (entry->flags & BIO_PREFLUSH));
}

/* Submission of the last flush that had completed by @cut_seq: what completed before it is durable. */
static uint64_t record_last_flush(const struct record_device *rec, size_t cut, uint64_t cut_seq)
{
	for (size_t i = cut; i-- > 0;) {
		if (entry_flushes(rec->entry[i]) && entry_completed_before(rec->entry[i], cut_seq))
			return rec->entry[i]->submitted;
	}
	return 0;
}

static bool entry_is_durable(const struct record_entry *entry, uint64_t last_flush, uint64_t cut_seq)
{
	if ((entry->flags & BIO_FUA) && entry_completed_before(entry, cut_seq))
		return true;
	return entry_completed_before(entry, last_flush);
}

bool record_is_durable(struct block_device *dev, size_t index, size_t cut)
{
	struct record_device *rec = record_of(dev);
	uint64_t cut_seq;
	bool durable;

	mutex_lock(&rec->lock);
	cut_seq = record_cut_seq(rec, cut);
	durable = entry_is_durable(rec->entry[index], record_last_flush(rec, min_of(cut, rec->count), cut_seq), cut_seq);
	mutex_unlock(&rec->lock);
	return durable;
}

static void entry_apply(const struct record_entry *entry, uint64_t from_bytes, uint64_t len_bytes, char *image)
{
	char *at = image + entry->pos_bytes + from_bytes;

	if (entry->op == BIO_WRITE)
		memcpy(at, entry->bytes + from_bytes, len_bytes);
	else
		memset(at, 0, len_bytes);
}

static void entry_apply_torn(const struct record_entry *entry, uint64_t seed, char *image)
{
	struct random rnd = random_make(seed);

	for (uint64_t from = 0; from < entry->len_bytes; from += SECTOR_BYTES) {
		if (random_below(&rnd, 2))
			entry_apply(entry, from, min_of(entry->len_bytes - from, (uint64_t)SECTOR_BYTES), image);
	}
}

enum fate { FATE_LOST, FATE_TORN, FATE_WHOLE };

/* Of a write that may be lost; each has a seed of its own, so that one may be asked for before its turn. */
static enum fate entry_fate(enum record_cut_kind kind, uint64_t entry_seed)
{
	struct random rnd = random_make(~entry_seed);

	switch (kind) {
	case RECORD_CUT_KEEPS_ALL:
		return FATE_WHOLE;
	case RECORD_CUT_DROPS_UNFLUSHED:
		return FATE_LOST;
	case RECORD_CUT_RANDOM:
		break;
	}
	switch (random_below(&rnd, 4)) {
	case 0:
		return FATE_LOST;
	case 1:
		return FATE_TORN;
	default:
		return FATE_WHOLE;
	}
}

static uint64_t entry_seed(uint64_t seed, size_t index)
{
	struct random rnd = random_make(seed + index * UINT64_C(0x9E3779B97F4A7C15));

	return random_next(&rnd);
}

/* Of writes with BIO_PREFLUSH in flight: what arrives of one has let what was complete before it be flushed. */
static uint64_t record_last_flush_in_flight(const struct record_device *rec, size_t cut, uint64_t cut_seq,
					    enum record_cut_kind kind, uint64_t seed)
{
	for (size_t i = cut; i-- > 0;) {
		const struct record_entry *entry = rec->entry[i];

		if (!entry->is_mark && (entry->flags & BIO_PREFLUSH) && !entry_completed_before(entry, cut_seq) &&
		    entry_fate(kind, entry_seed(seed, i)) != FATE_LOST)
			return entry->submitted;
	}
	return 0;
}

void record_build_image(struct block_device *dev, size_t cut, enum record_cut_kind kind, uint64_t seed, void *image)
{
	struct record_device *rec = record_of(dev);
	uint64_t cut_seq, last_flush;

	mutex_lock(&rec->lock);
	cut = min_of(cut, rec->count);
	cut_seq = record_cut_seq(rec, cut);
	last_flush = max_of(record_last_flush(rec, cut, cut_seq), record_last_flush_in_flight(rec, cut, cut_seq, kind, seed));
	for (size_t i = 0; i < cut; i++) {
		const struct record_entry *entry = rec->entry[i];
		enum fate fate = FATE_WHOLE;

		if (entry->is_mark || entry->op == BIO_FLUSH)
			continue;
		if (!entry_is_durable(entry, last_flush, cut_seq))
			fate = entry_fate(kind, entry_seed(seed, i));
		if (fate == FATE_WHOLE)
			entry_apply(entry, 0, entry->len_bytes, image);
		else if (fate == FATE_TORN)
			entry_apply_torn(entry, entry_seed(seed, i), image);
	}
	mutex_unlock(&rec->lock);
}
