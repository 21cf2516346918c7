/* SPDX-License-Identifier: MIT */
/* options.c - mount options: the text after -o, and what each means */
#include "base/types.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/super.h"

enum option_kind {
	OPT_SET,      /* bool at offset becomes value */
	OPT_SIZE,     /* uint64_t with a K, M, G or T suffix */
	OPT_U32,      /* uint32_t times value */
	OPT_PARSE,    /* a function of its own */
	OPT_ACCEPT,   /* known to ext4, nothing to do here; may have a number if max is not 0 */
};

struct option {
	const char *name;
	enum option_kind kind;
	size_t offset;
	uint32_t value;
	uint64_t max;         /* of a number, as the user gives it */
	int (*parse)(struct ext4_options *opt, const char *arg, char error_out[256]);
};

#define CACHE_BYTES_MAX (UINT64_C(1) << 40) /* address space and tables grow with it, and nobody has more memory */
#define OWNER_MAX       (UINT32_MAX - 1)    /* the last number means nobody */

static int fail(char error_out[256], const char *fmt, const char *a, const char *b)
{
	snprintf(error_out, 256, fmt, a, b);
	return -EINVAL;
}

static bool parse_u64(const char *text, uint64_t *value_out)
{
	char *end;

	if (!text || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*value_out = strtoull(text, &end, 0);
	return !errno && *end == '\0';
}

/* A number with an optional binary unit. */
static bool parse_size(const char *text, uint64_t *value_out)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;

	if (!text || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*value_out = strtoull(text, &end, 0);
	if (errno)
		return false;
	if (*end == '\0')
		return true;
	unit = strchr(units, *end & ~0x20);
	if (!unit || *unit == '\0' || end[1] != '\0')
		return false;
	for (const char *u = units; u <= unit; u++)
		if (__builtin_mul_overflow(*value_out, UINT64_C(1024), value_out))
			return false;
	return true;
}

/* Index of @arg in the NULL-terminated @words, or -1. */
static int word_index(const char *const *words, const char *arg)
{
	for (int i = 0; arg && words[i]; i++)
		if (!strcmp(words[i], arg))
			return i;
	return -1;
}

static int parse_errors(struct ext4_options *opt, const char *arg, char error_out[256])
{
	static const char *const words[] = { "continue", "remount-ro", "panic", NULL };
	int i = word_index(words, arg);

	if (i < 0)
		return fail(error_out, "errors=%s: want continue, remount-ro or panic%s", arg ? arg : "", "");
	opt->errors = (enum ext4_errors_mode)(ERRORS_CONTINUE + i);
	return 0;
}

static int parse_data(struct ext4_options *opt, const char *arg, char error_out[256])
{
	static const char *const words[] = { "ordered", "journal", "writeback", NULL };
	int i = word_index(words, arg);

	if (i < 0)
		return fail(error_out, "data=%s: want ordered, journal or writeback%s", arg ? arg : "", "");
	opt->data = (enum ext4_data_mode)(DATA_ORDERED + i);
	opt->given |= OPT_GIVEN_DATA;
	return 0;
}

static int parse_data_err(struct ext4_options *opt, const char *arg, char error_out[256])
{
	static const char *const words[] = { "ignore", "abort", NULL };
	int i = word_index(words, arg);

	if (i < 0)
		return fail(error_out, "data_err=%s: want ignore or abort%s", arg ? arg : "", "");
	opt->data_err_abort = i == 1;
	return 0;
}

static int parse_barrier(struct ext4_options *opt, const char *arg, char error_out[256])
{
	uint64_t value = 1;

	if (arg && !(parse_u64(arg, &value) && value <= 1))
		return fail(error_out, "barrier=%s: want 0 or 1%s", arg, "");
	opt->barrier = value != 0;
	opt->given |= OPT_GIVEN_BARRIER;
	return 0;
}

static int parse_replay(struct ext4_options *opt, const char *arg, char error_out[256])
{
	if (!arg || strcmp(arg, "memory"))
		return fail(error_out, "replay=%s: want memory%s", arg ? arg : "", "");
	opt->replay_in_memory = true;
	return 0;
}

static int parse_journal_path(struct ext4_options *opt, const char *arg, char error_out[256])
{
	char *copy;

	if (!arg || !*arg)
		return fail(error_out, "journal_path: a path is missing%s%s", "", "");
	copy = strdup(arg);
	if (!copy)
		return -ENOMEM;
	free(opt->journal_path);
	opt->journal_path = copy;
	return 0;
}

static int parse_partition(struct ext4_options *opt, const char *arg, char error_out[256])
{
	uint64_t value;

	if (!parse_u64(arg, &value) || value == 0 || value > 1024)
		return fail(error_out, "partition=%s: want a partition number from 1 to 1024%s", arg ? arg : "", "");
	opt->partition = (int)value;
	return 0;
}

/* ablate=a:b; several of them add up. */
static int parse_ablate(struct ext4_options *opt, const char *arg, char error_out[256])
{
	static const char *const words[] = { "dax-overwrite", "folio-dirty", "es-root", "ordered-extents", NULL };
	char copy[128], *save = NULL;

	if (!arg || !*arg || strlen(arg) >= sizeof(copy))
		return fail(error_out, "ablate=%s: want the name of an optimisation%s", arg ? arg : "", "");
	strcpy(copy, arg);
	for (char *word = strtok_r(copy, ":", &save); word; word = strtok_r(NULL, ":", &save)) {
		int i = word_index(words, word);

		if (i < 0)
			return fail(error_out, "ablate=%s: no such optimisation: %s", arg, word);
		opt->ablate |= 1u << i;
	}
	return 0;
}

/* atime options exclude each other: the last one wins. */
static void set_atime_mode(struct ext4_options *opt, bool *mode)
{
	opt->noatime = opt->strictatime = opt->relatime = false;
	*mode = true;
}

static int parse_noatime(struct ext4_options *opt, const char *arg, char error_out[256])
{
	set_atime_mode(opt, &opt->noatime);
	return 0;
}

static int parse_strictatime(struct ext4_options *opt, const char *arg, char error_out[256])
{
	set_atime_mode(opt, &opt->strictatime);
	return 0;
}

static int parse_relatime(struct ext4_options *opt, const char *arg, char error_out[256])
{
	set_atime_mode(opt, &opt->relatime);
	return 0;
}

#define OFFSET(field) offsetof(struct ext4_options, field)
#define SET(name, field, v)        { name, OPT_SET, OFFSET(field), v, 0, NULL }
#define PARSE(name, func)          { name, OPT_PARSE, 0, 0, 0, func }
#define SIZE(name, field, max)     { name, OPT_SIZE, OFFSET(field), 1, max, NULL }
#define U32(name, field, v, max)   { name, OPT_U32, OFFSET(field), v, max, NULL }
#define ACCEPT(name)               { name, OPT_ACCEPT, 0, 0, 0, NULL }
#define ACCEPT_NUMBER(name, max)   { name, OPT_ACCEPT, 0, 0, max, NULL }

static const struct option options[] = {
	SET("ro", read_only, true), SET("rw", read_only, false),
	SET("noload", noload, true), SET("norecovery", noload, true),
	PARSE("replay", parse_replay),
	SIZE("cache_size", cache_bytes, CACHE_BYTES_MAX),
	SIZE("offset", offset_bytes, INT64_MAX),
	SIZE("sb", sb_blk, INT64_MAX / 1024),
	PARSE("partition", parse_partition),
	PARSE("journal_path", parse_journal_path),
	PARSE("errors", parse_errors), PARSE("data", parse_data), PARSE("data_err", parse_data_err),
	U32("commit", commit_interval_ms, 1000, UINT32_MAX / 1000), U32("max_batch_time", max_batch_us, 1, UINT32_MAX),
	U32("resuid", resuid, 1, OWNER_MAX), U32("resgid", resgid, 1, OWNER_MAX),
	PARSE("barrier", parse_barrier), SET("nobarrier", barrier, false),
	SET("journal_async_commit", journal_async_commit, true),
	SET("discard", discard, true), SET("nodiscard", discard, false),
	PARSE("noatime", parse_noatime), PARSE("strictatime", parse_strictatime),
	PARSE("relatime", parse_relatime), PARSE("atime", parse_relatime),
	SET("nodiratime", nodiratime, true), SET("diratime", nodiratime, false),
	SET("delalloc", delalloc, true), SET("nodelalloc", delalloc, false),
	SET("acl", acl, true), SET("noacl", acl, false),
	SET("user_xattr", user_xattr, true), SET("nouser_xattr", user_xattr, false),
	SET("grpid", grpid, true), SET("bsdgroups", grpid, true),
	SET("nogrpid", grpid, false), SET("sysvgroups", grpid, false),
	PARSE("ablate", parse_ablate),
	/* Times are always lazy, blocks always checked, v2 and v3 checksums follow the image's features. */
	ACCEPT("defaults"), ACCEPT("lazytime"), ACCEPT("nolazytime"), ACCEPT("noauto_da_alloc"),
	ACCEPT("block_validity"), ACCEPT("noblock_validity"), ACCEPT("noinit_itable"),
	ACCEPT("dioread_nolock"), ACCEPT("nodioread_nolock"), ACCEPT("dioread_lock"), ACCEPT("i_version"),
	ACCEPT("journal_checksum"), ACCEPT("nojournal_checksum"), ACCEPT("noquota"),
	ACCEPT("bsddf"), ACCEPT("nombcache"), ACCEPT("prefetch_block_bitmaps"), ACCEPT("no_prefetch_block_bitmaps"),
	ACCEPT("nouid32"), ACCEPT("silent"), ACCEPT("norelatime"),
	ACCEPT_NUMBER("auto_da_alloc", UINT32_MAX), ACCEPT_NUMBER("init_itable", UINT32_MAX),
	ACCEPT_NUMBER("min_batch_time", UINT32_MAX), ACCEPT_NUMBER("inode_readahead_blks", UINT32_MAX),
	ACCEPT_NUMBER("stripe", UINT32_MAX), ACCEPT_NUMBER("journal_ioprio", 7), ACCEPT_NUMBER("mb_optimize_scan", 1),
};

void options_init(struct ext4_options *opt)
{
	memset(opt, 0, sizeof(*opt));
	opt->data = DATA_ORDERED;
	opt->barrier = true;
	opt->relatime = true;
	opt->delalloc = true;
	opt->acl = true;
	opt->user_xattr = true;
}

void options_exit(struct ext4_options *opt)
{
	free(opt->journal_path);
	opt->journal_path = NULL;
}

static int check_number(const struct option *o, const char *arg, uint64_t *value_out, char error_out[256])
{
	if ((o->kind == OPT_SIZE ? parse_size : parse_u64)(arg, value_out) && *value_out <= o->max)
		return 0;
	snprintf(error_out, 256, "%s=%.100s: want a number from 0 to %" PRIu64 "%s", o->name, arg ? arg : "", o->max,
		 o->kind == OPT_SIZE ? ", K, M, G or T may follow" : "");
	return -EINVAL;
}

static int set_number(struct ext4_options *opt, const struct option *o, const char *arg, char error_out[256])
{
	void *field = (char *)opt + o->offset;
	uint64_t value;
	int err = check_number(o, arg, &value, error_out);

	if (err)
		return err;
	if (o->kind == OPT_SIZE)
		*(uint64_t *)field = value;
	else
		*(uint32_t *)field = (uint32_t)value * o->value;
	return 0;
}

static int accept(const struct option *o, const char *arg, char error_out[256])
{
	uint64_t value;

	if (arg && !o->max)
		return fail(error_out, "%s takes no value (got %s)", o->name, arg);
	return arg ? check_number(o, arg, &value, error_out) : 0;
}

/* What a flag given by the user keeps the superblock from deciding. */
static unsigned given_by_field(size_t offset)
{
	switch (offset) {
	case OFFSET(barrier):
		return OPT_GIVEN_BARRIER;
	case OFFSET(discard):
		return OPT_GIVEN_DISCARD;
	case OFFSET(delalloc):
		return OPT_GIVEN_DELALLOC;
	case OFFSET(grpid):
		return OPT_GIVEN_GRPID;
	default:
		return 0;
	}
}

static int apply_option(struct ext4_options *opt, const char *name, const char *arg, char error_out[256])
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		const struct option *o = &options[i];

		if (strcmp(o->name, name))
			continue;
		switch (o->kind) {
		case OPT_SET:
			if (arg)
				return fail(error_out, "%s takes no value (got %s)", name, arg);
			*(bool *)((char *)opt + o->offset) = o->value != 0;
			opt->given |= given_by_field(o->offset);
			return 0;
		case OPT_PARSE:
			return o->parse(opt, arg, error_out);
		case OPT_ACCEPT:
			return accept(o, arg, error_out);
		default:
			return set_number(opt, o, arg, error_out);
		}
	}
	return fail(error_out, "%s: unknown mount option%s", name, "");
}

int options_parse(struct ext4_options *opt, const char *text, char error_out[256])
{
	char *copy = strdup(text), *save = NULL;
	int err = 0;

	error_out[0] = '\0';
	if (!copy)
		return -ENOMEM;
	for (char *word = strtok_r(copy, ",", &save); word && !err; word = strtok_r(NULL, ",", &save)) {
		char *equals = strchr(word, '=');

		if (equals)
			*equals++ = '\0';
		err = apply_option(opt, word, equals, error_out);
	}
	free(copy);
	return err;
}
