/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of others, run as children on the processor of the thread that
 * starts them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rival.h"

/* In the child. */
static void run_program(const char *const *argv, int out)
{
	sigset_t none;
	int nowhere = open("/dev/null", O_RDWR);

	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(nowhere, 0);
	dup2(out, 1);
	dup2(nowhere, 2);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

int rival_start(struct rival_program *program, const char *const *argv)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	program->pid = fork();
	if (program->pid == 0)
		run_program(argv, ends[1]);
	close(ends[1]);
	program->out = ends[0];
	if (program->pid > 0)
		return 0;
	program->pid = 0;
	close(ends[0]);
	return -1;
}

static bool has_ended_well(struct rival_program *program)
{
	int status = -1;
	pid_t pid = program->pid;

	program->pid = 0;
	close(program->out);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

bool rival_read(
    struct rival_program *program, const char *until, char *text, size_t size)
{
	size_t used = 0;
	ssize_t n;

	while (used + 1 < size &&
	    (n = read(program->out, text + used, size - 1 - used)) > 0) {
		used += (size_t)n;
		text[used] = '\0';
		if (until && strstr(text, until))
			return true;
	}
	text[used] = '\0';
	return has_ended_well(program) && !until;
}

void rival_stop(struct rival_program *program)
{
	if (!program->pid)
		return;
	kill(program->pid, SIGKILL);
	(void)has_ended_well(program);
}

const char *rival_first_line(const char *const *argv, char *line, size_t size)
{
	struct rival_program program;
	char text[4096];

	if (rival_start(&program, argv) < 0 ||
	    !rival_read(&program, NULL, text, sizeof(text)))
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	text[size - 1] = '\0';
	return strcpy(line, text);
}
