/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs that judge chaos need to start and watch processes. */
#ifndef DFI_TESTS_CHAOS_RUNNER_H
#define DFI_TESTS_CHAOS_RUNNER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The board's descriptor in the processes, as an argument. */
#define RUNNER_BOARD_FD "3"

int64_t runner_now_ns(void);

/* Sleep between two looks at the processes. */
void runner_pace(void);

/* Print errno, and end this process. */
_Noreturn void runner_die(const char *what);

/* Memory of that size that processes can inherit by *fd. */
void *runner_open_board(size_t size, int *fd);

/* in: its stdin, or -1; out: its stdout, or -1. It inherits the board. */
pid_t runner_spawn(const char *const *argv, int board_fd, int in, int out);

/*
 * When it returns, the registry answers. It ends with this process. state: its
 * directory, or NULL: it forgets all when it ends.
 */
pid_t runner_start_registry(
    const char *address, const char *state, int board_fd);

/* Print where each of a process's threads waits. */
void runner_show_threads(pid_t pid);

#endif
