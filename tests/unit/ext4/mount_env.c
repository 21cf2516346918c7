/* SPDX-License-Identifier: MIT */
/* mount_env.c - see mount_env.h */
#include "mount_env.h"

#include <errno.h>
#include <unistd.h>

#include "ext4/super.h"

static void env_log(void *arg, int level, const char *text)
{
	struct mount_env *env = arg;

	if (level <= LOG_ERROR)
		env->log_errors++;
	print_message("%s\n", text);
}

/* No inode cache: nothing can be grabbed. */
static bool no_grab(struct inode *inode) { return false; }
static void no_drop(struct inode *inode) { }
static const struct ext4_vfs_ops no_vfs = { no_grab, no_drop };

void mount_env_mount(struct mount_env *env, const char *options)
{
	struct log_sink log = { env_log, env };
	struct ext4_options opt;
	struct block_device *dev;
	char error[256];

	options_init(&opt);
	opt.cache_bytes = UINT64_C(64) << 20;
	assert_int_equal(options_parse(&opt, options, error), 0);
	assert_int_equal(block_open_file(env->path, 0, &log, &dev), 0);
	assert_int_equal(ext4_mount(dev, &opt, &log, "test", &no_vfs, NULL, &env->fs), 0);
	options_exit(&opt);
	env->root = inode_alloc(env->fs);
	assert_non_null(env->root);
	assert_int_equal(inode_load(env->fs, EXT4_ROOT_INO, false, env->root), 0);
}

static void env_unmount(struct mount_env *env)
{
	env_put(env->root);
	assert_int_equal(ext4_unmount(env->fs), 0);
	free(mount_env_run(env, "e2fsck -fn %s"));
}

static struct mount_env *env_file(FILE **file_out)
{
	struct mount_env *env = calloc(1, sizeof(*env));
	const char *dir = getenv("TMPDIR");
	int fd;

	assert_non_null(env);
	snprintf(env->path, sizeof(env->path), "%s/uext4-test-XXXXXX", dir ? dir : "/tmp");
	fd = mkstemp(env->path);
	assert_true(fd >= 0);
	*file_out = fdopen(fd, "r+");
	assert_non_null(*file_out);
	return env;
}

static void env_format(struct mount_env *env, const char *mke2fs, const char *options)
{
	char command[256];

	snprintf(command, sizeof(command), "mke2fs -q -F %s", mke2fs);
	free(mount_env_run(env, command));
	mount_env_mount(env, options);
}

struct mount_env *mount_env_create(const char *mke2fs, const char *options)
{
	struct mount_env *env;
	FILE *file;

	env = env_file(&file);
	fclose(file);
	env_format(env, mke2fs, options);
	return env;
}

struct mount_env *mount_env_create_on_noise(const char *mke2fs, unsigned mib, const char *options)
{
	static uint8_t chunk[1 << 20];
	struct mount_env *env;
	unsigned i;
	FILE *file;

	for (i = 0; i < sizeof(chunk); i++)
		chunk[i] = (uint8_t)(i % 128 < 2 ? 0x81 : i % 7); /* i_mode of a regular file, links, blocks ... */
	env = env_file(&file);
	for (i = 0; i < mib; i++)
		assert_int_equal(fwrite(chunk, sizeof(chunk), 1, file), 1);
	assert_int_equal(fclose(file), 0);
	env_format(env, mke2fs, options);
	return env;
}

void mount_env_destroy(struct mount_env *env)
{
	env_unmount(env);
	unlink(env->path);
	free(env);
}

void mount_env_cycle(struct mount_env *env)
{
	env_unmount(env);
	mount_env_mount(env, "");
}

char *mount_env_run(struct mount_env *env, const char *command)
{
	char line[2048], *output = NULL;
	size_t len = 0, got;
	FILE *pipe;

	snprintf(line, sizeof(line), command, env->path);
	strncat(line, " 2>&1", sizeof(line) - strlen(line) - 1);
	pipe = popen(line, "r");
	assert_non_null(pipe);
	do {
		output = realloc(output, len + 4097);
		assert_non_null(output);
		got = fread(output + len, 1, 4096, pipe);
		len += got;
	} while (got);
	output[len] = 0;
	if (pclose(pipe)) {
		print_error("%s:\n%s\n", line, output);
		fail();
	}
	return output;
}

struct inode *env_create(struct inode *dir, const char *name, uint16_t mode)
{
	struct name n = { name, (uint8_t)strlen(name) };
	struct create_args args = { .mode = mode };
	struct inode *inode = inode_alloc(dir->fs);
	int err;

	assert_non_null(inode);
	rwsem_write_lock(&dir->rwsem);
	err = namei_create(dir, &n, &args, inode);
	rwsem_write_unlock(&dir->rwsem);
	if (!err)
		return inode;
	assert_int_equal(err, -ENOSPC);
	inode_evict(inode);
	inode_free(inode);
	return NULL;
}

struct inode *env_lookup(struct inode *dir, const char *name)
{
	struct name n = { name, (uint8_t)strlen(name) };
	struct inode *inode = inode_alloc(dir->fs);
	uint8_t type;
	ino_num ino;

	assert_non_null(inode);
	assert_int_equal(dir_lookup(dir, &n, &ino, &type), 0);
	assert_int_equal(inode_load(dir->fs, ino, false, inode), 0);
	return inode;
}

void env_unlink(struct inode *dir, const char *name, struct inode *inode)
{
	struct name n = { name, (uint8_t)strlen(name) };

	rwsem_write_lock(&dir->rwsem);
	if (inode_is_dir(inode))
		assert_int_equal(namei_rmdir(dir, &n, inode), 0);
	else
		assert_int_equal(namei_unlink(dir, &n, inode), 0);
	rwsem_write_unlock(&dir->rwsem);
	env_put(inode);
}

void env_put(struct inode *inode)
{
	assert_int_equal(inode_evict(inode), 0);
	inode_free(inode);
}
