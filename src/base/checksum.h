/* SPDX-License-Identifier: MIT */
/* checksum.h - the two checksums of ext4 and jbd2 */
#ifndef UEXT4_BASE_CHECKSUM_H
#define UEXT4_BASE_CHECKSUM_H

#include "base/types.h"

/* CRC32C, no inversion before or after: seed ~0 as ext4 and jbd2 store it; feed the result on. ISA-L. */
uint32_t crc32c(uint32_t seed, const void *data, size_t len_bytes);
/* CRC-16 (poly 0x8005 reflected) of gdt_csum (uninit_bg); seed ~0. */
uint16_t crc16(uint16_t seed, const void *data, size_t len_bytes);
/* CRC32 (IEEE big-endian, jbd2 compat checksum v1 of the commit block). */
uint32_t crc32_be(uint32_t seed, const void *data, size_t len_bytes);

#endif
