/* SPDX-License-Identifier: MIT */
/* recovery_revoke.c - which copies in the log are forbidden to replay (J3) */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "jbd2/recovery_private.h"

#define REVOKES_MIN_ROOM 1024u

void replay_revokes_init(struct replay_revokes *revokes)
{
	*revokes = (struct replay_revokes){ 0 };
	if (getrandom(&revokes->seed, sizeof(revokes->seed), GRND_NONBLOCK) != sizeof(revokes->seed))
		revokes->seed = journal_now_ns();
}

void replay_revokes_exit(struct replay_revokes *revokes)
{
	free(revokes->slots);
	*revokes = (struct replay_revokes){ 0 };
}

/* Multiply and fold twice: every bit of the block number reaches the low bits that choose the slot. */
static uint64_t revoke_hash(uint64_t key, uint64_t seed)
{
	key = (key ^ seed) * UINT64_C(0x9e3779b97f4a7c15);
	key = (key ^ (key >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return key ^ (key >> 32);
}

/* The slot that holds @key, or the free one where it belongs. There is always a free one. */
static struct revoke_slot *revoke_find(const struct replay_revokes *revokes, uint64_t key)
{
	uint64_t mask = revokes->room - 1, i = revoke_hash(key, revokes->seed) & mask;

	while (revokes->slots[i].key && revokes->slots[i].key != key)
		i = (i + 1) & mask;
	return &revokes->slots[i];
}

static int revokes_grow(struct replay_revokes *revokes)
{
	struct replay_revokes bigger = *revokes;

	bigger.room = revokes->room ? revokes->room * 2 : REVOKES_MIN_ROOM;
	bigger.slots = calloc(bigger.room, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (uint64_t i = 0; i < revokes->room; i++)
		if (revokes->slots[i].key)
			*revoke_find(&bigger, revokes->slots[i].key) = revokes->slots[i];
	free(revokes->slots);
	*revokes = bigger;
	return 0;
}

int replay_revokes_add(struct replay_revokes *revokes, fsblk_t blk, tid_t tid)
{
	struct revoke_slot *slot;

	if (revokes->count >= revokes->room / 4 * 3) {
		int err = revokes_grow(revokes);

		if (err)
			return err;
	}
	slot = revoke_find(revokes, blk + 1);
	if (!slot->key) {
		*slot = (struct revoke_slot){ blk + 1, tid };
		revokes->count++;
	} else if (tid_gt(tid, slot->tid)) {
		slot->tid = tid;
	}
	return 0;
}

bool replay_revokes_covers(const struct replay_revokes *revokes, fsblk_t blk, tid_t tid)
{
	const struct revoke_slot *slot;

	if (!revokes->count)
		return false;
	slot = revoke_find(revokes, blk + 1);
	return slot->key && tid_geq(slot->tid, tid);
}

static fsblk_t record_get_blk(const uint8_t *record, uint32_t bytes)
{
	be64 wide;
	be32 narrow;

	if (bytes == sizeof(wide)) {
		memcpy(&wide, record, sizeof(wide));
		return be64_get(wide);
	}
	memcpy(&narrow, record, sizeof(narrow));
	return be32_get(narrow);
}

int replay_revokes_add_block(struct replay_revokes *revokes, const struct journal *j, const uint8_t *block, tid_t tid,
			     uint64_t *seen)
{
	uint32_t record_bytes = j->layout.revoke_bytes;
	struct revoke_header rh;
	const char *rule;
	int err = 0;

	memcpy(&rh, block, sizeof(rh));
	rule = revoke_header_verify(&rh, &j->layout);
	if (rule) {
		log_print(j->params.log, LOG_ERROR, "journal: revoke block of transaction %u: %s", tid, rule);
		return -EUCLEAN;
	}
	for (uint32_t pos = sizeof(rh); !err && pos < be32_get(rh.r_count); pos += record_bytes) {
		fsblk_t blk = record_get_blk(block + pos, record_bytes);

		(*seen)++;
		if (blk < j->params.fs_blocks) /* no other block can be replayed */
			err = replay_revokes_add(revokes, blk, tid);
	}
	return err;
}
