/* SPDX-License-Identifier: MIT */
/* test_threads.c - many threads on one file system: results each can vouch for, and a clean image */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "image.h"

#define THREADS 4
#define ROUNDS  1500

static struct image img;

static int start(void **state)
{
	image_make(&img, "-t ext4", 128);
	image_open(&img, "cache_size=8M", false);
	return 0;
}

static int stop(void **state)
{
	image_check(&img);
	image_remove(&img);
	return 0;
}

struct worker {
	pthread_t thread;
	unsigned id;
	unsigned seed;
	const char *wrong; /* NULL: all as it should be */
};

static void run(struct worker *workers, void *(*func)(void *))
{
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .id = i, .seed = 100 + i };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, func, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].wrong)
			fprintf(stderr, "thread %u: %s\n", i, workers[i].wrong);
		assert_null(workers[i].wrong);
	}
}

/* In a directory of its own a thread knows what to expect. */
static const char *own_round(struct worker *w, unsigned i)
{
	char path[64], other[64], buf[3000];
	unsigned n = (unsigned)rand_r(&w->seed) % 40;
	struct uext4_file *file;
	size_t len = 1 + (size_t)rand_r(&w->seed) % sizeof(buf);
	ssize_t got;
	int err;

	sprintf(path, "/own%u/f%u", w->id, n);
	sprintf(other, "/own%u/g%u", w->id, n);
	if (uext4_open(img.fs, NULL, path, O_RDWR | O_CREAT | O_TRUNC, 0644, &file))
		return "open";
	pattern_fill(buf, len, w->id * 1000 + n, 0);
	if (uext4_pwrite(file, buf, len, 0) != (ssize_t)len)
		return "write";
	if (i % 50 == 0 && uext4_fsync(file))
		return "fsync";
	memset(buf, 0, sizeof(buf));
	got = uext4_pread(file, buf, sizeof(buf), 0);
	if (got != (ssize_t)len || !pattern_holds(buf, len, w->id * 1000 + n, 0))
		return "read";
	if (uext4_close(file))
		return "close";
	if (i % 3 == 0 && uext4_rename(img.fs, NULL, path, other, 0))
		return "rename";
	err = uext4_unlink(img.fs, NULL, i % 3 == 0 ? path : other);
	if (i % 3 == 0 && err != -ENOENT)
		return "unlink of what was renamed";
	return err && err != -ENOENT ? "unlink" : NULL;
}

static void *own_worker(void *arg)
{
	struct worker *w = arg;
	char path[32];

	sprintf(path, "/own%u", w->id);
	if (uext4_mkdir(img.fs, NULL, path, 0755))
		w->wrong = "mkdir";
	for (unsigned i = 0; i < ROUNDS && !w->wrong; i++)
		w->wrong = own_round(w, i);
	return NULL;
}

static void threads_in_directories_of_their_own(void **state)
{
	struct worker workers[THREADS];

	run(workers, own_worker);
}

/* In shared directories anything may happen to a name, but only what the rules allow. */
static bool is_one_of(int err, int a, int b, int c, int d)
{
	return err == 0 || err == a || err == b || err == c || err == d;
}

static const char *shared_round(struct worker *w)
{
	char a[64], b[64];
	struct uext4_attr attr;
	unsigned r = (unsigned)rand_r(&w->seed);
	struct uext4_file *file;
	int err;

	sprintf(a, "/s%u/n%u", r % 3, r / 3 % 12);
	sprintf(b, "/s%u/n%u", r / 36 % 3, r / 108 % 12);
	switch (r / 1296 % 8) {
	case 0:
		err = uext4_open(img.fs, NULL, a, O_RDWR | O_CREAT, 0644, &file);
		if (!err) {
			if (uext4_pwrite(file, a, sizeof(a), r % 5000) != sizeof(a))
				return "write";
			uext4_close(file);
		}
		return is_one_of(err, -EISDIR, -ENOENT, -ENOTDIR, -ELOOP) ? NULL : "open";
	case 1:
		return is_one_of(uext4_mkdir(img.fs, NULL, a, 0755), -EEXIST, 0, 0, 0) ? NULL : "mkdir";
	case 2:
		return is_one_of(uext4_unlink(img.fs, NULL, a), -ENOENT, -EISDIR, 0, 0) ? NULL : "unlink";
	case 3:
		return is_one_of(uext4_rmdir(img.fs, NULL, a), -ENOENT, -ENOTDIR, -ENOTEMPTY, 0) ? NULL : "rmdir";
	case 4:
		err = uext4_rename(img.fs, NULL, a, b, 0);
		return is_one_of(err, -ENOENT, -EISDIR, -ENOTDIR, -ENOTEMPTY) ? NULL : "rename";
	case 5:
		err = uext4_link(img.fs, NULL, a, b);
		return is_one_of(err, -ENOENT, -EEXIST, -EPERM, 0) ? NULL : "link";
	case 6:
		err = uext4_rename(img.fs, NULL, a, b, UEXT4_RENAME_EXCHANGE);
		return is_one_of(err, -ENOENT, -EINVAL, 0, 0) ? NULL : "exchange";
	default:
		err = uext4_lstat(img.fs, NULL, a, &attr);
		if (!err && (attr.nlink == 0 && !S_ISREG(attr.mode) && !S_ISDIR(attr.mode)))
			return "stat of something strange";
		return is_one_of(err, -ENOENT, 0, 0, 0) ? NULL : "stat";
	}
}

static void *shared_worker(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < 4 * ROUNDS && !w->wrong; i++)
		w->wrong = shared_round(w);
	return NULL;
}

static void threads_in_shared_directories(void **state)
{
	struct worker workers[THREADS];

	for (int i = 0; i < 3; i++) {
		char path[16];

		sprintf(path, "/s%d", i);
		assert_int_equal(uext4_mkdir(img.fs, NULL, path, 0755), 0);
	}
	run(workers, shared_worker);
}

/* Directories moved into and out of each other: never a ring, never a deadlock. */
static void *mover(void *arg)
{
	struct worker *w = arg;
	char a[64], b[64];

	for (unsigned i = 0; i < 2 * ROUNDS && !w->wrong; i++) {
		unsigned r = (unsigned)rand_r(&w->seed);
		int err;

		sprintf(a, "/m%u%s", r % 4, r & 16 ? "/x" : "");
		sprintf(b, "/m%u/%s", r / 4 % 4, r & 32 ? "x" : "y");
		err = r & 64 ? uext4_rename(img.fs, NULL, a, b, 0) : uext4_rename(img.fs, NULL, b, a, 0);
		if (!is_one_of(err, -ENOENT, -EINVAL, -ENOTEMPTY, -ENOTDIR))
			w->wrong = "rename";
		if (r % 5 == 0)
			uext4_mkdir(img.fs, NULL, a, 0755);
		if (r % 7 == 0)
			uext4_rmdir(img.fs, NULL, b);
	}
	return NULL;
}

static void directories_moved_about_by_threads(void **state)
{
	struct worker workers[THREADS];

	for (int i = 0; i < 4; i++) {
		char path[16];

		sprintf(path, "/m%d", i);
		assert_int_equal(uext4_mkdir(img.fs, NULL, path, 0755), 0);
	}
	run(workers, mover);
}

/* One file, each thread with blocks of its own. */
static void *writer(void *arg)
{
	struct worker *w = arg;
	struct uext4_file *file;
	char buf[5000];

	if (uext4_open(img.fs, NULL, "/one", O_RDWR | O_CREAT, 0644, &file)) {
		w->wrong = "open";
		return NULL;
	}
	for (off_t i = 0; i < 400 && !w->wrong; i++) {
		off_t pos = (i * THREADS + w->id) * (off_t)sizeof(buf);

		pattern_fill(buf, sizeof(buf), 77, (uint64_t)pos);
		if (uext4_pwrite(file, buf, sizeof(buf), pos) != sizeof(buf))
			w->wrong = "write";
		if (i % 100 == 99 && uext4_fdatasync(file))
			w->wrong = "fdatasync";
	}
	uext4_close(file);
	return NULL;
}

static void one_file_written_by_threads(void **state)
{
	struct worker workers[THREADS];
	struct uext4_file *file;
	size_t total = 400 * THREADS * 5000;
	char *buf = malloc(total);

	run(workers, writer);
	image_reopen(&img);
	assert_int_equal(uext4_open(img.fs, NULL, "/one", O_RDONLY, 0, &file), 0);
	assert_int_equal(uext4_pread(file, buf, total, 0), total);
	assert_true(pattern_holds(buf, total, 77, 0));
	assert_int_equal(uext4_close(file), 0);
	free(buf);
}

/* An xattr block that comes and goes changes i_blocks, but never where a short target lies. */
static void *symlink_worker(void *arg)
{
	struct worker *w = arg;
	char value[900] = "", target[64];

	for (unsigned i = 0; i < ROUNDS && !w->wrong; i++) {
		if (w->id) {
			if (uext4_readlink(img.fs, NULL, "/link", target, sizeof(target)) ||
			    strcmp(target, "somewhere") != 0)
				w->wrong = "readlink";
			continue;
		}
		if (uext4_setxattr(img.fs, NULL, "/link", false, "trusted.large", value, sizeof(value), 0))
			w->wrong = "setxattr";
		else if (uext4_removexattr(img.fs, NULL, "/link", false, "trusted.large"))
			w->wrong = "removexattr";
	}
	return NULL;
}

static void a_symlink_is_read_while_its_xattrs_change(void **state)
{
	struct worker workers[THREADS];

	assert_int_equal(uext4_symlink(img.fs, NULL, "somewhere", "/link"), 0);
	run(workers, symlink_worker);
}

/* ---- unmounting ---- */

#define UNMOUNTS 200u
#define MOUNT_MB 8u

static struct uext4_fs *mounted;
static unsigned unmount_round;
static _Atomic bool stop_load;

#define LAST_BYTES 20000u

/* What the thread writes last, and nobody syncs. */
static const char *write_last(unsigned id, unsigned round)
{
	char path[32], buf[LAST_BYTES];
	struct uext4_file *file;

	sprintf(path, "/last%u", id);
	pattern_fill(buf, sizeof(buf), round, 0);
	if (uext4_open(mounted, NULL, path, O_RDWR | O_CREAT | O_TRUNC, 0644, &file))
		return "open the last";
	if (uext4_pwrite(file, buf, sizeof(buf), 0) != (ssize_t)sizeof(buf))
		return "write the last";
	return uext4_close(file) ? "close the last" : NULL;
}

static void expect_last(unsigned id, unsigned round)
{
	char path[32], buf[LAST_BYTES + 1];
	struct uext4_file *file;

	sprintf(path, "/last%u", id);
	assert_int_equal(uext4_open(mounted, NULL, path, O_RDONLY, 0, &file), 0);
	assert_int_equal(uext4_pread(file, buf, sizeof(buf), 0), LAST_BYTES);
	assert_true(pattern_holds(buf, LAST_BYTES, round, 0));
	assert_int_equal(uext4_close(file), 0);
}

/* Keeps files, names and blocks changing until told to stop. */
static void *load(void *arg)
{
	struct worker *w = arg;
	char path[32], other[32], buf[6000];
	struct uext4_file *file;

	sprintf(other, "/renamed%u", w->id);
	for (unsigned i = 0; !w->wrong && !atomic_load(&stop_load); i++) {
		size_t len = 1 + (size_t)rand_r(&w->seed) % sizeof(buf);

		sprintf(path, "/file%u-%u", w->id, i % 7);
		pattern_fill(buf, len, w->id, 0);
		if (uext4_open(mounted, NULL, path, O_RDWR | O_CREAT | (i % 2 ? O_TRUNC : O_APPEND), 0644, &file)) {
			w->wrong = "open";
			break;
		}
		if (uext4_pwrite(file, buf, len, i % 3 * 9000) != (ssize_t)len)
			w->wrong = "write";
		if (i % 8 == 3 && uext4_fsync(file))
			w->wrong = "fsync";
		if (uext4_close(file))
			w->wrong = "close";
		if (i % 5 == 2 && uext4_rename(mounted, NULL, path, other, 0))
			w->wrong = "rename";
		if (i % 7 == 6 && uext4_unlink(mounted, NULL, path) && i % 5 != 2)
			w->wrong = "unlink";
	}
	if (!w->wrong)
		w->wrong = write_last(w->id, unmount_round);
	return NULL;
}

static void run_load(void)
{
	const unsigned round = unmount_round;
	const struct timespec while_busy = { .tv_nsec = 1000000 * (round % 4) };
	struct worker workers[THREADS];

	atomic_store(&stop_load, false);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .id = i, .seed = round * THREADS + i };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, load, &workers[i]), 0);
	}
	nanosleep(&while_busy, NULL);
	atomic_store(&stop_load, true);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].wrong)
			fprintf(stderr, "round %u, thread %u: %s\n", round, i, workers[i].wrong);
		assert_null(workers[i].wrong);
	}
}

static void copy_image(char *bytes, bool to_file)
{
	FILE *f = fopen(img.path, to_file ? "w" : "r");
	size_t len = (size_t)MOUNT_MB << 20;

	assert_non_null(f);
	assert_int_equal(to_file ? fwrite(bytes, 1, len, f) : fread(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* Goal: whatever threads have just done, and commits, writeback and checkpoints have not, an unmount leaves a clean image with all of it. */
static void unmounting_after_load_is_clean_each_time(void **state)
{
	const struct uext4_options opt = { .struct_bytes = sizeof(opt), .mount_options = "cache_size=8M" };
	char *bytes = malloc((size_t)MOUNT_MB << 20);

	assert_non_null(bytes);
	image_make(&img, "-t ext4 -b 1024 -O orphan_file", MOUNT_MB);
	copy_image(bytes, false);
	for (unmount_round = 0; unmount_round < UNMOUNTS; unmount_round++) {
		assert_int_equal(uext4_open_memory(bytes, (uint64_t)MOUNT_MB << 20, &opt, &mounted), 0);
		for (unsigned i = 0; unmount_round > 0 && i < THREADS; i++)
			expect_last(i, unmount_round - 1);
		run_load();
		assert_int_equal(uext4_close_fs(mounted), 0);
		copy_image(bytes, true);
		image_check(&img);
	}
	image_remove(&img);
	free(bytes);
}

int main(void)
{
#define ON_IMAGE(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		ON_IMAGE(threads_in_directories_of_their_own),
		ON_IMAGE(threads_in_shared_directories),
		ON_IMAGE(directories_moved_about_by_threads),
		ON_IMAGE(one_file_written_by_threads),
		ON_IMAGE(a_symlink_is_read_while_its_xattrs_change),
		cmocka_unit_test(unmounting_after_load_is_clean_each_time),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
