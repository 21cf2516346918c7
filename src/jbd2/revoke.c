/* SPDX-License-Identifier: MIT */
/*
 * revoke.c - the set of blocks revoked in one transaction
 *
 * Open addressing with linear probing; removal moves the rest of the cluster back, so there are no tombstones and a
 * probe never runs past an empty slot.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jbd2/jbd2_private.h"

#define REVOKE_ROOM_MIN 64u

static uint32_t slot_of(const struct revoke_table *table, fsblk_t blk)
{
	return (uint32_t)((blk * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (table->room - 1);
}

/* The slot of @blk, or the empty one where it belongs. */
static uint32_t revoke_table_find(const struct revoke_table *table, fsblk_t blk)
{
	uint32_t i = slot_of(table, blk);

	while (table->slots[i] && table->slots[i] != blk)
		i = (i + 1) & (table->room - 1);
	return i;
}

static int revoke_table_grow(struct revoke_table *table)
{
	struct revoke_table larger = { .room = table->room ? table->room * 2 : REVOKE_ROOM_MIN };

	if (table->room > UINT32_MAX / 2)
		return -ENOMEM;
	larger.slots = calloc(larger.room, sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->room; i++)
		if (table->slots[i])
			larger.slots[revoke_table_find(&larger, table->slots[i])] = table->slots[i];
	free(table->slots);
	table->slots = larger.slots;
	table->room = larger.room;
	return 0;
}

int revoke_table_insert(struct transaction *t, fsblk_t blk)
{
	struct revoke_table *table = &t->revokes;
	uint32_t count, i;
	int err = 0;

	mutex_lock(&t->lock);
	count = atomic_load_explicit(&table->count, memory_order_relaxed);
	if (count >= table->room / 2)
		err = revoke_table_grow(table);
	if (!err) {
		i = revoke_table_find(table, blk);
		if (!table->slots[i]) {
			table->slots[i] = blk;
			atomic_store_explicit(&table->count, count + 1, memory_order_release);
		}
	}
	mutex_unlock(&t->lock);
	return err;
}

/* Is slot @home within the cyclic range (hole, at]? Then what lies at @at must stay. */
static bool is_between(uint32_t hole, uint32_t home, uint32_t at)
{
	return hole < at ? hole < home && home <= at : hole < home || home <= at;
}

void revoke_table_remove(struct transaction *t, fsblk_t blk)
{
	struct revoke_table *table = &t->revokes;
	uint32_t hole, at, mask;

	mutex_lock(&t->lock);
	mask = table->room - 1;
	hole = table->room ? revoke_table_find(table, blk) : 0;
	if (!table->room || !table->slots[hole]) {
		mutex_unlock(&t->lock);
		return;
	}
	for (at = (hole + 1) & mask; table->slots[at]; at = (at + 1) & mask) {
		if (is_between(hole, slot_of(table, table->slots[at]), at))
			continue;
		table->slots[hole] = table->slots[at];
		hole = at;
	}
	table->slots[hole] = 0;
	atomic_fetch_sub_explicit(&table->count, 1, memory_order_release);
	mutex_unlock(&t->lock);
}

void revoke_table_exit(struct revoke_table *table)
{
	free(table->slots);
	table->slots = NULL;
	table->room = 0;
}
