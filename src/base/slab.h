/* SPDX-License-Identifier: MIT */
/* slab.h - memory for objects of few sizes, from the system in large pieces; object.h stands in front of it */
#ifndef UEXT4_BASE_SLAB_H
#define UEXT4_BASE_SLAB_H

#include "base/types.h"

#define SLAB_CLASS_BYTES 64u /* objects are multiples of it */
#define SLAB_CLASSES     32u /* class c: (c + 1) * SLAB_CLASS_BYTES */

/* A free object's first bytes. */
struct slab_object {
	struct slab_object *next;
};

/* Free objects of one class, of any contents: in a list, and others, not touched yet, one after the other from @at to @end. */
struct slab_run {
	struct slab_object *used;
	uint8_t *at, *end;
};

/**
 * slab_take() - all free objects of one slab, or a new slab
 * @run_out: the objects are the caller's: those it has used to be given back one by one, the rest at once
 *
 * Context: any, also under leaf locks; may call the system for memory.
 * Return: false without memory
 */
bool slab_take(unsigned class, struct slab_run *run_out);

/* Takes back an object. A slab whose objects are all back returns its memory to the system. Context: as slab_take(). */
void slab_give(void *object);

/* Takes back what is left from @run->at on, without touching it. Context: as slab_take(). */
void slab_give_rest(unsigned class, struct slab_run *run);

/* Returns the address space of empty slabs, too. */
void slab_trim(void);

#endif
