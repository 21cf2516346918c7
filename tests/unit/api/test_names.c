/* SPDX-License-Identifier: MIT */
/* test_names.c - create, link, rename, remove: results, errors and link counts, then e2fsck */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "image.h"

static struct image img;

static int start(void **state)
{
	image_make(&img, "-t ext4 -b 1024", 32);
	image_open(&img, NULL, false);
	return 0;
}

static int stop(void **state)
{
	image_check(&img);
	image_remove(&img);
	return 0;
}

static void touch(const char *path)
{
	struct uext4_file *file;

	assert_int_equal(uext4_open(img.fs, NULL, path, O_WRONLY | O_CREAT | O_EXCL, 0644, &file), 0);
	assert_int_equal(uext4_close(file), 0);
}

static uint32_t nlink_of(const char *path)
{
	struct uext4_attr attr;

	assert_int_equal(uext4_lstat(img.fs, NULL, path, &attr), 0);
	return attr.nlink;
}

static uint64_t ino_of(const char *path)
{
	uext4_ino ino;

	assert_int_equal(uext4_resolve(img.fs, NULL, path, false, &ino), 0);
	return ino;
}

static bool exists(const char *path)
{
	struct uext4_attr attr;
	int err = uext4_lstat(img.fs, NULL, path, &attr);

	assert_true(err == 0 || err == -ENOENT);
	return err == 0;
}

static void making_and_removing(void **state)
{
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/d", 0755), 0);
	assert_int_equal(nlink_of("/"), 4); /* lost+found is there */
	assert_int_equal(nlink_of("/d"), 2);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/d", 0755), -EEXIST);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "d/e/f", 0755), -ENOENT);
	touch("/d/file");
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/d/file/x", 0755), -ENOTDIR);
	assert_int_equal(uext4_rmdir(img.fs, NULL, "/d"), -ENOTEMPTY);
	assert_int_equal(uext4_rmdir(img.fs, NULL, "/d/file"), -ENOTDIR);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/d"), -EISDIR);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/d/file/"), -ENOTDIR);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/d/file"), 0);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/d/file"), -ENOENT);
	assert_int_equal(uext4_rmdir(img.fs, NULL, "/d/."), -EINVAL);
	assert_int_equal(uext4_rmdir(img.fs, NULL, "/d/.."), -ENOTEMPTY);
	assert_int_equal(uext4_rmdir(img.fs, NULL, "/"), -EBUSY);
	assert_int_equal(uext4_rmdir(img.fs, NULL, "/d"), 0);
	assert_int_equal(nlink_of("/"), 3);
	assert_false(exists("/d"));
}

static void names_of_255_bytes_and_no_more(void **state)
{
	char path[300] = "/";

	memset(path + 1, 'n', 255);
	touch(path);
	assert_true(exists(path));
	path[256] = 'n';
	assert_int_equal(uext4_mkdir(img.fs, NULL, path, 0755), -ENAMETOOLONG);
}

static void numbers_reused_lead_to_the_new_file(void **state)
{
	for (int i = 0; i < 50; i++) {
		char path[32];
		struct uext4_attr attr;

		sprintf(path, "/f%d", i % 7);
		touch(path);
		assert_int_equal(uext4_stat(img.fs, NULL, path, &attr), 0);
		assert_int_equal(attr.size, 0);
		assert_int_equal(attr.nlink, 1);
		assert_int_equal(uext4_unlink(img.fs, NULL, path), 0);
		assert_false(exists(path));
	}
}

/* The dangerous case of a name cache keyed by number: a removed directory's number comes back. */
static void new_directory_with_an_old_number_is_empty(void **state)
{
	uint64_t first = 0;

	for (int i = 0; i < 20; i++) {
		assert_int_equal(uext4_mkdir(img.fs, NULL, "/dir", 0755), 0);
		if (!first)
			first = ino_of("/dir");
		assert_false(exists("/dir/a"));
		touch("/dir/a");
		assert_true(exists("/dir/a"));
		assert_int_equal(uext4_unlink(img.fs, NULL, "/dir/a"), 0);
		assert_int_equal(uext4_rmdir(img.fs, NULL, "/dir"), 0);
	}
}

static void hard_links(void **state)
{
	touch("/a");
	assert_int_equal(uext4_link(img.fs, NULL, "/a", "/b"), 0);
	assert_int_equal(ino_of("/a"), ino_of("/b"));
	assert_int_equal(nlink_of("/b"), 2);
	assert_int_equal(uext4_link(img.fs, NULL, "/a", "/b"), -EEXIST);
	assert_int_equal(uext4_link(img.fs, NULL, "/lost+found", "/c"), -EPERM);
	assert_int_equal(uext4_link(img.fs, NULL, "/a", "/c/"), -ENOENT);
	assert_int_equal(uext4_rename(img.fs, NULL, "/a", "/b", 0), 0); /* same file: both stay */
	assert_int_equal(nlink_of("/a"), 2);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/a"), 0);
	assert_int_equal(nlink_of("/b"), 1);
}

static void rename_over_a_name_with_a_second_link(void **state)
{
	touch("/old");
	touch("/new");
	assert_int_equal(uext4_link(img.fs, NULL, "/new", "/other"), 0);
	assert_int_equal(uext4_rename(img.fs, NULL, "/old", "/new", 0), 0);
	assert_int_equal(nlink_of("/other"), 1);
	assert_int_equal(nlink_of("/new"), 1);
	assert_false(exists("/old"));
}

static void rename_shapes(void **state)
{
	touch("/f");
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/d", 0755), 0);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/d/sub", 0755), 0);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/e", 0755), 0);
	assert_int_equal(uext4_rename(img.fs, NULL, "/d", "/d/sub/x", 0), -EINVAL);
	assert_int_equal(uext4_rename(img.fs, NULL, "/d", "/d/x", 0), -EINVAL);
	assert_int_equal(uext4_rename(img.fs, NULL, "/d/sub", "/d", 0), -ENOTEMPTY);
	assert_int_equal(uext4_rename(img.fs, NULL, "/e", "/d", 0), -ENOTEMPTY);
	assert_int_equal(uext4_rename(img.fs, NULL, "/f", "/d", 0), -EISDIR);
	assert_int_equal(uext4_rename(img.fs, NULL, "/d", "/f", 0), -ENOTDIR);
	assert_int_equal(uext4_rename(img.fs, NULL, "/f", "/g/", 0), -ENOTDIR);
	assert_int_equal(uext4_rename(img.fs, NULL, "/none", "/g", 0), -ENOENT);
	assert_int_equal(uext4_rename(img.fs, NULL, "/d/.", "/g", 0), -EBUSY);
	assert_int_equal(uext4_rename(img.fs, NULL, "/d/sub", "/e/moved", 0), 0);
	assert_int_equal(nlink_of("/d"), 2);
	assert_int_equal(nlink_of("/e"), 3);
	assert_int_equal(ino_of("/e/moved/.."), ino_of("/e"));
	assert_int_equal(uext4_rename(img.fs, NULL, "/d", "/e/moved/", 0), 0); /* an empty directory is replaced */
	assert_int_equal(nlink_of("/e"), 3);
	assert_int_equal(nlink_of("/"), 4);
}

static void rename_flags(void **state)
{
	static const struct uext4_cred somebody = { .uid = 1000, .gid = 1001 };
	uint64_t a, b;
	struct uext4_attr attr;

	touch("/a");
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/d", 0755), 0);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/d/b", 0755), 0);
	a = ino_of("/a");
	b = ino_of("/d/b");
	assert_int_equal(uext4_rename(img.fs, NULL, "/a", "/d", UEXT4_RENAME_NOREPLACE), -EEXIST);
	assert_int_equal(uext4_rename(img.fs, NULL, "/a", "/x", UEXT4_RENAME_EXCHANGE), -ENOENT);
	assert_int_equal(uext4_rename(img.fs, NULL, "/a", "/d/b", UEXT4_RENAME_EXCHANGE), 0);
	assert_int_equal(ino_of("/a"), b);
	assert_int_equal(ino_of("/d/b"), a);
	assert_int_equal(ino_of("/a/.."), 2);
	assert_int_equal(nlink_of("/d"), 2);
	assert_int_equal(uext4_rename(img.fs, NULL, "/d", "/a/x", UEXT4_RENAME_EXCHANGE), -ENOENT);
	assert_int_equal(uext4_rename(img.fs, NULL, "/d", "/d/b", UEXT4_RENAME_EXCHANGE), -EINVAL);
	assert_int_equal(uext4_rename(img.fs, &somebody, "/d/b", "/moved", UEXT4_RENAME_WHITEOUT), 0);
	assert_int_equal(uext4_lstat(img.fs, NULL, "/d/b", &attr), 0);
	assert_true(S_ISCHR(attr.mode) && attr.rdev == 0);
	assert_int_equal(attr.uid, 1000);
	assert_int_equal(attr.gid, 1001);
	assert_int_equal(uext4_rename(img.fs, NULL, "/a", "/b", 8), -EINVAL);
	assert_int_equal(uext4_rename(img.fs, NULL, "/a", "/b", UEXT4_RENAME_EXCHANGE | UEXT4_RENAME_NOREPLACE), -EINVAL);
}

static void symlinks_of_every_length(void **state)
{
	static const unsigned lengths[] = { 1, 59, 60, 61, 1000, 1023, 1024, 4095 };
	char target[4200], got[4200];

	for (unsigned i = 0; i < 8; i++) {
		char path[32];
		int err;

		memset(target, 't', lengths[i]);
		target[lengths[i]] = '\0';
		sprintf(path, "/l%u", lengths[i]);
		err = uext4_symlink(img.fs, NULL, target, path);
		if (lengths[i] >= 1024) { /* a block is the limit */
			assert_int_equal(err, -ENAMETOOLONG);
			continue;
		}
		assert_int_equal(err, 0);
		assert_int_equal(uext4_readlink(img.fs, NULL, path, got, sizeof(got)), 0);
		assert_string_equal(got, target);
	}
	assert_int_equal(uext4_symlink(img.fs, NULL, "", "/empty"), -ENOENT);
}

static void walks_follow_symlinks(void **state)
{
	struct uext4_attr attr;
	struct uext4_file *file;

	assert_int_equal(uext4_mkdir(img.fs, NULL, "/dir", 0755), 0);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/dir/sub", 0755), 0);
	touch("/dir/sub/file");
	assert_int_equal(uext4_symlink(img.fs, NULL, "sub", "/dir/rel"), 0);
	assert_int_equal(uext4_symlink(img.fs, NULL, "/dir/rel/", "/abs"), 0);
	assert_int_equal(uext4_symlink(img.fs, NULL, "../dir/rel/file", "/dir/up"), 0);
	assert_int_equal(uext4_symlink(img.fs, NULL, "loop2", "/loop1"), 0);
	assert_int_equal(uext4_symlink(img.fs, NULL, "loop1", "/loop2"), 0);
	assert_int_equal(uext4_symlink(img.fs, NULL, "made-through-link", "/dangling"), 0);
	assert_int_equal(uext4_stat(img.fs, NULL, "/abs/file", &attr), 0);
	assert_int_equal(attr.ino, ino_of("/dir/sub/file"));
	assert_int_equal(uext4_stat(img.fs, NULL, "//dir/./up", &attr), 0);
	assert_int_equal(attr.ino, ino_of("/dir/sub/file"));
	assert_int_equal(uext4_lstat(img.fs, NULL, "/abs", &attr), 0);
	assert_true(S_ISLNK(attr.mode));
	assert_int_equal(uext4_lstat(img.fs, NULL, "/abs/", &attr), 0);
	assert_true(S_ISDIR(attr.mode));
	assert_int_equal(uext4_stat(img.fs, NULL, "/loop1", &attr), -ELOOP);
	assert_int_equal(uext4_stat(img.fs, NULL, "/dir/up/", &attr), -ENOTDIR);
	assert_int_equal(uext4_stat(img.fs, NULL, "/../../dir", &attr), 0);
	assert_int_equal(uext4_stat(img.fs, NULL, "", &attr), -ENOENT);
	assert_int_equal(uext4_open(img.fs, NULL, "/dir/up", O_RDONLY | O_NOFOLLOW, 0, &file), -ELOOP);
	assert_int_equal(uext4_open(img.fs, NULL, "/dangling", O_RDWR | O_CREAT | O_EXCL, 0644, &file), -EEXIST);
	assert_int_equal(uext4_open(img.fs, NULL, "/dangling", O_RDWR | O_CREAT, 0644, &file), 0);
	assert_int_equal(uext4_close(file), 0);
	assert_true(exists("/made-through-link"));
	assert_int_equal(uext4_open(img.fs, NULL, "/dir", O_RDONLY | O_CREAT, 0644, &file), -EISDIR);
	assert_int_equal(uext4_open(img.fs, NULL, "/dir", O_WRONLY, 0, &file), -EISDIR);
	assert_int_equal(uext4_open(img.fs, NULL, "/new/", O_WRONLY | O_CREAT, 0644, &file), -EISDIR);
	assert_int_equal(uext4_open(img.fs, NULL, "/dir/sub/file", O_RDONLY | O_DIRECTORY, 0, &file), -ENOTDIR);
}

static void forty_links_and_no_more(void **state)
{
	struct uext4_attr attr;

	touch("/s0");
	for (int i = 1; i <= 41; i++) {
		char path[16], target[16];

		sprintf(path, "/s%d", i);
		sprintf(target, "s%d", i - 1);
		assert_int_equal(uext4_symlink(img.fs, NULL, target, path), 0);
	}
	assert_int_equal(uext4_stat(img.fs, NULL, "/s40", &attr), 0);
	assert_int_equal(uext4_stat(img.fs, NULL, "/s41", &attr), -ELOOP);
}

static void paths_up_to_4095_bytes(void **state)
{
	char path[5000];
	struct uext4_attr attr;

	memset(path, '/', 4095);
	path[4095] = '\0';
	assert_int_equal(uext4_stat(img.fs, NULL, path, &attr), 0);
	path[4095] = '/';
	path[4096] = '\0';
	assert_int_equal(uext4_stat(img.fs, NULL, path, &attr), -ENAMETOOLONG);
}

struct seen {
	unsigned count;
	unsigned char hits[6000];
};

static int see(void *arg, const struct uext4_dirent *entry)
{
	struct seen *seen = arg;
	unsigned number;

	if (sscanf(entry->name, "name-%u", &number) == 1 && number < sizeof(seen->hits)) {
		seen->hits[number]++;
		seen->count++;
	}
	return 0;
}

static void every_name_of_a_large_directory_once(void **state)
{
	static struct seen seen;
	char path[64];

	memset(&seen, 0, sizeof(seen));
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/big", 0755), 0);
	for (unsigned i = 0; i < 5000; i++) {
		sprintf(path, "/big/name-%u", i);
		touch(path);
	}
	assert_int_equal(uext4_readdir(img.fs, NULL, "/big", see, &seen), 0);
	assert_int_equal(seen.count, 5000);
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(seen.hits[i], 1);
	image_reopen(&img);
	for (unsigned i = 0; i < 5000; i += 3) {
		sprintf(path, "/big/name-%u", i);
		assert_int_equal(uext4_unlink(img.fs, NULL, path), 0);
	}
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(uext4_readdir(img.fs, NULL, "/big", see, &seen), 0);
	assert_int_equal(seen.count, 3333);
	for (unsigned i = 0; i < 5000; i++) {
		sprintf(path, "/big/name-%u", i);
		assert_int_equal(exists(path), i % 3 != 0);
	}
}

static void devices_fifos_and_sockets(void **state)
{
	struct uext4_attr attr;
	struct uext4_file *file;

	assert_int_equal(uext4_mknod(img.fs, NULL, "/c", S_IFCHR | 0600, 0x503), 0);
	assert_int_equal(uext4_mknod(img.fs, NULL, "/p", S_IFIFO | 0600, 0), 0);
	assert_int_equal(uext4_mknod(img.fs, NULL, "/s", S_IFSOCK | 0600, 0), 0);
	assert_int_equal(uext4_mknod(img.fs, NULL, "/d", S_IFDIR | 0600, 0), -EPERM);
	image_reopen(&img);
	assert_int_equal(uext4_stat(img.fs, NULL, "/c", &attr), 0);
	assert_int_equal(attr.mode, S_IFCHR | 0600);
	assert_int_equal(attr.rdev, 0x503);
	assert_int_equal(uext4_open(img.fs, NULL, "/p", O_RDONLY, 0, &file), -ENXIO);
}

static void read_only_answers_in_linux_order(void **state)
{
	struct uext4_file *file;

	touch("/f");
	image_check(&img);
	image_open(&img, "ro", false);
	assert_true(uext4_is_read_only(img.fs));
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/f", 0755), -EEXIST);
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/g", 0755), -EROFS);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/none"), -EROFS);
	assert_int_equal(uext4_open(img.fs, NULL, "/f", O_RDWR, 0, &file), -EROFS);
	assert_int_equal(uext4_open(img.fs, NULL, "/g", O_RDONLY | O_CREAT, 0644, &file), -EROFS);
	assert_int_equal(uext4_open(img.fs, NULL, "/f", O_RDONLY | O_CREAT, 0644, &file), 0);
	assert_int_equal(uext4_close(file), 0);
	assert_int_equal(uext4_rename(img.fs, NULL, "/f", "/h", 0), -EROFS);
}

int main(void)
{
#define ON_IMAGE(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		ON_IMAGE(making_and_removing),
		ON_IMAGE(names_of_255_bytes_and_no_more),
		ON_IMAGE(numbers_reused_lead_to_the_new_file),
		ON_IMAGE(new_directory_with_an_old_number_is_empty),
		ON_IMAGE(hard_links),
		ON_IMAGE(rename_over_a_name_with_a_second_link),
		ON_IMAGE(rename_shapes),
		ON_IMAGE(rename_flags),
		ON_IMAGE(symlinks_of_every_length),
		ON_IMAGE(walks_follow_symlinks),
		ON_IMAGE(forty_links_and_no_more),
		ON_IMAGE(paths_up_to_4095_bytes),
		ON_IMAGE(every_name_of_a_large_directory_once),
		ON_IMAGE(devices_fifos_and_sockets),
		ON_IMAGE(read_only_answers_in_linux_order),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
