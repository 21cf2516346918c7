/* SPDX-License-Identifier: MIT */
/* test_attr.c - attributes, permissions, ACLs and extended attributes */
#include "unit.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "image.h"

static struct image img;

static const struct uext4_cred alice = { .uid = 1000, .gid = 1000, .umask = 022 };
static const struct uext4_cred bob = { .uid = 1001, .gid = 1001, .umask = 022 };

static int start(void **state)
{
	struct uext4_attr attr = { .mode = 0777 };

	image_make(&img, "-t ext4 -b 4096", 32);
	image_open(&img, NULL, true);
	assert_int_equal(uext4_setattr(img.fs, NULL, "/", true, &attr, UEXT4_SET_MODE), 0);
	return 0;
}

static int stop(void **state)
{
	image_check(&img);
	image_remove(&img);
	return 0;
}

static void reopen(void)
{
	image_check(&img);
	image_open(&img, NULL, true);
}

static void touch(const struct uext4_cred *cred, const char *path, mode_t mode)
{
	struct uext4_file *file;

	assert_int_equal(uext4_open(img.fs, cred, path, O_WRONLY | O_CREAT | O_EXCL, mode, &file), 0);
	assert_int_equal(uext4_close(file), 0);
}

static struct uext4_attr attr_of(const char *path)
{
	struct uext4_attr attr;

	assert_int_equal(uext4_lstat(img.fs, NULL, path, &attr), 0);
	return attr;
}

static int can_open(const struct uext4_cred *cred, const char *path, int flags)
{
	struct uext4_file *file;
	int err = uext4_open(img.fs, cred, path, flags, 0, &file);

	return err ? err : uext4_close(file);
}

static void owner_and_umask_of_new_files(void **state)
{
	touch(&alice, "/f", 0666);
	assert_int_equal(attr_of("/f").mode, S_IFREG | 0644);
	assert_int_equal(attr_of("/f").uid, 1000);
	assert_int_equal(uext4_mkdir(img.fs, &alice, "/d", 02777), 0);
	assert_int_equal(attr_of("/d").mode, S_IFDIR | 0755);
}

static void modes_are_enforced(void **state)
{
	touch(&alice, "/f", 0600);
	assert_int_equal(can_open(&alice, "/f", O_RDWR), 0);
	assert_int_equal(can_open(&bob, "/f", O_RDONLY), -EACCES);
	assert_int_equal(can_open(NULL, "/f", O_RDWR), 0);
	assert_int_equal(uext4_mkdir(img.fs, &alice, "/d", 0700), 0);
	touch(&alice, "/d/g", 0644);
	assert_int_equal(can_open(&bob, "/d/g", O_RDONLY), -EACCES);
	assert_int_equal(uext4_unlink(img.fs, &bob, "/d/g"), -EACCES);
	assert_int_equal(uext4_mkdir(img.fs, &bob, "/d/h", 0755), -EACCES);
}

static void chmod_and_chown_rules(void **state)
{
	struct uext4_attr attr = { .mode = 06755, .uid = 1001, .gid = 1001 };

	touch(&alice, "/f", 0644);
	assert_int_equal(uext4_setattr(img.fs, &bob, "/f", true, &attr, UEXT4_SET_MODE), -EPERM);
	assert_int_equal(uext4_setattr(img.fs, &alice, "/f", true, &attr, UEXT4_SET_UID), -EPERM);
	assert_int_equal(uext4_setattr(img.fs, &alice, "/f", true, &attr, UEXT4_SET_GID), -EPERM);
	assert_int_equal(uext4_setattr(img.fs, &alice, "/f", true, &attr, UEXT4_SET_MODE), 0);
	assert_int_equal(attr_of("/f").mode, S_IFREG | 06755);
	attr.uid = 100000;
	attr.gid = 200000;
	assert_int_equal(uext4_setattr(img.fs, NULL, "/f", true, &attr, UEXT4_SET_UID | UEXT4_SET_GID), 0);
	reopen();
	assert_int_equal(attr_of("/f").mode, S_IFREG | 0755); /* a change of owner drops both */
	assert_int_equal(attr_of("/f").uid, 100000);
	assert_int_equal(attr_of("/f").gid, 200000);
}

static void setgid_directories_pass_their_group_on(void **state)
{
	struct uext4_attr attr = { .mode = 02777, .gid = 77 };

	assert_int_equal(uext4_mkdir(img.fs, NULL, "/d", 0777), 0);
	assert_int_equal(uext4_setattr(img.fs, NULL, "/d", true, &attr, UEXT4_SET_MODE | UEXT4_SET_GID), 0);
	touch(&alice, "/d/f", 0644);
	assert_int_equal(attr_of("/d/f").gid, 77);
	assert_int_equal(uext4_mkdir(img.fs, &alice, "/d/e", 0755), 0);
	assert_int_equal(attr_of("/d/e").gid, 77);
	assert_true(attr_of("/d/e").mode & S_ISGID);
}

static void writes_by_others_drop_setuid(void **state)
{
	struct uext4_attr attr = { .mode = 04777 };
	struct uext4_file *file;

	touch(&alice, "/f", 0644);
	assert_int_equal(uext4_setattr(img.fs, &alice, "/f", true, &attr, UEXT4_SET_MODE), 0);
	assert_int_equal(uext4_open(img.fs, &bob, "/f", O_WRONLY, 0, &file), 0);
	assert_true(attr_of("/f").mode & S_ISUID);
	assert_int_equal(uext4_write(file, "x", 1), 1);
	assert_false(attr_of("/f").mode & S_ISUID);
	assert_int_equal(uext4_close(file), 0);
}

static void times_to_the_nanosecond_from_1901_to_2446(void **state)
{
	static const int64_t seconds[] = { -2147483648, -100, 0, 2147483648, 4294967296, 15032385535 };

	touch(NULL, "/f", 0644);
	for (unsigned i = 0; i < 6; i++) {
		struct uext4_attr attr = {
			.atime = { .tv_sec = seconds[i], .tv_nsec = 123456789 },
			.mtime = { .tv_sec = seconds[i], .tv_nsec = 987654321 },
		};

		assert_int_equal(uext4_setattr(img.fs, NULL, "/f", true, &attr, UEXT4_SET_ATIME | UEXT4_SET_MTIME), 0);
		reopen();
		assert_int_equal(attr_of("/f").atime.tv_sec, seconds[i]);
		assert_int_equal(attr_of("/f").atime.tv_nsec, 123456789);
		assert_int_equal(attr_of("/f").mtime.tv_sec, seconds[i]);
		assert_int_equal(attr_of("/f").mtime.tv_nsec, 987654321);
	}
}

static void touching_is_for_writers_and_setting_for_owners(void **state)
{
	struct uext4_attr attr = { .mtime = { .tv_sec = 5 }, .mode = 0666 };

	touch(&alice, "/f", 0644);
	assert_int_equal(uext4_setattr(img.fs, &bob, "/f", true, &attr, UEXT4_SET_MTIME_NOW), -EACCES);
	assert_int_equal(uext4_setattr(img.fs, &alice, "/f", true, &attr, UEXT4_SET_MODE), 0);
	assert_int_equal(uext4_setattr(img.fs, &bob, "/f", true, &attr, UEXT4_SET_MTIME_NOW), 0);
	assert_int_equal(uext4_setattr(img.fs, &bob, "/f", true, &attr, UEXT4_SET_MTIME), -EPERM);
}

#define FLAG_IMMUTABLE 0x10u
#define FLAG_APPEND    0x20u

static void immutable_and_append_only_files(void **state)
{
	struct uext4_attr attr = { .flags = FLAG_IMMUTABLE };

	touch(NULL, "/f", 0666);
	assert_int_equal(uext4_setattr(img.fs, &alice, "/f", true, &attr, UEXT4_SET_FLAGS), -EPERM);
	attr.flags = attr_of("/f").flags | FLAG_IMMUTABLE;
	assert_int_equal(uext4_setattr(img.fs, NULL, "/f", true, &attr, UEXT4_SET_FLAGS), 0);
	assert_int_equal(can_open(NULL, "/f", O_WRONLY), -EPERM);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/f"), -EPERM);
	assert_int_equal(uext4_rename(img.fs, NULL, "/f", "/g", 0), -EPERM);
	assert_int_equal(uext4_link(img.fs, NULL, "/f", "/g"), -EPERM);
	attr.flags ^= FLAG_IMMUTABLE | FLAG_APPEND;
	assert_int_equal(uext4_setattr(img.fs, NULL, "/f", true, &attr, UEXT4_SET_FLAGS), 0);
	assert_int_equal(can_open(NULL, "/f", O_WRONLY), -EPERM);
	assert_int_equal(can_open(NULL, "/f", O_WRONLY | O_APPEND), 0);
	assert_int_equal(can_open(NULL, "/f", O_RDWR | O_APPEND | O_TRUNC), -EPERM);
	assert_int_equal(uext4_truncate(img.fs, NULL, "/f", 0), -EPERM);
	attr.flags ^= FLAG_APPEND;
	assert_int_equal(uext4_setattr(img.fs, NULL, "/f", true, &attr, UEXT4_SET_FLAGS), 0);
	assert_int_equal(uext4_unlink(img.fs, NULL, "/f"), 0);
}

static void xattrs_live_and_die(void **state)
{
	char value[3000], got[3000], names[64];

	touch(&alice, "/f", 0644);
	memset(value, 'v', sizeof(value));
	assert_int_equal(uext4_setxattr(img.fs, &alice, "/f", true, "user.a", "1", 1, 0), 0);
	assert_int_equal(uext4_setxattr(img.fs, &alice, "/f", true, "user.a", "2", 1, UEXT4_XATTR_CREATE), -EEXIST);
	assert_int_equal(uext4_setxattr(img.fs, &alice, "/f", true, "user.b", "2", 1, UEXT4_XATTR_REPLACE), -ENODATA);
	assert_int_equal(uext4_setxattr(img.fs, &alice, "/f", true, "user.big", value, 3000, 0), 0);
	assert_int_equal(uext4_setxattr(img.fs, &alice, "/f", true, "user.empty", "", 0, 0), 0);
	assert_int_equal(uext4_setxattr(img.fs, &bob, "/f", true, "user.b", "2", 1, 0), -EACCES);
	assert_int_equal(uext4_setxattr(img.fs, &alice, "/f", true, "trusted.t", "2", 1, 0), -EPERM);
	assert_int_equal(uext4_setxattr(img.fs, NULL, "/f", true, "trusted.t", "2", 1, 0), 0);
	assert_int_equal(uext4_setxattr(img.fs, NULL, "/f", true, "nonsense.t", "2", 1, 0), -EOPNOTSUPP);
	assert_int_equal(uext4_removexattr(img.fs, &alice, "/f", true, "user.none"), -ENODATA);
	reopen();
	assert_int_equal(uext4_getxattr(img.fs, &bob, "/f", true, "user.big", NULL, 0), 3000);
	assert_int_equal(uext4_getxattr(img.fs, &bob, "/f", true, "user.big", got, 2999), -ERANGE);
	assert_int_equal(uext4_getxattr(img.fs, &bob, "/f", true, "user.big", got, 3000), 3000);
	assert_memory_equal(got, value, 3000);
	assert_int_equal(uext4_getxattr(img.fs, &bob, "/f", true, "user.empty", got, 3000), 0);
	assert_int_equal(uext4_listxattr(img.fs, &bob, "/f", true, names, sizeof(names)), 27);
	assert_int_equal(uext4_listxattr(img.fs, NULL, "/f", true, NULL, 0), 37);
	assert_int_equal(uext4_removexattr(img.fs, &alice, "/f", true, "user.big"), 0);
	assert_int_equal(uext4_getxattr(img.fs, &alice, "/f", true, "user.big", got, 3000), -ENODATA);
}

/* The form of system.posix_acl_*: version 2, then tag, permissions and id of each entry. */
struct acl_bytes {
	uint32_t version;
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} entry[5];
};

static struct acl_bytes acl_for_bob(void)
{
	return (struct acl_bytes){ htole32(2), {
		{ htole16(0x01), htole16(7), UINT32_MAX },        /* owner */
		{ htole16(0x02), htole16(6), htole32(1001) },     /* bob */
		{ htole16(0x04), htole16(4), UINT32_MAX },        /* group */
		{ htole16(0x10), htole16(6), UINT32_MAX },        /* mask */
		{ htole16(0x20), htole16(0), UINT32_MAX },        /* other */
	} };
}

static void acls_grant_and_are_inherited(void **state)
{
	struct acl_bytes acl = acl_for_bob();
	struct uext4_attr attr = { .mode = 0600 };

	touch(&alice, "/f", 0600);
	assert_int_equal(can_open(&bob, "/f", O_RDWR), -EACCES);
	assert_int_equal(uext4_setxattr(img.fs, &bob, "/f", true, "system.posix_acl_access", &acl, sizeof(acl), 0), -EPERM);
	assert_int_equal(uext4_setxattr(img.fs, &alice, "/f", true, "system.posix_acl_access", &acl, sizeof(acl), 0), 0);
	assert_int_equal(can_open(&bob, "/f", O_RDWR), 0);
	assert_int_equal(attr_of("/f").mode & 0777, 0760); /* the group bits are the mask */
	assert_int_equal(uext4_setattr(img.fs, &alice, "/f", true, &attr, UEXT4_SET_MODE), 0);
	assert_int_equal(can_open(&bob, "/f", O_RDONLY), -EACCES); /* chmod narrowed the mask */
	assert_int_equal(uext4_mkdir(img.fs, &alice, "/d", 0755), 0);
	assert_int_equal(uext4_setxattr(img.fs, &alice, "/d", true, "system.posix_acl_default", &acl, sizeof(acl), 0), 0);
	touch(&alice, "/d/f", 0666); /* with a default ACL the umask does not count */
	reopen();
	assert_int_equal(attr_of("/d/f").mode & 0777, 0660);
	assert_int_equal(can_open(&bob, "/d/f", O_RDWR), 0);
	assert_int_equal(uext4_setxattr(img.fs, &alice, "/d/f", true, "system.posix_acl_access", &acl, 7, 0), -EINVAL);
}

static void sticky_directories(void **state)
{
	struct uext4_attr attr = { .mode = 01777 };

	assert_int_equal(uext4_mkdir(img.fs, NULL, "/tmp", 0777), 0);
	assert_int_equal(uext4_setattr(img.fs, NULL, "/tmp", true, &attr, UEXT4_SET_MODE), 0);
	touch(&alice, "/tmp/a", 0666);
	assert_int_equal(uext4_unlink(img.fs, &bob, "/tmp/a"), -EPERM);
	assert_int_equal(uext4_rename(img.fs, &bob, "/tmp/a", "/tmp/b", 0), -EPERM);
	assert_int_equal(uext4_unlink(img.fs, &alice, "/tmp/a"), 0);
}

static void devices_are_roots(void **state)
{
	assert_int_equal(uext4_mknod(img.fs, &alice, "/c", S_IFCHR | 0600, makedev(1, 3)), -EPERM);
	assert_int_equal(uext4_mknod(img.fs, &alice, "/w", S_IFCHR | 0600, makedev(0, 0)), 0);
	assert_int_equal(uext4_mknod(img.fs, &alice, "/p", S_IFIFO | 0600, 0), 0);
	assert_int_equal(uext4_mknod(img.fs, NULL, "/c", S_IFCHR | 0600, makedev(1, 3)), 0);
}

int main(void)
{
#define ON_IMAGE(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		ON_IMAGE(owner_and_umask_of_new_files),
		ON_IMAGE(modes_are_enforced),
		ON_IMAGE(chmod_and_chown_rules),
		ON_IMAGE(setgid_directories_pass_their_group_on),
		ON_IMAGE(writes_by_others_drop_setuid),
		ON_IMAGE(times_to_the_nanosecond_from_1901_to_2446),
		ON_IMAGE(touching_is_for_writers_and_setting_for_owners),
		ON_IMAGE(immutable_and_append_only_files),
		ON_IMAGE(xattrs_live_and_die),
		ON_IMAGE(acls_grant_and_are_inherited),
		ON_IMAGE(sticky_directories),
		ON_IMAGE(devices_are_roots),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
