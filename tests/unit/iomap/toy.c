/* SPDX-License-Identifier: MIT */
#include "toy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_BLOCKS (2 * TOY_BLOCKS)

/* What this thread's next submit() has to be for; UINT64_MAX: nothing. */
static _Thread_local uint64_t announced_pos = UINT64_MAX;

static struct toy *toy_of(struct mapping *m)
{
	return m->host;
}

/* What the log has comes from there. */
static int toy_fetch(struct mapping *m, uint64_t addr, void *buf, uint64_t len)
{
	struct toy *toy = toy_of(m);
	uint64_t block = UINT64_C(1) << m->block_bits;
	int err = 0;

	for (uint64_t at = 0; at < len && !err; at += block) {
		bool logged;

		mutex_lock(&toy->lock);
		logged = toy->logged[(addr + at) >> m->block_bits];
		mutex_unlock(&toy->lock);
		if (logged)
			memcpy((uint8_t *)buf + at, toy->log + addr + at, block);
		else
			err = block_read(m->dev, addr + at, (uint8_t *)buf + at, block);
	}
	return err;
}

/* toy.lock held: the run of like blocks around @blk. */
static void toy_run(struct toy *toy, uint32_t blk, struct iomap *map)
{
	struct toy_block *b = &toy->blocks[blk];
	uint32_t end = blk + 1;
	unsigned bits = toy->mapping.block_bits;
	bool has_addr = b->type == IOMAP_MAPPED || b->type == IOMAP_UNWRITTEN;

	while (end < TOY_BLOCKS && end - blk < toy->run_max && toy->blocks[end].type == b->type &&
	       (!has_addr || toy->blocks[end].addr_blk == b->addr_blk + (end - blk)))
		end++;
	*map = (struct iomap){
		.type = b->type, .pos_bytes = (uint64_t)blk << bits, .len_bytes = (uint64_t)(end - blk) << bits,
		.addr_bytes = has_addr ? (uint64_t)b->addr_blk << bits : 0, .seq = atomic_load(&toy->seq),
		.fetch = toy->log ? toy_fetch : NULL,
	};
}

static int toy_reserve(struct toy *toy, uint32_t first, uint32_t last)
{
	for (uint32_t blk = first; blk <= last && toy->blocks[blk].type == IOMAP_HOLE; blk++) {
		if (!toy->free_blocks)
			return blk == first ? -ENOSPC : 0;
		toy->free_blocks--;
		toy->blocks[blk].type = IOMAP_DELALLOC;
	}
	return 0;
}

static int toy_begin(struct mapping *m, uint64_t pos, uint64_t len, unsigned flags, struct iomap *map_out)
{
	struct toy *toy = toy_of(m);
	uint32_t first = (uint32_t)(pos >> m->block_bits);
	uint32_t last = (uint32_t)((pos + len - 1) >> m->block_bits);
	bool reserved = false;
	int err = 0;

	atomic_fetch_add(&toy->begins, 1);
	mutex_lock(&toy->lock);
	if (flags & IOMAP_WRITE && toy->blocks[first].type == IOMAP_HOLE) {
		err = toy_reserve(toy, first, last);
		reserved = true;
	}
	if (!err)
		toy_run(toy, first, map_out);
	if (reserved)
		map_out->flags |= IOMAP_F_NEW;
	mutex_unlock(&toy->lock);
	return err;
}

static bool toy_is_valid(struct mapping *m, const struct iomap *map)
{
	return !(map->flags & IOMAP_F_SUBMIT) && map->seq == atomic_load(&toy_of(m)->seq);
}

const struct iomap_ops toy_ops = { .begin = toy_begin, .is_valid = toy_is_valid };

/* ---- writeback ---- */

/* toy.lock held: @count addresses in a row at most, one at least; the device is twice the file. */
static uint32_t toy_take_addrs(struct toy *toy, uint32_t *count)
{
	uint32_t addr, n = 0;

	while (toy->used[toy->next_addr_blk])
		toy->next_addr_blk = (toy->next_addr_blk + 1) % DEVICE_BLOCKS;
	addr = toy->next_addr_blk;
	while (n < *count && addr + n < DEVICE_BLOCKS && !toy->used[addr + n])
		toy->used[addr + n++] = true;
	toy->next_addr_blk = (addr + n) % DEVICE_BLOCKS;
	*count = n;
	return addr;
}

/* toy.lock held. */
static void toy_allocate(struct toy *toy, uint32_t blk)
{
	uint32_t count = 0, addr;

	while (blk + count < TOY_BLOCKS && toy->blocks[blk + count].type == IOMAP_DELALLOC)
		count++;
	addr = toy_take_addrs(toy, &count);
	for (uint32_t i = 0; i < count; i++) {
		toy->blocks[blk + i].type = toy->alloc_written ? IOMAP_MAPPED : IOMAP_UNWRITTEN;
		toy->blocks[blk + i].addr_blk = addr + (toy->reverse ? count - 1 - i : i);
	}
	atomic_fetch_add(&toy->seq, 1);
}

static int toy_map_blocks(struct mapping *m, uint64_t pos, uint64_t len, struct iomap *map_out)
{
	struct toy *toy = toy_of(m);
	uint32_t blk = (uint32_t)(pos >> m->block_bits);
	int err = atomic_exchange(&toy->map_error, 0);

	atomic_fetch_add(&toy->maps, 1);
	if (err)
		return err;
	if (atomic_load(&toy->map_again) > 0) {
		atomic_fetch_sub(&toy->map_again, 1);
		return -EAGAIN;
	}
	assert_true(announced_pos == UINT64_MAX);
	if (toy->log) {
		*map_out = (struct iomap){ .type = IOMAP_MAPPED, .flags = IOMAP_F_STORE, .pos_bytes = pos, .len_bytes = len,
					   .seq = atomic_load(&toy->seq) };
		return 0;
	}
	mutex_lock(&toy->lock);
	if (toy->blocks[blk].type == IOMAP_DELALLOC) {
		toy_allocate(toy, blk);
		if (toy->alloc_written)
			announced_pos = pos;
	}
	toy_run(toy, blk, map_out);
	if (announced_pos != UINT64_MAX)
		map_out->flags |= IOMAP_F_SUBMIT;
	mutex_unlock(&toy->lock);
	return 0;
}

static int toy_store(struct mapping *m, uint64_t pos, const void *data, size_t len, size_t *done_out)
{
	struct toy *toy = toy_of(m);
	size_t block = (size_t)1 << m->block_bits;
	bool again = atomic_load(&toy->store_again) > 0;

	assert_int_equal(len % block, 0);
	len = min_of(len, toy->store_max);
	if (again) {
		atomic_fetch_sub(&toy->store_again, 1);
		len = len / 2 / block * block;
	}
	atomic_fetch_add(&toy->stores, 1);
	mutex_lock(&toy->lock);
	for (*done_out = 0; *done_out < len; *done_out += block) {
		struct toy_block *b = &toy->blocks[(pos + *done_out) >> m->block_bits];
		uint32_t one = 1;

		if (b->type != IOMAP_MAPPED)
			*b = (struct toy_block){ IOMAP_MAPPED, toy_take_addrs(toy, &one) };
		memcpy(toy->log + ((uint64_t)b->addr_blk << m->block_bits), (const uint8_t *)data + *done_out, block);
		toy->logged[b->addr_blk] = true;
	}
	atomic_fetch_add(&toy->seq, 1);
	mutex_unlock(&toy->lock);
	return again ? -EAGAIN : 0;
}

static int toy_submit(struct iomap_ioend *ioend)
{
	struct toy *toy = toy_of(ioend->mapping);

	if (announced_pos != UINT64_MAX)
		assert_int_equal(ioend->pos_bytes, announced_pos);
	announced_pos = UINT64_MAX;
	if (toy->hold) {
		toy->held = ioend;
		return IOMAP_SUBMIT_LATER;
	}
	return atomic_exchange(&toy->submit_error, 0);
}

static void toy_convert(struct iomap_ioend *ioend)
{
	struct toy *toy = toy_of(ioend->mapping);
	unsigned bits = toy->mapping.block_bits;

	mutex_lock(&toy->lock);
	for (uint64_t pos = ioend->pos_bytes; pos < ioend->pos_bytes + ioend->len_bytes; pos += UINT64_C(1) << bits)
		if (toy->blocks[pos >> bits].type == IOMAP_UNWRITTEN)
			toy->blocks[pos >> bits].type = IOMAP_MAPPED;
	atomic_fetch_add(&toy->seq, 1);
	mutex_unlock(&toy->lock);
}

struct toy_work {
	struct work work;
	struct iomap_ioend *ioend;
};

static void toy_end_work(struct work *work)
{
	struct toy_work *tw = container_of(work, struct toy_work, work);

	if (!tw->ioend->err)
		toy_convert(tw->ioend);
	iomap_ioend_finish(tw->ioend, tw->ioend->err);
	free(tw);
}

static bool toy_end_io(struct iomap_ioend *ioend)
{
	struct toy *toy = toy_of(ioend->mapping);
	struct toy_work *tw;

	if (!toy->wq) {
		if (!ioend->err)
			toy_convert(ioend);
		return true;
	}
	tw = calloc(1, sizeof(*tw));
	work_init(&tw->work, toy_end_work);
	tw->ioend = ioend;
	workqueue_add(toy->wq, &tw->work);
	return false;
}

static const struct iomap_writeback_ops toy_wb_ops = {
	.map_blocks = toy_map_blocks, .is_valid = toy_is_valid, .store = toy_store, .submit = toy_submit,
	.end_io = toy_end_io,
};

static int toy_writepages(struct mapping *m, struct writeback_control *wbc)
{
	return iomap_writepages(m, wbc, &toy_wb_ops, &toy_of(m)->env->counters);
}

static bool toy_grab(struct mapping *m)
{
	atomic_fetch_add(&toy_of(m)->grabs, 1);
	return true;
}

static void toy_drop(struct mapping *m)
{
	atomic_fetch_sub(&toy_of(m)->grabs, 1);
}

static const struct mapping_ops toy_mapping_ops = {
	.writepages = toy_writepages, .grab = toy_grab, .drop = toy_drop,
};

/* ---- life ---- */

struct toy *toy_create(uint64_t limit_bytes, unsigned block_bits)
{
	struct toy *toy = calloc(1, sizeof(*toy));

	assert_non_null(toy);
	toy->env = env_create((uint64_t)DEVICE_BLOCKS << block_bits, limit_bytes);
	mutex_init(&toy->lock, RANK_LEAF);
	toy->blocks = calloc(TOY_BLOCKS, sizeof(*toy->blocks));
	assert_non_null(toy->blocks);
	toy->used = calloc(DEVICE_BLOCKS, sizeof(*toy->used));
	assert_non_null(toy->used);
	toy->used[0] = true; /* address of what has none */
	toy->free_blocks = TOY_BLOCKS;
	toy->run_max = TOY_BLOCKS;
	mapping_init(&toy->mapping, toy->env->cache, toy->env->record, &toy_mapping_ops, toy, (uint8_t)block_bits);
	return toy;
}

void toy_log_data(struct toy *toy, size_t store_max)
{
	toy->log = calloc(DEVICE_BLOCKS, (size_t)1 << toy->mapping.block_bits);
	toy->logged = calloc(DEVICE_BLOCKS, sizeof(*toy->logged));
	assert_true(toy->log && toy->logged);
	toy->store_max = store_max;
}

void toy_drop_cache(struct toy *toy)
{
	rwsem_write_lock(&toy->mapping.invalidate_lock);
	mapping_truncate(&toy->mapping, 0);
	rwsem_write_unlock(&toy->mapping.invalidate_lock);
}

void toy_destroy(struct toy *toy)
{
	toy_drop_cache(toy);
	while (atomic_load(&toy->grabs))
		sched_yield();
	workqueue_stop(toy->wq);
	mapping_exit(&toy->mapping);
	assert_int_equal(env_counter(toy->env, CNT_CACHE_DATA_BYTES), 0);
	env_destroy(toy->env);
	mutex_exit(&toy->lock);
	free(toy->logged);
	free(toy->log);
	free(toy->used);
	free(toy->blocks);
	free(toy);
}

void toy_set_blocks(struct toy *toy, uint32_t blk, uint32_t count, enum iomap_type type, uint8_t byte)
{
	mutex_lock(&toy->lock);
	for (uint32_t i = blk; i < blk + count; i++) {
		uint32_t one = 1;

		toy->used[toy->blocks[i].addr_blk] = false;
		toy->blocks[i] = (struct toy_block){ type, 0 };
		if (type == IOMAP_MAPPED || type == IOMAP_UNWRITTEN)
			toy->blocks[i].addr_blk = toy_take_addrs(toy, &one);
	}
	toy->used[0] = true;
	atomic_fetch_add(&toy->seq, 1);
	mutex_unlock(&toy->lock);
	if (type == IOMAP_MAPPED || type == IOMAP_UNWRITTEN)
		memset(toy_device(toy, blk), byte, (size_t)count << toy->mapping.block_bits);
}

void toy_set_size(struct toy *toy, uint64_t size_bytes)
{
	atomic_store(&toy->mapping.size_bytes, size_bytes);
}

enum iomap_type toy_type(struct toy *toy, uint32_t blk)
{
	enum iomap_type type;

	mutex_lock(&toy->lock);
	type = toy->blocks[blk].type;
	mutex_unlock(&toy->lock);
	return type;
}

uint8_t *toy_device(struct toy *toy, uint32_t blk)
{
	return env_device_bytes_mut(toy->env, (uint64_t)toy->blocks[blk].addr_blk << toy->mapping.block_bits);
}

/* ---- calls ---- */

ssize_t toy_write(struct toy *toy, uint64_t pos_bytes, const void *buf, size_t len_bytes)
{
	struct iovec iov = { (void *)buf, len_bytes };
	struct iov_cursor from = { .iov = &iov, .iov_count = 1, .left_bytes = len_bytes };

	return iomap_buffered_write(&toy->mapping, pos_bytes, &from, &toy_ops);
}

ssize_t toy_fill(struct toy *toy, uint64_t pos_bytes, uint8_t byte, size_t len_bytes)
{
	uint8_t *buf = malloc(len_bytes);
	ssize_t n;

	memset(buf, byte, len_bytes);
	n = toy_write(toy, pos_bytes, buf, len_bytes);
	free(buf);
	return n;
}

ssize_t toy_read(struct toy *toy, uint64_t pos_bytes, void *buf, size_t len_bytes)
{
	struct iovec iov = { buf, len_bytes };
	struct iov_cursor to = { .iov = &iov, .iov_count = 1, .left_bytes = len_bytes };

	return iomap_buffered_read(&toy->mapping, pos_bytes, &to, &toy_ops);
}

void toy_expect(struct toy *toy, uint64_t pos_bytes, uint8_t byte, size_t len_bytes)
{
	uint8_t *buf = malloc(len_bytes);

	memset(buf, ~byte, len_bytes);
	assert_int_equal(toy_read(toy, pos_bytes, buf, len_bytes), len_bytes);
	for (size_t i = 0; i < len_bytes; i++)
		if (buf[i] != byte)
			fail_msg("byte %llu of the file is %#x, not %#x", (unsigned long long)(pos_bytes + i), buf[i],
				 byte);
	free(buf);
}

int toy_sync(struct toy *toy)
{
	return mapping_write_and_wait(&toy->mapping, 0, UINT64_MAX);
}
