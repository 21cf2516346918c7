/* SPDX-License-Identifier: MIT */
/* test_root_blocks.c - the blocks that mkfs -m keeps: who gets them, and who is told that the disk is full; then e2fsck */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "image.h"

#define USER  1000u
#define GROUP 100u

static const struct uext4_cred user = { .uid = USER, .gid = GROUP };
static struct image img;

static void open_for_all(const char *options, bool check_permissions)
{
	struct uext4_attr attr = { .mode = 01777 };

	image_make(&img, "-t ext4 -m 10", 32);
	image_open(&img, options, check_permissions);
	assert_int_equal(uext4_setattr(img.fs, NULL, "/", true, &attr, UEXT4_SET_MODE), 0);
}

static int start(void **state)
{
	open_for_all(NULL, true);
	return 0;
}

static int stop(void **state)
{
	image_check(&img);
	image_remove(&img);
	return 0;
}

static struct uext4_statfs space(void)
{
	struct uext4_statfs sf;

	assert_int_equal(uext4_statfs(img.fs, &sf), 0);
	return sf;
}

static struct uext4_file *open_as(const struct uext4_cred *cred, const char *path)
{
	struct uext4_file *file;

	assert_int_equal(uext4_open(img.fs, cred, path, O_RDWR | O_CREAT, 0666, &file), 0);
	return file;
}

static uext4_ino node_of(struct uext4_file *file)
{
	struct uext4_attr attr;

	assert_int_equal(uext4_fstat(file, &attr), 0);
	return attr.ino;
}

/* Writes on from the file's position until there is no room. Each piece is on disk before the next, and promises nothing more. */
static void fill(struct uext4_file *file)
{
	static const char piece[64 << 10];
	ssize_t n;

	for (size_t len = sizeof(piece); len >= 1024; len /= 2) {
		do
			n = uext4_write(file, piece, len);
		while (n > 0 && !uext4_fsync(file));
		assert_int_equal(n, -ENOSPC);
	}
}

/* Fills the disk as somebody who does not get root's blocks, in a file of his. */
static struct uext4_file *fill_as_user(void)
{
	struct uext4_file *file = open_as(&user, "/user");

	fill(file);
	assert_int_equal(space().blocks_available, 0);
	assert_true(space().blocks_free > space().blocks * 9 / 100);
	return file;
}

static bool roots_are_used(void)
{
	return space().blocks_free < space().blocks * 4 / 100; /* of which a fiftieth is for what may not fail */
}

static ssize_t node_write(uext4_ino ino, off_t pos, size_t len, uint32_t flags)
{
	static char buf[512 << 10];
	struct iovec iov = { .iov_base = buf, .iov_len = len };

	return uext4_node_writev(img.fs, ino, &iov, 1, pos, flags);
}

static void users_do_not_get_them_and_root_does(void **state)
{
	struct uext4_file *file = fill_as_user(), *of_root = open_as(NULL, "/root");

	fill(of_root);
	assert_true(roots_are_used());
	assert_int_equal(uext4_close(of_root), 0);
	assert_int_equal(uext4_close(file), 0);
}

static void the_one_who_opened_a_file_decides(void **state)
{
	struct uext4_file *file = fill_as_user(), *by_root = open_as(&(struct uext4_cred){ 0 }, "/user");

	assert_int_equal(uext4_pwrite(by_root, "x", 1, 70 << 20), 1);
	assert_int_equal(uext4_pwrite(file, "x", 1, 69 << 20), -ENOSPC);
	assert_int_equal(uext4_fallocate(file, 0, 65 << 20, 64 << 10), -ENOSPC);
	assert_int_equal(uext4_fallocate(by_root, 0, 65 << 20, 64 << 10), 0);
	assert_int_equal(uext4_fallocate(file, UEXT4_FALLOC_ROOT_BLOCKS, 66 << 20, 64 << 10), -EOPNOTSUPP);
	assert_int_equal(uext4_close(by_root), 0);
	assert_int_equal(uext4_close(file), 0);
}

static void whether_callers_are_checked_does_not_matter(void **state)
{
	struct uext4_file *file;

	open_for_all(NULL, false);
	assert_int_equal(uext4_close(fill_as_user()), 0);
	file = open_as(NULL, "/root");
	fill(file);
	assert_true(roots_are_used());
	assert_int_equal(uext4_close(file), 0);
}

/* Takes what one block each is left for. */
static void fill_with_links(const struct uext4_cred *cred, const char *prefix)
{
	char path[32], target[200] = "";
	int err = 0;

	memset(target, 't', sizeof(target) - 1);
	for (unsigned i = 0; !err; i++) {
		snprintf(path, sizeof(path), "%s%u", prefix, i);
		err = uext4_symlink(img.fs, cred, target, path);
	}
	assert_int_equal(err, -ENOSPC);
}

static int create_long_names(const struct uext4_cred *cred, uext4_ino dir)
{
	char name[201];
	struct uext4_entry entry;
	int err = 0;

	for (unsigned i = 0; i < 60 && !err; i++) {
		snprintf(name, sizeof(name), "%0100u%0100u", cred->uid, i);
		err = uext4_node_mknod(img.fs, cred, dir, name, S_IFREG | 0644, 0, &entry);
		if (!err)
			uext4_node_forget(img.fs, entry.ino, 1);
	}
	return err;
}

static int set_large_xattr(const struct uext4_cred *cred, uext4_ino ino)
{
	char value[400];

	memset(value, 'v', sizeof(value));
	return uext4_node_setxattr(img.fs, cred, ino, "user.large", value, sizeof(value), 0);
}

/* All that takes a block without data: -ENOSPC, or 0, from each. */
static void check_names(const struct uext4_cred *cred, uext4_ino dir, uext4_ino file, int expected)
{
	struct uext4_entry entry;
	char target[200] = "";

	memset(target, 't', sizeof(target) - 1);
	assert_int_equal(uext4_node_mkdir(img.fs, cred, dir, "made", 0755, &entry), expected);
	assert_int_equal(uext4_node_symlink(img.fs, cred, dir, "long", target, &entry), expected);
	assert_int_equal(set_large_xattr(cred, file), expected);
	assert_int_equal(create_long_names(cred, dir), expected);
}

static void names_need_blocks_too(void **state)
{
	struct uext4_cred root = { 0 };
	struct uext4_file *file;
	struct uext4_attr dir, node;

	assert_int_equal(uext4_mkdir(img.fs, &user, "/dir", 0755), 0);
	file = fill_as_user();
	assert_int_equal(uext4_fstat(file, &node), 0);
	assert_int_equal(uext4_close(file), 0);
	fill_with_links(&user, "/user");
	assert_int_equal(uext4_stat(img.fs, NULL, "/dir", &dir), 0);
	assert_int_equal(uext4_mkdir(img.fs, &user, "/dir/of_user", 0755), -ENOSPC);
	check_names(&user, dir.ino, node.ino, -ENOSPC);
	check_names(&root, dir.ino, node.ino, 0);
	fill_with_links(NULL, "/root");
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/dir/of_root", 0755), -ENOSPC);
}

static void the_user_of_the_option_gets_them(void **state)
{
	struct uext4_file *file;

	open_for_all("resuid=1000", true);
	file = open_as(&user, "/user");
	fill(file);
	assert_true(roots_are_used());
	assert_int_equal(uext4_close(file), 0);
}

static void members_of_the_group_of_the_option_get_them(void **state)
{
	const uint32_t groups[] = { 7, 300 };
	const struct uext4_cred member = { .uid = USER, .gid = GROUP, .groups = groups, .group_count = 2 };
	struct uext4_file *file;

	open_for_all("resgid=300", true);
	assert_int_equal(uext4_close(fill_as_user()), 0);
	file = open_as(&member, "/member");
	fill(file);
	assert_true(roots_are_used());
	assert_int_equal(uext4_close(file), 0);
}

static void who_has_them(void **state)
{
	const uint32_t root_group = 0;
	const struct uext4_cred root = { .gid = GROUP }, of_group0 = { .uid = USER },
				member0 = { USER, GROUP, &root_group, 1, 0 };

	assert_true(uext4_has_root_blocks(img.fs, NULL));
	assert_true(uext4_has_root_blocks(img.fs, &root));
	assert_false(uext4_has_root_blocks(img.fs, &user));
	assert_false(uext4_has_root_blocks(img.fs, &of_group0));
	assert_false(uext4_has_root_blocks(img.fs, &member0));
	image_check(&img);
	assert_int_equal(image_run(&img, "PATH=$PATH:/usr/sbin:/sbin tune2fs -u 1000 -g 300 @ >/dev/null"), 0);
	image_open(&img, NULL, false); /* that nobody is checked does not matter */
	assert_true(uext4_has_root_blocks(img.fs, &root));
	assert_true(uext4_has_root_blocks(img.fs, &user));
	assert_true(uext4_has_root_blocks(img.fs, &(struct uext4_cred){ .uid = 1, .gid = 300 }));
	assert_false(uext4_has_root_blocks(img.fs, &(struct uext4_cred){ .uid = 1, .gid = GROUP }));
	image_check(&img);
	image_open(&img, "resuid=2,resgid=3", false); /* the options come before the superblock */
	assert_false(uext4_has_root_blocks(img.fs, &user));
	assert_true(uext4_has_root_blocks(img.fs, &(struct uext4_cred){ .uid = 2 }));
	assert_true(uext4_has_root_blocks(img.fs, &(struct uext4_cred){ .uid = 1, .gid = 3 }));
}

/* The same writes in every way that blocks are taken. */
static void writes_to_nodes_say_it(const char *options, uint32_t flags)
{
	struct uext4_file *file, *of_root;
	uext4_ino theirs, roots;

	open_for_all(options, true);
	file = fill_as_user();
	of_root = open_as(NULL, "/root");
	theirs = node_of(file);
	roots = node_of(of_root);
	assert_int_equal(node_write(theirs, 65 << 20, 4096, flags), -ENOSPC);
	assert_int_equal(node_write(roots, 65 << 20, 4096, flags), -ENOSPC);
	assert_int_equal(node_write(theirs, 65 << 20, 4096, flags | UEXT4_WRITE_AS_OWNER), -ENOSPC);
	assert_int_equal(node_write(roots, 65 << 20, 4096, flags | UEXT4_WRITE_AS_OWNER), 4096);
	assert_int_equal(node_write(theirs, 65 << 20, 4096, flags | UEXT4_WRITE_ROOT_BLOCKS), 4096);
	assert_int_equal(node_write(theirs, 66 << 20, 512 << 10, flags | UEXT4_WRITE_AS_OWNER), -ENOSPC);
	assert_int_equal(node_write(theirs, 66 << 20, 512 << 10, flags | UEXT4_WRITE_ROOT_BLOCKS), 512 << 10);
	assert_int_equal(uext4_node_fsync(img.fs, theirs, false), 0);
	assert_int_equal(uext4_node_fsync(img.fs, roots, false), 0);
	assert_int_equal(uext4_close(of_root), 0);
	assert_int_equal(uext4_close(file), 0);
}

static void writes_to_nodes(void **state)
{
	writes_to_nodes_say_it(NULL, 0);
}

static void uncached_writes_to_nodes(void **state)
{
	writes_to_nodes_say_it(NULL, UEXT4_WRITE_UNCACHED);
}

static void writes_that_allocate_at_once(void **state)
{
	writes_to_nodes_say_it("nodelalloc", 0);
}

static void logged_writes(void **state)
{
	writes_to_nodes_say_it("data=journal", 0);
}

static void owners_of_the_options_stand_for_the_writer(void **state)
{
	struct uext4_attr attr = { .uid = USER + 1, .gid = 300 };
	struct uext4_file *file;
	uext4_ino ino;

	open_for_all("resuid=2000,resgid=300", true);
	file = fill_as_user();
	ino = node_of(file);
	assert_int_equal(node_write(ino, 65 << 20, 4096, UEXT4_WRITE_AS_OWNER), -ENOSPC);
	assert_int_equal(uext4_node_setattr(img.fs, NULL, ino, &attr, UEXT4_SET_UID | UEXT4_SET_GID, NULL), 0);
	assert_int_equal(node_write(ino, 65 << 20, 4096, UEXT4_WRITE_AS_OWNER), 4096);
	attr = (struct uext4_attr){ .uid = 2000, .gid = 0 };
	assert_int_equal(uext4_node_setattr(img.fs, NULL, ino, &attr, UEXT4_SET_UID | UEXT4_SET_GID, NULL), 0);
	assert_int_equal(node_write(ino, 66 << 20, 4096, UEXT4_WRITE_AS_OWNER), 4096);
	attr.uid = USER;
	assert_int_equal(uext4_node_setattr(img.fs, NULL, ino, &attr, UEXT4_SET_UID, NULL), 0);
	assert_int_equal(node_write(ino, 67 << 20, 4096, UEXT4_WRITE_AS_OWNER), -ENOSPC);
	assert_int_equal(uext4_close(file), 0);
}

static void preallocation_of_nodes_says_it(void **state)
{
	struct uext4_file *file = fill_as_user();
	uext4_ino ino = node_of(file);

	assert_int_equal(uext4_node_fallocate(img.fs, ino, 0, 66 << 20, 64 << 10), -ENOSPC);
	assert_int_equal(uext4_node_fallocate(img.fs, ino, UEXT4_FALLOC_ROOT_BLOCKS, 66 << 20, 64 << 10), 0);
	assert_int_equal(uext4_node_fallocate(img.fs, ino, UEXT4_FALLOC_ROOT_BLOCKS | UEXT4_FALLOC_KEEP_TIMES, 67 << 20,
					      64 << 10), 0);
	assert_int_equal(uext4_close(file), 0);
}

/* What is given back goes to root's blocks first, and then to all. */
static void freed_blocks_fill_them_up_again(void **state)
{
	struct uext4_file *file = fill_as_user(), *of_root = open_as(NULL, "/root");
	uint64_t before = space().blocks_free;

	fill(of_root);
	assert_int_equal(uext4_close(of_root), 0);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/root"), 0);
	assert_int_equal(uext4_sync(img.fs), 0);
	assert_int_equal(uext4_pwrite(file, "x", 1, 69 << 20), -ENOSPC);
	assert_in_range(space().blocks_free, before - 8, before + 8);
	assert_int_equal(uext4_close(file), 0);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/user"), 0);
	assert_int_equal(uext4_sync(img.fs), 0);
	file = fill_as_user();
	assert_int_equal(uext4_close(file), 0);
}

/* ---- preallocated space is there on a full disk ---- */

#define PREALLOCATED (4 << 20)

/* Every second block, each an extent of its own; then the rest. */
static void write_preallocated(struct uext4_file *file, char *block)
{
	for (off_t begin = 0; begin < 8192; begin += 4096) {
		for (off_t pos = begin; pos < PREALLOCATED; pos += 8192)
			assert_int_equal(uext4_pwrite(file, block, 4096, pos), 4096);
		assert_int_equal(uext4_fsync(file), 0);
	}
}

static void check_preallocated(const char *block)
{
	struct uext4_file *file;
	char seen[4096];

	image_reopen(&img);
	assert_int_equal(uext4_open(img.fs, NULL, "/pre", O_RDONLY, 0, &file), 0);
	for (off_t pos = 0; pos < PREALLOCATED; pos += 4096) {
		assert_int_equal(uext4_pread(file, seen, 4096, pos), 4096);
		assert_memory_equal(seen, block, 4096);
	}
	assert_int_equal(uext4_close(file), 0);
}

static void preallocated(const char *options, bool root_is_full_too)
{
	struct uext4_file *file, *others, *of_root = NULL;
	char block[4096];

	memset(block, 'P', sizeof(block));
	open_for_all(options, true);
	file = open_as(&user, "/pre");
	assert_int_equal(uext4_fallocate(file, 0, 0, PREALLOCATED), 0);
	others = fill_as_user();
	if (root_is_full_too) {
		of_root = open_as(NULL, "/root");
		fill(of_root);
		assert_int_equal(uext4_close(of_root), 0);
	}
	write_preallocated(file, block);
	assert_int_equal(uext4_close(file), 0);
	assert_int_equal(uext4_close(others), 0);
	check_preallocated(block);
}

static void preallocated_space_is_written_on_a_full_disk(void **state)
{
	preallocated(NULL, false);
}

static void preallocated_space_is_written_when_root_has_nothing(void **state)
{
	preallocated(NULL, true);
}

static void preallocated_space_is_written_without_delay(void **state)
{
	preallocated("nodelalloc", true);
}

int main(void)
{
#define ON_IMAGE(test) cmocka_unit_test_setup_teardown(test, start, stop)
#define ON_ITS_OWN(test) cmocka_unit_test_teardown(test, stop)
	const struct CMUnitTest tests[] = {
		ON_IMAGE(users_do_not_get_them_and_root_does),
		ON_IMAGE(the_one_who_opened_a_file_decides),
		ON_ITS_OWN(whether_callers_are_checked_does_not_matter),
		ON_IMAGE(names_need_blocks_too),
		ON_ITS_OWN(the_user_of_the_option_gets_them),
		ON_ITS_OWN(members_of_the_group_of_the_option_get_them),
		ON_IMAGE(who_has_them),
		ON_ITS_OWN(writes_to_nodes),
		ON_ITS_OWN(uncached_writes_to_nodes),
		ON_ITS_OWN(writes_that_allocate_at_once),
		ON_ITS_OWN(logged_writes),
		ON_ITS_OWN(owners_of_the_options_stand_for_the_writer),
		ON_IMAGE(preallocation_of_nodes_says_it),
		ON_IMAGE(freed_blocks_fill_them_up_again),
		ON_ITS_OWN(preallocated_space_is_written_on_a_full_disk),
		ON_ITS_OWN(preallocated_space_is_written_when_root_has_nothing),
		ON_ITS_OWN(preallocated_space_is_written_without_delay),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
