/* SPDX-License-Identifier: MIT */
/* assert.h - assertions about our own code; never about bytes from disk or callers */
#ifndef UEXT4_BASE_ASSERT_H
#define UEXT4_BASE_ASSERT_H

/**
 * assert_failed() - print the failed condition on stderr and abort the process
 * Context: any. Return: never.
 */
_Noreturn void assert_failed(const char *file, int line, const char *func, const char *cond);

/* Stays on in release builds. */
#define UEXT4_ASSERT(cond) \
	(__builtin_expect(!!(cond), 1) ? (void)0 : assert_failed(__FILE__, __LINE__, __func__, #cond))

/* For walks too slow for release builds. */
#ifdef UEXT4_DEBUG
#define UEXT4_DEBUG_ASSERT(cond) UEXT4_ASSERT(cond)
#else
#define UEXT4_DEBUG_ASSERT(cond) ((void)sizeof(cond))
#endif

#endif
