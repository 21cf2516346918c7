/* SPDX-License-Identifier: MIT */
/* ops_fs.c - STATFS, and the ioctls that chattr and lsattr use */
#include <errno.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "fuse/server.h"

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct uext4_statfs sf;
	struct statvfs st;
	int err = uext4_statfs(req_server(req)->fs, &sf);

	(void)ino;
	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	memset(&st, 0, sizeof(st));
	st.f_bsize = st.f_frsize = sf.block_bytes;
	st.f_blocks = sf.blocks;
	st.f_bfree = sf.blocks_free;
	st.f_bavail = sf.blocks_available;
	st.f_files = sf.inodes;
	st.f_ffree = st.f_favail = sf.inodes_free;
	st.f_namemax = sf.name_max;
	fuse_reply_statfs(req, &st);
}

static const struct { uint32_t fl, xfl; } xflags[] = {
	{ FS_IMMUTABLE_FL, FS_XFLAG_IMMUTABLE }, { FS_APPEND_FL, FS_XFLAG_APPEND }, { FS_SYNC_FL, FS_XFLAG_SYNC },
	{ FS_NOATIME_FL, FS_XFLAG_NOATIME }, { FS_NODUMP_FL, FS_XFLAG_NODUMP }, { FS_PROJINHERIT_FL, FS_XFLAG_PROJINHERIT },
};

static void get_fsxattr(const struct uext4_attr *attr, struct fsxattr *out)
{
	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < sizeof(xflags) / sizeof(xflags[0]); i++)
		if (attr->flags & xflags[i].fl)
			out->fsx_xflags |= xflags[i].xfl;
	out->fsx_projid = attr->projid;
}

static void set_fsxattr(const struct fsxattr *in, struct uext4_attr *attr)
{
	for (size_t i = 0; i < sizeof(xflags) / sizeof(xflags[0]); i++) {
		attr->flags &= ~xflags[i].fl;
		if (in->fsx_xflags & xflags[i].xfl)
			attr->flags |= xflags[i].fl;
	}
	attr->projid = in->fsx_projid;
}

/* Only the owner and the superuser may set flags; only the latter the two that lock a file. */
static int may_set_flags(fuse_req_t req, const struct uext4_attr *now, const struct uext4_attr *want)
{
	uid_t uid = fuse_req_ctx(req)->uid;

	if (uid == 0)
		return 0;
	if (uid != now->uid || (now->flags ^ want->flags) & (FS_IMMUTABLE_FL | FS_APPEND_FL) || now->projid != want->projid)
		return -EPERM;
	return 0;
}

/* ---- flags that freeze a file ---- */

struct freezing {
	fuse_req_t req;
	uext4_ino ino;
	struct uext4_attr want;
	uint32_t which;
};

static void reply_set(fuse_req_t req, int err)
{
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_ioctl(req, 0, NULL, 0);
}

static void freeze(void *arg)
{
	struct freezing *f = arg;

	reply_set(f->req, uext4_node_setattr(req_server(f->req)->fs, NULL, f->ino, &f->want, f->which, NULL));
	free(f);
}

/* What was written while it was allowed must be in the file before it is forbidden. True: the request will be answered. */
static bool freeze_after_writeback(fuse_req_t req, fuse_ino_t ino, const struct uext4_attr *now,
				   const struct uext4_attr *want, uint32_t which)
{
	struct server *server = req_server(req);
	struct freezing *f;

	if (!(want->flags & ~now->flags & (FS_IMMUTABLE_FL | FS_APPEND_FL)) || !S_ISREG(now->mode) ||
	    !server->options.writeback_cache || server->options.read_only)
		return false;
	f = malloc(sizeof(*f));
	if (!f) {
		fuse_reply_err(req, ENOMEM);
		return true;
	}
	*f = (struct freezing){ .req = req, .ino = node_of(ino), .want = *want, .which = which };
	pages_drop_then(server->pages, ino, freeze, f);
	return true;
}

void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi, unsigned flags,
	      const void *in_buf, size_t in_size, size_t out_size)
{
	struct server *server = req_server(req);
	struct uext4_attr attr, want;
	struct fsxattr xattr;
	uint32_t which = 0;
	int err = uext4_node_getattr(server->fs, node_of(ino), &attr);

	(void)arg;
	(void)fi;
	if (err || flags & FUSE_IOCTL_UNRESTRICTED) {
		fuse_reply_err(req, err ? -err : ENOTTY);
		return;
	}
	want = attr;
	if (cmd == FS_IOC_GETFLAGS && out_size >= sizeof(uint32_t)) {
		fuse_reply_ioctl(req, 0, &attr.flags, sizeof(attr.flags));
		return;
	}
	if (cmd == FS_IOC_GETVERSION && out_size >= sizeof(uint32_t)) {
		fuse_reply_ioctl(req, 0, &attr.generation, sizeof(attr.generation));
		return;
	}
	if (cmd == FS_IOC_FSGETXATTR && out_size >= sizeof(xattr)) {
		get_fsxattr(&attr, &xattr);
		fuse_reply_ioctl(req, 0, &xattr, sizeof(xattr));
		return;
	}
	if (cmd == FS_IOC_SETFLAGS && in_size >= sizeof(uint32_t)) {
		memcpy(&want.flags, in_buf, sizeof(want.flags));
		which = UEXT4_SET_FLAGS;
	} else if (cmd == FS_IOC_FSSETXATTR && in_size >= sizeof(xattr)) {
		memcpy(&xattr, in_buf, sizeof(xattr));
		set_fsxattr(&xattr, &want);
		which = UEXT4_SET_FLAGS | (want.projid != attr.projid ? UEXT4_SET_PROJID : 0);
	} else {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	err = may_set_flags(req, &attr, &want);
	if (!err && freeze_after_writeback(req, ino, &attr, &want, which))
		return;
	if (!err)
		err = uext4_node_setattr(server->fs, NULL, node_of(ino), &want, which, NULL);
	reply_set(req, err);
}
