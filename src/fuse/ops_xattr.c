/* SPDX-License-Identifier: MIT */
/* ops_xattr.c - extended attributes, and the virtual ones by which `uext4 stats` and `uext4 umount` ask the server */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuse/server.h"

#define XATTR_VALUE_MAX 65536u

static void reply_value(fuse_req_t req, size_t size, const char *value, size_t len)
{
	if (size == 0)
		fuse_reply_xattr(req, len);
	else if (len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, value, len);
}

static void reply_stats(fuse_req_t req, size_t size)
{
	char *text = stats_text(req_server(req));

	if (!text) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	/* A size query is answered with the most there can be: counters grow between the two calls. */
	if (size == 0)
		fuse_reply_xattr(req, XATTR_VALUE_MAX);
	else
		reply_value(req, size, text, strlen(text));
	free(text);
}

/* True if @name was one of ours, and answered. */
static bool virtual_getxattr(fuse_req_t req, const char *name, size_t size)
{
	struct server *server = req_server(req);
	char pid[16];

	if (strncmp(name, "uext4.", 6))
		return false;
	if (!strcmp(name, SERVER_XATTR_STATS)) {
		reply_stats(req, size);
	} else if (!strcmp(name, SERVER_XATTR_PID)) {
		snprintf(pid, sizeof(pid), "%d", (int)getpid());
		reply_value(req, size, pid, strlen(pid));
	} else if (!strcmp(name, SERVER_XATTR_WAIT)) {
		reply_value(req, size, server->wait_name, strlen(server->wait_name));
	} else if (!strcmp(name, SERVER_XATTR_SYNC)) {
		int err = uext4_sync(server->fs);

		if (err)
			fuse_reply_err(req, -err);
		else
			reply_value(req, size, "", 0);
	} else {
		fuse_reply_err(req, ENODATA);
	}
	return true;
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	char *buf = worker_buffer();
	ssize_t len;

	if (virtual_getxattr(req, name, size))
		return;
	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	len = uext4_node_getxattr(req_server(req)->fs, NULL, node_of(ino), name, buf, size < XATTR_VALUE_MAX ? size : XATTR_VALUE_MAX);
	if (len < 0)
		fuse_reply_err(req, (int)-len);
	else
		reply_value(req, size, buf, (size_t)len);
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	/* Names in the trusted name space are for the superuser only. */
	struct uext4_cred cred = { .uid = fuse_req_ctx(req)->uid, .gid = fuse_req_ctx(req)->gid };
	char *buf = worker_buffer();
	ssize_t len;

	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	len = uext4_node_listxattr(req_server(req)->fs, cred.uid ? &cred : NULL, node_of(ino), buf,
				   size < XATTR_VALUE_MAX ? size : XATTR_VALUE_MAX);
	if (len < 0)
		fuse_reply_err(req, (int)-len);
	else
		reply_value(req, size, buf, (size_t)len);
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	struct server *server = req_server(req);
	struct uext4_cred cred = req_cred(req);
	struct full_wait wait = { 0 };
	int err;

	do
		err = uext4_node_setxattr(server->fs, &cred, node_of(ino), name, value, size, flags);
	while (full_wait(server, err, &wait));
	fuse_reply_err(req, -err);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	fuse_reply_err(req, -uext4_node_removexattr(req_server(req)->fs, NULL, node_of(ino), name));
}
