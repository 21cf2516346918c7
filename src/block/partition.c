/* SPDX-License-Identifier: MIT */
/* partition.c - where a partition lies inside a whole-disk image, by libblkid */
#include <blkid.h>
#include <errno.h>

#include "block/block.h"

#define BLKID_UNIT_BYTES 512u /* of all libblkid positions, whatever the sector size */

static int partition_lookup(blkid_probe probe, int number, uint64_t *start_out, uint64_t *len_out)
{
	blkid_partlist list;
	blkid_partition part;
	blkid_loff_t start, len;

	blkid_probe_enable_partitions(probe, 1);
	blkid_probe_enable_superblocks(probe, 0);
	list = blkid_probe_get_partitions(probe);
	if (!list || !blkid_partlist_get_table(list))
		return -ENODATA;
	part = blkid_partlist_get_partition_by_partno(list, number);
	if (!part)
		return -ENOENT;
	start = blkid_partition_get_start(part);
	len = blkid_partition_get_size(part);
	if (start <= 0 || len <= 0 || start > INT64_MAX / BLKID_UNIT_BYTES || len > INT64_MAX / BLKID_UNIT_BYTES)
		return -EUCLEAN;
	*start_out = (uint64_t)start * BLKID_UNIT_BYTES;
	*len_out = (uint64_t)len * BLKID_UNIT_BYTES;
	return 0;
}

int block_find_partition(const char *path, int number, uint64_t *start_out, uint64_t *len_out)
{
	blkid_probe probe;
	int err;

	if (number < 1)
		return -EINVAL;
	errno = 0;
	probe = blkid_new_probe_from_filename(path);
	if (!probe)
		return errno ? -errno : -EIO;
	err = partition_lookup(probe, number, start_out, len_out);
	blkid_free_probe(probe);
	return err;
}
