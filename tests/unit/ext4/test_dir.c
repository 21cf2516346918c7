/* SPDX-License-Identifier: MIT */
/* test_dir.c - directories against a model, by themselves; the whole file system is in test_names.c */
#include "dir_harness.h"

#include "../base/rounds.h"

#define NAMES_MAX 60000u

/* Which names are there; the name of @id is a function of it. */
struct model {
	struct env *env;
	uint8_t *present;
	uint32_t ids, count;
	uint32_t name_len; /* 0: mixed */
};

static void name_text(const struct model *m, uint32_t id, char text[256])
{
	uint32_t len = m->name_len ? m->name_len : 6 + (id * 2654435761u >> 8) % 60;

	memset(text, 'n', 256);
	snprintf(text, 32, "%06u", id);
	text[6] = len > 6 ? 'n' : 0;
	text[len] = 0;
}

static void model_init(struct model *m, const struct env_options *opt, uint32_t ids, uint32_t name_len)
{
	m->env = env_create(opt);
	m->present = calloc(ids, 1);
	m->ids = ids;
	m->count = 0;
	m->name_len = name_len;
}

static void model_exit(struct model *m)
{
	env_destroy(m->env);
	free(m->present);
}

static void model_toggle(struct model *m, uint32_t id)
{
	char text[256];

	name_text(m, id, text);
	if (m->present[id]) {
		assert_int_equal(env_remove(m->env, text, id + 100), 0);
		m->count--;
	} else {
		assert_int_equal(env_add(m->env, text, id + 100), 0);
		m->count++;
	}
	m->present[id] ^= 1;
}

static void model_verify_lookups(struct model *m)
{
	char text[256];

	env_forget_verified(m->env);
	for (uint32_t id = 0; id < m->ids; id++) {
		name_text(m, id, text);
		assert_int_equal(env_lookup(m->env, text), m->present[id] ? id + 100 : 0);
	}
	assert_int_equal(env_check(m->env), m->count);
	assert_int_equal(m->env->errors, 0);
}

/* ---- iteration ---- */

struct listing {
	struct model *m;
	uint8_t *times;    /* by id: how often it came */
	uint32_t dots, budget;
	uint64_t cookie;
	bool more;
};

static int list_entry_cb(void *arg, const struct dir_entry_info *e)
{
	struct listing *l = arg;

	if (!l->budget) {
		l->more = true;
		return 1;
	}
	l->budget--;
	assert_true(e->next_cookie > l->cookie);
	assert_true(e->next_cookie <= INT64_MAX);
	l->cookie = e->next_cookie;
	if (e->name[0] == '.') {
		l->dots++;
		assert_int_equal(e->ino, e->name_len == 1 ? l->m->env->dir.ino : EXT4_ROOT_INO);
	} else {
		assert_true(e->ino >= 100 && e->ino - 100 < l->m->ids);
		l->times[e->ino - 100]++;
	}
	return 0;
}

/* Lists in pieces of up to @piece entries; between them @churn names come or go. */
static void list_in_pieces(struct model *m, uint32_t piece, uint32_t churn)
{
	struct listing l = { .m = m, .times = calloc(m->ids, 1) };
	uint8_t *touched = calloc(m->ids, 1);

	do {
		l.budget = 1 + env_random(m->env, piece);
		l.more = false;
		assert_int_equal(dir_iterate(&m->env->dir, l.cookie, list_entry_cb, &l), 0);
		for (uint32_t i = 0; l.more && i < churn; i++) {
			uint32_t id = env_random(m->env, m->ids);

			touched[id] = 1;
			model_toggle(m, id);
		}
	} while (l.more);
	assert_int_equal(l.dots, 2);
	for (uint32_t id = 0; id < m->ids; id++)
		if (!touched[id])
			assert_int_equal(l.times[id], m->present[id]);
	free(l.times);
	free(touched);
}

/* ---- properties ---- */

static const struct env_options kinds[] = {
	{ .block_bytes = 1024, .hash_version = DX_HASH_HALF_MD4, .csum = true, .dir_index = true },
	{ .block_bytes = 1024, .hash_version = DX_HASH_TEA, .csum = false, .dir_index = true, .no_filetype = true },
	{ .block_bytes = 2048, .hash_version = DX_HASH_LEGACY, .csum = true, .dir_index = true, .largedir = true },
	{ .block_bytes = 4096, .hash_version = DX_HASH_HALF_MD4, .csum = true, .dir_index = true },
	{ .block_bytes = 65536, .hash_version = DX_HASH_HALF_MD4, .csum = true, .dir_index = true },
	{ .block_bytes = 65536, .hash_version = DX_HASH_TEA, .csum = false, .dir_index = true },
	{ .block_bytes = 1024, .csum = true },
	{ .block_bytes = 4096, .csum = false },
	{ .block_bytes = 65536, .csum = false },
};

static void names_come_and_go_and_every_rule_holds(void **state)
{
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct model m;
		uint32_t ids = kinds[k].dir_index ? 6000 : 1500;

		model_init(&m, &kinds[k], ids, 0);
		for (uint32_t round = 0; round < 6; round++) {
			for (uint32_t i = 0; i < ids / 2; i++)
				model_toggle(&m, env_random(m.env, ids));
			model_verify_lookups(&m);
		}
		for (uint32_t id = 0; id < ids; id++)
			if (m.present[id])
				model_toggle(&m, id);
		assert_int_equal(dir_is_empty(&m.env->dir), 1);
		model_verify_lookups(&m);
		model_exit(&m);
	}
}

static void what_stays_is_listed_once_whatever_changes(void **state)
{
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct model m;
		uint32_t ids = kinds[k].dir_index ? 4000 : 800;

		model_init(&m, &kinds[k], ids, 0);
		for (uint32_t round = 0; round < 12; round++) {
			for (uint32_t i = 0; i < ids / 4; i++)
				model_toggle(&m, env_random(m.env, ids));
			list_in_pieces(&m, 1u << round, round % 3 * 3);
		}
		assert_int_equal(m.env->errors, 0);
		model_exit(&m);
	}
}

/* The conversion to an index happens between two pieces, at every place of the listing. */
static void a_listing_survives_the_first_index(void **state)
{
	for (uint32_t before = 1; before < 40; before++) {
		struct model m;
		struct listing l = { .m = &m };

		model_init(&m, &kinds[0], 200, 24);
		for (uint32_t id = 0; id < 20; id++)
			model_toggle(&m, id);
		l.times = calloc(m.ids, 1);
		l.budget = before;
		assert_int_equal(dir_iterate(&m.env->dir, 0, list_entry_cb, &l), 0);
		for (uint32_t id = 20; id < 120; id++)
			model_toggle(&m, id);
		assert_true(m.env->dir.flags & EXT4_INDEX_FL);
		l.budget = 1000;
		assert_int_equal(dir_iterate(&m.env->dir, l.cookie, list_entry_cb, &l), 0);
		for (uint32_t id = 0; id < 20; id++)
			assert_int_equal(l.times[id], 1);
		free(l.times);
		model_exit(&m);
	}
}

static void long_names_make_three_levels_with_largedir(void **state)
{
	const struct env_options opt = { .block_bytes = 1024, .hash_version = DX_HASH_HALF_MD4, .csum = true,
					 .dir_index = true, .largedir = true };
	struct model m;
	uint32_t id = 0;

	model_init(&m, &opt, NAMES_MAX, 250);
	while (m.env->blocks[0].data[30] < 2 || !(m.env->dir.flags & EXT4_INDEX_FL)) {
		assert_true(id < NAMES_MAX);
		model_toggle(&m, id++);
	}
	for (uint32_t more = 0; more < 500; more++)
		model_toggle(&m, id++);
	m.ids = id;
	model_verify_lookups(&m);
	list_in_pieces(&m, 5000, 20);
	model_exit(&m);
}

static void a_full_index_without_largedir_is_enospc_and_stays_sound(void **state)
{
	const struct env_options opt = { .block_bytes = 1024, .hash_version = DX_HASH_HALF_MD4, .csum = true, .dir_index = true };
	struct model m;
	char text[256];
	int err = 0;

	model_init(&m, &opt, NAMES_MAX, 250);
	for (uint32_t id = 0; id < NAMES_MAX && !err; id++) {
		name_text(&m, id, text);
		err = env_add(m.env, text, id + 100);
		m.present[id] = !err;
		m.count += !err;
	}
	assert_int_equal(err, -ENOSPC);
	assert_true(m.count > 20000);
	m.ids = m.count;
	assert_int_equal(env_check(m.env), m.count);
	assert_int_equal(m.env->errors, 0);
	model_exit(&m);
}

static void a_full_disk_leaves_the_directory_as_it_was(void **state)
{
	for (uint32_t blocks = 0; blocks < 40; blocks++) {
		struct model m;
		char text[256];
		uint32_t id = 0;

		model_init(&m, &kinds[0], 2000, 40);
		m.env->blocks_left = blocks;
		for (;; id++) {
			int err;

			name_text(&m, id, text);
			err = env_add(m.env, text, id + 100);
			if (err == -ENOSPC)
				break;
			assert_int_equal(err, 0);
			m.present[id] = 1;
			m.count++;
		}
		model_verify_lookups(&m);
		m.env->blocks_left = 100;
		model_toggle(&m, id);
		model_verify_lookups(&m);
		model_exit(&m);
	}
}

/* Write accesses plus new blocks stay within the promise, repeats included. */
static void an_add_changes_no_more_blocks_than_promised(void **state)
{
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct model m;

		model_init(&m, &kinds[k], 5000, 200);
		for (uint32_t id = 0; id < m.ids; id++) {
			uint32_t bound = dir_credits(&m.env->dir), blocks = m.env->count;

			m.env->accesses = 0;
			model_toggle(&m, id);
			assert_true(m.env->accesses + (m.env->count - blocks) * (1 + 5) <= bound + 2 * (m.env->count - blocks));
		}
		model_exit(&m);
	}
}

/* ---- collisions ---- */

#define SAME 24u
#define SAME_LEN 240u /* three or four to a leaf of 1 KiB */

/* The legacy hash's state, and one step of it. */
struct legacy { uint32_t last, before; };

static inline uint32_t legacy_char(unsigned c)
{
	return (uint32_t)(int32_t)(signed char)c * 7152373u;
}

static inline struct legacy legacy_step(struct legacy s, unsigned c)
{
	uint32_t next = s.before + (s.last ^ legacy_char(c));

	return (struct legacy){ next & 0x80000000u ? next - 0x7fffffffu : next, s.last };
}

/* Two characters that lead from @s to a state whose hash is @want; they meet in the state between. */
static bool find_ending(struct legacy s, uint32_t want, char ending[2])
{
	static uint32_t stamp[1u << 16], now;
	static unsigned char who[1u << 16];

	now++;
	for (unsigned c = 1; c < 256; c++) {
		uint32_t middle = legacy_step(s, c).last, slot = (middle ^ middle >> 15) & 0xffff;

		if (c != '/') {
			stamp[slot] = now;
			who[slot] = (unsigned char)c;
		}
	}
	for (unsigned c = 1; c < 256; c++) {
		uint32_t middle = (want - s.last) ^ legacy_char(c), slot = (middle ^ middle >> 15) & 0xffff;

		if (c == '/' || stamp[slot] != now || legacy_step(legacy_step(s, who[slot]), c).last != want)
			continue;
		ending[0] = (char)who[slot];
		ending[1] = (char)c;
		return true;
	}
	return false;
}

/* @text: SAME names with one legacy hash: the same start, a number, and two characters that make up for it. */
static void make_colliding_names(char text[SAME][SAME_LEN + 1])
{
	struct legacy start = { 0x12a3fe2d, 0x37abe8f9 };
	char number[10];

	for (uint32_t i = 0; i < SAME_LEN - 10; i++)
		start = legacy_step(start, 's');
	for (uint32_t found = 0, n = 0; found < SAME; n++) {
		struct legacy s = start;

		snprintf(number, sizeof(number), "%08u", n);
		for (uint32_t i = 0; i < 8; i++)
			s = legacy_step(s, (unsigned char)number[i]);
		memset(text[found], 's', SAME_LEN - 10);
		memcpy(text[found] + SAME_LEN - 10, number, 8);
		text[found][SAME_LEN] = 0;
		found += find_ending(s, 0x23456789, text[found] + SAME_LEN - 2);
	}
}

static int count_entry_cb(void *arg, const struct dir_entry_info *e)
{
	struct listing *l = arg;

	if (!l->budget) {
		l->more = true;
		return 1;
	}
	l->budget--;
	l->dots++;
	assert_true(e->next_cookie > l->cookie);
	l->cookie = e->next_cookie;
	return 0;
}

/* X2: the leaves of one hash are found one after the other, also by a listing that stops between them. */
static void names_of_one_hash_fill_leaves_and_are_found(void **state)
{
	const struct env_options opt = { .block_bytes = 1024, .hash_version = DX_HASH_LEGACY, .csum = true, .dir_index = true };
	static char same[SAME][SAME_LEN + 1];
	struct env *env = env_create(&opt);
	const uint32_t others = 400;
	struct listing l = { .more = true };
	char text[64];

	make_colliding_names(same);
	for (uint32_t n = 0; n < others; n++) {
		snprintf(text, sizeof(text), "other-%u", n);
		assert_int_equal(env_add(env, text, 5000 + n), 0);
		if (n % 10 == 0 && n / 10 < SAME)
			assert_int_equal(env_add(env, same[n / 10], 100 + n / 10), 0);
	}
	assert_int_equal(env_check(env), SAME + others);
	for (uint32_t n = 0; n < SAME; n++)
		assert_int_equal(env_lookup(env, same[n]), 100 + n);
	while (l.more) {
		l.more = false;
		l.budget = 3;
		assert_int_equal(dir_iterate(&env->dir, l.cookie, count_entry_cb, &l), 0);
	}
	assert_int_equal(l.dots, 2 + SAME + others);
	for (uint32_t n = 0; n < SAME; n++)
		assert_int_equal(env_remove(env, same[n], 100 + n), 0);
	assert_int_equal(env_check(env), others);
	assert_int_equal(env->errors, 0);
	env_destroy(env);
}

/* ---- damage ---- */

/* Any bytes changed anywhere: errors, but no crash, no endless loop, and each step bounded. */
static void random_damage_gives_errors_only(void **state)
{
	for (uint32_t seed = 1; seed <= SERIAL_ROUNDS(600); seed++) {
		struct env_options opt = kinds[seed % 4];
		struct model m;
		struct listing l = { .budget = UINT32_MAX };
		char text[256];

		opt.csum = false; /* so that damage gets past the checksum */
		model_init(&m, &opt, 400, 100);
		m.env->random ^= seed * 0x9e3779b97f4a7c15u;
		for (uint32_t id = 0; id < m.ids; id++)
			model_toggle(&m, id);
		for (uint32_t hits = 1 + env_random(m.env, 12); hits; hits--) {
			uint8_t *data = m.env->blocks[env_random(m.env, 3) ? 0 : env_random(m.env, m.env->count)].data;
			uint32_t head = env_random(m.env, 2) ? 64 : opt.block_bytes;

			data[env_random(m.env, head)] = (uint8_t)env_random(m.env, 256);
		}
		if (seed % 2)
			env_forget_verified(m.env);
		l.m = &m;
		(void)dir_iterate(&m.env->dir, 0, count_entry_cb, &l);
		(void)dir_is_empty(&m.env->dir);
		for (uint32_t id = 0; id < m.ids + 200; id++) {
			struct name name = { text, 100 };
			ino_num ino;
			uint8_t type;

			name_text(&m, id, text);
			(void)dir_lookup(&m.env->dir, &name, &ino, &type);
			if (id % 3)
				(void)env_remove(m.env, text, id + 100);
			else
				(void)env_add(m.env, text, id + 100);
		}
		model_exit(&m);
	}
}

static void a_changed_byte_fails_the_checksum(void **state)
{
	struct model m;
	uint32_t failed = 0;
	char text[256];

	model_init(&m, &kinds[0], 300, 60);
	for (uint32_t id = 0; id < m.ids; id++)
		model_toggle(&m, id);
	for (lblk_t lblk = 0; lblk < m.env->count; lblk++) {
		uint8_t *byte = &m.env->blocks[lblk].data[100];
		ino_num ino;
		uint8_t type;

		*byte ^= 0x10;
		env_forget_verified(m.env);
		for (uint32_t id = 0; id < m.ids; id++) {
			struct name name = { text, 60 };
			int err;

			name_text(&m, id, text);
			err = dir_lookup(&m.env->dir, &name, &ino, &type);
			assert_true(err == 0 || err == -EBADMSG || (lblk == 0 && err == -EUCLEAN));
			failed += err != 0;
		}
		*byte ^= 0x10;
	}
	assert_int_equal(failed, m.ids * 2); /* by the root each of them, and each by its leaf */
	model_exit(&m);
}

/* Without the feature the flag is a left-over: block by block, and gone with the first change. */
static void a_stale_index_flag_is_dropped_at_the_first_change(void **state)
{
	struct model m;

	model_init(&m, &kinds[1], 600, 0);
	for (uint32_t id = 0; id < 500; id++)
		model_toggle(&m, id);
	assert_true(m.env->dir.flags & EXT4_INDEX_FL);
	m.env->fs.compat = 0;
	list_in_pieces(&m, 7, 0);
	assert_true(m.env->dir.flags & EXT4_INDEX_FL);
	model_toggle(&m, 3);
	assert_false(m.env->dir.flags & EXT4_INDEX_FL);
	for (uint32_t id = 500; id < 600; id++)
		model_toggle(&m, id);
	model_verify_lookups(&m);
	model_exit(&m);
}

/* As after a mount: the kind of each block is told by its bytes alone. An empty leaf without a tail looks much like a node. */
static void an_emptied_directory_is_empty(void **state)
{
	for (uint32_t csum = 0; csum < 2; csum++)
		for (uint32_t block_bytes = 1024; block_bytes <= 65536; block_bytes *= 2) {
			const struct env_options opt = { .block_bytes = block_bytes, .csum = csum, .dir_index = true,
							 .hash_version = DX_HASH_HALF_MD4 };
			const uint32_t ids = block_bytes / 8;
			struct model m;

			model_init(&m, &opt, ids, 0);
			for (uint32_t id = 0; id < ids; id++)
				model_toggle(&m, id);
			assert_true(m.env->dir.flags & EXT4_INDEX_FL);
			env_forget_verified(m.env);
			assert_int_equal(dir_is_empty(&m.env->dir), 0);
			for (uint32_t id = 0; id < ids; id++)
				model_toggle(&m, id);
			env_forget_verified(m.env);
			assert_int_equal(dir_is_empty(&m.env->dir), 1);
			assert_int_equal(m.env->errors, 0);
			model_exit(&m);
		}
}

static void an_unknown_hash_is_searched_block_by_block_and_not_changed(void **state)
{
	struct model m;
	char text[256];

	model_init(&m, &kinds[1], 500, 0);
	for (uint32_t id = 0; id < 400; id++)
		model_toggle(&m, id);
	m.env->blocks[0].data[28] = 77;
	for (uint32_t id = 0; id < m.ids; id++) {
		name_text(&m, id, text);
		assert_int_equal(env_lookup(m.env, text), m.present[id] ? id + 100 : 0);
	}
	list_in_pieces(&m, 9, 0);
	assert_int_equal(m.env->errors, 0);
	assert_int_equal(env_add(m.env, "new", 9), -EUCLEAN);
	model_exit(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_come_and_go_and_every_rule_holds),
		cmocka_unit_test(what_stays_is_listed_once_whatever_changes),
		cmocka_unit_test(a_listing_survives_the_first_index),
		cmocka_unit_test(long_names_make_three_levels_with_largedir),
		cmocka_unit_test(a_full_index_without_largedir_is_enospc_and_stays_sound),
		cmocka_unit_test(a_full_disk_leaves_the_directory_as_it_was),
		cmocka_unit_test(an_add_changes_no_more_blocks_than_promised),
		cmocka_unit_test(names_of_one_hash_fill_leaves_and_are_found),
		cmocka_unit_test(random_damage_gives_errors_only),
		cmocka_unit_test(a_changed_byte_fails_the_checksum),
		cmocka_unit_test(a_stale_index_flag_is_dropped_at_the_first_change),
		cmocka_unit_test(an_emptied_directory_is_empty),
		cmocka_unit_test(an_unknown_hash_is_searched_block_by_block_and_not_changed),
	};

	return cmocka_run_group_tests_name("ext4/dir", tests, NULL, NULL);
}
