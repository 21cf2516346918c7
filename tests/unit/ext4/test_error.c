/* SPDX-License-Identifier: MIT */
/* test_error.c - corruption and failed writes: reported once, remembered in the superblock, followed by errors= */
#include "block/fault.h"
#include "ext4/inode_format.h"
#include "ext4/fs_private.h"
#include "ext4/super_format.h"
#include "file_env.h"

#include <linux/falloc.h>

static void skip_without_tools(void)
{
	if (!image_tools_exist())
		skip();
}

static struct ext4_super_block *super_on_device(const struct image_env *env)
{
	return (struct ext4_super_block *)(void *)(env->bytes + EXT4_SUPER_OFFSET_BYTES);
}

/* Where the inode's bytes are on the device. */
static uint8_t *raw_inode(struct image_env *env, ino_num ino)
{
	struct buffer_head *bh;
	uint64_t pos;
	uint32_t off;

	assert_int_equal(inode_table_block(env->fs, ino, &bh, &off), 0);
	pos = bh->blk * env->fs->block_bytes + off;
	buffer_put(bh);
	return env->bytes + pos;
}

/* An image with one file whose inode has a flipped bit; unmounted. */
static ino_num image_with_damaged_inode(struct image_env *env, uint8_t **byte_out)
{
	struct inode *inode;
	ino_num ino;

	image_create(env, "-t ext4 -b 1024", 16);
	inode = image_mkfile(env->root, "file");
	ino = inode->ino;
	image_put(inode);
	*byte_out = raw_inode(env, ino) + offsetof(struct ext4_inode, i_generation);
	image_unmount(env);
	**byte_out ^= 0x40;
	return ino;
}

static int load_inode(struct image_env *env, ino_num ino)
{
	struct inode *inode = inode_alloc(env->fs);
	int err;

	assert_non_null(inode);
	err = inode_load(env->fs, ino, false, inode);
	inode_free(inode);
	return err;
}

static void corruption_is_counted_in_the_superblock(void **state)
{
	const struct ext4_super_block *es;
	struct image_env env;
	uint8_t *byte;
	ino_num ino;

	skip_without_tools();
	ino = image_with_damaged_inode(&env, &byte);
	image_mount(&env);
	assert_int_equal(load_inode(&env, ino), -EBADMSG);
	assert_int_equal(load_inode(&env, ino), -EBADMSG);
	assert_int_equal(env.errors, 2);
	image_put(image_mkfile(env.root, "the rest still works"));
	image_unmount(&env);
	es = super_on_device(&env);
	assert_int_equal(le16_get(es->s_state), EXT4_STATE_VALID_FS | EXT4_STATE_ERROR_FS);
	assert_int_equal(le32_get(es->s_error_count), 2);
	assert_int_equal(le32_get(es->s_first_error_ino), ino);
	assert_int_equal(le32_get(es->s_last_error_ino), ino);
	assert_int_equal(es->s_last_error_errcode, EXT4_ERRCODE_EFSBADCRC);
	assert_true(es->s_last_error_func[0] != '\0');
	assert_true(le32_get(es->s_first_error_time) != 0);
	image_destroy(&env);
}

static void remount_ro_stops_all_changes(void **state)
{
	struct image_env env;
	uint8_t *byte;
	ino_num ino;

	skip_without_tools();
	ino = image_with_damaged_inode(&env, &byte);
	env.opt.errors = ERRORS_REMOUNT_RO;
	image_mount(&env);
	assert_int_equal(load_inode(&env, ino), -EBADMSG);
	assert_true(fs_is_read_only(env.fs));
	assert_int_equal(image_create_node(env.root, "x", S_IFREG | 0644, NULL), -EROFS);
	assert_int_not_equal(image_find(env.root, "file"), 0);
	image_put(env.root);
	assert_int_not_equal(ext4_unmount(env.fs), 0);
	assert_true(le16_get(super_on_device(&env)->s_state) & EXT4_STATE_ERROR_FS);
	assert_true(le32_get(super_on_device(&env)->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_RECOVER);
	*byte ^= 0x40;
	image_mount(&env);
	assert_int_equal(le32_get(fs_super(env.fs)->s_first_error_ino), ino); /* the cause, and not the abort that it led to */
	assert_int_equal(load_inode(&env, ino), 0);
	image_destroy(&env);
}

static void an_image_cannot_ask_to_end_the_program(void **state)
{
	struct image_env env;
	uint8_t *byte;
	ino_num ino;

	skip_without_tools();
	ino = image_with_damaged_inode(&env, &byte);
	super_on_device(&env)->s_errors = le16_make(ERRORS_PANIC);
	super_csum_set(super_on_device(&env));
	image_mount(&env);
	assert_int_equal(load_inode(&env, ino), -EBADMSG);
	assert_true(fs_is_read_only(env.fs));
	image_put(env.root);
	ext4_unmount(env.fs);
	env.fs = NULL;
	image_destroy(&env);
}

/* Commits the superblock as it is now, and leaves it in the log. */
static void commit_super(struct image_env *env)
{
	struct ext4_super_block *es;
	struct handle h;

	assert_int_equal(fs_handle_start(env->fs, 1, 0, &h), 0);
	assert_int_equal(super_change_begin(&h, env->fs, &es), 0);
	assert_int_equal(super_change_end(&h, env->fs), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(journal_force_commit(env->fs->journal), 0);
}

static void expect_marks(const struct ext4_super_block *es, const struct ext4_super_block *marked)
{
	assert_true(le16_get(es->s_state) & EXT4_STATE_ERROR_FS);
	assert_memory_equal(&es->s_error_count, &marked->s_error_count,
			    offsetof(struct ext4_super_block, s_mount_opts) - offsetof(struct ext4_super_block, s_error_count));
	assert_int_equal(es->s_first_error_errcode, marked->s_first_error_errcode);
	assert_int_equal(es->s_last_error_errcode, marked->s_last_error_errcode);
}

/*
 * A superblock without errors is in the log, and one with an error in its own place, where who could not commit any more has
 * put it. The image as it is then is *copy_out, the caller's to free.
 */
static void make_marked_image(struct image_env *env, struct ext4_super_block *marked_out, uint8_t **copy_out)
{
	struct ext4_super_block *es;
	uint8_t *copy;

	image_create(env, "-t ext4 -b 1024", 16);
	commit_super(env);
	copy = image_copy(env);
	image_unmount(env);
	memcpy(env->bytes, copy, env->size_bytes);
	es = super_on_device(env);
	assert_true(le32_get(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_RECOVER);
	es->s_state = le16_make(le16_get(es->s_state) | EXT4_STATE_ERROR_FS);
	es->s_error_count = le32_make(3);
	es->s_first_error_ino = es->s_last_error_ino = le32_make(12);
	es->s_first_error_errcode = es->s_last_error_errcode = EXT4_ERRCODE_EFSBADCRC;
	super_csum_set(es);
	*marked_out = *es;
	memcpy(copy, env->bytes, env->size_bytes);
	*copy_out = copy;
}

/* Goal: what is recorded of an error in the superblock survives the replay of an older one, read-only and read-write. */
static void an_error_after_the_last_commit_survives_replay(void **state)
{
	struct ext4_super_block marked;
	struct image_env env;
	uint8_t *copy;

	skip_without_tools();
	make_marked_image(&env, &marked, &copy);
	image_memory_free(copy);
	for (int read_only = 1; read_only >= 0; read_only--) {
		env.opt.read_only = read_only;
		image_mount(&env);
		expect_marks(fs_super(env.fs), &marked);
		image_unmount(&env);
	}
	expect_marks(super_on_device(&env), &marked);
	image_destroy(&env);
}

/* ---- devices that fail ---- */

static bool grab_inode(struct inode *inode) { return true; }
static void drop_inode(struct inode *inode) { }
static const struct ext4_vfs_ops vfs_ops = { .inode_grab = grab_inode, .inode_drop = drop_inode };

static struct block_device *mount_on_fault_device(struct image_env *env)
{
	const struct log_sink quiet = { .func = NULL };
	struct block_device *memory, *fault;

	assert_int_equal(block_open_memory(env->size_bytes, env->bytes, &memory), 0);
	assert_int_equal(block_open_fault(memory, 1, &fault), 0);
	assert_int_equal(ext4_mount(fault, &env->opt, &quiet, "test", &vfs_ops, NULL, &env->fs), 0);
	env->root = image_load(env, EXT4_ROOT_INO);
	return fault;
}

/* Goal: so it does if the replay is cut off, at whatever write. */
static void marks_survive_a_cut_in_the_replay(void **state)
{
	const struct log_sink quiet = { .func = NULL };
	struct ext4_super_block marked;
	struct image_env env;
	uint8_t *copy;
	int err = -EIO;

	skip_without_tools();
	make_marked_image(&env, &marked, &copy);
	for (uint64_t nth = 1; err; nth++) {
		const struct fault_rule cut = { .ops = FAULT_OP(BIO_WRITE), .nth = nth, .err = -EIO };
		struct block_device *memory, *fault;

		memcpy(env.bytes, copy, env.size_bytes);
		assert_int_equal(block_open_memory(env.size_bytes, env.bytes, &memory), 0);
		assert_int_equal(block_open_fault(memory, 1, &fault), 0);
		assert_int_equal(fault_add_rule(fault, &cut), 0);
		err = ext4_mount(fault, &env.opt, &quiet, "test", &vfs_ops, NULL, &env.fs);
		assert_true(err || nth > 3); /* home, log, and the marks of the mount */
		if (!err)
			(void)ext4_unmount(env.fs); /* nothing more reaches the device */
		env.fs = NULL;
		image_mount(&env);
		expect_marks(fs_super(env.fs), &marked);
		image_unmount(&env);
	}
	image_memory_free(copy);
	image_destroy(&env);
}

static void a_failing_journal_makes_it_read_only_and_is_remembered(void **state)
{
	const struct fault_rule no_writes = { .ops = FAULT_OP(BIO_WRITE), .nth = 1, .err = -EIO };
	struct block_device *fault;
	struct image_env env;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 16);
	image_put(image_mkfile(env.root, "before"));
	image_unmount(&env);
	fault = mount_on_fault_device(&env);
	image_put(image_mkfile(env.root, "during"));
	assert_int_equal(fault_add_rule(fault, &no_writes), 0);
	assert_int_not_equal(ext4_sync(env.fs), 0);
	assert_true(fs_is_read_only(env.fs));
	assert_int_equal(image_create_node(env.root, "x", S_IFREG | 0644, NULL), -EROFS);
	fault_clear_rules(fault);
	image_put(env.root);
	assert_int_not_equal(ext4_unmount(env.fs), 0);
	env.fs = NULL;
	assert_true(le16_get(super_on_device(&env)->s_state) & EXT4_STATE_ERROR_FS);
	image_mount(&env);
	assert_int_not_equal(image_find(env.root, "before"), 0);
	assert_int_equal(image_find(env.root, "during"), 0);
	image_destroy(&env);
}

/* Its blocks hold what nobody may see, and writes to them fail. */
static struct fault_rule fail_extent(struct image_env *env, struct inode *inode)
{
	struct file_extent extent;
	uint32_t count;

	assert_int_equal(file_fiemap(inode, 0, INT64_MAX, true, &extent, 1, &count), 0);
	assert_int_equal(count, 1);
	memset(env->bytes + extent.physical_bytes, 0xEE, extent.len_bytes);
	return (struct fault_rule){ .ops = FAULT_OP(BIO_WRITE), .start_bytes = extent.physical_bytes, .len_bytes = extent.len_bytes,
				    .nth = 1, .err = -EIO };
}

/*
 * Goal:   a write into preallocated blocks that fails is told by fsync, and the range still reads as zeros after a remount.
 * Method: with the size moved by fallocate, and with it kept; then it may follow, since the loss was told (C4).
 */
static void a_failed_write_into_preallocated_blocks_leaves_zeros(void **state)
{
	const uint64_t len = 65536;

	skip_without_tools();
	for (int keep_size = 0; keep_size <= 1; keep_size++) {
		struct fault_rule rule;
		struct block_device *fault;
		struct image_env env;
		struct inode *inode;

		image_create(&env, "-t ext4 -b 1024", 16);
		image_unmount(&env);
		fault = mount_on_fault_device(&env);
		inode = image_mkfile(env.root, "file");
		assert_int_equal(file_fallocate(inode, keep_size ? FALLOC_FL_KEEP_SIZE : 0, 0, len), 0);
		assert_int_equal(file_fsync(inode, false), 0);
		rule = fail_extent(&env, inode);
		assert_int_equal(fault_add_rule(fault, &rule), 0);
		file_put_pattern(inode, 4096, 20000, 1);
		assert_int_equal(file_fsync(inode, false), -EIO);
		fault_clear_rules(fault);
		inode_evict(inode);
		inode_free(inode);
		image_put(env.root);
		ext4_unmount(env.fs);
		image_mount(&env);
		inode = image_lookup(&env, env.root, "file");
		assert_in_range(inode_size(inode), keep_size ? 0 : len, keep_size ? 24096 : len);
		assert_zeros(inode, 0, inode_size(inode));
		file_put_pattern(inode, 4096, 20000, 2);
		assert_zeros(inode, 0, 4096);
		assert_pattern(inode, 4096, 20000, 2);
		image_put(inode);
		image_check(&env);
		image_destroy(&env);
	}
}

/* Every write in turn fails: whatever the error, nothing crashes, and the image recovers to a sound one. */
static void each_failing_write_leaves_a_sound_image(void **state)
{
	struct image_env env;
	uint8_t *sound;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 16);
	image_unmount(&env);
	sound = image_copy(&env);
	for (uint64_t nth = 1; nth <= 12; nth++) {
		const struct fault_rule rule = { .ops = FAULT_OP(BIO_WRITE), .nth = nth, .count = 1, .err = -EIO };
		struct block_device *fault = mount_on_fault_device(&env);
		struct inode *inode = NULL;

		assert_int_equal(fault_add_rule(fault, &rule), 0);
		if (!image_create_node(env.root, "file", S_IFREG | 0644, &inode)) {
			ext4_sync(env.fs);
			rwsem_write_lock(&inode->rwsem);
			image_unlink(env.root, "file", inode);
			rwsem_write_unlock(&inode->rwsem);
			inode_evict(inode);
			inode_free(inode);
		}
		ext4_sync(env.fs);
		inode_evict(env.root);
		inode_free(env.root);
		ext4_unmount(env.fs);
		env.fs = NULL;
		image_mount(&env);
		env.errors = 0;
		image_unmount(&env);
		super_on_device(&env)->s_state = le16_make(EXT4_STATE_VALID_FS);
		super_csum_set(super_on_device(&env));
		image_mount(&env);
		image_check(&env);
		memcpy(env.bytes, sound, env.size_bytes);
	}
	image_memory_free(sound);
	image_destroy(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(corruption_is_counted_in_the_superblock),
		cmocka_unit_test(remount_ro_stops_all_changes),
		cmocka_unit_test(an_image_cannot_ask_to_end_the_program),
		cmocka_unit_test(an_error_after_the_last_commit_survives_replay),
		cmocka_unit_test(marks_survive_a_cut_in_the_replay),
		cmocka_unit_test(a_failed_write_into_preallocated_blocks_leaves_zeros),
		cmocka_unit_test(a_failing_journal_makes_it_read_only_and_is_remembered),
		cmocka_unit_test(each_failing_write_leaves_a_sound_image),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
