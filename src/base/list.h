/* SPDX-License-Identifier: MIT */
/* list.h - intrusive circular doubly linked list */
#ifndef UEXT4_BASE_LIST_H
#define UEXT4_BASE_LIST_H

#include "base/types.h"

/* An anchor points to itself when the list is empty; a node points to itself when it is on no list. */
struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

#define LIST_INIT(name) { &(name), &(name) }

static inline void list_init(struct list_head *l) { l->next = l->prev = l; }
static inline bool list_empty(const struct list_head *l) { return l->next == l; }

static inline void list_insert_between(struct list_head *node, struct list_head *prev,
				       struct list_head *next)
{
	node->prev = prev;
	node->next = next;
	prev->next = node;
	next->prev = node;
}

static inline void list_add(struct list_head *node, struct list_head *head)
{
	list_insert_between(node, head, head->next);
}

static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	list_insert_between(node, head->prev, head);
}

/* Leaves @node as "on no list", so that list_empty(node) tells and a second call is harmless. */
static inline void list_del(struct list_head *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

static inline void list_move(struct list_head *node, struct list_head *head)
{
	list_del(node);
	list_add(node, head);
}

static inline void list_move_tail(struct list_head *node, struct list_head *head)
{
	list_del(node);
	list_add_tail(node, head);
}

/* Moves everything on @from to the end of @to; @from is empty afterwards. */
static inline void list_splice_tail(struct list_head *from, struct list_head *to)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first(head, type, member) list_entry((head)->next, type, member)
#define list_last(head, type, member)  list_entry((head)->prev, type, member)

/* The node of @pos, which at the end of a walk is the head and no entry: not even its alignment may be taken for granted. */
#define list_node(pos, member) ((struct list_head *)(void *)((char *)(pos) + offsetof(__typeof__(*(pos)), member)))

#define list_for_each(pos, head, member)                                                                 \
	for (pos = list_entry((head)->next, __typeof__(*pos), member); list_node(pos, member) != (head); \
	     pos = list_entry(list_node(pos, member)->next, __typeof__(*pos), member))

/* The body may remove @pos from the list. */
#define list_for_each_safe(pos, tmp, head, member)                                      \
	for (pos = list_entry((head)->next, __typeof__(*pos), member),                  \
	    tmp = list_entry(list_node(pos, member)->next, __typeof__(*pos), member);   \
	     list_node(pos, member) != (head);                                          \
	     pos = tmp, tmp = list_entry(list_node(tmp, member)->next, __typeof__(*tmp), member))

#endif
