/* SPDX-License-Identifier: MIT */
/* test_node.c - calls by inode number: lookups, directories by cookie, many at once */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "image.h"

#define ROOT UEXT4_ROOT_INO

static struct image img;

static int start(void **state)
{
	image_make(&img, "-t ext4", 64);
	image_open(&img, "cache_size=8M", false);
	return 0;
}

static int stop(void **state)
{
	image_check(&img);
	image_remove(&img);
	return 0;
}

static uint64_t create(uint64_t parent, const char *name)
{
	struct uext4_entry entry;

	assert_int_equal(uext4_node_mknod(img.fs, NULL, parent, name, 0644, 0, &entry), 0);
	assert_int_equal(entry.attr.mode, S_IFREG | 0644);
	assert_int_equal(entry.attr.ino, entry.ino);
	return entry.ino;
}

static void write_text(uint64_t ino, const char *text)
{
	struct iovec iov = { .iov_base = (void *)text, .iov_len = strlen(text) };

	assert_int_equal(uext4_node_writev(img.fs, ino, &iov, 1, 0, 0), strlen(text));
}

static void expect_text(uint64_t ino, const char *text)
{
	char buf[64] = "";
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };

	assert_int_equal(uext4_node_readv(img.fs, ino, &iov, 1, 0, 0), strlen(text));
	assert_string_equal(buf, text);
}

static void node_without_a_name_lives_until_it_is_forgotten(void **state)
{
	uint64_t ino = create(ROOT, "f");
	struct uext4_attr attr;

	write_text(ino, "still here");
	assert_int_equal(uext4_node_unlink(img.fs, NULL, ROOT, "f"), 0);
	for (int i = 0; i < 20; i++) {
		char name[16];
		uint64_t other;

		sprintf(name, "g%d", i);
		other = create(ROOT, name);
		assert_int_not_equal(other, ino);
		write_text(other, "somebody else");
		uext4_node_forget(img.fs, other, 1);
	}
	expect_text(ino, "still here");
	assert_int_equal(uext4_node_getattr(img.fs, ino, &attr), 0);
	assert_int_equal(attr.nlink, 0);
	uext4_node_forget(img.fs, ino, 1);
	assert_int_equal(uext4_node_getattr(img.fs, ino, &attr), -ESTALE);
}

static void lookups_outlive_the_inode_cache(void **state)
{
	uint64_t first = create(ROOT, "first");
	struct uext4_attr attr;
	char name[16];

	write_text(first, "first");
	for (int i = 0; i < 4000; i++) { /* more than a cache of 8 MiB keeps */
		sprintf(name, "n%d", i);
		create(ROOT, name);
	}
	assert_int_equal(uext4_node_unlink(img.fs, NULL, ROOT, "first"), 0);
	expect_text(first, "first"); /* its one lookup was remembered */
	uext4_node_forget(img.fs, first, 1);
	assert_int_equal(uext4_node_getattr(img.fs, first, &attr), -ESTALE);
}

static void numbers_that_name_nothing(void **state)
{
	struct uext4_attr attr;
	struct uext4_entry entry;

	assert_int_equal(uext4_node_getattr(img.fs, 0, &attr), -ESTALE);
	assert_int_equal(uext4_node_getattr(img.fs, 8, &attr), -ESTALE); /* the journal */
	assert_int_equal(uext4_node_getattr(img.fs, 12000, &attr), -ESTALE);
	assert_int_equal(uext4_node_getattr(img.fs, UINT64_MAX, &attr), -ESTALE);
	assert_int_equal(uext4_node_lookup(img.fs, NULL, ROOT, "none", &entry), -ENOENT);
	assert_int_equal(uext4_node_lookup(img.fs, NULL, ROOT, "..", &entry), 0);
	assert_int_equal(entry.ino, ROOT);
	assert_int_equal(uext4_node_lookup(img.fs, NULL, ROOT, "a/b", &entry), -EINVAL);
}

struct reading {
	uint64_t resume;
	unsigned total, at_once, left;
	unsigned char hits[3000];
	bool plus;
};

static int take(void *arg, const struct uext4_dirent *entry)
{
	struct reading *r = arg;
	unsigned number;

	if (!r->left)
		return 1;
	r->left--;
	r->resume = entry->next_cookie;
	if (sscanf(entry->name, "n%u", &number) == 1) {
		r->hits[number]++;
		r->total++;
	}
	return 0;
}

static int take_plus(void *arg, const struct uext4_dirent *dirent, const struct uext4_entry *entry)
{
	int stop = take(arg, dirent);

	if (dirent->name[0] == '.') {
		assert_null(entry);
		return stop;
	}
	assert_non_null(entry);
	assert_int_equal(entry->ino, dirent->ino);
	if (!stop)
		uext4_node_forget(img.fs, entry->ino, 1);
	return stop;
}

static void read_in_pieces(struct reading *r, unsigned at_once)
{
	unsigned before;

	r->resume = 0;
	r->total = 0;
	memset(r->hits, 0, sizeof(r->hits));
	do {
		before = r->left = at_once;
		if (r->plus)
			assert_int_equal(uext4_node_readdirplus(img.fs, ROOT, r->resume, take_plus, r), 0);
		else
			assert_int_equal(uext4_node_readdir(img.fs, ROOT, r->resume, take, r), 0);
	} while (r->left != before);
}

static void directories_read_in_pieces_give_every_name_once(void **state)
{
	static struct reading r;
	char name[16];

	for (unsigned i = 0; i < 3000; i++) {
		sprintf(name, "n%u", i);
		uext4_node_forget(img.fs, create(ROOT, name), 1);
	}
	for (unsigned at_once = 1; at_once < 5000; at_once = at_once * 7 + 3) {
		r.plus = !r.plus;
		read_in_pieces(&r, at_once);
		assert_int_equal(r.total, 3000);
		for (unsigned i = 0; i < 3000; i++)
			assert_int_equal(r.hits[i], 1);
	}
}

static int look_each_up(void *arg, const struct uext4_dirent *dirent)
{
	struct uext4_entry entry;

	assert_int_equal(uext4_node_lookup(img.fs, NULL, ROOT, dirent->name, &entry), 0);
	assert_int_equal(entry.ino, dirent->ino);
	uext4_node_forget(img.fs, entry.ino, 1);
	++*(unsigned *)arg;
	return 0;
}

static void names_may_be_looked_up_while_they_are_read(void **state)
{
	unsigned count = 0;
	char name[16];

	for (unsigned i = 0; i < 500; i++) {
		sprintf(name, "n%u", i);
		create(ROOT, name);
	}
	assert_int_equal(uext4_node_readdir(img.fs, ROOT, 0, look_each_up, &count), 0);
	assert_int_equal(count, 500 + 3); /* ".", "..", lost+found */
}

static void fiemap_in_small_and_large_pieces_agrees(void **state)
{
	uint64_t ino = create(ROOT, "frag");
	struct uext4_extent all[600], one;
	uint32_t count, got;
	uint64_t pos = 0;
	char block[4096];

	memset(block, 'x', sizeof(block));
	for (off_t i = 0; i < 400; i++) {
		struct iovec iov = { .iov_base = block, .iov_len = sizeof(block) };

		assert_int_equal(uext4_node_writev(img.fs, ino, &iov, 1, i * 3 * 4096, 0), 4096);
	}
	assert_int_equal(uext4_node_fiemap(img.fs, ino, 0, UINT64_MAX, true, all, 600, &count), 0);
	assert_int_equal(count, 400);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(all[i].logical, (uint64_t)i * 3 * 4096);
		assert_int_equal(all[i].length, 4096);
		assert_int_not_equal(all[i].physical, 0);
		assert_int_equal(uext4_node_fiemap(img.fs, ino, pos, UINT64_MAX - pos, false, &one, 1, &got), 0);
		assert_int_equal(got, 1);
		assert_int_equal(one.logical, all[i].logical);
		assert_int_equal(one.physical, all[i].physical);
		pos = one.logical + one.length;
	}
}

int main(void)
{
#define ON_IMAGE(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		ON_IMAGE(node_without_a_name_lives_until_it_is_forgotten),
		ON_IMAGE(lookups_outlive_the_inode_cache),
		ON_IMAGE(numbers_that_name_nothing),
		ON_IMAGE(directories_read_in_pieces_give_every_name_once),
		ON_IMAGE(names_may_be_looked_up_while_they_are_read),
		ON_IMAGE(fiemap_in_small_and_large_pieces_agrees),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
