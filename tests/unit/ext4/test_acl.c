/* SPDX-License-Identifier: MIT */
/* test_acl.c - POSIX ACLs: which are valid, both encodings, and whom they let in */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/xattr_private.h"
#include "unit.h"

#define UO ACL_TAG_USER_OBJ
#define U  ACL_TAG_USER
#define GO ACL_TAG_GROUP_OBJ
#define G  ACL_TAG_GROUP
#define M  ACL_TAG_MASK
#define O  ACL_TAG_OTHER
#define NO ACL_ID_UNDEFINED

#define ACL(...) acl_of((struct acl_entry[]){ __VA_ARGS__ }, sizeof((struct acl_entry[]){ __VA_ARGS__ }))

static struct acl *acl_of(const struct acl_entry *entries, size_t bytes)
{
	struct acl *acl = malloc(sizeof(*acl) + bytes);

	assert_non_null(acl);
	acl->count = (uint32_t)(bytes / sizeof(*entries));
	memcpy(acl->entry, entries, bytes);
	return acl;
}

static void assert_valid(struct acl *acl, bool valid)
{
	assert_int_equal(acl_verify(acl) == NULL, valid);
	free(acl);
}

static void order_and_completeness_are_required(void **state)
{
	assert_valid(ACL({ UO, 6, NO }, { GO, 4, NO }, { O, 4, NO }), true);
	assert_valid(ACL({ UO, 6, NO }, { GO, 4, NO }, { M, 7, NO }, { O, 4, NO }), true);
	assert_valid(ACL({ UO, 6, NO }, { U, 7, 5 }, { U, 7, 6 }, { GO, 4, NO }, { G, 1, 9 }, { M, 7, NO }, { O, 4, NO }), true);
	assert_valid(ACL({ UO, 6, NO }, { U, 7, 5 }, { GO, 4, NO }, { O, 4, NO }), false); /* no mask */
	assert_valid(ACL({ UO, 6, NO }, { U, 7, NO }, { GO, 4, NO }, { M, 7, NO }, { O, 4, NO }), false);
	assert_valid(ACL({ GO, 6, NO }, { UO, 4, NO }, { O, 4, NO }), false);
	assert_valid(ACL({ UO, 6, NO }, { UO, 6, NO }, { GO, 4, NO }, { O, 4, NO }), false);
	assert_valid(ACL({ UO, 6, NO }, { GO, 4, NO }), false);
	assert_valid(ACL({ UO, 8, NO }, { GO, 4, NO }, { O, 4, NO }), false);
	assert_valid(ACL({ UO, 6, NO }, { GO, 4, NO }, { 0x40, 4, NO }, { O, 4, NO }), false);
}

static void mode_shows_the_mask(void **state)
{
	struct acl *acl = ACL({ UO, 6, NO }, { GO, 4, NO }, { O, 1, NO });
	uint16_t bits;

	assert_int_equal(acl_to_mode(acl, &bits), 0);
	assert_int_equal(bits, 0641);
	free(acl);
	acl = ACL({ UO, 7, NO }, { U, 7, 5 }, { GO, 4, NO }, { G, 3, 5 }, { M, 2, NO }, { O, 0, NO });
	assert_int_equal(acl_to_mode(acl, &bits), 1);
	assert_int_equal(bits, 0720);
	free(acl);
}

static void both_encodings_come_back_as_they_went(void **state)
{
	struct acl *acl = ACL({ UO, 6, NO }, { U, 7, 100000 }, { GO, 4, NO }, { G, 1, 200000 }, { M, 7, NO }, { O, 4, NO });
	struct acl *back;
	uint8_t wire[200];
	size_t disk_len;
	void *disk;
	ssize_t len;

	len = acl_to_xattr(acl, NULL, 0);
	assert_int_equal(len, 4 + 6 * 8);
	assert_int_equal(acl_to_xattr(acl, wire, (size_t)len - 1), -ERANGE);
	assert_int_equal(acl_to_xattr(acl, wire, sizeof(wire)), len);
	assert_int_equal(acl_from_xattr(wire, (size_t)len, &back), 0);
	assert_memory_equal(back->entry, acl->entry, acl->count * sizeof(acl->entry[0]));
	free(back);
	assert_int_equal(acl_to_disk(acl, &disk, &disk_len), 0);
	assert_int_equal(disk_len, 4 + 2 * 8 + 4 * 4);
	assert_int_equal(acl_from_disk(disk, disk_len, &back), 0);
	assert_int_equal(back->count, acl->count);
	assert_memory_equal(back->entry, acl->entry, acl->count * sizeof(acl->entry[0]));
	free(back);
	assert_int_equal(acl_from_disk(disk, disk_len - 1, &back), -EUCLEAN);
	((uint8_t *)disk)[0] = 2;
	assert_int_equal(acl_from_disk(disk, disk_len, &back), -EUCLEAN);
	free(disk);
	free(acl);
}

static void bad_wire_forms_are_refused(void **state)
{
	uint8_t wire[4 + 3 * 8] = { 2 };
	struct acl *acl;

	assert_int_equal(acl_from_xattr(wire, 4, &acl), 0);
	assert_null(acl);
	assert_int_equal(acl_from_xattr(wire, 3, &acl), -EINVAL);
	assert_int_equal(acl_from_xattr(wire, 11, &acl), -EINVAL);
	assert_int_equal(acl_from_xattr(wire, sizeof(wire), &acl), -EINVAL);
	wire[0] = 1;
	assert_int_equal(acl_from_xattr(wire, sizeof(wire), &acl), -EOPNOTSUPP);
}

/* uid, one group, wanted bits: granted? */
static void assert_access(const struct acl *acl, uint32_t uid, uint32_t gid, unsigned want, bool granted)
{
	static struct inode inode = { .uid = 1000, .gid = 1000 };

	assert_int_equal(acl_permission(acl, &inode, uid, &gid, 1, want), granted ? 0 : -EACCES);
}

static void the_first_class_that_fits_decides(void **state)
{
	struct acl *acl = ACL({ UO, 6, NO }, { U, 7, 5 }, { U, 0, 6 }, { GO, 4, NO }, { G, 3, 50 }, { M, 6, NO }, { O, 5, NO });

	assert_access(acl, 1000, 99, 6, true);
	assert_access(acl, 1000, 99, 1, false); /* the owner is not "other" */
	assert_access(acl, 5, 99, 6, true);
	assert_access(acl, 5, 99, 7, false);    /* masked */
	assert_access(acl, 6, 1000, 4, false);  /* a named user is not looked up as a group */
	assert_access(acl, 7, 1000, 4, true);
	assert_access(acl, 7, 1000, 2, false);
	assert_access(acl, 7, 50, 2, true);
	assert_access(acl, 7, 50, 1, false);    /* masked */
	assert_access(acl, 7, 50, 4, false);    /* in a group, so not "other" */
	assert_access(acl, 7, 51, 5, true);
	assert_access(acl, 7, 51, 2, false);    /* other is not masked, but has no write */
	free(acl);
}

static void one_group_entry_must_grant_everything_wanted(void **state)
{
	struct acl *acl = ACL({ UO, 6, NO }, { GO, 4, NO }, { G, 2, 50 }, { M, 7, NO }, { O, 0, NO });
	static struct inode inode = { .uid = 1000, .gid = 1000 };
	uint32_t gids[] = { 1000, 50 };

	assert_int_equal(acl_permission(acl, &inode, 7, gids, 2, 4), 0);
	assert_int_equal(acl_permission(acl, &inode, 7, gids, 2, 2), 0);
	assert_int_equal(acl_permission(acl, &inode, 7, gids, 2, 6), -EACCES);
	free(acl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_and_completeness_are_required),
		cmocka_unit_test(mode_shows_the_mask),
		cmocka_unit_test(both_encodings_come_back_as_they_went),
		cmocka_unit_test(bad_wire_forms_are_refused),
		cmocka_unit_test(the_first_class_that_fits_decides),
		cmocka_unit_test(one_group_entry_must_grant_everything_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
