/* SPDX-License-Identifier: MIT */
/* broken.h - mistakes to be made on purpose, so that the crash explorer shows that it sees them; none in an ordinary build */
#ifndef UEXT4_BASE_BROKEN_H
#define UEXT4_BASE_BROKEN_H

#include <stdbool.h>
#include <string.h>

enum broken {
	BROKEN_NOTHING,
	BROKEN_NO_FLUSH,    /* "noflush": the commit block may be durable before what it covers (J1) */
	BROKEN_NO_REVOKE,   /* "norevoke": the log has no revoke blocks (J3) */
	BROKEN_NO_WAIT,     /* "nowait": blocks are mapped when they are allocated, and the commit does not wait for their data (W1) */
	BROKEN_EARLY_SIZE,  /* "earlysize": the size on disk is that in memory (S1) */
	BROKEN_LATE_LOG,    /* "latelog": data that goes through the log does so at writeback (L1) */
	BROKEN_KEEP_COPIES, /* "keepcopies": the log keeps data of a file whose data no more goes through it (L4) */
};

#ifdef UEXT4_BROKEN
extern enum broken broken_now;

static inline bool is_broken(enum broken what)
{
	return broken_now == what;
}
#else
#define is_broken(what) false
#endif

#endif
