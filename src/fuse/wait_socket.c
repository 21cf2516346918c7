/* SPDX-License-Identifier: MIT */
/*
 * wait_socket.c - tells `uext4 umount` how closing the image went
 *
 * The kernel's unmount returns when it has sent its last request, before the journal is emptied and the image closed. The
 * command connects to this socket before it unmounts and then reads until the server has written one int.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuse/server.h"

int wait_socket_open(struct server *server)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	uint64_t token = 0;
	socklen_t len;

	if (getrandom(&token, sizeof(token), 0) != sizeof(token))
		return -errno;
	snprintf(server->wait_name, sizeof(server->wait_name), "uext4-%d-%016llx", (int)getpid(), (unsigned long long)token);
	memcpy(addr.sun_path + 1, server->wait_name, strlen(server->wait_name));
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(server->wait_name));
	server->wait_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->wait_fd < 0)
		return -errno;
	if (bind(server->wait_fd, (struct sockaddr *)&addr, len) || listen(server->wait_fd, 16)) {
		int err = -errno;

		close(server->wait_fd);
		server->wait_fd = -1;
		return err;
	}
	return 0;
}

void wait_socket_tell(struct server *server, int err)
{
	int client;

	if (server->wait_fd < 0)
		return;
	while ((client = accept4(server->wait_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		(void)!send(client, &err, sizeof(err), MSG_NOSIGNAL); /* whoever asked may be gone */
		close(client);
	}
	close(server->wait_fd);
	server->wait_fd = -1;
}
