/* SPDX-License-Identifier: MIT */
/* xattrs.c - all extended attributes of a node */
#include "tools/xattrs.h"

#include <stdlib.h>
#include <string.h>

static int one_xattr(struct tool *tool, uext4_ino ino, const char *name,
		     void (*each)(void *arg, const char *name, const void *value, size_t len), void *arg)
{
	ssize_t len = uext4_node_getxattr(tool->fs, NULL, ino, name, NULL, 0);
	void *value;

	if (len < 0)
		return (int)len;
	value = tool_alloc((size_t)len);
	if (len > 0)
		len = uext4_node_getxattr(tool->fs, NULL, ino, name, value, (size_t)len);
	if (len >= 0)
		each(arg, name, value, (size_t)len);
	free(value);
	return len < 0 ? (int)len : 0;
}

int xattrs_each(struct tool *tool, uext4_ino ino,
		void (*each)(void *arg, const char *name, const void *value, size_t len), void *arg)
{
	ssize_t bytes = uext4_node_listxattr(tool->fs, NULL, ino, NULL, 0);
	int first_err = 0;
	char *names;

	if (bytes <= 0)
		return (int)bytes;
	names = tool_alloc((size_t)bytes);
	bytes = uext4_node_listxattr(tool->fs, NULL, ino, names, (size_t)bytes);
	if (bytes < 0)
		first_err = (int)bytes;
	for (char *name = names; name < names + bytes; name += strlen(name) + 1) {
		int err = one_xattr(tool, ino, name, each, arg);

		if (!first_err)
			first_err = err;
	}
	free(names);
	return first_err;
}
