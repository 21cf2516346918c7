/* SPDX-License-Identifier: MIT */
/* put.c - uext4 put: into the image, with owners, modes, times, attributes, holes and hard links */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "tools/links.h"
#include "tools/names.h"
#include "tools/progress.h"

#define COPY_BYTES (1u << 20)
#define LINK_BYTES 4096

struct put {
	struct tool *tool;
	bool recurse;
	char *buf;
	struct link_map links;
	struct progress progress;
};

/* One thing on its way: the local file, and where its copy goes. */
struct put_item {
	struct stat st;
	int dir_fd;             /* AT_FDCWD, or of the directory that local_name is in */
	const char *local_name;
	const char *local_path; /* for messages */
	uext4_ino parent;
	const char *name;
	const char *path;       /* in the image, for messages */
};

static void fail_image(struct put *put, const char *path, int err)
{
	progress_clear(&put->progress);
	tool_fail(put->tool, path, err);
}

static void fail_local(struct put *put, const char *path, int err)
{
	progress_clear(&put->progress);
	tool_fail_local(put->tool, path, err);
}

/* ---- attributes of the copy ---- */

/* The path by which xattr calls reach a local file without following it. */
static void xattr_path(const struct put_item *item, char path[PATH_MAX])
{
	if (item->dir_fd == AT_FDCWD)
		snprintf(path, PATH_MAX, "%s", item->local_name);
	else
		snprintf(path, PATH_MAX, "/proc/self/fd/%d/%s", item->dir_fd, item->local_name);
}

static void copy_one_xattr(struct put *put, const struct put_item *item, uext4_ino ino, const char *path,
			   const char *name)
{
	ssize_t len = lgetxattr(path, name, NULL, 0);
	char *value;
	int err;

	if (len < 0)
		return; /* listed, but not for us */
	value = tool_alloc((size_t)len);
	len = lgetxattr(path, name, value, (size_t)len);
	if (len >= 0) {
		err = uext4_node_setxattr(put->tool->fs, NULL, ino, name, value, (size_t)len, 0);
		if (err && err != -EOPNOTSUPP) /* name spaces of other file systems have no place here */
			fail_image(put, item->path, err);
	}
	free(value);
}

static void copy_xattrs(struct put *put, const struct put_item *item, uext4_ino ino)
{
	char path[PATH_MAX];
	ssize_t bytes;
	char *names;

	xattr_path(item, path);
	bytes = llistxattr(path, NULL, 0);
	if (bytes <= 0)
		return;
	names = tool_alloc((size_t)bytes);
	bytes = llistxattr(path, names, (size_t)bytes);
	for (char *name = names; name < names + (bytes > 0 ? bytes : 0); name += strlen(name) + 1)
		copy_one_xattr(put, item, ino, path, name);
	free(names);
}

/* Owner and mode before attributes, since a change of owner drops file capabilities; times last. */
static void copy_attributes(struct put *put, const struct put_item *item, uext4_ino ino)
{
	struct uext4_attr attr = {
		.mode = item->st.st_mode,
		.uid = item->st.st_uid,
		.gid = item->st.st_gid,
		.atime = item->st.st_atim,
		.mtime = item->st.st_mtim,
	};
	uint32_t which = UEXT4_SET_UID | UEXT4_SET_GID | (S_ISLNK(item->st.st_mode) ? 0 : UEXT4_SET_MODE);
	int err = uext4_node_setattr(put->tool->fs, NULL, ino, &attr, which, NULL);

	if (!err) {
		copy_xattrs(put, item, ino);
		err = uext4_node_setattr(put->tool->fs, NULL, ino, &attr, UEXT4_SET_ATIME | UEXT4_SET_MTIME, NULL);
	}
	if (err)
		fail_image(put, item->path, err);
}

/* ---- regular files ---- */

static int write_at(struct put *put, uext4_ino ino, size_t len, off_t pos)
{
	size_t done = 0;

	while (done < len) {
		struct iovec iov = { .iov_base = put->buf + done, .iov_len = len - done };
		ssize_t n = uext4_node_writev(put->tool->fs, ino, &iov, 1, pos + (off_t)done,
					       UEXT4_WRITE_ROOT_BLOCKS);

		if (n <= 0)
			return n ? (int)n : -EIO;
		done += (size_t)n;
	}
	return 0;
}

static ssize_t read_local(int fd, char *buf, size_t len, off_t pos)
{
	ssize_t n;

	do {
		n = pos < 0 ? read(fd, buf, len) : pread(fd, buf, len, pos);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Bytes [pos, end); *local_out tells on which side a failure was. */
static int copy_run(struct put *put, const struct put_item *item, int fd, uext4_ino ino, off_t pos, off_t end,
		    bool *local_out)
{
	while (pos < end) {
		size_t want = (size_t)(end - pos) < COPY_BYTES ? (size_t)(end - pos) : COPY_BYTES;
		ssize_t len = read_local(fd, put->buf, want, pos);
		int err;

		if (len < 0)
			*local_out = true;
		if (len <= 0)
			return (int)len;
		err = write_at(put, ino, (size_t)len, pos);
		if (err)
			return err;
		pos += len;
		progress_bytes(&put->progress, item->path, (uint64_t)len);
	}
	return 0;
}

static int copy_data(struct put *put, const struct put_item *item, int fd, uext4_ino ino, bool *local_out)
{
	struct uext4_attr attr = { .size = (uint64_t)item->st.st_size };
	off_t pos = 0, end;
	int err = 0;

	while (!err && pos < item->st.st_size) {
		pos = lseek(fd, pos, SEEK_DATA);
		if (pos < 0 && errno == ENXIO)
			break; /* a hole up to the end */
		end = pos < 0 ? -1 : lseek(fd, pos, SEEK_HOLE);
		if (end < 0) {
			*local_out = true;
			return -errno;
		}
		err = copy_run(put, item, fd, ino, pos, end, local_out);
		pos = end;
	}
	return err ? err : uext4_node_setattr(put->tool->fs, NULL, ino, &attr, UEXT4_SET_SIZE, NULL);
}

/* A new file, or the old one of that name emptied; with a lookup to be forgotten. */
static int open_copy(struct put *put, const struct put_item *item, struct uext4_entry *entry_out)
{
	struct uext4_attr empty = { .size = 0 };
	int err = uext4_node_mknod(put->tool->fs, NULL, item->parent, item->name, S_IFREG | 0600, 0, entry_out);

	if (err != -EEXIST)
		return err;
	err = uext4_node_lookup(put->tool->fs, NULL, item->parent, item->name, entry_out);
	if (err)
		return err;
	if (!S_ISREG(entry_out->attr.mode))
		err = S_ISDIR(entry_out->attr.mode) ? -EISDIR : -EEXIST;
	if (!err)
		err = uext4_node_setattr(put->tool->fs, NULL, entry_out->ino, &empty, UEXT4_SET_SIZE, NULL);
	if (err)
		uext4_node_forget(put->tool->fs, entry_out->ino, 1);
	return err;
}

static uext4_ino put_file(struct put *put, const struct put_item *item)
{
	struct uext4_entry entry = { 0 };
	bool local = false;
	int fd = openat(item->dir_fd, item->local_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int err;

	if (fd < 0) {
		fail_local(put, item->local_path, -errno);
		return 0;
	}
	err = open_copy(put, item, &entry);
	if (!err) {
		err = copy_data(put, item, fd, entry.ino, &local);
		if (!err)
			copy_attributes(put, item, entry.ino);
		uext4_node_forget(put->tool->fs, entry.ino, 1);
	}
	close(fd);
	if (err && local)
		fail_local(put, item->local_path, err);
	else if (err)
		fail_image(put, item->path, err);
	return err ? 0 : entry.ino;
}

/* ---- everything else ---- */

/* What has no contents is made anew where one of its type has the name; -EEXIST if something else has it. */
static int make_room(struct put *put, const struct put_item *item)
{
	struct uext4_entry entry;
	int err = uext4_node_lookup(put->tool->fs, NULL, item->parent, item->name, &entry);

	if (err)
		return err;
	uext4_node_forget(put->tool->fs, entry.ino, 1);
	if ((entry.attr.mode & S_IFMT) != (item->st.st_mode & S_IFMT))
		return -EEXIST;
	return uext4_node_unlink(put->tool->fs, NULL, item->parent, item->name);
}

static uext4_ino put_symlink(struct put *put, const struct put_item *item)
{
	char target[LINK_BYTES];
	ssize_t len = readlinkat(item->dir_fd, item->local_name, target, sizeof(target) - 1);
	struct uext4_entry entry;
	int err;

	if (len < 0) {
		fail_local(put, item->local_path, -errno);
		return 0;
	}
	target[len] = '\0';
	err = uext4_node_symlink(put->tool->fs, NULL, item->parent, item->name, target, &entry);
	if (err == -EEXIST && !(err = make_room(put, item)))
		err = uext4_node_symlink(put->tool->fs, NULL, item->parent, item->name, target, &entry);
	if (err) {
		fail_image(put, item->path, err);
		return 0;
	}
	copy_attributes(put, item, entry.ino);
	uext4_node_forget(put->tool->fs, entry.ino, 1);
	return entry.ino;
}

static uext4_ino put_special(struct put *put, const struct put_item *item)
{
	uint32_t mode = (item->st.st_mode & S_IFMT) | 0600;
	struct uext4_entry entry;
	int err = uext4_node_mknod(put->tool->fs, NULL, item->parent, item->name, mode, item->st.st_rdev, &entry);

	if (err == -EEXIST && !(err = make_room(put, item)))
		err = uext4_node_mknod(put->tool->fs, NULL, item->parent, item->name, mode, item->st.st_rdev, &entry);
	if (err) {
		fail_image(put, item->path, err);
		return 0;
	}
	copy_attributes(put, item, entry.ino);
	uext4_node_forget(put->tool->fs, entry.ino, 1);
	return entry.ino;
}

static void put_item(struct put *put, const struct put_item *item);

static void put_child(struct put *put, const struct put_item *dir, uext4_ino parent, int fd, const char *name)
{
	char *local_path = tool_join(dir->local_path, name);
	char *path = tool_join(dir->path, name);
	struct put_item item = {
		.dir_fd = fd, .local_name = name, .local_path = local_path,
		.parent = parent, .name = name, .path = path,
	};

	if (fstatat(fd, name, &item.st, AT_SYMLINK_NOFOLLOW))
		fail_local(put, local_path, -errno);
	else
		put_item(put, &item);
	free(path);
	free(local_path);
}

static void put_children(struct put *put, const struct put_item *dir, uext4_ino parent, DIR *stream)
{
	struct dirent *entry;

	for (;;) {
		errno = 0;
		entry = readdir(stream);
		if (!entry)
			break;
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			put_child(put, dir, parent, dirfd(stream), entry->d_name);
	}
	if (errno)
		fail_local(put, dir->local_path, -errno);
}

static int make_dir(struct put *put, const struct put_item *item, struct uext4_entry *entry_out)
{
	int err = uext4_node_mkdir(put->tool->fs, NULL, item->parent, item->name, 0700, entry_out);

	if (err != -EEXIST)
		return err;
	err = uext4_node_lookup(put->tool->fs, NULL, item->parent, item->name, entry_out);
	if (!err && !S_ISDIR(entry_out->attr.mode)) {
		uext4_node_forget(put->tool->fs, entry_out->ino, 1);
		err = -ENOTDIR;
	}
	return err;
}

static void put_dir(struct put *put, const struct put_item *item)
{
	struct uext4_entry entry = { .ino = item->parent };
	DIR *stream;
	int fd, err;

	if (!put->recurse) {
		put->tool->failed = true;
		progress_clear(&put->progress);
		tool_warn(put->tool, "%s: Is a directory (-r copies directories)", item->local_path);
		return;
	}
	fd = openat(item->dir_fd, item->local_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	stream = fd < 0 ? NULL : fdopendir(fd);
	if (!stream) {
		fail_local(put, item->local_path, -errno);
		if (fd >= 0)
			close(fd);
		return;
	}
	err = item->name ? make_dir(put, item, &entry) : 0;
	if (err) {
		fail_image(put, item->path, err);
	} else {
		put_children(put, item, entry.ino, stream);
		copy_attributes(put, item, entry.ino);
		if (item->name)
			uext4_node_forget(put->tool->fs, entry.ino, 1);
	}
	closedir(stream);
}

/* True if it is another name of something copied before, and is linked to that now. */
static bool put_link(struct put *put, const struct put_item *item)
{
	struct link_entry *before;
	struct uext4_entry entry;
	int err;

	if (S_ISDIR(item->st.st_mode) || item->st.st_nlink < 2)
		return false;
	before = link_map_find(&put->links, item->st.st_dev, item->st.st_ino);
	if (!before)
		return false;
	err = uext4_node_link(put->tool->fs, NULL, before->copy_ino, item->parent, item->name, &entry);
	if (err == -EEXIST && !uext4_node_unlink(put->tool->fs, NULL, item->parent, item->name))
		err = uext4_node_link(put->tool->fs, NULL, before->copy_ino, item->parent, item->name, &entry);
	if (!err)
		uext4_node_forget(put->tool->fs, entry.ino, 1);
	return !err; /* -EMLINK: a copy of its own */
}

static void put_item(struct put *put, const struct put_item *item)
{
	uext4_ino ino;

	progress_file(&put->progress, item->path);
	if (S_ISDIR(item->st.st_mode)) {
		put_dir(put, item);
		return;
	}
	if (put_link(put, item))
		return;
	if (S_ISREG(item->st.st_mode))
		ino = put_file(put, item);
	else if (S_ISLNK(item->st.st_mode))
		ino = put_symlink(put, item);
	else
		ino = put_special(put, item);
	if (ino && item->st.st_nlink > 1)
		link_map_add(&put->links, item->st.st_dev, item->st.st_ino, ino, NULL);
}

/* ---- operands ---- */

static void put_stdin(struct put *put, const struct put_item *item)
{
	struct uext4_attr attr = { .mode = 0644 };
	struct uext4_entry entry;
	ssize_t len = 0;
	off_t pos = 0;
	int err = open_copy(put, item, &entry);

	if (err) {
		fail_image(put, item->path, err);
		return;
	}
	while (!err && (len = read_local(STDIN_FILENO, put->buf, COPY_BYTES, -1)) > 0) {
		err = write_at(put, entry.ino, (size_t)len, pos);
		pos += len;
		progress_bytes(&put->progress, item->path, (uint64_t)len);
	}
	if (len < 0)
		fail_local(put, "standard input", (int)len);
	if (!err)
		err = uext4_node_setattr(put->tool->fs, NULL, entry.ino, &attr, UEXT4_SET_MODE, NULL);
	if (err)
		fail_image(put, item->path, err);
	uext4_node_forget(put->tool->fs, entry.ino, 1);
}

/* "put -r DIR/. /" and "put -r DIR/ ..." of a source without a name: its contents go into the directory named. */
static bool source_has_name(const char *source)
{
	size_t len;
	const char *name = tool_base_name(source, &len);

	return len && !(len == 1 && name[0] == '.') && !(len == 2 && name[0] == '.' && name[1] == '.');
}

static void put_operand(struct put *put, const char *source, const char *dest, bool many)
{
	bool from_stdin = strcmp(source, "-") == 0;
	struct put_item item = { .dir_fd = AT_FDCWD, .local_name = source, .local_path = source };
	struct place place = { 0 };
	int err;

	if (!from_stdin && fstatat(AT_FDCWD, source, &item.st, put->recurse ? AT_SYMLINK_NOFOLLOW : 0)) {
		fail_local(put, source, -errno);
		return;
	}
	if (!from_stdin && !source_has_name(source) && S_ISDIR(item.st.st_mode)) {
		item.path = dest;
		err = uext4_resolve(put->tool->fs, NULL, dest, true, &item.parent);
		if (err)
			fail_image(put, dest, err);
		else
			put_dir(put, &item);
		return;
	}
	err = place_find(put->tool, dest, source, many, &place);
	if (!err && from_stdin && place.name && strcmp(place.name, "-") == 0)
		err = -EISDIR; /* standard input has no name to go by */
	item.parent = place.parent;
	item.name = place.name;
	item.path = place.path;
	if (err)
		fail_image(put, dest, err);
	else if (from_stdin)
		put_stdin(put, &item);
	else
		put_item(put, &item);
	place_exit(&place);
}

static int run_put(struct tool *tool, int argc, char **argv)
{
	struct put put = { .tool = tool };
	const char *dest;
	bool many;
	int opt;

	while ((opt = tool_option(tool, argc, argv, "r", NULL)) != -1) {
		if (opt != 'r')
			return tool_usage(tool);
		put.recurse = true;
	}
	if (argc - optind < 3)
		return tool_usage(tool);
	dest = argv[--argc];
	if (!tool_open(tool, argv[optind++], true))
		return EXIT_FAILED;
	put.buf = tool_alloc(COPY_BYTES);
	progress_start(&put.progress);
	many = argc - optind > 1;
	for (; optind < argc; optind++)
		put_operand(&put, argv[optind], dest, many);
	progress_clear(&put.progress);
	link_map_exit(&put.links);
	free(put.buf);
	return tool_close(tool);
}

const struct command command_put = {
	.name = "put",
	.synopsis = "[-r] [-o OPTIONS] IMAGE LOCAL... PATH",
	.summary = "Copy files into an image",
	.help = "Owners, modes, times, extended attributes and holes are kept. LOCAL \"-\" is standard input, which becomes a\n"
		"file of root's with mode 0644. PATH is a directory, or the name of the one copy.\n\n"
		"  -r      directories with all that is in them; symbolic links and hard links stay what they are\n"
		"  -o OPTIONS  mount options\n",
	.run = run_put,
};
