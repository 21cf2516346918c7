/* SPDX-License-Identifier: MIT */
/* commit.h - the commit thread's steps that have files of their own */
#ifndef UEXT4_JBD2_COMMIT_H
#define UEXT4_JBD2_COMMIT_H

struct transaction;

/* refile.c: hands each buffer of @t, durable or lost (t->err), to its checkpoint list and the next transaction. */
void transaction_refile(struct transaction *t);

#endif
