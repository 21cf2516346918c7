/* SPDX-License-Identifier: MIT */
/* overlay.h - copy on write in memory over a device that stays untouched */
#ifndef UEXT4_BLOCK_OVERLAY_H
#define UEXT4_BLOCK_OVERLAY_H

#include "block/block.h"

/**
 * block_open_overlay() - a writable device over @lower, which is only read
 * @lower:   may be read-only; owned by the overlay from then on
 *
 * Written sectors are kept in memory, so that memory grows with what is written, in chunks of 4 KiB; zeroed
 * ranges cost a pointer per chunk. A discard is accepted and ignored. With it the journal of a dirty
 * image is replayed without touching the file.
 *
 * Return: 0 or -ENOMEM
 */
int block_open_overlay(struct block_device *lower, struct block_device **dev_out);

uint64_t overlay_bytes(struct block_device *dev); /* of memory that hold written sectors */

#endif
