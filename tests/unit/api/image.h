/* SPDX-License-Identifier: MIT */
/* image.h - an ext4 image made by mke2fs, opened through the public interface, and judged by e2fsck */
#ifndef UEXT4_TESTS_UNIT_API_IMAGE_H
#define UEXT4_TESTS_UNIT_API_IMAGE_H

#include <stdbool.h>

#include "uext4.h"

struct image {
	char dir[64];
	char path[96];
	struct uext4_fs *fs; /* NULL: not open */
	char log[8192];      /* what the library said since image_make() */
};

/* Makes DIR/image of @megabytes with mke2fs and @mke2fs_options. */
void image_make(struct image *img, const char *mke2fs_options, unsigned megabytes);
/* The same in a file whose bytes are in memory (tmpfs). False: there is no tmpfs; nothing was made. */
bool image_make_in_memory(struct image *img, const char *mke2fs_options, unsigned megabytes);
/* Opens it with @options (may be NULL); the test fails if that fails. */
void image_open(struct image *img, const char *options, bool check_permissions);
/* The result of opening it. */
int image_try_open(struct image *img, const char *options, bool check_permissions);
/* Closes it; e2fsck -fn has to find nothing. */
void image_check(struct image *img);
/* image_check(), image_open(). */
void image_reopen(struct image *img);
/* Removes everything. */
void image_remove(struct image *img);

/* Runs a command, with the image's path for each "@"; 0 if it succeeds. */
int image_run(const struct image *img, const char *command);

/* A setup that skips the tests where there is no mke2fs or e2fsck, and says so. */
bool image_tools_missing(void);

/* Fills or checks bytes that tell from which file and offset they come. */
void pattern_fill(char *buf, size_t len, uint64_t file, uint64_t pos);
bool pattern_holds(const char *buf, size_t len, uint64_t file, uint64_t pos);

/* Calls that have to succeed. @file of the last two is the id that the pattern begins with. */
struct uext4_file *image_open_file(struct image *img, const char *path, int flags);
void image_write(struct uext4_file *to, uint64_t file, off_t pos, size_t len);
void image_expect(struct uext4_file *in, uint64_t file, off_t pos, size_t len);

#endif
