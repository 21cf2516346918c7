/* SPDX-License-Identifier: MIT */
/* test_namei.c - operations on names: link counts, "..", limits, failures; each image ends clean */
#include "image_env.h"

#include <sys/sysmacros.h>

#include "../base/rounds.h"
#include "ext4/dir_private.h"

static struct inode *reload(struct image_env *env, struct inode *inode)
{
	ino_num ino = inode->ino;

	image_put(inode);
	return image_load(env, ino);
}

static void a_rename_over_a_second_link_keeps_the_counts(void **state)
{
	struct image_env env;
	struct inode *a, *b;
	struct name other = image_name("b2");

	image_create(&env, "-t ext4", 16);
	a = image_mkfile(env.root, "a");
	b = image_mkfile(env.root, "b");
	assert_int_equal(namei_link(b, env.root, &other, true), 0);
	assert_int_equal(b->nlink, 2);
	assert_int_equal(image_rename(env.root, "a", a, env.root, "b", b, 0), 0);
	assert_int_equal(b->nlink, 1);
	assert_int_equal(image_find(env.root, "a"), 0);
	assert_int_equal(image_find(env.root, "b"), a->ino);
	assert_int_equal(image_find(env.root, "b2"), b->ino);
	/* Two names of one file: nothing happens. */
	assert_int_equal(namei_link(a, env.root, &(struct name){ "c", 1 }, true), 0);
	assert_int_equal(image_rename(env.root, "b", a, env.root, "c", a, 0), 0);
	assert_int_equal(image_find(env.root, "b"), a->ino);
	assert_int_equal(image_find(env.root, "c"), a->ino);
	assert_int_equal(a->nlink, 2);
	image_put(a);
	image_put(b);
	image_check(&env);
	image_destroy(&env);
}

static void an_indexed_directory_moves_with_its_parent_entry(void **state)
{
	struct image_env env;
	struct inode *from, *to, *d;
	char text[32];

	image_create(&env, "-t ext4 -b 1024", 16);
	from = image_mkdir(env.root, "from");
	to = image_mkdir(env.root, "to");
	d = image_mkdir(from, "d");
	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), "file-%04d", i);
		assert_int_equal(image_create_node(d, text, S_IFREG | 0644, NULL), 0);
	}
	assert_true(d->flags & EXT4_INDEX_FL);
	assert_int_equal(image_rename(from, "d", d, to, "e", NULL, 0), 0);
	assert_int_equal(image_find(d, ".."), to->ino);
	assert_int_equal(from->nlink, 2);
	assert_int_equal(to->nlink, 3);
	image_put(d);
	image_put(from);
	image_put(to);
	image_recheck(&env);
	to = image_lookup(&env, env.root, "to");
	d = image_lookup(&env, to, "e");
	assert_int_equal(image_find(d, ".."), to->ino);
	assert_int_not_equal(image_find(d, "file-0123"), 0);
	image_put(d);
	image_put(to);
	image_destroy(&env);
}

static void a_whiteout_takes_the_place_of_what_moved(void **state)
{
	struct image_env env;
	struct inode *a, *w;

	image_create(&env, "-t ext4", 16);
	a = image_mkfile(env.root, "a");
	assert_int_equal(image_rename(env.root, "a", a, env.root, "b", NULL, RENAME_FLAG_WHITEOUT), 0);
	assert_int_equal(image_find(env.root, "b"), a->ino);
	w = image_lookup(&env, env.root, "a");
	assert_true(S_ISCHR(w->mode));
	assert_int_equal(w->rdev, makedev(0, 0));
	assert_int_equal(w->nlink, 1);
	image_put(w);
	image_put(a);
	image_check(&env);
	image_destroy(&env);
}

/* ---- a random walk against a model ---- */

#define DIRS 4
#define NAMES 12

struct walk {
	struct image_env env;
	struct inode *dir[DIRS];
	struct inode *at[DIRS][NAMES]; /* NULL: no such name; one inode may be at several places */
	uint64_t random;
};

static uint32_t walk_random(struct walk *w, uint32_t below)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(w->random >> 33) % below;
}

static void slot_text(uint32_t n, char text[16])
{
	snprintf(text, 16, "n%u", n);
}

static uint32_t walk_links(struct walk *w, const struct inode *inode)
{
	uint32_t links = 0;

	for (int d = 0; d < DIRS; d++)
		for (int n = 0; n < NAMES; n++)
			links += w->at[d][n] == inode;
	return links;
}

static void walk_forget(struct walk *w, struct inode *inode)
{
	if (inode && !walk_links(w, inode))
		image_put(inode); /* frees it on disk */
}

static void walk_verify(struct walk *w)
{
	char text[16];

	for (int d = 0; d < DIRS; d++) {
		uint32_t subdirs = 0;

		for (uint32_t n = 0; n < NAMES; n++) {
			struct inode *inode = w->at[d][n];

			slot_text(n, text);
			assert_int_equal(image_find(w->dir[d], text), inode ? inode->ino : 0);
			if (!inode)
				continue;
			subdirs += inode_is_dir(inode);
			assert_int_equal(inode->nlink, inode_is_dir(inode) ? 2 : walk_links(w, inode));
			if (inode_is_dir(inode))
				assert_int_equal(image_find(inode, ".."), w->dir[d]->ino);
		}
		assert_int_equal(w->dir[d]->nlink, 2 + subdirs);
	}
}

static void walk_create(struct walk *w, uint32_t d, uint32_t n, const char *text)
{
	static const uint16_t modes[] = { S_IFREG | 0644, S_IFREG | 0644, S_IFDIR | 0755, S_IFIFO | 0600 };

	if (!w->at[d][n])
		assert_int_equal(image_create_node(w->dir[d], text, modes[walk_random(w, 4)], &w->at[d][n]), 0);
}

static void walk_remove(struct walk *w, uint32_t d, uint32_t n, const char *text)
{
	struct inode *victim = w->at[d][n];

	if (!victim)
		return;
	if (inode_is_dir(victim))
		assert_int_equal(image_rmdir(w->dir[d], text, victim), 0);
	else
		assert_int_equal(image_unlink(w->dir[d], text, victim), 0);
	w->at[d][n] = NULL;
	walk_forget(w, victim);
}

static void walk_link(struct walk *w, uint32_t d, uint32_t n, uint32_t d2, uint32_t n2, const char *text2)
{
	struct name name = image_name(text2);

	if (!w->at[d][n] || inode_is_dir(w->at[d][n]) || w->at[d2][n2])
		return;
	assert_int_equal(namei_link(w->at[d][n], w->dir[d2], &name, true), 0);
	w->at[d2][n2] = w->at[d][n];
}

/* What Linux would say before it changes anything; 0 if it goes on. */
static int walk_rename_errno(const struct inode *a, const struct inode *b, unsigned flags)
{
	if ((flags & RENAME_FLAG_EXCHANGE) && !b)
		return -ENOENT;
	if ((flags & RENAME_FLAG_NOREPLACE) && b)
		return -EEXIST;
	if (!b || a == b || (flags & RENAME_FLAG_EXCHANGE))
		return 0;
	if (inode_is_dir(a) != inode_is_dir(b))
		return inode_is_dir(a) ? -ENOTDIR : -EISDIR;
	return 0;
}

static void walk_rename(struct walk *w, uint32_t d, uint32_t n, const char *text, uint32_t d2, uint32_t n2,
			const char *text2)
{
	static const unsigned all_flags[] = { 0, 0, 0, RENAME_FLAG_NOREPLACE, RENAME_FLAG_EXCHANGE };
	unsigned flags = all_flags[walk_random(w, 5)];
	struct inode *a = w->at[d][n], *b = w->at[d2][n2];
	int err;

	if (!a)
		return;
	err = image_rename(w->dir[d], text, a, w->dir[d2], text2, b, flags);
	assert_int_equal(err, walk_rename_errno(a, b, flags));
	if (err || a == b)
		return;
	w->at[d2][n2] = a;
	w->at[d][n] = flags & RENAME_FLAG_EXCHANGE ? b : NULL;
	if (!(flags & RENAME_FLAG_EXCHANGE))
		walk_forget(w, b);
}

static void walk_step(struct walk *w)
{
	uint32_t d = walk_random(w, DIRS), n = walk_random(w, NAMES), d2 = walk_random(w, DIRS), n2 = walk_random(w, NAMES);
	char text[16], text2[16];

	slot_text(n, text);
	slot_text(n2, text2);
	switch (walk_random(w, 8)) {
	case 0 ... 2:
		walk_create(w, d, n, text);
		break;
	case 3:
		walk_remove(w, d, n, text);
		break;
	case 4:
		walk_link(w, d, n, d2, n2, text2);
		break;
	default:
		walk_rename(w, d, n, text, d2, n2, text2);
	}
}

static void walk_open(struct walk *w)
{
	char text[16];

	for (int d = 0; d < DIRS; d++) {
		snprintf(text, sizeof(text), "dir%d", d);
		w->dir[d] = image_find(w->env.root, text) ? image_lookup(&w->env, w->env.root, text)
							  : image_mkdir(w->env.root, text);
	}
}

static void walk_close(struct walk *w)
{
	for (int d = 0; d < DIRS; d++) {
		for (int n = 0; n < NAMES; n++) {
			struct inode *inode = w->at[d][n];

			if (!inode)
				continue;
			w->at[d][n] = NULL;
			if (!walk_links(w, inode))
				image_put(inode);
		}
		image_put(w->dir[d]);
	}
}

static void random_names_agree_with_a_model(void **state)
{
	static const char *const kinds[] = { "-t ext4 -b 1024", "-t ext2 -O ^dir_index", "-t ext4 -b 4096 -O orphan_file" };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct walk w = { .random = k + 1 };

		image_create(&w.env, kinds[k], 16);
		walk_open(&w);
		for (int step = 0; step < 5000; step++) {
			walk_step(&w);
			if (step % 50 == 0)
				walk_verify(&w);
		}
		walk_verify(&w);
		walk_close(&w);
		image_check(&w.env);
		image_destroy(&w.env);
	}
}

/* ---- limits ---- */

static void many_subdirectories(bool dir_nlink)
{
	struct image_env env;
	struct inode *d, *sub;
	char text[32];
	uint32_t made = 0, want = dir_nlink ? 65100 : EXT4_LINK_MAX - 2;
	int err = 0;

	if (!SERIAL_LIMITS)
		skip();
	image_create(&env, dir_nlink ? "-t ext4 -b 1024 -I 128 -N 66000" : "-t ext4 -b 1024 -I 128 -N 66000 -O ^dir_nlink", 160);
	d = image_mkdir(env.root, "d");
	while (made < want) {
		snprintf(text, sizeof(text), "sub%u", made);
		err = image_create_node(d, text, S_IFDIR | 0755, NULL);
		assert_int_equal(err, 0);
		made++;
	}
	assert_int_equal(d->nlink, dir_nlink ? 1 : EXT4_LINK_MAX);
	if (!dir_nlink)
		assert_int_equal(image_create_node(d, "one-more", S_IFDIR | 0755, NULL), -EMLINK);
	d = reload(&env, d);
	sub = image_lookup(&env, d, "sub0");
	assert_int_equal(image_rmdir(d, "sub0", sub), 0);
	image_put(sub);
	assert_int_equal(d->nlink, dir_nlink ? 1 : EXT4_LINK_MAX - 1);
	image_put(d);
	image_check(&env);
	image_destroy(&env);
}

static void subdirectories_past_65000_make_the_count_1(void **state)
{
	many_subdirectories(true);
}

static void subdirectories_past_65000_are_emlink_without_dir_nlink(void **state)
{
	many_subdirectories(false);
}

static void a_file_has_65000_links_and_no_more(void **state)
{
	struct image_env env;
	struct inode *file, *d;
	char text[32];

	if (!SERIAL_LIMITS)
		skip();
	image_create(&env, "-t ext4", 64);
	d = image_mkdir(env.root, "d");
	file = image_mkfile(d, "f");
	for (uint32_t i = 1; i < EXT4_LINK_MAX; i++) {
		struct name name;

		snprintf(text, sizeof(text), "link%u", i);
		name = image_name(text);
		assert_int_equal(namei_link(file, d, &name, true), 0);
	}
	assert_int_equal(namei_link(file, d, &(struct name){ "more", 4 }, true), -EMLINK);
	assert_int_equal(image_find(d, "more"), 0);
	assert_int_equal(file->nlink, EXT4_LINK_MAX);
	image_put(file);
	image_put(d);
	image_check(&env);
	image_destroy(&env);
}

static int make_symlink(struct image_env *env, const char *text, const char *target, size_t len)
{
	const struct create_args args = { .mode = S_IFLNK | 0777, .symlink_target = target, .symlink_len = len };
	struct inode *inode = inode_alloc(env->fs);
	struct name name = image_name(text);
	int err = namei_create(env->root, &name, &args, inode);

	if (err)
		inode_free(inode);
	else
		image_put(inode);
	return err;
}

static void symlinks_of_every_length(void **state)
{
	static const size_t lens[] = { 1, 58, 59, 60, 61, 255, 4094, 4095 };
	struct image_env env;
	char target[4097], text[16];

	image_create(&env, "-t ext4 -b 4096", 16);
	memset(target, 't', sizeof(target));
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct inode *link;

		snprintf(text, sizeof(text), "l%zu", lens[i]);
		assert_int_equal(make_symlink(&env, text, target, lens[i]), 0);
		link = image_lookup(&env, env.root, text);
		assert_int_equal(inode_size(link), lens[i]);
		assert_int_equal(inode_is_fast_symlink(link), lens[i] < 60);
		image_put(link);
	}
	assert_int_equal(make_symlink(&env, "long", target, 4096), -ENAMETOOLONG);
	image_check(&env);
	image_destroy(&env);
}

/* Fills what is there with names, nodes of all kinds in turn; every failure leaves the image clean. */
static void a_full_image_fails_one_operation_at_a_time(void **state)
{
	static const char *const kinds[] = { "-t ext4 -b 1024 -I 128 -N 60000", "-t ext4 -b 4096 -N 64", "-t ext2 -b 1024 -I 128 -N 60000" };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct image_env env;
		struct inode *d;
		uint32_t failed = 0, made = 0;
		char text[256];

		image_create(&env, kinds[k], k == 1 ? 8 : 24);
		d = image_mkdir(env.root, "d");
		for (uint32_t i = 0; failed < 50; i++) {
			uint16_t mode = i % 3 == 0 ? S_IFDIR | 0755 : S_IFREG | 0644;
			int err;

			snprintf(text, sizeof(text), "%.*s%u", (int)(i % 200), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", i);
			err = image_create_node(d, text, mode, NULL);
			assert_true(err == 0 || err == -ENOSPC);
			failed += err != 0;
			made += err == 0;
			assert_int_equal(image_find(d, text) != 0, err == 0);
		}
		assert_true(made > 10);
		image_put(d);
		image_recheck(&env);
		image_destroy(&env);
	}
}

static void a_journal_of_1024_blocks_is_enough(void **state)
{
	struct image_env env;
	struct inode *d, *d2;
	char text[32];

	image_create(&env, "-t ext4 -b 1024 -J size=1", 32);
	d = image_mkdir(env.root, "d");
	d2 = image_mkdir(env.root, "d2");
	for (int i = 0; i < 4000; i++) {
		struct inode *file;

		snprintf(text, sizeof(text), "a-rather-long-name-%d", i);
		file = image_mkfile(d, text);
		if (i % 2)
			assert_int_equal(image_rename(d, text, file, d2, text, NULL, 0), 0);
		image_put(file);
	}
	image_put(d);
	image_put(d2);
	image_check(&env);
	image_destroy(&env);
}

/* ---- attributes ---- */

static void a_setgid_directory_hands_its_group_down(void **state)
{
	struct image_env env;
	struct inode *d, *sub, *file;
	struct setattr_args args = { .valid = SETATTR_MODE | SETATTR_GID, .mode = 02775, .gid = 77 };

	image_create(&env, "-t ext4", 16);
	d = image_mkdir(env.root, "d");
	assert_int_equal(namei_setattr(d, &args), 0);
	sub = image_mkdir(d, "sub");
	assert_int_equal(sub->gid, 77);
	assert_true(sub->mode & S_ISGID);
	assert_int_equal(image_create_node(d, "f", S_IFREG | 02755, &file), 0);
	assert_int_equal(file->gid, 77);
	assert_false(file->mode & S_ISGID);
	image_put(file);
	image_put(sub);
	image_put(d);
	image_check(&env);
	image_destroy(&env);
}

static void attributes_are_kept_and_flags_checked(void **state)
{
	struct image_env env;
	struct inode *f;
	struct setattr_args args = {
		.valid = SETATTR_MODE | SETATTR_UID | SETATTR_GID | SETATTR_ATIME | SETATTR_MTIME | SETATTR_FLAGS | SETATTR_PROJID,
		.mode = 04711, .uid = 100000, .gid = 200000, .projid = 5,
		.atime = { .tv_sec = -2147483648LL, .tv_nsec = 5 }, .mtime = { .tv_sec = 15032385535LL, .tv_nsec = 999999999 },
	};

	image_create(&env, "-t ext4 -I 256 -O project", 16);
	f = image_mkfile(env.root, "f");
	args.flags = f->flags | EXT4_NODUMP_FL | EXT4_NOATIME_FL;
	assert_int_equal(namei_setattr(f, &args), 0);
	f = reload(&env, f);
	assert_int_equal(f->mode, S_IFREG | 04711);
	assert_int_equal(f->uid, 100000);
	assert_int_equal(f->gid, 200000);
	assert_int_equal(f->projid, 5);
	assert_true(f->atime.tv_sec == -2147483648LL && f->atime.tv_nsec == 5);
	assert_true(f->mtime.tv_sec == 15032385535LL && f->mtime.tv_nsec == 999999999);
	assert_int_equal(f->flags, args.flags);
	args.valid = SETATTR_FLAGS;
	args.flags = f->flags & ~EXT4_EXTENTS_FL;
	assert_int_equal(namei_setattr(f, &args), -EOPNOTSUPP);
	args.flags = f->flags | EXT4_DIRSYNC_FL;
	assert_int_equal(namei_setattr(f, &args), -EOPNOTSUPP);
	image_put(f);
	image_unmount(&env);
	image_destroy(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rename_over_a_second_link_keeps_the_counts),
		cmocka_unit_test(an_indexed_directory_moves_with_its_parent_entry),
		cmocka_unit_test(a_whiteout_takes_the_place_of_what_moved),
		cmocka_unit_test(random_names_agree_with_a_model),
		cmocka_unit_test(subdirectories_past_65000_make_the_count_1),
		cmocka_unit_test(subdirectories_past_65000_are_emlink_without_dir_nlink),
		cmocka_unit_test(a_file_has_65000_links_and_no_more),
		cmocka_unit_test(symlinks_of_every_length),
		cmocka_unit_test(a_full_image_fails_one_operation_at_a_time),
		cmocka_unit_test(a_journal_of_1024_blocks_is_enough),
		cmocka_unit_test(a_setgid_directory_hands_its_group_down),
		cmocka_unit_test(attributes_are_kept_and_flags_checked),
	};

	if (!image_tools_exist()) {
		fprintf(stderr, "SKIPPED ext4/namei: no mke2fs or e2fsck\n");
		return 77;
	}
	return cmocka_run_group_tests_name("ext4/namei", tests, NULL, NULL);
}
