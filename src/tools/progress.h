/* SPDX-License-Identifier: MIT */
/* progress.h - how far a long transfer is, on standard error when that is a terminal */
#ifndef UEXT4_TOOLS_PROGRESS_H
#define UEXT4_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool active;             /* a terminal is there */
	bool shown;              /* a line is on it */
	uint64_t files, bytes;
	uint64_t start_ns, next_ns;
};

void progress_start(struct progress *p);
void progress_file(struct progress *p, const char *path);
void progress_bytes(struct progress *p, const char *path, uint64_t bytes);
void progress_clear(struct progress *p); /* before other text, and at the end */

#endif
