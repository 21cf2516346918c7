/* SPDX-License-Identifier: MIT */
/* xattrs.h - all extended attributes of a node */
#ifndef UEXT4_TOOLS_XATTRS_H
#define UEXT4_TOOLS_XATTRS_H

#include "tools/tool.h"

/* Calls @each for every attribute. First error of reading one. */
int xattrs_each(struct tool *tool, uext4_ino ino,
		void (*each)(void *arg, const char *name, const void *value, size_t len), void *arg);

#endif
