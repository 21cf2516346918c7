/* SPDX-License-Identifier: MIT */
/* test_partition.c - partitions of an MBR are found where they are */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "harness.h"

#define MBR_TABLE 446 /* four entries of 16 bytes, then 55 AA */

static void mbr_entry(unsigned char *mbr, int index, uint32_t start, uint32_t sectors)
{
	unsigned char *entry = mbr + MBR_TABLE + 16 * index;
	uint32_t le_start = htole32(start), le_sectors = htole32(sectors);

	entry[4] = 0x83;
	memcpy(entry + 8, &le_start, 4);
	memcpy(entry + 12, &le_sectors, 4);
}

static char *image_with_two_partitions(void)
{
	char *path = temp_image(64 << 20);
	unsigned char mbr[512] = { 0 };
	int fd = open(path, O_WRONLY);

	mbr_entry(mbr, 0, 2048, 4096);
	mbr_entry(mbr, 1, 8192, 65536);
	mbr[510] = 0x55;
	mbr[511] = 0xAA;
	assert_int_equal(pwrite(fd, mbr, sizeof(mbr), 0), sizeof(mbr));
	close(fd);
	return path;
}

static void a_partition_is_found_by_number(void **state)
{
	char *path = image_with_two_partitions();
	uint64_t start, len;

	assert_int_equal(block_find_partition(path, 1, &start, &len), 0);
	assert_int_equal(start, 2048 * 512);
	assert_int_equal(len, 4096 * 512);
	assert_int_equal(block_find_partition(path, 2, &start, &len), 0);
	assert_int_equal(start, 8192 * 512);
	assert_int_equal(len, 65536 * 512);
	temp_image_remove(path);
}

static void a_missing_partition_table_or_file_is_an_error(void **state)
{
	char *path = image_with_two_partitions();
	char *blank = temp_image(1 << 20);
	uint64_t start, len;

	assert_int_equal(block_find_partition(path, 3, &start, &len), -ENOENT);
	assert_int_equal(block_find_partition(path, 0, &start, &len), -EINVAL);
	assert_int_equal(block_find_partition(blank, 1, &start, &len), -ENODATA);
	assert_int_equal(block_find_partition("/nonexistent/image", 1, &start, &len), -ENOENT);
	temp_image_remove(blank);
	temp_image_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_partition_is_found_by_number),
		cmocka_unit_test(a_missing_partition_table_or_file_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
