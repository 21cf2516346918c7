/* SPDX-License-Identifier: MIT */
/* server.h - the FUSE server: one session over one open file system */
#ifndef UEXT4_FUSE_SERVER_H
#define UEXT4_FUSE_SERVER_H

#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "uext4.h"

#define SERVER_MAX_WRITE_BYTES (1u << 20)
#define SERVER_OPCODES         64
#define SERVER_REFUSED_SLOTS   64

/* Names of the virtual attributes, readable on every node and listed on none. */
#define SERVER_XATTR_STATS "uext4.stats"   /* counters as JSON */
#define SERVER_XATTR_PID   "uext4.pid"     /* of the server, decimal */
#define SERVER_XATTR_WAIT  "uext4.wait"    /* abstract socket that tells how the unmount went */
#define SERVER_XATTR_SYNC  "uext4.sync"    /* reading it is syncfs(2); the value is empty */

struct server_options {
	char *fs_options;          /* for the file system; owned */
	char *fuse_options;        /* for libfuse; owned */
	bool foreground;
	bool read_only;
	bool writeback_cache;      /* default on */
	bool io_uring;
	unsigned spin_us;          /* how long the hot worker spins before it sleeps */
	bool follow_caller;        /* it runs on the processor of a steady caller; default on */
	unsigned max_threads;
};

struct server {
	struct uext4_fs *fs;             /* [const] */
	int device_fd;                   /* [const] /dev/fuse, while there is a session */
	struct fuse_session *session;    /* [const] */
	struct server_options options;   /* [const] */
	void (*_Atomic on_ready)(struct server *server); /* [atomic] called once, when INIT is answered; NULL after */
	const char *mountpoint;          /* [const] resolved */
	_Atomic bool error_logged;       /* [atomic] the library has said what is wrong */
	int ready_fd;                    /* [owner thread] on_ready's: where the parent process waits, -1: none */
	_Atomic uint64_t requests[SERVER_OPCODES]; /* [atomic] by opcode; the last for unknown ones */
	_Atomic uint64_t refused[SERVER_REFUSED_SLOTS]; /* [atomic] refused.c: files whose writeback was refused; 0: none */
	_Atomic uint64_t reads_empty;    /* [atomic] spins that found no request */
	_Atomic uint64_t followed;       /* [atomic] requests answered on their caller's processor */
	_Atomic uint64_t spliced;        /* [atomic] READs answered without copying */
	_Atomic uint64_t handovers;      /* [atomic] a second worker took over from a blocked one */
	char wait_name[64];              /* [const] abstract socket, without the leading NUL */
	int wait_fd;                     /* [const] listening */
	struct pages *pages;             /* [const] while the loop runs */
};

/* ---- ops: request handlers ---- */
extern const struct fuse_lowlevel_ops server_ops;

/* FUSE calls the root 1, ext4 2; ext4's node 1 (bad blocks) is never shown. */
static inline uext4_ino node_of(fuse_ino_t ino) { return ino == FUSE_ROOT_ID ? UEXT4_ROOT_INO : (uext4_ino)ino; }
static inline fuse_ino_t node_to_fuse(uext4_ino ino) { return ino == UEXT4_ROOT_INO ? FUSE_ROOT_ID : (fuse_ino_t)ino; }

struct server *req_server(fuse_req_t req);

/* Who asks. Further groups are not asked for: that would read a file under /proc for each request. */
static inline struct uext4_cred req_cred(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return (struct uext4_cred){ .uid = ctx->uid, .gid = ctx->gid, .umask = ctx->umask };
}

void attr_to_stat(const struct uext4_attr *attr, struct stat *st_out);
void entry_to_fuse(const struct uext4_entry *entry, struct fuse_entry_param *param_out);
/* Nobody else changes the image: names and attributes stay valid until we are told. */
#define SERVER_CACHE_SECONDS 1e9

/* op_*: declared for the table in ops.c. */
void op_init(void *userdata, struct fuse_conn_info *conn);
void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup);
void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int valid, struct fuse_file_info *fi);
void op_readlink(fuse_req_t req, fuse_ino_t ino);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name, unsigned flags);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name);
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi);
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len, struct fuse_file_info *fi);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_statfs(fuse_req_t req, fuse_ino_t ino);
void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi, unsigned flags,
	      const void *in_buf, size_t in_size, size_t out_size);

/* ---- the request in hand on this thread ---- */

/* What libfuse does not pass on: read from the raw request before it is processed. */
struct raw_request {
	uint32_t opcode;
	uint64_t unique;   /* names the request in its answer */
	uint32_t caller;   /* thread id, 0: the kernel itself or one that we cannot see */
	bool bulk;         /* READ, WRITE: of so much data that copying it outweighs a wake-up */
	bool kill_priv;    /* WRITE, SETATTR: the kernel asks us to drop setuid, setgid, capabilities */
	bool offers_killpriv_v2; /* INIT: the kernel knows the request above */
};
const struct raw_request *raw_request_current(void);
/* Looks at a received request: counts it and notes what raw_request_current() tells. */
void raw_request_note(struct server *server, const void *bytes, size_t len_bytes);
/* Turns a request that libfuse 3.14 does not know into one that it does: TMPFILE into CREATE, whose handler looks which it was. */
void raw_request_translate(void *bytes, size_t len_bytes);
/* May this kind of request wait for the device for long? Then another worker takes over first. */
bool raw_request_may_block(const struct raw_request *raw);
const char *opcode_name(unsigned opcode); /* NULL: unknown */

/*
 * Where a worker reads requests to. The data of a WRITE begins on a page, so that it can go to a device as it is. Starts at
 * bytes and has room for the largest request; free with request_buffer_free().
 */
struct request_buffer {
	void *bytes;
	size_t room_bytes;
};
int  request_buffer_alloc(struct request_buffer *buffer); /* -ENOMEM */
void request_buffer_free(struct request_buffer *buffer);

/* A buffer of SERVER_MAX_WRITE_BYTES of this thread, aligned to pages; NULL: no memory. */
void *worker_buffer(void);

/* ---- splice.c ---- */

/**
 * splice_reply_read() - answer a READ without copying, if it is large and the file system can
 * Return: has @req been answered? If not it is to be answered in the ordinary way
 */
bool splice_reply_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off);

/* ---- refused.c ---- */

void refused_note(struct server *server, fuse_ino_t ino, int err); /* writeback of the file failed with @err */
int  refused_take(struct server *server, fuse_ino_t ino); /* has that happened, and nobody been told? the error, or 0 */

/* ---- full.c ---- */

struct full_wait { /* starts zeroed */
	unsigned tries;
	bool hope;
};
/* After an operation that gave @err: was it -ENOSPC, and is it worth trying again? Then some time has passed, perhaps. */
bool full_wait(struct server *server, int err, struct full_wait *wait);

/* ---- pages.c: what the kernel caches of files ---- */

struct pages;

/* A thread of its own: the kernel wants its WRITEs answered before it lets a page go. NULL: no memory, no thread. */
struct pages *pages_start(struct fuse_session *session);
/* Finishes what it has begun; the session still serves or is gone. The rest is not done. */
void pages_stop(struct pages *pages);
void pages_free(struct pages *pages);
/* Drops the pages of a file soon, written back first: they are not what the file has. Without memory they stay. */
void pages_drop(struct pages *pages, fuse_ino_t ino);
/**
 * pages_drop_then() - drop the pages of a file, written back first, and then call @then(@arg)
 * @then: runs on the thread of @pages, or on the caller's where that has stopped or has no memory
 */
void pages_drop_then(struct pages *pages, fuse_ino_t ino, void (*then)(void *arg), void *arg);

/* ---- session ---- */

/**
 * session_create() - make the session and mount it
 * Patches the INIT reply for what libfuse 3.14 does not know (HANDLE_KILLPRIV_V2, without which each write costs an
 * extra GETXATTR of security.capability).
 * Return: 0 or -1 with a message printed by libfuse
 */
int session_create(struct server *server, const char *image, const char *mountpoint);
void session_destroy(struct server *server);

/* The counters of file system and server as one JSON object; caller frees. NULL: no memory. */
char *stats_text(struct server *server);

/* ---- mount_info.c ---- */

struct mount_info {
	char source[PATH_MAX];   /* the image */
	char device[32];         /* "major:minor" */
	bool found, is_uext4;
};
/* The topmost mount at @mountpoint, a resolved path. -EINVAL: none, or none of ours. */
int  mount_find(const char *mountpoint, struct mount_info *info_out);
/* Larger read requests from now on, if we may. After INIT: the answer to it sets the kernel's own value. */
void mount_raise_readahead(const struct mount_info *info);

/* ---- how an unmount went, for `uext4 umount` ---- */
int  wait_socket_open(struct server *server);
void wait_socket_tell(struct server *server, int err); /* to all who asked; then closes */

/* ---- options ---- */
/**
 * server_options_add() - sort one `-o` string into ours, libfuse's and the file system's
 * Return: 0; -EINVAL, -ENOMEM: printed
 */
int server_options_init(struct server_options *options);
int server_options_add(struct server_options *options, const char *text);
void server_options_exit(struct server_options *options);

#endif
