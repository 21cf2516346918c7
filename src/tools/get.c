/* SPDX-License-Identifier: MIT */
/* get.c - uext4 get: out of the image, with modes, times, attributes, holes and hard links */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/links.h"
#include "tools/names.h"
#include "tools/progress.h"
#include "tools/xattrs.h"

#define COPY_BYTES (1u << 20)
#define LINK_BYTES 4096

struct get {
	struct tool *tool;
	bool recurse;
	bool is_root;        /* may give files away and make devices */
	bool xattrs_refused; /* said once that the destination takes none */
	char *buf;
	struct link_map links;
	struct progress progress;
};

/* One thing on its way: the node, and where its copy goes. */
struct get_item {
	struct uext4_attr attr;
	const char *path;       /* in the image, for messages */
	int dir_fd;             /* of the copy's directory */
	const char *name;       /* of the copy in it */
	const char *local_path; /* of the copy, for messages and links */
};

static void fail_image(struct get *get, const char *path, int err)
{
	progress_clear(&get->progress);
	tool_fail(get->tool, path, err);
}

static void fail_local(struct get *get, const char *path, int err)
{
	progress_clear(&get->progress);
	tool_fail_local(get->tool, path, err);
}

/* ---- attributes of the copy ---- */

struct xattr_copy {
	struct get *get;
	const struct get_item *item;
	int fd; /* of the copy, or -1: by name */
};

static int set_local_xattr(const struct xattr_copy *to, const char *name, const void *value, size_t len)
{
	char path[PATH_MAX];

	if (to->fd >= 0)
		return fsetxattr(to->fd, name, value, len, 0) ? -errno : 0;
	if (to->item->dir_fd == AT_FDCWD)
		snprintf(path, sizeof(path), "%s", to->item->name);
	else
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", to->item->dir_fd, to->item->name);
	return lsetxattr(path, name, value, len, 0) ? -errno : 0;
}

/* What only root may set is not a failure of somebody else's copy. */
static void copy_xattr(void *arg, const char *name, const void *value, size_t len)
{
	struct xattr_copy *to = arg;
	struct get *get = to->get;
	int err = set_local_xattr(to, name, value, len);

	if (!err || (err == -EPERM && !get->is_root))
		return;
	if (err != -EOPNOTSUPP) {
		fail_local(get, to->item->local_path, err);
	} else if (!get->xattrs_refused) {
		progress_clear(&get->progress);
		tool_warn(get->tool, "%s: %s: extended attributes are not kept here", to->item->local_path, name);
		get->xattrs_refused = true;
	}
}

/* Owner before mode, since a change of owner drops setuid; times last. @fd: of the copy, or -1. */
static void copy_attributes(struct get *get, const struct get_item *item, int fd)
{
	const struct timespec times[2] = { item->attr.atime, item->attr.mtime };
	struct xattr_copy to = { .get = get, .item = item, .fd = fd };
	int err;

	if (get->is_root && fchownat(item->dir_fd, item->name, item->attr.uid, item->attr.gid, AT_SYMLINK_NOFOLLOW))
		fail_local(get, item->local_path, -errno);
	if (!S_ISLNK(item->attr.mode) && fchmodat(item->dir_fd, item->name, item->attr.mode & 07777, 0))
		fail_local(get, item->local_path, -errno);
	err = xattrs_each(get->tool, item->attr.ino, copy_xattr, &to);
	if (err)
		fail_image(get, item->path, err);
	if (utimensat(item->dir_fd, item->name, times, AT_SYMLINK_NOFOLLOW))
		fail_local(get, item->local_path, -errno);
}

/* ---- regular files ---- */

static int write_at(int fd, const char *buf, size_t len, off_t pos)
{
	while (len) {
		ssize_t done = pwrite(fd, buf, len, pos);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		buf += done;
		pos += done;
		len -= (size_t)done;
	}
	return 0;
}

/* Bytes [pos, end); *local_err_out tells on which side a failure was. */
static int copy_run(struct get *get, const struct get_item *item, int fd, off_t pos, off_t end, bool *local_out)
{
	while (pos < end) {
		size_t want = (size_t)(end - pos) < COPY_BYTES ? (size_t)(end - pos) : COPY_BYTES;
		struct iovec iov = { .iov_base = get->buf, .iov_len = want };
		ssize_t len = uext4_node_readv(get->tool->fs, item->attr.ino, &iov, 1, pos, 0);
		int err;

		if (len <= 0)
			return (int)len;
		err = write_at(fd, get->buf, (size_t)len, pos);
		if (err) {
			*local_out = true;
			return err;
		}
		pos += len;
		progress_bytes(&get->progress, item->path, (uint64_t)len);
	}
	return 0;
}

static int copy_data(struct get *get, const struct get_item *item, int fd, bool *local_out)
{
	off_t size = (off_t)item->attr.size, pos = 0, end;
	int err = 0;

	while (!err && pos < size) {
		pos = uext4_node_lseek(get->tool->fs, item->attr.ino, pos, SEEK_DATA);
		if (pos == -ENXIO)
			break; /* a hole up to the end */
		if (pos < 0)
			return (int)pos;
		end = uext4_node_lseek(get->tool->fs, item->attr.ino, pos, SEEK_HOLE);
		if (end < 0)
			return (int)end;
		err = copy_run(get, item, fd, pos, end, local_out);
		pos = end;
	}
	if (!err && ftruncate(fd, size)) {
		*local_out = true;
		err = -errno;
	}
	return err;
}

static void get_file(struct get *get, const struct get_item *item)
{
	int fd = openat(item->dir_fd, item->name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool local = false;
	int err;

	if (fd < 0) {
		fail_local(get, item->local_path, -errno);
		return;
	}
	err = copy_data(get, item, fd, &local);
	if (!err)
		copy_attributes(get, item, fd);
	if (close(fd) && !err) {
		err = -errno;
		local = true;
	}
	if (err && local)
		fail_local(get, item->local_path, err);
	else if (err)
		fail_image(get, item->path, err);
}

static void get_to_stdout(struct get *get, const struct get_item *item)
{
	off_t pos = 0;
	ssize_t len;

	if (!S_ISREG(item->attr.mode)) {
		fail_image(get, item->path, S_ISDIR(item->attr.mode) ? -EISDIR : -EINVAL);
		return;
	}
	do {
		struct iovec iov = { .iov_base = get->buf, .iov_len = COPY_BYTES };

		len = uext4_node_readv(get->tool->fs, item->attr.ino, &iov, 1, pos, 0);
		if (len > 0 && fwrite(get->buf, 1, (size_t)len, stdout) != (size_t)len)
			return; /* tool_close() says why */
		pos += len;
	} while (len > 0);
	if (len < 0)
		fail_image(get, item->path, (int)len);
}

/* ---- everything else ---- */

static void get_symlink(struct get *get, const struct get_item *item)
{
	char target[LINK_BYTES];
	int err = uext4_node_readlink(get->tool->fs, item->attr.ino, target, sizeof(target));

	if (err) {
		fail_image(get, item->path, err);
		return;
	}
	if (symlinkat(target, item->dir_fd, item->name) &&
	    (errno != EEXIST || unlinkat(item->dir_fd, item->name, 0) || symlinkat(target, item->dir_fd, item->name)))
		fail_local(get, item->local_path, -errno);
	else
		copy_attributes(get, item, -1);
}

static void get_special(struct get *get, const struct get_item *item)
{
	mode_t mode = (item->attr.mode & S_IFMT) | 0600;

	if (mknodat(item->dir_fd, item->name, mode, item->attr.rdev) &&
	    (errno != EEXIST || unlinkat(item->dir_fd, item->name, 0) ||
	     mknodat(item->dir_fd, item->name, mode, item->attr.rdev)))
		fail_local(get, item->local_path, -errno);
	else
		copy_attributes(get, item, -1);
}

static void get_item(struct get *get, const struct get_item *item);

static void get_children(struct get *get, const struct get_item *dir, int fd)
{
	struct listing listing;
	int err = listing_read(get->tool, dir->attr.ino, false, &listing);

	for (size_t i = 0; i < listing.count; i++) {
		const struct listed *child = &listing.items[i];
		char *path = tool_join(dir->path, child->name);
		char *local_path = tool_join(dir->local_path, child->name);
		struct get_item item = { .path = path, .dir_fd = fd, .name = child->name, .local_path = local_path };
		int child_err = uext4_node_getattr(get->tool->fs, child->ino, &item.attr);

		if (child_err)
			fail_image(get, path, child_err);
		else if (strchr(child->name, '/'))
			fail_image(get, path, -EUCLEAN); /* a name that leads out of the directory */
		else
			get_item(get, &item);
		free(local_path);
		free(path);
	}
	if (err)
		fail_image(get, dir->path, err);
	listing_exit(&listing);
}

static void get_dir(struct get *get, const struct get_item *item)
{
	int fd;

	if (!get->recurse) {
		progress_clear(&get->progress);
		get->tool->failed = true;
		tool_warn(get->tool, "%s: %s: Is a directory (-r copies directories)", get->tool->image, item->path);
		return;
	}
	if (mkdirat(item->dir_fd, item->name, 0700) && errno != EEXIST) {
		fail_local(get, item->local_path, -errno);
		return;
	}
	fd = openat(item->dir_fd, item->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		fail_local(get, item->local_path, -errno);
		return;
	}
	get_children(get, item, fd);
	copy_attributes(get, item, fd);
	close(fd);
}

/* True if it is another name of something copied before, and is linked to that now. */
static bool get_link(struct get *get, const struct get_item *item)
{
	struct link_entry *before;

	if (S_ISDIR(item->attr.mode) || item->attr.nlink < 2)
		return false;
	before = link_map_find(&get->links, 0, item->attr.ino);
	if (!before) {
		link_map_add(&get->links, 0, item->attr.ino, 0, item->local_path);
		return false;
	}
	if (!linkat(AT_FDCWD, before->copy_path, item->dir_fd, item->name, 0))
		return true;
	return errno == EEXIST && !unlinkat(item->dir_fd, item->name, 0) &&
	       !linkat(AT_FDCWD, before->copy_path, item->dir_fd, item->name, 0);
}

static void get_item(struct get *get, const struct get_item *item)
{
	progress_file(&get->progress, item->path);
	if (get_link(get, item))
		return;
	if (S_ISREG(item->attr.mode))
		get_file(get, item);
	else if (S_ISDIR(item->attr.mode))
		get_dir(get, item);
	else if (S_ISLNK(item->attr.mode))
		get_symlink(get, item);
	else
		get_special(get, item);
}

/* ---- operands ---- */

static bool is_local_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void get_operand(struct get *get, const char *path, const char *dest, bool dest_is_dir)
{
	struct get_item item = { .path = path, .dir_fd = AT_FDCWD };
	int err = get->recurse ? uext4_lstat(get->tool->fs, NULL, path, &item.attr) :
				 uext4_stat(get->tool->fs, NULL, path, &item.attr);
	char *name = NULL, *local = NULL;
	size_t len;

	if (err) {
		fail_image(get, path, err);
		return;
	}
	if (strcmp(dest, "-") == 0) {
		get_to_stdout(get, &item);
		return;
	}
	if (dest_is_dir) {
		const char *base = tool_base_name(path, &len);

		name = tool_alloc(len + 1);
		memcpy(name, base, len);
		name[len] = '\0';
		/* The root has no name of its own: its contents go straight into the directory. */
		local = len ? tool_join(dest, name) : NULL;
	}
	item.name = item.local_path = local ? local : dest;
	get_item(get, &item);
	free(local);
	free(name);
}

static int run_get(struct tool *tool, int argc, char **argv)
{
	struct get get = { .tool = tool, .is_root = geteuid() == 0 };
	const char *dest = ".";
	bool dest_is_dir;
	int opt;

	while ((opt = tool_option(tool, argc, argv, "r", NULL)) != -1) {
		if (opt != 'r')
			return tool_usage(tool);
		get.recurse = true;
	}
	if (argc - optind < 2)
		return tool_usage(tool);
	if (argc - optind > 2)
		dest = argv[--argc];
	dest_is_dir = is_local_dir(dest);
	if (argc - optind > 2 && !dest_is_dir && strcmp(dest, "-") != 0) {
		tool_fail_local(tool, dest, -ENOTDIR);
		return EXIT_FAILED;
	}
	if (!tool_open(tool, argv[optind++], false))
		return EXIT_FAILED;
	get.buf = tool_alloc(COPY_BYTES);
	progress_start(&get.progress);
	for (; optind < argc; optind++)
		get_operand(&get, argv[optind], dest, dest_is_dir);
	progress_clear(&get.progress);
	link_map_exit(&get.links);
	free(get.buf);
	return tool_close(tool);
}

const struct command command_get = {
	.name = "get",
	.synopsis = "[-r] [-o OPTIONS] IMAGE PATH... [LOCAL]",
	.summary = "Copy files out of an image",
	.help = "Modes, times, extended attributes and holes are kept; owners and device nodes too when root runs it.\n"
		"LOCAL is a directory, a file name, or \"-\" for standard output; without it, the current directory.\n\n"
		"  -r      directories with all that is in them; symbolic links and hard links stay what they are\n"
		"  -o OPTIONS  mount options\n",
	.run = run_get,
};
