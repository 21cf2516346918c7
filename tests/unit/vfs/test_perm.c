/* SPDX-License-Identifier: MIT */
/* test_perm.c - who may do what, without ACLs (those are tested on images) */
#include "unit.h"

#include <errno.h>

#include "ext4/xattr.h"
#include "vfs/perm.h"

static struct ext4_fs fs;
static struct inode inode, dir;

int acl_read(struct inode *i, enum acl_type type, struct acl **acl_out)
{
	*acl_out = NULL;
	return 0;
}

int acl_permission(const struct acl *acl, const struct inode *i, uint32_t uid, const uint32_t *gids,
		   uint32_t gid_count, unsigned want)
{
	return -EACCES;
}

static const uint32_t extra_groups[] = { 70, 71 };
static const struct vfs_cred owner = { .uid = 10, .gid = 1, .checked = true };
static const struct vfs_cred member = { .uid = 11, .gid = 50, .checked = true };
static const struct vfs_cred in_extra = { .uid = 12, .gid = 1, .groups = extra_groups, .group_count = 2, .checked = true };
static const struct vfs_cred other = { .uid = 13, .gid = 1, .checked = true };
static const struct vfs_cred root = { .is_root = true, .privileged = true, .checked = true };
static const struct vfs_cred unchecked = { .uid = 13, .privileged = true };

static int start(void **state)
{
	fs = (struct ext4_fs){ .opt = { .acl = true, .user_xattr = true } };
	memset(&inode, 0, sizeof(inode));
	memset(&dir, 0, sizeof(dir));
	inode.fs = dir.fs = &fs;
	inode.ino = 100;
	inode.nlink = 1;
	inode.uid = 10;
	inode.gid = 50;
	inode.mode = S_IFREG | 0640;
	dir.ino = 99;
	dir.nlink = 2;
	dir.uid = 20;
	dir.mode = S_IFDIR | 0777;
	return 0;
}

static void exactly_one_class_of_bits_counts(void **state)
{
	inode.mode = S_IFREG | 0047; /* the owner has less than everybody else */
	assert_int_equal(perm_check(&owner, &inode, MAY_READ), -EACCES);
	assert_int_equal(perm_check(&member, &inode, MAY_READ), 0);
	assert_int_equal(perm_check(&member, &inode, MAY_WRITE), -EACCES);
	assert_int_equal(perm_check(&other, &inode, MAY_READ | MAY_WRITE | MAY_EXEC), 0);
	inode.gid = 71;
	assert_int_equal(perm_check(&in_extra, &inode, MAY_WRITE), -EACCES);
	assert_int_equal(perm_check(&in_extra, &inode, MAY_READ), 0);
}

static void root_executes_only_what_somebody_may(void **state)
{
	assert_int_equal(perm_check(&root, &inode, MAY_READ | MAY_WRITE), 0);
	assert_int_equal(perm_check(&root, &inode, MAY_EXEC), -EACCES);
	assert_int_equal(perm_check(&unchecked, &inode, MAY_EXEC), 0);
	inode.mode |= 0001;
	assert_int_equal(perm_check(&root, &inode, MAY_EXEC), 0);
	dir.mode = S_IFDIR;
	assert_int_equal(perm_check(&root, &dir, MAY_EXEC), 0);
}

static void read_only_comes_before_permission_for_writes(void **state)
{
	atomic_store(&fs.read_only, true);
	assert_int_equal(perm_check(&other, &inode, MAY_WRITE), -EROFS);
	assert_int_equal(perm_check(&other, &inode, MAY_READ), -EACCES);
	inode.mode = S_IFIFO | 0666; /* a fifo is not on the disk */
	assert_int_equal(perm_check(&other, &inode, MAY_WRITE), 0);
}

static void immutable_binds_root_too(void **state)
{
	inode.flags = EXT4_IMMUTABLE_FL;
	assert_int_equal(perm_check(&root, &inode, MAY_WRITE), -EPERM);
	assert_int_equal(perm_check(&root, &inode, MAY_READ), 0);
	assert_int_equal(perm_may_delete(&root, &dir, &inode, false), -EPERM);
}

static void sticky_directory_protects_other_peoples_files(void **state)
{
	assert_int_equal(perm_may_delete(&other, &dir, &inode, false), 0);
	dir.mode |= S_ISVTX;
	assert_int_equal(perm_may_delete(&other, &dir, &inode, false), -EPERM);
	assert_int_equal(perm_may_delete(&owner, &dir, &inode, false), 0);
	dir.uid = other.uid;
	assert_int_equal(perm_may_delete(&other, &dir, &inode, false), 0);
}

static void type_must_fit_the_call(void **state)
{
	assert_int_equal(perm_may_delete(&root, &dir, &inode, true), -ENOTDIR);
	inode.mode = S_IFDIR | 0755;
	assert_int_equal(perm_may_delete(&root, &dir, &inode, false), -EISDIR);
	assert_int_equal(perm_may_delete(&root, &dir, &inode, true), 0);
	dir.nlink = 0;
	assert_int_equal(perm_may_delete(&root, &dir, &inode, true), -ENOENT);
	assert_int_equal(perm_may_create(&root, &dir), -ENOENT);
}

static void setuid_and_setgid_go_when_an_owner_changes(void **state)
{
	assert_int_equal(perm_mode_without_suid(&other, 06755, 50), 0755);
	assert_int_equal(perm_mode_without_suid(&member, 02644, 50), 02644); /* no group execution: a lock mark */
	assert_int_equal(perm_mode_without_suid(&other, 02644, 50), 0644);
	assert_int_equal(perm_mode_without_suid(&root, 06755, 50), 0755);
}

static void xattr_name_spaces_have_their_rules(void **state)
{
	assert_int_equal(perm_xattr(&owner, &inode, "user.x", MAY_WRITE), 0);
	assert_int_equal(perm_xattr(&other, &inode, "user.x", MAY_READ), -EACCES);
	assert_int_equal(perm_xattr(&owner, &inode, "trusted.x", MAY_READ), -ENODATA);
	assert_int_equal(perm_xattr(&owner, &inode, "trusted.x", MAY_WRITE), -EPERM);
	assert_int_equal(perm_xattr(&root, &inode, "trusted.x", MAY_WRITE), 0);
	assert_int_equal(perm_xattr(&other, &inode, "security.x", MAY_READ), 0);
	assert_int_equal(perm_xattr(&owner, &inode, "security.x", MAY_WRITE), -EPERM);
	assert_int_equal(perm_xattr(&owner, &inode, "system.posix_acl_access", MAY_WRITE), 0);
	assert_int_equal(perm_xattr(&member, &inode, "system.posix_acl_access", MAY_WRITE), -EPERM);
	inode.mode = S_IFLNK | 0777;
	assert_int_equal(perm_xattr(&root, &inode, "user.x", MAY_WRITE), -EPERM);
	assert_int_equal(perm_xattr(&root, &inode, "user.x", MAY_READ), -ENODATA);
	dir.mode |= S_ISVTX;
	assert_int_equal(perm_xattr(&other, &dir, "user.x", MAY_WRITE), -EPERM);
	atomic_store(&fs.read_only, true);
	assert_int_equal(perm_xattr(&root, &dir, "user.x", MAY_WRITE), -EROFS);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup(test, start)
	const struct CMUnitTest tests[] = {
		TEST(exactly_one_class_of_bits_counts),
		TEST(root_executes_only_what_somebody_may),
		TEST(read_only_comes_before_permission_for_writes),
		TEST(immutable_binds_root_too),
		TEST(sticky_directory_protects_other_peoples_files),
		TEST(type_must_fit_the_call),
		TEST(setuid_and_setgid_go_when_an_owner_changes),
		TEST(xattr_name_spaces_have_their_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
