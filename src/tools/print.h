/* SPDX-License-Identifier: MIT */
/* print.h - attributes as text and as JSON */
#ifndef UEXT4_TOOLS_PRINT_H
#define UEXT4_TOOLS_PRINT_H

#include "tools/tool.h"

#define MODE_TEXT_BYTES 11
void mode_text(uint32_t mode, char text[MODE_TEXT_BYTES]); /* "drwxr-xr-x" */
const char *type_name(uint32_t mode);                      /* "regular file" */
#define TIME_TEXT_BYTES 48
void time_text(struct timespec t, bool with_ns, char text[TIME_TEXT_BYTES]); /* local time */
#define SIZE_TEXT_BYTES 24
void size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES]); /* "1.5M", as df -h */

/* Quoted. Bytes that are no UTF-8 become \udcXX, as Python's surrogateescape reads and writes them. */
void json_string(const char *s);
void json_bytes(const void *bytes, size_t len);
/* "ino":..,"type":.. and so on, without braces. */
void json_attr(const struct uext4_attr *attr);

#endif
