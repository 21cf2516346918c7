/* SPDX-License-Identifier: MIT */
/*
 * session.c - the libfuse session: mounting, and what its INIT reply lacks
 *
 * Unmounting, libfuse closes its descriptor of the device first, and the file system is gone for whoever still uses it. After a
 * signal these have some time left, and the workers still serve: so everything goes through a descriptor of our own.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fuse/server.h"

static ssize_t session_read(int fd, void *buf, size_t len, void *userdata)
{
	const struct server *server = userdata;

	(void)fd;
	return read(server->device_fd, buf, len);
}

/*
 * libfuse before 3.17 does not know HANDLE_KILLPRIV_V2. Without it the kernel asks for security.capability before each
 * write to a file. The flag is added to the reply to INIT on its way out, where the kernel offered it.
 */
static ssize_t write_init_reply(int fd, struct iovec *iov, int count)
{
	struct fuse_init_out init;
	struct iovec patched[2] = { iov[0], { &init, iov[1].iov_len } };

	if (count != 2 || iov[1].iov_len > sizeof(init) || iov[1].iov_len < offsetof(struct fuse_init_out, max_background))
		return writev(fd, iov, count);
	memcpy(&init, iov[1].iov_base, iov[1].iov_len);
	init.flags |= FUSE_HANDLE_KILLPRIV_V2;
	return writev(fd, patched, count);
}

static ssize_t session_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct server *server = userdata;

	(void)fd;
	if (raw_request_current()->offers_killpriv_v2)
		return write_init_reply(server->device_fd, iov, count);
	return writev(server->device_fd, iov, count);
}

static const struct fuse_custom_io session_io = { .writev = session_writev, .read = session_read };

static int add_option(struct fuse_args *args, const char *option)
{
	return fuse_opt_add_arg(args, "-o") || fuse_opt_add_arg(args, option) ? -1 : 0;
}

/* Commas and backslashes in the image's name would be taken for the option list's own. */
static int add_fsname(struct fuse_args *args, const char *image)
{
	char *list = NULL, *option = malloc(strlen(image) + 8);
	int err;

	if (!option)
		return -1;
	sprintf(option, "fsname=%s", image);
	err = fuse_opt_add_opt_escaped(&list, option) ? -1 : add_option(args, list);
	free(list);
	free(option);
	return err;
}

static int session_args(struct server *server, const char *image, struct fuse_args *args)
{
	if (fuse_opt_add_arg(args, "uext4") || add_option(args, server->options.fuse_options) || add_fsname(args, image))
		return -1;
	if (server->options.read_only && add_option(args, "ro"))
		return -1;
	return server->options.io_uring ? add_option(args, "io_uring") : 0;
}

/* Before the unmount: it might wait for answers that nobody gives any more. */
static void close_device(struct server *server)
{
	if (server->device_fd >= 0)
		close(server->device_fd);
	server->device_fd = -1;
}

int session_create(struct server *server, const char *image, const char *mountpoint)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	int fd, err = session_args(server, image, &args);

	if (!err)
		server->session = fuse_session_new(&args, &server_ops, sizeof(server_ops), server);
	fuse_opt_free_args(&args);
	if (!server->session)
		return -1;
	if (fuse_session_mount(server->session, mountpoint))
		goto destroy;
	fd = fuse_session_fd(server->session);
	server->device_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (server->device_fd < 0 || fuse_session_custom_io(server->session, &session_io, fd) ||
	    fcntl(fd, F_SETFL, O_NONBLOCK)) {
		fprintf(stderr, "uext4: mount: cannot set up the connection to the kernel: %s\n", strerror(errno));
		goto unmount;
	}
	return 0;
unmount:
	close_device(server);
	fuse_session_unmount(server->session);
destroy:
	fuse_session_destroy(server->session);
	server->session = NULL;
	return -1;
}

void session_destroy(struct server *server)
{
	close_device(server);
	fuse_session_unmount(server->session);
	fuse_session_destroy(server->session);
	server->session = NULL;
}
