/* SPDX-License-Identifier: MIT */
/* umount_cmd.c - `uext4 umount`: unmounts and waits until the image is closed and clean; `uext4 stats` */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fuse/fuse_server.h"
#include "fuse/server.h"

#define STATS_BYTES_MAX 65536u

static const char umount_usage[] =
	"usage: uext4 umount MOUNTPOINT\n"
	"\n"
	"Unmounts, and returns once everything is on disk and the image is clean. Exit code 1 if it is not.\n";

static const char stats_usage[] =
	"usage: uext4 stats [--json] MOUNTPOINT\n"
	"\n"
	"Prints the counters of the mounted file system and its server.\n"
	"\n"
	"  --json       one JSON object\n";

static int fail(const char *command, const char *what, const char *why)
{
	fprintf(stderr, "uext4: %s: %s: %s\n", command, what, why);
	return 1;
}

/* ---- which mount ---- */

/* realpath() without touching the mount itself: its server may be dead. */
static int resolve(const char *mountpoint, char path_out[PATH_MAX])
{
	if (realpath(mountpoint, path_out))
		return 0;
	if (errno != ENOTCONN && errno != EACCES)
		return -errno;
	if (mountpoint[0] == '/')
		return snprintf(path_out, PATH_MAX, "%s", mountpoint) >= PATH_MAX ? -ENAMETOOLONG : 0;
	if (!getcwd(path_out, PATH_MAX))
		return -errno;
	return strlen(path_out) + strlen(mountpoint) + 2 > PATH_MAX ? -ENAMETOOLONG :
	       (strcat(strcat(path_out, "/"), mountpoint), 0);
}

/* ---- waiting for the server ---- */

static int connect_wait(const char *mountpoint)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	ssize_t len = getxattr(mountpoint, SERVER_XATTR_WAIT, addr.sun_path + 1, sizeof(addr.sun_path) - 1);
	int fd;

	if (len <= 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int wait_by_socket(const char *mountpoint, int fd)
{
	int err = 0;
	ssize_t got;

	do
		got = recv(fd, &err, sizeof(err), MSG_WAITALL);
	while (got < 0 && errno == EINTR);
	close(fd);
	if (got != sizeof(err))
		return fail("umount", mountpoint, "the server died before the image was closed; its journal is replayed at the next mount");
	return err ? fail("umount", mountpoint, strerror(-err)) : 0;
}

/* Without the socket (another network namespace, or a mount that we may not look into): the server locks its image. */
static int wait_by_lock(const char *mountpoint, const char *image)
{
	int fd = open(image, O_RDONLY | O_CLOEXEC);
	int code = 0;

	if (fd < 0)
		return fail("umount", image, "unmounted, but the image cannot be opened to wait for its server");
	if (flock(fd, LOCK_SH))
		code = fail("umount", mountpoint, strerror(errno));
	close(fd);
	return code;
}

/* ---- unmounting ---- */

static int run_fusermount(const char *mountpoint)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return fail("umount", mountpoint, strerror(errno));
	if (child == 0) {
		execlp("fusermount3", "fusermount3", "-u", "--", mountpoint, (char *)NULL);
		fail("umount", "fusermount3", strerror(errno));
		_exit(1);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return fail("umount", mountpoint, strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int unmount(const char *mountpoint)
{
	if (geteuid() != 0)
		return run_fusermount(mountpoint);
	return umount2(mountpoint, UMOUNT_NOFOLLOW) ? fail("umount", mountpoint, strerror(errno)) : 0;
}

static int one_argument(int argc, char **argv, const char *usage, bool *json, const char **arg_out)
{
	static const struct option long_options[] = { { "help", no_argument, NULL, 'h' },
						      { "json", no_argument, NULL, 'j' }, { NULL, 0, NULL, 0 } };
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return 1 + 0;
		}
		if (c != 'j' || !json)
			return 1 + 2;
		*json = true;
	}
	if (argc - optind != 1) {
		fputs(usage, stderr);
		return 1 + 2;
	}
	*arg_out = argv[optind];
	return 0;
}

int fuse_main_umount(int argc, char **argv)
{
	const char *mountpoint;
	char path[PATH_MAX];
	struct mount_info info;
	int fd, err, code = one_argument(argc, argv, umount_usage, NULL, &mountpoint);

	if (code)
		return code - 1;
	err = resolve(mountpoint, path);
	if (err)
		return fail("umount", mountpoint, strerror(-err));
	err = mount_find(path, &info);
	if (err)
		return fail("umount", mountpoint, err == -EINVAL ? "not a uext4 mount" : strerror(-err));
	fd = connect_wait(path);
	code = unmount(path);
	if (code) {
		if (fd >= 0)
			close(fd);
		return code;
	}
	return fd >= 0 ? wait_by_socket(mountpoint, fd) : wait_by_lock(mountpoint, info.source);
}

/* {"a":{"x":1,"y":2}} as lines "a.x 1". The text is our own server's: names without escapes, values whole numbers. */
static void print_plain(const char *json)
{
	char section[64] = "", key[64] = "";

	for (const char *p = json; *p; p++) {
		if (*p == '"') {
			size_t len = strcspn(p + 1, "\"");

			snprintf(key, sizeof(key), "%.*s", (int)len, p + 1);
			p += len + 1;
		} else if (*p == '{') {
			snprintf(section, sizeof(section), "%s", key);
		} else if (*p >= '0' && *p <= '9') {
			size_t len = strspn(p, "0123456789");

			printf("%s.%s %.*s\n", section, key, (int)len, p);
			p += len - 1;
		}
	}
}

int fuse_main_stats(int argc, char **argv)
{
	static char text[STATS_BYTES_MAX + 1];
	const char *mountpoint;
	bool json = false;
	int code = one_argument(argc, argv, stats_usage, &json, &mountpoint);
	ssize_t len;

	if (code)
		return code - 1;
	len = getxattr(mountpoint, SERVER_XATTR_STATS, text, STATS_BYTES_MAX);
	if (len < 0)
		return fail("stats", mountpoint, errno == ENODATA || errno == EOPNOTSUPP ? "not a uext4 mount" : strerror(errno));
	text[len] = '\0';
	if (json)
		puts(text);
	else
		print_plain(text);
	return 0;
}
