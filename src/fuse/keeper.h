/* SPDX-License-Identifier: MIT */
/* keeper.h - a thread that keeps a processor from looking idle */
#ifndef UEXT4_FUSE_KEEPER_H
#define UEXT4_FUSE_KEEPER_H

#include <stdint.h>

struct keeper;

/* Starts the thread, asleep. NULL: no memory, no thread, or it may not have the lowest priority. */
struct keeper *keeper_start(void);
void keeper_stop(struct keeper *keeper); /* NULL: nothing */

/* Keep it up until @until_ns of CLOCK_MONOTONIC. Any thread; costs a store, and a wake-up if it sleeps. */
void keeper_extend(struct keeper *keeper, uint64_t until_ns);

#endif
