/* SPDX-License-Identifier: MIT */
/* log.h - where messages go: a callback of the embedding program; the library prints nothing itself */
#ifndef UEXT4_BASE_LOG_H
#define UEXT4_BASE_LOG_H

#include "base/types.h"

enum log_level { LOG_ERROR = 3, LOG_WARNING = 4, LOG_INFO = 6, LOG_DEBUG = 7 }; /* syslog's numbers */

struct log_sink {
	void (*func)(void *arg, int level, const char *text); /* any thread; NULL: dropped */
	void *arg;
};

/* @text gets no newline at its end. At most 1023 bytes; longer text is cut. */
void log_print(const struct log_sink *sink, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
