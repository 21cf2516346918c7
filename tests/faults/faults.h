/* SPDX-License-Identifier: MIT */
/*
 * faults.h - the fault sweep: each request of a workload fails in turn, and what was promised is held
 *
 * A workload runs, mount and unmount included, on a device that fails one request, or cuts it short, or tears it, or fails
 * all from that one on. Whatever comes of it:
 *
 * F1  Nothing crashes, nothing hangs.
 * F2  What fsync, sync, O_SYNC or the unmount reported as done is there after recovery: the rules C1 to C3 of crash.h. Data
 *     whose loss was told by an error is not promised, but shows nothing that was never in the file, other than zeros.
 * F3  An error while writing the log aborts the journal: the file system is read-only from then on, changes get EROFS, and
 *     the unmount fails.
 * F4  The image mounts and recovers, and then `e2fsck -fn` is content. Without a journal this holds where the unmount
 *     succeeded; else what was promised is there after `e2fsck -fy`. A bitmap that could not be read, the second time
 *     either, may leave blocks and inodes that belong to nobody, and the superblock says so: there too.
 *
 * F2 and F4 are asked of the device as it is, and of what a power cut after the end leaves, when all that was not
 * flushed is lost.
 */
#ifndef UEXT4_TESTS_FAULTS_FAULTS_H
#define UEXT4_TESTS_FAULTS_FAULTS_H

#include "../crash/crash.h"
#include "block/fault.h"

/*
 * What requests a case is about: writes to the log, in front of it, behind it, to the block of the superblock; or any write
 * or flush, the first of a device that fails from there on.
 */
enum target { TARGET_READ, TARGET_FLUSH, TARGET_LOG, TARGET_FRONT, TARGET_BACK, TARGET_SUPER, TARGET_DEVICE, TARGETS };

enum fate_of_request { FATE_FAILS, FATE_FAILS_TWICE, FATE_CUT_SHORT, FATE_TORN_APART, FATE_ALL_FAIL, FATES };

/* Is it tried? A torn superblock is not: crash.h says why. */
bool sweep_tries(enum target target, enum fate_of_request fate);

extern const char *const target_names[TARGETS];
extern const char *const fate_names[FATES];

struct sweep_case {
	unsigned workload;
	enum target target;
	enum fate_of_request fate;
	uint64_t nth;            /* from 1; 0: nothing fails */
};

/* What the run without a fault did. */
struct sweep_expected {
	uint64_t requests[TARGETS];
	int results[WORKLOAD_OPS_MAX + 1];
};

struct sweep {
	const struct base *base;
	struct image live, image;
	bool verbose;
	const char *keep;        /* a folder for the images of violations, or NULL */
};

extern const unsigned sweep_workloads;

/* The workload starts from an image that has to be recovered: faults of recovery. */
#define FORMAT_CRASHED 0x100u
bool sweep_has_workload(const struct format *format, unsigned workload);

int sweep_open(struct sweep *sweep);
/* What is on the device after the first workload, without an unmount. NULL or what was wrong. */
const char *sweep_crash(struct sweep *sweep, uint8_t *bytes_out);
/* Runs a workload without a fault. NULL or what was wrong. */
const char *sweep_expect(struct sweep *sweep, unsigned workload, struct sweep_expected *out);
/* NULL, or what was wrong (static). *hit_out: some request did fail. */
const char *sweep_case(struct sweep *sweep, const struct sweep_case *c, const struct sweep_expected *expected, bool *hit_out);

#endif
