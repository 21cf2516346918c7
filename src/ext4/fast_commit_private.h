/* SPDX-License-Identifier: MIT */
/* fast_commit_private.h - records, and the state that they lead to */
#ifndef UEXT4_EXT4_FAST_COMMIT_PRIVATE_H
#define UEXT4_EXT4_FAST_COMMIT_PRIVATE_H

#include "ext4/dir.h"
#include "ext4/extent_private.h"
#include "ext4/fast_commit.h"
#include "ext4/fast_commit_format.h"
#include "ext4/fs_private.h"
#include "ext4/inode_private.h"

/* One record of those that change something; the rest only frames them. */
struct fc_record {
	enum fc_tag tag;
	uint32_t pos, len_bytes;     /* of the value in fast_commit.bytes */
};

/* A file's extents or runs of device blocks, sorted, none of length 0. */
struct fc_ranges {
	struct ext_extent *at;
	size_t count, room;
};

struct fc_runs {
	struct fc_run {
		fsblk_t start, end;
	} *at;
	size_t count, room;
};

/* What one name of a directory is to lead to. */
struct fc_name {
	struct fc_name *hash_next, *next;
	struct fc_inode *dir;
	ino_num ino;                 /* 0: to nothing */
	struct name name;            /* in fast_commit.bytes */
};

/*
 * One inode number that the records mention. A number may be used twice: the inode that the log left may be gone, and
 * the records tell of another one, known by its generation.
 */
struct fc_inode {
	struct fc_inode *hash_next;
	ino_num ino;
	struct inode *base;          /* owned: as the log left it; NULL: the number was free */
	struct inode *inode;         /* what it is to be, base or another one (owned); NULL: nothing */
	bool is_base;                /* while records are read: they are about the base inode */
	bool is_alive;               /* an inode is known, though it may have no links */
	bool unlinked;               /* a name went since the last inode record */
	bool is_early;               /* ranges came before the inode record of the inode they belong to */
	bool is_stale;               /* of a directory: names came or went since its last inode record */
	bool was_orphan;             /* the base inode is gone, and may be on the orphan list */
	uint32_t links;
	ino_num parent;              /* of a directory, where it was created; 0: as it was */
	const uint8_t *raw;          /* the last inode record; NULL: none */
	uint32_t raw_bytes;
	struct fc_ranges old, now;   /* mapped before (of base) and in the end */
	struct fc_name *names, **names_end;
};

struct fast_commit {
	struct ext4_fs *fs;
	uint8_t *bytes;              /* blocks of the area, behind each other */
	uint32_t blocks;
	struct fc_record *records;
	size_t record_count, record_room;

	struct fc_inode **inodes;    /* by number once the records are read */
	size_t inode_count, inode_room;
	struct fc_inode **inode_hash;
	struct fc_name **name_hash;
	uint32_t hash_mask;

	struct fc_runs owned;        /* every block that an inode of the records maps in the end */
	struct fc_runs claimed;      /* of those: free before */
	ino_num *orphans;            /* the orphan list as it was */
	size_t orphan_count, orphan_room;
	size_t names_set, names_removed, inodes_gone;
};

/* Grows array *at of *room items of @item_bytes so that one more than @count fits. -ENOMEM. */
int fc_array_grow(void *at, size_t *room, size_t count, size_t item_bytes);

/* ---- fast_commit_ranges.c ---- */
void fc_ranges_exit(struct fc_ranges *r);
/* [start, end) becomes a hole. -ENOMEM. */
int fc_ranges_remove(struct fc_ranges *r, uint64_t start, uint64_t end);
/* @e takes the place of what was there. -ENOMEM. */
int fc_ranges_set(struct fc_ranges *r, const struct ext_extent *e);
/* What covers @lblk: true, the part from there on; false: @out is the hole up to the next. */
bool fc_ranges_find(const struct fc_ranges *r, lblk_t lblk, struct ext_extent *out);
/* What @inode has mapped. */
int fc_ranges_load(struct inode *inode, struct fc_ranges *r);
int fc_runs_add(struct fc_runs *runs, fsblk_t start, uint64_t len); /* at the end; -ENOMEM */
/* Sorts. False: two of them overlap. */
bool fc_runs_sort(struct fc_runs *runs);
/* How many blocks from @blk on, at most @len, are in @runs (*in_out true) or not; > 0. */
uint32_t fc_runs_piece(const struct fc_runs *runs, fsblk_t blk, uint32_t len, bool *in_out);

/*
 * Where two maps differ, piece by piece: from *lblk on the next piece in which each of them has one mapping; a side
 * without has len 0 (and lblk set). False at the end.
 */
bool fc_ranges_next_diff(const struct fc_ranges *old, const struct fc_ranges *now, uint64_t *lblk,
			 struct ext_extent *old_out, struct ext_extent *now_out);

/* ---- fast_commit_model.c ---- */
/* The inode of the model; loads its base the first time. */
int fc_inode_get(struct fast_commit *fc, ino_num ino, struct fc_inode **out);
struct fc_inode *fc_inode_find(const struct fast_commit *fc, ino_num ino);
/* Has it a name, or is open and will get one? */
bool fc_inode_is_live(const struct fc_inode *n);
/* Goes through all records. */
int fc_model_build(struct fast_commit *fc);

/* ---- fast_commit_blocks.c ---- */
/* Which blocks change hands; -EUCLEAN if one would have two owners. */
int fc_blocks_check(struct fast_commit *fc);

/* ---- fast_commit_inode.c ---- */
/* Makes n->inode of a live inode: the fields of its record, and what is the file system's own. */
int fc_inode_fill(struct fast_commit *fc, struct fc_inode *n);
/* Frees the base inode: blocks that nobody else gets, number and all. */
int fc_inode_free_base(struct handle *h, struct fast_commit *fc, struct fc_inode *n);
/* Claims the number if it is a new one, and writes the inode. */
int fc_inode_store(struct handle *h, struct fc_inode *n);
/* Unmaps what is no longer mapped, before anything is mapped anew. */
int fc_inode_unmap(struct handle *h, struct fast_commit *fc, struct fc_inode *n);
int fc_inode_map(struct handle *h, struct fast_commit *fc, struct fc_inode *n);

/* ---- fast_commit_apply.c ---- */
/* 0 if the handle can change @credits more blocks; else -ENOSPC, reported. */
int fc_room(struct handle *h, struct ext4_fs *fs, uint32_t credits);

#endif
