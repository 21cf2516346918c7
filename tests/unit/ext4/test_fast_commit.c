/* SPDX-License-Identifier: MIT */
/* test_fast_commit.c - fast commits written by hand: what they say is there after the mount, and nothing of what is wrong */
#include "base/checksum.h"
#include "block/fault.h"
#include "ext4/balloc.h"
#include "ext4/extent_private.h"
#include "ext4/fast_commit_format.h"
#include "ext4/fs_private.h"
#include "ext4/group.h"
#include "ext4/ialloc.h"
#include "ext4/inode_private.h"
#include "ext4/map.h"
#include "image_env.h"

#define FC_BLOCKS 64u
#define TID 900u
#define FORM "-t ext4 -b 1024 -J size=4 -O fast_commit"

static const char *const forms[] = {
	FORM,
	FORM ",^metadata_csum",
	FORM ",orphan_file -I 512",
	FORM ",^64bit,^flex_bg",
};

/* The area while it is written. */
struct area {
	struct image_env *env;
	uint8_t *journal;         /* log block 0; the journal lies in one piece */
	uint8_t *first;           /* first block of the area */
	uint32_t pos, crc, block_bytes;
};

static uint32_t get_be32(const uint8_t *at) { return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3]; }

static void put_be32(uint8_t *at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(v >> (24 - 8 * i));
}

static struct ext4_super_block *super_of(struct image_env *env)
{
	return (struct ext4_super_block *)(void *)(env->bytes + 1024);
}

static void record(struct area *a, uint32_t tag, const void *value, uint32_t len)
{
	struct fc_tl tl = { le16_make((uint16_t)tag), le16_make((uint16_t)len) };
	uint8_t *at = a->first + a->pos;

	assert_true(a->pos % a->block_bytes + sizeof(tl) + len <= a->block_bytes);
	memcpy(at, &tl, sizeof(tl));
	memcpy(at + sizeof(tl), value, len);
	a->crc = crc32c(a->crc, at, sizeof(tl) + len);
	a->pos += (uint32_t)sizeof(tl) + len;
}

/* Room for @len more, in the next block if need be. */
static void room(struct area *a, uint32_t len)
{
	uint32_t left = a->block_bytes - a->pos % a->block_bytes;
	static const uint8_t zeros[4096];

	if (left < len + 2 * sizeof(struct fc_tl) + 8)
		record(a, FC_PAD, zeros, left - (uint32_t)sizeof(struct fc_tl));
}

/* An unmounted image gets an empty log that is not over, and the head of an area. */
static void area_begin(struct image_env *env, struct area *a)
{
	static const uint8_t magic[] = { 0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 4 };
	struct ext4_super_block *es = super_of(env);
	uint32_t block = 1024u << le32_get(es->s_log_block_size), maxlen;
	struct { le32 features, tid; } head = { le32_make(0), le32_make(TID) };
	uint8_t *j = env->bytes;

	while (memcmp(j, magic, sizeof(magic)))
		j += block;
	maxlen = get_be32(j + 0x10);
	*a = (struct area){ .env = env, .journal = j, .block_bytes = block };
	a->first = j + (uint64_t)(maxlen - FC_BLOCKS + 1) * block;
	put_be32(j + 0x18, TID);
	put_be32(j + 0x1C, get_be32(j + 0x14));
	put_be32(j + 0x28, get_be32(j + 0x28) | 0x20);
	put_be32(j + 0x54, FC_BLOCKS);
	memset(j + 0xFC, 0, 4);
	if (get_be32(j + 0x28) & 0x18)
		put_be32(j + 0xFC, crc32c(~0u, j, 1024));
	memset(j + block, 0, (uint64_t)(maxlen - 1) * block);
	es->s_feature_incompat = le32_make(le32_get(es->s_feature_incompat) | EXT4_FEATURE_INCOMPAT_RECOVER);
	super_csum_set(es);
	record(a, FC_HEAD, &head, sizeof(head));
}

static void tail(struct area *a)
{
	uint8_t *at = a->first + a->pos;
	struct fc_tl tl = { le16_make(FC_TAIL), le16_make((uint16_t)(a->block_bytes - a->pos % a->block_bytes - sizeof(tl))) };
	le32 tid = le32_make(TID), crc;

	memcpy(at, &tl, sizeof(tl));
	memcpy(at + 4, &tid, sizeof(tid));
	crc = le32_make(crc32c(a->crc, at, 8));
	memcpy(at + 8, &crc, sizeof(crc));
	a->pos += (uint32_t)sizeof(tl) + le16_get(tl.fc_len);
	a->crc = 0;
}

static void add_range(struct area *a, ino_num ino, lblk_t lblk, uint32_t raw_len, fsblk_t blk)
{
	struct fc_add_range r = { le32_make(ino), { le32_make(lblk), le16_make((uint16_t)raw_len),
						     le16_make((uint16_t)(blk >> 32)), le32_make((uint32_t)blk) } };

	room(a, sizeof(r));
	record(a, FC_ADD_RANGE, &r, sizeof(r));
}

static void del_range(struct area *a, ino_num ino, lblk_t lblk, uint32_t len)
{
	struct fc_del_range r = { le32_make(ino), le32_make(lblk), le32_make(len) };

	room(a, sizeof(r));
	record(a, FC_DEL_RANGE, &r, sizeof(r));
}

static void dentry(struct area *a, uint32_t tag, ino_num dir, ino_num ino, const char *name)
{
	uint8_t value[8 + 255];
	struct fc_dentry d = { le32_make(dir), le32_make(ino) };
	size_t len = strlen(name);

	memcpy(value, &d, sizeof(d));
	memcpy(value + sizeof(d), name, len);
	room(a, (uint32_t)(sizeof(d) + len));
	record(a, tag, value, (uint32_t)(sizeof(d) + len));
}

/* What a record says of an inode; i_block, as far as ranges tell of it, is rubbish. */
struct look {
	uint16_t mode, links;
	uint64_t size;
	uint32_t generation;
	const char *target;       /* of a fast symlink */
	bool indirect;
};

static void inode_record(struct area *a, ino_num ino, const struct look *look)
{
	uint8_t value[4 + 256] = { 0 };
	struct ext4_inode *raw = (struct ext4_inode *)(void *)(value + 4);
	le32 number = le32_make(ino);

	memcpy(value, &number, sizeof(number));
	raw->i_mode = le16_make(look->mode);
	raw->i_links_count = le16_make(look->links);
	raw->i_size_lo = le32_make((uint32_t)look->size);
	raw->i_generation = le32_make(look->generation);
	raw->i_uid = le16_make(7);
	raw->i_mtime = le32_make(1000000);
	raw->i_blocks_lo = le32_make(12345);
	raw->i_extra_isize = le16_make(32);
	memset(raw->i_block, look->target ? 0 : 0xA5, sizeof(raw->i_block));
	if (look->target)
		memcpy(raw->i_block, look->target, strlen(look->target));
	else if (!look->indirect)
		raw->i_flags = le32_make(EXT4_EXTENTS_FL);
	room(a, sizeof(value));
	record(a, FC_INODE, value, sizeof(value));
}

static void new_inode(struct area *a, ino_num ino, const struct look *look, ino_num dir, const char *name)
{
	inode_record(a, ino, look);
	dentry(a, FC_CREAT, dir, ino, name);
}

/* ---- mounting ---- */

static const struct ext4_vfs_ops no_vfs;

static void count_error(void *arg, int level, const char *text)
{
	*(unsigned *)arg += level <= LOG_ERROR;
	print_message("%s\n", text);
}

/* Mounts and unmounts at once; with @fail_at, the device dies at that write. */
static int try_mount(struct image_env *env, bool read_only, uint64_t fail_at)
{
	const struct fault_rule rule = { .ops = FAULT_OP(BIO_WRITE) | FAULT_OP(BIO_FLUSH), .nth = fail_at, .err = -EIO };
	unsigned errors = 0;
	const struct log_sink log = { .func = fail_at ? NULL : count_error, .arg = &errors };
	struct ext4_options opt = env->opt;
	struct block_device *dev;
	struct ext4_fs *fs;
	int err, end_err;

	opt.read_only = read_only;
	assert_int_equal(block_open_memory(env->size_bytes, env->bytes, &dev), 0);
	if (fail_at) {
		assert_int_equal(block_open_fault(dev, 1, &dev), 0);
		assert_int_equal(fault_add_rule(dev, &rule), 0);
	}
	err = ext4_mount(dev, &opt, &log, "test", &no_vfs, NULL, &fs);
	end_err = err ? 0 : ext4_unmount(fs);
	if (!fail_at)
		assert_int_equal(errors != 0, err != 0);
	return err ? err : end_err;
}

/* Free blocks in a row, of an image that is mounted. */
static fsblk_t find_free(struct ext4_fs *fs, uint32_t count)
{
	struct ext4_group *g = &fs->groups[0];
	struct buffer_head *bh;
	uint32_t run = 0, bit;

	assert_int_equal(group_block_bitmap(fs, g, &bh), 0);
	for (bit = 4000; run < count; bit++)
		run = bh->data[bit / 8] >> bit % 8 & 1 ? 0 : run + 1;
	buffer_put(bh);
	return group_first_block(fs, 0) + bit - count;
}

/* ---- the whole tree of records, used by several tests ---- */

struct scene {
	ino_num dir, gone_dir, gone, kept, next;
	uint32_t kept_generation;
	fsblk_t blk;              /* the first of 100 free ones */
	fsblk_t root_blk;         /* of the root directory */
};

/* dir/, gone_dir/, gone, kept. */
static void scene_prepare(struct image_env *env, const char *form, struct scene *s)
{
	struct inode *inode;
	struct map_result root;

	image_create(env, form, 32);
	assert_int_equal(map_lookup(env->root, 0, 1, &root), 0);
	s->root_blk = root.blk;
	inode = image_mkdir(env->root, "dir");
	s->dir = inode->ino;
	image_put(inode);
	inode = image_mkdir(env->root, "gone_dir");
	s->gone_dir = inode->ino;
	image_put(inode);
	inode = image_mkfile(env->root, "gone");
	s->gone = inode->ino;
	image_put(inode);
	inode = image_mkfile(env->root, "kept");
	s->kept = inode->ino;
	s->kept_generation = inode->generation;
	image_put(inode);
	s->next = s->kept + 1;
	s->blk = find_free(env->fs, 100);
	image_check(env);
}

static void scene_record(struct area *a, const struct scene *s)
{
	const struct look file = { S_IFREG | 0640, 1, 5 * 1024 + 7, 11, NULL, false };
	const struct look dir = { S_IFDIR | 0750, 2, 1024, 12, NULL, false };
	const struct look link = { S_IFLNK | 0777, 1, 6, 13, "target", false };
	const struct look kept = { S_IFREG | 0600, 2, 20 * 1024, s->kept_generation, NULL, false };
	const struct look removed_open = { S_IFREG | 0600, 0, 1024, 14, NULL, false };

	inode_record(a, s->next, &file);
	add_range(a, s->next, 0, 6, s->blk);
	dentry(a, FC_CREAT, s->dir, s->next, "file");
	new_inode(a, s->next + 1, &dir, EXT4_ROOT_INO, "new_dir");
	new_inode(a, s->next + 2, &link, s->next + 1, "link");
	dentry(a, FC_UNLINK, EXT4_ROOT_INO, s->gone, "gone");
	tail(a);
	add_range(a, s->kept, 0, 10, s->blk + 10);
	del_range(a, s->kept, 2, 3);
	add_range(a, s->kept, 15, 32768 + 5, s->blk + 30);
	add_range(a, s->kept, 40, 4, s->blk + 50); /* past the end: a truncate was under way */
	inode_record(a, s->kept, &kept);
	dentry(a, FC_LINK, s->dir, s->kept, "kept_too");
	inode_record(a, s->kept, &kept);
	dentry(a, FC_UNLINK, EXT4_ROOT_INO, s->gone_dir, "gone_dir");
	inode_record(a, s->next + 3, &removed_open);
	add_range(a, s->next + 3, 0, 1, s->blk + 60);
	/* Made and removed between two fast commits. */
	dentry(a, FC_LINK, s->dir, s->next + 4, "never");
	dentry(a, FC_UNLINK, s->dir, s->next + 4, "never");
	tail(a);
}

static void assert_mapped(struct inode *inode, lblk_t lblk, fsblk_t blk, enum es_status status)
{
	struct map_result r;

	assert_int_equal(map_lookup(inode, lblk, 1, &r), 0);
	assert_int_equal(r.status, status);
	assert_int_equal(r.blk, blk);
}

/* The image is mounted. */
static void scene_assert(struct image_env *env, const struct scene *s)
{
	struct inode *dir = image_load(env, s->dir), *file, *link;
	ino_num link_ino;

	assert_int_equal(image_find(env->root, "gone"), 0);
	assert_int_equal(image_find(env->root, "gone_dir"), 0);
	assert_int_equal(env->root->nlink, 5); /* itself, lost+found, dir, new_dir */
	assert_int_equal(image_find(dir, "file"), s->next);
	assert_int_equal(image_find(dir, "kept_too"), s->kept);
	assert_int_equal(image_find(dir, "never"), 0);
	image_put(dir);

	file = image_load(env, s->next);
	assert_int_equal(inode_size(file), 5 * 1024 + 7);
	assert_int_equal(file->uid, 7);
	assert_int_equal(file->mtime.tv_sec, 1000000);
	assert_int_equal(file->blocks_512, 6 * 2);
	assert_mapped(file, 5, s->blk + 5, ES_WRITTEN);
	image_put(file);

	file = image_load(env, s->kept);
	assert_int_equal(file->nlink, 2);
	assert_mapped(file, 1, s->blk + 11, ES_WRITTEN);
	assert_mapped(file, 2, 0, ES_HOLE);
	assert_mapped(file, 5, s->blk + 15, ES_WRITTEN);
	assert_mapped(file, 19, s->blk + 34, ES_UNWRITTEN);
	assert_mapped(file, 40, 0, ES_HOLE);
	image_put(file);

	dir = image_lookup(env, env->root, "new_dir");
	link_ino = image_find(dir, "link");
	image_put(dir);
	link = image_load(env, link_ino);
	assert_true(inode_is_fast_symlink(link));
	assert_memory_equal(link->i_block, "target", 6);
	image_put(link);
	assert_int_equal(ialloc_is_used(env->fs, s->gone), 0);
	assert_int_equal(ialloc_is_used(env->fs, s->next + 3), 0);
}

static void skip_without_tools(void)
{
	if (!image_tools_exist())
		skip();
}

static void every_kind_of_record_is_carried_out(void **state)
{
	skip_without_tools();
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct image_env env;
		struct scene s;
		struct area a;

		print_message("form: %s\n", forms[i]);
		scene_prepare(&env, forms[i], &s);
		area_begin(&env, &a);
		scene_record(&a, &s);
		image_mount(&env);
		scene_assert(&env, &s);
		image_recheck(&env);
		scene_assert(&env, &s);
		image_check(&env);
		image_destroy(&env);
	}
}

/* K2: the device dies at each write in turn; what is there then is mounted and is whole. */
static void crash_at_any_write_is_made_good_by_the_next_mount(void **state)
{
	struct image_env env;
	struct scene s;
	struct area a;
	uint8_t *before;
	int err = -EIO;

	skip_without_tools();
	scene_prepare(&env, FORM, &s);
	area_begin(&env, &a);
	scene_record(&a, &s);
	before = image_copy(&env);
	for (uint64_t n = 1; err; n++) {
		assert_true(n < 500);
		memcpy(env.bytes, before, env.size_bytes);
		err = try_mount(&env, false, n);
		image_mount(&env);
		scene_assert(&env, &s);
		image_check(&env);
	}
	image_memory_free(before);
	image_destroy(&env);
}

static void read_only_mount_shows_the_same_and_writes_nothing(void **state)
{
	struct image_env env;
	struct scene s;
	struct area a;
	uint8_t *before;

	skip_without_tools();
	scene_prepare(&env, FORM, &s);
	area_begin(&env, &a);
	scene_record(&a, &s);
	before = image_copy(&env);
	env.opt.read_only = true;
	image_mount(&env);
	scene_assert(&env, &s);
	image_unmount(&env);
	assert_memory_equal(before, env.bytes, env.size_bytes);
	image_memory_free(before);
	image_destroy(&env);
}

/* Blocks and number of a removed file may serve another at once, where data is not ordered. */
static void blocks_and_numbers_change_hands(void **state)
{
	const struct look first = { S_IFREG | 0644, 1, 8 * 1024, 21, NULL, false };
	const struct look second = { S_IFREG | 0644, 1, 4 * 1024, 22, NULL, false };
	const struct look third = { S_IFDIR | 0755, 2, 1024, 23, NULL, false };
	struct image_env env;
	struct inode *inode;
	struct scene s;
	struct area a;

	skip_without_tools();
	scene_prepare(&env, FORM, &s);
	area_begin(&env, &a);
	inode_record(&a, s.next, &first);
	add_range(&a, s.next, 0, 8, s.blk);
	dentry(&a, FC_CREAT, EXT4_ROOT_INO, s.next, "first");
	tail(&a);
	image_mount(&env);
	image_check(&env);

	area_begin(&env, &a);
	dentry(&a, FC_UNLINK, EXT4_ROOT_INO, s.next, "first");
	inode_record(&a, s.next, &second);
	add_range(&a, s.next, 0, 4, s.blk + 2);
	dentry(&a, FC_CREAT, s.dir, s.next, "second");
	dentry(&a, FC_UNLINK, EXT4_ROOT_INO, s.gone, "gone");
	new_inode(&a, s.gone, &third, s.dir, "third");
	tail(&a);
	image_mount(&env);
	inode = image_load(&env, s.next);
	assert_int_equal(inode->generation, 22);
	assert_int_equal(inode->blocks_512, 8);
	assert_mapped(inode, 3, s.blk + 5, ES_WRITTEN);
	assert_mapped(inode, 4, 0, ES_HOLE);
	image_put(inode);
	inode = image_load(&env, s.gone);
	assert_true(inode_is_dir(inode));
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

/* A tree of several levels is built of blocks of ours, around those that the records name. */
static void many_extents_are_counted_with_their_tree(void **state)
{
	struct look file = { S_IFREG | 0644, 1, 400 * 1024, 31, NULL, false };
	struct image_env env;
	struct inode *inode;
	struct scene s;
	struct area a;

	skip_without_tools();
	scene_prepare(&env, FORM, &s);
	image_mount(&env);
	s.blk = find_free(env.fs, 900);
	image_check(&env);
	area_begin(&env, &a);
	inode_record(&a, s.next, &file);
	for (uint32_t i = 0; i < 400; i++)
		add_range(&a, s.next, i, 1, s.blk + 2 * i);
	dentry(&a, FC_CREAT, EXT4_ROOT_INO, s.next, "fragments");
	tail(&a);
	image_mount(&env);
	inode = image_load(&env, s.next);
	assert_true(inode->blocks_512 > 400 * 2 + 4 * 2);
	assert_mapped(inode, 399, s.blk + 798, ES_WRITTEN);
	image_put(inode);
	image_check(&env);

	area_begin(&env, &a);
	file.size = 0;
	del_range(&a, s.next, 0, UINT32_MAX);
	inode_record(&a, s.next, &file);
	tail(&a);
	image_mount(&env);
	inode = image_load(&env, s.next);
	assert_int_equal(inode->blocks_512, 0);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

static void file_without_extents_gets_its_map(void **state)
{
	const struct look file = { S_IFREG | 0644, 1, 20 * 1024, 41, NULL, true };
	struct image_env env;
	struct inode *inode;
	struct scene s;
	struct area a;

	skip_without_tools();
	scene_prepare(&env, FORM, &s);
	area_begin(&env, &a);
	inode_record(&a, s.next, &file);
	add_range(&a, s.next, 2, 18, s.blk);
	dentry(&a, FC_CREAT, EXT4_ROOT_INO, s.next, "mapped");
	del_range(&a, s.next, 5, 1);
	tail(&a);
	image_mount(&env);
	inode = image_load(&env, s.next);
	assert_false(inode_has_extents(inode));
	assert_int_equal(inode->blocks_512, (17 + 1) * 2);
	assert_mapped(inode, 19, s.blk + 17, ES_WRITTEN);
	assert_mapped(inode, 5, 0, ES_HOLE);
	image_put(inode);
	image_check(&env);
	image_destroy(&env);
}

/* ---- what is wrong ---- */

static void blocks_in_use(struct area *a, const struct scene *s) { add_range(a, s->kept, 0, 1, s->root_blk); }
static void wrong_range_length(struct area *a, const struct scene *s) { record(a, FC_ADD_RANGE, "0123456789", 10); }
static void wrong_hole_length(struct area *a, const struct scene *s) { record(a, FC_DEL_RANGE, "0123456789abcdef", 16); }
static void wrong_inode_length(struct area *a, const struct scene *s) { record(a, FC_INODE, (uint8_t[100]){ 20 }, 100); }
static void wrong_name_length(struct area *a, const struct scene *s) { dentry(a, FC_LINK, 2, s->kept, ""); }
static void slash_in_name(struct area *a, const struct scene *s) { dentry(a, FC_LINK, 2, s->kept, "a/b"); }
static void dots(struct area *a, const struct scene *s) { dentry(a, FC_LINK, s->dir, s->kept, ".."); }
static void inode_zero(struct area *a, const struct scene *s) { del_range(a, 0, 0, 1); }
static void inode_too_high(struct area *a, const struct scene *s) { add_range(a, 10000000, 0, 1, s->blk); }
static void journal_inode(struct area *a, const struct scene *s) { del_range(a, EXT4_JOURNAL_INO, 0, 100); }
static void parent_too_high(struct area *a, const struct scene *s) { dentry(a, FC_LINK, 10000000, s->kept, "name"); }
static void blocks_past_the_end(struct area *a, const struct scene *s) { add_range(a, s->kept, 0, 10, 32 * 1024 - 5); }
static void blocks_of_nothing(struct area *a, const struct scene *s) { add_range(a, s->kept, 0, 0, s->blk); }
static void block_zero(struct area *a, const struct scene *s) { add_range(a, s->kept, 0, 1, 0); }
static void blocks_of_metadata(struct area *a, const struct scene *s) { add_range(a, s->kept, 0, 1, 3); }
static void file_block_too_high(struct area *a, const struct scene *s) { add_range(a, s->kept, UINT32_MAX - 1, 4, s->blk); }
static void unknown_type(struct area *a, const struct scene *s) { record(a, 77, "new", 3); }
static void blocks_of_a_directory(struct area *a, const struct scene *s) { add_range(a, s->dir, 1, 1, s->blk); }
static void name_in_a_file(struct area *a, const struct scene *s) { dentry(a, FC_LINK, s->kept, s->gone, "name"); }

static void blocks_of_two(struct area *a, const struct scene *s)
{
	add_range(a, s->kept, 0, 4, s->blk);
	add_range(a, s->gone, 0, 4, s->blk + 3);
}

static void unknown_xattr_block(struct area *a, const struct scene *s)
{
	uint8_t value[4 + 256] = { 0 };
	struct ext4_inode *raw = (struct ext4_inode *)(void *)(value + 4);
	le32 number = le32_make(s->next);

	memcpy(value, &number, sizeof(number));
	raw->i_mode = le16_make(S_IFREG | 0644);
	raw->i_links_count = le16_make(1);
	raw->i_file_acl_lo = le32_make((uint32_t)s->blk);
	record(a, FC_INODE, value, sizeof(value));
}

static void unwritten_without_extents(struct area *a, const struct scene *s)
{
	const struct look look = { S_IFREG | 0600, 1, 0, 5, NULL, true };

	inode_record(a, s->next, &look);
	add_range(a, s->next, 0, 32768 + 5, s->blk);
}

static void wrong_type(struct area *a, const struct scene *s)
{
	const struct look look = { 0170000, 1, 0, 5, NULL, false };

	inode_record(a, s->next, &look);
}

static const struct {
	const char *what;
	void (*put)(struct area *a, const struct scene *s);
	int err;
} wrongs[] = {
	{ "range of a wrong length", wrong_range_length, -EUCLEAN },
	{ "hole of a wrong length", wrong_hole_length, -EUCLEAN },
	{ "inode of a wrong length", wrong_inode_length, -EUCLEAN },
	{ "no name", wrong_name_length, -EUCLEAN },
	{ "slash in a name", slash_in_name, -EUCLEAN },
	{ "name ..", dots, -EUCLEAN },
	{ "inode 0", inode_zero, -EUCLEAN },
	{ "inode too high", inode_too_high, -EUCLEAN },
	{ "journal's inode", journal_inode, -EUCLEAN },
	{ "parent too high", parent_too_high, -EUCLEAN },
	{ "blocks past the end", blocks_past_the_end, -EUCLEAN },
	{ "no blocks", blocks_of_nothing, -EUCLEAN },
	{ "block 0", block_zero, -EUCLEAN },
	{ "blocks of metadata", blocks_of_metadata, -EUCLEAN },
	{ "file block too high", file_block_too_high, -EUCLEAN },
	{ "unknown type", unknown_type, -EOPNOTSUPP },
	{ "blocks of a directory", blocks_of_a_directory, -EUCLEAN },
	{ "name in a file", name_in_a_file, -EUCLEAN },
	{ "blocks of two files", blocks_of_two, -EUCLEAN },
	{ "blocks in use", blocks_in_use, -EUCLEAN },
	{ "unknown xattr block", unknown_xattr_block, -EUCLEAN },
	{ "inode of no type", wrong_type, -EUCLEAN },
	{ "unwritten blocks without extents", unwritten_without_extents, -EUCLEAN },
};

/* A sound record goes before the wrong one: nothing of that is written either. */
static void wrong_records_are_refused_and_nothing_is_written(void **state)
{
	const struct look file = { S_IFREG | 0640, 1, 0, 11, NULL, false };
	struct image_env env;
	struct scene s;
	uint8_t *clean, *before;

	skip_without_tools();
	scene_prepare(&env, FORM, &s);
	clean = image_copy(&env);
	for (size_t i = 0; i < ARRAY_SIZE(wrongs); i++) {
		struct area a;

		print_message("wrong: %s\n", wrongs[i].what);
		memcpy(env.bytes, clean, env.size_bytes);
		area_begin(&env, &a);
		new_inode(&a, s.next + 5, &file, s.dir, "sound");
		wrongs[i].put(&a, &s);
		tail(&a);
		before = image_copy(&env);
		assert_int_equal(try_mount(&env, false, 0), wrongs[i].err);
		assert_memory_equal(before, env.bytes, env.size_bytes);
		assert_int_equal(try_mount(&env, true, 0), wrongs[i].err);
		assert_memory_equal(before, env.bytes, env.size_bytes);
		image_memory_free(before);
	}
	image_memory_free(clean);
	env.fs = NULL;
	image_destroy(&env);
}

static void bigalloc_is_refused(void **state)
{
	const struct look file = { S_IFREG | 0640, 1, 0, 11, NULL, false };
	struct image_env env;
	struct area a;

	skip_without_tools();
	image_create(&env, "-t ext4 -b 1024 -J size=4 -O fast_commit,bigalloc -C 4096", 64);
	image_unmount(&env);
	area_begin(&env, &a);
	new_inode(&a, 12, &file, EXT4_ROOT_INO, "file");
	tail(&a);
	assert_int_equal(try_mount(&env, true, 0), -EOPNOTSUPP);
	image_destroy(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_record_is_carried_out),
		cmocka_unit_test(crash_at_any_write_is_made_good_by_the_next_mount),
		cmocka_unit_test(read_only_mount_shows_the_same_and_writes_nothing),
		cmocka_unit_test(blocks_and_numbers_change_hands),
		cmocka_unit_test(many_extents_are_counted_with_their_tree),
		cmocka_unit_test(file_without_extents_gets_its_map),
		cmocka_unit_test(wrong_records_are_refused_and_nothing_is_written),
		cmocka_unit_test(bigalloc_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
