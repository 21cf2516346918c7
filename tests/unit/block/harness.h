/* SPDX-License-Identifier: MIT */
/* harness.h - devices of every kind to test, and batches of asynchronous requests */
#ifndef UEXT4_TESTS_UNIT_BLOCK_HARNESS_H
#define UEXT4_TESTS_UNIT_BLOCK_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka after these */
#include <cmocka.h>

#include "block/block.h"

#define DEV_BYTES ((uint64_t)4 << 20)

/* A sparse file of @size_bytes in a place where O_DIRECT has a chance; the name is the caller's to free. */
char *temp_image(uint64_t size_bytes);
void temp_image_remove(char *path);

/* Fills @buf with bytes that depend on @tag and on their place. */
void pattern_fill(void *buf, size_t len_bytes, unsigned tag);
void expect_pattern(const void *buf, size_t len_bytes, unsigned tag);
void expect_zeros(const void *buf, size_t len_bytes);

/* Submits @count bios, initialised by the caller but for dev and end_io, and waits for all; first error or 0. */
int run_bios(struct block_device *dev, struct bio *bios, unsigned count);

void *aligned_buffer(size_t len_bytes); /* 4096; never NULL */

#endif
