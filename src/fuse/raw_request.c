/* SPDX-License-Identifier: MIT */
/* raw_request.c - what the kernel's request says beyond what libfuse passes on; requests by kind */
#include <linux/fuse.h>
#include <string.h>

#include "fuse/server.h"

#define RAW_REQUEST_BULK_BYTES (64u << 10)

static _Thread_local struct raw_request current;

static const char *const opcode_names[SERVER_OPCODES] = {
	[FUSE_LOOKUP] = "lookup", [FUSE_FORGET] = "forget", [FUSE_GETATTR] = "getattr", [FUSE_SETATTR] = "setattr",
	[FUSE_READLINK] = "readlink", [FUSE_SYMLINK] = "symlink", [FUSE_MKNOD] = "mknod", [FUSE_MKDIR] = "mkdir",
	[FUSE_UNLINK] = "unlink", [FUSE_RMDIR] = "rmdir", [FUSE_RENAME] = "rename", [FUSE_LINK] = "link",
	[FUSE_OPEN] = "open", [FUSE_READ] = "read", [FUSE_WRITE] = "write", [FUSE_STATFS] = "statfs",
	[FUSE_RELEASE] = "release", [FUSE_FSYNC] = "fsync", [FUSE_SETXATTR] = "setxattr",
	[FUSE_GETXATTR] = "getxattr", [FUSE_LISTXATTR] = "listxattr", [FUSE_REMOVEXATTR] = "removexattr",
	[FUSE_FLUSH] = "flush", [FUSE_INIT] = "init", [FUSE_OPENDIR] = "opendir", [FUSE_READDIR] = "readdir",
	[FUSE_RELEASEDIR] = "releasedir", [FUSE_FSYNCDIR] = "fsyncdir", [FUSE_ACCESS] = "access",
	[FUSE_CREATE] = "create", [FUSE_INTERRUPT] = "interrupt", [FUSE_DESTROY] = "destroy",
	[FUSE_IOCTL] = "ioctl", [FUSE_BATCH_FORGET] = "batch_forget", [FUSE_FALLOCATE] = "fallocate",
	[FUSE_READDIRPLUS] = "readdirplus", [FUSE_RENAME2] = "rename2", [FUSE_LSEEK] = "lseek",
	[FUSE_COPY_FILE_RANGE] = "copy_file_range", [FUSE_SYNCFS] = "syncfs", [FUSE_TMPFILE] = "tmpfile",
};

const char *opcode_name(unsigned opcode)
{
	return opcode < SERVER_OPCODES ? opcode_names[opcode] : NULL;
}

const struct raw_request *raw_request_current(void)
{
	return &current;
}

static bool asks_to_kill_priv(uint32_t opcode, const void *body, size_t len)
{
	if (opcode == FUSE_WRITE && len >= sizeof(struct fuse_write_in))
		return ((const struct fuse_write_in *)body)->write_flags & FUSE_WRITE_KILL_SUIDGID;
	if (opcode == FUSE_SETATTR && len >= sizeof(struct fuse_setattr_in))
		return ((const struct fuse_setattr_in *)body)->valid & FATTR_KILL_SUIDGID;
	return false;
}

static bool carries_much(uint32_t opcode, const void *body, size_t len)
{
	if (opcode == FUSE_WRITE && len >= sizeof(struct fuse_write_in))
		return ((const struct fuse_write_in *)body)->size >= RAW_REQUEST_BULK_BYTES;
	if (opcode == FUSE_READ && len >= sizeof(struct fuse_read_in))
		return ((const struct fuse_read_in *)body)->size >= RAW_REQUEST_BULK_BYTES;
	return false;
}

static bool offers_killpriv_v2(uint32_t opcode, const void *body, size_t len)
{
	return opcode == FUSE_INIT && len >= offsetof(struct fuse_init_in, flags) + sizeof(uint32_t) &&
	       ((const struct fuse_init_in *)body)->flags & FUSE_HANDLE_KILLPRIV_V2;
}

void raw_request_note(struct server *server, const void *bytes, size_t len_bytes)
{
	const struct fuse_in_header *in = bytes;
	unsigned slot;

	current = (struct raw_request){ 0 };
	if (len_bytes < sizeof(*in))
		return;
	current.opcode = in->opcode;
	current.unique = in->unique;
	current.caller = in->pid;
	current.bulk = carries_much(in->opcode, in + 1, len_bytes - sizeof(*in));
	current.kill_priv = asks_to_kill_priv(in->opcode, in + 1, len_bytes - sizeof(*in));
	current.offers_killpriv_v2 = offers_killpriv_v2(in->opcode, in + 1, len_bytes - sizeof(*in));
	slot = in->opcode < SERVER_OPCODES ? in->opcode : 0;
	atomic_fetch_add_explicit(&server->requests[slot], 1, memory_order_relaxed);
}

/* The two are asked and answered alike, only that the name of TMPFILE means nothing. */
void raw_request_translate(void *bytes, size_t len_bytes)
{
	struct fuse_in_header *in = bytes;

	if (len_bytes >= sizeof(*in) && in->opcode == FUSE_TMPFILE)
		in->opcode = FUSE_CREATE;
}

bool raw_request_may_block(const struct raw_request *raw)
{
	switch (raw->opcode) {
	case FUSE_FSYNC:
	case FUSE_FSYNCDIR:
	case FUSE_SYNCFS:
	case FUSE_FALLOCATE:
		return true;
	default:
		return false;
	}
}
