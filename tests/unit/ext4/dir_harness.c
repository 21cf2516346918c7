/* SPDX-License-Identifier: MIT */
/* dir_harness.c - see dir_harness.h; stands in for map.h, jbd2.h and buffer.h */
#include "dir_harness.h"

#include "base/checksum.h"
#include "ext4/map.h"

static struct env *the_env; /* of the running test; the stand-ins below have no other way to it */

/* ---- stand-ins ---- */

int fs_inode_error(const struct inode *inode, const char *func, int err, fsblk_t blk, const char *fmt, ...)
{
	the_env->errors++;
	return err;
}

uint32_t inode_csum_seed(const struct inode *inode)
{
	const le32 who[2] = { le32_make(inode->ino), le32_make(inode->generation) };

	return crc32c(inode->fs->csum_seed, who, sizeof(who));
}

int inode_block_read(struct inode *inode, lblk_t lblk, struct buffer_head **bh_out)
{
	*bh_out = lblk < the_env->count ? &the_env->blocks[lblk] : NULL;
	return 0;
}

int inode_block_create(struct handle *h, struct inode *inode, lblk_t lblk, struct buffer_head **bh_out)
{
	struct env *env = the_env;

	assert_int_equal(lblk, env->count);
	if (!env->blocks_left)
		return -ENOSPC;
	env->blocks_left--;
	assert_true(env->count < env->room); /* blocks do not move: tests hold positions */
	env->blocks[env->count] = (struct buffer_head){ .blk = 1000 + lblk, .state = BH_UPTODATE };
	env->blocks[env->count].data = aligned_alloc(env->fs.block_bytes, env->fs.block_bytes);
	memset(env->blocks[env->count].data, 0xa5, env->fs.block_bytes); /* "contents not zeroed for you" */
	*bh_out = &env->blocks[env->count++];
	return 0;
}

int map_lookup(struct inode *inode, lblk_t lblk, uint32_t max_len, struct map_result *out)
{
	*out = (struct map_result){ .len = 1, .status = lblk < the_env->count ? ES_WRITTEN : ES_HOLE, .blk = 1000 + lblk };
	return 0;
}

uint32_t map_credits(const struct inode *inode, uint32_t len)
{
	return 5;
}

void buffer_put(struct buffer_head *bh) { }
void buffer_readahead(struct buffer_cache *bc, fsblk_t blk, uint32_t count) { }
struct buffer_head *buffer_find(struct buffer_cache *bc, fsblk_t blk) { return &the_env->blocks[blk - 1000]; }

int journal_get_write_access(struct handle *h, struct buffer_head *bh)
{
	the_env->accesses++;
	return 0;
}

int journal_dirty_metadata(struct handle *h, struct buffer_head *bh)
{
	return 0;
}

int journal_extend(struct handle *h, uint32_t credits, uint32_t revokes)
{
	return 0;
}

/* ---- the environment ---- */

struct env *env_create(const struct env_options *opt)
{
	struct env *env = calloc(1, sizeof(*env));
	struct ext4_fs *fs = &env->fs;

	the_env = env;
	fs->block_bytes = opt->block_bytes;
	fs->block_bits = (uint8_t)__builtin_ctz(opt->block_bytes);
	fs->inodes_count = 10000000;
	fs->has_metadata_csum = opt->csum;
	fs->csum_seed = 0x12345678;
	fs->def_hash_version = opt->hash_version;
	fs->compat = opt->dir_index ? EXT4_FEATURE_COMPAT_DIR_INDEX : 0;
	fs->incompat = (opt->no_filetype ? 0 : EXT4_FEATURE_INCOMPAT_FILETYPE) |
		       (opt->largedir ? EXT4_FEATURE_INCOMPAT_LARGEDIR : 0);
	env->dir.fs = fs;
	env->dir.ino = 12;
	env->dir.generation = 99;
	env->dir.nlink = 2;
	env->dir.mode = S_IFDIR | 0755;
	rwsem_init(&env->dir.map_sem, RANK_MAP);
	env->room = 65536;
	env->blocks = calloc(env->room, sizeof(*env->blocks));
	env->blocks_left = env->room;
	env->random = 0x9e3779b97f4a7c15u;
	env->h.credits = 1000;
	assert_int_equal(dir_init(&env->h, &env->dir, EXT4_ROOT_INO), 0);
	return env;
}

void env_destroy(struct env *env)
{
	for (uint32_t i = 0; i < env->count; i++)
		free(env->blocks[i].data);
	free(env->blocks);
	rwsem_exit(&env->dir.map_sem);
	free(env);
}

uint32_t env_random(struct env *env, uint32_t below)
{
	env->random ^= env->random << 13;
	env->random ^= env->random >> 7;
	env->random ^= env->random << 17;
	return (uint32_t)((env->random >> 20) % below);
}

void env_forget_verified(struct env *env)
{
	for (uint32_t i = 0; i < env->count; i++)
		buffer_clear(&env->blocks[i], BH_VERIFIED);
}

static struct name name_of(const char *text)
{
	return (struct name){ text, (uint8_t)strlen(text) };
}

int env_add(struct env *env, const char *text, ino_num ino)
{
	struct name name = name_of(text);

	return dir_add(&env->h, &env->dir, &name, ino, S_IFREG);
}

int env_remove(struct env *env, const char *text, ino_num ino)
{
	struct name name = name_of(text);

	return dir_remove(&env->h, &env->dir, &name, ino);
}

ino_num env_lookup(struct env *env, const char *text)
{
	struct name name = name_of(text);
	ino_num ino = 0;
	uint8_t type;
	int err = dir_lookup(&env->dir, &name, &ino, &type);

	assert_true(err == 0 || err == -ENOENT);
	return err ? 0 : ino;
}

/* ---- the checker: it knows the format, and shares no walk with the code under test ---- */

struct check {
	struct env *env;
	uint8_t version;
	uint32_t names;
	uint8_t *seen; /* by block */
};

static uint32_t check_leaf(struct check *c, lblk_t lblk, uint64_t low, uint64_t high)
{
	struct env *env = c->env;
	uint32_t end = env->fs.block_bytes - (env->fs.has_metadata_csum ? 12 : 0), off = 0, names = 0;
	const uint8_t *data = env->blocks[lblk].data;

	assert_true(lblk < env->count);
	assert_false(c->seen[lblk]);
	c->seen[lblk] = 1;
	while (off < end) {
		const struct ext4_dir_entry *de = dir_entry_at(data, off);
		uint32_t rec_len = dir_rec_len_get(de, env->fs.block_bytes), hash, minor;

		assert_true(rec_len >= 12 && rec_len % 4 == 0 && off + rec_len <= end);
		if (de->inode.raw) {
			assert_true(de->name_len > 0 && dir_rec_bytes(de->name_len) <= rec_len);
			names++;
			if (c->version != 255) {
				assert_int_equal(dir_hash(&env->fs, c->version, de->name, de->name_len, &hash, &minor), 0);
				assert_true(hash >= low && hash <= high);
			}
		}
		off += rec_len;
	}
	assert_int_equal(off, end);
	return names;
}

/* The names below one index block whose hashes are in [low, high]; @levels nodes between it and the leaves. */
static uint32_t check_index(struct check *c, lblk_t lblk, uint32_t levels, uint64_t low, uint64_t high)
{
	struct env *env = c->env;
	const uint8_t *data = env->blocks[lblk].data;
	uint32_t first = lblk ? 8 : 32, room = env->fs.block_bytes - first - (env->fs.has_metadata_csum ? 8 : 0), names = 0;
	const struct dx_entry *entries = (const struct dx_entry *)(const void *)(data + first);
	uint16_t limit, count;

	memcpy(&limit, &entries[0].hash, 2);
	memcpy(&count, (const uint8_t *)&entries[0].hash + 2, 2);
	assert_int_equal(limit, room / 8);
	assert_true(count >= 1 && count <= limit);
	c->seen[lblk] = 1;
	if (lblk)
		assert_int_equal(dir_rec_len_get(dir_entry_at(data, 0), env->fs.block_bytes), env->fs.block_bytes);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t from = i ? le32_get(entries[i].hash) & ~1u : low;
		uint64_t to = i + 1 < count ? le32_get(entries[i + 1].hash) : high;

		/* The range ends before the next one's hash, or with it if that one continues it. */
		if (i + 1 < count)
			to = to & 1 ? to & ~1ull : to - 1;
		assert_true(from >= low && from <= to + 1);
		if (levels)
			names += check_index(c, le32_get(entries[i].block), levels - 1, from, to);
		else
			names += check_leaf(c, le32_get(entries[i].block), from, to);
	}
	return names;
}

uint32_t env_check(struct env *env)
{
	struct check c = { .env = env, .version = 255, .seen = calloc(env->count, 1) };
	const uint8_t *root = env->blocks[0].data;
	uint32_t names = 0;

	assert_int_equal(inode_size(&env->dir), (uint64_t)env->count * env->fs.block_bytes);
	assert_int_equal(env->dir.disksize_bytes, inode_size(&env->dir));
	assert_int_equal(dir_entry_at(root, 0)->name[0], '.');
	assert_int_equal(le32_get(dir_entry_at(root, 12)->inode), EXT4_ROOT_INO);
	if (env->dir.flags & EXT4_INDEX_FL) {
		c.version = dir_hash_version(&env->fs, root[28]);
		assert_int_equal(root[29], 8);
		assert_true(root[30] < (fs_has_incompat(&env->fs, EXT4_FEATURE_INCOMPAT_LARGEDIR) ? 3 : 2));
		names = check_index(&c, 0, root[30], 0, UINT32_MAX);
	} else {
		for (lblk_t lblk = 0; lblk < env->count; lblk++)
			names += check_leaf(&c, lblk, 0, UINT32_MAX);
		names -= 2;
	}
	for (lblk_t lblk = 0; lblk < env->count; lblk++)
		assert_true(c.seen[lblk]);
	free(c.seen);
	return names;
}
