/* SPDX-License-Identifier: MIT */
/* test_balloc.c - blocks given out once, counted exactly, and given again only when that is safe */
#include <errno.h>
#include <pthread.h>

#include "ext4/balloc.h"
#include "ext4/balloc_private.h"
#include "ext4/super.h"
#include "mount_env.h"

#define RUNS_MAX 200000u

struct runs {
	struct { fsblk_t blk; uint32_t len; } *run;
	uint32_t count;
	uint64_t blks;
};

static void runs_init(struct runs *r)
{
	*r = (struct runs){ .run = calloc(RUNS_MAX, sizeof(r->run[0])) };
	assert_non_null(r->run);
}

static void start(struct ext4_fs *fs, struct handle *h)
{
	assert_int_equal(fs_handle_start(fs, 4 * BALLOC_CREDITS, 0, h), 0);
}

static void stop(struct handle *h)
{
	assert_int_equal(journal_stop(h), 0);
}

/* One allocation in a handle of its own. */
static int alloc_one(struct inode *inode, fsblk_t goal, uint32_t len, unsigned flags, fsblk_t *blk, uint32_t *got)
{
	struct balloc_request req = { .inode = inode, .goal = goal, .len = len, .flags = flags };
	struct handle h;
	int err;

	start(inode->fs, &h);
	err = balloc_alloc(&h, &req, blk, got);
	stop(&h);
	return err;
}

static void free_one(struct inode *inode, fsblk_t blk, uint32_t len)
{
	struct handle h;

	start(inode->fs, &h);
	assert_int_equal(balloc_free(&h, inode, blk, len, 0), 0);
	stop(&h);
}

static void runs_add(struct runs *r, fsblk_t blk, uint32_t len)
{
	assert_true(r->count < RUNS_MAX);
	r->run[r->count].blk = blk;
	r->run[r->count++].len = len;
	r->blks += len;
}

/* Takes until nothing is left. */
static void take_all(struct inode *inode, struct runs *r, uint32_t len_max, unsigned seed)
{
	uint32_t got, len;
	fsblk_t blk;
	int err;

	for (;;) {
		len = 1 + (uint32_t)rand_r(&seed) % len_max;
		err = alloc_one(inode, 0, len, BALLOC_DATA | BALLOC_ROOT | BALLOC_SPARE | BALLOC_NO_PREALLOC, &blk, &got);
		if (err)
			break;
		assert_in_range(got, 1, len);
		runs_add(r, blk, got);
	}
	assert_int_equal(err, -ENOSPC);
}

static void give_all(struct inode *inode, struct runs *r)
{
	uint32_t i;

	for (i = 0; i < r->count; i++)
		free_one(inode, r->run[i].blk, r->run[i].len);
	free(r->run);
}

static void assert_disjoint(const struct ext4_fs *fs, const struct runs *sets, unsigned count)
{
	uint8_t *seen = calloc(1, fs->blocks_count);
	uint32_t i, j;
	unsigned set;

	assert_non_null(seen);
	for (set = 0; set < count; set++) {
		for (i = 0; i < sets[set].count; i++) {
			assert_true(fs_data_blocks_valid(fs, sets[set].run[i].blk, sets[set].run[i].len));
			for (j = 0; j < sets[set].run[i].len; j++)
				assert_int_equal(seen[sets[set].run[i].blk + j]++, 0);
		}
	}
	free(seen);
}

static void settle(struct ext4_fs *fs)
{
	int retries = 0;

	assert_true(balloc_should_retry(fs, &retries) >= 0);
}

static uint64_t free_in_groups(struct ext4_fs *fs)
{
	uint64_t sum = 0;
	group_t i;

	for (i = 0; i < fs->group_count; i++)
		sum += fs->groups[i].free_blocks;
	return sum;
}

static const char *const images[] = {
	"-t ext4 -b 1024 %s 24M", "-t ext4 -b 4096 %s 64M", "-t ext2 -b 1024 %s 20M", "-t ext3 -b 2048 %s 32M",
	"-t ext4 -b 1024 -O ^has_journal %s 20M", "-t ext4 -b 4096 -O ^flex_bg,uninit_bg,^metadata_csum %s 200M",
};

static void a_full_disk_gives_out_every_block_once(void **state)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(images); i++) {
		struct mount_env *env = mount_env_create(images[i], "");
		uint64_t free_blks = balloc_free_count(env->fs);
		struct runs r;

		assert_int_equal(free_blks, free_in_groups(env->fs));
		runs_init(&r);
		take_all(env->root, &r, 300, (unsigned)i);
		assert_int_equal(r.blks, free_blks);
		assert_int_equal(balloc_free_count(env->fs), 0);
		assert_int_equal(free_in_groups(env->fs), 0);
		assert_disjoint(env->fs, &r, 1);
		give_all(env->root, &r);
		assert_int_equal(balloc_free_count(env->fs), free_blks); /* at once, for statfs */
		settle(env->fs);
		assert_int_equal(block_counter_sum(&env->fs->balloc->counter), free_blks);
		mount_env_destroy(env);
	}
}

static void blocks_freed_are_not_given_before_the_commit(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 16M", "commit=300");
	int retries = 0;
	uint32_t got, i;
	struct runs r;
	fsblk_t blk;

	runs_init(&r);
	take_all(env->root, &r, 64, 1);
	for (i = 0; i < 10; i++)
		free_one(env->root, r.run[i].blk, r.run[i].len);
	assert_int_equal(alloc_one(env->root, 0, 1, BALLOC_ROOT | BALLOC_SPARE, &blk, &got), -ENOSPC);
	assert_int_equal(balloc_reserve(env->fs, 1, BALLOC_ROOT), -ENOSPC);
	assert_int_equal(balloc_should_retry(env->fs, &retries), 1);
	for (i = 0; i < 10; i++) {
		assert_int_equal(alloc_one(env->root, r.run[i].blk, r.run[i].len,
					   BALLOC_ROOT | BALLOC_SPARE | BALLOC_NO_PREALLOC, &blk, &got), 0);
		assert_int_equal(blk, r.run[i].blk);
		assert_int_equal(got, r.run[i].len);
	}
	assert_int_equal(balloc_free_count(env->fs), 0);
	assert_int_equal(balloc_should_retry(env->fs, &retries), 0); /* nothing is on its way */
	settle(env->fs);
	give_all(env->root, &r);
	mount_env_destroy(env);
}

static void a_run_continues_its_goal(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 4096 %s 64M", "");
	fsblk_t blk, first;
	uint32_t got, i;

	assert_int_equal(alloc_one(env->root, 0, 10, BALLOC_NO_PREALLOC, &first, &got), 0);
	assert_int_equal(got, 10);
	for (i = 1; i < 20; i++) {
		assert_int_equal(alloc_one(env->root, first + i * 10, 10, BALLOC_NO_PREALLOC, &blk, &got), 0);
		assert_int_equal(blk, first + i * 10);
		assert_int_equal(got, 10);
	}
	free_one(env->root, first, 200);
	mount_env_destroy(env);
}

static void small_files_follow_each_other(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 4096 %s 64M", "");
	fsblk_t blk, next = 0;
	uint32_t got, i;
	struct runs r;

	runs_init(&r);
	for (i = 0; i < 50; i++) {
		assert_int_equal(alloc_one(env->root, 0, 1 + i % 7, BALLOC_NO_PREALLOC, &blk, &got), 0);
		assert_int_equal(got, 1 + i % 7);
		if (i)
			assert_int_equal(blk, next);
		next = blk + got;
		runs_add(&r, blk, got);
	}
	give_all(env->root, &r);
	mount_env_destroy(env);
}

static void a_fragmented_disk_still_gives_its_last_block(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 12M", "");
	uint64_t freed = 0, taken = 0;
	uint32_t got, i;
	struct runs r;
	fsblk_t blk;

	runs_init(&r);
	take_all(env->root, &r, 1, 1);
	for (i = 0; i < r.count; i += 2, freed++)
		free_one(env->root, r.run[i].blk, 1);
	settle(env->fs);
	while (!alloc_one(env->root, 0, 1000, BALLOC_ROOT | BALLOC_SPARE, &blk, &got))
		taken += got;
	assert_int_equal(taken, freed);
	give_all(env->root, &r);
	mount_env_destroy(env);
}

/* What was promised can be had, to the block, whatever else is asked for meanwhile. */
static void reservations_are_exact(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 16M", "");
	uint64_t promised = 0, n;
	unsigned seed = 9;
	uint32_t got;
	struct runs r;
	fsblk_t blk;

	runs_init(&r);
	for (;;) {
		n = 1 + (uint64_t)rand_r(&seed) % 50;
		if (balloc_reserve(env->fs, n, 0))
			break;
		promised += n;
	}
	while (!balloc_reserve(env->fs, 1, 0))
		promised++;
	assert_int_equal(alloc_one(env->root, 0, 1, BALLOC_NO_PREALLOC, &blk, &got), -ENOSPC);
	while (promised) {
		n = min_of(1 + (uint64_t)rand_r(&seed) % 100, promised);
		assert_int_equal(alloc_one(env->root, 0, (uint32_t)n, BALLOC_DATA | BALLOC_RESERVED, &blk, &got), 0);
		runs_add(&r, blk, got);
		promised -= got;
	}
	assert_int_equal(balloc_reserve(env->fs, 1, 0), -ENOSPC);
	give_all(env->root, &r);
	settle(env->fs);
	mount_env_destroy(env);
}

struct worker {
	struct inode *inode;
	struct runs runs;
	unsigned seed;
};

/* Takes and gives at random, keeps some. */
static void *take_and_give(void *arg)
{
	struct worker *w = arg;
	unsigned step;
	uint32_t got, i;
	fsblk_t blk;

	for (step = 0; step < 3000; step++) {
		if (w->runs.count && rand_r(&w->seed) % 5 < 2) {
			i = (uint32_t)rand_r(&w->seed) % w->runs.count;
			free_one(w->inode, w->runs.run[i].blk, w->runs.run[i].len);
			w->runs.blks -= w->runs.run[i].len;
			w->runs.run[i] = w->runs.run[--w->runs.count];
		} else if (!alloc_one(w->inode, 0, 1 + (uint32_t)rand_r(&w->seed) % 60, BALLOC_NO_PREALLOC, &blk, &got)) {
			runs_add(&w->runs, blk, got);
		}
	}
	return NULL;
}

static void threads_never_get_the_same_block(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 40M", "");
	uint64_t free_blks = balloc_free_count(env->fs);
	struct worker w[3];
	struct runs sets[3];
	pthread_t threads[3];
	unsigned i;

	for (i = 0; i < 3; i++) {
		w[i] = (struct worker){ .inode = env->root, .seed = i + 1 };
		runs_init(&w[i].runs);
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &w[i]), 0);
	}
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		sets[i] = w[i].runs;
	}
	assert_disjoint(env->fs, sets, 3);
	assert_int_equal(balloc_free_count(env->fs), free_blks - sets[0].blks - sets[1].blks - sets[2].blks);
	for (i = 0; i < 3; i++)
		give_all(env->root, &sets[i]);
	assert_int_equal(balloc_free_count(env->fs), free_blks);
	mount_env_destroy(env);
}

/* (One thread: nobody else wants the map_sem that covers a preallocation.)
 * A directory that grows beside other allocations stays in one piece, and the rest of its preallocation comes back. */
static void a_preallocation_keeps_a_growing_directory_whole(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 16M", "");
	struct balloc_request req = { .inode = env->root, .len = 1, .flags = BALLOC_METADATA };
	fsblk_t blk, first = 0, other;
	struct handle h;
	uint32_t got, i;
	struct runs r;

	runs_init(&r);
	for (i = 0; i < 6; i++) {
		req.lblk = i + 1;
		req.goal = first ? first + i : balloc_inode_goal(env->root);
		start(env->fs, &h);
		assert_int_equal(balloc_alloc(&h, &req, &blk, &got), 0);
		stop(&h);
		if (!first)
			first = blk;
		assert_int_equal(blk, first + i);
		assert_int_equal(alloc_one(env->root, first + i + 1, 1, BALLOC_NO_PREALLOC, &other, &got), 0);
		runs_add(&r, other, got);
	}
	take_all(env->root, &r, 50, 3);
	assert_int_equal(balloc_free_count(env->fs), 0); /* the unused rest was given to others */
	balloc_discard_prealloc(env->root);
	free_one(env->root, first, 6);
	give_all(env->root, &r);
	mount_env_destroy(env);
}

static void wrong_frees_are_refused(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 16M", "errors=continue");
	struct ext4_fs *fs = env->fs;
	struct handle h;
	uint32_t got;
	fsblk_t blk;

	assert_int_equal(alloc_one(env->root, 0, 4, BALLOC_NO_PREALLOC, &blk, &got), 0);
	free_one(env->root, blk, got);
	start(fs, &h);
	assert_int_equal(balloc_free(&h, env->root, fs->blocks_count, 1, 0), -EUCLEAN);
	assert_int_equal(balloc_free(&h, env->root, fs->blocks_count - 1, UINT64_MAX, 0), -EUCLEAN);
	assert_int_equal(balloc_free(&h, env->root, fs->groups[0].inode_table, 1, 0), -EUCLEAN);
	assert_int_equal(balloc_free(&h, env->root, blk, got, 0), -EUCLEAN); /* twice */
	stop(&h);
	assert_int_equal(env->log_errors, 4);
	assert_true(fs->has_errors);
	env_put(env->root);
	assert_int_equal(ext4_unmount(fs), 0);
	/* The only thing wrong is the error that was noted. */
	free(mount_env_run(env, "e2fsck -fy %s >/dev/null; e2fsck -fn %1$s"));
	remove(env->path);
	free(env);
}

/* A bitmap that does not match its checksum takes its group out of use; the other groups go on. */
static void a_corrupt_bitmap_costs_its_group_only(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 -O ^flex_bg %s 40M", "");
	uint64_t free_blks = balloc_free_count(env->fs), lost = env->fs->groups[2].free_blocks;
	fsblk_t bitmap = env->fs->groups[2].block_bitmap, blk;
	char command[128];
	uint32_t got;
	struct runs r;

	assert_int_equal(alloc_one(env->root, group_first_block(env->fs, 2) + 5000, 1, BALLOC_NO_PREALLOC, &blk, &got), 0);
	free_one(env->root, blk, 1); /* initialised now, and written */
	env_put(env->root);
	assert_int_equal(ext4_unmount(env->fs), 0);
	snprintf(command, sizeof(command), "dd if=/dev/urandom of=%%s bs=1024 count=1 seek=%llu conv=notrunc",
		 (unsigned long long)bitmap);
	free(mount_env_run(env, command));
	mount_env_mount(env, "errors=continue");
	runs_init(&r);
	take_all(env->root, &r, 200, 2);
	assert_int_equal(r.blks, free_blks - lost);
	assert_true(env->log_errors >= 1);
	assert_int_equal(env->fs->groups[2].largest_free_hint, BALLOC_WITHDRAWN);
	give_all(env->root, &r);
	settle(env->fs);
	assert_int_equal(balloc_free_count(env->fs), free_blks - lost);
	env_put(env->root);
	assert_int_equal(ext4_unmount(env->fs), 0);
	remove(env->path);
	free(env);
}

/* Buddies are dropped when there are too many, unless they know what nobody else does, and come back as they were. */
static void buddies_stay_under_their_limit(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 120M", "");
	uint64_t free_blks = balloc_free_count(env->fs);
	unsigned step, seed = 4;
	struct runs r;
	uint32_t got;
	fsblk_t blk;

	env->fs->balloc->buddies_limit = 3;
	runs_init(&r);
	for (step = 0; step < 2000; step++) {
		fsblk_t goal = env->fs->first_data_block + (fsblk_t)rand_r(&seed) % (env->fs->blocks_count - 1);

		assert_int_equal(alloc_one(env->root, goal, 1 + step % 20, BALLOC_NO_PREALLOC, &blk, &got), 0);
		runs_add(&r, blk, got);
		assert_true(env->fs->balloc->buddies <= 3);
	}
	assert_disjoint(env->fs, &r, 1);
	give_all(env->root, &r); /* each waits for its commit now, and pins its buddy */
	settle(env->fs);
	assert_int_equal(balloc_free_count(env->fs), free_blks);
	assert_int_equal(block_counter_sum(&env->fs->balloc->counter), free_blks);
	mount_env_destroy(env);
}

static void discards_come_after_the_commit(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 4096 %s 32M", "discard,commit=300");
	static uint8_t data[4 * 4096] __attribute__((aligned(4096))), back[4 * 4096] __attribute__((aligned(4096)));
	uint64_t pos;
	uint32_t got;
	fsblk_t blk;

	assert_int_equal(alloc_one(env->root, 0, 4, BALLOC_NO_PREALLOC, &blk, &got), 0);
	pos = blk * 4096;
	memset(data, 0x5a, sizeof(data));
	assert_int_equal(block_write(env->fs->dev, pos, data, sizeof(data), 0), 0);
	free_one(env->root, blk, 4);
	assert_int_equal(block_read(env->fs->dev, pos, back, sizeof(back)), 0);
	assert_memory_equal(back, data, sizeof(data)); /* a crash now would bring the owner back */
	assert_int_equal(journal_force_commit(env->fs->journal), 0);
	balloc_drain(env->fs);
	assert_int_equal(env->fs->balloc->pending_blks, 0);
	assert_int_equal(block_read(env->fs->dev, pos, back, sizeof(back)), 0);
	memset(data, 0, sizeof(data));
	if (!block_discard(env->fs->dev, pos, sizeof(data))) /* this device can, so it has */
		assert_memory_equal(back, data, sizeof(data));
	mount_env_destroy(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_disk_gives_out_every_block_once),
		cmocka_unit_test(blocks_freed_are_not_given_before_the_commit),
		cmocka_unit_test(a_run_continues_its_goal),
		cmocka_unit_test(small_files_follow_each_other),
		cmocka_unit_test(a_fragmented_disk_still_gives_its_last_block),
		cmocka_unit_test(reservations_are_exact),
		cmocka_unit_test(threads_never_get_the_same_block),
		cmocka_unit_test(a_preallocation_keeps_a_growing_directory_whole),
		cmocka_unit_test(wrong_frees_are_refused),
		cmocka_unit_test(a_corrupt_bitmap_costs_its_group_only),
		cmocka_unit_test(buddies_stay_under_their_limit),
		cmocka_unit_test(discards_come_after_the_commit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
