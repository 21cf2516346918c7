/* SPDX-License-Identifier: MIT */
/* test_power_cut.c - faults that other file systems had after a power cut, each at the moment that matters */
#include "file_env.h"

#include <linux/falloc.h>
#include <unistd.h>

#include "base/thread.h"
#include "block/record.h"
#include "cache/cache.h"
#include "ext4/group.h"
#include "ext4/super_format.h"
#include "jbd2/csum.h"
#include "jbd2/jbd2_format.h"

#define IMAGE_MIB 8u

static struct image_env env;
static struct block_device *record; /* under env.fs */
static uint8_t *at_start;           /* what the device held when recording began */

static void begin_recording(void)
{
	at_start = image_copy(&env);
	assert_int_equal(block_open_record(image_device(&env), &record), 0);
	image_mount_on(&env, record);
}

static void begin(const char *mke2fs)
{
	memset(&env, 0, sizeof(env));
	image_create(&env, mke2fs, IMAGE_MIB);
	image_unmount(&env);
	begin_recording();
}

static void finish(void)
{
	if (env.fs)
		image_check(&env);
	image_destroy(&env);
	image_memory_free(at_start);
}

/* What a power cut before entry @cut leaves, mounted. */
static void recover(struct image_env *after, size_t cut, enum record_cut_kind kind, uint64_t seed)
{
	*after = env;
	after->fs = NULL;
	after->bytes = image_memory_copy(at_start, env.size_bytes);
	record_build_image(record, cut, kind, seed, after->bytes);
	image_mount(after);
}

/* The power fails now, and nothing that was not flushed is there. */
static void recover_now(struct image_env *after)
{
	recover(after, record_count(record), RECORD_CUT_DROPS_UNFLUSHED, 0);
}

static void end_recovered(struct image_env *after, bool check)
{
	if (check)
		image_check(after);
	else
		image_unmount(after);
	image_memory_free(after->bytes);
}

/* ---- what a sync promises ---- */

static const char *const forms[] = { "-t ext4 -b 1024", "-t ext4 -b 4096", "-t ext3 -b 1024", "-t ext4 -b 1024 -O ^has_journal", "-t ext2 -b 1024" };

static void expect_patterns(struct image_env *after, uint64_t size, uint64_t middle, size_t middle_len)
{
	struct inode *inode = image_lookup(after, after->root, "file");

	assert_int_equal(inode_size(inode), size);
	assert_pattern(inode, 0, middle, 1);
	assert_pattern(inode, middle, middle_len, 2);
	if (size > middle + middle_len)
		assert_pattern(inode, middle + middle_len, size - middle - middle_len, 1);
	image_put(inode);
}

/*
 * Goal:   an O_SYNC or O_DSYNC write makes earlier writes to the file durable too, and its size.
 * Method: plain writes, then a synchronous one at the end, or in the middle; power cut at once.
 */
static void a_synchronous_write_takes_earlier_ones_along(void **state)
{
	const unsigned flags[] = { FILE_WRITE_SYNC | FILE_WRITE_DSYNC, FILE_WRITE_DSYNC };
	uint8_t buf[700];

	for (size_t i = 0; i < ARRAY_SIZE(forms) * 4; i++) {
		bool at_end = i & 1;
		uint64_t pos = at_end ? 50000 : 20000;
		struct image_env after;
		struct inode *inode;

		print_message("form: %s\n", forms[i / 4]);
		begin(forms[i / 4]);
		inode = image_mkfile(env.root, "file");
		assert_int_equal(ext4_sync(env.fs), 0);
		file_put_pattern(inode, 0, 30000, 1);
		file_put_pattern(inode, 30000, 20000, 1);
		pattern_fill(buf, pos, sizeof(buf), 2);
		assert_int_equal(file_put(inode, pos, buf, sizeof(buf), flags[i / 2 % 2]), sizeof(buf));
		recover_now(&after);
		expect_patterns(&after, at_end ? 50000 + sizeof(buf) : 50000, pos, sizeof(buf));
		end_recovered(&after, true);
		image_put(inode);
		finish();
	}
}

/*
 * Goal:   an inode that was dropped from memory and loaded again is as durable after fsync as one that never left.
 * Method: data and a mode are changed, the inode goes and comes back before any commit, fsync or fdatasync; power cut at once.
 */
static void fsync_covers_what_an_inode_changed_before_it_was_reloaded(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms) * 2; i++) {
		const struct setattr_args args = { .valid = SETATTR_MODE, .mode = 0600 };
		struct image_env after;
		struct inode *inode;

		begin(forms[i / 2]);
		inode = image_mkfile(env.root, "file");
		assert_int_equal(ext4_sync(env.fs), 0);
		file_put_pattern(inode, 0, 20000, 1);
		rwsem_write_lock(&inode->rwsem);
		assert_int_equal(namei_setattr(inode, &args), 0);
		rwsem_write_unlock(&inode->rwsem);
		inode = file_reload(&env, inode);
		assert_int_equal(file_fsync(inode, i % 2), 0);
		recover_now(&after);
		image_put(inode);
		inode = image_lookup(&after, after.root, "file");
		assert_int_equal(inode_size(inode), 20000);
		assert_pattern(inode, 0, 20000, 1);
		assert_int_equal(inode->mode & 07777, 0600);
		image_put(inode);
		end_recovered(&after, true);
		finish();
	}
}

/*
 * Goal:   without a journal an fsync after fallocate and a write has the inode and its extents on disk.
 * Method: the file fills several extents, so that the tree has blocks of its own; power cut at once.
 */
static void without_a_journal_fsync_keeps_what_was_preallocated(void **state)
{
	struct image_env after;
	struct inode *inode;
	uint32_t extents;

	begin("-t ext4 -b 1024 -O ^has_journal");
	inode = image_mkfile(env.root, "file");
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(file_fallocate(inode, 0, i * 20480, 10240), 0);
	file_put_pattern(inode, 3 * 20480 + 1024, 5000, 1);
	assert_int_equal(file_fsync(inode, false), 0);
	extents = extent_count(inode);
	recover_now(&after);
	image_put(inode);
	inode = image_lookup(&after, after.root, "file");
	assert_int_equal(inode_size(inode), 7 * 20480 + 10240);
	assert_int_equal(extent_count(inode), extents);
	assert_zeros(inode, 0, 3 * 20480 + 1024);
	assert_pattern(inode, 3 * 20480 + 1024, 5000, 1);
	assert_zeros(inode, 4 * 20480, 3 * 20480 + 10240);
	image_put(inode);
	end_recovered(&after, true);
	finish();
}

/* ---- blocks in their second life ---- */

#define NAMES 120u
#define OLD_BLOCKS_MAX 64u

static void long_name(char *buf, unsigned n)
{
	snprintf(buf, 128, "%03u-%0100u", n, n);
}

/* A directory of many blocks, all of them in the log. */
static struct inode *large_directory(fsblk_t *blks, uint32_t *count_out)
{
	struct inode *dir = image_mkdir(env.root, "dir");
	char name[128];

	for (unsigned i = 0; i < NAMES; i++) {
		long_name(name, i);
		image_put(image_mkfile(dir, name));
	}
	*count_out = (uint32_t)(inode_size(dir) / env.fs->block_bytes);
	assert_in_range(*count_out, 10, OLD_BLOCKS_MAX);
	for (uint32_t i = 0; i < *count_out; i++) {
		struct map_result r;

		assert_int_equal(map_lookup(dir, i, 1, &r), 0);
		blks[i] = r.blk;
	}
	assert_int_equal(ext4_sync(env.fs), 0);
	return dir;
}

static void remove_directory(struct inode *dir)
{
	char name[128];

	for (unsigned i = 0; i < NAMES; i++) {
		struct inode *inode;

		long_name(name, i);
		inode = image_lookup(&env, dir, name);
		rwsem_write_lock(&inode->rwsem);
		assert_int_equal(image_unlink(dir, name, inode), 0);
		rwsem_write_unlock(&inode->rwsem);
		image_put(inode);
	}
	rwsem_write_lock(&dir->rwsem);
	assert_int_equal(image_rmdir(env.root, "dir", dir), 0);
	rwsem_write_unlock(&dir->rwsem);
	image_put(dir);
}

/* All free blocks become data of one file. Returns its size. */
static uint64_t fill_disk(struct inode *inode)
{
	static uint8_t buf[65536];
	uint64_t pos = 0;
	ssize_t n;

	for (;;) {
		pattern_fill(buf, pos, sizeof(buf), 3);
		n = file_put(inode, pos, buf, sizeof(buf), 0);
		if (n <= 0)
			break;
		pos += (uint64_t)n;
	}
	assert_int_equal(n, -ENOSPC);
	return pos;
}

static bool holds_block(struct inode *inode, fsblk_t blk)
{
	struct file_extent extents[256];
	uint32_t count;
	uint64_t pos = blk * env.fs->block_bytes;

	assert_int_equal(file_fiemap(inode, 0, INT64_MAX, true, extents, ARRAY_SIZE(extents), &count), 0);
	for (uint32_t i = 0; i < count; i++)
		if (pos >= extents[i].physical_bytes && pos < extents[i].physical_bytes + extents[i].len_bytes)
			return true;
	return false;
}

/*
 * Goal:   J3 for every block of a large free: none is replayed over the file data that took its place.
 * Method: a directory of many blocks is in the log; it is removed, its blocks become data of a file; power cut, with the
 *         log as it is. The same for ext3, whose directories have mapping blocks.
 */
static void blocks_of_a_freed_directory_keep_file_data(void **state)
{
	const char *const journaled[] = { "-t ext4 -b 1024", "-t ext3 -b 1024 -I 128" };

	for (size_t i = 0; i < ARRAY_SIZE(journaled); i++) {
		fsblk_t old[OLD_BLOCKS_MAX];
		uint32_t count, reused = 0;
		struct image_env after;
		struct inode *inode;
		uint64_t size;

		begin(journaled[i]);
		remove_directory(large_directory(old, &count));
		assert_int_equal(ext4_sync(env.fs), 0);
		assert_true(counter_read(env.fs->counters, CNT_JOURNAL_REVOKES) >= count);
		inode = image_mkfile(env.root, "file");
		size = fill_disk(inode);
		assert_int_equal(file_fsync(inode, false), 0);
		for (uint32_t b = 0; b < count; b++)
			reused += holds_block(inode, old[b]);
		assert_in_range(reused, count / 2, count); /* the others became the file's own tree */
		assert_int_equal(counter_read(env.fs->counters, CNT_JOURNAL_CHECKPOINTS), 0); /* all is in the log */
		image_put(inode);
		for (int kind = RECORD_CUT_KEEPS_ALL; kind <= RECORD_CUT_DROPS_UNFLUSHED; kind++) {
			recover(&after, record_count(record), (enum record_cut_kind)kind, 0);
			inode = image_lookup(&after, after.root, "file");
			assert_pattern(inode, 0, size, 3);
			image_put(inode);
			end_recovered(&after, true);
		}
		finish();
	}
}

/* ---- ENOSPC ---- */

/* What is left is kept for metadata. */
static void fill_with_data(void)
{
	struct inode *inode = image_mkfile(env.root, "filler");

	fill_disk(inode);
	assert_int_equal(file_fsync(inode, false), 0);
	image_put(inode);
}

/* Creates until there is no room. Returns how many there are. */
static unsigned create_until_full(uint16_t mode, char kind, int width)
{
	char name[128];
	unsigned n = 0;
	int err;

	do {
		snprintf(name, sizeof(name), "%c%0*u", kind, width, n);
		err = image_create_node(env.root, name, mode, NULL);
		n += !err;
	} while (!err);
	assert_int_equal(err, -ENOSPC);
	return n;
}

static void expect_sound_now(uint64_t free_inodes)
{
	struct image_env after;

	recover_now(&after);
	assert_int_equal(groups_free_inodes(after.fs), free_inodes);
	assert_int_equal(le32_get(fs_super(after.fs)->s_last_orphan), 0);
	end_recovered(&after, true);
}

/*
 * Goal:   a create that fails for lack of room leaves no inode behind, after a power cut neither.
 * Method: on a full disk, directories, which need a block after they have their inode; then files, until the directory
 *         that they are in would have to grow. Commit, power cut, e2fsck.
 */
static void a_create_without_room_leaves_no_inode_behind(void **state)
{
	const char *const kinds[] = { "-t ext4 -b 1024 -N 1024 -O orphan_file", "-t ext4 -b 1024 -N 1024", "-t ext3 -b 1024 -N 1024",
				      "-t ext4 -b 4096 -N 1024 -O orphan_file,^metadata_csum" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		uint64_t free_inodes;

		print_message("form: %s\n", kinds[i]);
		begin(kinds[i]);
		fill_with_data();
		free_inodes = groups_free_inodes(env.fs);
		free_inodes -= create_until_full(S_IFDIR | 0755, 'd', 1);
		assert_int_equal(ext4_sync(env.fs), 0);
		expect_sound_now(free_inodes);
		free_inodes -= create_until_full(S_IFREG | 0644, 'f', 100);
		assert_true(free_inodes > 0); /* it is blocks that are short */
		assert_int_equal(ext4_sync(env.fs), 0);
		expect_sound_now(free_inodes);
		finish();
	}
}

/* ---- appends ---- */

#define WRITERS 3u
#define APPENDS 60u
#define CUTS 40u

struct writer {
	pthread_t thread;
	struct inode *own, *shared;
	unsigned seed;
	uint64_t mark; /* says whose size was made durable */
};

static _Atomic bool stop_flushing;

static void *append_all(void *arg)
{
	struct writer *w = arg;
	uint8_t buf[5000];

	for (unsigned i = 0; i < APPENDS; i++) {
		size_t len = 1 + (size_t)rand_r(&w->seed) % sizeof(buf);
		struct inode *inode = i % 4 ? w->own : w->shared;
		struct iovec iov = { buf, len };
		struct iov_cursor from = { .iov = &iov, .iov_count = 1, .left_bytes = len };
		uint64_t pos;

		memset(buf, 1 + i % 255, len);
		if (file_write(inode, 0, &from, FILE_WRITE_APPEND, &pos) != (ssize_t)len)
			return "a write failed";
		if (inode == w->own && i % 8 == 5) {
			if (file_fsync(inode, i % 16 == 5))
				return "an fsync failed";
			record_mark(record, "durable", w->mark << 32 | (pos + len));
		}
	}
	return NULL;
}

static void *flush_all(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop_flushing)) {
		cache_writeback_all(env.fs->cache, false);
		journal_force_commit(env.fs->journal);
	}
	return NULL;
}

static void run_writers(struct writer *writers)
{
	pthread_t flusher;
	void *wrong;

	atomic_store(&stop_flushing, false);
	assert_int_equal(thread_start("flush", flush_all, NULL, &flusher), 0);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(thread_start("append", append_all, &writers[i], &writers[i].thread), 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, &wrong);
		assert_null(wrong);
	}
	atomic_store(&stop_flushing, true);
	pthread_join(flusher, NULL);
}

/* The size of each writer's file that was durable before the cut. */
static void durable_sizes(size_t cut, uint64_t sizes[WRITERS])
{
	memset(sizes, 0, WRITERS * sizeof(sizes[0]));
	for (size_t i = 0; i < cut; i++) {
		const struct record_entry *e = record_get(record, i);

		if (e->is_mark)
			sizes[e->mark_value >> 32] = (uint32_t)e->mark_value;
	}
}

static void expect_no_zeros(struct image_env *after, const char *name, uint64_t size_min)
{
	struct inode *inode = image_lookup(after, after->root, name);
	uint64_t size = inode_size(inode);
	uint8_t *bytes = malloc(size + 1);

	assert_non_null(bytes);
	assert_true(size >= size_min);
	assert_int_equal(file_get(inode, 0, bytes, size), size);
	assert_null(memchr(bytes, 0, size));
	free(bytes);
	image_put(inode);
}

/*
 * Goal:   whatever is appended by threads while the flusher and commits run, no zero shows below a size that survives, and
 *         none smaller than what fsync promised.
 * Method: no byte that is written is zero; the record of writes is cut at places spread over it.
 */
static void appends_of_threads_leave_no_zeros(void **state)
{
	const char *const kinds[] = { "-t ext4 -b 1024", "-t ext4 -b 4096", "-t ext3 -b 1024" };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct writer writers[WRITERS] = { 0 };
		uint64_t sizes[WRITERS];
		struct inode *shared;
		size_t first, end;
		char name[] = "own0";

		begin(kinds[k]);
		shared = image_mkfile(env.root, "shared");
		for (unsigned i = 0; i < WRITERS; i++) {
			name[3] = (char)('0' + i);
			writers[i] = (struct writer){ .own = image_mkfile(env.root, name), .shared = shared, .seed = i + 1, .mark = i };
		}
		assert_int_equal(ext4_sync(env.fs), 0);
		first = record_count(record);
		run_writers(writers);
		end = record_count(record);
		for (unsigned c = 0; c < CUTS; c++) {
			size_t cut = first + (end - first) * c / (CUTS - 1);
			struct image_env after;

			recover(&after, cut, c % 2 ? RECORD_CUT_RANDOM : RECORD_CUT_DROPS_UNFLUSHED, c);
			durable_sizes(cut, sizes);
			for (unsigned i = 0; i < WRITERS; i++) {
				name[3] = (char)('0' + i);
				expect_no_zeros(&after, name, sizes[i]);
			}
			expect_no_zeros(&after, "shared", 0);
			end_recovered(&after, c % 8 == 0);
		}
		for (unsigned i = 0; i < WRITERS; i++)
			image_put(writers[i].own);
		image_put(shared);
		finish();
	}
}

/* ---- transactions past 2^32 ---- */

#define TIDS_BEFORE_WRAP 12u

/* The first block that is a journal's superblock. */
static struct journal_superblock *journal_super(void)
{
	for (uint64_t pos = 0; pos < env.size_bytes; pos += 1024) {
		struct journal_superblock *sb = (void *)(env.bytes + pos);

		if (be32_get(sb->s_header.h_magic) == JBD2_MAGIC && be32_get(sb->s_header.h_blocktype) == JBD2_SUPERBLOCK_V2)
			return sb;
	}
	fail_msg("no journal");
	return NULL;
}

/*
 * Goal:   fsync and recovery work across the largest sequence number, for inodes that this mount never changed too.
 * Method: a journal a few commits before it; files made durable one by one; power cut after each.
 */
static void sequence_numbers_wrap_under_fsyncs(void **state)
{
	struct journal_superblock *sb;
	struct inode *old;
	char name[16];

	memset(&env, 0, sizeof(env));
	image_create(&env, "-t ext4 -b 1024", IMAGE_MIB);
	image_put(image_mkfile(env.root, "old"));
	image_unmount(&env);
	sb = journal_super();
	sb->s_sequence = be32_make(UINT32_MAX - TIDS_BEFORE_WRAP);
	journal_superblock_csum_set(sb);
	begin_recording();
	old = image_lookup(&env, env.root, "old");
	for (unsigned i = 0; i < 2 * TIDS_BEFORE_WRAP; i++) {
		struct image_env after;
		struct inode *inode;

		snprintf(name, sizeof(name), "file%u", i);
		inode = image_mkfile(env.root, name);
		file_put_pattern(inode, 0, 3000, 1);
		assert_int_equal(file_fsync(old, false), 0);
		assert_int_equal(file_fsync(inode, false), 0);
		image_put(inode);
		recover_now(&after);
		for (unsigned n = 0; n <= i; n++) {
			snprintf(name, sizeof(name), "file%u", n);
			inode = image_lookup(&after, after.root, name);
			assert_int_equal(inode_size(inode), 3000);
			assert_pattern(inode, 0, 3000, 1);
			image_put(inode);
		}
		end_recovered(&after, i % 4 == 0);
	}
	assert_true(tid_gt(journal_running_tid(env.fs->journal), TIDS_BEFORE_WRAP / 2));
	image_put(old);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_synchronous_write_takes_earlier_ones_along),
		cmocka_unit_test(fsync_covers_what_an_inode_changed_before_it_was_reloaded),
		cmocka_unit_test(without_a_journal_fsync_keeps_what_was_preallocated),
		cmocka_unit_test(blocks_of_a_freed_directory_keep_file_data),
		cmocka_unit_test(a_create_without_room_leaves_no_inode_behind),
		cmocka_unit_test(appends_of_threads_leave_no_zeros),
		cmocka_unit_test(sequence_numbers_wrap_under_fsyncs),
	};

	if (!image_tools_exist())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
