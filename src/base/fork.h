/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork() and state of the whole process. The child has one thread, so it must
 * find no lock that another thread of the parent holds.
 */
#ifndef DFI_BASE_FORK_H
#define DFI_BASE_FORK_H

#include <stdbool.h>

enum fork_phase {
	FORK_PREPARE, /* in the forking thread, before the fork */
	FORK_PARENT,
	FORK_CHILD,
};

/* A static variable of a file that has such a lock. */
struct fork_hook {
	void (*fn)(enum fork_phase phase);
	_Atomic bool added;
	struct fork_hook *next;
};

/*
 * Have fn called in each phase of a fork(), to take the file's lock and to
 * release it. Call this before taking that lock. Never call the application's
 * code with the lock held: fork() could wait for itself. false: there is no
 * memory. Any thread, any number of times.
 */
bool dfi__fork_follow(struct fork_hook *hook);

#endif
