/* SPDX-License-Identifier: MIT */
/* file_geometry.c - whether O_DIRECT works on a file, and what it asks of positions and buffers */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block/file_private.h"

#define IO_ALIGN_MIN 512u
#define IO_ALIGN_MAX 65536u

static bool is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

/* The kernel's own word, since 6.1 and not from every file system. False: it did not say. */
static bool geometry_from_statx(struct file_device *file)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) || !(stx.stx_mask & STATX_DIOALIGN))
		return false;
	file->mem_align_bytes = stx.stx_dio_mem_align;
	file->io_align_bytes = max_of(stx.stx_dio_offset_align, IO_ALIGN_MIN);
	return is_power_of_two(file->mem_align_bytes) && is_power_of_two(file->io_align_bytes);
#else
	return false;
#endif
}

static bool geometry_from_device(struct file_device *file)
{
	int sector;

	if (!file->is_block_device || ioctl(file->fd, BLKSSZGET, &sector) || !is_power_of_two((uint32_t)sector))
		return false;
	file->mem_align_bytes = file->io_align_bytes = max_of((uint32_t)sector, IO_ALIGN_MIN);
	return true;
}

/* A read that uses the alignments at their least; only what has worked once is relied upon. */
static bool geometry_is_proven(const struct file_device *file)
{
	size_t align = max_of(file->mem_align_bytes, (uint32_t)sizeof(void *));
	void *buf;
	ssize_t got;

	if (posix_memalign(&buf, max_of(align, (size_t)IO_ALIGN_MAX), file->io_align_bytes + align))
		return false;
	got = pread(file->fd, (char *)buf + align, file->io_align_bytes, 0);
	free(buf);
	return got >= 0;
}

static bool geometry_by_trial(struct file_device *file)
{
	for (uint32_t align = IO_ALIGN_MIN; align <= IO_ALIGN_MAX; align *= 2) {
		file->mem_align_bytes = file->io_align_bytes = align;
		if (geometry_is_proven(file))
			return true;
	}
	return false;
}

static bool file_set_direct(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return false;
	return !fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

static bool file_find_geometry(struct file_device *file)
{
	if (geometry_from_statx(file) && geometry_is_proven(file))
		return true;
	if (geometry_from_device(file) && geometry_is_proven(file))
		return true;
	return geometry_by_trial(file);
}

void file_enable_direct(struct file_device *file)
{
	if (!file_set_direct(file->fd, true))
		return;
	/* The last, partial unit of a file could neither be written nor read back without changing its size. */
	file->direct = file_find_geometry(file) && file->dev.size_bytes % file->io_align_bytes == 0;
	if (!file->direct)
		file_set_direct(file->fd, false);
}
