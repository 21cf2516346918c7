/* SPDX-License-Identifier: MIT */
/* ops_file.c - requests on file data */
#include <errno.h>

#include "fuse/server.h"

/* The kernel's page cache holds what is read and written: what is large and need not wait bypasses ours. */

/*
 * The kernel takes a short count for the end of the file and fills its pages with zeros, so an error behind the first bytes
 * is the answer for all of them; it then asks for each page alone. Returns how much there is, or a negative errno.
 */
static ssize_t read_whole(struct server *server, fuse_ino_t ino, char *buf, size_t size, off_t off)
{
	size_t done = 0;
	ssize_t got;

	do {
		struct iovec iov = { .iov_base = buf + done, .iov_len = size - done };

		got = uext4_node_readv(server->fs, node_of(ino), &iov, 1, off + (off_t)done, UEXT4_READ_UNCACHED);
		if (got > 0)
			done += (size_t)got;
	} while (got > 0 && done < size);
	return got < 0 ? got : (ssize_t)done;
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	char *buf = worker_buffer();
	ssize_t got;

	(void)fi;
	if (splice_reply_read(req, ino, size, off))
		return;
	if (!buf || size > SERVER_MAX_WRITE_BYTES) {
		fuse_reply_err(req, buf ? EINVAL : ENOMEM);
		return;
	}
	got = read_whole(req_server(req), ino, buf, size, off);
	if (got < 0)
		fuse_reply_err(req, (int)-got);
	else
		fuse_reply_buf(req, buf, (size_t)got);
}

/* Is the request one of somebody whom the superblock keeps blocks for? */
static bool has_root_blocks(fuse_req_t req)
{
	struct uext4_cred cred = req_cred(req);

	return uext4_has_root_blocks(req_server(req)->fs, &cred);
}

static uint32_t write_flags(fuse_req_t req, const struct fuse_file_info *fi)
{
	uint32_t flags = UEXT4_WRITE_UNCACHED;

	if (fi->writepage) /* of whoever wrote to the kernel's page, perhaps several */
		return flags | UEXT4_WRITE_KEEP_TIMES | UEXT4_WRITE_AS_OWNER;
	if (raw_request_current()->kill_priv)
		flags |= UEXT4_WRITE_KILL_PRIV;
	if (has_root_blocks(req))
		flags |= UEXT4_WRITE_ROOT_BLOCKS;
	return flags;
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct server *server = req_server(req);
	struct iovec iov = { .iov_base = (char *)buf, .iov_len = size };
	uint32_t flags = write_flags(req, fi);
	struct full_wait wait = { 0 };
	size_t done = 0;
	ssize_t put = 0;

	while (done < size) {
		do
			put = uext4_node_writev(server->fs, node_of(ino), &iov, 1, off + (off_t)done, flags);
		while (full_wait(server, (int)put, &wait));
		if (put <= 0)
			break;
		done += (size_t)put;
		iov.iov_base = (char *)buf + done;
		iov.iov_len = size - done;
	}
	if (fi->writepage && (put == -ENOSPC || put == -EPERM))
		refused_note(server, ino, (int)put);
	if (fi->writepage && put == -EPERM)
		pages_drop(server->pages, ino); /* what is there is still in the file */
	/* The kernel does not look at the count of its writeback: what is short would be lost, and fsync would not say so. */
	if (done < size && (done == 0 || fi->writepage))
		fuse_reply_err(req, put < 0 ? (int)-put : EIO);
	else
		fuse_reply_write(req, done);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)fi;
	fuse_reply_err(req, -uext4_node_fsync(req_server(req)->fs, node_of(ino), datasync != 0));
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len, struct fuse_file_info *fi)
{
	struct server *server = req_server(req);
	struct full_wait wait = { 0 };
	int err;

	(void)fi;
	if (server->options.writeback_cache && !server->options.read_only)
		mode |= UEXT4_FALLOC_KEEP_TIMES; /* the kernel's own are the newest, and follow by SETATTR */
	if (has_root_blocks(req))
		mode |= UEXT4_FALLOC_ROOT_BLOCKS;
	do
		err = uext4_node_fallocate(server->fs, node_of(ino), mode, off, len);
	while (full_wait(server, err, &wait));
	fuse_reply_err(req, -err);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	off_t pos = uext4_node_lseek(req_server(req)->fs, node_of(ino), off, whence);

	(void)fi;
	if (pos < 0)
		fuse_reply_err(req, (int)-pos);
	else
		fuse_reply_lseek(req, pos);
}
