/* SPDX-License-Identifier: MIT */
/* dir_hash.c - the hashes of indexed directories: legacy, half MD4 and TEA, over signed and unsigned characters */
#include <errno.h>
#include <string.h>

#include "ext4/dir_private.h"

/*
 * Characters are widened to 32 bits before they are mixed, so names with bytes above 0x7f hash differently where
 * char is signed. The superblock says which machine's way the directory was made.
 */

#define HASH_EOF 0x7fffffffu /* as a position (hash >> 1), the end of the directory: no name may have it */

static inline uint32_t widen(char c, bool is_unsigned)
{
	return is_unsigned ? (uint32_t)(unsigned char)c : (uint32_t)(int32_t)(signed char)c;
}

static inline uint32_t rotate_left(uint32_t v, unsigned by)
{
	return v << by | v >> (32 - by);
}

static uint32_t hash_legacy(const char *name, size_t len, bool is_unsigned)
{
	uint32_t last = 0x12a3fe2d, before = 0x37abe8f9;

	for (size_t i = 0; i < len; i++) {
		uint32_t next = before + (last ^ (widen(name[i], is_unsigned) * 7152373u));

		if (next & 0x80000000u)
			next -= 0x7fffffffu;
		before = last;
		last = next;
	}
	return last << 1;
}

/* @words words from up to @words * 4 characters, big end first; what is missing is filled with the length. */
static void name_to_words(const char *name, size_t len, uint32_t *out, size_t words, bool is_unsigned)
{
	uint32_t pad = (uint32_t)len | (uint32_t)len << 8;
	size_t used = min_of(len, words * 4);

	pad |= pad << 16;
	for (size_t w = 0; w < words; w++) {
		uint32_t value = pad;

		for (size_t i = w * 4; i < used && i < w * 4 + 4; i++)
			value = widen(name[i], is_unsigned) + (value << 8);
		out[w] = value;
	}
}

static inline uint32_t md4_choose(uint32_t x, uint32_t y, uint32_t z) { return z ^ (x & (y ^ z)); }
static inline uint32_t md4_majority(uint32_t x, uint32_t y, uint32_t z) { return (x & y) + ((x ^ y) & z); }
static inline uint32_t md4_parity(uint32_t x, uint32_t y, uint32_t z) { return x ^ y ^ z; }

/* Four steps of a round, which together come back to the same roles of the state words. */
#define MD4_STEPS(f, k, s1, s2, s3, s4, i1, i2, i3, i4)                \
	do {                                                           \
		a = rotate_left(a + f(b, c, d) + in[i1] + (k), s1);    \
		d = rotate_left(d + f(a, b, c) + in[i2] + (k), s2);    \
		c = rotate_left(c + f(d, a, b) + in[i3] + (k), s3);    \
		b = rotate_left(b + f(c, d, a) + in[i4] + (k), s4);    \
	} while (0)

/* MD4 with half the input per block and half the steps per round. */
static void half_md4_mix(uint32_t state[4], const uint32_t in[8])
{
	const uint32_t sqrt2 = 0x5a827999u, sqrt3 = 0x6ed9eba1u;
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];

	MD4_STEPS(md4_choose, 0, 3, 7, 11, 19, 0, 1, 2, 3);
	MD4_STEPS(md4_choose, 0, 3, 7, 11, 19, 4, 5, 6, 7);
	MD4_STEPS(md4_majority, sqrt2, 3, 5, 9, 13, 1, 3, 5, 7);
	MD4_STEPS(md4_majority, sqrt2, 3, 5, 9, 13, 0, 2, 4, 6);
	MD4_STEPS(md4_parity, sqrt3, 3, 9, 11, 15, 3, 7, 2, 6);
	MD4_STEPS(md4_parity, sqrt3, 3, 9, 11, 15, 1, 5, 0, 4);
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

/* Sixteen cycles of the Tiny Encryption Algorithm, the name being the key. */
static void tea_mix(uint32_t state[4], const uint32_t key[4])
{
	uint32_t v0 = state[0], v1 = state[1], sum = 0;

	for (int cycle = 0; cycle < 16; cycle++) {
		sum += 0x9e3779b9u;
		v0 += ((v1 << 4) + key[0]) ^ (v1 + sum) ^ ((v1 >> 5) + key[1]);
		v1 += ((v0 << 4) + key[2]) ^ (v0 + sum) ^ ((v0 >> 5) + key[3]);
	}
	state[0] += v0;
	state[1] += v1;
}

static void hash_seed(const struct ext4_fs *fs, uint32_t state[4])
{
	static const uint32_t md4_start[4] = { 0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u };
	const uint32_t *seed = fs->hash_seed;

	memcpy(state, (seed[0] | seed[1] | seed[2] | seed[3]) ? seed : md4_start, sizeof(md4_start));
}

/* Feeds the whole name, @words words at a time. */
static inline void hash_feed(uint32_t state[4], const char *name, size_t len, size_t words, bool is_unsigned,
			     void (*mix)(uint32_t state[4], const uint32_t *in))
{
	uint32_t in[8];

	for (size_t done = 0; done < len; done += words * 4) {
		name_to_words(name + done, len - done, in, words, is_unsigned);
		mix(state, in);
	}
}

int dir_hash(const struct ext4_fs *fs, uint8_t version, const char *name, size_t len, uint32_t *hash_out,
	     uint32_t *minor_out)
{
	uint32_t state[4], hash, minor;
	bool is_unsigned = version >= DX_HASH_LEGACY_UNSIGNED;

	hash_seed(fs, state);
	switch (version) {
	case DX_HASH_LEGACY:
	case DX_HASH_LEGACY_UNSIGNED:
		hash = hash_legacy(name, len, is_unsigned);
		minor = 0;
		break;
	case DX_HASH_HALF_MD4:
	case DX_HASH_HALF_MD4_UNSIGNED:
		hash_feed(state, name, len, 8, is_unsigned, half_md4_mix);
		hash = state[1];
		minor = state[2];
		break;
	case DX_HASH_TEA:
	case DX_HASH_TEA_UNSIGNED:
		hash_feed(state, name, len, 4, is_unsigned, tea_mix);
		hash = state[0];
		minor = state[1];
		break;
	default:
		return -EINVAL;
	}
	hash &= ~1u; /* the index keeps a flag there */
	if (hash == HASH_EOF << 1)
		hash = (HASH_EOF - 1) << 1;
	*hash_out = hash;
	*minor_out = minor;
	return 0;
}
