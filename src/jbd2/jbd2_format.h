/* SPDX-License-Identifier: MIT */
/* jbd2_format.h - jbd2 on-disk structures; all big-endian; see docs/FORMAT.md "Journal" */
#ifndef UEXT4_JBD2_JBD2_FORMAT_H
#define UEXT4_JBD2_JBD2_FORMAT_H

#include "base/types.h"

#define JBD2_MAGIC 0xC03B3998u

#define JBD2_DESCRIPTOR_BLOCK    1u
#define JBD2_COMMIT_BLOCK        2u
#define JBD2_SUPERBLOCK_V1       3u
#define JBD2_SUPERBLOCK_V2       4u
#define JBD2_REVOKE_BLOCK        5u

/* s_feature_compat */
#define JBD2_COMPAT_CHECKSUM        0x1u  /* v1: crc32 of the whole transaction in the commit block */

/* s_feature_incompat */
#define JBD2_INCOMPAT_REVOKE        0x1u
#define JBD2_INCOMPAT_64BIT         0x2u
#define JBD2_INCOMPAT_ASYNC_COMMIT  0x4u
#define JBD2_INCOMPAT_CSUM_V2       0x8u
#define JBD2_INCOMPAT_CSUM_V3       0x10u
#define JBD2_INCOMPAT_FAST_COMMIT   0x20u
#define JBD2_INCOMPAT_SUPPORTED     (JBD2_INCOMPAT_REVOKE | JBD2_INCOMPAT_64BIT | JBD2_INCOMPAT_ASYNC_COMMIT | \
				     JBD2_INCOMPAT_CSUM_V2 | JBD2_INCOMPAT_CSUM_V3 | JBD2_INCOMPAT_FAST_COMMIT)

/* Checksum types. */
#define JBD2_CRC32_CHKSUM   1u
#define JBD2_CRC32C_CHKSUM  4u

/* t_flags */
#define JBD2_FLAG_ESCAPE    0x1u /* the block began with JBD2_MAGIC; those four bytes are zero in the log */
#define JBD2_FLAG_SAME_UUID 0x2u /* no uuid follows the tag */
#define JBD2_FLAG_DELETED   0x4u /* never written any more */
#define JBD2_FLAG_LAST_TAG  0x8u

#define JBD2_MIN_JOURNAL_BLOCKS 1024u
#define JBD2_DEFAULT_FAST_COMMIT_BLOCKS 256u
#define JBD2_USERS_MAX      48u
#define JBD2_SUPERBLOCK_BYTES 1024u
#define JBD2_TAG_UUID_BYTES 16u

/* Begins every block of the log but metadata copies. */
struct journal_header {
	be32 h_magic;       /* 0x0 JBD2_MAGIC */
	be32 h_blocktype;   /* 0x4 JBD2_*_BLOCK */
	be32 h_sequence;    /* 0x8 transaction id */
};
static_assert(sizeof(struct journal_header) == 12, "FORMAT.md: 12 bytes");

struct journal_superblock {             /* FORMAT.md "Journal superblock" */
	struct journal_header s_header; /* 0x0 */
	be32    s_blocksize;            /* 0xC */
	be32    s_maxlen;               /* 0x10 blocks in the journal */
	be32    s_first;                /* 0x14 first block of the log proper */
	be32    s_sequence;             /* 0x18 first transaction expected in the log */
	be32    s_start;                /* 0x1C where the log begins; 0: it is empty */
	be32    s_errno;                /* 0x20 why the journal aborted, a negative errno */
	/* version 2 */
	be32    s_feature_compat;       /* 0x24 */
	be32    s_feature_incompat;     /* 0x28 */
	be32    s_feature_ro_compat;    /* 0x2C */
	uint8_t s_uuid[16];             /* 0x30 */
	be32    s_nr_users;             /* 0x40 */
	be32    s_dynsuper;             /* 0x44 unused */
	be32    s_max_transaction;      /* 0x48 unused */
	be32    s_max_trans_data;       /* 0x4C unused */
	uint8_t s_checksum_type;        /* 0x50 */
	uint8_t s_padding2[3];          /* 0x51 */
	be32    s_num_fc_blks;          /* 0x54 */
	be32    s_head;                 /* 0x58 where the log ends; only of a cleanly closed one; 0: not known */
	be32    s_padding[40];          /* 0x5C */
	be32    s_checksum;             /* 0xFC crc32c of the 1,024 bytes with this field zero */
	uint8_t s_users[16 * JBD2_USERS_MAX]; /* 0x100 uuids of the file systems on an external journal */
};
static_assert(sizeof(struct journal_superblock) == JBD2_SUPERBLOCK_BYTES, "FORMAT.md: 1,024 bytes");
static_assert(offsetof(struct journal_superblock, s_start) == 0x1C, "FORMAT.md: s_start at 0x1C");
static_assert(offsetof(struct journal_superblock, s_uuid) == 0x30, "FORMAT.md: s_uuid at 0x30");
static_assert(offsetof(struct journal_superblock, s_checksum_type) == 0x50, "FORMAT.md: s_checksum_type at 0x50");
static_assert(offsetof(struct journal_superblock, s_num_fc_blks) == 0x54, "FORMAT.md: s_num_fc_blks at 0x54");
static_assert(offsetof(struct journal_superblock, s_checksum) == 0xFC, "FORMAT.md: s_checksum at 0xFC");
static_assert(offsetof(struct journal_superblock, s_users) == 0x100, "FORMAT.md: s_users at 0x100");

/* One block of a transaction in a descriptor block, up to checksum v2. Without 64BIT the last field is absent. */
struct journal_block_tag {
	be32 t_blocknr;      /* 0x0 */
	be16 t_checksum;     /* 0x4 low half of the crc32c, with CSUM_V2 */
	be16 t_flags;        /* 0x6 JBD2_FLAG_* */
	be32 t_blocknr_high; /* 0x8 */
};
static_assert(sizeof(struct journal_block_tag) == 12, "FORMAT.md: 12 bytes");

#define JBD2_TAG_BYTES_32 8u
#define JBD2_TAG_BYTES_64 12u
/* With CSUM_V2 the kernel's tags carry two unused bytes at their end. */
#define JBD2_TAG_CSUM_V2_PAD 2u

/* With CSUM_V3, 64-bit or not. */
struct journal_block_tag3 {
	be32 t_blocknr;      /* 0x0 */
	be32 t_flags;        /* 0x4 */
	be32 t_blocknr_high; /* 0x8 */
	be32 t_checksum;     /* 0xC crc32c of be32 sequence and the block */
};
static_assert(sizeof(struct journal_block_tag3) == 16, "FORMAT.md: 16 bytes");

/* Last four bytes of a descriptor or revoke block, with CSUM_V2 or V3. */
struct journal_block_tail {
	be32 t_checksum;     /* crc32c of the block with this field zero */
};
static_assert(sizeof(struct journal_block_tail) == 4, "FORMAT.md: 4 bytes");

#define JBD2_CHECKSUM_WORDS 8u

struct commit_header {                  /* FORMAT.md "Commit block" */
	struct journal_header h_header; /* 0x0 */
	uint8_t h_chksum_type;          /* 0xC v1 only */
	uint8_t h_chksum_size;          /* 0xD v1 only */
	uint8_t h_padding[2];           /* 0xE */
	be32    h_chksum[JBD2_CHECKSUM_WORDS]; /* 0x10 */
	be64    h_commit_sec;           /* 0x30 */
	be32    h_commit_nsec;          /* 0x38 */
	be32    h_tail_padding;         /* 0x3C the structure's alignment; not part of the format */
};
static_assert(sizeof(struct commit_header) == 64, "FORMAT.md: 60 bytes and padding");
static_assert(offsetof(struct commit_header, h_chksum) == 0x10, "FORMAT.md: h_chksum at 0x10");
static_assert(offsetof(struct commit_header, h_commit_sec) == 0x30, "FORMAT.md: h_commit_sec at 0x30");

struct revoke_header {                  /* FORMAT.md "Revocation block" */
	struct journal_header r_header; /* 0x0 */
	be32                  r_count;  /* 0xC bytes used, header included */
};
static_assert(sizeof(struct revoke_header) == 16, "FORMAT.md: 16 bytes");
static_assert(offsetof(struct revoke_header, r_count) == 0xC, "FORMAT.md: r_count at 0xC");

/* What the feature bits of one journal make of the variable parts of its format. */
struct journal_layout {
	uint32_t block_bytes;
	bool has_csum;           /* v2 or v3: tails and commit checksums are there */
	bool csum_v3;
	bool csum_v2;
	bool csum_v1;            /* compat: crc32 in the commit block */
	bool is_64bit;
	uint32_t tag_bytes;      /* of one tag without uuid */
	uint32_t revoke_bytes;   /* of one revoke record: 4 or 8 */
	uint32_t tail_bytes;     /* 4 with has_csum, else 0 */
	uint32_t csum_seed;      /* crc32c(~0, s_uuid); 0 without has_csum */
};

/* One tag, decoded. */
struct journal_tag {
	fsblk_t blk;
	uint32_t flags;          /* JBD2_FLAG_* */
	uint32_t checksum;       /* as stored: 32 bits with v3, 16 with v2 */
};

void journal_layout_init(struct journal_layout *layout, const struct journal_superblock *sb, uint32_t block_bytes);
/* Bytes from one tag to the next: the uuid included unless @flags say SAME_UUID. */
uint32_t journal_tag_stride(const struct journal_layout *layout, uint32_t flags);
/* At @tag there are layout->tag_bytes. The checksum of @tag is neither read nor checked against any block here. */
struct journal_tag journal_tag_decode(const struct journal_layout *layout, const uint8_t *tag);
void journal_tag_encode(const struct journal_layout *layout, const struct journal_tag *in, uint8_t *tag);
/* Most tags that one descriptor block holds, with one uuid. */
uint32_t journal_tags_per_block(const struct journal_layout *layout);
/* Most records that one revoke block holds. */
uint32_t journal_revokes_per_block(const struct journal_layout *layout);
void journal_header_fill(struct journal_header *h, uint32_t blocktype, tid_t tid);

/*
 * Verifiers: NULL if sound, else the rule that is broken, as text for the log and the check tool. None looks at
 * checksums (see csum.h) or at the sequence number, which tells stale blocks from current ones and is no error.
 */
/* Magic, type, version, geometry against @log_blocks and @block_bytes. Features are looked at separately. */
const char *journal_superblock_verify(const struct journal_superblock *sb, uint32_t log_blocks, uint32_t block_bytes);
/* One past the last block of the log proper: the fast-commit area, if any, lies behind it. */
uint32_t journal_superblock_log_end(const struct journal_superblock *sb);
/* The unknown incompat and ro_compat bits; false if there are any. */
bool journal_features_supported(const struct journal_superblock *sb, uint32_t *incompat_out, uint32_t *ro_compat_out);
/* NULL if @h is a header of this kind of block. */
const char *journal_header_verify(const struct journal_header *h, uint32_t blocktype);
const char *revoke_header_verify(const struct revoke_header *rh, const struct journal_layout *layout);
/* The block's header; *count_out: tags up to the one marked last, or to the block's end, as the kernel counts them. */
const char *descriptor_block_verify(const uint8_t *block, const struct journal_layout *layout, uint32_t *count_out);

#endif
