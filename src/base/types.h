/* SPDX-License-Identifier: MIT */
/* types.h - unit-carrying integer types and the on-disk endianness wrappers */
#ifndef UEXT4_BASE_TYPES_H
#define UEXT4_BASE_TYPES_H

#include <assert.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint32_t lblk_t;  /* block number within a file */
typedef uint64_t fsblk_t; /* block number on the file system's device, in file-system blocks */
typedef uint32_t group_t; /* block group number */
typedef uint32_t ino_num; /* inode number on disk */
typedef uint32_t tid_t;   /* journal transaction id; compared only with tid_gt() and tid_geq() */

/* ext4 is little-endian, jbd2 big-endian: a wrapper makes a missing conversion a compile error. */
typedef struct { uint16_t raw; } le16;
typedef struct { uint32_t raw; } le32;
typedef struct { uint64_t raw; } le64;
typedef struct { uint16_t raw; } be16;
typedef struct { uint32_t raw; } be32;
typedef struct { uint64_t raw; } be64;

static inline uint16_t le16_get(le16 v) { return le16toh(v.raw); }
static inline uint32_t le32_get(le32 v) { return le32toh(v.raw); }
static inline uint64_t le64_get(le64 v) { return le64toh(v.raw); }
static inline uint16_t be16_get(be16 v) { return be16toh(v.raw); }
static inline uint32_t be32_get(be32 v) { return be32toh(v.raw); }
static inline uint64_t be64_get(be64 v) { return be64toh(v.raw); }
static inline le16 le16_make(uint16_t v) { return (le16){ htole16(v) }; }
static inline le32 le32_make(uint32_t v) { return (le32){ htole32(v) }; }
static inline le64 le64_make(uint64_t v) { return (le64){ htole64(v) }; }
static inline be16 be16_make(uint16_t v) { return (be16){ htobe16(v) }; }
static inline be32 be32_make(uint32_t v) { return (be32){ htobe32(v) }; }
static inline be64 be64_make(uint64_t v) { return (be64){ htobe64(v) }; }

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define min_of(a, b) ({ __auto_type _a = (a); __auto_type _b = (b); _a < _b ? _a : _b; })
#define max_of(a, b) ({ __auto_type _a = (a); __auto_type _b = (b); _a > _b ? _a : _b; })
#define round_up_to(x, a)   ((((x) + (a) - 1) / (a)) * (a))
#define round_down_to(x, a) (((x) / (a)) * (a))
#define div_round_up(x, a)  (((x) + (a) - 1) / (a))

#endif
