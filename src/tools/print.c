/* SPDX-License-Identifier: MIT */
/* print.c - attributes as text and as JSON */
#include "tools/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const struct {
	uint32_t type;
	char letter;
	const char *name, *json;
} types[] = {
	{ S_IFREG, '-', "regular file", "file" },
	{ S_IFDIR, 'd', "directory", "directory" },
	{ S_IFLNK, 'l', "symbolic link", "symlink" },
	{ S_IFCHR, 'c', "character device", "char" },
	{ S_IFBLK, 'b', "block device", "block" },
	{ S_IFIFO, 'p', "fifo", "fifo" },
	{ S_IFSOCK, 's', "socket", "socket" },
	{ 0, '?', "unknown", "unknown" },
};

static size_t type_index(uint32_t mode)
{
	size_t i = 0;

	while (types[i].type && types[i].type != (mode & S_IFMT))
		i++;
	return i;
}

const char *type_name(uint32_t mode)
{
	return types[type_index(mode)].name;
}

static char special_bit(uint32_t mode, uint32_t special, uint32_t exec, char letter)
{
	if (mode & special)
		return mode & exec ? letter : (char)(letter - 'a' + 'A');
	return mode & exec ? 'x' : '-';
}

void mode_text(uint32_t mode, char text[MODE_TEXT_BYTES])
{
	static const char rw[] = "rwrwrw";

	text[0] = types[type_index(mode)].letter;
	for (int i = 0; i < 3; i++) {
		text[1 + i * 3] = mode & (0400u >> (i * 3)) ? rw[0] : '-';
		text[2 + i * 3] = mode & (0200u >> (i * 3)) ? rw[1] : '-';
	}
	text[3] = special_bit(mode, S_ISUID, 0100, 's');
	text[6] = special_bit(mode, S_ISGID, 0010, 's');
	text[9] = special_bit(mode, S_ISVTX, 0001, 't');
	text[10] = '\0';
}

void time_text(struct timespec t, bool with_ns, char text[TIME_TEXT_BYTES])
{
	char date[32] = "", zone[8] = "";
	struct tm tm;

	if (!localtime_r(&t.tv_sec, &tm)) {
		snprintf(text, TIME_TEXT_BYTES, "%jd", (intmax_t)t.tv_sec);
		return;
	}
	strftime(date, sizeof(date), with_ns ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M", &tm);
	strftime(zone, sizeof(zone), "%z", &tm);
	if (with_ns)
		snprintf(text, TIME_TEXT_BYTES, "%s.%09ld %s", date, t.tv_nsec, zone);
	else
		snprintf(text, TIME_TEXT_BYTES, "%s", date);
}

void size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
	static const char units[] = "BKMGTPE";
	double value = (double)bytes;
	unsigned unit = 0;

	while (value >= 1024 && unit < sizeof(units) - 2) {
		value /= 1024;
		unit++;
	}
	if (!unit)
		snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64, bytes);
	else
		snprintf(text, SIZE_TEXT_BYTES, value < 10 ? "%.1f%c" : "%.0f%c", value, units[unit]);
}

/* ---- JSON ---- */

/* Length of the UTF-8 sequence at @s with @len bytes to go, 0: none. */
static size_t utf8_length(const unsigned char *s, size_t len)
{
	size_t need = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 :
		      s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;

	if (!need || need > len)
		return 0;
	for (size_t i = 1; i < need; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	/* Overlong forms, surrogates, and what lies past U+10FFFF. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return need;
}

void json_bytes(const void *bytes, size_t len)
{
	const unsigned char *s = bytes;

	putchar('"');
	while (len) {
		size_t step = utf8_length(s, len);

		if (!step) {
			printf("\\udc%02x", s[0]);
			step = 1;
		} else if (s[0] == '"' || s[0] == '\\') {
			printf("\\%c", s[0]);
		} else if (s[0] < ' ' || s[0] == 0x7f) {
			printf("\\u%04x", s[0]);
		} else {
			fwrite(s, 1, step, stdout);
		}
		s += step;
		len -= step;
	}
	putchar('"');
}

void json_string(const char *s)
{
	json_bytes(s, strlen(s));
}

/* Seconds with nine digits after the point: exact, and a number to every reader. */
static void json_time(const char *key, struct timespec t)
{
	intmax_t sec = t.tv_sec;
	long nsec = t.tv_nsec;
	bool negative = sec < 0;

	if (negative && nsec) {
		sec += 1;
		nsec = 1000000000 - nsec;
	}
	printf(",\"%s\":%s%jd.%09ld", key, negative && sec == 0 ? "-" : "", sec, nsec);
}

void json_attr(const struct uext4_attr *attr)
{
	printf("\"ino\":%" PRIu64 ",\"type\":\"%s\",\"mode\":\"%04o\",\"nlink\":%u,\"uid\":%u,\"gid\":%u,"
	       "\"size\":%" PRIu64 ",\"blocks\":%" PRIu64,
	       attr->ino, types[type_index(attr->mode)].json, attr->mode & 07777, attr->nlink, attr->uid, attr->gid,
	       attr->size, attr->blocks);
	if (S_ISCHR(attr->mode) || S_ISBLK(attr->mode))
		printf(",\"major\":%u,\"minor\":%u", major(attr->rdev), minor(attr->rdev));
	json_time("atime", attr->atime);
	json_time("mtime", attr->mtime);
	json_time("ctime", attr->ctime);
	json_time("crtime", attr->crtime);
	printf(",\"flags\":%u,\"generation\":%u,\"projid\":%u", attr->flags, attr->generation, attr->projid);
}
