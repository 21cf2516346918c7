/* SPDX-License-Identifier: MIT */
/* node.c - calls on inode numbers */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "api/api_private.h"
#include "ext4/file.h"
#include "vfs/icache.h"

static void fill_entry(struct inode *inode, struct uext4_entry *entry_out)
{
	entry_out->ino = inode->ino;
	entry_out->generation = inode->generation;
	api_getattr(inode, &entry_out->attr);
}

/* Answers with @inode and counts a lookup of it; its reference is given back. */
static void answer_entry(struct inode *inode, struct uext4_entry *entry_out)
{
	fill_entry(inode, entry_out);
	if (inode->ino != EXT4_ROOT_INO)
		icache_lookups_add(inode, 1);
	icache_put(inode);
}

int uext4_node_lookup(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name,
		      struct uext4_entry *entry_out)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *dir, *inode;
	int err = vfs_node_get(fs->vfs, parent, &dir);

	if (err)
		return err;
	err = inode_is_dir(dir) ? perm_check(&who, dir, MAY_EXEC) : -ENOTDIR;
	if (!err)
		err = vfs_lookup(fs->vfs, dir, name, strlen(name), &inode);
	icache_put(dir);
	if (!err)
		answer_entry(inode, entry_out);
	return err;
}

void uext4_node_forget(struct uext4_fs *fs, uext4_ino ino, uint64_t lookups)
{
	if (ino != EXT4_ROOT_INO && ino <= UINT32_MAX)
		icache_forget(fs->vfs->icache, (ino_num)ino, lookups);
}

int uext4_node_getattr(struct uext4_fs *fs, uext4_ino ino, struct uext4_attr *attr_out)
{
	struct inode *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	api_getattr(inode, attr_out);
	icache_put(inode);
	return 0;
}

int uext4_node_setattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, const struct uext4_attr *attr,
		       uint32_t which, struct uext4_attr *attr_out)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct vfs_attr change;
	struct inode *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	api_attr_in(attr, &change);
	err = vfs_setattr(fs->vfs, &who, inode, &change, which);
	if (!err && attr_out)
		api_getattr(inode, attr_out);
	icache_put(inode);
	return err;
}

int uext4_node_access(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, int mask)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *inode;
	int err;

	if (mask & ~7)
		return -EINVAL;
	err = vfs_node_get(fs->vfs, ino, &inode);
	if (err)
		return err;
	err = perm_check(&who, inode, (unsigned)mask);
	icache_put(inode);
	return err;
}

int uext4_node_readlink(struct uext4_fs *fs, uext4_ino ino, char *buf, size_t buf_bytes)
{
	struct inode *inode;
	size_t len;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	err = vfs_readlink(inode, buf, buf_bytes, &len);
	icache_put(inode);
	return err;
}

/* ---- names ---- */

static int node_make(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name,
		     const struct vfs_make *make, struct uext4_entry *entry_out)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *dir, *inode;
	int err = vfs_node_get(fs->vfs, parent, &dir);

	if (err)
		return err;
	err = vfs_make(fs->vfs, &who, dir, name, strlen(name), make, &inode);
	icache_put(dir);
	if (!err)
		answer_entry(inode, entry_out);
	return err;
}

int uext4_node_mknod(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name,
		     uint32_t mode, dev_t rdev, struct uext4_entry *entry_out)
{
	struct vfs_make make = { .mode = mode & S_IFMT ? mode : mode | S_IFREG, .rdev = rdev };

	if (S_ISDIR(make.mode))
		return -EPERM;
	if (S_ISLNK(make.mode))
		return -EINVAL;
	return node_make(fs, cred, parent, name, &make, entry_out);
}

int uext4_node_tmpfile(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, uint32_t mode,
		       struct uext4_entry *entry_out)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *dir, *inode;
	int err = vfs_node_get(fs->vfs, parent, &dir);

	if (err)
		return err;
	err = vfs_tmpfile(fs->vfs, &who, dir, mode, true, &inode);
	icache_put(dir);
	if (!err)
		answer_entry(inode, entry_out);
	return err;
}

int uext4_node_mkdir(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name,
		     uint32_t mode, struct uext4_entry *entry_out)
{
	struct vfs_make make = { .mode = S_IFDIR | (mode & 07777) };

	return node_make(fs, cred, parent, name, &make, entry_out);
}

int uext4_node_symlink(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name,
		       const char *target, struct uext4_entry *entry_out)
{
	struct vfs_make make = { .mode = S_IFLNK | 0777, .target = target };

	return node_make(fs, cred, parent, name, &make, entry_out);
}

int uext4_node_link(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, uext4_ino parent,
		    const char *name, struct uext4_entry *entry_out)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *dir, *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	err = vfs_node_get(fs->vfs, parent, &dir);
	if (!err) {
		err = vfs_link(fs->vfs, &who, inode, dir, name, strlen(name));
		icache_put(dir);
	}
	if (err)
		icache_put(inode);
	else
		answer_entry(inode, entry_out);
	return err;
}

static int node_remove(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name,
		       bool is_rmdir)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *dir;
	int err = vfs_node_get(fs->vfs, parent, &dir);

	if (err)
		return err;
	err = vfs_remove(fs->vfs, &who, dir, name, strlen(name), is_rmdir);
	icache_put(dir);
	return err;
}

int uext4_node_unlink(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name)
{
	return node_remove(fs, cred, parent, name, false);
}

int uext4_node_rmdir(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino parent, const char *name)
{
	return node_remove(fs, cred, parent, name, true);
}

int uext4_node_rename(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino old_parent, const char *old_name,
		      uext4_ino new_parent, const char *new_name, uint32_t flags)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct vfs_rename rename = {
		.old_name = old_name,
		.old_len = strlen(old_name),
		.new_name = new_name,
		.new_len = strlen(new_name),
		.flags = flags,
	};
	int err = vfs_node_get(fs->vfs, old_parent, &rename.old_dir);

	if (err)
		return err;
	err = vfs_node_get(fs->vfs, new_parent, &rename.new_dir);
	if (!err) {
		err = vfs_rename(fs->vfs, &who, &rename);
		icache_put(rename.new_dir);
	}
	icache_put(rename.old_dir);
	return err;
}

/* ---- contents ---- */

ssize_t uext4_node_readv(struct uext4_fs *fs, uext4_ino ino, const struct iovec *iov, int iov_count, off_t pos,
			 uint32_t flags)
{
	struct inode *inode;
	ssize_t done = vfs_node_get(fs->vfs, ino, &inode);

	if (done)
		return done;
	done = vfs_readv(inode, iov, iov_count, pos, flags);
	icache_put(inode);
	return done;
}

int uext4_node_splice_read(struct uext4_fs *fs, uext4_ino ino, off_t pos, size_t len_bytes, int pipe_fd,
			   int (*deliver)(void *arg), void *arg)
{
	struct inode *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	err = vfs_splice_read(inode, pos, len_bytes, pipe_fd, deliver, arg);
	icache_put(inode);
	return err;
}

ssize_t uext4_node_writev(struct uext4_fs *fs, uext4_ino ino, const struct iovec *iov, int iov_count, off_t pos,
			  uint32_t flags)
{
	struct inode *inode;
	ssize_t done = vfs_node_get(fs->vfs, ino, &inode);

	if (done)
		return done;
	done = vfs_writev_node(inode, iov, iov_count, pos, flags);
	icache_put(inode);
	return done;
}

int uext4_node_fsync(struct uext4_fs *fs, uext4_ino ino, bool datasync)
{
	struct inode *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	err = vfs_fsync_node(inode, datasync);
	icache_put(inode);
	return err;
}

int uext4_node_fallocate(struct uext4_fs *fs, uext4_ino ino, int mode, off_t pos, off_t len)
{
	struct inode *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	err = vfs_fallocate(inode, mode, pos, len);
	icache_put(inode);
	return err;
}

off_t uext4_node_lseek(struct uext4_fs *fs, uext4_ino ino, off_t pos, int whence)
{
	struct inode *inode;
	off_t found = vfs_node_get(fs->vfs, ino, &inode);

	if (found)
		return found;
	found = vfs_seek(inode, pos, whence);
	icache_put(inode);
	return found;
}

void uext4_node_drop_cache(struct uext4_fs *fs, uext4_ino ino, off_t pos, off_t len)
{
	struct inode *inode = ino <= UINT32_MAX ? icache_find(fs->vfs->icache, (ino_num)ino) : NULL;

	if (!inode)
		return;
	if (pos >= 0 && len > 0)
		mapping_drop_clean(&inode->mapping, (uint64_t)pos, (uint64_t)pos + (uint64_t)len);
	icache_put(inode);
}

/* Asked for in pieces: the layers below speak in structures of their own. */
#define FIEMAP_PIECE 64u

static int inode_fiemap(struct inode *inode, uint64_t pos, uint64_t len, bool sync, struct uext4_extent *extents,
			uint32_t max, uint32_t *count_out)
{
	struct file_extent piece[FIEMAP_PIECE];
	uint64_t end = len > UINT64_MAX - pos ? UINT64_MAX : pos + len;
	uint32_t got = FIEMAP_PIECE;
	int err = 0;

	*count_out = 0;
	while (!err && got == FIEMAP_PIECE && *count_out < max && pos < end) {
		uint32_t room = min_of(max - *count_out, FIEMAP_PIECE);

		err = file_fiemap(inode, pos, end - pos, sync, piece, room, &got);
		if (err)
			break;
		for (uint32_t i = 0; i < got; i++) {
			extents[*count_out + i] = (struct uext4_extent){
				.logical = piece[i].logical_bytes,
				.physical = piece[i].physical_bytes,
				.length = piece[i].len_bytes,
				.flags = piece[i].flags,
			};
		}
		*count_out += got;
		if (got)
			pos = piece[got - 1].logical_bytes + piece[got - 1].len_bytes;
		sync = false;
	}
	return err;
}

int uext4_node_fiemap(struct uext4_fs *fs, uext4_ino ino, uint64_t pos, uint64_t len, bool sync,
		      struct uext4_extent *extents, uint32_t max, uint32_t *count_out)
{
	struct inode *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	err = inode_fiemap(inode, pos, len, sync, extents, max, count_out);
	icache_put(inode);
	return err;
}

/* ---- directories ---- */

struct emit_arg {
	int (*emit)(void *arg, const struct uext4_dirent *entry);
	int (*emit_plus)(void *arg, const struct uext4_dirent *dirent, const struct uext4_entry *entry);
	void *arg;
};

static struct uext4_dirent dirent_of(const struct vfs_dirent *entry)
{
	return (struct uext4_dirent){
		.ino = entry->ino,
		.type = entry->type,
		.name_len = entry->name_len,
		.name = entry->name,
		.next_cookie = entry->next_cookie,
	};
}

static int emit_dirent(void *arg, const struct vfs_dirent *entry)
{
	struct emit_arg *to = arg;
	struct uext4_dirent dirent = dirent_of(entry);

	return to->emit(to->arg, &dirent);
}

int uext4_node_readdir(struct uext4_fs *fs, uext4_ino ino, uint64_t cookie,
		       int (*emit)(void *arg, const struct uext4_dirent *entry), void *arg)
{
	struct emit_arg to = { .emit = emit, .arg = arg };
	struct inode *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	err = vfs_readdir(inode, cookie, emit_dirent, &to);
	icache_put(inode);
	return err;
}

/* The lookup is counted first, so that the receiver may give it back at once; an entry refused has none. */
static int emit_dirent_plus(void *arg, const struct vfs_dirent *vfs_entry, struct inode *inode)
{
	struct emit_arg *to = arg;
	struct uext4_dirent dirent = dirent_of(vfs_entry);
	struct uext4_entry entry = { 0 };
	int stop;

	if (!inode)
		return to->emit_plus(to->arg, &dirent, NULL);
	fill_entry(inode, &entry);
	icache_lookups_add(inode, 1);
	stop = to->emit_plus(to->arg, &dirent, &entry);
	if (stop)
		icache_forget(vfs_of(inode)->icache, inode->ino, 1);
	return stop;
}

int uext4_node_readdirplus(struct uext4_fs *fs, uext4_ino ino, uint64_t cookie,
			   int (*emit)(void *arg, const struct uext4_dirent *dirent, const struct uext4_entry *entry),
			   void *arg)
{
	struct emit_arg to = { .emit_plus = emit, .arg = arg };
	struct inode *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	err = vfs_readdir_plus(inode, cookie, emit_dirent_plus, &to);
	icache_put(inode);
	return err;
}

/* ---- extended attributes ---- */

ssize_t uext4_node_getxattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, const char *name,
			    void *buf, size_t buf_bytes)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *inode;
	ssize_t len = vfs_node_get(fs->vfs, ino, &inode);

	if (len)
		return len;
	len = vfs_getxattr(fs->vfs, &who, inode, name, buf, buf_bytes);
	icache_put(inode);
	return len;
}

ssize_t uext4_node_listxattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, char *buf,
			     size_t buf_bytes)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *inode;
	ssize_t len = vfs_node_get(fs->vfs, ino, &inode);

	if (len)
		return len;
	len = vfs_listxattr(fs->vfs, &who, inode, buf, buf_bytes);
	icache_put(inode);
	return len;
}

static int node_setxattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, const char *name,
			 const void *value, size_t len_bytes, int flags)
{
	struct vfs_cred who = api_cred(fs, cred);
	struct inode *inode;
	int err = vfs_node_get(fs->vfs, ino, &inode);

	if (err)
		return err;
	err = vfs_setxattr(fs->vfs, &who, inode, name, value, len_bytes, (unsigned)flags);
	icache_put(inode);
	return err;
}

int uext4_node_setxattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, const char *name,
			const void *value, size_t len_bytes, int flags)
{
	return node_setxattr(fs, cred, ino, name, value ? value : "", len_bytes, flags);
}

int uext4_node_removexattr(struct uext4_fs *fs, const struct uext4_cred *cred, uext4_ino ino, const char *name)
{
	return node_setxattr(fs, cred, ino, name, NULL, 0, 0);
}
