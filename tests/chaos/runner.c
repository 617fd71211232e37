/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of a run of chaos; see runner.h. */
#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int64_t runner_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void runner_pace(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

_Noreturn void runner_die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
	    strerror(errno));
	exit(EXIT_FAILURE);
}

void *runner_open_board(size_t size, int *fd)
{
	void *board;

	*fd = memfd_create("chaos", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, (off_t)size) < 0)
		runner_die("memfd");
	board = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (board == MAP_FAILED)
		runner_die("mmap");
	return board;
}

pid_t runner_spawn(const char *const *argv, int board_fd, int in, int out)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int err;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(
	    &actions, board_fd, atoi(RUNNER_BOARD_FD));
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	err = posix_spawn(&pid, argv[0], &actions, NULL,
	    (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	errno = err;
	if (err)
		runner_die(argv[0]);
	return pid;
}

/* The registry prints its address when it answers. */
pid_t runner_start_registry(
    const char *address, const char *state, int board_fd)
{
	const char *key = getenv("DFI_REGISTRY_KEY");
	const char *const argv[] = { "/usr/bin/setpriv", "--pdeathsig", "KILL",
		DFI_BIN_DIR "/dfi-registry", "--listen", address,
		"--print-address",
		state     ? "--state"
		    : key ? "--key"
			  : NULL,
		state ? state : key, state && key ? "--key" : NULL, key, NULL };
	char line[128];
	int out[2];
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		runner_die("pipe");
	pid = runner_spawn(argv, board_fd, -1, out[1]);
	close(out[1]);
	if (read(out[0], line, sizeof(line)) <= 0)
		runner_die("the registry does not start");
	close(out[0]);
	return pid;
}

void runner_show_threads(pid_t pid)
{
	char command[128];

	snprintf(command, sizeof(command),
	    "cd /proc/%d/task && head -v */comm */wchan */syscall", (int)pid);
	fflush(stdout);
	if (system(command))
		printf("process %d can't be looked at\n", (int)pid);
}
