/* SPDX-License-Identifier: MIT */
/* options.c - whose is each `-o` option: the server's, libfuse's, or the file system's */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/server.h"

#define SPIN_US_MAX 10000u
#define THREADS_MAX 256u

/* The kernel's ext4 options of the same name (noatime, ro) go to both sides. */
static const char *const fuse_words[] = {
	"allow_other", "allow_root", "auto_unmount", "suid", "nosuid", "dev", "nodev", "exec", "noexec",
	"atime", "noatime", "nodiratime", "relatime", "strictatime", "ro", "rw", "sync", "async", "dirsync",
};
static const char *const shared_words[] = { "ro", "rw", "noatime", "nodiratime", "relatime", "strictatime" };
/* libfuse's, but `uext4 umount` knows a mount by its type, also when its server is dead, and its image by the source. */
static const char *const fixed_values[] = { "fsname=", "subtype=" };
/* What mount(8) and fstab add, and means nothing to a file system. */
static const char *const ignored_words[] = { "defaults", "user", "users", "owner", "noauto", "auto", "_netdev", "nofail" };

static bool word_in(const char *word, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(word, list[i]))
			return true;
	return false;
}

static bool value_in(const char *word, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strncmp(word, list[i], strlen(list[i])))
			return true;
	return false;
}

static int append(char **list, const char *word)
{
	size_t have = *list ? strlen(*list) : 0;
	char *grown = realloc(*list, have + strlen(word) + 2);

	if (!grown)
		return -ENOMEM;
	if (have)
		grown[have++] = ',';
	strcpy(grown + have, word);
	*list = grown;
	return 0;
}

static int parse_count(const char *word, const char *value, unsigned min, unsigned max, unsigned *out)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (errno || *value < '0' || *value > '9' || *end || n < min || n > max) {
		fprintf(stderr, "uext4: mount: %s: want a number from %u to %u\n", word, min, max);
		return -EINVAL;
	}
	*out = (unsigned)n;
	return 0;
}

static int refuse_fixed(const char *word)
{
	fprintf(stderr, "uext4: mount: %s: a mount has always the type fuse.uext4 and the image as its source\n", word);
	return -EINVAL;
}

/* 1: the word was ours, 0: it was not, negative: ours and wrong. */
static int take_own(struct server_options *options, const char *word)
{
	int err = 0;

	if (!strncmp(word, "spin_us=", 8))
		err = parse_count(word, word + 8, 0, SPIN_US_MAX, &options->spin_us);
	else if (!strncmp(word, "max_threads=", 12))
		err = parse_count(word, word + 12, 1, THREADS_MAX, &options->max_threads);
	else if (!strcmp(word, "writeback_cache"))
		options->writeback_cache = true;
	else if (!strcmp(word, "no_writeback_cache"))
		options->writeback_cache = false;
	else if (!strcmp(word, "follow_caller"))
		options->follow_caller = true;
	else if (!strcmp(word, "no_follow_caller"))
		options->follow_caller = false;
	else if (!strcmp(word, "io_uring"))
		options->io_uring = true;
	else if (value_in(word, fixed_values, sizeof(fixed_values) / sizeof(fixed_values[0])))
		err = refuse_fixed(word);
	else if (!word_in(word, ignored_words, sizeof(ignored_words) / sizeof(ignored_words[0])))
		return 0;
	return err ? err : 1;
}

static int sort_word(struct server_options *options, const char *word)
{
	bool fuse, shared;
	int err = take_own(options, word);

	if (err)
		return err < 0 ? err : 0;
	if (!strcmp(word, "ro"))
		options->read_only = true;
	if (!strcmp(word, "rw"))
		options->read_only = false;
	fuse = word_in(word, fuse_words, sizeof(fuse_words) / sizeof(fuse_words[0]));
	shared = word_in(word, shared_words, sizeof(shared_words) / sizeof(shared_words[0]));
	/* libfuse gets these only for the kernel's benefit; relatime is ours alone. */
	if (fuse && strcmp(word, "relatime") && strcmp(word, "strictatime") && strcmp(word, "nodiratime"))
		err = append(&options->fuse_options, word);
	if (!err && (!fuse || shared))
		err = append(&options->fs_options, word);
	return err;
}

int server_options_init(struct server_options *options)
{
	*options = (struct server_options){
		.writeback_cache = true, .spin_us = 50, .follow_caller = true, .max_threads = 8
	};
	/* The kernel checks permissions from the attributes we give; subtype makes the type "fuse.uext4". */
	return append(&options->fuse_options, "default_permissions,subtype=uext4");
}

int server_options_add(struct server_options *options, const char *text)
{
	char *copy = strdup(text), *save = NULL;
	int err = copy ? 0 : -ENOMEM;

	for (char *word = copy ? strtok_r(copy, ",", &save) : NULL; word && !err; word = strtok_r(NULL, ",", &save))
		err = sort_word(options, word);
	if (err == -ENOMEM)
		fprintf(stderr, "uext4: mount: %s\n", strerror(ENOMEM));
	free(copy);
	return err;
}

void server_options_exit(struct server_options *options)
{
	free(options->fs_options);
	free(options->fuse_options);
	options->fs_options = options->fuse_options = NULL;
}
