/* SPDX-License-Identifier: MIT */
/* fs.c - opening and closing a file system */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_private.h"
#include "version.h"

/* From the first version on there is everything up to check_permissions. */
#define OPTIONS_BYTES_MIN (offsetof(struct uext4_options, check_permissions) + sizeof(bool))

/* What the caller asked for, in our form. */
struct request {
	struct ext4_options mount;
	struct log_sink log;
	bool check_permissions;
	const char *name; /* for messages */
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* request_exit() also when this fails. */
static int request_init(struct request *req, const struct uext4_options *options, const char *name)
{
	struct uext4_options given = { 0 };
	char error[256] = "";
	int err;

	*req = (struct request){ .name = name };
	options_init(&req->mount);
	if (options) {
		if (options->struct_bytes < OPTIONS_BYTES_MIN)
			return -EINVAL;
		memcpy(&given, options, min_of(options->struct_bytes, sizeof(given)));
	}
	req->log = (struct log_sink){ .func = given.log, .arg = given.log_arg };
	req->check_permissions = given.check_permissions;
	if (!given.mount_options)
		return 0;
	err = options_parse(&req->mount, given.mount_options, error);
	if (err)
		log_print(&req->log, LOG_ERROR, "%s: %s", name, error);
	return err;
}

static void request_exit(struct request *req)
{
	options_exit(&req->mount);
}

/* @dev passes to the file system, or is closed. */
static int mount_device(struct request *req, struct block_device *dev, struct uext4_fs **fs_out)
{
	struct uext4_fs *fs = malloc(sizeof(*fs));
	int err;

	if (!fs) {
		block_close(dev);
		return -ENOMEM;
	}
	err = vfs_mount(dev, &req->mount, &req->log, req->name, req->check_permissions, &fs->vfs);
	if (err)
		free(fs);
	else
		*fs_out = fs;
	return err;
}

static const char *partition_error(const char *path, int err)
{
	if (!path)
		return "partitions are found in files and block devices only";
	if (err == -ENOENT)
		return "the image has no such partition";
	return err == -ENODATA ? "the image has no partition table" : strerrordesc_np(-err);
}

static int find_partition(const struct request *req, const char *path, uint64_t size, uint64_t *start_out, uint64_t *len_out)
{
	int number = req->mount.partition;
	int err = path ? block_find_partition(path, number, start_out, len_out) : -EINVAL;

	if (err) {
		log_print(&req->log, LOG_ERROR, "%s: partition %d: %s", req->name, number, partition_error(path, err));
		return err;
	}
	if (*start_out < size && *len_out <= size - *start_out)
		return 0;
	log_print(&req->log, LOG_ERROR, "%s: partition %d: it ends at byte %" PRIu64 ", beyond the end of the image of %" PRIu64
		  " bytes", req->name, number, *start_out + *len_out, size);
	return -EINVAL;
}

static int check_offset(const struct request *req, const struct block_device *dev)
{
	uint64_t offset = req->mount.offset_bytes;

	if (offset % dev->sector_bytes) {
		log_print(&req->log, LOG_ERROR, "%s: offset=%" PRIu64 ": want a multiple of %u, the size of a sector",
			  req->name, offset, dev->sector_bytes);
		return -EINVAL;
	}
	if (offset < dev->size_bytes)
		return 0;
	log_print(&req->log, LOG_ERROR, "%s: offset=%" PRIu64 ": beyond the end of the image of %" PRIu64 " bytes", req->name,
		  offset, dev->size_bytes);
	return -EINVAL;
}

/* Narrows *dev to the partition, or to what follows the offset. */
static int select_part(struct request *req, const char *path, struct block_device **dev)
{
	uint64_t size = (*dev)->size_bytes, start = req->mount.offset_bytes, len = size - start;
	int err;

	if (!req->mount.partition && !start)
		return 0;
	if (req->mount.partition && start) {
		log_print(&req->log, LOG_ERROR, "%s: partition= and offset= exclude each other", req->name);
		return -EINVAL;
	}
	if (req->mount.partition)
		err = find_partition(req, path, size, &start, &len);
	else
		err = check_offset(req, *dev);
	return err ? err : block_open_window(*dev, start, len, dev);
}

static int open_selected(struct request *req, const char *path, struct block_device *dev, struct uext4_fs **fs_out)
{
	int err = select_part(req, path, &dev);

	if (!err)
		return mount_device(req, dev, fs_out);
	block_close(dev);
	return err;
}

int uext4_open_fs(const char *image, const struct uext4_options *options, struct uext4_fs **fs_out)
{
	struct block_device *dev;
	struct request req;
	int err = request_init(&req, options, base_name(image));

	if (!err)
		err = block_open_file(image, req.mount.read_only ? BLOCK_OPEN_READ_ONLY : 0, &req.log, &dev);
	if (!err)
		err = open_selected(&req, image, dev, fs_out);
	request_exit(&req);
	return err;
}

int uext4_open_device(const struct uext4_device_ops *ops, void *device, uint64_t size_bytes,
		      const struct uext4_options *options, struct uext4_fs **fs_out)
{
	struct block_device *dev;
	struct request req;
	int err = request_init(&req, options, "device");

	if (!err)
		err = api_device_open(ops, device, size_bytes, &dev);
	if (!err)
		err = open_selected(&req, NULL, dev, fs_out);
	request_exit(&req);
	return err;
}

int uext4_open_memory(void *image, uint64_t size_bytes, const struct uext4_options *options, struct uext4_fs **fs_out)
{
	struct block_device *dev;
	struct request req;
	int err = request_init(&req, options, "memory");

	if (!err)
		err = block_open_memory(size_bytes, image, &dev);
	if (!err)
		err = open_selected(&req, NULL, dev, fs_out);
	request_exit(&req);
	return err;
}

int uext4_close_fs(struct uext4_fs *fs)
{
	int err;

	if (!fs)
		return 0;
	err = vfs_unmount(fs->vfs);
	free(fs);
	return err;
}

bool uext4_is_read_only(const struct uext4_fs *fs)
{
	return fs_is_read_only(fs->vfs->fs);
}

const char *uext4_version(void)
{
	return UEXT4_VERSION;
}

bool uext4_has_root_blocks(const struct uext4_fs *fs, const struct uext4_cred *cred)
{
	struct vfs_cred who = api_cred(fs, cred);

	return cred_has_root_blocks(&who, fs->vfs->fs);
}

int uext4_statfs(struct uext4_fs *fs, struct uext4_statfs *statfs_out)
{
	struct ext4_statfs from;

	ext4_statfs(fs->vfs->fs, &from);
	*statfs_out = (struct uext4_statfs){
		.blocks = from.blocks,
		.blocks_free = from.blocks_free,
		.blocks_available = from.blocks_available,
		.inodes = from.inodes,
		.inodes_free = from.inodes_free,
		.inodes_orphaned = from.inodes_orphaned,
		.fsid = from.fsid,
		.block_bytes = from.block_bytes,
		.name_max = from.name_max,
		.time_gran_ns = from.time_gran_ns,
	};
	return 0;
}

int uext4_sync(struct uext4_fs *fs)
{
	return ext4_sync(fs->vfs->fs);
}
