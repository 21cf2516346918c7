/* SPDX-License-Identifier: MIT */
/* ops_node.c - requests on names and attributes */
#include <errno.h>
#include <limits.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fuse/server.h"

#define SUPPLEMENTARY_GROUPS_MAX 256

struct group_cred {
	struct uext4_cred cred;
	gid_t groups[SUPPLEMENTARY_GROUPS_MAX];
};

/* With the further groups where they matter: whether a file with @mode keeps its S_ISGID. */
static void cred_with_groups(fuse_req_t req, uint32_t mode, struct group_cred *out)
{
	int count;

	out->cred = req_cred(req);
	if (!(mode & S_ISGID) || out->cred.uid == 0)
		return;
	count = fuse_req_getgroups(req, SUPPLEMENTARY_GROUPS_MAX, out->groups);
	if (count <= 0)
		return;
	out->cred.groups = out->groups;
	out->cred.group_count = count < SUPPLEMENTARY_GROUPS_MAX ? (uint32_t)count : SUPPLEMENTARY_GROUPS_MAX;
}

static void reply_entry(fuse_req_t req, int err, const struct uext4_entry *entry)
{
	struct fuse_entry_param param;

	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	entry_to_fuse(entry, &param);
	/* The reply did not reach the kernel (interrupted): the lookup it was to count is ours again. */
	if (fuse_reply_entry(req, &param) == -ENOENT)
		uext4_node_forget(req_server(req)->fs, entry->ino, 1);
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct server *server = req_server(req);
	struct uext4_entry entry;
	int err = uext4_node_lookup(server->fs, NULL, node_of(parent), name, &entry);

	if (err == -ENOENT) {
		/* Node 0 with a lifetime: a negative entry for the kernel to keep. */
		struct fuse_entry_param none = { .entry_timeout = SERVER_CACHE_SECONDS };

		fuse_reply_entry(req, &none);
		return;
	}
	reply_entry(req, err, &entry);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	if (ino != FUSE_ROOT_ID)
		uext4_node_forget(req_server(req)->fs, node_of(ino), nlookup);
	fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct server *server = req_server(req);

	for (size_t i = 0; i < count; i++)
		if (forgets[i].ino != FUSE_ROOT_ID)
			uext4_node_forget(server->fs, node_of(forgets[i].ino), forgets[i].nlookup);
	fuse_reply_none(req);
}

static void reply_attr(fuse_req_t req, int err, const struct uext4_attr *attr)
{
	struct stat st;

	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	attr_to_stat(attr, &st);
	fuse_reply_attr(req, &st, SERVER_CACHE_SECONDS);
}

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct server *server = req_server(req);
	struct uext4_attr attr;
	int err = fi ? refused_take(server, ino) : 0;

	if (!err)
		err = uext4_node_getattr(server->fs, node_of(ino), &attr);
	reply_attr(req, err, &attr);
}

static uint32_t which_of(int valid)
{
	uint32_t which = 0;

	which |= valid & FUSE_SET_ATTR_MODE ? UEXT4_SET_MODE : 0;
	which |= valid & FUSE_SET_ATTR_UID ? UEXT4_SET_UID : 0;
	which |= valid & FUSE_SET_ATTR_GID ? UEXT4_SET_GID : 0;
	which |= valid & FUSE_SET_ATTR_SIZE ? UEXT4_SET_SIZE : 0;
	which |= valid & FUSE_SET_ATTR_CTIME ? UEXT4_SET_CTIME : 0;
	if (valid & FUSE_SET_ATTR_ATIME_NOW)
		which |= UEXT4_SET_ATIME_NOW;
	else if (valid & FUSE_SET_ATTR_ATIME)
		which |= UEXT4_SET_ATIME;
	if (valid & FUSE_SET_ATTR_MTIME_NOW)
		which |= UEXT4_SET_MTIME_NOW;
	else if (valid & FUSE_SET_ATTR_MTIME)
		which |= UEXT4_SET_MTIME;
	return which;
}

/* HANDLE_KILLPRIV_V2: chown always drops the bits, truncate when the kernel says that the caller may not keep them. */
static int kill_priv_on_setattr(struct server *server, uext4_ino ino, struct uext4_attr *attr, uint32_t *which)
{
	bool chown = *which & (UEXT4_SET_UID | UEXT4_SET_GID);
	struct uext4_attr now;
	int err;

	if (!chown && !raw_request_current()->kill_priv)
		return 0;
	err = uext4_node_getattr(server->fs, ino, &now);
	if (err || !S_ISREG(now.mode) || *which & UEXT4_SET_MODE || !(now.mode & (S_ISUID | S_ISGID)))
		return err;
	attr->mode = now.mode & ~S_ISUID;
	if (now.mode & S_IXGRP)
		attr->mode &= ~S_ISGID;
	*which |= UEXT4_SET_MODE;
	return 0;
}

static void drop_capability(struct server *server, uext4_ino ino, uint32_t which)
{
	if (which & (UEXT4_SET_UID | UEXT4_SET_GID | UEXT4_SET_SIZE))
		(void)uext4_node_removexattr(server->fs, NULL, ino, "security.capability"); /* mostly -ENODATA */
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int valid, struct fuse_file_info *fi)
{
	struct server *server = req_server(req);
	uint32_t which = which_of(valid);
	struct uext4_attr attr = {
		.mode = st->st_mode, .uid = st->st_uid, .gid = st->st_gid, .size = (uint64_t)st->st_size,
		.atime = st->st_atim, .mtime = st->st_mtim, .ctime = st->st_ctim,
	};
	struct uext4_cred cred = req_cred(req);
	struct uext4_attr now;
	int err;

	(void)fi;
	/* As the kernel writes back the times of writes: nothing else, and both. utimensat(2) of mtime alone looks the same. */
	if (server->options.writeback_cache && which == (UEXT4_SET_MTIME | UEXT4_SET_CTIME))
		which |= UEXT4_SET_CACHED_TIMES;
	err = kill_priv_on_setattr(server, node_of(ino), &attr, &which);
	if (!err)
		err = uext4_node_setattr(server->fs, &cred, node_of(ino), &attr, which, &now);
	if (!err)
		drop_capability(server, node_of(ino), which);
	reply_attr(req, err, &now);
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[PATH_MAX + 1];
	int err = uext4_node_readlink(req_server(req)->fs, node_of(ino), target, sizeof(target));

	if (err < 0)
		fuse_reply_err(req, -err);
	else
		fuse_reply_readlink(req, target);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct server *server = req_server(req);
	struct uext4_entry entry;
	struct group_cred cred;
	struct full_wait wait = { 0 };
	int err;

	cred_with_groups(req, mode, &cred);
	do
		err = uext4_node_mknod(server->fs, &cred.cred, node_of(parent), name, mode, rdev, &entry);
	while (full_wait(server, err, &wait));
	reply_entry(req, err, &entry);
}

/* TMPFILE, see raw_request_translate(). Whether the file may get a name later (O_EXCL) the kernel knows by itself. */
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct server *server = req_server(req);
	struct fuse_entry_param param;
	struct uext4_entry entry;
	struct group_cred cred;
	struct full_wait wait = { 0 };
	int err;

	(void)name;
	if (raw_request_current()->opcode != FUSE_TMPFILE) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	cred_with_groups(req, mode, &cred);
	do
		err = uext4_node_tmpfile(server->fs, &cred.cred, node_of(parent), mode, &entry);
	while (full_wait(server, err, &wait));
	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	entry_to_fuse(&entry, &param);
	fi->keep_cache = 1; /* as of the files that the kernel opens without asking */
	if (fuse_reply_create(req, &param, fi) == -ENOENT)
		uext4_node_forget(server->fs, entry.ino, 1);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct server *server = req_server(req);
	struct uext4_entry entry;
	struct uext4_cred cred = req_cred(req);
	struct full_wait wait = { 0 };
	int err;

	do
		err = uext4_node_mkdir(server->fs, &cred, node_of(parent), name, mode, &entry);
	while (full_wait(server, err, &wait));
	reply_entry(req, err, &entry);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, -uext4_node_unlink(req_server(req)->fs, NULL, node_of(parent), name));
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, -uext4_node_rmdir(req_server(req)->fs, NULL, node_of(parent), name));
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct server *server = req_server(req);
	struct uext4_entry entry;
	struct uext4_cred cred = req_cred(req);
	struct full_wait wait = { 0 };
	int err;

	do
		err = uext4_node_symlink(server->fs, &cred, node_of(parent), name, target, &entry);
	while (full_wait(server, err, &wait));
	reply_entry(req, err, &entry);
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
	       unsigned flags)
{
	struct server *server = req_server(req);
	struct uext4_cred cred = req_cred(req);
	struct full_wait wait = { 0 };
	int err;

	do
		err = uext4_node_rename(server->fs, &cred, node_of(parent), name, node_of(new_parent), new_name, flags);
	while (full_wait(server, err, &wait));
	fuse_reply_err(req, -err);
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
	struct server *server = req_server(req);
	struct uext4_entry entry;
	struct uext4_cred cred = req_cred(req);
	struct full_wait wait = { 0 };
	int err;

	do
		err = uext4_node_link(server->fs, &cred, node_of(ino), node_of(new_parent), new_name, &entry);
	while (full_wait(server, err, &wait));
	reply_entry(req, err, &entry);
}

/* Answered once per mount: from then on the kernel opens files and directories without asking. */
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	fuse_reply_err(req, ENOSYS);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	op_open(req, ino, fi);
}

void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	op_open(req, ino, fi);
}
