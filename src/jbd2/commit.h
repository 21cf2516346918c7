/* SPDX-License-Identifier: MIT */
/* commit.h - the steps of a commit that have files of their own */
#ifndef UEXT4_JBD2_COMMIT_H
#define UEXT4_JBD2_COMMIT_H

struct transaction;

/* refile.c: hands each buffer of @t, durable or lost (t->err), to its checkpoint list and the next transaction. */
void transaction_refile(struct transaction *t);

/* data_wait.c: the I/O that was left to the commit goes out. All handles have ended. */
void commit_issue_data(struct transaction *t);

#endif
