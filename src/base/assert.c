/* SPDX-License-Identifier: MIT */
/* assert.c - the last words of a process that has found a bug of its own */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void assert_failed(const char *file, int line, const char *func, const char *cond)
{
	fprintf(stderr, "uext4: %s:%d: %s: assertion failed: %s\n", file, line, func, cond);
	abort();
}
