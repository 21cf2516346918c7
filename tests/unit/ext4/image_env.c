/* SPDX-License-Identifier: MIT */
/* image_env.c - see image_env.h */
#include "image_env.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- a vfs of one thread ---- */

static bool grab_inode(struct inode *inode) { return true; }
static void drop_inode(struct inode *inode) { }

static const struct ext4_vfs_ops vfs_ops = { .inode_grab = grab_inode, .inode_drop = drop_inode };

static void log_line(void *arg, int level, const char *text)
{
	struct image_env *env = arg;

	if (level <= LOG_ERROR) {
		env->errors++;
		print_message("%s\n", text);
	}
}

/* ---- images ---- */

bool image_tools_exist(void)
{
	return system("mke2fs -V >/dev/null 2>&1 && e2fsck -V >/dev/null 2>&1") == 0;
}

/* A folder in memory if there is one with room, as a container has not always. */
static const char *image_folder(uint64_t size_bytes)
{
	struct statvfs shm;

	if (statvfs("/dev/shm", &shm) == 0 && (uint64_t)shm.f_bavail * shm.f_frsize > 4 * size_bytes &&
	    access("/dev/shm", W_OK) == 0)
		return "/dev/shm";
	return "/tmp";
}

#define PIECE_BYTES UINT64_C(4096)

static void write_all(int fd, const uint8_t *from, uint64_t len_bytes, uint64_t pos_bytes)
{
	while (len_bytes) {
		ssize_t n = pwrite(fd, from, len_bytes, (off_t)pos_bytes);

		assert_true(n > 0);
		from += n;
		pos_bytes += (uint64_t)n;
		len_bytes -= (uint64_t)n;
	}
}

static bool is_zero(const uint8_t *piece)
{
	static const uint8_t zero[PIECE_BYTES];

	return memcmp(piece, zero, PIECE_BYTES) == 0;
}

/* The file gets what the device holds, with holes for zeros. */
static void write_file(const struct image_env *env)
{
	int fd = open(env->path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	for (uint64_t end, pos = 0; pos < env->size_bytes; pos = end) {
		for (end = pos; end < env->size_bytes && !is_zero(env->bytes + end); end += PIECE_BYTES)
			;
		write_all(fd, env->bytes + pos, end - pos, pos);
		if (end < env->size_bytes)
			end += PIECE_BYTES;
	}
	assert_int_equal(ftruncate(fd, (off_t)env->size_bytes), 0);
	close(fd);
}

/* The device gets what the file holds. */
static void read_file(struct image_env *env)
{
	int fd = open(env->path, O_RDONLY);

	assert_true(fd >= 0);
	for (uint64_t done = 0; done < env->size_bytes;) {
		off_t data = lseek(fd, (off_t)done, SEEK_DATA);
		uint64_t start = data < 0 ? env->size_bytes : (uint64_t)data;
		ssize_t n;

		memset(env->bytes + done, 0, start - done);
		n = pread(fd, env->bytes + start, env->size_bytes - start, (off_t)start);
		assert_true(n > 0 || start == env->size_bytes);
		done = start + (uint64_t)n;
	}
	close(fd);
}

void image_create(struct image_env *env, const char *mke2fs_args, unsigned mib)
{
	char command[512];
	int fd;

	memset(env, 0, sizeof(*env));
	env->size_bytes = (uint64_t)mib << 20;
	snprintf(env->path, sizeof(env->path), "%s/uext4-image-XXXXXX", image_folder(env->size_bytes));
	fd = mkstemp(env->path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)env->size_bytes), 0);
	close(fd);
	snprintf(command, sizeof(command), "mke2fs -q -F %s %s >/dev/null 2>&1", mke2fs_args, env->path);
	assert_int_equal(system(command), 0);
	env->bytes = image_memory(env->size_bytes);
	read_file(env);
	options_init(&env->opt);
	image_mount(env);
}

struct block_device *image_device(struct image_env *env)
{
	struct block_device *dev;

	assert_int_equal(block_open_memory(env->size_bytes, env->bytes, &dev), 0);
	return dev;
}

void image_mount_on(struct image_env *env, struct block_device *dev)
{
	const struct log_sink log = { .func = log_line, .arg = env };

	assert_int_equal(ext4_mount(dev, &env->opt, &log, "test", &vfs_ops, NULL, &env->fs), 0);
	env->root = image_load(env, EXT4_ROOT_INO);
}

void image_mount(struct image_env *env)
{
	image_mount_on(env, image_device(env));
}

void image_unmount(struct image_env *env)
{
	image_put(env->root);
	assert_int_equal(ext4_unmount(env->fs), 0);
	env->fs = NULL;
}

void image_check(struct image_env *env)
{
	char command[256];
	int status;

	image_unmount(env);
	write_file(env);
	snprintf(command, sizeof(command), "e2fsck -fn %s >%s.log 2>&1 || { cat %s.log; exit 1; }", env->path, env->path,
		 env->path);
	status = system(command);
	snprintf(command, sizeof(command), "%s.log", env->path);
	unlink(command);
	assert_int_equal(status, 0);
	assert_int_equal(env->errors, 0);
}

void image_reload(struct image_env *env)
{
	read_file(env);
}

uint8_t *image_copy(const struct image_env *env)
{
	return image_memory_copy(env->bytes, env->size_bytes);
}

void image_recheck(struct image_env *env)
{
	image_check(env);
	image_mount(env);
}

void image_destroy(struct image_env *env)
{
	if (env->fs)
		image_unmount(env);
	unlink(env->path);
	image_memory_free(env->bytes);
	options_exit(&env->opt);
}

void image_debugfs(struct image_env *env, const char *request, char *out, size_t out_bytes)
{
	char command[256];
	FILE *pipe;

	snprintf(command, sizeof(command), "debugfs -R '%s' %s 2>/dev/null", request, env->path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	if (!fgets(out, (int)out_bytes, pipe))
		out[0] = 0;
	while (fgetc(pipe) != EOF)
		;
	pclose(pipe);
}

/* ---- nodes ---- */

struct name image_name(const char *text)
{
	return (struct name){ text, (uint8_t)strlen(text) };
}

struct inode *image_load(struct image_env *env, ino_num ino)
{
	struct inode *inode = inode_alloc(env->fs);

	assert_non_null(inode);
	assert_int_equal(inode_load(env->fs, ino, false, inode), 0);
	return inode;
}

ino_num image_find(struct inode *dir, const char *text)
{
	struct name name = image_name(text);
	ino_num ino = 0;
	uint8_t type;
	int err;

	rwsem_read_lock(&dir->rwsem);
	err = dir_lookup(dir, &name, &ino, &type);
	rwsem_read_unlock(&dir->rwsem);
	assert_true(err == 0 || err == -ENOENT);
	return err ? 0 : ino;
}

struct inode *image_lookup(struct image_env *env, struct inode *dir, const char *name)
{
	ino_num ino = image_find(dir, name);

	assert_int_not_equal(ino, 0);
	return image_load(env, ino);
}

void image_put(struct inode *inode)
{
	assert_int_equal(inode_evict(inode), 0);
	inode_free(inode);
}

int image_create_node(struct inode *dir, const char *text, uint16_t mode, struct inode **inode_out)
{
	const struct create_args args = { .mode = mode, .umask = 022, .uid = 1000, .gid = 1000 };
	struct inode *inode = inode_alloc(dir->fs);
	struct name name = image_name(text);
	int err;

	assert_non_null(inode);
	rwsem_write_lock(&dir->rwsem);
	err = namei_create(dir, &name, &args, inode);
	rwsem_write_unlock(&dir->rwsem);
	if (err)
		inode_free(inode);
	else if (inode_out)
		*inode_out = inode;
	else
		image_put(inode);
	return err;
}

struct inode *image_mkdir(struct inode *dir, const char *name)
{
	struct inode *inode = NULL;

	assert_int_equal(image_create_node(dir, name, S_IFDIR | 0755, &inode), 0);
	return inode;
}

struct inode *image_mkfile(struct inode *dir, const char *name)
{
	struct inode *inode = NULL;

	assert_int_equal(image_create_node(dir, name, S_IFREG | 0644, &inode), 0);
	return inode;
}

int image_unlink(struct inode *dir, const char *text, struct inode *victim)
{
	struct name name = image_name(text);
	int err;

	rwsem_write_lock(&dir->rwsem);
	err = namei_unlink(dir, &name, victim);
	rwsem_write_unlock(&dir->rwsem);
	return err;
}

int image_rmdir(struct inode *dir, const char *text, struct inode *victim)
{
	struct name name = image_name(text);
	int err;

	rwsem_write_lock(&dir->rwsem);
	err = namei_rmdir(dir, &name, victim);
	rwsem_write_unlock(&dir->rwsem);
	return err;
}

int image_rename(struct inode *old_dir, const char *old_text, struct inode *inode, struct inode *new_dir,
		 const char *new_text, struct inode *target, unsigned flags)
{
	struct name old_name = image_name(old_text), new_name = image_name(new_text);
	struct inode *whiteout = flags & RENAME_FLAG_WHITEOUT ? inode_alloc(old_dir->fs) : NULL;
	int err = namei_rename(old_dir, &old_name, inode, new_dir, &new_name, target, flags, whiteout);

	if (whiteout && err)
		inode_free(whiteout);
	else if (whiteout)
		image_put(whiteout);
	return err;
}
