/* SPDX-License-Identifier: MIT */
/* object.h - memory for small objects that are made by one thread and freed by another */
#ifndef UEXT4_BASE_OBJECT_H
#define UEXT4_BASE_OBJECT_H

#include "base/types.h"

/**
 * object_alloc() - zeroed memory, aligned to 16 bytes
 * @bytes: any; sizes up to OBJECT_BYTES_MAX come from what object_free() got back, if there is some, or from slabs
 *
 * Context: any, also under leaf locks. Never waits for a thread that frees.
 * Return: NULL without memory
 */
void *object_alloc(size_t bytes);

/**
 * object_free() - takes back what object_alloc() gave
 * @object: or NULL
 * @bytes:  as it was allocated
 *
 * Context: any; meant for rcu_defer()'s functions. Never waits for a thread that allocates.
 */
void object_free(void *object, size_t bytes);

/* Gives what is kept back to the system. For the end of a mount: what other mounts allocate meanwhile is not disturbed. */
void objects_trim(void);

#define OBJECT_BYTES_MAX 2048u

#endif
