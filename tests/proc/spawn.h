/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes of a test: started by posix_spawn, spoken to over pipes, and
 * waited for with a deadline. What goes wrong fails the test.
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

/* The arguments, the program first, end with NULL. */
void child_spawn(struct child *child, ...) __attribute__((sentinel));

/*
 * dfi-registry at this address, or, if it is NULL, one of its own choice, which
 * child->line then is. It ends with this process, stopped or not.
 */
void child_spawn_registry(struct child *child, const char *address);

/* Read a line; false at the end of its output. */
bool child_read(struct child *child);

/* Read lines up to one that begins with text. */
void child_expect(struct child *child, const char *text);

void child_tell(struct child *child, char order);

/* Send a signal; SIGSTOP is waited for. */
void child_signal(struct child *child, int number);

/* Wait for its end: the exit status, or 128 + the signal. Closes the pipes. */
int child_wait(struct child *child);

#endif
