/* SPDX-License-Identifier: MIT */
/* ops_dir.c - READDIR and READDIRPLUS */
#include <errno.h>
#include <string.h>

#include "fuse/server.h"

/* Entries are gathered first and looked up afterwards: a lookup takes the directory's lock again. */
struct gather {
	uint8_t *buf;
	size_t used, size;
	size_t budget;       /* bytes the reply may take; what a plain or plus entry needs at least */
	size_t per_entry;
};

struct gathered {
	uint64_t next_cookie;
	uext4_ino ino;
	uint8_t type;
	char name[256];
};

static size_t gathered_bytes(size_t name_len)
{
	size_t bytes = offsetof(struct gathered, name) + name_len + 1;

	return (bytes + 7) & ~(size_t)7;
}

static size_t reply_bytes(const struct gather *g, size_t name_len)
{
	return g->per_entry + ((name_len + 7) & ~(size_t)7);
}

static int gather_entry(void *arg, const struct uext4_dirent *entry)
{
	struct gather *g = arg;
	size_t need = gathered_bytes(entry->name_len);
	struct gathered *slot = (struct gathered *)(g->buf + g->used);

	if (g->used + need > g->size || reply_bytes(g, entry->name_len) > g->budget)
		return 1;
	slot->next_cookie = entry->next_cookie;
	slot->ino = entry->ino;
	slot->type = entry->type;
	memcpy(slot->name, entry->name, entry->name_len);
	slot->name[entry->name_len] = '\0';
	g->used += need;
	g->budget -= reply_bytes(g, entry->name_len);
	return 0;
}

static int gather_dir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, size_t per_entry, struct gather *g)
{
	/* The first half of the worker's buffer takes the entries, the second the reply. */
	*g = (struct gather){ .buf = worker_buffer(), .size = SERVER_MAX_WRITE_BYTES / 2, .per_entry = per_entry };
	if (!g->buf)
		return -ENOMEM;
	g->budget = size < g->size ? size : g->size;
	return uext4_node_readdir(req_server(req)->fs, node_of(ino), (uint64_t)off, gather_entry, g);
}

static const struct gathered *gather_next(const struct gather *g, size_t *pos)
{
	const struct gathered *slot = (const struct gathered *)(g->buf + *pos);

	if (*pos >= g->used)
		return NULL;
	*pos += gathered_bytes(strlen(slot->name));
	return slot;
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct gather g;
	const struct gathered *slot;
	size_t pos = 0, used = 0;
	/* What one entry with an empty name takes; names are padded to 8 bytes. */
	int err = gather_dir(req, ino, size, off, fuse_add_direntry(req, NULL, 0, "", NULL, 0), &g);
	char *reply = (char *)g.buf + g.size;

	(void)fi;
	if (err < 0) {
		fuse_reply_err(req, -err);
		return;
	}
	while ((slot = gather_next(&g, &pos)) != NULL) {
		struct stat st = { .st_ino = slot->ino, .st_mode = (mode_t)slot->type << 12 };

		used += fuse_add_direntry(req, reply + used, g.size - used, slot->name, &st, (off_t)slot->next_cookie);
	}
	fuse_reply_buf(req, reply, used);
}

static bool is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Node 0 makes it a plain entry: "." and "..", and names that went away since they were gathered. */
static void plus_entry(struct server *server, fuse_ino_t dir, const struct gathered *slot, struct fuse_entry_param *out)
{
	struct uext4_entry entry;

	if (!is_dot(slot->name) && !uext4_node_lookup(server->fs, NULL, node_of(dir), slot->name, &entry)) {
		entry_to_fuse(&entry, out);
		return;
	}
	*out = (struct fuse_entry_param){ 0 };
	out->attr.st_ino = slot->ino;
	out->attr.st_mode = (mode_t)slot->type << 12;
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct server *server = req_server(req);
	struct gather g;
	const struct gathered *slot;
	size_t pos = 0, used = 0;
	int err = gather_dir(req, ino, size, off, fuse_add_direntry_plus(req, NULL, 0, "", NULL, 0), &g);
	char *reply = (char *)g.buf + g.size;

	(void)fi;
	if (err < 0) {
		fuse_reply_err(req, -err);
		return;
	}
	while ((slot = gather_next(&g, &pos)) != NULL) {
		struct fuse_entry_param param;

		plus_entry(server, ino, slot, &param);
		used += fuse_add_direntry_plus(req, reply + used, g.size - used, slot->name, &param,
					       (off_t)slot->next_cookie);
	}
	fuse_reply_buf(req, reply, used);
}
