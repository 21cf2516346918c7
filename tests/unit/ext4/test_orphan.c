/* SPDX-License-Identifier: MIT */
/* test_orphan.c - an inode that lost its last name is freed at the latest by the next mount */
#include <unistd.h>

#include "ext4/group.h"
#include "ext4/inode_private.h"
#include "ext4/orphan_private.h"
#include "ext4/super_format.h"
#include "image_env.h"

static void skip_without_tools(void)
{
	if (!image_tools_exist())
		skip();
}

/* Both ways to keep orphans, with and without checksums. */
static const char *const forms[] = {
	"-t ext4 -b 1024",
	"-t ext4 -b 1024 -O orphan_file",
	"-t ext4 -b 4096 -O orphan_file,^metadata_csum",
	"-t ext3 -b 1024 -I 128",
	"-t ext2 -b 1024",
};

static struct inode *make_and_unlink(struct image_env *env, const char *name)
{
	struct inode *inode = image_mkfile(env->root, name);

	rwsem_write_lock(&inode->rwsem);
	assert_int_equal(image_unlink(env->root, name, inode), 0);
	rwsem_write_unlock(&inode->rwsem);
	assert_true(inode_test(inode, INODE_ORPHAN));
	return inode;
}

static void orphans_of_a_crash_are_freed_at_the_next_mount(void **state)
{
	skip_without_tools();
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct inode *open_files[5];
		struct image_env env;
		uint64_t free_inodes;
		uint8_t *copy;
		char name[16];

		print_message("form: %s\n", forms[i]);
		image_create(&env, forms[i], 16);
		free_inodes = groups_free_inodes(env.fs);
		for (size_t n = 0; n < ARRAY_SIZE(open_files); n++) {
			snprintf(name, sizeof(name), "file%zu", n);
			open_files[n] = make_and_unlink(&env, name);
		}
		assert_int_equal(groups_free_inodes(env.fs), free_inodes - ARRAY_SIZE(open_files));
		/* One from the middle goes in time, the others with the crash. */
		image_put(open_files[2]);
		open_files[2] = NULL;
		assert_int_equal(ext4_sync(env.fs), 0);
		copy = image_copy(&env);
		for (size_t n = 0; n < ARRAY_SIZE(open_files); n++)
			if (open_files[n])
				image_put(open_files[n]);
		image_check(&env);
		image_memory_free(env.bytes);
		env.bytes = copy;
		image_mount(&env);
		assert_int_equal(groups_free_inodes(env.fs), free_inodes);
		assert_int_equal(le32_get(fs_super(env.fs)->s_last_orphan), 0);
		assert_true(list_empty(&env.fs->orphans->list));
		image_check(&env);
		image_destroy(&env);
	}
}

static void a_full_orphan_file_overflows_to_the_list(void **state)
{
	struct image_env env;
	struct inode *inode;
	uint32_t slots;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024 -O orphan_file", 16);
	slots = orphan_file_slots(env.fs->orphans);
	assert_true(slots > 0);
	for (uint32_t i = 0; i < env.fs->orphans->block_count; i++)
		atomic_store(&env.fs->orphans->blocks[i].free_slots, 0);
	inode = make_and_unlink(&env, "file");
	assert_int_equal(inode->orphan_slot, ORPHAN_SLOT_NONE);
	assert_int_equal(le32_get(fs_super(env.fs)->s_last_orphan), inode->ino);
	image_put(inode);
	assert_int_equal(le32_get(fs_super(env.fs)->s_last_orphan), 0);
	for (uint32_t i = 0; i < env.fs->orphans->block_count; i++)
		atomic_store(&env.fs->orphans->blocks[i].free_slots, env.fs->orphans->slots_per_block);
	image_check(&env);
	image_destroy(&env);
}

static void debugfs_write(struct image_env *env, const char *requests)
{
	char command[512];
	FILE *file;

	snprintf(command, sizeof(command), "printf '%s' | debugfs -w -f - %s >/dev/null 2>&1", requests, env->path);
	assert_int_equal(system(command), 0);
	file = fopen(env->path, "r");
	assert_non_null(file);
	assert_int_equal(fread(env->bytes, 1, env->size_bytes, file), env->size_bytes);
	fclose(file);
}

/* A file that was being cut to 3000 bytes: size is set, blocks past it are still there, and its tail is not zeroed. */
static void a_truncation_in_progress_is_finished(void **state)
{
	struct image_env env;
	char line[256];
	FILE *file;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024", 16);
	image_check(&env);
	file = fopen("/tmp/uext4-test-data", "w");
	assert_non_null(file);
	for (int i = 0; i < 20000; i++)
		fputc('A', file);
	fclose(file);
	debugfs_write(&env, "write /tmp/uext4-test-data cut\\nsif cut size 3000\\nssv last_orphan 12\\n");
	unlink("/tmp/uext4-test-data");
	image_debugfs(&env, "ncheck 12", line, sizeof(line));
	image_mount(&env);
	assert_int_equal(image_find(env.root, "cut"), 12);
	image_check(&env);
	image_debugfs(&env, "ex cut", line, sizeof(line));
	snprintf(line, sizeof(line), "debugfs -R 'dump cut %s.out' %s 2>/dev/null", env.path, env.path);
	assert_int_equal(system(line), 0);
	snprintf(line, sizeof(line), "%s.out", env.path);
	assert_int_equal(truncate(line, 4096), 0);
	file = fopen(line, "r");
	assert_non_null(file);
	assert_int_equal(fseek(file, 2999, SEEK_SET), 0);
	assert_int_equal(fgetc(file), 'A');
	assert_int_equal(fgetc(file), 0);
	fclose(file);
	unlink(line);
	image_destroy(&env);
}

static void bad_lists_are_cut_and_not_followed(void **state)
{
	static const char *const damage[] = {
		"ssv last_orphan 4000000\\n",           /* past the last inode */
		"ssv last_orphan 5\\n",                 /* reserved */
		"ssv last_orphan 900\\n",               /* free */
		"sif /lost+found dtime 11\\nssv last_orphan 11\\n", /* a cycle of one, in use */
	};

	skip_without_tools();
	for (size_t i = 0; i < ARRAY_SIZE(damage); i++) {
		struct image_env env;

		image_create(&env, "-t ext4 -b 1024", 16);
		image_check(&env);
		debugfs_write(&env, damage[i]);
		image_mount(&env);
		assert_int_equal(le32_get(fs_super(env.fs)->s_last_orphan), 0);
		env.errors = 0;
		image_destroy(&env);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(orphans_of_a_crash_are_freed_at_the_next_mount),
		cmocka_unit_test(a_full_orphan_file_overflows_to_the_list),
		cmocka_unit_test(a_truncation_in_progress_is_finished),
		cmocka_unit_test(bad_lists_are_cut_and_not_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
