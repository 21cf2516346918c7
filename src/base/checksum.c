/* SPDX-License-Identifier: MIT */
/* checksum.c - CRC32C and CRC32 through ISA-L, CRC-16 by table */
#include "base/checksum.h"

#include <isa-l/crc.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* ISA-L takes an int; whole gigabytes keep every piece but the last aligned. */
#define CRC32C_PIECE_BYTES ((size_t)1 << 30)

/*
 * ISA-L returns with the upper halves of the vector registers in use. Until they are zeroed, each instruction of ours that has
 * only the lower half to write waits for what was in the upper: a scan of a directory block after a checksum takes twice as long.
 */
#ifdef __x86_64__
__attribute__((target("avx"))) static void zero_upper_halves(void)
{
	_mm256_zeroupper();
}

static void leave_vectors(void)
{
	if (__builtin_cpu_supports("avx"))
		zero_upper_halves();
}
#else
static void leave_vectors(void) {}
#endif

uint32_t crc32c(uint32_t seed, const void *data, size_t len_bytes)
{
	const unsigned char *p = data;

	while (len_bytes > CRC32C_PIECE_BYTES) {
		seed = crc32_iscsi((unsigned char *)p, (int)CRC32C_PIECE_BYTES, seed);
		p += CRC32C_PIECE_BYTES;
		len_bytes -= CRC32C_PIECE_BYTES;
	}
	seed = crc32_iscsi((unsigned char *)p, (int)len_bytes, seed);
	leave_vectors();
	return seed;
}

/* ISA-L inverts the seed and the result; jbd2 stores neither inverted. */
uint32_t crc32_be(uint32_t seed, const void *data, size_t len_bytes)
{
	uint32_t crc = ~crc32_ieee(~seed, data, len_bytes);

	leave_vectors();
	return crc;
}

/* One step of the reflected CRC-16 for each value of a nibble: small enough to stay in one cache line. */
static const uint16_t crc16_nibble[16] = {
	0x0000, 0xCC01, 0xD801, 0x1400, 0xF001, 0x3C00, 0x2800, 0xE401,
	0xA001, 0x6C00, 0x7800, 0xB401, 0x5000, 0x9C01, 0x8801, 0x4400,
};

/* Group descriptors only, 32 or 64 bytes at a time: not worth more than a nibble table. */
uint16_t crc16(uint16_t seed, const void *data, size_t len_bytes)
{
	const uint8_t *p = data;
	uint16_t crc = seed;

	for (; len_bytes; len_bytes--, p++) {
		crc ^= *p;
		crc = (uint16_t)(crc >> 4) ^ crc16_nibble[crc & 15];
		crc = (uint16_t)(crc >> 4) ^ crc16_nibble[crc & 15];
	}
	return crc;
}
