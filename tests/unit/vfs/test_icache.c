/* SPDX-License-Identifier: MIT */
/* test_icache.c - one copy of an inode at a time, loaded once, evicted when it should be and not before */
#include "unit.h"

#include <errno.h>
#include <time.h>

#include "toy_ext4.h"
#include "vfs/icache.h"

#define GETTERS 6

static int start(void **state)
{
	toy_start(4096);
	return 0;
}

static int start_small(void **state)
{
	toy_start(0); /* 8 inodes a shard */
	return 0;
}

static int stop(void **state)
{
	toy_stop();
	return 0;
}

static struct inode *get(ino_num ino)
{
	struct inode *inode = NULL;

	assert_int_equal(icache_get(toy.vfs.icache, ino, &inode), 0);
	assert_int_equal(inode->ino, ino);
	return inode;
}

static void *getter(void *arg)
{
	struct inode *inode = NULL;
	ino_num ino = (ino_num)(uintptr_t)arg;

	return icache_get(toy.vfs.icache, ino, &inode) ? NULL : inode;
}

static void nap(void)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	nanosleep(&ms, NULL);
}

static void cached_inode_is_found_again(void **state)
{
	struct inode *first = get(100), *second;

	assert_ptr_equal(icache_find(toy.vfs.icache, 100), first);
	icache_put(first);
	icache_put(first);
	second = get(100);
	assert_ptr_equal(first, second);
	assert_int_equal(atomic_load(&toy.slot[100].loads), 1);
	icache_put(second);
	assert_null(icache_find(toy.vfs.icache, 101));
}

static void concurrent_getters_share_one_load(void **state)
{
	pthread_t threads[GETTERS];
	void *got[GETTERS];

	atomic_store(&toy.gated_load, 7);
	pthread_mutex_lock(&toy.gate);
	for (int i = 0; i < GETTERS; i++)
		pthread_create(&threads[i], NULL, getter, (void *)(uintptr_t)7);
	while (!atomic_load(&toy.slot[7].loads))
		nap();
	pthread_mutex_unlock(&toy.gate);
	for (int i = 0; i < GETTERS; i++) {
		pthread_join(threads[i], &got[i]);
		assert_ptr_equal(got[i], got[0]);
	}
	assert_non_null(got[0]);
	assert_int_equal(atomic_load(&toy.slot[7].loads), 1);
	for (int i = 0; i < GETTERS; i++)
		icache_put(got[i]);
}

static void failed_load_is_not_remembered(void **state)
{
	struct inode *inode;

	atomic_store(&toy.slot[9].load_err, -EIO);
	assert_int_equal(icache_get(toy.vfs.icache, 9, &inode), -EIO);
	assert_int_equal(icache_count(toy.vfs.icache), 0);
	atomic_store(&toy.slot[9].load_err, 0);
	icache_put(get(9));
	assert_int_equal(atomic_load(&toy.slot[9].loads), 2);
}

static void failed_load_keeps_lookups(void **state)
{
	struct inode *inode = get(9);

	icache_lookups_add(inode, 3);
	icache_put(inode);
	for (ino_num ino = 64; ino < 4096; ino++)
		icache_put(get(ino));
	while (!atomic_load(&toy.slot[9].evictions))
		nap();
	while (icache_find(toy.vfs.icache, 9))
		nap();
	atomic_store(&toy.slot[9].load_err, -EIO);
	assert_int_equal(icache_get(toy.vfs.icache, 9, &inode), -EIO);
	atomic_store(&toy.slot[9].load_err, 0);
	inode = get(9);
	assert_int_equal(atomic_load(&inode->lookups), 3);
	icache_put(inode);
}

static void unlinked_inode_goes_with_its_last_reference(void **state)
{
	struct inode *inode = get(20);

	icache_hold(inode);
	inode->nlink = 0;
	icache_put(inode);
	assert_int_equal(atomic_load(&toy.slot[20].evictions), 0);
	icache_put(inode);
	assert_int_equal(atomic_load(&toy.slot[20].evictions), 1);
	assert_int_equal(icache_get(toy.vfs.icache, 20, &inode), -ESTALE);
}

static void lookups_keep_an_unlinked_inode(void **state)
{
	struct inode *inode = get(21);

	icache_lookups_add(inode, 2);
	inode->nlink = 0;
	icache_put(inode);
	assert_int_equal(atomic_load(&toy.slot[21].evictions), 0);
	icache_forget(toy.vfs.icache, 21, 1);
	assert_int_equal(atomic_load(&toy.slot[21].evictions), 0);
	icache_forget(toy.vfs.icache, 21, 1);
	assert_int_equal(atomic_load(&toy.slot[21].evictions), 1);
}

static void too_many_forgets_do_not_wrap(void **state)
{
	struct inode *inode = get(22);

	icache_lookups_add(inode, 1);
	icache_forget(toy.vfs.icache, 22, 5);
	assert_int_equal(atomic_load(&inode->lookups), 0);
	icache_forget(toy.vfs.icache, 23, 5); /* nobody knows it */
	icache_put(inode);
}

static void deferred_put_evicts_on_another_thread(void **state)
{
	struct inode *inode = get(30);

	inode->nlink = 0;
	icache_put_deferred(inode);
	while (!atomic_load(&toy.slot[30].evictions))
		nap();
	assert_false(pthread_equal(atomic_load(&toy.evictor), pthread_self()));
}

static void *putter(void *arg)
{
	icache_put(arg);
	return NULL;
}

static void inode_under_eviction_is_not_loaded_beside_it(void **state)
{
	struct inode *inode = get(40), *again;
	pthread_t evicting, getting;

	atomic_store(&toy.gated_evict, 40);
	pthread_mutex_lock(&toy.gate);
	inode->nlink = 0;
	pthread_create(&evicting, NULL, putter, inode);
	while (!inode_test(inode, INODE_FREEING))
		nap();
	pthread_create(&getting, NULL, getter, (void *)(uintptr_t)40);
	nap();
	assert_int_equal(atomic_load(&toy.slot[40].loads), 1);
	pthread_mutex_unlock(&toy.gate);
	pthread_join(evicting, NULL);
	pthread_join(getting, (void **)&again);
	assert_null(again); /* -ESTALE: it was freed */
	assert_int_equal(atomic_load(&toy.doubled), 0);
}

static void *inserter(void *arg)
{
	icache_insert_new(toy.vfs.icache, arg);
	return NULL;
}

static void number_reused_waits_for_the_eviction_of_its_former_owner(void **state)
{
	struct inode *old = get(41), *fresh;
	pthread_t evicting, inserting;

	atomic_store(&toy.gated_evict, 41);
	pthread_mutex_lock(&toy.gate);
	old->nlink = 0;
	pthread_create(&evicting, NULL, putter, old);
	while (!inode_test(old, INODE_FREEING))
		nap();
	fresh = inode_alloc(&toy.fs);
	fresh->ino = 41;
	fresh->nlink = 1;
	pthread_create(&inserting, NULL, inserter, fresh);
	pthread_mutex_unlock(&toy.gate);
	pthread_join(evicting, NULL);
	pthread_join(inserting, NULL);
	atomic_store(&toy.slot[41].live, 1);
	assert_ptr_equal(get(41), fresh);
	icache_put(fresh);
	icache_put(fresh);
}

static void copy_read_too_early_gives_way_to_the_new_inode(void **state)
{
	struct inode *copy = get(42);
	struct inode *fresh = toy_create(42);

	icache_insert_new(toy.vfs.icache, fresh);
	assert_ptr_equal(get(42), fresh);
	assert_true(inode_test(copy, INODE_BAD));
	icache_put(copy);
	assert_int_equal(atomic_load(&toy.slot[42].evictions), 1);
	assert_ptr_equal(icache_find(toy.vfs.icache, 42), fresh);
	for (int i = 0; i < 3; i++)
		icache_put(fresh);
}

static void cache_shrinks_to_its_limit(void **state)
{
	for (ino_num ino = 1; ino < TOY_INODES; ino++)
		icache_put(get(ino));
	while (icache_count(toy.vfs.icache) > 8 * 64)
		nap();
	assert_int_equal(atomic_load(&toy.doubled), 0);
}

static void held_inodes_stay(void **state)
{
	struct inode *held[32];

	for (ino_num i = 0; i < 32; i++)
		held[i] = get(1 + i * 7);
	for (ino_num ino = 1000; ino < TOY_INODES; ino++)
		icache_put(get(ino));
	for (ino_num i = 0; i < 32; i++) {
		assert_int_equal(atomic_load(&toy.slot[1 + i * 7].evictions), 0);
		icache_put(held[i]);
	}
}

static void lookups_survive_eviction(void **state)
{
	for (ino_num ino = 1; ino < TOY_INODES; ino++) {
		struct inode *inode = get(ino);

		icache_lookups_add(inode, ino);
		icache_put(inode);
	}
	for (ino_num ino = 1; ino < TOY_INODES; ino++) {
		struct inode *inode = get(ino);

		assert_int_equal(atomic_load(&inode->lookups), ino);
		icache_put(inode);
		icache_forget(toy.vfs.icache, ino, ino - 1);
	}
	for (ino_num ino = 1; ino < TOY_INODES; ino++) {
		struct inode *inode = get(ino);

		assert_int_equal(atomic_load(&inode->lookups), 1);
		icache_put(inode);
	}
}

/* Random gets, puts and forgets over few numbers in a cache that is too small for them. */
static void *worker(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 20000; i++) {
		ino_num ino = 1 + (ino_num)rand_r(&seed) % 2000;
		struct inode *inode;

		if (icache_get(toy.vfs.icache, ino, &inode))
			continue;
		if (inode->ino != ino)
			return arg;
		if (i % 3 == 0) {
			icache_lookups_add(inode, 1);
			icache_put(inode);
			icache_forget(toy.vfs.icache, ino, 1);
		} else {
			icache_put(inode);
		}
	}
	return NULL;
}

static void threads_never_see_two_copies(void **state)
{
	pthread_t threads[4];
	void *wrong;

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, worker, (void *)(i + 1));
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	assert_int_equal(atomic_load(&toy.doubled), 0);
}

static void destroy_evicts_everything(void **state)
{
	toy_start(4096);
	for (ino_num ino = 1; ino <= 500; ino++)
		icache_put(get(ino));
	toy_stop();
	for (ino_num ino = 1; ino <= 500; ino++)
		assert_int_equal(atomic_load(&toy.slot[ino].evictions), 1);
}

int main(void)
{
#define WITH_CACHE(test) cmocka_unit_test_setup_teardown(test, start, stop)
#define WITH_SMALL_CACHE(test) cmocka_unit_test_setup_teardown(test, start_small, stop)
	const struct CMUnitTest tests[] = {
		WITH_CACHE(cached_inode_is_found_again),
		WITH_CACHE(concurrent_getters_share_one_load),
		WITH_CACHE(failed_load_is_not_remembered),
		WITH_SMALL_CACHE(failed_load_keeps_lookups),
		WITH_CACHE(unlinked_inode_goes_with_its_last_reference),
		WITH_CACHE(lookups_keep_an_unlinked_inode),
		WITH_CACHE(too_many_forgets_do_not_wrap),
		WITH_CACHE(deferred_put_evicts_on_another_thread),
		WITH_CACHE(inode_under_eviction_is_not_loaded_beside_it),
		WITH_CACHE(number_reused_waits_for_the_eviction_of_its_former_owner),
		WITH_CACHE(copy_read_too_early_gives_way_to_the_new_inode),
		WITH_SMALL_CACHE(cache_shrinks_to_its_limit),
		WITH_SMALL_CACHE(held_inodes_stay),
		WITH_SMALL_CACHE(lookups_survive_eviction),
		WITH_SMALL_CACHE(threads_never_see_two_copies),
		cmocka_unit_test(destroy_evicts_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
