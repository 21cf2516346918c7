/* SPDX-License-Identifier: MIT */
/* super_format.h - the superblock on disk; see docs/FORMAT.md "Superblock" */
#ifndef UEXT4_EXT4_SUPER_FORMAT_H
#define UEXT4_EXT4_SUPER_FORMAT_H

#include "base/types.h"

#define EXT4_SUPER_MAGIC        0xEF53u
#define EXT4_SUPER_OFFSET_BYTES 1024u  /* of the primary copy on the device */
#define EXT4_SUPER_BYTES        1024u

/* s_state */
#define EXT4_STATE_VALID_FS  0x0001u
#define EXT4_STATE_ERROR_FS  0x0002u
#define EXT4_STATE_ORPHAN_FS 0x0004u

/* s_rev_level */
#define EXT4_REV_GOOD_OLD 0u
#define EXT4_REV_DYNAMIC  1u

#define EXT4_GOOD_OLD_INODE_BYTES 128u
#define EXT4_GOOD_OLD_FIRST_INO   11u
#define EXT4_MIN_DESC_BYTES       32u
#define EXT4_MIN_DESC_BYTES_64BIT 64u

/* s_flags */
#define EXT4_FLAGS_SIGNED_HASH   0x0001u
#define EXT4_FLAGS_UNSIGNED_HASH 0x0002u
#define EXT4_FLAGS_TEST_FILESYS  0x0004u

/* s_default_mount_opts */
#define EXT4_DEFM_DEBUG          0x0001u
#define EXT4_DEFM_BSDGROUPS      0x0002u
#define EXT4_DEFM_XATTR_USER     0x0004u
#define EXT4_DEFM_ACL            0x0008u
#define EXT4_DEFM_UID16          0x0010u
#define EXT4_DEFM_JMODE          0x0060u
#define EXT4_DEFM_JMODE_DATA     0x0020u
#define EXT4_DEFM_JMODE_ORDERED  0x0040u
#define EXT4_DEFM_JMODE_WBACK    0x0060u
#define EXT4_DEFM_NOBARRIER      0x0100u
#define EXT4_DEFM_BLOCK_VALIDITY 0x0200u
#define EXT4_DEFM_DISCARD        0x0400u
#define EXT4_DEFM_NODELALLOC     0x0800u

#define EXT4_CHECKSUM_CRC32C 1u  /* s_checksum_type */

/* s_first_error_errcode, s_last_error_errcode: numbers of their own, since errno differs between systems */
#define EXT4_ERRCODE_UNKNOWN    1u
#define EXT4_ERRCODE_EIO        2u
#define EXT4_ERRCODE_ENOMEM     3u
#define EXT4_ERRCODE_EFSBADCRC  4u
#define EXT4_ERRCODE_EFSCORRUPT 5u
#define EXT4_ERRCODE_ENOSPC     6u
#define EXT4_ERRCODE_EROFS      8u

struct ext4_super_block {
	le32 s_inodes_count;            /* 0x000 */
	le32 s_blocks_count_lo;         /* 0x004 */
	le32 s_r_blocks_count_lo;       /* 0x008 reserved for root */
	le32 s_free_blocks_count_lo;    /* 0x00C */
	le32 s_free_inodes_count;       /* 0x010 */
	le32 s_first_data_block;        /* 0x014 1 with 1 KiB blocks, else 0 */
	le32 s_log_block_size;          /* 0x018 block size is 1 KiB << this */
	le32 s_log_cluster_size;        /* 0x01C the same for clusters (bigalloc) */
	le32 s_blocks_per_group;        /* 0x020 */
	le32 s_clusters_per_group;      /* 0x024 */
	le32 s_inodes_per_group;        /* 0x028 */
	le32 s_mtime;                   /* 0x02C last mount */
	le32 s_wtime;                   /* 0x030 last write */
	le16 s_mnt_count;               /* 0x034 */
	le16 s_max_mnt_count;           /* 0x036 */
	le16 s_magic;                   /* 0x038 */
	le16 s_state;                   /* 0x03A EXT4_STATE_* */
	le16 s_errors;                  /* 0x03C 1 continue, 2 read-only, 3 panic */
	le16 s_minor_rev_level;         /* 0x03E */
	le32 s_lastcheck;               /* 0x040 */
	le32 s_checkinterval;           /* 0x044 */
	le32 s_creator_os;              /* 0x048 */
	le32 s_rev_level;               /* 0x04C */
	le16 s_def_resuid;              /* 0x050 */
	le16 s_def_resgid;              /* 0x052 */
	le32 s_first_ino;               /* 0x054 from here on revision 1 */
	le16 s_inode_size;              /* 0x058 */
	le16 s_block_group_nr;          /* 0x05A group of this copy */
	le32 s_feature_compat;          /* 0x05C */
	le32 s_feature_incompat;        /* 0x060 */
	le32 s_feature_ro_compat;       /* 0x064 */
	uint8_t s_uuid[16];             /* 0x068 */
	char s_volume_name[16];         /* 0x078 */
	char s_last_mounted[64];        /* 0x088 */
	le32 s_algorithm_usage_bitmap;  /* 0x0C8 */
	uint8_t s_prealloc_blocks;      /* 0x0CC */
	uint8_t s_prealloc_dir_blocks;  /* 0x0CD */
	le16 s_reserved_gdt_blocks;     /* 0x0CE kept for resize_inode after each descriptor table */
	uint8_t s_journal_uuid[16];     /* 0x0D0 of an external journal */
	le32 s_journal_inum;            /* 0x0E0 */
	le32 s_journal_dev;             /* 0x0E4 */
	le32 s_last_orphan;             /* 0x0E8 head of the orphan list */
	le32 s_hash_seed[4];            /* 0x0EC */
	uint8_t s_def_hash_version;     /* 0x0FC */
	uint8_t s_jnl_backup_type;      /* 0x0FD 1: s_jnl_blocks is valid */
	le16 s_desc_size;               /* 0x0FE descriptor bytes with 64bit */
	le32 s_default_mount_opts;      /* 0x100 EXT4_DEFM_* */
	le32 s_first_meta_bg;           /* 0x104 first descriptor block in the meta_bg layout */
	le32 s_mkfs_time;               /* 0x108 */
	le32 s_jnl_blocks[17];          /* 0x10C copy of the journal inode's i_block and size */
	le32 s_blocks_count_hi;         /* 0x150 from here on 64bit */
	le32 s_r_blocks_count_hi;       /* 0x154 */
	le32 s_free_blocks_count_hi;    /* 0x158 */
	le16 s_min_extra_isize;         /* 0x15C */
	le16 s_want_extra_isize;        /* 0x15E */
	le32 s_flags;                   /* 0x160 EXT4_FLAGS_* */
	le16 s_raid_stride;             /* 0x164 */
	le16 s_mmp_interval;            /* 0x166 seconds between MMP updates */
	le64 s_mmp_block;               /* 0x168 */
	le32 s_raid_stripe_width;       /* 0x170 */
	uint8_t s_log_groups_per_flex;  /* 0x174 */
	uint8_t s_checksum_type;        /* 0x175 */
	uint8_t s_encryption_level;     /* 0x176 */
	uint8_t s_reserved_pad;         /* 0x177 */
	le64 s_kbytes_written;          /* 0x178 */
	le32 s_snapshot_inum;           /* 0x180 */
	le32 s_snapshot_id;             /* 0x184 */
	le64 s_snapshot_r_blocks_count; /* 0x188 */
	le32 s_snapshot_list;           /* 0x190 */
	le32 s_error_count;             /* 0x194 */
	le32 s_first_error_time;        /* 0x198 */
	le32 s_first_error_ino;         /* 0x19C */
	le64 s_first_error_block;       /* 0x1A0 */
	char s_first_error_func[32];    /* 0x1A8 not NUL-terminated when full */
	le32 s_first_error_line;        /* 0x1C8 */
	le32 s_last_error_time;         /* 0x1CC */
	le32 s_last_error_ino;          /* 0x1D0 */
	le32 s_last_error_line;         /* 0x1D4 */
	le64 s_last_error_block;        /* 0x1D8 */
	char s_last_error_func[32];     /* 0x1E0 */
	char s_mount_opts[64];          /* 0x200 */
	le32 s_usr_quota_inum;          /* 0x240 */
	le32 s_grp_quota_inum;          /* 0x244 */
	le32 s_overhead_clusters;       /* 0x248 */
	le32 s_backup_bgs[2];           /* 0x24C groups with copies, sparse_super2 */
	uint8_t s_encrypt_algos[4];     /* 0x254 */
	uint8_t s_encrypt_pw_salt[16];  /* 0x258 */
	le32 s_lpf_ino;                 /* 0x268 */
	le32 s_prj_quota_inum;          /* 0x26C */
	le32 s_checksum_seed;           /* 0x270 with metadata_csum_seed */
	uint8_t s_wtime_hi;             /* 0x274 bits 32..39 of the times above */
	uint8_t s_mtime_hi;             /* 0x275 */
	uint8_t s_mkfs_time_hi;         /* 0x276 */
	uint8_t s_lastcheck_hi;         /* 0x277 */
	uint8_t s_first_error_time_hi;  /* 0x278 */
	uint8_t s_last_error_time_hi;   /* 0x279 */
	uint8_t s_first_error_errcode;  /* 0x27A EXT4_ERRCODE_* */
	uint8_t s_last_error_errcode;   /* 0x27B */
	le16 s_encoding;                /* 0x27C */
	le16 s_encoding_flags;          /* 0x27E */
	le32 s_orphan_file_inum;        /* 0x280 */
	le32 s_reserved[94];            /* 0x284 */
	le32 s_checksum;                /* 0x3FC crc32c, seed ~0, of everything before */
};

static_assert(sizeof(struct ext4_super_block) == EXT4_SUPER_BYTES, "FORMAT.md: 1024 bytes");
static_assert(offsetof(struct ext4_super_block, s_magic) == 0x38, "FORMAT.md: s_magic at 0x38");
static_assert(offsetof(struct ext4_super_block, s_feature_compat) == 0x5C, "FORMAT.md: s_feature_compat at 0x5C");
static_assert(offsetof(struct ext4_super_block, s_journal_inum) == 0xE0, "FORMAT.md: s_journal_inum at 0xE0");
static_assert(offsetof(struct ext4_super_block, s_blocks_count_hi) == 0x150, "FORMAT.md: s_blocks_count_hi at 0x150");
static_assert(offsetof(struct ext4_super_block, s_error_count) == 0x194, "FORMAT.md: s_error_count at 0x194");
static_assert(offsetof(struct ext4_super_block, s_mount_opts) == 0x200, "FORMAT.md: s_mount_opts at 0x200");
static_assert(offsetof(struct ext4_super_block, s_checksum_seed) == 0x270, "FORMAT.md: s_checksum_seed at 0x270");
static_assert(offsetof(struct ext4_super_block, s_orphan_file_inum) == 0x280, "FORMAT.md: s_orphan_file_inum at 0x280");
static_assert(offsetof(struct ext4_super_block, s_checksum) == 0x3FC, "FORMAT.md: s_checksum at 0x3FC");

#endif
