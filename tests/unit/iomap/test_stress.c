/* SPDX-License-Identifier: MIT */
/*
 * test_stress.c - readers, writers, the flusher, reclaim, sync and truncate at once
 *
 * Every block of the file only ever holds its own tag or zeros, whoever wrote it and however often it went to
 * the device and came back, so a reader can tell a misplaced, stale or half-filled block at once.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "toy.h"

#define FILE_BLOCKS 4096u
#define ROUNDS 1500u

struct stress {
	struct toy *toy;
	struct rwsem rwsem;      /* as inode.rwsem: writers and truncate */
	_Atomic bool stop;
	unsigned bits;
};

static uint8_t tag_of(uint64_t blk)
{
	return (uint8_t)(1 + blk % 251);
}

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Tags by block; the caller's range need not begin at one. */
static void tag_fill(uint8_t *buf, uint64_t pos, size_t len, unsigned bits)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = tag_of((pos + i) >> bits);
}

static void tag_check(const uint8_t *buf, uint64_t pos, size_t len, unsigned bits)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] && buf[i] != tag_of((pos + i) >> bits))
			fail_msg("byte %llu holds %#x", (unsigned long long)(pos + i), buf[i]);
}

static void *writer(void *arg)
{
	struct stress *st = arg;
	uint64_t seed = (uintptr_t)&seed | 1;
	uint8_t *buf = malloc(256 * KIB);

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t pos = random_next(&seed) % ((uint64_t)FILE_BLOCKS << st->bits);
		size_t len = 1 + random_next(&seed) % (i % 16 ? 3 * KIB : 256 * KIB);
		ssize_t n;

		tag_fill(buf, pos, len, st->bits);
		rwsem_write_lock(&st->rwsem);
		n = toy_write(st->toy, pos, buf, len);
		rwsem_write_unlock(&st->rwsem);
		assert_true(n == (ssize_t)len);
	}
	free(buf);
	return NULL;
}

static void *reader(void *arg)
{
	struct stress *st = arg;
	uint64_t seed = (uintptr_t)&seed | 1;
	uint8_t *buf = malloc(64 * KIB);

	while (!atomic_load(&st->stop)) {
		uint64_t pos = random_next(&seed) % ((uint64_t)FILE_BLOCKS << st->bits);
		ssize_t n = 0;

		for (int i = 0; i < 8 && n >= 0; i++) { /* a short sequential run */
			n = toy_read(st->toy, pos, buf, 16 * KIB);
			assert_true(n >= 0);
			tag_check(buf, pos, (size_t)n, st->bits);
			pos += (uint64_t)n;
		}
	}
	free(buf);
	return NULL;
}

/* As the file system would: the size first, then the cache, then the blocks, all under the locks. */
static void truncate_to(struct stress *st, uint64_t size)
{
	struct toy *toy = st->toy;
	uint32_t first = (uint32_t)div_round_up(size, UINT64_C(1) << st->bits);

	rwsem_write_lock(&st->rwsem);
	if (size < atomic_load(&toy->mapping.size_bytes)) {
		rwsem_write_lock(&toy->mapping.invalidate_lock);
		toy_set_size(toy, size);
		mapping_truncate(&toy->mapping, size);
		toy_set_blocks(toy, first, TOY_BLOCKS - first, IOMAP_HOLE, 0);
		rwsem_write_unlock(&toy->mapping.invalidate_lock);
		/* The zeros behind the new end in its last block have to reach the device some day. */
		if (size % (1u << st->bits))
			iomap_zero_range(&toy->mapping, size, (1u << st->bits) - size % (1u << st->bits), &toy_ops);
	}
	rwsem_write_unlock(&st->rwsem);
}

static void *disturber(void *arg)
{
	struct stress *st = arg;
	uint64_t seed = (uintptr_t)&seed | 1;

	while (!atomic_load(&st->stop)) {
		uint64_t pos = random_next(&seed) % ((uint64_t)FILE_BLOCKS << st->bits);

		switch (random_next(&seed) % 6) {
		case 0:
			assert_int_equal(toy_sync(st->toy), 0);
			break;
		case 1:
			assert_int_equal(cache_writeback_all(st->toy->env->cache, true), 0);
			break;
		case 2:
			cache_shrink(st->toy->env->cache, 0);
			break;
		case 3:
			mapping_drop_clean(&st->toy->mapping, pos, pos + MIB);
			break;
		case 4:
			truncate_to(st, pos);
			break;
		default:
			assert_int_equal(mapping_write_and_wait(&st->toy->mapping, pos, pos + 64 * KIB), 0);
		}
	}
	return NULL;
}

static void stress(unsigned bits, uint64_t limit_bytes)
{
	struct stress st = { .toy = toy_create(limit_bytes, bits), .bits = bits };
	pthread_t writers[2], readers[2], other;
	uint8_t *buf = malloc(64 * KIB);
	ssize_t n;

	assert_int_equal(workqueue_start("toy-end", 1, &st.toy->wq), 0);
	rwsem_init(&st.rwsem, RANK_INODE);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(thread_start("writer", writer, &st, &writers[i]), 0);
		assert_int_equal(thread_start("reader", reader, &st, &readers[i]), 0);
	}
	assert_int_equal(thread_start("disturb", disturber, &st, &other), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	atomic_store(&st.stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	pthread_join(other, NULL);
	assert_int_equal(toy_sync(st.toy), 0);
	toy_drop_cache(st.toy);
	for (uint64_t pos = 0; (n = toy_read(st.toy, pos, buf, 64 * KIB)) > 0; pos += (uint64_t)n)
		tag_check(buf, pos, (size_t)n, bits);
	assert_int_equal(n, 0);
	free(buf);
	rwsem_exit(&st.rwsem);
	toy_destroy(st.toy);
}

static void everything_at_once_with_small_blocks(void **state)
{
	stress(10, 8 * MIB);
}

static void everything_at_once_with_page_blocks(void **state)
{
	stress(12, 8 * MIB);
}

static void everything_at_once_with_large_blocks(void **state)
{
	stress(14, 16 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_at_once_with_small_blocks),
		cmocka_unit_test(everything_at_once_with_page_blocks),
		cmocka_unit_test(everything_at_once_with_large_blocks),
	};

	return cmocka_run_group_tests_name("stress", tests, NULL, NULL);
}
