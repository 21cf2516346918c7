/* SPDX-License-Identifier: MIT */
/* test_inode.c - damaged inodes are refused with a reason; link counts */
#include "ext4/inode_private.h"
#include "ext4/super_format.h"
#include "image_env.h"

static void skip_without_tools(void)
{
	if (!image_tools_exist())
		skip();
}

static int load_quietly(struct image_env *env, ino_num ino, bool allow_unlinked)
{
	struct inode *inode = inode_alloc(env->fs);
	int err;

	assert_non_null(inode);
	err = inode_load(env->fs, ino, allow_unlinked, inode);
	inode_free(inode);
	return err;
}

/* Changes a field of the file's raw inode on the mounted image, mends the checksum, loads it, and puts it back. */
static int load_with(struct image_env *env, struct inode *file, size_t offset, const void *value, size_t bytes)
{
	struct buffer_head *bh;
	uint8_t saved[1024];
	uint32_t off;
	int err;

	assert_int_equal(journal_force_commit(env->fs->journal), 0); /* none to come copies the block while it is changed */
	assert_int_equal(inode_table_block(env->fs, file->ino, &bh, &off), 0);
	buffer_lock(bh); /* the checkpoint may be writing it home */
	memcpy(saved, bh->data + off, env->fs->inode_bytes);
	memcpy(bh->data + off + offset, value, bytes);
	inode_raw_csum_set(file, (struct ext4_inode *)(void *)(bh->data + off));
	buffer_unlock(bh);
	err = load_quietly(env, file->ino, false);
	buffer_lock(bh);
	memcpy(bh->data + off, saved, env->fs->inode_bytes);
	buffer_unlock(bh);
	buffer_put(bh);
	return err;
}

#define LOAD_WITH(env, file, field, value) \
	load_with(env, file, offsetof(struct ext4_inode, field), &(value), sizeof(value))

static void damaged_fields_are_corruption(void **state)
{
	const le16 no_type = le16_make(0xF000 | 0644), directory = le16_make(S_IFDIR | 0755), fifo = le16_make(S_IFIFO | 0644);
	const le16 gone = le16_make(0), wide = le16_make(500), odd = le16_make(30);
	const le32 inside_metadata = le32_make(2), far = le32_make(0x7FFFFFFF), huge = le32_make(0x7FFFFFFF);
	const le32 half_block = le32_make(500), inline_data = le32_make(EXT4_INLINE_DATA_FL), junk = le32_make(0x12345678);
	struct image_env env;
	struct inode *file;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 16);
	file = image_mkfile(env.root, "file");
	assert_int_equal(load_quietly(&env, file->ino, false), 0);
	assert_int_equal(LOAD_WITH(&env, file, i_mode, no_type), -EUCLEAN);
	assert_int_equal(LOAD_WITH(&env, file, i_mode, gone), -ESTALE);
	assert_int_equal(LOAD_WITH(&env, file, i_links_count, gone), -ESTALE);
	assert_int_equal(LOAD_WITH(&env, file, i_extra_isize, wide), -EUCLEAN);
	assert_int_equal(LOAD_WITH(&env, file, i_extra_isize, odd), -EUCLEAN);
	assert_int_equal(LOAD_WITH(&env, file, i_file_acl_lo, inside_metadata), -EUCLEAN);
	assert_int_equal(LOAD_WITH(&env, file, i_file_acl_lo, far), -EUCLEAN);
	assert_int_equal(LOAD_WITH(&env, file, i_size_high, huge), -EUCLEAN);
	assert_int_equal(LOAD_WITH(&env, file, i_flags, inline_data), -EUCLEAN);
	assert_int_equal(LOAD_WITH(&env, file, i_block[0], junk), -EUCLEAN);
	assert_int_equal(LOAD_WITH(&env, file, i_mode, fifo), 0);
	assert_int_equal(LOAD_WITH(&env, file, i_mode, directory), 0);
	assert_int_equal(LOAD_WITH(&env, env.root, i_size_lo, half_block), -EUCLEAN);
	env.errors = 0;
	image_put(file);
	image_destroy(&env);
}

static void numbers_that_no_name_may_have_are_corruption(void **state)
{
	struct image_env env;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024 -O orphan_file", 16);
	assert_int_equal(load_quietly(&env, 0, false), -EUCLEAN);
	assert_int_equal(load_quietly(&env, env.fs->inodes_count + 1, false), -EUCLEAN);
	assert_int_equal(load_quietly(&env, EXT4_JOURNAL_INO, false), -EUCLEAN);
	assert_int_equal(load_quietly(&env, 7, true), -EUCLEAN);
	assert_int_equal(load_quietly(&env, le32_get(fs_super(env.fs)->s_orphan_file_inum), false), -EUCLEAN);
	assert_int_equal(load_quietly(&env, EXT4_ROOT_INO, false), 0);
	assert_int_equal(load_quietly(&env, env.fs->inodes_count, false), -ESTALE);
	env.errors = 0;
	image_destroy(&env);
}

/* Random inodes with right checksums: an error or an inode, nothing else. */
static void random_inodes_never_crash_a_load(void **state)
{
	struct image_env env;
	struct inode *file;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 16);
	file = image_mkfile(env.root, "file");
	env.fs->log = (struct log_sink){ .func = NULL }; /* thousands of complaints are expected */
	srand(5);
	for (int round = 0; round < 5000; round++) {
		uint8_t noise[40];

		for (size_t i = 0; i < sizeof(noise); i++)
			noise[i] = (uint8_t)rand();
		load_with(&env, file, (size_t)rand() % (160 - sizeof(noise)), noise, 1 + (size_t)rand() % sizeof(noise));
	}
	env.errors = 0;
	image_put(file);
	image_destroy(&env);
}

static void directories_stop_counting_where_the_image_allows(void **state)
{
	struct ext4_fs fs = { .compat = EXT4_FEATURE_COMPAT_DIR_INDEX, .ro_compat = EXT4_FEATURE_RO_COMPAT_DIR_NLINK };
	struct inode dir = { .fs = &fs, .mode = S_IFDIR | 0755, .flags = EXT4_INDEX_FL, .nlink = EXT4_LINK_MAX - 1 };
	struct inode file = { .fs = &fs, .mode = S_IFREG | 0644, .nlink = EXT4_LINK_MAX };

	assert_int_equal(inode_inc_nlink_check(&dir), 0);
	inode_inc_nlink(&dir);
	assert_int_equal(dir.nlink, EXT4_LINK_MAX);
	assert_int_equal(inode_inc_nlink_check(&dir), 0);
	inode_inc_nlink(&dir);
	assert_int_equal(dir.nlink, 1);
	inode_inc_nlink(&dir);
	assert_int_equal(dir.nlink, 1);
	inode_drop_nlink(&dir);
	assert_int_equal(dir.nlink, 1);
	fs.ro_compat = 0;
	dir.nlink = EXT4_LINK_MAX;
	assert_int_equal(inode_inc_nlink_check(&dir), -EMLINK);
	assert_int_equal(inode_inc_nlink_check(&file), -EMLINK);
	inode_drop_nlink(&file);
	assert_int_equal(inode_inc_nlink_check(&file), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged_fields_are_corruption),
		cmocka_unit_test(numbers_that_no_name_may_have_are_corruption),
		cmocka_unit_test(random_inodes_never_crash_a_load),
		cmocka_unit_test(directories_stop_counting_where_the_image_allows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
