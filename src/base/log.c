/* SPDX-License-Identifier: MIT */
/* log.c - formats a message and hands it to the sink */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#define LOG_TEXT_BYTES 1024

void log_print(const struct log_sink *sink, enum log_level level, const char *fmt, ...)
{
	char text[LOG_TEXT_BYTES];
	va_list args;

	if (!sink || !sink->func)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sink->func(sink->arg, level, text);
}
