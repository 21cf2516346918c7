/* SPDX-License-Identifier: MIT */
/* test_ialloc.c - inode numbers: where they come from, that none is given twice, and what a new inode inherits */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "ext4/group.h"
#include "ext4/ialloc.h"
#include "ext4/super.h"
#include "mount_env.h"

static uint64_t free_inodes(struct ext4_fs *fs)
{
	return groups_free_inodes(fs);
}

static void create_and_put(struct inode *dir, const char *name, uint16_t mode)
{
	struct inode *inode = env_create(dir, name, mode);

	assert_non_null(inode);
	env_put(inode);
}

static void the_lowest_free_number_beside_the_directory_is_taken(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 16M", "");
	struct inode *dir = env_create(env->root, "dir", S_IFDIR | 0755), *f[20];
	char name[16];
	unsigned i;

	for (i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		f[i] = env_create(dir, name, S_IFREG | 0644);
		assert_non_null(f[i]);
		assert_true(f[i]->ino >= env->fs->first_ino);
		assert_int_equal(f[i]->block_group, dir->block_group);
		if (i)
			assert_int_equal(f[i]->ino, f[i - 1]->ino + 1);
	}
	i = f[5]->ino;
	env_unlink(dir, "f5", f[5]);
	f[5] = env_create(dir, "again", S_IFREG | 0644);
	assert_int_equal(f[5]->ino, i);
	for (i = 0; i < 20; i++)
		env_put(f[i]);
	env_put(dir);
	mount_env_destroy(env);
}

/* Groups of the first @count directories made in the root. */
static uint32_t groups_of_top_dirs(struct mount_env *env, unsigned count)
{
	uint32_t used = 0;
	char name[16];
	unsigned i;

	for (i = 0; i < count; i++) {
		struct inode *dir, *sub;

		snprintf(name, sizeof(name), "d%u", i);
		dir = env_create(env->root, name, S_IFDIR | 0755);
		assert_non_null(dir);
		used |= 1u << dir->block_group;
		sub = env_create(dir, "sub", S_IFDIR | 0755);
		assert_int_equal(sub->block_group, dir->block_group); /* others stay with their parent */
		env_put(sub);
		env_put(dir);
	}
	return (uint32_t)__builtin_popcount(used);
}

static void top_level_directories_spread_over_groups(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 -O ^flex_bg %s 64M", "");

	assert_int_equal(env->fs->group_count, 8);
	assert_in_range(groups_of_top_dirs(env, 16), 6, 8);
	mount_env_destroy(env);
	env = mount_env_create("-t ext4 -b 1024 -G 8 %s 64M", "");
	assert_in_range(groups_of_top_dirs(env, 16), 6, 8);
	mount_env_destroy(env);
}

static void every_number_is_given_once_and_comes_back(void **state)
{
	static const char *const images[] = {
		"-t ext4 -b 1024 -N 400 %s 24M", "-t ext2 -b 1024 -N 300 %s 24M", "-t ext4 -I 128 -b 4096 -N 256 %s 32M",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(images); i++) {
		struct mount_env *env = mount_env_create(images[i], "");
		uint64_t all = free_inodes(env->fs), made = 0, j;
		uint8_t *seen = calloc(1, env->fs->inodes_count + 1);
		struct inode *inode;
		char name[16];

		assert_non_null(seen);
		for (;; made++) {
			snprintf(name, sizeof(name), "%u", (unsigned)made);
			inode = env_create(env->root, name, S_IFREG | 0644);
			if (!inode)
				break;
			assert_int_equal(seen[inode->ino]++, 0);
			assert_int_equal(ialloc_is_used(env->fs, inode->ino), 1);
			env_put(inode);
		}
		assert_int_equal(made, all);
		assert_int_equal(free_inodes(env->fs), 0);
		mount_env_cycle(env);
		for (j = 0; j < made; j++) {
			snprintf(name, sizeof(name), "%u", (unsigned)j);
			env_unlink(env->root, name, env_lookup(env->root, name));
		}
		assert_int_equal(free_inodes(env->fs), all);
		free(seen);
		mount_env_destroy(env);
	}
}

/* Inode tables that mke2fs left as they were: full of what looks like inodes. */
static void stale_inode_tables_never_show(void **state)
{
	struct mount_env *env;
	char name[16];
	unsigned i, j;

	env = mount_env_create_on_noise("-t ext4 -b 1024 -G 4 -E nodiscard,lazy_itable_init=1 %s", 48, "");
	for (i = 0; i < 12; i++) {
		struct inode *dir;

		snprintf(name, sizeof(name), "d%u", i);
		dir = env_create(env->root, name, S_IFDIR | 0755);
		for (j = 0; j < 30; j++) {
			snprintf(name, sizeof(name), "f%u", j);
			create_and_put(dir, name, S_IFREG | 0644);
		}
		env_put(dir);
	}
	mount_env_cycle(env);
	for (i = 0; i < 12; i += 2) {
		struct inode *dir;

		snprintf(name, sizeof(name), "d%u", i);
		dir = env_lookup(env->root, name);
		for (j = 0; j < 30; j++) {
			snprintf(name, sizeof(name), "f%u", j);
			env_unlink(dir, name, env_lookup(dir, name));
		}
		snprintf(name, sizeof(name), "d%u", i);
		env_unlink(env->root, name, dir);
	}
	mount_env_destroy(env);
}

static void flags_are_inherited_by_type(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -I 256 -O project %s 16M", "");
	struct inode *dir, *inode;

	dir = env_create(env->root, "dir", S_IFDIR | 0755);
	dir->flags |= EXT4_NODUMP_FL | EXT4_NOATIME_FL | EXT4_DIRSYNC_FL | EXT4_PROJINHERIT_FL | EXT4_TOPDIR_FL;
	dir->projid = 77;
	inode = env_create(dir, "sub", S_IFDIR | 0755);
	assert_int_equal(inode->flags & ~EXT4_INDEX_FL, EXT4_NODUMP_FL | EXT4_NOATIME_FL | EXT4_DIRSYNC_FL |
						   EXT4_PROJINHERIT_FL | EXT4_EXTENTS_FL);
	assert_int_equal(inode->projid, 77);
	env_put(inode);
	inode = env_create(dir, "file", S_IFREG | 0644);
	assert_int_equal(inode->flags, EXT4_NODUMP_FL | EXT4_NOATIME_FL | EXT4_EXTENTS_FL);
	assert_int_equal(inode->projid, 77);
	assert_true(inode->extra_isize >= 32);
	assert_int_equal(inode->crtime.tv_sec, inode->mtime.tv_sec);
	env_put(inode);
	inode = env_create(dir, "fifo", S_IFIFO | 0644);
	assert_int_equal(inode->flags, EXT4_NODUMP_FL | EXT4_NOATIME_FL);
	env_put(inode);
	env_put(dir);
	mount_env_destroy(env);
}

static void reserved_numbers_are_not_freed(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 16M", "errors=continue");
	struct handle h;

	assert_int_equal(fs_handle_start(env->fs, IALLOC_CREDITS, 0, &h), 0);
	assert_int_equal(ialloc_free(&h, env->root), -EUCLEAN);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(ialloc_is_used(env->fs, 0), -EUCLEAN);
	assert_int_equal(ialloc_is_used(env->fs, env->fs->inodes_count + 1), -EUCLEAN);
	assert_int_equal(ialloc_is_used(env->fs, env->fs->inodes_count), 0);
	env_put(env->root);
	assert_int_equal(ext4_unmount(env->fs), 0);
	unlink(env->path);
	free(env);
}

struct creator {
	struct inode *dir;
	ino_num ino[300];
};

static void *create_many(void *arg)
{
	struct creator *c = arg;
	char name[16];
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(c->ino); i++) {
		struct inode *inode;

		snprintf(name, sizeof(name), "f%u", i);
		inode = env_create(c->dir, name, S_IFREG | 0644);
		c->ino[i] = inode->ino;
		if (i % 3)
			env_put(inode);
		else
			env_unlink(c->dir, name, inode);
	}
	return NULL;
}

static void threads_never_get_the_same_number(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -b 1024 %s 64M", "");
	uint64_t before = free_inodes(env->fs);
	static struct creator c[3];
	uint8_t *seen = calloc(1, env->fs->inodes_count + 1);
	pthread_t threads[3];
	char name[16];
	unsigned i, j;

	assert_non_null(seen);
	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		c[i].dir = env_create(env->root, name, S_IFDIR | 0755);
	}
	for (i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, create_many, &c[i]), 0);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 3; i++) {
		for (j = 0; j < 300; j++)
			if (j % 3)
				assert_int_equal(seen[c[i].ino[j]]++, 0);
		env_put(c[i].dir);
	}
	assert_int_equal(free_inodes(env->fs), before - 3 * 201);
	free(seen);
	mount_env_destroy(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lowest_free_number_beside_the_directory_is_taken),
		cmocka_unit_test(top_level_directories_spread_over_groups),
		cmocka_unit_test(every_number_is_given_once_and_comes_back),
		cmocka_unit_test(stale_inode_tables_never_show),
		cmocka_unit_test(flags_are_inherited_by_type),
		cmocka_unit_test(reserved_numbers_are_not_freed),
		cmocka_unit_test(threads_never_get_the_same_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
