/* SPDX-License-Identifier: MIT */
/*
 * full.c - waiting for what the kernel has given back
 *
 * A file is freed when its last name and its last user are gone, and that the kernel tells us in its own time (FORGET), often
 * after it has answered unlink(2) or close(2). Whoever needs just that space should not be told that there is none: while there
 * are files without a name, an operation that finds no room waits a little and tries again. And once more when there are none
 * any more: the last of them may have gone after it looked for room.
 */
#include <errno.h>
#include <time.h>

#include "fuse/loop.h"
#include "fuse/server.h"

#define FULL_TRIES    100u
#define FULL_PAUSE_NS 1000000

bool full_wait(struct server *server, int err, struct full_wait *wait)
{
	struct timespec pause = { .tv_nsec = FULL_PAUSE_NS };
	bool hoped = wait->hope || wait->tries == 0;
	struct uext4_statfs sf;

	if (err != -ENOSPC || ++wait->tries > FULL_TRIES || uext4_statfs(server->fs, &sf))
		return false;
	wait->hope = sf.inodes_orphaned != 0;
	if (!wait->hope)
		return hoped;
	loop_will_wait();
	nanosleep(&pause, NULL);
	return true;
}
