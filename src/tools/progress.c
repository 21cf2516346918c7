/* SPDX-License-Identifier: MIT */
/* progress.c - one line that is written over */
#include "tools/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/print.h"

/* Nothing in the first second: most runs are over by then. */
#define FIRST_NS  UINT64_C(1000000000)
#define PERIOD_NS UINT64_C(200000000)

#define NS_PER_S UINT64_C(1000000000)

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

void progress_start(struct progress *p)
{
	*p = (struct progress){ .active = isatty(STDERR_FILENO), .start_ns = now_ns() };
	p->next_ns = p->start_ns + FIRST_NS;
}

static int terminal_columns(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

static void show(struct progress *p, const char *path, uint64_t now)
{
	char bytes[SIZE_TEXT_BYTES], rate[SIZE_TEXT_BYTES], line[512];
	size_t columns = (size_t)terminal_columns(), head, room;

	size_text(p->bytes, bytes);
	size_text((uint64_t)((double)p->bytes * NS_PER_S / (double)(now - p->start_ns)), rate);
	snprintf(line, sizeof(line), "%" PRIu64 " files, %s, %s/s  ", p->files, bytes, rate);
	head = strlen(line);
	if (columns > sizeof(line))
		columns = sizeof(line);
	room = columns > head + 4 ? columns - head - 4 : 0;
	/* The end of a path tells more than its beginning. */
	if (strlen(path) > room)
		snprintf(line + head, sizeof(line) - head, "...%.*s", (int)room, path + strlen(path) - room);
	else
		snprintf(line + head, sizeof(line) - head, "%.*s", (int)room, path);
	for (char *c = line; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	fprintf(stderr, "\r\033[K%s", line);
	p->shown = true;
}

static void tick(struct progress *p, const char *path)
{
	uint64_t now;

	if (!p->active)
		return;
	now = now_ns();
	if (now < p->next_ns)
		return;
	p->next_ns = now + PERIOD_NS;
	show(p, path, now);
}

void progress_file(struct progress *p, const char *path)
{
	p->files++;
	tick(p, path);
}

void progress_bytes(struct progress *p, const char *path, uint64_t bytes)
{
	p->bytes += bytes;
	tick(p, path);
}

void progress_clear(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}
