/* SPDX-License-Identifier: MIT */
/* test_file_model.c - random operations on one file against an array of bytes; TEST_SEED and TEST_OPS repeat a run */
#include "file_env.h"

#include <linux/falloc.h>

#define MODEL_BYTES (2u << 20)

struct model {
	struct image_env env;
	struct inode *inode;
	uint8_t *bytes;
	uint64_t size;
	unsigned seed, op;
	bool switches;
};

static uint64_t pick(struct model *m, uint64_t below)
{
	return ((uint64_t)rand_r(&m->seed) << 16 ^ (uint64_t)rand_r(&m->seed)) % below;
}

static void model_write(struct model *m)
{
	uint64_t pos = pick(m, MODEL_BYTES - 1), len = pick(m, min_of(MODEL_BYTES - pos, UINT64_C(60000))) + 1;
	uint8_t *buf = malloc(len);

	assert_non_null(buf);
	pattern_fill(buf, pos, len, m->op);
	assert_int_equal(file_put(m->inode, pos, buf, len, pick(m, 8) ? 0 : FILE_WRITE_DSYNC), len);
	memcpy(m->bytes + pos, buf, len);
	m->size = max_of(m->size, pos + len);
	free(buf);
}

static void model_truncate(struct model *m)
{
	uint64_t size = pick(m, MODEL_BYTES);

	assert_int_equal(file_resize(m->inode, size), 0);
	if (size < m->size)
		memset(m->bytes + size, 0, m->size - size);
	m->size = size;
}

static void model_falloc(struct model *m, int mode)
{
	uint64_t pos = pick(m, MODEL_BYTES - 1), len = pick(m, min_of(MODEL_BYTES - pos, UINT64_C(200000))) + 1;
	uint64_t end = pos + len;

	assert_int_equal(file_fallocate(m->inode, mode, pos, len), 0);
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		m->size = max_of(m->size, end);
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) && pos < m->size)
		memset(m->bytes + pos, 0, min_of(end, m->size) - pos);
}

static void model_collapse(struct model *m)
{
	uint64_t bs = m->env.fs->block_bytes, pos = pick(m, MODEL_BYTES) / bs * bs, len = (pick(m, 20) + 1) * bs;
	int err = file_fallocate(m->inode, FALLOC_FL_COLLAPSE_RANGE, pos, len);

	assert_int_equal(err, pos + len >= m->size ? -EINVAL : 0);
	if (err)
		return;
	memmove(m->bytes + pos, m->bytes + pos + len, m->size - pos - len);
	memset(m->bytes + m->size - len, 0, len);
	m->size -= len;
}

static void model_insert(struct model *m)
{
	uint64_t bs = m->env.fs->block_bytes, pos = pick(m, MODEL_BYTES) / bs * bs, len = (pick(m, 20) + 1) * bs;
	int err;

	if (m->size + len > MODEL_BYTES)
		return;
	err = file_fallocate(m->inode, FALLOC_FL_INSERT_RANGE, pos, len);
	assert_int_equal(err, pos >= m->size ? -EINVAL : 0);
	if (err)
		return;
	memmove(m->bytes + pos + len, m->bytes + pos, m->size - pos);
	memset(m->bytes + pos, 0, len);
	m->size += len;
}

static void model_compare(struct model *m)
{
	uint8_t *got = malloc(MODEL_BYTES);
	uint64_t i;

	assert_non_null(got);
	assert_int_equal(inode_size(m->inode), m->size);
	assert_int_equal(file_get(m->inode, 0, got, MODEL_BYTES), m->size);
	for (i = 0; i < m->size; i++) {
		if (got[i] != m->bytes[i])
			fail_msg("operation %u: byte %llu of %llu is %#x, not %#x", m->op, (unsigned long long)i,
				 (unsigned long long)m->size, got[i], m->bytes[i]);
	}
	free(got);
}

/* Nothing cached, or everything but the inode, or a new mount. */
static void model_forget(struct model *m)
{
	ino_num ino = m->inode->ino;

	switch (pick(m, 8)) {
	case 0:
		image_put(m->inode);
		image_recheck(&m->env);
		m->inode = image_load(&m->env, ino);
		break;
	case 1:
	case 2:
		m->inode = file_reload(&m->env, m->inode);
		break;
	case 3:
		assert_int_equal(file_flush(m->inode), 0);
		mapping_drop_clean(&m->inode->mapping, 0, UINT64_MAX);
		break;
	default:
		assert_int_equal(file_fsync(m->inode, pick(m, 2)), 0);
		assert_int_equal(m->inode->disksize_bytes, m->size);
		break;
	}
}

/* Data goes through the log from here on, or no more. */
static void model_switch(struct model *m)
{
	struct setattr_args args = { .valid = SETATTR_FLAGS, .flags = m->inode->flags ^ EXT4_JOURNAL_DATA_FL };

	rwsem_write_lock(&m->inode->rwsem);
	assert_int_equal(namei_setattr(m->inode, &args), 0);
	rwsem_write_unlock(&m->inode->rwsem);
}

static void model_step(struct model *m)
{
	bool extents = inode_has_extents(m->inode);

	if (m->switches && pick(m, 8) == 0)
		model_switch(m);
	switch (pick(m, extents ? 22 : 16)) {
	case 0:
	case 1:
		model_truncate(m);
		break;
	case 2:
	case 3:
		model_falloc(m, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
		break;
	case 4:
	case 5:
		model_forget(m);
		break;
	case 16:
		model_falloc(m, 0);
		break;
	case 17:
		model_falloc(m, FALLOC_FL_KEEP_SIZE);
		break;
	case 18:
		model_falloc(m, FALLOC_FL_ZERO_RANGE);
		break;
	case 19:
		model_falloc(m, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE);
		break;
	case 20:
		model_collapse(m);
		break;
	case 21:
		model_insert(m);
		break;
	default:
		model_write(m);
		break;
	}
}

#define LOGGED   1u /* data=journal */
#define SWITCHES 2u /* the flag comes and goes */

static void run_model(const char *mke2fs, unsigned seed, unsigned how)
{
	const char *ops = getenv("TEST_OPS"), *env_seed = getenv("TEST_SEED");
	unsigned count = ops ? (unsigned)atoi(ops) : 400;
	struct model m = { .seed = env_seed ? (unsigned)atoi(env_seed) : seed, .switches = how & SWITCHES };

	image_create(&m.env, mke2fs, 16);
	m.env.opt.data = how & LOGGED ? DATA_JOURNAL : DATA_ORDERED;
	image_recheck(&m.env);
	m.inode = image_mkfile(m.env.root, "model");
	m.bytes = calloc(1, MODEL_BYTES);
	assert_non_null(m.bytes);
	for (m.op = 0; m.op < count; m.op++) {
		model_step(&m);
		if (m.op % 8 == 0)
			model_compare(&m);
	}
	model_compare(&m);
	assert_int_equal(file_resize(m.inode, 0), 0);
	assert_int_equal(m.inode->blocks_512, 0);
	image_put(m.inode);
	image_check(&m.env);
	image_destroy(&m.env);
	free(m.bytes);
}

static void ext4_agrees_with_the_model(void **state)
{
	(void)state;
	run_model("-t ext4 -b 1024", 1, 0);
	run_model("-t ext4 -b 4096", 2, 0);
}

static void ext4_without_journal_agrees_with_the_model(void **state)
{
	(void)state;
	run_model("-t ext4 -b 2048 -O ^has_journal", 3, 0);
}

static void ext3_agrees_with_the_model(void **state)
{
	(void)state;
	run_model("-t ext3 -b 1024", 4, 0);
}

static void ext2_agrees_with_the_model(void **state)
{
	(void)state;
	run_model("-t ext2 -b 4096", 5, 0);
}

static void logged_data_agrees_with_the_model(void **state)
{
	(void)state;
	run_model("-t ext4 -b 1024", 6, LOGGED);
	run_model("-t ext4 -b 4096", 7, LOGGED);
	run_model("-t ext3 -b 1024", 8, LOGGED);
}

static void data_logged_now_and_then_agrees_with_the_model(void **state)
{
	(void)state;
	run_model("-t ext4 -b 1024", 9, SWITCHES);
	run_model("-t ext4 -b 4096", 10, SWITCHES);
	run_model("-t ext3 -b 1024", 11, SWITCHES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ext4_agrees_with_the_model),
		cmocka_unit_test(ext4_without_journal_agrees_with_the_model),
		cmocka_unit_test(ext3_agrees_with_the_model),
		cmocka_unit_test(ext2_agrees_with_the_model),
		cmocka_unit_test(logged_data_agrees_with_the_model),
		cmocka_unit_test(data_logged_now_and_then_agrees_with_the_model),
	};

	if (!image_tools_exist())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
