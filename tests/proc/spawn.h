/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes of a test: started by posix_spawn, connected by pipes, and
 * awaited with a deadline. Errors fail the test.
 */
#ifndef DFI_TESTS_SPAWN_H
#define DFI_TESTS_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	int in;  /* its stdin */
	int out; /* its stdout */
	char buffer[4096];
	size_t used;
	char line[1024]; /* the last one read */
};

/* The arguments begin with the program; NULL ends them. */
void child_spawn(struct child *child, ...) __attribute__((sentinel));

/*
 * Start dfi-registry at this address. NULL: the registry chooses one, which is
 * then in child->line. It ends with this process, even if it is stopped.
 */
void child_spawn_registry(struct child *child, const char *address);

/* Read a line; false at the end of its output. */
bool child_read(struct child *child);

/* Read lines up to one that begins with text. */
void child_expect(struct child *child, const char *text);

void child_order(struct child *child, char order);

/* Send a signal; waits until SIGSTOP takes effect. */
void child_signal(struct child *child, int number);

/*
 * Wait until it ends. Returns the exit status, or 128 + the signal. Closes the
 * pipes.
 */
int child_wait(struct child *child);

#endif
