/* SPDX-License-Identifier: MIT */
/* mount.c - opening the file system on a device that is not a file */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/api_private.h"
#include "crash.h"
#include "vfs/vfs.h"

#define CACHE_BYTES (8u << 20) /* small tables are soon made */

int crash_log_level;

static void show_log(void *arg, int level, const char *text)
{
	(void)arg;
	if (level <= crash_log_level)
		fprintf(stderr, "# %s\n", text);
}

int crash_open(struct block_device *dev, const char *options, struct uext4_fs **fs_out)
{
	struct log_sink log = { .func = show_log };
	struct ext4_options opt;
	char error[256];
	int err;

	*fs_out = calloc(1, sizeof(**fs_out));
	if (!*fs_out)
		return -ENOMEM;
	options_init(&opt);
	opt.cache_bytes = CACHE_BYTES;
	err = options_parse(&opt, options, error);
	if (!err)
		err = vfs_mount(dev, &opt, &log, "crash", false, &(*fs_out)->vfs);
	options_exit(&opt);
	if (err) {
		free(*fs_out);
		*fs_out = NULL;
	}
	return err;
}
