/* SPDX-License-Identifier: MIT */
/* test_file_logged.c - data that goes through the log: reads, power cuts, the life of its blocks, the flag +j */
#include "file_env.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "base/thread.h"
#include "block/record.h"
#include "cache/cache.h"
#include "jbd2/jbd2_format.h"

static struct image_env env;
static struct block_device *record; /* under env.fs */
static uint8_t *at_start;           /* what the device held when recording began */

static const char *const kinds[] = { "-t ext4 -b 1024 -J size=1", "-t ext4 -b 4096 -J size=4", "-t ext3 -b 1024 -J size=1" };

/* An image, and a mount with @data on a device that remembers all writes. */
static void begin(const char *mke2fs, unsigned mib, enum ext4_data_mode data)
{
	memset(&env, 0, sizeof(env));
	image_create(&env, mke2fs, mib);
	image_unmount(&env);
	env.opt.data = data;
	at_start = image_copy(&env);
	assert_int_equal(block_open_record(image_device(&env), &record), 0);
	image_mount_on(&env, record);
}

static void finish(void)
{
	image_check(&env);
	image_destroy(&env);
	image_memory_free(at_start);
}

static uint8_t *bytes_after_cut(size_t cut)
{
	uint8_t *bytes = image_memory_copy(at_start, env.size_bytes);

	record_build_image(record, cut, RECORD_CUT_DROPS_UNFLUSHED, 0, bytes);
	return bytes;
}

/* The power fails now; what was not flushed is not there. */
static void recover_now(struct image_env *after)
{
	*after = env;
	after->fs = NULL;
	after->bytes = bytes_after_cut(record_count(record));
	image_mount(after);
}

static void end_recovered(struct image_env *after)
{
	image_check(after);
	image_memory_free(after->bytes);
}

static uint64_t count_of(enum counter_id id)
{
	return counter_read(env.fs->counters, id);
}

static void set_logged(struct inode *inode, bool logged)
{
	struct setattr_args args = { .valid = SETATTR_FLAGS, .flags = inode->flags & ~EXT4_JOURNAL_DATA_FL };

	if (logged)
		args.flags |= EXT4_JOURNAL_DATA_FL;
	rwsem_write_lock(&inode->rwsem);
	assert_int_equal(namei_setattr(inode, &args), 0);
	rwsem_write_unlock(&inode->rwsem);
}

static void drop_folios(struct inode *inode)
{
	assert_int_equal(file_flush(inode), 0);
	mapping_drop_clean(&inode->mapping, 0, UINT64_MAX);
	assert_int_equal(atomic_load(&inode->mapping.nr_pages), 0);
}

static bool has_pattern(struct inode *inode, uint64_t pos, size_t len, unsigned tag)
{
	uint8_t *want = malloc(len), *got = malloc(len);
	bool same;

	assert_true(want && got);
	pattern_fill(want, pos, len, tag);
	same = file_get(inode, pos, got, len) == (ssize_t)len && !memcmp(want, got, len);
	free(want);
	free(got);
	return same;
}

/* ---- reads ---- */

static int deliver(void *arg)
{
	(void)arg;
	return 0;
}

static void expect_uncached(struct inode *inode, uint64_t pos, size_t len, unsigned tag)
{
	uint8_t *want = malloc(len), *got = aligned_alloc(4096, len);
	struct iovec iov = { got, len };
	struct iov_cursor to = { .iov = &iov, .iov_count = 1, .left_bytes = len };

	assert_true(want && got);
	pattern_fill(want, pos, len, tag);
	assert_int_equal(file_read(inode, pos, &to, FILE_READ_UNCACHED), len);
	assert_memory_equal(got, want, len);
	free(want);
	free(got);
}

/*
 * Goal:   what is in the log alone reads back, by every way to read; none sees what the device holds.
 * Method: no checkpoint has run; folios are dropped before each read. A write in part of a block keeps the rest.
 */
static void what_is_only_in_the_log_reads_back(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct inode *inode;
		int fds[2];

		begin(kinds[i], 24, DATA_JOURNAL);
		inode = image_mkfile(env.root, "file");
		file_put_pattern(inode, 0, 300000, 1);
		assert_int_equal(file_fsync(inode, false), 0);
		drop_folios(inode);
		assert_pattern(inode, 0, 300000, 1);
		drop_folios(inode);
		expect_uncached(inode, 0, 262144, 1);
		drop_folios(inode);
		assert_int_equal(pipe(fds), 0);
		assert_int_equal(file_splice_read(inode, 0, 65536, fds[1], deliver, NULL), -EOPNOTSUPP);
		close(fds[0]);
		close(fds[1]);
		file_put_pattern(inode, 5000, 100, 2);
		drop_folios(inode);
		assert_pattern(inode, 0, 5000, 1);
		assert_pattern(inode, 5000, 100, 2);
		assert_pattern(inode, 5100, 294900, 1);
		assert_int_equal(count_of(CNT_WB_BYTES_WRITTEN), 0);
		assert_int_equal(count_of(CNT_JOURNAL_DATA_PAGES_BY_COMMIT), 0);
		assert_true(count_of(CNT_JOURNAL_DATA_BLOCKS_LOGGED) >= 300000 / env.fs->block_bytes);
		assert_true(count_of(CNT_JOURNAL_BLOCKS_LOGGED) >= 300000 / env.fs->block_bytes);
		assert_int_equal(journal_checkpoint_all(env.fs->journal), 0);
		drop_folios(inode);
		assert_pattern(inode, 5100, 294900, 1);
		image_put(inode);
		finish();
	}
}

/* Goal: writes that would pass the cache by go through the log as well. */
static void uncached_writes_are_logged(void **state)
{
	size_t len = 512 << 10;
	uint8_t *buf = aligned_alloc(4096, len);
	struct inode *inode;

	assert_non_null(buf);
	pattern_fill(buf, 0, len, 1);
	begin(kinds[0], 24, DATA_JOURNAL);
	inode = image_mkfile(env.root, "file");
	assert_int_equal(file_put(inode, 0, buf, len, FILE_WRITE_UNCACHED), len);
	assert_true(count_of(CNT_JOURNAL_DATA_BLOCKS_LOGGED) >= len / 1024);
	assert_int_equal(count_of(CNT_WB_BYTES_WRITTEN), 0);
	drop_folios(inode);
	assert_pattern(inode, 0, len, 1);
	image_put(inode);
	finish();
	free(buf);
}

/* ---- power cuts ---- */

static bool kernel_mounts(void)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "M=$(mktemp -d) && { mount -o loop %s $M 2>/dev/null && umount $M; R=$?; rmdir $M; exit $R; }", env.path);
	return geteuid() == 0 && system(command) == 0;
}

/* By the kernel, where we may mount: its copy of the file is that of the pattern. */
static void expect_kernel_agrees(const char *name, size_t len, unsigned tag)
{
	uint8_t *bytes = bytes_after_cut(record_count(record)), *want = malloc(len), *got = malloc(len);
	char image[] = "/tmp/uext4-logged-XXXXXX", command[512], copy[64];
	int fd = mkstemp(image);

	assert_true(fd >= 0 && want && got);
	assert_int_equal(write(fd, bytes, env.size_bytes), env.size_bytes);
	close(fd);
	snprintf(copy, sizeof(copy), "%s.copy", image);
	snprintf(command, sizeof(command),
		 "M=$(mktemp -d) && { mount -o loop %s $M && { cat $M/%s >%s; umount $M; }; rmdir $M; } && "
		 "e2fsck -fn %s >/dev/null 2>&1",
		 image, name, copy, image);
	if (!kernel_mounts()) {
		print_message("skipped: only root, with loop devices, can ask the kernel\n");
	} else {
		assert_int_equal(system(command), 0);
		pattern_fill(want, 0, len, tag);
		fd = open(copy, O_RDONLY);
		assert_true(fd >= 0);
		assert_int_equal(read(fd, got, len), len);
		close(fd);
		assert_memory_equal(got, want, len);
	}
	unlink(image);
	unlink(copy);
	image_memory_free(bytes);
	free(want);
	free(got);
}

/*
 * Goal:   fsync is one commit, and after it data is there, whoever replays.
 * Method: a file of many blocks, overwritten in part; power cut at once; uext4's replay and the kernel's.
 */
static void fsync_is_one_commit_that_holds_the_data(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct image_env after;
		struct inode *inode;
		uint64_t commits;

		begin(kinds[i], 24, DATA_JOURNAL);
		inode = image_mkfile(env.root, "file");
		file_put_pattern(inode, 0, 100000, 2);
		assert_int_equal(ext4_sync(env.fs), 0);
		commits = count_of(CNT_JOURNAL_COMMITS);
		file_put_pattern(inode, 0, 100000, 1);
		assert_int_equal(file_fsync(inode, true), 0);
		assert_int_equal(count_of(CNT_JOURNAL_COMMITS), commits + 1);
		recover_now(&after);
		image_put(inode);
		inode = image_lookup(&after, after.root, "file");
		assert_int_equal(inode_size(inode), 100000);
		assert_pattern(inode, 0, 100000, 1);
		image_put(inode);
		end_recovered(&after);
		expect_kernel_agrees("file", 100000, 1);
		finish();
	}
}

/*
 * Goal:   what was written before a name was made is there when the name is, without any sync of the file.
 * Method: writes, an overwrite, a punched hole; then a create and a commit as the timer makes it; power cut.
 */
static void data_comes_with_the_names_made_after_it(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct image_env after;
		struct inode *inode;

		begin(kinds[i], 24, DATA_JOURNAL);
		inode = image_mkfile(env.root, "file");
		file_put_pattern(inode, 0, 60000, 1);
		assert_int_equal(file_fsync(inode, false), 0);
		file_put_pattern(inode, 10000, 100, 2);
		file_put_pattern(inode, 70000, 9000, 1);
		assert_int_equal(file_fallocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 20100, 9000), 0);
		image_put(image_mkfile(env.root, "later"));
		assert_int_equal(journal_force_commit(env.fs->journal), 0);
		recover_now(&after);
		image_put(inode);
		assert_int_not_equal(image_find(after.root, "later"), 0);
		inode = image_lookup(&after, after.root, "file");
		assert_int_equal(inode_size(inode), 79000);
		assert_pattern(inode, 0, 10000, 1);
		assert_pattern(inode, 10000, 100, 2);
		assert_pattern(inode, 10100, 10000, 1);
		assert_zeros(inode, 20100, 9000);
		assert_pattern(inode, 29100, 30900, 1);
		assert_zeros(inode, 60000, 10000);
		assert_pattern(inode, 70000, 9000, 1);
		image_put(inode);
		end_recovered(&after);
		finish();
	}
}

/* Goal: what a truncate cuts off reads as zeros when the file grows again, after a power cut too. */
static void a_cut_tail_stays_zero(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct image_env after;
		struct inode *inode;

		begin(kinds[i], 24, DATA_JOURNAL);
		inode = image_mkfile(env.root, "file");
		file_put_pattern(inode, 0, 30000, 1);
		assert_int_equal(file_fsync(inode, false), 0);
		assert_int_equal(file_resize(inode, 1500), 0);
		assert_int_equal(file_resize(inode, 9000), 0);
		file_put_pattern(inode, 12345, 10, 1);
		drop_folios(inode);
		assert_zeros(inode, 1500, 10845);
		assert_int_equal(journal_force_commit(env.fs->journal), 0);
		recover_now(&after);
		image_put(inode);
		inode = image_lookup(&after, after.root, "file");
		assert_int_equal(inode_size(inode), 12355);
		assert_pattern(inode, 0, 1500, 1);
		assert_zeros(inode, 1500, 10845);
		assert_pattern(inode, 12345, 10, 1);
		image_put(inode);
		end_recovered(&after);
		finish();
	}
}

/* Goal: blocks of data that begin as blocks of the log do come out of it as they were. */
static void data_that_looks_like_the_log_survives(void **state)
{
	const be32 magic = be32_make(JBD2_MAGIC);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct image_env after;
		uint8_t buf[65536], got[65536];
		struct inode *inode;

		begin(kinds[i], 24, DATA_JOURNAL);
		pattern_fill(buf, 0, sizeof(buf), 1);
		for (size_t at = 0; at < sizeof(buf); at += env.fs->block_bytes) {
			memcpy(buf + at, &magic, sizeof(magic));
			memset(buf + at + sizeof(magic), (int)(at / env.fs->block_bytes % 6), 4); /* of each block type */
		}
		inode = image_mkfile(env.root, "file");
		assert_int_equal(file_put(inode, 0, buf, sizeof(buf), FILE_WRITE_SYNC | FILE_WRITE_DSYNC), sizeof(buf));
		recover_now(&after);
		image_put(inode);
		inode = image_lookup(&after, after.root, "file");
		assert_int_equal(file_get(inode, 0, got, sizeof(got)), sizeof(got));
		assert_memory_equal(got, buf, sizeof(buf));
		image_put(inode);
		end_recovered(&after);
		finish();
	}
}

/*
 * Goal:   writes far larger than the log are cut to pieces that fit it, and each power cut leaves a beginning of the file.
 * Method: 6 MiB through a log of 1024 blocks; cuts spread over the record.
 */
static void a_write_larger_than_the_log_goes_in_pieces(void **state)
{
	const size_t len = 6 << 20;
	struct inode *inode;
	size_t end;

	begin(kinds[0], 24, DATA_JOURNAL);
	inode = image_mkfile(env.root, "file");
	file_put_pattern(inode, 0, len, 1);
	assert_int_equal(file_fsync(inode, false), 0);
	end = record_count(record);
	for (unsigned c = 0; c < 12; c++) {
		struct image_env after = env;
		struct inode *cut;
		uint64_t size;

		after.bytes = bytes_after_cut(end * (c + 1) / 12);
		image_mount(&after);
		if (image_find(after.root, "file")) {
			cut = image_lookup(&after, after.root, "file");
			size = inode_size(cut);
			assert_true(c < 11 || size == len);
			if (size)
				assert_pattern(cut, 0, size, 1);
			image_put(cut);
		}
		end_recovered(&after);
	}
	image_put(inode);
	finish();
}

/* ---- the life of blocks ---- */

static uint64_t fill_disk(struct inode *inode, unsigned tag)
{
	static uint8_t buf[65536];
	uint64_t pos = 0;
	ssize_t n;

	for (;;) {
		pattern_fill(buf, pos, sizeof(buf), tag);
		n = file_put(inode, pos, buf, sizeof(buf), 0);
		if (n <= 0)
			break;
		pos += (uint64_t)n;
	}
	assert_int_equal(n, -ENOSPC);
	return pos;
}

/*
 * Goal:   J3 for data: freed blocks of it are not replayed over what took their place.
 * Method: one file has the flag, its blocks are in the log; it is cut, punched, or removed; all that is free becomes data
 *         that does not go through the log; power cut with the log as it is.
 */
static void freed_blocks_are_not_replayed(void **state)
{
	for (unsigned how = 0; how < 3 * ARRAY_SIZE(kinds); how++) {
		struct inode *inode, *other;
		struct image_env after;
		uint64_t size;

		begin(kinds[how / 3], 12, DATA_ORDERED);
		inode = image_mkfile(env.root, "file");
		set_logged(inode, true);
		file_put_pattern(inode, 0, 200000, 1);
		assert_int_equal(ext4_sync(env.fs), 0);
		if (how % 3 == 0) {
			assert_int_equal(file_resize(inode, 0), 0);
		} else if (how % 3 == 1) {
			assert_int_equal(file_fallocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 200000), 0);
		} else {
			rwsem_write_lock(&inode->rwsem);
			assert_int_equal(image_unlink(env.root, "file", inode), 0);
			rwsem_write_unlock(&inode->rwsem);
		}
		image_put(inode);
		assert_int_equal(ext4_sync(env.fs), 0);
		assert_true(count_of(CNT_JOURNAL_REVOKES) >= 200000 / env.fs->block_bytes);
		other = image_mkfile(env.root, "other");
		size = fill_disk(other, 3);
		assert_int_equal(file_fsync(other, false), 0);
		image_put(other);
		recover_now(&after);
		other = image_lookup(&after, after.root, "other");
		assert_int_equal(inode_size(other), size);
		assert_pattern(other, 0, size, 3);
		image_put(other);
		end_recovered(&after);
		finish();
	}
}

/* Goal: on a full disk logged data is promised its room when it is written, as other data is. */
static void a_full_disk_refuses_the_write(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct inode *inode;
		uint64_t size;

		begin(kinds[i], 12, DATA_JOURNAL);
		inode = image_mkfile(env.root, "file");
		size = fill_disk(inode, 1);
		assert_int_equal(file_fsync(inode, false), 0);
		drop_folios(inode);
		assert_pattern(inode, 0, size, 1);
		assert_int_equal(inode->reserved_blocks, 0);
		assert_int_equal(file_resize(inode, 0), 0);
		assert_int_equal(fill_disk(inode, 2), size);
		image_put(inode);
		finish();
	}
}

/* ---- the flag ---- */

/*
 * Goal:   a file that has the flag, loses it and has it again shows what was written last, before and after a power cut.
 * Method: each time another pattern over the same blocks; folios are dropped in between; power cuts after each sync.
 */
static void the_flag_comes_and_goes(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct inode *inode, *cut;
		struct image_env after;

		begin(kinds[i], 24, DATA_ORDERED);
		inode = image_mkfile(env.root, "file");
		file_put_pattern(inode, 0, 50000, 1);
		for (unsigned turn = 0; turn < 6; turn++) {
			uint64_t logged = count_of(CNT_JOURNAL_DATA_BLOCKS_LOGGED);

			set_logged(inode, turn % 2 == 0);
			assert_pattern(inode, 0, 50000, turn + 1);
			drop_folios(inode);
			assert_pattern(inode, 0, 50000, turn + 1);
			file_put_pattern(inode, 0, 50000, turn + 2);
			assert_int_equal(file_fsync(inode, true), 0);
			assert_int_equal(count_of(CNT_JOURNAL_DATA_BLOCKS_LOGGED) > logged, turn % 2 == 0);
			drop_folios(inode);
			assert_pattern(inode, 0, 50000, turn + 2);
			recover_now(&after);
			cut = image_lookup(&after, after.root, "file");
			assert_pattern(cut, 0, 50000, turn + 2);
			image_put(cut);
			end_recovered(&after);
		}
		image_put(inode);
		finish();
	}
}

/* Goal: files made in a directory with the flag have it, and it counts. */
static void files_have_the_flag_from_their_directory(void **state)
{
	struct inode *dir, *inode;

	begin(kinds[0], 24, DATA_ORDERED);
	dir = image_mkdir(env.root, "dir");
	set_logged(dir, true);
	inode = image_mkfile(dir, "file");
	file_put_pattern(inode, 0, 5000, 1);
	assert_int_equal(count_of(CNT_JOURNAL_DATA_BLOCKS_LOGGED), 5);
	image_put(inode);
	image_put(dir);
	finish();
}

/* Goal: without a journal option and flag mean nothing; the superblock's default mount options mean data=journal. */
static void only_a_journal_can_log(void **state)
{
	struct inode *inode;
	char command[128];

	begin("-t ext4 -b 1024 -O ^has_journal", 24, DATA_JOURNAL);
	assert_int_equal(env.fs->opt.data, DATA_ORDERED);
	inode = image_mkfile(env.root, "file");
	set_logged(inode, true);
	file_put_pattern(inode, 0, 50000, 1);
	assert_int_equal(file_fsync(inode, false), 0);
	assert_int_equal(count_of(CNT_JOURNAL_DATA_BLOCKS_LOGGED), 0);
	drop_folios(inode);
	assert_pattern(inode, 0, 50000, 1);
	image_put(inode);
	finish();

	begin("-t ext4 -b 1024", 24, DATA_ORDERED);
	image_check(&env);
	snprintf(command, sizeof(command), "tune2fs -o journal_data %s >/dev/null", env.path);
	assert_int_equal(system(command), 0);
	image_reload(&env);
	image_mount(&env);
	assert_int_equal(env.fs->opt.data, DATA_JOURNAL);
	inode = image_mkfile(env.root, "file");
	file_put_pattern(inode, 0, 5000, 1);
	assert_int_equal(count_of(CNT_JOURNAL_DATA_BLOCKS_LOGGED), 5);
	image_put(inode);
	finish();
}

/* ---- threads ---- */

#define ROUNDS 150u

static _Atomic bool stop;

struct user {
	pthread_t thread;
	struct inode *inode;
	unsigned seed;
};

/* Appends to a file, and reads all of it. */
static void *use_files(void *arg)
{
	struct user *u = arg;
	uint8_t buf[3000];
	uint64_t size = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t len = 1 + (size_t)rand_r(&u->seed) % sizeof(buf);

		pattern_fill(buf, size, len, 1);
		if (file_put(u->inode, size, buf, len, 0) != (ssize_t)len)
			return "a write failed";
		size += len;
		if (i % 16 == 7 && file_fsync(u->inode, i & 32))
			return "an fsync failed";
		if (i % 8 == 3)
			mapping_drop_clean(&u->inode->mapping, 0, UINT64_MAX);
		if (i % 4 == 1 && !has_pattern(u->inode, 0, size, 1))
			return "a read got other bytes";
	}
	return NULL;
}

static void *flush_all(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		cache_writeback_all(env.fs->cache, false);
		journal_force_commit(env.fs->journal);
	}
	return NULL;
}

static void *switch_flag(void *arg)
{
	struct user *u = arg;

	for (bool logged = true; !atomic_load(&stop); logged = !logged)
		set_logged(u->inode, logged);
	return NULL;
}

/* Goal: writers, readers, the flusher, commits and a flag that comes and goes do not get in each other's way. */
static void threads_agree(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct user users[3] = { 0 };
		pthread_t flusher, switcher;
		char name[] = "file0";
		void *wrong;

		begin(kinds[i], 24, i ? DATA_JOURNAL : DATA_ORDERED);
		atomic_store(&stop, false);
		for (unsigned n = 0; n < ARRAY_SIZE(users); n++) {
			name[4] = (char)('0' + n);
			users[n] = (struct user){ .inode = image_mkfile(env.root, name), .seed = n };
			set_logged(users[n].inode, n != 0);
		}
		assert_int_equal(thread_start("flush", flush_all, NULL, &flusher), 0);
		assert_int_equal(thread_start("switch", switch_flag, &users[1], &switcher), 0);
		for (unsigned n = 0; n < ARRAY_SIZE(users); n++)
			assert_int_equal(thread_start("use", use_files, &users[n], &users[n].thread), 0);
		for (unsigned n = 0; n < ARRAY_SIZE(users); n++) {
			pthread_join(users[n].thread, &wrong);
			if (wrong)
				fail_msg("%s", (const char *)wrong);
		}
		atomic_store(&stop, true);
		pthread_join(flusher, NULL);
		pthread_join(switcher, NULL);
		for (unsigned n = 0; n < ARRAY_SIZE(users); n++)
			image_put(users[n].inode);
		finish();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_only_in_the_log_reads_back),
		cmocka_unit_test(uncached_writes_are_logged),
		cmocka_unit_test(fsync_is_one_commit_that_holds_the_data),
		cmocka_unit_test(data_comes_with_the_names_made_after_it),
		cmocka_unit_test(a_cut_tail_stays_zero),
		cmocka_unit_test(data_that_looks_like_the_log_survives),
		cmocka_unit_test(a_write_larger_than_the_log_goes_in_pieces),
		cmocka_unit_test(freed_blocks_are_not_replayed),
		cmocka_unit_test(a_full_disk_refuses_the_write),
		cmocka_unit_test(the_flag_comes_and_goes),
		cmocka_unit_test(files_have_the_flag_from_their_directory),
		cmocka_unit_test(only_a_journal_can_log),
		cmocka_unit_test(threads_agree),
	};

	if (!image_tools_exist())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
