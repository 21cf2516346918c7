/* SPDX-License-Identifier: MIT */
/* test_lock_order.c - a lockcheck build aborts on a violation of the order, and only then */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "unit.h"

/* True if @body aborts; in a child, which the abort ends. */
static bool aborts(void (*body)(void))
{
	struct rlimit no_core = { 0, 0 };
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		setrlimit(RLIMIT_CORE, &no_core);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void take_two(enum lock_rank first, enum lock_rank second)
{
	struct mutex a, b;

	mutex_init(&a, first);
	mutex_init(&b, second);
	mutex_lock(&a);
	mutex_lock(&b);
	mutex_unlock(&a);
	mutex_unlock(&b);
}

static void ascending(void) { take_two(RANK_INODE, RANK_FOLIO); }
static void descending(void) { take_two(RANK_FOLIO, RANK_INODE); }
static void equal_leaves(void) { take_two(RANK_LEAF, RANK_LEAF); }
static void equal_folios(void) { take_two(RANK_FOLIO, RANK_FOLIO); }

static void try_descending(void)
{
	struct mutex a, b;

	mutex_init(&a, RANK_FOLIO);
	mutex_init(&b, RANK_INODE);
	mutex_lock(&a);
	if (!mutex_trylock(&b))
		abort();
}

static void read_then_lower(void)
{
	struct rwsem sem;

	rwsem_init(&sem, RANK_MAP);
	rwsem_read_lock(&sem);
	lock_rank_enter(RANK_HANDLE);
}

static void released_is_forgotten(void)
{
	take_two(RANK_INODE, RANK_FOLIO);
	lock_rank_enter(RANK_RENAME);
}

static void ascending_ranks_pass(void **state) { assert_false(aborts(ascending)); }
static void a_descending_rank_aborts(void **state) { assert_true(aborts(descending)); }
static void equal_ranks_abort(void **state) { assert_true(aborts(equal_leaves)); }
static void equal_folio_ranks_pass(void **state) { assert_false(aborts(equal_folios)); }
static void a_trylock_may_descend(void **state) { assert_false(aborts(try_descending)); }
static void a_read_lock_has_its_rank(void **state) { assert_true(aborts(read_then_lower)); }
static void a_released_rank_is_forgotten(void **state) { assert_false(aborts(released_is_forgotten)); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ascending_ranks_pass),
		cmocka_unit_test(a_descending_rank_aborts),
		cmocka_unit_test(equal_ranks_abort),
		cmocka_unit_test(equal_folio_ranks_pass),
		cmocka_unit_test(a_trylock_may_descend),
		cmocka_unit_test(a_read_lock_has_its_rank),
		cmocka_unit_test(a_released_rank_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
