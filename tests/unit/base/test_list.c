/* SPDX-License-Identifier: MIT */
/* test_list.c - order and emptiness of lists */
#include "base/list.h"
#include "unit.h"

struct item {
	int value;
	struct list_head node;
};

static void expect_values(struct list_head *head, const int *values, unsigned count)
{
	struct item *item;
	unsigned i = 0;

	list_for_each(item, head, node) {
		assert_in_range(i, 0, count - 1);
		assert_int_equal(item->value, values[i++]);
	}
	assert_int_equal(i, count);
}

static void add_puts_first_and_add_tail_last(void **state)
{
	struct item a = { 1 }, b = { 2 }, c = { 3 };
	struct list_head head = LIST_INIT(head);

	list_add(&b.node, &head);
	list_add(&a.node, &head);
	list_add_tail(&c.node, &head);
	expect_values(&head, (int[]){ 1, 2, 3 }, 3);
	assert_ptr_equal(list_first(&head, struct item, node), &a);
	assert_ptr_equal(list_last(&head, struct item, node), &c);
}

static void a_removed_node_says_so_and_may_be_removed_again(void **state)
{
	struct item a = { 1 }, b = { 2 };
	struct list_head head = LIST_INIT(head);

	list_add_tail(&a.node, &head);
	list_add_tail(&b.node, &head);
	list_del(&a.node);
	assert_true(list_empty(&a.node));
	list_del(&a.node);
	expect_values(&head, (int[]){ 2 }, 1);
}

static void splice_appends_in_order_and_empties_its_source(void **state)
{
	struct item a = { 1 }, b = { 2 }, c = { 3 };
	struct list_head to = LIST_INIT(to), from = LIST_INIT(from);

	list_add_tail(&a.node, &to);
	list_add_tail(&b.node, &from);
	list_add_tail(&c.node, &from);
	list_splice_tail(&from, &to);
	assert_true(list_empty(&from));
	expect_values(&to, (int[]){ 1, 2, 3 }, 3);
	list_splice_tail(&from, &to);
	expect_values(&to, (int[]){ 1, 2, 3 }, 3);
}

static void the_safe_walk_lets_its_body_remove(void **state)
{
	struct item items[4] = { { 0 }, { 1 }, { 2 }, { 3 } };
	struct list_head head = LIST_INIT(head);
	struct item *item, *tmp;

	for (int i = 0; i < 4; i++)
		list_add_tail(&items[i].node, &head);
	list_for_each_safe(item, tmp, &head, node) {
		if (item->value % 2)
			list_del(&item->node);
	}
	expect_values(&head, (int[]){ 0, 2 }, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add_puts_first_and_add_tail_last),
		cmocka_unit_test(a_removed_node_says_so_and_may_be_removed_again),
		cmocka_unit_test(splice_appends_in_order_and_empties_its_source),
		cmocka_unit_test(the_safe_walk_lets_its_body_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
