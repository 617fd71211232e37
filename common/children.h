/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that a program starts to work for it, as their leader sees
 * them. The leader watches them while it waits for them, and reports one that
 * fails or dies at once. Children end when their leader does. Only the leader's
 * main thread may start them.
 */
#ifndef COMMON_CHILDREN_H
#define COMMON_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The descriptor of the file that the leader passes to a child. */
#define CHILD_FD 3

/*
 * Make the kernel keep the status of children until they are waited for. It
 * drops the status where SIGCHLD is ignored, as under some supervisors. Both
 * calls that start a child do this; a program that forks by itself calls it
 * first.
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
	bool failed; /* one has failed */
	bool killed; /* the others have been killed */
};

/*
 * Start this program again, with the arguments of argv, and the strings of
 * extra after the first one. extra ends with NULL, or is NULL. fd is open in
 * the child as CHILD_FD, unless it is -1. The child calls child_enter() first.
 * name is for messages ("node 1"). Returns 0, or -1 after a complaint.
 */
int children_spawn(struct children *children, const char *name,
    char *const *argv, char *const *extra, int fd);

/*
 * A program that a leader started calls this in main(): it ends when the leader
 * does.
 */
void child_enter(void);

/*
 * Fork a child that calls run(arg) and exits with its result. A leader that
 * uses flows opens its context only after this.
 */
int children_fork(struct children *children, const char *name,
    int (*run)(void *arg), void *arg);

/*
 * Check which children have ended, without waiting. Returns 0, or -1 once one
 * has failed, after a complaint about it.
 */
int children_check(struct children *children);

/*
 * Wait until all children have ended, and forget them. Those that live longer
 * than grace_ms are killed; -1: no limit until one has failed, after which the
 * others get half a second. Returns 0, or -1 if one has failed or was killed.
 */
int children_end(struct children *children, int32_t grace_ms);

#endif
