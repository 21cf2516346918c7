/* SPDX-License-Identifier: MIT */
/* test_file_threads.c - file data under several threads and a busy flusher; TEST_OPS makes it longer */
#include "file_env.h"

#include <linux/falloc.h>
#include <sched.h>

#include "base/thread.h"

static struct image_env env;
static _Atomic bool stop;
static unsigned ops = 3000;

/* Inodes are pinned by reference, so that the flusher and eviction meet as they do under vfs/. */
static bool grab(struct inode *inode)
{
	int64_t refs = atomic_load(&inode->refs);

	while (refs > 0) {
		if (atomic_compare_exchange_weak(&inode->refs, &refs, refs + 1))
			return true;
	}
	return false;
}

static void drop(struct inode *inode)
{
	atomic_fetch_sub(&inode->refs, 1);
}

static const struct ext4_vfs_ops pinning_ops = { grab, drop };

static void put(struct inode *inode)
{
	int64_t one = 1;

	while (!atomic_compare_exchange_weak(&inode->refs, &one, 0)) {
		one = 1;
		sched_yield();
	}
	image_put(inode);
}

static void start(const char *mke2fs, unsigned mib)
{
	const char *n = getenv("TEST_OPS");

	if (n)
		ops = (unsigned)atoi(n);
	memset(&env, 0, sizeof(env));
	image_create(&env, mke2fs, mib);
	env.fs->vfs_ops = &pinning_ops;
	atomic_store(&stop, false);
}

/* Dirty data leaves at once, from another thread. */
static void *flusher(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		cache_writeback_all(env.fs->cache, false);
		sched_yield();
	}
	return NULL;
}

static void *committer(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		if (ext4_sync(env.fs))
			return (void *)1;
	}
	return NULL;
}

/* Sees a prefix of what the appender wrote, never anything else. */
static void *prefix_reader(void *arg)
{
	struct inode *inode = arg;
	uint8_t want[8192], got[8192];
	unsigned seed = 5;

	while (!atomic_load(&stop)) {
		uint64_t size = inode_size(inode), pos = size > 8192 ? (uint64_t)rand_r(&seed) % (size - 8192) : 0;
		ssize_t n = file_get(inode, pos, got, min_of(size - pos, (uint64_t)sizeof(got)));

		if (n < 0)
			return (void *)1;
		pattern_fill(want, pos, (size_t)n, 1);
		if (memcmp(want, got, (size_t)n))
			return (void *)2;
	}
	return NULL;
}

/* S3: what was there when fsync began has its size on disk when it ends. */
static void *fsyncer(void *arg)
{
	struct inode *inode = arg;

	while (!atomic_load(&stop)) {
		uint64_t size = inode_size(inode);

		if (file_fsync(inode, true))
			return (void *)1;
		if (__atomic_load_n(&inode->disksize_bytes, __ATOMIC_RELAXED) < size)
			return (void *)2;
	}
	return NULL;
}

static void appender(struct inode *inode)
{
	unsigned seed = 9, i;
	uint8_t *buf = malloc(20000);
	uint64_t pos = 0;

	assert_non_null(buf);
	for (i = 0; i < ops; i++) {
		size_t len = (size_t)rand_r(&seed) % (i % 16 ? 900 : 20000) + 1;

		pattern_fill(buf, pos, len, 1);
		assert_int_equal(file_put(inode, pos, buf, len, 0), len);
		pos += len;
	}
	free(buf);
}

static void run_appender(const char *mke2fs)
{
	void *(*const funcs[])(void *) = { flusher, prefix_reader, fsyncer, committer };
	pthread_t threads[ARRAY_SIZE(funcs)];
	struct inode *inode;
	uint64_t size;
	void *result;
	size_t i;

	start(mke2fs, 64);
	inode = image_mkfile(env.root, "log");
	for (i = 0; i < ARRAY_SIZE(funcs); i++)
		assert_int_equal(thread_start("test", funcs[i], inode, &threads[i]), 0);
	appender(inode);
	atomic_store(&stop, true);
	for (i = 0; i < ARRAY_SIZE(funcs); i++) {
		pthread_join(threads[i], &result);
		assert_null(result);
	}
	size = inode_size(inode);
	assert_int_equal(file_flush(inode), 0);
	assert_int_equal(inode->disksize_bytes, size);
	assert_int_equal(inode->reserved_blocks, 0);
	assert_int_equal(counter_read(env.fs->counters, CNT_JOURNAL_DATA_PAGES_BY_COMMIT), 0);
	assert_pattern(inode, 0, size, 1);
	put(inode);
	image_check(&env);
	image_destroy(&env);
}

static void appends_are_seen_whole(void **state)
{
	(void)state;
	run_appender("-t ext4 -b 4096");
	run_appender("-t ext4 -b 1024 -J size=1");
	run_appender("-t ext3 -b 1024 -J size=1");
	run_appender("-t ext2 -b 2048");
}

/* ---- each thread a file of its own, under memory pressure and changes of size ---- */

#define MIXED_BYTES (512u << 10)

static void *mixer(void *arg)
{
	uintptr_t id = (uintptr_t)arg;
	unsigned seed = (unsigned)id * 77 + 1, i;
	uint8_t *model = calloc(1, MIXED_BYTES), *buf = malloc(MIXED_BYTES);
	struct inode *inode;
	uint64_t size = 0;
	char name[16];

	snprintf(name, sizeof(name), "mix%u", (unsigned)id);
	inode = image_mkfile(env.root, name);
	for (i = 0; i < ops / 4; i++) {
		uint64_t pos = (uint64_t)rand_r(&seed) % MIXED_BYTES, len = (uint64_t)rand_r(&seed) % 30000 + 1;

		len = min_of(len, MIXED_BYTES - pos);
		switch (rand_r(&seed) % 8) {
		case 0:
			if (file_resize(inode, pos))
				return (void *)1;
			if (pos < size)
				memset(model + pos, 0, size - pos);
			size = pos;
			break;
		case 1:
			if (file_fallocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pos, len))
				return (void *)2;
			if (pos < size)
				memset(model + pos, 0, min_of(pos + len, size) - pos);
			break;
		case 2:
			if (file_get(inode, 0, buf, MIXED_BYTES) != (ssize_t)size || memcmp(buf, model, size))
				return (void *)3;
			break;
		default:
			pattern_fill(buf, pos, len, i);
			if (file_put(inode, pos, buf, len, 0) != (ssize_t)len)
				return (void *)4;
			memcpy(model + pos, buf, len);
			size = max_of(size, pos + len);
		}
	}
	if (file_get(inode, 0, buf, MIXED_BYTES) != (ssize_t)size || memcmp(buf, model, size))
		return (void *)5;
	put(inode);
	free(model);
	free(buf);
	return NULL;
}

static void *squeezer(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		cache_shrink(env.fs->cache, 4 << 20);
		es_shrink(env.fs, 0);
		sched_yield();
	}
	return NULL;
}

static void run_mixed(const char *mke2fs)
{
	pthread_t threads[4], helpers[3];
	void *result;
	size_t i;

	start(mke2fs, 48);
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(thread_start("test", mixer, (void *)i, &threads[i]), 0);
	assert_int_equal(thread_start("test", flusher, NULL, &helpers[0]), 0);
	assert_int_equal(thread_start("test", committer, NULL, &helpers[1]), 0);
	assert_int_equal(thread_start("test", squeezer, NULL, &helpers[2]), 0);
	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		pthread_join(threads[i], &result);
		assert_null(result);
	}
	atomic_store(&stop, true);
	for (i = 0; i < ARRAY_SIZE(helpers); i++) {
		pthread_join(helpers[i], &result);
		assert_null(result);
	}
	image_check(&env);
	image_destroy(&env);
}

static void files_change_size_under_writeback(void **state)
{
	(void)state;
	run_mixed("-t ext4 -b 4096");
	run_mixed("-t ext4 -b 1024 -J size=1");
	run_mixed("-t ext3 -b 1024 -J size=1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(appends_are_seen_whole),
		cmocka_unit_test(files_change_size_under_writeback),
	};

	if (!image_tools_exist())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
