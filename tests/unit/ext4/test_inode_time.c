/* SPDX-License-Identifier: MIT */
/* test_inode_time.c - times changed in memory only reach the disk, at the latest when the inode goes */
#include "image_env.h"

static const struct timespec long_ago = { .tv_sec = 1000000000 };

/* A file whose times are known to be old on disk. */
static struct inode *old_file(struct image_env *env)
{
	struct setattr_args args = { .valid = SETATTR_ATIME | SETATTR_MTIME, .atime = long_ago, .mtime = long_ago };
	struct inode *inode = image_mkfile(env->root, "file");

	rwsem_write_lock(&inode->rwsem);
	assert_int_equal(namei_setattr(inode, &args), 0);
	rwsem_write_unlock(&inode->rwsem);
	return inode;
}

static int64_t mtime_on_disk(struct image_env *env, ino_num ino)
{
	struct inode *inode = image_load(env, ino);
	int64_t seconds = inode->mtime.tv_sec;

	inode_free(inode);
	return seconds;
}

static void lazy_stamps_wait_for_a_sync(void **state)
{
	struct image_env env;
	struct inode *inode;

	if (!image_tools_exist())
		skip();
	image_create(&env, "-t ext4 -b 1024", 16);
	inode = old_file(&env);
	inode_stamp_lazy(inode, TIME_MTIME | TIME_CTIME);
	assert_true(inode_test(inode, INODE_DIRTY_TIME));
	assert_int_equal(mtime_on_disk(&env, inode->ino), long_ago.tv_sec);
	assert_int_equal(ext4_sync(env.fs), 0);
	assert_false(inode_test(inode, INODE_DIRTY_TIME));
	assert_int_equal(mtime_on_disk(&env, inode->ino), inode->mtime.tv_sec);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

static void lazy_stamps_ride_along_with_any_write(void **state)
{
	struct setattr_args args = { .valid = SETATTR_MODE, .mode = S_IFREG | 0600 };
	struct image_env env;
	struct inode *inode;

	if (!image_tools_exist())
		skip();
	image_create(&env, "-t ext4 -b 1024", 16);
	inode = old_file(&env);
	inode_stamp_lazy(inode, TIME_MTIME);
	rwsem_write_lock(&inode->rwsem);
	assert_int_equal(namei_setattr(inode, &args), 0);
	rwsem_write_unlock(&inode->rwsem);
	assert_false(inode_test(inode, INODE_DIRTY_TIME));
	assert_int_equal(mtime_on_disk(&env, inode->ino), inode->mtime.tv_sec);
	image_put(inode);
	image_destroy(&env);
}

static void the_last_reference_takes_them_to_disk(void **state)
{
	struct image_env env;
	struct inode *inode;
	int64_t seconds;
	ino_num ino;

	if (!image_tools_exist())
		skip();
	image_create(&env, "-t ext4 -b 1024", 16);
	inode = old_file(&env);
	ino = inode->ino;
	inode_stamp_lazy(inode, TIME_MTIME);
	seconds = inode->mtime.tv_sec;
	image_put(inode);
	image_recheck(&env);
	assert_int_equal(mtime_on_disk(&env, ino), seconds);
	image_destroy(&env);
}

static void relatime_updates_once_a_day_or_after_a_change(void **state)
{
	struct ext4_fs fs = { .opt = { .relatime = true } };
	struct inode inode = { .fs = &fs, .mode = S_IFREG | 0644 };
	struct timespec now = fs_now(&fs);

	inode.mtime = inode.ctime = (struct timespec){ .tv_sec = now.tv_sec - 100 };
	inode.atime = (struct timespec){ .tv_sec = now.tv_sec - 50 };
	assert_false(inode_needs_atime(&inode));
	inode.atime.tv_sec = now.tv_sec - 150;
	assert_true(inode_needs_atime(&inode));
	inode.mtime.tv_sec = inode.ctime.tv_sec = now.tv_sec - 200000;
	inode.atime.tv_sec = now.tv_sec - 100000;
	assert_true(inode_needs_atime(&inode));
	inode.flags = EXT4_NOATIME_FL;
	assert_false(inode_needs_atime(&inode));
	inode.flags = 0;
	fs.opt.noatime = true;
	assert_false(inode_needs_atime(&inode));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lazy_stamps_wait_for_a_sync),
		cmocka_unit_test(lazy_stamps_ride_along_with_any_write),
		cmocka_unit_test(the_last_reference_takes_them_to_disk),
		cmocka_unit_test(relatime_updates_once_a_day_or_after_a_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
