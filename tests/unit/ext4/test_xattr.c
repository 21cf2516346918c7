/* SPDX-License-Identifier: MIT */
/* test_xattr.c - extended attributes on real images, in body and block, read back by debugfs and the kernel */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ext4/super.h"
#include "ext4/xattr_private.h"
#include "mount_env.h"

static int set(struct inode *inode, const char *name, const void *value, size_t len, unsigned flags)
{
	int err;

	rwsem_write_lock(&inode->rwsem);
	err = xattr_set(inode, name, value, len, flags);
	rwsem_write_unlock(&inode->rwsem);
	return err;
}

static void assert_xattr(struct inode *inode, const char *name, const void *value, size_t len)
{
	static uint8_t buf[65536];

	assert_int_equal(xattr_get(inode, name, NULL, 0), len);
	assert_int_equal(xattr_get(inode, name, buf, sizeof(buf)), len);
	assert_memory_equal(buf, value, len);
}

static bool has_name(struct inode *inode, const char *name)
{
	char list[4096];
	ssize_t len = xattr_list(inode, list, sizeof(list)), at;

	assert_true(len >= 0);
	assert_int_equal(xattr_list(inode, NULL, 0), len);
	for (at = 0; at < len; at += (ssize_t)strlen(list + at) + 1)
		if (!strcmp(list + at, name))
			return true;
	return false;
}

static void flags_and_errors_are_those_of_the_system_calls(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -I 256 %s 16M", "");
	struct inode *f = env_create(env->root, "f", S_IFREG | 0644);
	static char big[65537], name[300];
	char buf[8];

	assert_int_equal(xattr_get(f, "user.a", NULL, 0), -ENODATA);
	assert_int_equal(xattr_list(f, NULL, 0), 0);
	assert_int_equal(set(f, "user.a", "1", 1, XATTR_FLAG_REPLACE), -ENODATA);
	assert_int_equal(set(f, "user.a", "1", 1, XATTR_FLAG_CREATE), 0);
	assert_int_equal(set(f, "user.a", "2", 1, XATTR_FLAG_CREATE), -EEXIST);
	assert_xattr(f, "user.a", "1", 1);
	assert_int_equal(set(f, "user.a", "345", 3, XATTR_FLAG_REPLACE), 0);
	assert_xattr(f, "user.a", "345", 3);
	assert_int_equal(xattr_get(f, "user.a", buf, 2), -ERANGE);
	assert_int_equal(xattr_list(f, buf, 6), -ERANGE);
	assert_int_equal(set(f, "user.empty", "", 0, 0), 0);
	assert_xattr(f, "user.empty", "", 0);
	assert_int_equal(set(f, "user.b", NULL, 0, 0), -ENODATA);
	assert_int_equal(set(f, "user.a", NULL, 0, 0), 0);
	assert_int_equal(xattr_get(f, "user.a", NULL, 0), -ENODATA);
	assert_false(has_name(f, "user.a"));
	assert_true(has_name(f, "user.empty"));
	assert_int_equal(set(f, "user.big", big, 5000, 0), -ENOSPC);
	assert_int_equal(set(f, "user.big", big, sizeof(big), 0), -E2BIG);
	assert_int_equal(set(f, "nonsense", "1", 1, 0), -EOPNOTSUPP);
	assert_int_equal(set(f, "system.nonsense", "1", 1, 0), -EOPNOTSUPP);
	assert_int_equal(set(f, "user.", "1", 1, 0), -EINVAL);
	assert_int_equal(set(f, "", "1", 1, 0), -ERANGE);
	snprintf(name, sizeof(name), "user.%0*d", 251, 0);
	assert_int_equal(set(f, name, "1", 1, 0), -ERANGE);
	name[255] = 0;
	assert_int_equal(set(f, name, "1", 1, 0), 0);
	assert_xattr(f, name, "1", 1);
	env_put(f);
	mount_env_destroy(env);
}

static const char *const every_namespace[] = { "user.n", "trusted.n", "security.n" };

static void every_name_space_survives_a_remount(void **state)
{
	static const char *const images[] = {
		"-t ext4 -I 256 %s 16M", "-t ext4 -I 128 -b 1024 %s 16M", "-t ext4 -I 1024 -b 4096 %s 32M",
		"-t ext2 -I 128 -b 1024 -O ^ext_attr %s 8M", "-t ext3 -I 256 -b 2048 %s 16M",
		"-t ext4 -b 4096 -O ^has_journal,^metadata_csum %s 16M",
	};
	static const uint16_t types[] = { S_IFREG | 0600, S_IFDIR | 0700, S_IFIFO | 0600 };
	size_t i, t, n;

	for (i = 0; i < ARRAY_SIZE(images); i++) {
		struct mount_env *env = mount_env_create(images[i], "");
		struct inode *f;
		char name[16], value[32];

		for (t = 0; t < ARRAY_SIZE(types); t++) {
			snprintf(name, sizeof(name), "f%zu", t);
			f = env_create(env->root, name, types[t]);
			for (n = 0; n < ARRAY_SIZE(every_namespace); n++) {
				snprintf(value, sizeof(value), "value %zu", n * t);
				assert_int_equal(set(f, every_namespace[n], value, strlen(value), 0), 0);
			}
			env_put(f);
		}
		mount_env_cycle(env);
		for (t = 0; t < ARRAY_SIZE(types); t++) {
			snprintf(name, sizeof(name), "f%zu", t);
			f = env_lookup(env->root, name);
			for (n = 0; n < ARRAY_SIZE(every_namespace); n++) {
				snprintf(value, sizeof(value), "value %zu", n * t);
				assert_xattr(f, every_namespace[n], value, strlen(value));
				assert_true(has_name(f, every_namespace[n]));
			}
			env_unlink(env->root, name, f);
		}
		mount_env_destroy(env);
	}
}

/* Small in the body; what does not fit goes to the block, and back when it is small again. */
static void values_move_between_body_and_block(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -I 256 -b 4096 %s 16M", "");
	struct inode *f = env_create(env->root, "f", S_IFREG | 0644);
	static char big[3000];
	uint64_t blocks = f->blocks_512;

	memset(big, 'b', sizeof(big));
	assert_int_equal(set(f, "user.small", "s", 1, 0), 0);
	assert_int_equal(f->file_acl, 0);
	assert_true(inode_test(f, INODE_XATTR_IN_BODY));
	assert_int_equal(set(f, "user.big", big, sizeof(big), 0), 0);
	assert_true(f->file_acl != 0);
	assert_int_equal(f->blocks_512, blocks + 8);
	assert_int_equal(set(f, "user.small", big, 200, 0), 0); /* too big for the body now */
	assert_xattr(f, "user.small", big, 200);
	assert_xattr(f, "user.big", big, sizeof(big));
	assert_false(inode_test(f, INODE_XATTR_IN_BODY));
	assert_int_equal(set(f, "user.big", "b", 1, 0), 0);
	assert_true(inode_test(f, INODE_XATTR_IN_BODY));
	assert_int_equal(set(f, "user.small", NULL, 0, 0), 0);
	assert_int_equal(f->file_acl, 0); /* the last one in the block takes it along */
	assert_int_equal(f->blocks_512, blocks);
	assert_xattr(f, "user.big", "b", 1);
	assert_int_equal(set(f, "user.big", NULL, 0, 0), 0);
	assert_false(inode_test(f, INODE_XATTR_IN_BODY));
	assert_int_equal(xattr_list(f, NULL, 0), 0);
	env_put(f);
	mount_env_destroy(env);
}

struct model {
	char name[40];
	uint8_t value[400];
	int len; /* -1: absent */
};

static void check_model(struct inode *f, const struct model *m, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		if (m[i].len < 0)
			assert_int_equal(xattr_get(f, m[i].name, NULL, 0), -ENODATA);
		else
			assert_xattr(f, m[i].name, m[i].value, (size_t)m[i].len);
		assert_int_equal(has_name(f, m[i].name), m[i].len >= 0);
	}
}

static void a_random_walk_agrees_with_a_model(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -I 256 -b 1024 %s 16M", "");
	struct inode *f = env_create(env->root, "f", S_IFREG | 0644);
	static struct model m[12];
	unsigned seed = 17, step, i, full = 0;

	for (i = 0; i < ARRAY_SIZE(m); i++) {
		snprintf(m[i].name, sizeof(m[i].name), "%s%.*s%u", i % 3 ? "user." : "trusted.", (int)(i * 2), "abcdefghijklmnopqrstuvw", i);
		m[i].len = -1;
	}
	for (step = 0; step < 1500; step++) {
		int len = (int)(rand_r(&seed) % (rand_r(&seed) % 4 ? 40 : 400)), err;
		struct model *a = &m[rand_r(&seed) % ARRAY_SIZE(m)];
		uint8_t value[400];

		for (i = 0; i < (unsigned)len; i++)
			value[i] = (uint8_t)rand_r(&seed);
		if (rand_r(&seed) % 4 == 0) {
			err = set(f, a->name, NULL, 0, 0);
			assert_int_equal(err, a->len < 0 ? -ENODATA : 0);
			a->len = -1;
		} else {
			err = set(f, a->name, value, (size_t)len, 0);
			full += err == -ENOSPC;
			assert_true(!err || err == -ENOSPC);
			if (!err) {
				memcpy(a->value, value, (size_t)len);
				a->len = len;
			}
		}
		if (step % 50 == 0)
			check_model(f, m, ARRAY_SIZE(m));
		if (step % 500 == 499) {
			env_put(f);
			mount_env_cycle(env);
			f = env_lookup(env->root, "f");
			check_model(f, m, ARRAY_SIZE(m));
		}
	}
	assert_true(full > 0);
	env_unlink(env->root, "f", f);
	mount_env_destroy(env);
}

static void debugfs_reads_what_we_set_and_we_what_it_sets(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -I 256 -b 4096 %s 16M", "");
	struct inode *f = env_create(env->root, "f", S_IFREG | 0644);
	char big[1200];
	char *out;

	memset(big, 'x', sizeof(big));
	assert_int_equal(set(f, "user.ours", "from us", 7, 0), 0);
	assert_int_equal(set(f, "user.long", big, sizeof(big), 0), 0);
	env_put(f);
	env_put(env->root);
	assert_int_equal(ext4_unmount(env->fs), 0);
	out = mount_env_run(env, "debugfs -R 'ea_get f user.ours' %s");
	assert_non_null(strstr(out, "from us"));
	free(out);
	out = mount_env_run(env, "debugfs -R 'ea_get f user.long' %s");
	assert_non_null(strstr(out, "xxxxxxxxxxxxxxxxxxx"));
	free(out);
	free(mount_env_run(env, "debugfs -w -R 'ea_set f user.theirs hello' %s"));
	free(mount_env_run(env, "debugfs -w -R 'ea_set f security.s there' %s"));
	free(mount_env_run(env, "debugfs -w -R 'ea_rm f user.ours' %s"));
	mount_env_mount(env, "");
	f = env_lookup(env->root, "f");
	assert_xattr(f, "user.theirs", "hello", 5);
	assert_xattr(f, "security.s", "there", 5);
	assert_xattr(f, "user.long", big, sizeof(big));
	assert_int_equal(xattr_get(f, "user.ours", NULL, 0), -ENODATA);
	assert_int_equal(set(f, "user.theirs", "changed", 7, 0), 0);
	env_put(f);
	mount_env_destroy(env);
}

/* Two inodes that share a block: what one changes, the other must not see. */
static void shared_blocks_are_copied_before_a_change(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -I 128 -b 1024 -O ^metadata_csum %s 16M", "");
	struct inode *a = env_create(env->root, "a", S_IFREG | 0644), *b = env_create(env->root, "b", S_IFREG | 0644);
	struct ext4_xattr_header *hdr;
	struct buffer_head *bh;
	struct handle h;
	fsblk_t shared;

	assert_int_equal(set(a, "user.x", "both", 4, 0), 0);
	shared = a->file_acl;
	assert_int_equal(fs_handle_start(env->fs, 3, 0, &h), 0);
	assert_int_equal(buffer_read(env->fs->bc, shared, &bh), 0);
	assert_int_equal(journal_get_write_access(&h, bh), 0);
	hdr = (struct ext4_xattr_header *)(void *)bh->data;
	hdr->h_refcount = le32_make(2);
	assert_int_equal(journal_dirty_metadata(&h, bh), 0);
	b->file_acl = shared;
	inode_clear(b, INODE_NO_XATTR | INODE_NO_ACL);
	inode_add_blocks(b, 1);
	assert_int_equal(inode_write(&h, b), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_xattr(b, "user.x", "both", 4);

	assert_int_equal(set(b, "user.x", "only b", 6, 0), 0);
	assert_true(b->file_acl != shared && b->file_acl != 0);
	assert_int_equal(a->file_acl, shared);
	assert_int_equal(le32_get(hdr->h_refcount), 1);
	assert_xattr(a, "user.x", "both", 4);
	assert_xattr(b, "user.x", "only b", 6);
	assert_int_equal(set(a, "user.x", "only a", 6, 0), 0);
	assert_int_equal(a->file_acl, shared); /* nobody else has it any more */
	buffer_put(bh);
	env_unlink(env->root, "a", a);
	env_put(b);
	mount_env_destroy(env);
}

static void a_corrupt_block_is_an_error_for_its_inode_only(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -I 128 -b 1024 %s 16M", "errors=continue");
	struct inode *a = env_create(env->root, "a", S_IFREG | 0644), *b = env_create(env->root, "b", S_IFREG | 0644);
	char command[128];
	fsblk_t blk;

	assert_int_equal(set(a, "user.x", "1", 1, 0), 0);
	assert_int_equal(set(b, "user.x", "2", 1, 0), 0);
	blk = a->file_acl;
	env_put(a);
	env_put(b);
	env_put(env->root);
	assert_int_equal(ext4_unmount(env->fs), 0);
	snprintf(command, sizeof(command), "dd if=/dev/zero of=%%s bs=1 count=8 seek=%llu conv=notrunc",
		 (unsigned long long)blk * 1024 + 36);
	free(mount_env_run(env, command));
	mount_env_mount(env, "errors=continue");
	a = env_lookup(env->root, "a");
	b = env_lookup(env->root, "b");
	assert_int_equal(xattr_get(a, "user.x", NULL, 0), -EBADMSG);
	assert_int_equal(xattr_list(a, NULL, 0), -EBADMSG);
	assert_int_equal(set(a, "user.y", "1", 1, 0), -EBADMSG);
	assert_xattr(b, "user.x", "2", 1);
	env_put(a);
	env_put(b);
	env_put(env->root);
	assert_int_equal(ext4_unmount(env->fs), 0);
	unlink(env->path);
	free(env);
}

/* ---- ACLs on inodes ---- */

#define NO ACL_ID_UNDEFINED

static size_t wire_of(const struct acl_entry *entries, size_t count, uint8_t *buf, size_t buf_bytes)
{
	struct acl *acl = malloc(sizeof(*acl) + count * sizeof(*entries));
	ssize_t len;

	assert_non_null(acl);
	acl->count = (uint32_t)count;
	memcpy(acl->entry, entries, count * sizeof(*entries));
	len = acl_to_xattr(acl, buf, buf_bytes);
	assert_true(len > 0);
	free(acl);
	return (size_t)len;
}

static const struct acl_entry named[] = {
	{ ACL_TAG_USER_OBJ, 7, NO }, { ACL_TAG_USER, 6, 100000 }, { ACL_TAG_GROUP_OBJ, 5, NO },
	{ ACL_TAG_GROUP, 4, 200000 }, { ACL_TAG_MASK, 6, NO }, { ACL_TAG_OTHER, 1, NO },
};
static const struct acl_entry plain[] = {
	{ ACL_TAG_USER_OBJ, 6, NO }, { ACL_TAG_GROUP_OBJ, 4, NO }, { ACL_TAG_OTHER, 2, NO },
};

static void an_access_acl_and_the_mode_agree(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -I 256 %s 16M", "");
	struct inode *f = env_create(env->root, "f", S_IFREG | 0600);
	uint8_t wire[200], back[200];
	struct handle h;
	struct acl *acl;
	size_t len;

	len = wire_of(named, ARRAY_SIZE(named), wire, sizeof(wire));
	assert_int_equal(set(f, "system.posix_acl_access", wire, len, 0), 0);
	assert_int_equal(f->mode, S_IFREG | 0761);
	assert_xattr(f, "system.posix_acl_access", wire, len);
	assert_true(has_name(f, "system.posix_acl_access"));
	assert_int_equal(set(f, "system.posix_acl_default", wire, len, 0), -EACCES);

	f->mode = S_IFREG | 0640; /* chmod */
	assert_int_equal(fs_handle_start(env->fs, XATTR_CREDITS + 1, XATTR_REVOKES, &h), 0);
	assert_int_equal(acl_chmod(&h, f), 0);
	assert_int_equal(inode_write(&h, f), 0);
	assert_int_equal(journal_stop(&h), 0);
	assert_int_equal(acl_read(f, ACL_ACCESS, &acl), 0);
	assert_int_equal(acl->entry[0].perm, 6);
	assert_int_equal(acl->entry[2].perm, 5); /* the group entry stays, the mask moves */
	assert_int_equal(acl->entry[4].perm, 4);
	assert_int_equal(acl->entry[5].perm, 0);
	free(acl);

	len = wire_of(plain, ARRAY_SIZE(plain), wire, sizeof(wire));
	assert_int_equal(set(f, "system.posix_acl_access", wire, len, 0), 0);
	assert_int_equal(f->mode, S_IFREG | 0642);
	assert_int_equal(xattr_get(f, "system.posix_acl_access", back, sizeof(back)), -ENODATA); /* mode says it all */
	assert_int_equal(set(f, "system.posix_acl_access", NULL, 0, 0), 0);
	wire[4] = 0x40;
	assert_int_equal(set(f, "system.posix_acl_access", wire, len, 0), -EINVAL);
	env_put(f);
	mount_env_destroy(env);
}

static struct inode *create_with_umask(struct inode *dir, const char *name, uint16_t mode, uint16_t umask)
{
	struct name n = { name, (uint8_t)strlen(name) };
	struct create_args args = { .mode = mode, .umask = umask };
	struct inode *inode = inode_alloc(dir->fs);

	assert_non_null(inode);
	rwsem_write_lock(&dir->rwsem);
	assert_int_equal(namei_create(dir, &n, &args, inode), 0);
	rwsem_write_unlock(&dir->rwsem);
	return inode;
}

static void check_inherited(struct mount_env *env, uint32_t inode_bytes)
{
	struct inode *dir = env_lookup(env->root, "dir"), *f;
	uint8_t wire[200];
	struct acl *acl;
	size_t len;

	len = wire_of(named, ARRAY_SIZE(named), wire, sizeof(wire));
	assert_xattr(dir, "system.posix_acl_default", wire, len);
	f = env_lookup(dir, "f");
	assert_int_equal(f->mode, S_IFREG | 0640); /* asked for 0640, umask not applied */
	assert_int_equal(acl_read(f, ACL_ACCESS, &acl), 0);
	assert_int_equal(acl->count, 6);
	assert_int_equal(acl->entry[0].perm, 6);
	assert_int_equal(acl->entry[1].id, 100000);
	assert_int_equal(acl->entry[2].perm, 5);
	assert_int_equal(acl->entry[4].perm, 4);
	assert_int_equal(acl->entry[5].perm, 0);
	free(acl);
	assert_int_equal(acl_read(f, ACL_DEFAULT, &acl), 0);
	assert_null(acl);
	assert_int_equal(f->file_acl != 0, inode_bytes == 128);
	env_put(f);
	f = env_lookup(dir, "sub");
	assert_int_equal(f->mode, S_IFDIR | 0761);
	assert_xattr(f, "system.posix_acl_default", wire, len);
	env_put(f);
	env_put(dir);
}

static void default_acls_are_inherited(void **state)
{
	static const char *const images[] = { "-t ext4 -I 256 -b 1024 %s 16M", "-t ext4 -I 128 -b 1024 %s 16M" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(images); i++) {
		struct mount_env *env = mount_env_create(images[i], "");
		struct inode *dir = env_create(env->root, "dir", S_IFDIR | 0755), *f;
		uint8_t wire[200];
		size_t len = wire_of(named, ARRAY_SIZE(named), wire, sizeof(wire));

		assert_int_equal(acl_init_credits(dir), 0);
		assert_int_equal(set(dir, "system.posix_acl_default", wire, len, 0), 0);
		assert_true(acl_init_credits(dir) > 0);
		assert_int_equal(dir->mode, S_IFDIR | 0755);
		env_put(create_with_umask(dir, "f", S_IFREG | 0640, 077));
		env_put(create_with_umask(dir, "sub", S_IFDIR | 0777, 077));
		f = create_with_umask(env->root, "plain", S_IFREG | 0666, 027);
		assert_int_equal(f->mode, S_IFREG | 0640);
		env_put(f);
		env_put(dir);
		check_inherited(env, env->fs->inode_bytes);
		mount_env_cycle(env);
		check_inherited(env, env->fs->inode_bytes);
		mount_env_destroy(env);
	}
}

/* ---- the kernel ---- */

/* Mounts the image with the kernel, runs @script there ($M), unmounts. False where mounting is not permitted. */
static bool with_kernel(struct mount_env *env, const char *script, char **output_out)
{
	char command[1024];
	int status;

	snprintf(command, sizeof(command), "M=$(mktemp -d) && mount -o loop %s $M 2>/dev/null && umount $M && rmdir $M", env->path);
	status = system(command);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return false;
	snprintf(command, sizeof(command),
		 "M=$(mktemp -d); mount -o loop %%s $M && { (set -e; %s); R=$?; umount $M; rmdir $M; exit $R; }", script);
	*output_out = mount_env_run(env, command);
	return true;
}

static void the_kernel_and_we_read_each_others_attributes(void **state)
{
	struct mount_env *env = mount_env_create("-t ext4 -I 256 -b 1024 %s 16M", "");
	struct inode *dir, *f;
	uint8_t wire[200];
	size_t len = wire_of(named, ARRAY_SIZE(named), wire, sizeof(wire));
	char big[500], *out = NULL;

	memset(big, 'k', sizeof(big));
	dir = env_create(env->root, "dir", S_IFDIR | 0755);
	assert_int_equal(set(dir, "system.posix_acl_default", wire, len, 0), 0);
	f = create_with_umask(dir, "f", S_IFREG | 0666, 0);
	assert_int_equal(set(f, "user.small", "s", 1, 0), 0);
	assert_int_equal(set(f, "user.big", big, sizeof(big), 0), 0);
	env_put(f);
	env_put(dir);
	env_put(env->root);
	assert_int_equal(ext4_unmount(env->fs), 0);
	if (!with_kernel(env, "getfacl -npc $M/dir/f; getfattr --only-values -n user.big $M/dir/f; "
			      "setfattr -n user.kernel -v new $M/dir/f; setfattr -n user.big -v small $M/dir/f; "
			      "setfacl -m u:7:rwx $M/dir/f; touch $M/dir/g; "
			      "for i in 1 2; do touch $M/s$i; setfattr -n user.same -v $(head -c 400 /dev/zero | tr '\\0' x) $M/s$i; done", &out)) {
		print_message("no kernel mount here: skipped\n");
		mount_env_mount(env, "");
		mount_env_destroy(env);
		skip();
	}
	assert_non_null(strstr(out, "user:100000:rw-"));
	assert_non_null(strstr(out, "group:200000:r--"));
	assert_non_null(strstr(out, "mask::rw-"));
	assert_non_null(strstr(out, "kkkkkkkkkkkkkkkkkkkk"));
	free(out);
	mount_env_mount(env, "");
	dir = env_lookup(env->root, "dir");
	f = env_lookup(dir, "f");
	assert_xattr(f, "user.kernel", "new", 3);
	assert_xattr(f, "user.big", "small", 5);
	assert_int_equal(f->mode & 0777, 0670);
	env_put(f);
	env_put(dir);
	/* The kernel lets equal blocks be shared. */
	f = env_lookup(env->root, "s1");
	dir = env_lookup(env->root, "s2");
	assert_int_equal(f->file_acl, dir->file_acl);
	assert_int_equal(set(f, "user.same", big, 300, 0), 0);
	assert_true(f->file_acl != dir->file_acl);
	assert_int_equal(xattr_get(dir, "user.same", NULL, 0), 400);
	env_unlink(env->root, "s2", dir);
	env_put(f);
	mount_env_destroy(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_and_errors_are_those_of_the_system_calls),
		cmocka_unit_test(every_name_space_survives_a_remount),
		cmocka_unit_test(values_move_between_body_and_block),
		cmocka_unit_test(a_random_walk_agrees_with_a_model),
		cmocka_unit_test(debugfs_reads_what_we_set_and_we_what_it_sets),
		cmocka_unit_test(shared_blocks_are_copied_before_a_change),
		cmocka_unit_test(a_corrupt_block_is_an_error_for_its_inode_only),
		cmocka_unit_test(an_access_acl_and_the_mode_agree),
		cmocka_unit_test(default_acls_are_inherited),
		cmocka_unit_test(the_kernel_and_we_read_each_others_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
