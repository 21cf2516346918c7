/* SPDX-License-Identifier: MIT */
/* stats.c - counters of a file system, as items and as JSON */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/api_private.h"

static const struct {
	const char *section, *key;
} counter_names[] = {
#define X(id, section, key) { section, key },
	UEXT4_COUNTERS(X)
#undef X
};
static_assert(ARRAY_SIZE(counter_names) == CNT_COUNT && CNT_COUNT <= UEXT4_STATS_MAX, "every counter has an item");

int uext4_stats(struct uext4_fs *fs, struct uext4_stats *stats_out)
{
	size_t room;

	if (stats_out->struct_bytes < offsetof(struct uext4_stats, items))
		return -EINVAL;
	room = (stats_out->struct_bytes - offsetof(struct uext4_stats, items)) / sizeof(stats_out->items[0]);
	stats_out->count = (uint32_t)min_of(room, (size_t)CNT_COUNT);
	for (uint32_t i = 0; i < stats_out->count; i++) {
		stats_out->items[i] = (struct uext4_stat_item){
			.section = counter_names[i].section,
			.key = counter_names[i].key,
			.value = counter_read(fs->vfs->fs->counters, (enum counter_id)i),
		};
	}
	return 0;
}

/* Appends like snprintf() at *at of @buf, counting on past its end. */
static void append(char *buf, size_t buf_bytes, size_t *at, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void append(char *buf, size_t buf_bytes, size_t *at, const char *fmt, ...)
{
	size_t left = *at < buf_bytes ? buf_bytes - *at : 0;
	va_list args;

	va_start(args, fmt);
	*at += (size_t)vsnprintf(left ? buf + *at : NULL, left, fmt, args);
	va_end(args);
}

int uext4_stats_json(struct uext4_fs *fs, char *buf, size_t buf_bytes)
{
	const char *section = "";
	size_t at = 0;

	for (unsigned i = 0; i < CNT_COUNT; i++) {
		bool new_section = strcmp(section, counter_names[i].section) != 0;

		if (new_section) {
			append(buf, buf_bytes, &at, "%s\"%s\":{", i ? "}," : "{", counter_names[i].section);
			section = counter_names[i].section;
		}
		append(buf, buf_bytes, &at, "%s\"%s\":%" PRIu64, new_section ? "" : ",", counter_names[i].key,
		       counter_read(fs->vfs->fs->counters, (enum counter_id)i));
	}
	append(buf, buf_bytes, &at, "}}");
	return (int)at;
}
