/* SPDX-License-Identifier: MIT */
/* test_mount.c - every layout mounts, stays clean and counts as dumpe2fs does; what cannot be mounted is refused */
#include "ext4/fs_private.h"
#include "ext4/super_format.h"
#include "image_env.h"

/* What differs between images in how groups, inodes and checksums are laid out. */
static const char *const layouts[] = {
	"-t ext2 -b 1024 -I 128",
	"-t ext2 -b 4096 -I 128 -O ^sparse_super,^resize_inode",
	"-t ext2 -r 0 -b 1024",
	"-t ext3 -b 1024 -I 128",
	"-t ext3 -b 4096 -I 256",
	"-t ext4 -b 1024",
	"-t ext4 -b 2048 -I 512",
	"-t ext4 -b 4096",
	"-t ext4 -b 4096 -I 1024 -O metadata_csum,64bit",
	"-t ext4 -b 4096 -O ^metadata_csum,uninit_bg",
	"-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,^flex_bg",
	"-t ext4 -b 1024 -O meta_bg,^resize_inode",
	"-t ext4 -b 1024 -O meta_bg,^resize_inode,^flex_bg,^64bit,^metadata_csum",
	"-t ext4 -b 1024 -O sparse_super2 -E num_backup_sb=2",
	"-t ext4 -b 1024 -O sparse_super2,^resize_inode -E num_backup_sb=0",
	"-t ext4 -b 1024 -O metadata_csum_seed",
	"-t ext4 -b 1024 -O ^has_journal",
	"-t ext4 -b 4096 -O ^extent,^64bit",
	"-t ext4 -b 4096 -O orphan_file",
	"-t ext4 -b 1024 -g 8192 -G 4 -N 4096",
	"-t ext4 -b 1024 -E lazy_itable_init=1,packed_meta_blocks=1",
};

static void skip_without_tools(void)
{
	if (!image_tools_exist())
		skip();
}

static void dumpe2fs_number(const struct image_env *env, const char *key, uint64_t *value_out)
{
	char command[256];
	FILE *pipe;

	snprintf(command, sizeof(command), "dumpe2fs -h %s 2>/dev/null | sed -n 's/^%s: *//p'", env->path, key);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%lu", value_out), 1);
	pclose(pipe);
}

static void each_layout_is_clean_after_use(void **state)
{
	skip_without_tools();
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		struct image_env env;
		struct ext4_statfs st;
		uint64_t blocks, inodes;

		print_message("layout: %s\n", layouts[i]);
		image_create(&env, layouts[i], 64);
		ext4_statfs(env.fs, &st);
		image_recheck(&env);
		image_put(image_mkdir(env.root, "directory"));
		image_put(image_mkfile(env.root, "file"));
		image_check(&env);
		dumpe2fs_number(&env, "Free blocks", &blocks);
		dumpe2fs_number(&env, "Free inodes", &inodes);
		assert_int_equal(inodes, st.inodes_free - 2);
		assert_int_equal(blocks, st.blocks_free - 1);
		image_destroy(&env);
	}
}

static void mount_count_and_state_follow_the_mounts(void **state)
{
	struct image_env env;
	uint64_t count;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 16);
	assert_true(le32_get(fs_super(env.fs)->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_RECOVER);
	image_recheck(&env);
	image_check(&env);
	dumpe2fs_number(&env, "Mount count", &count);
	assert_int_equal(count, 2);
	image_destroy(&env);
	image_create(&env, "-t ext2 -b 1024", 16);
	assert_false(le16_get(fs_super(env.fs)->s_state) & EXT4_STATE_VALID_FS);
	image_check(&env);
	image_destroy(&env);
}

static void a_read_only_mount_writes_nothing(void **state)
{
	struct image_env env;
	uint8_t *before;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 16);
	image_unmount(&env);
	before = image_copy(&env);
	env.opt.read_only = true;
	image_mount(&env);
	assert_int_equal(image_create_node(env.root, "x", S_IFREG | 0644, NULL), -EROFS);
	assert_int_equal(ext4_sync(env.fs), 0);
	image_unmount(&env);
	assert_memory_equal(before, env.bytes, env.size_bytes);
	image_memory_free(before);
	image_destroy(&env);
}

static void remounting_read_only_leaves_a_clean_image(void **state)
{
	struct image_env env;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 16);
	image_put(image_mkfile(env.root, "file"));
	assert_int_equal(ext4_remount_read_only(env.fs), 0);
	assert_int_equal(image_create_node(env.root, "x", S_IFREG | 0644, NULL), -EROFS);
	assert_false(le32_get(fs_super(env.fs)->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_RECOVER);
	image_recheck(&env);
	assert_int_not_equal(image_find(env.root, "file"), 0);
	image_destroy(&env);
}

/* ---- what is refused ---- */

struct lines {
	char text[4096];
};

static void keep_line(void *arg, int level, const char *text)
{
	struct lines *lines = arg;

	if (strlen(lines->text) + strlen(text) + 2 < sizeof(lines->text))
		strcat(strcat(lines->text, text), "\n");
}

/* Mounts @bytes and returns the error, with the log in @lines; unmounts at once if it mounts. */
static int try_mount(uint8_t *bytes, uint64_t size_bytes, const char *options, struct lines *lines)
{
	const struct log_sink log = { .func = keep_line, .arg = lines };
	struct ext4_options opt;
	struct block_device *dev;
	struct ext4_fs *fs;
	char error[256];
	int err;

	options_init(&opt);
	assert_int_equal(options_parse(&opt, options, error), 0);
	lines->text[0] = '\0';
	assert_int_equal(block_open_memory(size_bytes, bytes, &dev), 0);
	err = ext4_mount(dev, &opt, &log, "test", NULL, NULL, &fs);
	options_exit(&opt);
	if (err)
		return err;
	return ext4_unmount(fs);
}

static struct ext4_super_block *image_super(struct image_env *env)
{
	return (struct ext4_super_block *)(void *)(env->bytes + EXT4_SUPER_OFFSET_BYTES);
}

static void super_set_features(struct image_env *env, uint32_t incompat, uint32_t ro_compat)
{
	struct ext4_super_block *es = image_super(env);

	es->s_feature_incompat = le32_make(le32_get(es->s_feature_incompat) | incompat);
	es->s_feature_ro_compat = le32_make(le32_get(es->s_feature_ro_compat) | ro_compat);
}

static void unknown_features_are_named(void **state)
{
	struct image_env env;
	struct lines lines;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024 -O ^metadata_csum", 16);
	image_unmount(&env);
	super_set_features(&env, EXT4_FEATURE_INCOMPAT_INLINE_DATA | 1u << 29, 0);
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "", &lines), -EOPNOTSUPP);
	assert_non_null(strstr(lines.text, "inline_data,FEATURE_I29"));
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "ro", &lines), -EOPNOTSUPP);
	image_destroy(&env);

	image_create(&env, "-t ext4 -b 1024 -O ^metadata_csum", 16);
	image_unmount(&env);
	super_set_features(&env, 0, EXT4_FEATURE_RO_COMPAT_VERITY);
	image_mount(&env);
	assert_true(fs_is_read_only(env.fs));
	image_destroy(&env);
}

/* Commits a superblock with these features, or without them, and leaves it in the log. */
static void commit_features(struct image_env *env, uint32_t incompat, uint32_t ro_compat, bool set)
{
	struct ext4_super_block *es;
	struct handle h;

	assert_int_equal(fs_handle_start(env->fs, 1, 0, &h), 0);
	assert_int_equal(super_change_begin(&h, env->fs, &es), 0);
	es->s_feature_incompat = le32_make(le32_get(es->s_feature_incompat) & ~incompat);
	es->s_feature_ro_compat = le32_make(le32_get(es->s_feature_ro_compat) & ~ro_compat);
	if (set) {
		es->s_feature_incompat = le32_make(le32_get(es->s_feature_incompat) | incompat);
		es->s_feature_ro_compat = le32_make(le32_get(es->s_feature_ro_compat) | ro_compat);
	}
	assert_int_equal(super_change_end(&h, env->fs), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(journal_force_commit(env->fs->journal), 0);
}

/* What the device holds once such a superblock is committed: the log has it, its own place has not. The image goes on without. */
static uint8_t *crash_with_features(struct image_env *env, uint32_t incompat, uint32_t ro_compat)
{
	uint8_t *copy;

	commit_features(env, incompat, ro_compat, true);
	copy = image_copy(env);
	commit_features(env, incompat, ro_compat, false);
	return copy;
}

/*
 * Goal:   features are looked at again once replay has brought another superblock.
 * Method: a feature nobody knows is in the log only; each mount of the crash is refused and names it, read-only too, and
 *         without the feature the image is sound.
 */
static void unknown_features_in_the_log_are_refused_after_replay(void **state)
{
	struct ext4_super_block *es;
	struct image_env env;
	struct lines lines;
	uint8_t *copy;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 16);
	copy = crash_with_features(&env, 1u << 29, 0);
	es = (struct ext4_super_block *)(void *)(copy + EXT4_SUPER_OFFSET_BYTES);
	assert_int_equal(le32_get(es->s_feature_incompat) & 1u << 29, 0);
	assert_int_equal(try_mount(copy, env.size_bytes, "ro", &lines), -EOPNOTSUPP);
	assert_non_null(strstr(lines.text, "FEATURE_I29"));
	assert_int_equal(try_mount(copy, env.size_bytes, "", &lines), -EOPNOTSUPP);
	assert_non_null(strstr(lines.text, "FEATURE_I29"));
	assert_int_equal(le32_get(es->s_feature_incompat) & 1u << 29, 1u << 29);
	assert_int_equal(try_mount(copy, env.size_bytes, "", &lines), -EOPNOTSUPP);
	image_unmount(&env);
	memcpy(env.bytes, copy, env.size_bytes);
	es = image_super(&env);
	es->s_feature_incompat = le32_make(le32_get(es->s_feature_incompat) & ~(1u << 29));
	super_csum_set(es);
	image_mount(&env);
	image_check(&env);
	image_destroy(&env);
	image_memory_free(copy);

	image_create(&env, "-t ext4 -b 1024", 16);
	copy = crash_with_features(&env, 0, EXT4_FEATURE_RO_COMPAT_VERITY);
	assert_int_equal(try_mount(copy, env.size_bytes, "", &lines), -EOPNOTSUPP);
	assert_int_equal(try_mount(copy, env.size_bytes, "ro", &lines), 0);
	image_destroy(&env);
	image_memory_free(copy);
}

static void damaged_images_are_refused_with_a_reason(void **state)
{
	struct image_env env;
	struct lines lines;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 4096", 32);
	image_unmount(&env);
	assert_int_equal(try_mount(env.bytes, env.size_bytes / 2, "", &lines), -EUCLEAN);
	assert_non_null(strstr(lines.text, "truncated"));
	assert_int_equal(try_mount(env.bytes, 1024, "", &lines), -EINVAL);
	image_super(&env)->s_inode_size = le16_make(77);
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "", &lines), -EBADMSG);
	image_super(&env)->s_magic = le16_make(0);
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "", &lines), -EINVAL);
	image_destroy(&env);
}

/* A commit block that overtakes the data would show what the blocks held before. */
static void async_commits_are_refused_where_data_is_ordered(void **state)
{
	struct image_env env;
	struct lines lines;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024 -O ^metadata_csum", 16);
	image_unmount(&env);
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "journal_async_commit", &lines), -EINVAL);
	assert_non_null(strstr(lines.text, "data=writeback"));
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "journal_async_commit,data=writeback", &lines), 0);
	image_super(&env)->s_default_mount_opts = le32_make(EXT4_DEFM_JMODE_WBACK);
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "journal_async_commit", &lines), 0);
	image_destroy(&env);
}

static void a_damaged_descriptor_forbids_writing_only(void **state)
{
	struct image_env env;
	struct lines lines;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 32);
	image_unmount(&env);
	env.bytes[2048 + 64 + 0x0C] ^= 1; /* free blocks of group 1 */
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "", &lines), -EBADMSG);
	assert_non_null(strstr(lines.text, "group 1"));
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "ro", &lines), 0);
	image_destroy(&env);
}

static void overlapping_metadata_is_corruption(void **state)
{
	struct image_env env;
	struct lines lines;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024 -O ^metadata_csum,^uninit_bg", 32);
	image_unmount(&env);
	memcpy(env.bytes + 2048 + 64, env.bytes + 2048, 4); /* both groups name one block bitmap */
	assert_int_equal(try_mount(env.bytes, env.size_bytes, "", &lines), -EUCLEAN);
	image_destroy(&env);
}

/* Random bytes in superblock and descriptors: whatever comes of it, no crash and no hang. */
static void random_damage_never_crashes_a_mount(void **state)
{
	struct image_env env;
	struct lines lines;
	uint8_t *sound;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024 -O ^metadata_csum,orphan_file", 16);
	image_put(image_mkdir(env.root, "d"));
	image_unmount(&env);
	sound = image_copy(&env);
	srand(7);
	for (int round = 0; round < 60; round++) {
		for (int n = rand() % 6; n >= 0; n--)
			env.bytes[1024 + rand() % 3072] = (uint8_t)rand();
		image_super(&env)->s_magic = le16_make(EXT4_SUPER_MAGIC);
		image_super(&env)->s_feature_incompat = le32_make(le32_get(image_super(&env)->s_feature_incompat) &
								  ~EXT4_FEATURE_INCOMPAT_MMP);
		try_mount(env.bytes, env.size_bytes, round & 1 ? "" : "ro", &lines);
		memcpy(env.bytes, sound, env.size_bytes);
	}
	image_memory_free(sound);
	image_destroy(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_layout_is_clean_after_use),
		cmocka_unit_test(mount_count_and_state_follow_the_mounts),
		cmocka_unit_test(a_read_only_mount_writes_nothing),
		cmocka_unit_test(remounting_read_only_leaves_a_clean_image),
		cmocka_unit_test(unknown_features_are_named),
		cmocka_unit_test(unknown_features_in_the_log_are_refused_after_replay),
		cmocka_unit_test(damaged_images_are_refused_with_a_reason),
		cmocka_unit_test(async_commits_are_refused_where_data_is_ordered),
		cmocka_unit_test(a_damaged_descriptor_forbids_writing_only),
		cmocka_unit_test(overlapping_metadata_is_corruption),
		cmocka_unit_test(random_damage_never_crashes_a_mount),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
