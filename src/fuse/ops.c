/* SPDX-License-Identifier: MIT */
/* ops.c - the table of request handlers, connection set-up, and conversions that all handlers share */
#include <string.h>

#include "fuse/server.h"

/*
 * CREATE is answered with ENOSYS: told so once, the kernel makes new files with MKNOD and opens them as all others, without a
 * message; and with none there is at their closing.
 */
const struct fuse_lowlevel_ops server_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.create = op_create,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.opendir = op_opendir,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.fsync = op_fsync,
	.fsyncdir = op_fsync,
	.fallocate = op_fallocate,
	.lseek = op_lseek,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
	.ioctl = op_ioctl,
};

struct server *req_server(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static void want(struct fuse_conn_info *conn, unsigned capability)
{
	if (conn->capable & capability)
		conn->want |= capability;
}

void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct server *server = userdata;
	struct uext4_statfs sf;

	conn->max_write = SERVER_MAX_WRITE_BYTES;
	conn->max_readahead = SERVER_MAX_WRITE_BYTES;
	conn->max_background = 64;
	conn->congestion_threshold = 48;
	/* With a writeback cache the kernel keeps times of its own: no finer than they can be stored. */
	if (!uext4_statfs(server->fs, &sf))
		conn->time_gran = sf.time_gran_ns;
	/* Requests are read with one call each; splicing means a pipe and two more. */
	conn->want &= ~(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
	/* We are the only writer: the kernel's cache needs no invalidation by time. */
	conn->want &= ~(FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_HANDLE_KILLPRIV |
			FUSE_CAP_ATOMIC_O_TRUNC);
	want(conn, FUSE_CAP_EXPLICIT_INVAL_DATA);
	want(conn, FUSE_CAP_NO_OPEN_SUPPORT);
	want(conn, FUSE_CAP_NO_OPENDIR_SUPPORT);
	want(conn, FUSE_CAP_PARALLEL_DIROPS);
	want(conn, FUSE_CAP_CACHE_SYMLINKS);
	want(conn, FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
	want(conn, FUSE_CAP_DONT_MASK);
	want(conn, FUSE_CAP_POSIX_ACL);
	want(conn, FUSE_CAP_ASYNC_DIO);
	want(conn, FUSE_CAP_IOCTL_DIR);
	if (server->options.writeback_cache && !server->options.read_only)
		want(conn, FUSE_CAP_WRITEBACK_CACHE);
}

void attr_to_stat(const struct uext4_attr *attr, struct stat *st_out)
{
	memset(st_out, 0, sizeof(*st_out));
	st_out->st_ino = attr->ino;
	st_out->st_mode = attr->mode;
	st_out->st_nlink = attr->nlink;
	st_out->st_uid = attr->uid;
	st_out->st_gid = attr->gid;
	st_out->st_rdev = attr->rdev;
	st_out->st_size = (off_t)attr->size;
	st_out->st_blocks = (blkcnt_t)attr->blocks;
	st_out->st_blksize = attr->block_bytes;
	st_out->st_atim = attr->atime;
	st_out->st_mtim = attr->mtime;
	st_out->st_ctim = attr->ctime;
}

void entry_to_fuse(const struct uext4_entry *entry, struct fuse_entry_param *param_out)
{
	memset(param_out, 0, sizeof(*param_out));
	param_out->ino = node_to_fuse(entry->ino);
	param_out->generation = entry->generation;
	param_out->attr_timeout = SERVER_CACHE_SECONDS;
	param_out->entry_timeout = SERVER_CACHE_SECONDS;
	attr_to_stat(&entry->attr, &param_out->attr);
}
