/* SPDX-License-Identifier: MIT */
/*
 * Journals written by debugfs and by the Linux kernel: after recovery every block of the image is what e2fsck's
 * replay of a copy makes of it. Needs e2fsprogs; the kernel's part needs root and loop devices. Skipped otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image_memory.h"

#include "block/block.h"
#include "cache/buffer.h"
#include "cache/cache.h"
#include "jbd2/jbd2.h"

#define TOOLS_PATH "export PATH=$PATH:/sbin:/usr/sbin; "

struct oracle {
	char dir[64];
	uint32_t block_bytes;
	fsblk_t *log;        /* blocks of the journal inode, in order */
	uint32_t log_blocks;
	bool *is_log;        /* of each block of the image */
	uint8_t *ours, *theirs;
	uint64_t image_bytes;
	struct journal_recovery_info info;
	char last_error[256];
};

/* Runs a shell script in the test's directory; its exit code. */
static int run(const struct oracle *o, const char *script)
{
	char command[4096];
	int status;

	assert_true(snprintf(command, sizeof(command), "cd %s && { " TOOLS_PATH "%s\n} >>log 2>&1", o->dir, script) <
		    (int)sizeof(command));
	status = system(command);
	return status < 0 || !WIFEXITED(status) ? 255 : WEXITSTATUS(status);
}

static void oracle_init(struct oracle *o, uint32_t block_bytes)
{
	*o = (struct oracle){ .dir = "/tmp/uext4-recovery-XXXXXX", .block_bytes = block_bytes };
	assert_non_null(mkdtemp(o->dir));
	if (run(o, "command -v mke2fs && command -v debugfs && command -v e2fsck")) {
		rmdir(o->dir);
		print_message("skipped: no e2fsprogs\n");
		skip();
	}
}

static void oracle_exit(struct oracle *o)
{
	run(o, "rm -rf \"$PWD\"");
	free(o->log);
	free(o->is_log);
	image_memory_free(o->ours);
	image_memory_free(o->theirs);
}

static uint8_t *load(const struct oracle *o, const char *name, uint64_t *bytes_out)
{
	char path[128];
	uint8_t *image;
	FILE *f;
	long bytes;

	snprintf(path, sizeof(path), "%s/%s", o->dir, name);
	f = fopen(path, "rb");
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	bytes = ftell(f);
	rewind(f);
	image = image_memory((size_t)bytes);
	assert_int_equal(fread(image, 1, (size_t)bytes, f), bytes);
	fclose(f);
	*bytes_out = (uint64_t)bytes;
	return image;
}

static void load_log_blocks(struct oracle *o)
{
	char path[128];
	unsigned long long blk;
	FILE *f;

	/* -c: what is home before the journal is replayed may not agree, as a bitmap with the checksum in its descriptor. */
	assert_int_equal(run(o, "debugfs -c -R 'blocks <8>' ours >blocks"), 0);
	snprintf(path, sizeof(path), "%s/blocks", o->dir);
	f = fopen(path, "r");
	assert_non_null(f);
	o->log = calloc(1u << 20, sizeof(*o->log));
	assert_non_null(o->log);
	while (o->log_blocks < 1u << 20 && fscanf(f, "%llu", &blk) == 1)
		o->log[o->log_blocks++] = blk;
	fclose(f);
	assert_true(o->log_blocks >= 1024);
}

static int map_log_block(void *arg, uint32_t index, fsblk_t *blk_out)
{
	const struct oracle *o = arg;

	*blk_out = o->log[index];
	return 0;
}

static void keep_error(void *arg, int level, const char *text)
{
	struct oracle *o = arg;

	if (level == LOG_ERROR)
		snprintf(o->last_error, sizeof(o->last_error), "%s", text);
}

static int recover(struct oracle *o)
{
	static struct counters counters;
	struct log_sink sink = { keep_error, o };
	struct cache_options options = { .limit_bytes = 16u << 20, .counters = &counters, .log = &sink };
	struct journal_params params;
	struct block_device *dev;
	struct buffer_cache *bc;
	struct cache *cache;
	struct journal *j;
	int err;

	assert_int_equal(block_open_memory(o->image_bytes, o->ours, &dev), 0);
	assert_int_equal(cache_create(&options, &cache), 0);
	assert_int_equal(buffer_cache_create(cache, dev, o->block_bytes, &sink, &bc), 0);
	params = (struct journal_params){
		.log_dev = dev, .map_log_block = map_log_block, .map_arg = o, .log_blocks = o->log_blocks,
		.block_bytes = o->block_bytes, .bc = bc, .fs_blocks = o->image_bytes / o->block_bytes,
		.counters = &counters, .log = &sink, .barriers = true,
	};
	assert_int_equal(journal_open(&params, &j), 0);
	assert_true(journal_needs_recovery(j));
	err = journal_recover(j, &o->info);
	assert_int_equal(journal_close(j), 0);
	buffer_cache_destroy(bc);
	cache_destroy(cache);
	assert_int_equal(block_close(dev), 0);
	return err;
}

static void mark_log_blocks(struct oracle *o)
{
	o->is_log = calloc(o->image_bytes / o->block_bytes, sizeof(*o->is_log));
	assert_non_null(o->is_log);
	for (uint32_t i = 0; i < o->log_blocks; i++) {
		assert_true(o->log[i] < o->image_bytes / o->block_bytes);
		o->is_log[o->log[i]] = true;
	}
}

/* Both copies of one dirty image, `ours` and `theirs`; blocks that e2fsck changes beyond the replay are left out. */
static void compare_with_e2fsck(struct oracle *o)
{
	uint64_t bytes, replayed = 0;
	uint8_t *before;

	load_log_blocks(o);
	o->ours = load(o, "ours", &o->image_bytes);
	mark_log_blocks(o);
	before = load(o, "ours", &bytes);
	assert_true(run(o, "timeout 60 e2fsck -y -E journal_only theirs") <= 1);
	o->theirs = load(o, "theirs", &bytes);
	assert_int_equal(bytes, o->image_bytes);
	if (recover(o))
		fail_msg("recovery failed: %s", o->last_error);
	for (fsblk_t blk = 0; blk < o->image_bytes / o->block_bytes; blk++) {
		size_t pos = blk * o->block_bytes;
		bool has_super = blk == 1024 / o->block_bytes; /* the flag needs_recovery, times and counts */

		if (has_super || o->is_log[blk])
			continue;
		replayed += memcmp(o->ours + pos, before + pos, o->block_bytes) != 0;
		if (memcmp(o->ours + pos, o->theirs + pos, o->block_bytes))
			fail_msg("block %llu differs from e2fsck's", (unsigned long long)blk);
	}
	assert_true(replayed > 0);
	image_memory_free(before);
}

/* ---- debugfs ---- */

/* Blocks 9000 and up are free in a fresh image. Block 9001 escaped, 9003 revoked, 9004 again; the last uncommitted. */
static const char *const debugfs_log =
	"head -c $((8 * BS)) /dev/urandom >a; head -c $((8 * BS)) /dev/urandom >b\n"
	"printf '\\300\\073\\071\\230' | dd of=a bs=1 seek=$BS conv=notrunc\n"
	"cat >script <<END\n"
	"jo $JO\n"
	"jw -b 9000,9001,9002,9003,9004,9005,9006,9007 a\n"
	"jw -r 9003,9004\n"
	"jw -b 9002,9004,9010 b\n"
	"jw -r 9010\n"
	"jw -b 9006,9007 -c b\n"
	"jc\n"
	"END\n"
	"debugfs -w -f script ours && cp ours theirs";

static void run_debugfs(uint32_t block_bytes, const char *features, const char *journal_options)
{
	char script[2048];
	struct oracle o;

	oracle_init(&o, block_bytes);
	snprintf(script, sizeof(script),
		 "BS=%u; JO='%s'; mke2fs -q -F -t ext4 -b $BS -J size=%u -O '%s' ours 64M && %s",
		 block_bytes, journal_options, block_bytes == 1024 ? 2 : 8, features, debugfs_log);
	assert_int_equal(run(&o, script), 0);
	compare_with_e2fsck(&o);
	assert_int_equal(o.info.transactions, 4);
	assert_int_equal(o.info.revokes_seen, 3);
	oracle_exit(&o);
}

static void journals_of_debugfs_without_checksums(void **state)
{
	run_debugfs(1024, "^metadata_csum,^64bit", "");
	run_debugfs(4096, "^metadata_csum,64bit", "");
}

static void journals_of_debugfs_with_checksums(void **state)
{
	run_debugfs(1024, "metadata_csum,64bit", "-c -v 2");
	run_debugfs(1024, "metadata_csum,^64bit", "-c -v 2");
	run_debugfs(4096, "metadata_csum,64bit", "-c -v 3");
	run_debugfs(1024, "metadata_csum,^64bit", "-c -v 3");
}

/* ---- the kernel ---- */

/* Copies the image while it is mounted: what fsync committed is in its journal, and hardly any of it at home. */
static const char *const kernel_work =
	"mkdir mnt && mount -o loop,$MO image mnt || exit 77\n"
	"trap 'umount mnt' EXIT\n"
	"echo x >mnt/x; sync mnt/x\n"
	"mkdir mnt/d && for i in $(seq 300); do echo $i >mnt/d/f$i; done; sync mnt/d\n"
	"rm -rf mnt/d; mkdir mnt/e; ln -s $(seq 300) mnt/e; sync mnt/e\n"
	"rm $(seq -f mnt/e/%g 1 2 300); truncate -s 3M mnt/x; sync mnt/x\n"
	"cp --sparse=always image ours && cp ours theirs";

static void run_kernel(uint32_t block_bytes, const char *features, const char *mount_options)
{
	char script[2048];
	struct oracle o;
	int code;

	oracle_init(&o, block_bytes);
	snprintf(script, sizeof(script),
		 "MO='%s'; truncate -s 64M image; mke2fs -q -F -t ext4 -b %u -J size=4 -O '%s' image && %s",
		 mount_options, block_bytes, features, kernel_work);
	code = run(&o, script);
	if (code == 77) {
		oracle_exit(&o);
		print_message("skipped: no loop mounts here\n");
		skip();
	}
	assert_int_equal(code, 0);
	compare_with_e2fsck(&o);
	assert_true(o.info.transactions > 0 && o.info.blocks_replayed > 0);
	oracle_exit(&o);
}

static void journals_of_the_kernel(void **state)
{
	run_kernel(4096, "metadata_csum,64bit", "defaults");
	run_kernel(1024, "metadata_csum,^64bit", "defaults");
	run_kernel(1024, "^metadata_csum,^64bit", "journal_checksum");
	run_kernel(4096, "^metadata_csum,64bit", "defaults");
	run_kernel(1024, "metadata_csum,64bit", "data=journal");
	run_kernel(1024, "^metadata_csum,64bit", "journal_async_commit,data=writeback");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(journals_of_debugfs_without_checksums),
		cmocka_unit_test(journals_of_debugfs_with_checksums),
		cmocka_unit_test(journals_of_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
