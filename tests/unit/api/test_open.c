/* SPDX-License-Identifier: MIT */
/* test_open.c - opening good and bad images, partitions, devices of the caller's, counters */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"

static struct image img;

static int start(void **state)
{
	image_make(&img, "-t ext4", 32);
	return 0;
}

static int stop(void **state)
{
	image_remove(&img);
	return 0;
}

static void put_text(const char *path, const char *text)
{
	struct uext4_file *file;

	assert_int_equal(uext4_open(img.fs, NULL, path, O_WRONLY | O_CREAT, 0644, &file), 0);
	assert_int_equal(uext4_write(file, text, strlen(text)), strlen(text));
	assert_int_equal(uext4_close(file), 0);
}

static void expect_text(const char *path, const char *text)
{
	struct uext4_file *file;
	char buf[64] = "";

	assert_int_equal(uext4_open(img.fs, NULL, path, O_RDONLY, 0, &file), 0);
	assert_int_equal(uext4_read(file, buf, sizeof(buf)), strlen(text));
	assert_string_equal(buf, text);
	assert_int_equal(uext4_close(file), 0);
}

/* The error, and that the log says what and why. */
static void expect_refused(const char *options, int err, const char *said)
{
	img.log[0] = '\0';
	assert_int_equal(image_try_open(&img, options, false), err);
	if (!strstr(img.log, said))
		fprintf(stderr, "expected \"%s\" in the log:\n%s", said, img.log);
	assert_non_null(strstr(img.log, said));
}

static void missing_file(void **state)
{
	unlink(img.path);
	expect_refused(NULL, -ENOENT, "image");
}

static void directory(void **state)
{
	unlink(img.path);
	assert_int_equal(mkdir(img.path, 0755), 0);
	expect_refused(NULL, -EISDIR, "image");
	rmdir(img.path);
}

static void no_file_system_in_it(void **state)
{
	assert_int_equal(image_run(&img, "dd if=/dev/zero of=@ bs=1M count=32 2>/dev/null"), 0);
	expect_refused(NULL, -EINVAL, "image");
}

static void empty_file(void **state)
{
	assert_int_equal(truncate(img.path, 0), 0);
	expect_refused(NULL, -EINVAL, "image");
}

static void truncated_image(void **state)
{
	assert_int_equal(truncate(img.path, 20 << 20), 0);
	img.log[0] = '\0';
	assert_int_not_equal(image_try_open(&img, NULL, false), 0);
	assert_non_null(strstr(img.log, "image"));
}

static void unknown_option(void **state)
{
	expect_refused("frobnicate=1", -EINVAL, "frobnicate");
}

static void second_writer(void **state)
{
	struct image second = img;

	image_open(&img, NULL, false);
	second.fs = NULL;
	second.log[0] = '\0';
	assert_int_equal(image_try_open(&second, NULL, false), -EBUSY);
	assert_non_null(strstr(second.log, "image"));
	image_check(&img);
}

static void two_readers(void **state)
{
	struct image second = img;

	image_open(&img, "ro", false);
	image_open(&second, "ro", false);
	assert_int_equal(uext4_close_fs(second.fs), 0);
	image_check(&img);
}

static void image_at_an_offset(void **state)
{
	assert_int_equal(image_run(&img, "mv @ @.fs && dd if=/dev/zero of=@ bs=1M count=4 2>/dev/null && "
					 "cat @.fs >>@ && rm @.fs"), 0);
	expect_refused(NULL, -EINVAL, "image");
	image_open(&img, "offset=4194304", false);
	put_text("/f", "offset");
	assert_int_equal(uext4_close_fs(img.fs), 0);
	image_open(&img, "ro,offset=4194304", false);
	expect_text("/f", "offset");
	assert_int_equal(uext4_close_fs(img.fs), 0);
	img.fs = NULL;
	expect_refused("offset=419430400", -EINVAL, "419430400");
	assert_int_equal(image_run(&img, "tail -c +4194305 @ >@.fs && mv @.fs @"), 0);
	image_check(&img);
}

static void image_in_a_partition(void **state)
{
	if (image_run(&img, "PATH=$PATH:/usr/sbin:/sbin sfdisk --version >/dev/null 2>&1"))
		skip();
	assert_int_equal(image_run(&img, "mv @ @.fs && truncate -s 48M @ && "
					 "printf '2048,8192,83\\n10240,65536,83\\n' | PATH=$PATH:/usr/sbin:/sbin sfdisk -q @ && "
					 "dd if=@.fs of=@ bs=512 seek=10240 conv=notrunc 2>/dev/null && rm @.fs"), 0);
	image_open(&img, "partition=2", false);
	put_text("/f", "partition");
	expect_text("/f", "partition");
	assert_int_equal(uext4_close_fs(img.fs), 0);
	img.fs = NULL;
	expect_refused("partition=3", -ENOENT, "partition 3");
}

/* ---- devices of the caller's ---- */

struct memory_device {
	char *bytes;
	size_t size;
	_Atomic unsigned reads, writes, flushes, closes;
};

static int memory_read(void *device, void *buf, size_t len, uint64_t pos)
{
	struct memory_device *dev = device;

	dev->reads++;
	memcpy(buf, dev->bytes + pos, len);
	return 0;
}

static int memory_write(void *device, const void *buf, size_t len, uint64_t pos)
{
	struct memory_device *dev = device;

	dev->writes++;
	memcpy(dev->bytes + pos, buf, len);
	return 0;
}

static int memory_flush(void *device)
{
	((struct memory_device *)device)->flushes++;
	return 0;
}

static void memory_close(void *device)
{
	((struct memory_device *)device)->closes++;
}

static void load_image(struct memory_device *dev)
{
	FILE *f = fopen(img.path, "r");

	dev->size = 32 << 20;
	dev->bytes = malloc(dev->size);
	assert_int_equal(fread(dev->bytes, 1, dev->size, f), dev->size);
	fclose(f);
}

static void store_image(struct memory_device *dev)
{
	FILE *f = fopen(img.path, "w");

	assert_int_equal(fwrite(dev->bytes, 1, dev->size, f), dev->size);
	assert_int_equal(fclose(f), 0);
	free(dev->bytes);
}

static void device_of_the_callers(void **state)
{
	const struct uext4_device_ops ops = {
		.struct_bytes = sizeof(ops),
		.read = memory_read, .write = memory_write, .flush = memory_flush, .close = memory_close,
	};
	struct memory_device dev = { 0 };

	load_image(&dev);
	assert_int_equal(uext4_open_device(&ops, &dev, dev.size, NULL, &img.fs), 0);
	put_text("/f", "through functions");
	expect_text("/f", "through functions");
	assert_int_equal(uext4_close_fs(img.fs), 0);
	img.fs = NULL;
	assert_true(dev.reads > 0 && dev.writes > 0 && dev.flushes > 0);
	assert_int_equal(dev.closes, 1);
	store_image(&dev);
	image_check(&img);
}

static void read_only_device_of_the_callers(void **state)
{
	const struct uext4_device_ops ops = { .struct_bytes = sizeof(ops), .read = memory_read };
	const struct uext4_options options = { .struct_bytes = sizeof(options), .mount_options = "ro" };
	struct memory_device dev = { 0 };

	load_image(&dev);
	assert_int_equal(uext4_open_device(&ops, &dev, dev.size, &options, &img.fs), 0);
	assert_true(uext4_is_read_only(img.fs));
	assert_int_equal(uext4_mkdir(img.fs, NULL, "/d", 0755), -EROFS);
	assert_int_equal(uext4_close_fs(img.fs), 0);
	img.fs = NULL;
	free(dev.bytes);
}

static void image_in_memory(void **state)
{
	struct memory_device dev = { 0 };

	load_image(&dev);
	assert_int_equal(uext4_open_memory(dev.bytes, dev.size, NULL, &img.fs), 0);
	put_text("/f", "in memory");
	assert_int_equal(uext4_close_fs(img.fs), 0);
	img.fs = NULL;
	store_image(&dev);
	image_open(&img, "ro", false);
	expect_text("/f", "in memory");
	image_check(&img);
}

static void counters_as_items_and_as_json(void **state)
{
	struct uext4_stats stats = { .struct_bytes = sizeof(stats) };
	char json[8192], small[8];
	bool found = false;
	int len;

	image_open(&img, NULL, false);
	put_text("/f", "counted");
	assert_int_equal(uext4_sync(img.fs), 0);
	assert_int_equal(uext4_stats(img.fs, &stats), 0);
	for (uint32_t i = 0; i < stats.count; i++) {
		if (!strcmp(stats.items[i].section, "journal") && !strcmp(stats.items[i].key, "commits"))
			found = stats.items[i].value > 0;
	}
	assert_true(found);
	len = uext4_stats_json(img.fs, json, sizeof(json));
	assert_int_equal(len, strlen(json));
	assert_int_equal(json[0], '{');
	assert_string_equal(json + len - 2, "}}");
	assert_non_null(strstr(json, "\"writeback\":{"));
	assert_int_equal(uext4_stats_json(img.fs, small, sizeof(small)), len);
	assert_int_equal(strlen(small), 7);
	image_check(&img);
}

static void closing_nothing_is_fine(void **state)
{
	assert_int_equal(uext4_close_fs(NULL), 0);
	assert_int_not_equal(uext4_version()[0], 0);
}

int main(void)
{
#define ON_IMAGE(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		ON_IMAGE(missing_file),
		ON_IMAGE(directory),
		ON_IMAGE(no_file_system_in_it),
		ON_IMAGE(empty_file),
		ON_IMAGE(truncated_image),
		ON_IMAGE(unknown_option),
		ON_IMAGE(second_writer),
		ON_IMAGE(two_readers),
		ON_IMAGE(image_at_an_offset),
		ON_IMAGE(image_in_a_partition),
		ON_IMAGE(device_of_the_callers),
		ON_IMAGE(read_only_device_of_the_callers),
		ON_IMAGE(image_in_memory),
		ON_IMAGE(counters_as_items_and_as_json),
		cmocka_unit_test(closing_nothing_is_fine),
	};

	if (image_tools_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
