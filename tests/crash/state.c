/* SPDX-License-Identifier: MIT */
/* state.c - a whole tree in memory, and comparing two */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "crash.h"

#define FILE_BYTES_MAX (4u << 20)

struct names {
	char **name;
	size_t count;
	bool failed;
};

static int collect(void *arg, const struct uext4_dirent *entry)
{
	struct names *n = arg;
	char **grown;

	if (!strcmp(entry->name, ".") || !strcmp(entry->name, "..") || !strcmp(entry->name, "lost+found"))
		return 0;
	grown = realloc(n->name, (n->count + 1) * sizeof(*grown));
	if (grown)
		n->name = grown;
	if (!grown || !(n->name[n->count] = strdup(entry->name))) {
		n->failed = true;
		return 1;
	}
	n->count++;
	return 0;
}

static int read_content(struct uext4_fs *fs, struct state_node *node)
{
	struct uext4_file *file;
	ssize_t got;
	int err;

	if (!strcmp(node->path, FILLER_NAME))
		node->size = 0;
	if (node->size > FILE_BYTES_MAX)
		return -EFBIG;
	node->content = malloc(node->size + 1);
	if (!node->content)
		return -ENOMEM;
	err = uext4_open(fs, NULL, node->path, O_RDONLY, 0, &file);
	if (err)
		return err;
	got = uext4_pread(file, node->content, node->size, 0);
	uext4_close(file);
	return got < 0 ? (int)got : got == (ssize_t)node->size ? 0 : -EIO;
}

static int read_extra(struct uext4_fs *fs, struct state_node *node)
{
	char value[4096];
	ssize_t len;

	if (S_ISLNK(node->mode)) {
		int err = uext4_readlink(fs, NULL, node->path, value, sizeof(value));

		node->extra = err < 0 ? NULL : strdup(value);
		return err < 0 ? err : node->extra ? 0 : -ENOMEM;
	}
	len = uext4_getxattr(fs, NULL, node->path, false, "user.x", value, sizeof(value));
	if (len == -ENODATA)
		return 0;
	if (len < 0)
		return (int)len;
	node->extra = malloc(64);
	if (!node->extra)
		return -ENOMEM;
	memset(value + len, 0, sizeof(value) - (size_t)len);
	snprintf(node->extra, 64, "user.x %zd bytes, %016llx", len, (unsigned long long)hash_bytes(value, sizeof(value)));
	return 0;
}

static int take_node(struct uext4_fs *fs, const char *path, struct state *out)
{
	struct state_node *grown = realloc(out->nodes, (out->count + 1) * sizeof(*grown)), *node;
	struct uext4_attr attr;
	int err;

	if (!grown)
		return -ENOMEM;
	out->nodes = grown;
	node = &out->nodes[out->count++];
	*node = (struct state_node){ .path = strdup(path) };
	if (!node->path)
		return -ENOMEM;
	err = uext4_lstat(fs, NULL, path, &attr);
	if (err)
		return err;
	node->ino = attr.ino;
	node->generation = attr.generation;
	node->mode = attr.mode;
	node->nlink = attr.nlink;
	node->size = attr.size;
	err = read_extra(fs, node);
	return err || !S_ISREG(node->mode) ? err : read_content(fs, node);
}

static int take_dir(struct uext4_fs *fs, const char *dir, struct state *out)
{
	struct names names = { 0 };
	int err = uext4_readdir(fs, NULL, *dir ? dir : "/", collect, &names);

	if (!err && names.failed)
		err = -ENOMEM;
	for (size_t i = 0; i < names.count; i++) {
		char path[1024];

		snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", names.name[i]);
		if (!err)
			err = take_node(fs, path, out);
		if (!err && S_ISDIR(out->nodes[out->count - 1].mode))
			err = take_dir(fs, path, out);
		free(names.name[i]);
	}
	free(names.name);
	return err;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct state_node *)a)->path, ((const struct state_node *)b)->path);
}

int state_take(struct uext4_fs *fs, struct state *out)
{
	int err;

	*out = (struct state){ 0 };
	err = take_dir(fs, "", out);
	if (err) {
		state_free(out);
		return err;
	}
	if (out->count)
		qsort(out->nodes, out->count, sizeof(*out->nodes), by_path);
	return 0;
}

void state_free(struct state *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->nodes[i].path);
		free(s->nodes[i].extra);
		free(s->nodes[i].content);
	}
	free(s->nodes);
	*s = (struct state){ 0 };
}

const struct state_node *state_find(const struct state *s, const char *path)
{
	struct state_node key = { .path = (char *)path };

	return s->count ? bsearch(&key, s->nodes, s->count, sizeof(key), by_path) : NULL;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_node_but_data(const struct state_node *a, const struct state_node *b)
{
	return !strcmp(a->path, b->path) && a->mode == b->mode && a->nlink == b->nlink && same_text(a->extra, b->extra);
}

bool state_same_names(const struct state *a, const struct state *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!same_node_but_data(&a->nodes[i], &b->nodes[i]))
			return false;
	return true;
}

bool state_restore_xattrs(struct state *s, const struct state *from)
{
	bool restored = false;

	for (size_t i = 0; i < s->count; i++) {
		const struct state_node *other = state_find(from, s->nodes[i].path);

		if (!S_ISREG(s->nodes[i].mode) || s->nodes[i].extra || !other || !S_ISREG(other->mode) || !other->extra)
			continue;
		s->nodes[i].extra = strdup(other->extra);
		restored = true;
	}
	return restored;
}

bool state_same(const struct state *a, const struct state *b, char *why, size_t why_bytes)
{
	if (!state_same_names(a, b)) {
		snprintf(why, why_bytes, "names or attributes differ (%zu and %zu nodes)", a->count, b->count);
		return false;
	}
	for (size_t i = 0; i < a->count; i++) {
		const struct state_node *x = &a->nodes[i], *y = &b->nodes[i];

		if (S_ISREG(x->mode) && (x->size != y->size || memcmp(x->content, y->content, x->size))) {
			snprintf(why, why_bytes, "%s: size %llu and %llu, or bytes differ", x->path,
				 (unsigned long long)x->size, (unsigned long long)y->size);
			return false;
		}
	}
	return true;
}
