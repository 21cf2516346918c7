/* SPDX-License-Identifier: MIT */
/* image_memory.h - memory for whole images, for tests that make many of them */
#ifndef UEXT4_TESTS_IMAGE_MEMORY_H
#define UEXT4_TESTS_IMAGE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * What was freed is kept and given again, since fresh pages cost more than all else such a test does: they are the dearest
 * where a hypervisor or a sanitizer keeps tables of its own. Undefined content, aligned to 64 KiB; the page behind the last
 * one cannot be touched. Exits the test if there is no memory. The caller's, for image_memory_free().
 */
uint8_t *image_memory(size_t bytes);
/* The same, with what is at @from. */
uint8_t *image_memory_copy(const uint8_t *from, size_t bytes);
/* NULL does nothing. Any thread, as for the two above. */
void image_memory_free(uint8_t *image);

#endif /* UEXT4_TESTS_IMAGE_MEMORY_H */
