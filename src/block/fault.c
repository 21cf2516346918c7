/* SPDX-License-Identifier: MIT */
/* fault.c - a device that fails, cuts short, tears, loses or delays chosen requests */
#include "block/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/lock.h"
#include "block/block_private.h"
#include "block/iov.h"
#include "block/random.h"

#define SECTOR_BYTES 512u
#define OP_COUNT     (BIO_WRITE_ZEROES + 1)
#define NSEC_PER_SEC UINT64_C(1000000000)

struct fault_rule_node {
	struct list_head node;
	struct fault_rule rule;   /* [const] */
	uint64_t matched;         /* [lock] requests that matched so far */
};

struct fault_device {
	struct block_device dev;
	struct block_device *lower;  /* [const] owned */
	/*
	 * One thread waits for deadlines in the order of submission: requests with the same delay overlap as they
	 * would on a slow device.
	 */
	struct workqueue *late;      /* [const] */
	struct mutex lock;
	struct list_head rules;      /* [lock] */
	struct random rnd;           /* [lock] */
	uint64_t hits;               /* [lock] */
	uint64_t requests[OP_COUNT]; /* [lock] */
};

/* A request on its way through a rule. */
struct fault_call {
	struct work work;
	struct bio *bio;
	struct fault_rule rule;
	struct random rnd;
	uint64_t deadline_ns;
};

static struct fault_device *fault_of(struct block_device *dev)
{
	return container_of(dev, struct fault_device, dev);
}

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void sleep_until(uint64_t deadline_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / NSEC_PER_SEC),
			       .tv_nsec = (long)(deadline_ns % NSEC_PER_SEC) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static bool rule_matches(const struct fault_rule *rule, const struct bio *bio)
{
	if (!(rule->ops & FAULT_OP(bio->op)))
		return false;
	if (!rule->len_bytes)
		return true;
	return bio->op != BIO_FLUSH && bio->pos_bytes < rule->start_bytes + rule->len_bytes &&
	       rule->start_bytes < bio->pos_bytes + bio->len_bytes;
}

static bool rule_hits(struct fault_device *fault, struct fault_rule_node *node)
{
	const struct fault_rule *rule = &node->rule;

	node->matched++;
	if (!rule->nth)
		return random_below(&fault->rnd, 1000000) < rule->chance_ppm;
	return node->matched >= rule->nth && (!rule->count || node->matched - rule->nth < rule->count);
}

/* True if a rule acts on @bio; then *rule_out and *seed_out say how. */
static bool fault_decide(struct fault_device *fault, const struct bio *bio, struct fault_rule *rule_out, uint64_t *seed_out)
{
	struct fault_rule_node *node;
	bool hit = false;

	mutex_lock(&fault->lock);
	fault->requests[bio->op]++;
	list_for_each(node, &fault->rules, node) {
		if (!rule_matches(&node->rule, bio) || !rule_hits(fault, node))
			continue;
		*rule_out = node->rule;
		*seed_out = random_next(&fault->rnd);
		fault->hits++;
		hit = true;
		break;
	}
	mutex_unlock(&fault->lock);
	return hit;
}

static void fault_pass(struct fault_device *fault, struct bio *bio)
{
	struct bio_clone *clone = bio_clone_alloc(bio, fault->lower, bio_clone_end);

	if (clone)
		block_submit(&clone->bio);
	else
		bio->end_io(bio, -ENOMEM);
}

/* Part of a read or write, on this thread, through a copy. */
static int fault_do_part(struct fault_device *fault, struct bio *bio, uint64_t from_bytes, uint64_t len_bytes)
{
	struct iov_cursor cur = iov_cursor_make(bio->iov, bio->iov_count, from_bytes);
	void *buf;
	int err;

	if (!len_bytes)
		return 0;
	if (posix_memalign(&buf, 4096, len_bytes))
		return -ENOMEM;
	if (bio->op == BIO_WRITE) {
		iov_copy_from(&cur, buf, len_bytes);
		err = block_write(fault->lower, bio->pos_bytes + from_bytes, buf, len_bytes, 0);
	} else {
		err = block_read(fault->lower, bio->pos_bytes + from_bytes, buf, len_bytes);
		if (!err)
			iov_copy_to(&cur, buf, len_bytes);
	}
	free(buf);
	return err;
}

static int fault_do_short(struct fault_device *fault, struct bio *bio)
{
	uint64_t half = round_down_to(bio->len_bytes / 2, (uint64_t)SECTOR_BYTES);

	switch (bio->op) {
	case BIO_READ:
	case BIO_WRITE:
		return fault_do_part(fault, bio, 0, half);
	case BIO_DISCARD:
		return block_discard(fault->lower, bio->pos_bytes, half);
	case BIO_WRITE_ZEROES:
		return block_write_zeroes(fault->lower, bio->pos_bytes, half);
	case BIO_FLUSH:
		return 0;
	}
	return 0;
}

static int fault_do_torn(struct fault_device *fault, struct bio *bio, struct random *rnd)
{
	int err = 0;

	for (uint64_t from = 0; from < bio->len_bytes && !err; from += SECTOR_BYTES) {
		if (random_below(rnd, 2))
			err = fault_do_part(fault, bio, from, min_of(bio->len_bytes - from, (uint64_t)SECTOR_BYTES));
	}
	return err;
}

/* On the late thread: it may wait for the lower device. */
static void fault_work(struct work *work)
{
	struct fault_call *call = container_of(work, struct fault_call, work);
	struct bio *bio = call->bio;
	struct fault_device *fault = fault_of(bio->dev);
	struct fault_rule rule = call->rule;
	struct random rnd = call->rnd;
	int err = 0;

	sleep_until(call->deadline_ns);
	free(call);
	switch (rule.action) {
	case FAULT_FAIL:
		break;
	case FAULT_DELAY:
		fault_pass(fault, bio);
		return;
	case FAULT_TEAR:
		err = bio->op == BIO_WRITE ? fault_do_torn(fault, bio, &rnd) : fault_do_short(fault, bio);
		break;
	case FAULT_SHORT:
		err = fault_do_short(fault, bio);
		break;
	}
	bio->end_io(bio, err ? err : rule.err);
}

static void fault_submit(struct block_device *dev, struct bio *bio)
{
	struct fault_device *fault = fault_of(dev);
	struct fault_call *call;
	struct fault_rule rule;
	uint64_t seed;

	if (!fault_decide(fault, bio, &rule, &seed)) {
		fault_pass(fault, bio);
		return;
	}
	call = malloc(sizeof(*call));
	if (!call) {
		bio->end_io(bio, -ENOMEM);
		return;
	}
	work_init(&call->work, fault_work);
	call->bio = bio;
	call->rule = rule;
	call->rnd = random_make(seed);
	call->deadline_ns = clock_ns() + rule.delay_ns;
	workqueue_add(fault->late, &call->work);
}

static void fault_plug(struct block_device *dev)
{
	block_plug(fault_of(dev)->lower);
}

static void fault_unplug(struct block_device *dev)
{
	block_unplug(fault_of(dev)->lower);
}

static int fault_close(struct block_device *dev)
{
	struct fault_device *fault = fault_of(dev);
	int err;

	workqueue_stop(fault->late);
	err = block_close(fault->lower);
	fault_clear_rules(dev);
	mutex_exit(&fault->lock);
	free(fault);
	return err;
}

static const struct block_device_ops fault_ops = {
	.name = "fault",
	.submit = fault_submit,
	.plug = fault_plug,
	.unplug = fault_unplug,
	.close = fault_close,
};

int block_open_fault(struct block_device *lower, uint64_t seed, struct block_device **dev_out)
{
	struct fault_device *fault = calloc(1, sizeof(*fault));
	int err;

	if (!fault)
		return -ENOMEM;
	err = workqueue_start("uext4-fault", 1, &fault->late);
	if (err) {
		free(fault);
		return err;
	}
	fault->lower = lower;
	fault->dev = *lower;
	fault->dev.ops = &fault_ops;
	fault->rnd = random_make(seed);
	lower->counters = NULL;
	mutex_init(&fault->lock, RANK_DEVICE);
	list_init(&fault->rules);
	*dev_out = &fault->dev;
	return 0;
}

int fault_add_rule(struct block_device *dev, const struct fault_rule *rule)
{
	struct fault_device *fault = fault_of(dev);
	struct fault_rule_node *node = calloc(1, sizeof(*node));

	if (!node)
		return -ENOMEM;
	node->rule = *rule;
	mutex_lock(&fault->lock);
	list_add_tail(&node->node, &fault->rules);
	mutex_unlock(&fault->lock);
	return 0;
}

void fault_clear_rules(struct block_device *dev)
{
	struct fault_device *fault = fault_of(dev);
	struct fault_rule_node *node, *tmp;

	mutex_lock(&fault->lock);
	list_for_each_safe(node, tmp, &fault->rules, node) {
		list_del(&node->node);
		free(node);
	}
	mutex_unlock(&fault->lock);
}

uint64_t fault_hits(struct block_device *dev)
{
	struct fault_device *fault = fault_of(dev);
	uint64_t hits;

	mutex_lock(&fault->lock);
	hits = fault->hits;
	mutex_unlock(&fault->lock);
	return hits;
}

uint64_t fault_requests(struct block_device *dev, enum bio_op op)
{
	struct fault_device *fault = fault_of(dev);
	uint64_t requests;

	mutex_lock(&fault->lock);
	requests = fault->requests[op];
	mutex_unlock(&fault->lock);
	return requests;
}
