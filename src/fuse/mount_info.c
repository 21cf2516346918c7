/* SPDX-License-Identifier: MIT */
/* mount_info.c - what the kernel says of a mount, without asking its server; its readahead */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuse/server.h"

#define READAHEAD_KB "512"

/* mountinfo writes blanks and backslashes of names as \ooo. */
static void unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] && text[2] && text[3]) {
			*out++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
			text += 3;
		} else {
			*out++ = *text;
		}
	}
	*out = '\0';
}

/* The last line for a mount point is the topmost mount there. */
static void read_mount_line(char *line, const char *mountpoint, struct mount_info *info)
{
	char *field[5], *save = NULL, *dash = strstr(line, " - "), *type, *source;

	if (!dash)
		return;
	*dash = '\0';
	for (unsigned i = 0; i < 5; i++) {
		field[i] = strtok_r(i ? NULL : line, " ", &save);
		if (!field[i])
			return;
	}
	unescape(field[4]);
	if (strcmp(field[4], mountpoint))
		return;
	type = strtok_r(dash + 3, " ", &save);
	source = strtok_r(NULL, " ", &save);
	info->found = true;
	info->is_uext4 = type && !strcmp(type, "fuse.uext4");
	snprintf(info->device, sizeof(info->device), "%s", field[2]);
	info->source[0] = '\0';
	if (source) {
		unescape(source);
		snprintf(info->source, sizeof(info->source), "%s", source);
	}
}

int mount_find(const char *mountpoint, struct mount_info *info)
{
	char *line = NULL;
	size_t bytes = 0;
	FILE *f = fopen("/proc/self/mountinfo", "re");

	*info = (struct mount_info){ 0 };
	if (!f)
		return -errno;
	while (getline(&line, &bytes, f) > 0)
		read_mount_line(line, mountpoint, info);
	free(line);
	fclose(f);
	return info->found && info->is_uext4 ? 0 : -EINVAL;
}

/*
 * The kernel reads ahead 128 KiB of a FUSE file, a request each; larger requests cost less. Only root may say so: without
 * the right to, it stays as it is.
 */
void mount_raise_readahead(const struct mount_info *info)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/class/bdi/%s/read_ahead_kb", info->device);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!write(fd, READAHEAD_KB, sizeof(READAHEAD_KB) - 1);
	close(fd);
}
