/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that a program starts to work for it, as their leader sees
 * them. The leader waits for as long as they live and looks after them while it
 * waits; a child that fails or dies is told at once. Children end when their
 * leader does. Only the leader's main thread may start them.
 */
#ifndef COMMON_CHILDREN_H
#define COMMON_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where a child finds the descriptor that its leader passes. */
#define CHILD_FD 3

/*
 * Have the kernel keep how a child ended until it is waited for, which it does
 * not where SIGCHLD is ignored, as some supervisors leave it. Both calls that
 * start a child do this; a program that forks by itself calls it first.
 */
void children_keep_ends(void);

struct child {
	pid_t pid; /* 0: it has ended */
	char name[32];
};

/* All zero: none yet. */
struct children {
	struct child *list;
	uint32_t n, n_running;
	bool failed; /* one has ended badly */
	bool killed; /* those that were left have been killed */
};

/*
 * Start this program again, with the arguments of argv and, right after the
 * first of them, those of extra, a list that ends with NULL; or NULL. fd is
 * open in the child as CHILD_FD, unless it is -1. The child calls child_enter()
 * first. name is for messages ("node 1"). 0, or -1 after a complaint.
 */
int children_spawn(struct children *children, const char *name,
    char *const *argv, char *const *extra, int fd);

/* In main() of a program whose leader started it: end when the leader ends. */
void child_enter(void);

/*
 * Fork a child that calls run(arg) and exits with what it returns. A leader
 * that uses flows has to open its context later than this.
 */
int children_fork(struct children *children, const char *name,
    int (*run)(void *arg), void *arg);

/*
 * Look which children have ended, without waiting. 0, or -1 once one has ended
 * badly, of which this complains.
 */
int children_check(struct children *children);

/*
 * Wait for all to end. Those that live longer than grace_ms are killed; -1: no
 * limit, until one has ended badly, after which the others get half a second.
 * 0, or -1 if one ended badly or was killed. The children are then none again.
 */
int children_end(struct children *children, int32_t grace_ms);

#endif
