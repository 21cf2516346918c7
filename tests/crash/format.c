/* SPDX-License-Identifier: MIT */
/* format.c - the images that workloads start from: small, full of stale bytes, with the smallest journal */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash.h"

#define STALE_BYTE 0xEE /* what the device holds where nothing was ever written */
#define MKFS_ARGS_MAX 32u
#define LOG_BLOCKS_MIN 1024u /* the smallest journal that mke2fs makes */
#define LOG_BLOCKS_MAX 2048u
#define WIPED_BYTES (64u << 10) /* mke2fs zeroes the end of a device, where RAID superblocks may lie */

const struct format formats[] = {
	{ "ext4-1k", "-t ext4", "", 1024, 0 },
	{ "ext4-4k", "-t ext4", "", 4096, 0 },
	{ "tight", "-t ext4", "", 1024, FORMAT_TIGHT },
	{ "orphan-file", "-t ext4 -O orphan_file", "", 1024, 0 },
	{ "ext3", "-t ext3", "", 1024, 0 },
	{ "ext3-tight", "-t ext3 -I 128", "", 1024, FORMAT_TIGHT },
	{ "ext4-2k", "-t ext4", "", 2048, 0 },
	{ "noextents", "-t ext4 -O ^extent,^64bit", "", 1024, 0 },
	{ "nocsum", "-t ext4 -O ^metadata_csum", "", 1024, 0 },
	{ "no64bit", "-t ext4 -O ^64bit,uninit_bg,^metadata_csum", "", 1024, 0 },
	{ "nodelalloc", "-t ext4", "nodelalloc", 1024, 0 },
	{ "writeback", "-t ext4", "data=writeback", 1024, 0 },
	{ "journal", "-t ext4", "data=journal", 1024, FORMAT_IN_ORDER },
	{ "async", "-t ext4 -O ^metadata_csum", "journal_async_commit,data=writeback", 1024, FORMAT_SHOWS_STALE },
	{ "fast-commit", "-t ext4 -O fast_commit", "", 1024, 0 },
	{ "ordered-extents", "-t ext4", "ablate=ordered-extents", 1024, 0 },
	{ "journal-4k", "-t ext4", "data=journal", 4096, FORMAT_IN_ORDER },
	{ "journal-tight", "-t ext3 -I 128", "data=journal", 1024, FORMAT_IN_ORDER | FORMAT_TIGHT },
	{ "logged-files", "-t ext4", "", 1024, FORMAT_FILES_LOGGED },
	{ "logged-tight", "-t ext4", "", 1024, FORMAT_FILES_LOGGED | FORMAT_TIGHT },
};
const unsigned format_count = sizeof(formats) / sizeof(formats[0]);

static uint64_t size_of(const struct format *format)
{
	return format->block_bytes == 1024 ? 8u << 20 : format->block_bytes == 2048 ? 12u << 20 : 20u << 20;
}

static int make_fs(const struct format *format, struct image *image)
{
	char words[512], journal[32] = "", *argv[MKFS_ARGS_MAX], *save = NULL;
	unsigned n = 0;

	if (!(format->flags & FORMAT_NO_JOURNAL))
		snprintf(journal, sizeof(journal), "-J size=%u", format->block_bytes / 1024);
	snprintf(words, sizeof(words), "mke2fs -q -F %s -b %u %s -N 256 -U 11111111-2222-3333-4444-555555555555 "
		 "-E nodiscard,hash_seed=11111111-2222-3333-4444-555555555555 %s", format->mkfs, format->block_bytes, journal,
		 image->path);
	for (char *word = strtok_r(words, " ", &save); word && n + 1 < MKFS_ARGS_MAX; word = strtok_r(NULL, " ", &save))
		argv[n++] = word;
	argv[n] = NULL;
	if (run_program(argv))
		return -EIO;
	memset(image->bytes + image->base->size_bytes - WIPED_BYTES, STALE_BYTE, WIPED_BYTES);
	return 0;
}

static int fill(struct image *image)
{
	const struct format *format = image->base->format;
	struct block_device *dev;
	struct session s = { 0 };
	int err, close_err;

	err = make_fs(format, image);
	if (!err)
		err = image_device(image, &dev);
	if (!err)
		err = crash_open(dev, format->options, &s.fs);
	if (err)
		return err;
	err = tree_prepare(&s, format->block_bytes, format->flags);
	close_err = uext4_close_fs(s.fs);
	return err ? err : close_err;
}

/* Blocks of the journal, by its inode. */
static int find_log(struct base *base, const struct image *image)
{
	char command[160];
	char line[64];
	FILE *out;

	snprintf(command, sizeof(command), "seq -f 'bmap <8> %%g' 0 %u | debugfs -f - %s 2>/dev/null", LOG_BLOCKS_MAX - 1, image->path);
	base->log_blks = calloc(LOG_BLOCKS_MAX, sizeof(*base->log_blks));
	out = base->log_blks ? popen(command, "r") : NULL;
	if (!out)
		return -ENOMEM;
	while (base->log_count < LOG_BLOCKS_MAX && fgets(line, sizeof(line), out))
		if (line[0] >= '1' && line[0] <= '9')
			base->log_blks[base->log_count++] = (uint32_t)strtoul(line, NULL, 10);
	return pclose(out) || base->log_count < LOG_BLOCKS_MIN ? -EIO : 0;
}

static int hash_chunks(struct base *base)
{
	uint64_t chunks = base->size_bytes / CHUNK_BYTES;

	base->chunk_hash = malloc(chunks * sizeof(*base->chunk_hash));
	if (!base->chunk_hash)
		return -ENOMEM;
	for (uint64_t i = 0; i < chunks; i++) {
		base->chunk_hash[i] = hash_mix(hash_bytes(base->bytes + i * CHUNK_BYTES, CHUNK_BYTES), i);
		base->hash += base->chunk_hash[i];
	}
	return 0;
}

/* uext4 runs in a child process: it leaves a thread behind, and a process with threads had better not fork. */
static int fill_in_child(struct base *base, struct image *image)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(-fill(image));
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -EIO;
	memcpy(base->bytes, image->bytes, base->size_bytes);
	return -WEXITSTATUS(status);
}

int base_prepare(const struct format *format, struct base *base)
{
	struct image image;
	int err;

	*base = (struct base){ .format = format, .size_bytes = size_of(format) };
	base->bytes = malloc(base->size_bytes);
	if (!base->bytes)
		return -ENOMEM;
	memset(base->bytes, STALE_BYTE, base->size_bytes);
	err = image_open(&image);
	if (err)
		return err;
	image_use(&image, base);
	err = fill_in_child(base, &image);
	if (!err && !(format->flags & FORMAT_NO_JOURNAL))
		err = find_log(base, &image);
	if (!err)
		err = hash_chunks(base);
	image_close(&image);
	return err;
}
