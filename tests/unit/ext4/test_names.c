/* SPDX-License-Identifier: MIT */
/* test_names.c - many names on real images: what e2fsck and debugfs say of them */
#include "image_env.h"

#include "../base/rounds.h"
#include "ext4/dir_private.h"

static void name_text(uint32_t id, char text[256])
{
	snprintf(text, 256, "name-%07u-%.*s", id, (int)(id * 2654435761u >> 26), "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789-_");
}

static void add_names(struct image_env *env, const char *dir_name, uint32_t start, uint32_t end, uint32_t step)
{
	struct inode *dir = image_lookup(env, env->root, dir_name);
	char text[256];

	for (uint32_t id = start; id < end; id += step) {
		name_text(id, text);
		assert_int_equal(image_create_node(dir, text, S_IFREG | 0600, NULL), 0);
	}
	image_put(dir);
}

static void remove_names(struct image_env *env, const char *dir_name, uint32_t start, uint32_t end, uint32_t step)
{
	struct inode *dir = image_lookup(env, env->root, dir_name);
	char text[256];

	for (uint32_t id = start; id < end; id += step) {
		struct inode *victim;

		name_text(id, text);
		victim = image_lookup(env, dir, text);
		assert_int_equal(image_unlink(dir, text, victim), 0);
		image_put(victim);
	}
	image_put(dir);
}

static int count_cb(void *arg, const struct dir_entry_info *e)
{
	++*(uint32_t *)arg;
	return 0;
}

/* Each name in [start, end) that should be there is, and no other: lookups, and the number that a listing has. */
static void verify_names(struct image_env *env, const char *dir_name, uint32_t end, bool (*is_there)(uint32_t id))
{
	struct inode *dir = image_lookup(env, env->root, dir_name);
	uint32_t want = 2, listed = 0;
	char text[256];

	for (uint32_t id = 0; id < end; id++) {
		name_text(id, text);
		assert_int_equal(image_find(dir, text) != 0, is_there(id));
		want += is_there(id);
	}
	assert_int_equal(dir_iterate(dir, 0, count_cb, &listed), 0);
	assert_int_equal(listed, want);
	image_put(dir);
}

static bool all(uint32_t id) { return true; }
static bool not_thirds(uint32_t id) { return id % 3 != 0; }

static void fifty_thousand_names(const char *mke2fs_args, uint32_t names)
{
	struct image_env env;

	image_create(&env, mke2fs_args, 64);
	image_put(image_mkdir(env.root, "d"));
	for (uint32_t start = 0; start < names; start += 10000) {
		add_names(&env, "d", start, min_of(start + 10000, names), 1);
		image_recheck(&env);
	}
	verify_names(&env, "d", names, all);
	remove_names(&env, "d", 0, names, 3);
	image_recheck(&env);
	verify_names(&env, "d", names, not_thirds);
	add_names(&env, "d", 0, names, 3);
	image_recheck(&env);
	verify_names(&env, "d", names, all);
	remove_names(&env, "d", 0, names, 1);
	image_check(&env);
	image_destroy(&env);
}

static void fifty_thousand_names_in_every_block_size(void **state)
{
	fifty_thousand_names("-t ext4 -b 1024 -N 60000 -I 128 -O ^has_journal", SERIAL_ROUNDS(50000));
	fifty_thousand_names("-t ext4 -b 2048 -N 60000", SERIAL_ROUNDS(50000));
	fifty_thousand_names("-t ext4 -b 4096 -N 60000", SERIAL_ROUNDS(50000));
	fifty_thousand_names("-t ext2 -b 4096 -N 20000 -O ^dir_index", SERIAL_ROUNDS(6000));
	fifty_thousand_names("-t ext3 -b 1024 -N 20000", SERIAL_ROUNDS(12000));
}

/* 1 KiB blocks and long names fill the two levels that large_dir is not needed for. */
static void long_names_make_three_levels(void **state)
{
	struct image_env env;
	struct inode *d;
	char text[256];
	uint32_t id = 0;

	image_create(&env, "-t ext4 -b 1024 -I 128 -N 40000 -O large_dir", 64);
	d = image_mkdir(env.root, "d");
	do {
		struct dx_path path;

		assert_true(id < 39000);
		snprintf(text, sizeof(text), "%0250u", id++);
		assert_int_equal(image_create_node(d, text, S_IFREG | 0600, NULL), 0);
		if (!(d->flags & EXT4_INDEX_FL))
			continue;
		assert_int_equal(dx_path_open(d, &path), 0);
		dx_path_close(&path);
		if (path.depth == 3)
			break;
	} while (true);
	image_put(d);
	image_recheck(&env);
	d = image_lookup(&env, env.root, "d");
	while (id) {
		snprintf(text, sizeof(text), "%0250u", --id);
		assert_int_not_equal(image_find(d, text), 0);
	}
	image_put(d);
	image_destroy(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fifty_thousand_names_in_every_block_size),
		cmocka_unit_test(long_names_make_three_levels),
	};

	if (!image_tools_exist()) {
		fprintf(stderr, "SKIPPED ext4/names: no mke2fs or e2fsck\n");
		return 77;
	}
	return cmocka_run_group_tests_name("ext4/names", tests, NULL, NULL);
}
