/* SPDX-License-Identifier: MIT */
/* stats.c - the counters of the file system and of this server as one JSON object */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/server.h"

static void server_json(struct server *server, FILE *out)
{
	uint64_t total = 0, n;

	for (unsigned op = 0; op < SERVER_OPCODES; op++)
		total += atomic_load_explicit(&server->requests[op], memory_order_relaxed);
	fprintf(out, "\"fuse\":{\"requests\":%" PRIu64 ",\"empty_reads\":%" PRIu64 ",\"handovers\":%" PRIu64
		",\"followed\":%" PRIu64 ",\"spliced\":%" PRIu64, total,
		(uint64_t)atomic_load(&server->reads_empty), (uint64_t)atomic_load(&server->handovers),
		(uint64_t)atomic_load(&server->followed), (uint64_t)atomic_load(&server->spliced));
	for (unsigned op = 0; op < SERVER_OPCODES; op++) {
		n = atomic_load_explicit(&server->requests[op], memory_order_relaxed);
		if (n && opcode_name(op))
			fprintf(out, ",\"%s\":%" PRIu64, opcode_name(op), n);
		else if (n)
			fprintf(out, ",\"op%u\":%" PRIu64, op, n);
	}
	fputc('}', out);
}

char *stats_text(struct server *server)
{
	char *fs_json, *text = NULL;
	size_t text_bytes = 0;
	FILE *out;
	/* Room for digits that the counters gain between asking and fetching. */
	int len = uext4_stats_json(server->fs, NULL, 0) + 512;

	fs_json = len > 512 ? malloc((size_t)len) : NULL;
	if (!fs_json || uext4_stats_json(server->fs, fs_json, (size_t)len) >= len) {
		free(fs_json);
		return NULL;
	}
	out = open_memstream(&text, &text_bytes);
	if (out) {
		*strrchr(fs_json, '}') = '\0';
		fprintf(out, "%s,", fs_json);
		server_json(server, out);
		fputc('}', out);
		if (fclose(out)) {
			free(text);
			text = NULL;
		}
	}
	free(fs_json);
	return text;
}
