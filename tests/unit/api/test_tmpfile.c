/* SPDX-License-Identifier: MIT */
/* test_tmpfile.c - files without a name: O_TMPFILE and the node call, naming them, what a crash leaves */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include "image.h"

#define ROOT UEXT4_ROOT_INO
#define TMP_RDWR (O_TMPFILE | O_RDWR)

static struct image img;

static void start(const char *mke2fs_options, bool check_permissions)
{
	image_make(&img, mke2fs_options, 32);
	image_open(&img, NULL, check_permissions);
}

static void stop(void)
{
	image_check(&img);
	image_remove(&img);
}

static struct uext4_file *open_file(const char *path, int flags)
{
	struct uext4_file *file;

	assert_int_equal(uext4_open(img.fs, NULL, path, flags, 0640, &file), 0);
	return file;
}

static int try_open(const struct uext4_cred *cred, const char *path, int flags)
{
	struct uext4_file *file;
	int err = uext4_open(img.fs, cred, path, flags, 0640, &file);

	return err ? err : uext4_close(file);
}

static uint64_t inodes_free(void)
{
	struct uext4_statfs sf;

	assert_int_equal(uext4_statfs(img.fs, &sf), 0);
	return sf.inodes_free;
}

/* Inodes that will be given back unless they get a name. */
static uint64_t inodes_nameless(void)
{
	struct uext4_statfs sf;

	assert_int_equal(uext4_statfs(img.fs, &sf), 0);
	return sf.inodes_orphaned;
}

static struct uext4_attr attr_of(const char *path)
{
	struct uext4_attr attr;

	assert_int_equal(uext4_lstat(img.fs, NULL, path, &attr), 0);
	return attr;
}

static void expect_text(const char *path, const char *text)
{
	struct uext4_file *file = open_file(path, O_RDONLY);
	char buf[64] = "";

	assert_int_equal(uext4_read(file, buf, sizeof(buf)), strlen(text));
	assert_string_equal(buf, text);
	assert_int_equal(uext4_close(file), 0);
}

static void flags_and_paths_are_checked_as_in_linux(void **state)
{
	start("-t ext4", false);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "dir", 0755), 0);
	assert_int_equal(uext4_mknod(img.fs, NULL, "file", 0644, 0), 0);
	assert_int_equal(uext4_symlink(img.fs, NULL, "dir", "link"), 0);
	assert_int_equal(try_open(NULL, "dir", O_TMPFILE | O_RDONLY), -EINVAL);
	assert_int_equal(try_open(NULL, "dir", O_TMPFILE | O_RDONLY | O_TRUNC), -EINVAL);
	assert_int_equal(try_open(NULL, "dir", TMP_RDWR | O_CREAT), -EINVAL);
	assert_int_equal(try_open(NULL, "dir", (TMP_RDWR) & ~O_DIRECTORY), -EINVAL);
	assert_int_equal(try_open(NULL, "file", TMP_RDWR), -ENOTDIR);
	assert_int_equal(try_open(NULL, "none", TMP_RDWR), -ENOENT);
	assert_int_equal(try_open(NULL, "link", TMP_RDWR | O_NOFOLLOW), -ENOTDIR);
	assert_int_equal(try_open(NULL, "link", O_TMPFILE | O_WRONLY), 0);
	assert_int_equal(try_open(NULL, "dir/", TMP_RDWR | O_TRUNC), 0);
	stop();
}

/* Until it has a name it takes an inode, and gives it back when it is closed. */
static void open_file_gets_a_name(void **state)
{
	static const char *const kinds[] = { "-t ext4", "-t ext4 -O orphan_file", "-t ext4 -O ^has_journal", "-t ext2" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct uext4_file *file, *other;
		struct uext4_attr attr;
		uint64_t before;

		start(kinds[i], false);
		before = inodes_free();
		file = open_file("/", TMP_RDWR);
		other = open_file("/", TMP_RDWR);
		assert_int_equal(uext4_write(file, "text", 4), 4);
		assert_int_equal(uext4_fstat(file, &attr), 0);
		assert_int_equal(attr.mode, S_IFREG | 0640);
		assert_int_equal(attr.nlink, 0);
		assert_int_equal(inodes_free(), before - 2);
		assert_int_equal(inodes_nameless(), 2);
		assert_int_equal(uext4_link_file(file, NULL, "none/a"), -ENOENT);
		assert_int_equal(uext4_link_file(file, NULL, "lost+found"), -EEXIST);
		assert_int_equal(uext4_link_file(file, NULL, "a"), 0);
		assert_int_equal(inodes_nameless(), 1);
		assert_int_equal(uext4_link_file(file, NULL, "b"), 0);
		assert_int_equal(uext4_close(other), 0);
		assert_int_equal(inodes_free(), before - 1);
		assert_int_equal(inodes_nameless(), 0);
		assert_int_equal(uext4_close(file), 0);
		image_reopen(&img);
		expect_text("a", "text");
		assert_int_equal(attr_of("b").nlink, 2);
		stop();
	}
}

static void only_the_first_name_comes_from_nowhere(void **state)
{
	struct uext4_file *file;

	start("-t ext4", false);
	file = open_file("/", TMP_RDWR | O_EXCL);
	assert_int_equal(uext4_link_file(file, NULL, "a"), -ENOENT);
	assert_int_equal(uext4_close(file), 0);
	file = open_file("/", TMP_RDWR);
	assert_int_equal(uext4_link_file(file, NULL, "a"), 0);
	assert_int_equal(uext4_unlink(img.fs, NULL, "a"), 0);
	assert_int_equal(uext4_link_file(file, NULL, "a"), -ENOENT);
	assert_int_equal(uext4_close(file), 0);
	file = open_file("f", O_RDWR | O_CREAT);
	assert_int_equal(uext4_unlink(img.fs, NULL, "f"), 0);
	assert_int_equal(uext4_link_file(file, NULL, "g"), -ENOENT);
	assert_int_equal(uext4_close(file), 0);
	stop();
}

static void node_without_a_name_lives_by_its_lookups(void **state)
{
	struct uext4_entry entry, named;
	uint64_t before;

	start("-t ext4", false);
	before = inodes_free();
	assert_int_equal(uext4_node_tmpfile(img.fs, NULL, ROOT, 0600, &entry), 0);
	assert_int_equal(entry.attr.mode, S_IFREG | 0600);
	assert_int_equal(entry.attr.nlink, 0);
	assert_int_equal(uext4_node_getattr(img.fs, entry.ino, &entry.attr), 0);
	uext4_node_forget(img.fs, entry.ino, 1);
	assert_int_equal(uext4_node_getattr(img.fs, entry.ino, &entry.attr), -ESTALE);
	assert_int_equal(inodes_free(), before);
	assert_int_equal(uext4_node_tmpfile(img.fs, NULL, ROOT, 0600, &entry), 0);
	assert_int_equal(uext4_node_tmpfile(img.fs, NULL, entry.ino, 0600, &named), -ENOTDIR);
	assert_int_equal(uext4_node_link(img.fs, NULL, entry.ino, ROOT, "a", &named), 0);
	assert_int_equal(named.ino, entry.ino);
	assert_int_equal(named.attr.nlink, 1);
	uext4_node_forget(img.fs, entry.ino, 2);
	assert_int_equal(attr_of("a").ino, entry.ino);
	stop();
}

/* Whose name is gone while somebody still has it open. */
static void removed_directory_takes_no_file(void **state)
{
	struct uext4_entry dir, entry;

	start("-t ext4", false);
	assert_int_equal(uext4_node_mkdir(img.fs, NULL, ROOT, "dir", 0755, &dir), 0);
	assert_int_equal(uext4_node_rmdir(img.fs, NULL, ROOT, "dir"), 0);
	assert_int_equal(uext4_node_tmpfile(img.fs, NULL, dir.ino, 0600, &entry), -EPERM);
	uext4_node_forget(img.fs, dir.ino, 1);
	stop();
}

static void owner_and_mode_are_those_of_a_create(void **state)
{
	struct uext4_cred user = { .uid = 1000, .gid = 1000, .umask = 027 };
	struct uext4_file *file;
	struct uext4_attr attr;

	start("-t ext4", true);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "dir", 0755), 0);
	assert_int_equal(try_open(&user, "dir", TMP_RDWR), -EACCES);
	attr.mode = 02777;
	attr.gid = 4321;
	assert_int_equal(uext4_setattr(img.fs, NULL, "dir", true, &attr, UEXT4_SET_GID), 0);
	assert_int_equal(uext4_setattr(img.fs, NULL, "dir", true, &attr, UEXT4_SET_MODE), 0);
	assert_int_equal(uext4_open(img.fs, &user, "dir", TMP_RDWR, 02777, &file), 0);
	assert_int_equal(uext4_fstat(file, &attr), 0);
	assert_int_equal(attr.uid, 1000);
	assert_int_equal(attr.gid, 4321);
	assert_int_equal(attr.mode, S_IFREG | 0750);
	assert_int_equal(uext4_link_file(file, &user, "a"), -EACCES);
	assert_int_equal(uext4_link_file(file, &user, "dir/a"), 0);
	assert_int_equal(uext4_close(file), 0);
	stop();
}

static void project_comes_from_the_directory(void **state)
{
	struct uext4_attr attr = { .projid = 77, .flags = FS_PROJINHERIT_FL | FS_EXTENT_FL };
	struct uext4_file *file;

	start("-t ext4 -I 256 -O project", false);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "p", 0755), 0);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "q", 0755), 0);
	assert_int_equal(uext4_setattr(img.fs, NULL, "p", true, &attr, UEXT4_SET_PROJID | UEXT4_SET_FLAGS), 0);
	attr.projid = 78;
	assert_int_equal(uext4_setattr(img.fs, NULL, "q", true, &attr, UEXT4_SET_PROJID | UEXT4_SET_FLAGS), 0);
	file = open_file("p", TMP_RDWR);
	assert_int_equal(uext4_link_file(file, NULL, "q/a"), -EXDEV);
	assert_int_equal(uext4_link_file(file, NULL, "p/a"), 0);
	assert_int_equal(uext4_close(file), 0);
	assert_int_equal(attr_of("p/a").projid, 77);
	stop();
}

static void read_only_file_system_has_none(void **state)
{
	image_make(&img, "-t ext4", 32);
	image_open(&img, "ro", false);
	assert_int_equal(try_open(NULL, "/", TMP_RDWR), -EROFS);
	stop();
}

/*
 * Goal:   a crash gives back a file that never got a name, and keeps one that did.
 * Method: a copy of the image, synced while both are open, is opened: it has what the image had before, and the name.
 */
static void crash_gives_back_what_has_no_name(void **state)
{
	static const char *const kinds[] = { "-t ext4 -b 1024", "-t ext4 -b 1024 -O orphan_file", "-t ext3" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct uext4_file *files[3];
		uint64_t before;

		start(kinds[i], false);
		before = inodes_free();
		for (int f = 0; f < 3; f++) {
			files[f] = open_file("/", TMP_RDWR);
			assert_int_equal(uext4_write(files[f], "text", 4), 4);
		}
		assert_int_equal(uext4_link_file(files[1], NULL, "a"), 0);
		assert_int_equal(uext4_sync(img.fs), 0);
		assert_int_equal(image_run(&img, "cp @ @.crashed"), 0);
		for (int f = 0; f < 3; f++)
			assert_int_equal(uext4_close(files[f]), 0);
		image_check(&img);
		assert_int_equal(image_run(&img, "mv @.crashed @"), 0);
		image_open(&img, NULL, false);
		assert_int_equal(inodes_free(), before - 1);
		expect_text("a", "text");
		assert_int_equal(attr_of("a").nlink, 1);
		stop();
	}
}

#define THREADS 4
#define ROUNDS  200

static void *make_and_name(void *arg)
{
	int me = *(int *)arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct uext4_file *file = open_file("/", TMP_RDWR);
		char name[32];

		snprintf(name, sizeof(name), "f%d-%d", me, i);
		assert_int_equal(uext4_write(file, name, strlen(name)), strlen(name));
		if (i % 2)
			assert_int_equal(uext4_link_file(file, NULL, name), 0);
		assert_int_equal(uext4_close(file), 0);
	}
	return NULL;
}

static void threads_share_a_directory(void **state)
{
	static const char *const kinds[] = { "-t ext4", "-t ext4 -O orphan_file" };

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		pthread_t threads[THREADS];
		int numbers[THREADS];
		uint64_t before;

		start(kinds[k], false);
		before = inodes_free();
		for (int i = 0; i < THREADS; i++) {
			numbers[i] = i;
			assert_int_equal(pthread_create(&threads[i], NULL, make_and_name, &numbers[i]), 0);
		}
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(inodes_free(), before - THREADS * ROUNDS / 2);
		expect_text("f3-199", "f3-199");
		stop();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_and_paths_are_checked_as_in_linux),
		cmocka_unit_test(open_file_gets_a_name),
		cmocka_unit_test(only_the_first_name_comes_from_nowhere),
		cmocka_unit_test(node_without_a_name_lives_by_its_lookups),
		cmocka_unit_test(removed_directory_takes_no_file),
		cmocka_unit_test(owner_and_mode_are_those_of_a_create),
		cmocka_unit_test(project_comes_from_the_directory),
		cmocka_unit_test(read_only_file_system_has_none),
		cmocka_unit_test(crash_gives_back_what_has_no_name),
		cmocka_unit_test(threads_share_a_directory),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
