/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork() and what the whole process shares: the child, which has one thread,
 * must find no lock taken by a thread that it does not have.
 */
#ifndef DFI_BASE_FORK_H
#define DFI_BASE_FORK_H

#include <stdbool.h>

enum fork_phase {
	FORK_PREPARE, /* in the thread that forks */
	FORK_PARENT,
	FORK_CHILD,
};

/* A static variable of the file that has such a lock. */
struct fork_hook {
	void (*fn)(enum fork_phase phase);
	_Atomic bool known;
	struct fork_hook *next;
};

/*
 * Before the file's lock is taken: have fn called in each phase of a fork(), to
 * take the lock and to release it. No code that is not the library's may keep
 * the lock from being free: else fork() could wait for itself. false: there is
 * no memory. Any thread, any number of times.
 */
bool dfi__fork_follow(struct fork_hook *hook);

#endif
