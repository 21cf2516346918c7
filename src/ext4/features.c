/* SPDX-License-Identifier: MIT */
/* features.c - the table of feature names and what of them is supported */
#include "ext4/features.h"

#include <stdio.h>
#include <string.h>

#include "ext4/fs.h"

struct feature_name {
	enum feature_set set;
	uint32_t bit;
	const char *name;
};

/* The names are those of tune2fs -O and dumpe2fs, so that users find them in their manuals. */
static const struct feature_name feature_names[] = {
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_DIR_PREALLOC, "dir_prealloc" },
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_IMAGIC_INODES, "imagic_inodes" },
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_HAS_JOURNAL, "has_journal" },
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_EXT_ATTR, "ext_attr" },
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_RESIZE_INODE, "resize_inode" },
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_DIR_INDEX, "dir_index" },
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_SPARSE_SUPER2, "sparse_super2" },
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_FAST_COMMIT, "fast_commit" },
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_STABLE_INODES, "stable_inodes" },
	{ FEATURE_COMPAT, EXT4_FEATURE_COMPAT_ORPHAN_FILE, "orphan_file" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_COMPRESSION, "compression" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_FILETYPE, "filetype" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_RECOVER, "needs_recovery" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_JOURNAL_DEV, "journal_dev" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_META_BG, "meta_bg" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_EXTENTS, "extent" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_64BIT, "64bit" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_MMP, "mmp" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_FLEX_BG, "flex_bg" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_EA_INODE, "ea_inode" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_DIRDATA, "dirdata" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_CSUM_SEED, "metadata_csum_seed" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_LARGEDIR, "large_dir" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_INLINE_DATA, "inline_data" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_ENCRYPT, "encrypt" },
	{ FEATURE_INCOMPAT, EXT4_FEATURE_INCOMPAT_CASEFOLD, "casefold" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_SPARSE_SUPER, "sparse_super" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_LARGE_FILE, "large_file" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_HUGE_FILE, "huge_file" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_GDT_CSUM, "uninit_bg" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_DIR_NLINK, "dir_nlink" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_EXTRA_ISIZE, "extra_isize" },
	{ FEATURE_RO_COMPAT, 0x0080u, "snapshot" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_QUOTA, "quota" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_BIGALLOC, "bigalloc" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_METADATA_CSUM, "metadata_csum" },
	{ FEATURE_RO_COMPAT, 0x0800u, "replica" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_READONLY, "read-only" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_PROJECT, "project" },
	{ FEATURE_RO_COMPAT, 0x4000u, "shared_blocks" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_VERITY, "verity" },
	{ FEATURE_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT, "orphan_present" },
};

#define SUPPORTED_INCOMPAT                                                                                \
	(EXT4_FEATURE_INCOMPAT_FILETYPE | EXT4_FEATURE_INCOMPAT_RECOVER | EXT4_FEATURE_INCOMPAT_META_BG |  \
	 EXT4_FEATURE_INCOMPAT_EXTENTS | EXT4_FEATURE_INCOMPAT_64BIT | EXT4_FEATURE_INCOMPAT_MMP |         \
	 EXT4_FEATURE_INCOMPAT_FLEX_BG | EXT4_FEATURE_INCOMPAT_CSUM_SEED | EXT4_FEATURE_INCOMPAT_LARGEDIR)

#define SUPPORTED_RO_COMPAT                                                                               \
	(EXT4_FEATURE_RO_COMPAT_SPARSE_SUPER | EXT4_FEATURE_RO_COMPAT_LARGE_FILE |                         \
	 EXT4_FEATURE_RO_COMPAT_HUGE_FILE | EXT4_FEATURE_RO_COMPAT_GDT_CSUM |                              \
	 EXT4_FEATURE_RO_COMPAT_DIR_NLINK | EXT4_FEATURE_RO_COMPAT_EXTRA_ISIZE |                           \
	 EXT4_FEATURE_RO_COMPAT_METADATA_CSUM | EXT4_FEATURE_RO_COMPAT_PROJECT |                           \
	 EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT)

uint32_t features_unsupported(enum feature_set set, uint32_t mask)
{
	switch (set) {
	case FEATURE_INCOMPAT:
		return mask & ~SUPPORTED_INCOMPAT;
	case FEATURE_RO_COMPAT:
		return mask & ~SUPPORTED_RO_COMPAT;
	default:
		return 0;
	}
}

static const char *feature_name(enum feature_set set, uint32_t bit)
{
	for (size_t i = 0; i < ARRAY_SIZE(feature_names); i++)
		if (feature_names[i].set == set && feature_names[i].bit == bit)
			return feature_names[i].name;
	return NULL;
}

void features_to_text(enum feature_set set, uint32_t mask, char *text, size_t text_bytes)
{
	static const char letters[] = { 'C', 'I', 'R' };
	size_t used = 0;

	text[0] = '\0';
	for (unsigned n = 0; n < 32 && used < text_bytes; n++) {
		const char *name, *comma = used ? "," : "";

		if (!(mask & (1u << n)))
			continue;
		name = feature_name(set, 1u << n);
		used += (size_t)(name ? snprintf(text + used, text_bytes - used, "%s%s", comma, name)
				      : snprintf(text + used, text_bytes - used, "%sFEATURE_%c%u", comma,
						 letters[set], n));
	}
}
