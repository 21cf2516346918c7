/* SPDX-License-Identifier: MIT */
/*
 * writeback.c - from dirty blocks to large writes
 *
 * Dirty folios of the range are locked one after the other, ascending. Their dirty blocks, and only those, are mapped and
 * gathered into ioends: runs contiguous in the file and on the device, of one type, up to IOEND_BYTES_MAX. An ioend is sent
 * when the next block does not continue it. It may hold parts of many folios, and a folio may have parts in several.
 *
 * K1  A folio's dirty bits are cleared while it is locked and marked as under writeback, before its lock is dropped. So
 *     what is written to it from then on is dirty again, and there is no moment when its data is neither dirty nor
 *     under writeback nor on the device.
 * K2  writes_in_flight counts the folio's parts in ioends not finished, and one more while it is locked here. Who
 *     brings it to zero ends the writeback.
 * K3  Nothing is waited for with an ioend gathered but not sent: another thread may be waiting for it.
 * K4  Nothing past the end of the file is written; the tail of the last block is zeroed in memory first.
 * K5  Bytes that the file system stores itself, as in its journal, see no ioend and no writeback: under the folio's lock they
 *     are copied, and clean.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "iomap/iomap_private.h"

#define IOEND_BYTES_MAX (UINT64_C(16) << 20)
#define BIO_BYTES_MAX (UINT64_C(2) << 20)
/* Most ioends are a small file or one block: a few parts first, many in those that follow. */
#define FIRST_PARTS 8u
#define MORE_PARTS 256u
#define BATCH 32u
/* An integrity write that gets no credits looks again every millisecond, and gives up when nothing moves for this long. */
#define RETRY_NS 1000000
#define RETRIES_MAX 30000u

struct wb_bio {
	struct bio bio;
	struct wb_ioend *ioend;
	struct wb_bio *next;
	unsigned count, room;
	struct folio **folios;   /* room of them, behind the iovecs */
	struct iovec iov[];
};

struct wb_ioend {
	struct iomap_ioend pub;
	const struct iomap_writeback_ops *ops;
	struct wb_bio *first, *last;
	_Atomic unsigned pending; /* bios in flight, and one while they are submitted */
	_Atomic int io_err;
};

/* One call of iomap_writepages(). */
struct wb_ctx {
	struct mapping *m;
	struct writeback_control *wbc;
	const struct iomap_writeback_ops *ops;
	struct counters *counters;
	struct iomap map;
	bool have_map;
	struct wb_ioend *ioend;   /* gathered, not sent */
	uint64_t bytes;           /* taken so far */
	int err;                  /* first */
};

/* ---- the end of it ---- */

/* K2 */
static void folio_part_done(struct folio *f)
{
	if (atomic_fetch_sub(&f->writes_in_flight, 1) == 1)
		folio_end_writeback(f);
}

/* The error is recorded first: once its folios are done, the mapping may go. */
void iomap_ioend_finish(struct iomap_ioend *ioend, int err)
{
	struct wb_ioend *io = container_of(ioend, struct wb_ioend, pub);
	struct wb_bio *wb = io->first;

	if (!err)
		err = ioend->err;
	if (err)
		mapping_record_error(ioend->mapping, err);
	while (wb) {
		struct wb_bio *next = wb->next;

		for (unsigned i = 0; i < wb->count; i++)
			folio_part_done(wb->folios[i]);
		free(wb);
		wb = next;
	}
	free(io);
}

static void ioend_put(struct wb_ioend *io)
{
	if (atomic_fetch_sub(&io->pending, 1) != 1)
		return;
	io->pub.err = atomic_load(&io->io_err);
	if (!io->ops->end_io || io->ops->end_io(&io->pub))
		iomap_ioend_finish(&io->pub, io->pub.err);
}

static void wb_bio_done(struct bio *bio, int err)
{
	struct wb_bio *wb = bio->private_data;
	struct wb_ioend *io = wb->ioend;
	int none = 0;

	if (err)
		atomic_compare_exchange_strong(&io->io_err, &none, err);
	ioend_put(io);
}

/* ---- sending ---- */

static void count_ioend(struct counters *counters, const struct iomap_ioend *ioend, enum counter_id pages)
{
	counter_add(counters, CNT_WB_IOENDS, 1);
	counter_add(counters, CNT_WB_BYTES_WRITTEN, (int64_t)ioend->len_bytes);
	counter_add(counters, pages, (int64_t)div_round_up(ioend->len_bytes, (uint64_t)PAGE_BYTES));
}

static void ctx_note_error(struct wb_ctx *ctx, int err)
{
	if (!ctx->err)
		ctx->err = err;
}

static void ioend_issue(struct wb_ioend *io)
{
	struct block_device *dev = io->pub.mapping->dev;
	struct wb_bio *wb, *next;

	block_plug(dev);
	for (wb = io->first; wb; wb = next) {
		next = wb->next; /* our own count in pending keeps the list until the loop is over */
		atomic_fetch_add(&io->pending, 1);
		wb->bio.iov_count = wb->count;
		block_submit(&wb->bio);
	}
	block_unplug(dev);
	ioend_put(io);
}

static void ioend_send(struct wb_ctx *ctx)
{
	struct wb_ioend *io = ctx->ioend;
	int err;

	if (!io)
		return;
	ctx->ioend = NULL;
	err = ctx->ops->submit ? ctx->ops->submit(&io->pub) : 0;
	if (err > 0)
		return; /* IOMAP_SUBMIT_LATER: it may be gone already */
	if (err) {
		ctx_note_error(ctx, err);
		iomap_ioend_finish(&io->pub, err);
		return;
	}
	count_ioend(ctx->counters, &io->pub, CNT_WB_DATA_PAGES_BY_FLUSHER);
	ioend_issue(io);
}

void iomap_ioend_issue(struct iomap_ioend *ioend, struct counters *counters)
{
	count_ioend(counters, ioend, CNT_JOURNAL_DATA_PAGES_BY_COMMIT);
	ioend_issue(container_of(ioend, struct wb_ioend, pub));
}

/* ---- gathering ---- */

static struct wb_bio *wb_bio_alloc(struct wb_ioend *io, uint64_t addr)
{
	unsigned room = io->first ? MORE_PARTS : FIRST_PARTS;
	struct wb_bio *wb = malloc(sizeof(*wb) + room * (sizeof(wb->iov[0]) + sizeof(wb->folios[0])));

	if (!wb)
		return NULL;
	*wb = (struct wb_bio){ .ioend = io, .room = room };
	wb->folios = (struct folio **)&wb->iov[room];
	wb->bio = (struct bio){
		.dev = io->pub.mapping->dev, .op = BIO_WRITE, .pos_bytes = addr, .iov = wb->iov,
		.end_io = wb_bio_done, .private_data = wb,
	};
	if (io->last)
		io->last->next = wb;
	else
		io->first = wb;
	io->last = wb;
	return wb;
}

static struct wb_ioend *ioend_alloc(struct wb_ctx *ctx, uint64_t pos, uint64_t addr, enum iomap_type type)
{
	struct wb_ioend *io = calloc(1, sizeof(*io));

	if (!io)
		return NULL;
	io->pub.mapping = ctx->m;
	io->pub.pos_bytes = pos;
	io->pub.addr_bytes = addr;
	io->pub.type = type;
	list_init(&io->pub.node);
	io->ops = ctx->ops;
	atomic_init(&io->pending, 1);
	return io;
}

static bool ioend_continues(const struct wb_ioend *io, uint64_t pos, uint64_t addr, enum iomap_type type)
{
	const struct iomap_ioend *pub = &io->pub;

	return pub->type == type && pub->pos_bytes + pub->len_bytes == pos &&
	       pub->addr_bytes + pub->len_bytes == addr && pub->len_bytes < IOEND_BYTES_MAX;
}

/* The first part of the folio in this pass brings it under writeback. */
static void folio_part_begin(struct folio *f, bool *started)
{
	if (!*started) {
		atomic_store(&f->writes_in_flight, 1);
		folio_begin_writeback(f);
		*started = true;
	}
	atomic_fetch_add(&f->writes_in_flight, 1);
}

/* Adds dirty bytes that go to @addr to the ioend that they continue, or to a new one. -ENOMEM: nothing done. */
static int gather_part(struct wb_ctx *ctx, struct folio *f, size_t off, size_t len, uint64_t addr,
		       enum iomap_type type, bool *started)
{
	uint64_t pos = folio_pos(f) + off;
	struct wb_ioend *io;
	struct wb_bio *wb;

	if (ctx->ioend && !ioend_continues(ctx->ioend, pos, addr, type))
		ioend_send(ctx);
	io = ctx->ioend ? ctx->ioend : ioend_alloc(ctx, pos, addr, type);
	if (!io)
		return -ENOMEM;
	wb = io->last;
	if (!wb || wb->count == wb->room || wb->bio.len_bytes >= BIO_BYTES_MAX) {
		wb = wb_bio_alloc(io, addr);
		if (!wb) {
			if (!io->first)
				free(io); /* a new one */
			return -ENOMEM;
		}
	}
	ctx->ioend = io;
	folio_part_begin(f, started);
	wb->iov[wb->count] = (struct iovec){ f->data + off, len };
	wb->folios[wb->count++] = f;
	wb->bio.len_bytes += len;
	io->pub.len_bytes += len;
	return 0;
}

/* The map for dirty bytes at @pos, the last one if it still holds. */
static int ctx_map(struct wb_ctx *ctx, uint64_t pos, uint64_t len)
{
	int err;

	if (ctx->have_map && iomap_covers(&ctx->map, pos) &&
	    (!ctx->ops->is_valid || ctx->ops->is_valid(ctx->m, &ctx->map)))
		return 0;
	ctx->have_map = false;
	counter_add(ctx->counters, CNT_WB_MAP_CALLS, 1);
	err = ctx->ops->map_blocks(ctx->m, pos, len, &ctx->map);
	if (err)
		return err;
	UEXT4_ASSERT(iomap_covers(&ctx->map, pos) && ctx->map.type != IOMAP_DELALLOC);
	ctx->have_map = true;
	return 0;
}

/* What the current map says of [off, off + len) of the folio. -ENOMEM: nothing done. */
static int gather_mapped(struct wb_ctx *ctx, struct folio *f, size_t off, size_t len, bool *started)
{
	const struct iomap *map = &ctx->map;
	uint64_t addr = map->addr_bytes + (folio_pos(f) + off - map->pos_bytes);
	struct wb_ioend *held = ctx->ioend;
	int err;

	if (!(map->flags & IOMAP_F_SUBMIT))
		return gather_part(ctx, f, off, len, addr, map->type, started);
	/* The next submit() has to be for these bytes, and these alone: what was gathered before waits. */
	ctx->ioend = NULL;
	err = gather_part(ctx, f, off, len, addr, map->type, started);
	ioend_send(ctx);
	ctx->ioend = held;
	return err;
}

/* What the current map says of [off, off + *len) of the folio. *len becomes how many bytes need no more attention. */
static int write_mapped_part(struct wb_ctx *ctx, struct folio *f, size_t off, size_t *len, bool *started)
{
	size_t want = *len;
	int err;

	if (ctx->map.flags & IOMAP_F_STORE) {
		ioend_send(ctx); /* K3: it may wait for the journal */
		*len = 0;
		err = ctx->ops->store(ctx->m, folio_pos(f) + off, f->data + off, want, len);
		UEXT4_ASSERT(*len <= want && (err || *len));
	} else if (ctx->map.type == IOMAP_HOLE) {
		return 0;
	} else {
		err = gather_mapped(ctx, f, off, want, started);
		*len = err ? 0 : want;
	}
	ctx->bytes += *len;
	return err;
}

/* One dirty run of a locked folio. *done_out: bytes that need no more attention. */
static int write_run(struct wb_ctx *ctx, struct folio *f, size_t off, size_t len, bool *started, size_t *done_out)
{
	size_t done = 0;
	int err = 0;

	while (!err && done < len) {
		uint64_t pos = folio_pos(f) + off + done;
		size_t n;

		err = ctx_map(ctx, pos, len - done);
		if (err)
			break;
		n = (size_t)min_of((uint64_t)(len - done), iomap_end(&ctx->map) - pos);
		err = write_mapped_part(ctx, f, off + done, &n, started);
		done += n;
	}
	*done_out = done;
	return err;
}

/* All dirty runs below @limit. *done_out: how far into the folio everything is dealt with. */
static int write_runs(struct wb_ctx *ctx, struct folio *f, size_t limit, bool *started, size_t *done_out)
{
	size_t off = 0, len, done;
	int err = 0;

	while (!err && folio_next_dirty_range(f, &off, &len) && off < limit) {
		err = write_run(ctx, f, off, min_of(len, limit - off), started, &done);
		off += done;
	}
	*done_out = err ? off : folio_bytes(f);
	return err;
}

/* K4: bytes of the folio that may be written; the rest of the last block becomes zeros. */
static size_t clip_at_eof(struct folio *f)
{
	uint64_t size = atomic_load(&f->mapping->size_bytes), pos = folio_pos(f);
	size_t tail, limit;

	if (size <= pos)
		return 0;
	if (size >= pos + folio_bytes(f))
		return folio_bytes(f);
	tail = (size_t)(size - pos);
	limit = block_ceil(f, tail);
	memset(f->data + tail, 0, limit - tail);
	return limit;
}

/* For lack of memory or credits the rest stays dirty; any other error leaves it nowhere to go: it is kept for fsync. */
static bool error_is_transient(int err)
{
	return err == -EAGAIN || err == -ENOMEM;
}

/* Folio locked, dirty, not under writeback. -EAGAIN, -ENOMEM: some of it is still dirty. */
static int write_locked_folio(struct wb_ctx *ctx, struct folio *f)
{
	size_t limit = clip_at_eof(f), done;
	bool started = false;
	int err;

	err = write_runs(ctx, f, limit, &started, &done);
	if (err && !error_is_transient(err)) {
		mapping_record_error(ctx->m, err);
		ctx_note_error(ctx, err);
		done = folio_bytes(f);
		err = 0;
	}
	folio_clear_range_dirty(f, 0, done); /* K1 */
	folio_unlock(f);
	if (started)
		folio_part_done(f);
	return err;
}

/* Nothing past it goes out before it. */
static bool is_ordered(const struct wb_ctx *ctx, const struct folio *f)
{
	return folio_pos(f) + folio_bytes(f) > ctx->wbc->ordered_from_bytes;
}

/* True: it is locked and has to be written. */
static bool lock_dirty_folio(struct wb_ctx *ctx, struct folio *f)
{
	bool wait = ctx->wbc->wait_for_writeback || is_ordered(ctx, f);

	if (!wait && atomic_load(&f->flags) & FOLIO_WRITEBACK)
		return false;
	if (!folio_trylock(f)) {
		ioend_send(ctx); /* K3 */
		folio_lock(f);
	}
	if (f->mapping == ctx->m && wait && atomic_load(&f->flags) & FOLIO_WRITEBACK) {
		ioend_send(ctx); /* K3 */
		folio_wait_writeback(f);
	}
	if (f->mapping == ctx->m && (atomic_load(&f->flags) & (FOLIO_DIRTY | FOLIO_WRITEBACK)) == FOLIO_DIRTY)
		return true;
	folio_unlock(f);
	return false;
}

/*
 * Until all of it is under way, for integrity; else once. What a background pass leaves is found by the next. False: the
 * pass has to end here, for the order.
 */
static bool write_folio(struct wb_ctx *ctx, struct folio *f)
{
	const struct timespec pause = { .tv_nsec = RETRY_NS };
	unsigned idle = 0;

	while (lock_dirty_folio(ctx, f)) {
		uint64_t before = ctx->bytes;
		int err = write_locked_folio(ctx, f);

		if (!err)
			return true;
		ioend_send(ctx); /* its completion gives credits and memory back */
		if (!ctx->wbc->wait_for_writeback)
			return !is_ordered(ctx, f);
		idle = ctx->bytes == before ? idle + 1 : 0;
		if (idle > RETRIES_MAX) {
			ctx_note_error(ctx, err);
			return !is_ordered(ctx, f);
		}
		if (idle)
			nanosleep(&pause, NULL);
	}
	return true;
}

int iomap_writepages(struct mapping *m, struct writeback_control *wbc, const struct iomap_writeback_ops *ops,
		     struct counters *counters)
{
	struct wb_ctx ctx = { .m = m, .wbc = wbc, .ops = ops, .counters = counters };
	uint64_t index = wbc->start_bytes >> PAGE_SHIFT_BITS;
	uint64_t end_index = wbc->end_bytes == UINT64_MAX ? UINT64_MAX
							 : div_round_up(wbc->end_bytes, (uint64_t)PAGE_BYTES);
	uint64_t budget = wbc->budget_bytes > 0 ? (uint64_t)wbc->budget_bytes : 0;
	struct folio *batch[BATCH];
	bool go_on = budget > 0;
	unsigned count;

	while (go_on && (count = mapping_find_tagged(m, &index, end_index, TAG_DIRTY, batch, BATCH)) > 0) {
		for (unsigned i = 0; i < count; i++) {
			if (go_on)
				go_on = write_folio(&ctx, batch[i]) && ctx.bytes < budget;
			else
				index = min_of(index, batch[i]->index);
			folio_put(batch[i]);
		}
	}
	if (ctx.ioend)
		ctx.ioend->pub.last = wbc->wait_for_writeback;
	ioend_send(&ctx);
	wbc->start_bytes = index << PAGE_SHIFT_BITS;
	wbc->budget_bytes -= (int64_t)ctx.bytes;
	return ctx.err;
}
