/* SPDX-License-Identifier: MIT */
/* rounds.h - how often a test of one thread repeats itself */
#ifndef UEXT4_TESTS_UNIT_BASE_ROUNDS_H
#define UEXT4_TESTS_UNIT_BASE_ROUNDS_H

/*
 * ThreadSanitizer looks at threads, and is ten times slower. A test that has no other threads than the library's shows it
 * all there is in an eighth of its rounds; the other builds run them all.
 */
#ifdef UEXT4_TSAN
#define SERIAL_ROUNDS(n) ((n) / 8)
#define SERIAL_LIMITS 0 /* tests that do nothing but count up to a large limit of the format are skipped */
#else
#define SERIAL_ROUNDS(n) (n)
#define SERIAL_LIMITS 1
#endif

#endif
