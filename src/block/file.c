/* SPDX-License-Identifier: MIT */
/* file.c - the device over an image file or a block device: opening, dispatch */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "block/file_private.h"

/* With a ring, workers do what is rare; without one they are the queue depth. */
#define WORKERS_WITH_RING    2
#define WORKERS_WITHOUT_RING 8

static void file_worker(struct work *work)
{
	struct bio *bio = container_of(work, struct bio, dev_work);

	bio->end_io(bio, file_run(file_of(bio->dev), bio, bio->dev_done_bytes));
}

void file_submit_to_worker(struct file_device *file, struct bio *bio)
{
	work_init(&bio->dev_work, file_worker);
	workqueue_add(file->workers, &bio->dev_work);
}

static int file_run_whole(struct bio *bio)
{
	return file_run(file_of(bio->dev), bio, 0);
}

static void file_submit(struct block_device *dev, struct bio *bio)
{
	struct file_device *file = file_of(dev);

	if (file->in_memory) {
		bio_run_inline(bio, file_run_whole);
	} else if (file->ring && file_ring_takes(file, bio)) {
		file_ring_submit(file->ring, bio);
	} else {
		bio->dev_done_bytes = 0;
		file_submit_to_worker(file, bio);
	}
}

static int file_submit_sync(struct block_device *dev, struct bio *bio)
{
	return file_run(file_of(dev), bio, 0);
}

static void file_plug(struct block_device *dev)
{
	struct file_device *file = file_of(dev);

	if (file->ring)
		file_ring_plug(file->ring);
}

static void file_unplug(struct block_device *dev)
{
	struct file_device *file = file_of(dev);

	if (file->ring)
		file_ring_unplug(file->ring);
}

static int file_close(struct block_device *dev)
{
	struct file_device *file = file_of(dev);
	int err = 0;

	workqueue_stop(file->workers);
	file_ring_stop(file->ring);
	if (close(file->fd))
		err = -errno;
	mutex_exit(&file->rmw_lock);
	free(file);
	return err;
}

static const struct block_device_ops file_ops = {
	.name = "file",
	.submit = file_submit,
	.submit_sync = file_submit_sync,
	.splice = file_splice,
	.plug = file_plug,
	.unplug = file_unplug,
	.close = file_close,
};

/* What is about to be opened, or the reason why not. Looked at first: opening a tape or a fifo has effects. */
static int file_check_type(mode_t mode)
{
	if (S_ISREG(mode) || S_ISBLK(mode))
		return 0;
	return S_ISDIR(mode) ? -EISDIR : -EINVAL;
}

static const char *file_error_text(int err, unsigned flags)
{
	switch (err) {
	case -EROFS:
		return "it is read-only; open it read-only (-o ro)";
	case -EACCES:
	case -EPERM:
		return flags & BLOCK_OPEN_READ_ONLY ? strerror(-err) : "permission to write denied; open it read-only (-o ro)";
	case -EISDIR:
		return "it is a directory, not an image file or block device";
	case -EINVAL:
		return "it is neither a regular file nor a block device";
	case -EBUSY:
		return "it is in use by another process or mounted";
	default:
		return strerror(-err);
	}
}

/* @holder: who has it, if it is not ours and that is known, else empty. */
static int file_open_claimed(const char *path, unsigned flags, int *fd_out, struct stat *st_out, char *holder,
			     size_t holder_bytes)
{
	int open_flags = O_CLOEXEC | (flags & BLOCK_OPEN_READ_ONLY ? O_RDONLY : O_RDWR);
	int fd, err;

	if (stat(path, st_out))
		return -errno;
	err = file_check_type(st_out->st_mode);
	if (err)
		return err;
	if (S_ISBLK(st_out->st_mode) && !(flags & BLOCK_OPEN_NO_LOCK))
		open_flags |= O_EXCL; /* refused while the kernel has it mounted or another holds it so */
	fd = open(path, open_flags);
	if (fd < 0)
		return -errno;
	if (fstat(fd, st_out))
		err = -errno;
	if (!err)
		err = file_check_type(st_out->st_mode);
	if (!err && !(flags & BLOCK_OPEN_NO_LOCK))
		err = file_claim(fd, st_out, flags & BLOCK_OPEN_READ_ONLY, holder, holder_bytes);
	if (err)
		close(fd);
	else
		*fd_out = fd;
	return err;
}

static int file_measure(struct file_device *file, const struct stat *st, unsigned flags)
{
	struct statfs sfs;
	uint64_t size;
	int sector, read_only;

	file->is_block_device = S_ISBLK(st->st_mode);
	file->dev.size_bytes = (uint64_t)st->st_size;
	file->dev.sector_bytes = 512;
	if (file->is_block_device) {
		if (ioctl(file->fd, BLKGETSIZE64, &size) || ioctl(file->fd, BLKSSZGET, &sector))
			return -errno;
		/* The kernel opens a read-only device for writing and refuses each write. */
		if (!(flags & BLOCK_OPEN_READ_ONLY) && !ioctl(file->fd, BLKROGET, &read_only) && read_only)
			return -EROFS;
		file->dev.size_bytes = size;
		file->dev.sector_bytes = (uint32_t)sector;
	} else if (!fstatfs(file->fd, &sfs)) {
		file->in_memory = sfs.f_type == TMPFS_MAGIC || sfs.f_type == RAMFS_MAGIC;
	}
	return 0;
}

/* Refusal of the ring or of O_DIRECT is no error: the rest of the device does without. */
static int file_start_engine(struct file_device *file, unsigned flags)
{
	if (file->in_memory)
		return 0;
	if (!(flags & BLOCK_OPEN_BUFFERED))
		file_enable_direct(file);
	if (!(flags & BLOCK_OPEN_NO_URING) && file_ring_start(file, &file->ring))
		file->ring = NULL;
	return workqueue_start("uext4-block", file->ring ? WORKERS_WITH_RING : WORKERS_WITHOUT_RING, &file->workers);
}

static int file_device_make(int fd, const struct stat *st, unsigned flags, struct file_device **file_out)
{
	struct file_device *file = calloc(1, sizeof(*file));
	int err;

	if (!file)
		return -ENOMEM;
	file->fd = fd;
	file->dev.ops = &file_ops;
	file->dev.read_only = flags & BLOCK_OPEN_READ_ONLY;
	file->dev.volatile_cache = true;
	mutex_init(&file->rmw_lock, RANK_DEVICE);
	err = file_measure(file, st, flags);
	if (!err)
		err = file_start_engine(file, flags);
	if (err) {
		file_ring_stop(file->ring);
		mutex_exit(&file->rmw_lock);
		free(file);
		return err;
	}
	*file_out = file;
	return 0;
}

int block_open_file(const char *path, unsigned flags, const struct log_sink *log, struct block_device **dev_out)
{
	struct file_device *file;
	char holder[64] = "";
	struct stat st;
	int fd = -1, err;

	err = file_open_claimed(path, flags, &fd, &st, holder, sizeof(holder));
	if (!err) {
		err = file_device_make(fd, &st, flags, &file);
		if (err)
			close(fd);
	}
	if (err && *holder)
		log_print(log, LOG_ERROR, "cannot open %s: it is in use as %s", path, holder);
	else if (err)
		log_print(log, LOG_ERROR, "cannot open %s: %s", path, file_error_text(err, flags));
	if (err)
		return err;
	*dev_out = &file->dev;
	return 0;
}
