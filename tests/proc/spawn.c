/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes of a test; see spawn.h. */
#include "spawn.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_MS 60000
#define MAX_ARGUMENTS 24

extern char **environ;

void child_spawn(struct child *child, ...)
{
	char *argv[MAX_ARGUMENTS + 1] = { NULL };
	posix_spawn_file_actions_t actions;
	int in[2], out[2], n = 0, err;
	va_list ap;

	va_start(ap, child);
	while ((argv[n] = va_arg(ap, char *)))
		cr_assert_lt(++n, MAX_ARGUMENTS);
	va_end(ap);
	memset(child, 0, sizeof(*child));
	cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	err = posix_spawn(&child->pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	cr_assert_eq(err, 0, "%s: %s", argv[0], strerror(err));
	close(in[0]);
	close(out[1]);
	child->in = in[1];
	child->out = out[0];
}

/* The program itself outlives its starter. */
void child_spawn_registry(struct child *child, const char *address)
{
	child_spawn(child, "/usr/bin/setpriv", "--pdeathsig", "KILL",
	    DFI_BIN_DIR "/dfi-registry", "--print-address",
	    address ? "--listen" : NULL, address, NULL);
	cr_assert(child_read(child), "dfi-registry doesn't start");
}

static bool await(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	int ret;

	do
		ret = poll(&pollfd, 1, DEADLINE_MS);
	while (ret < 0 && errno == EINTR);
	return ret == 1;
}

bool child_read(struct child *child)
{
	ssize_t got;
	size_t length;
	char *end;

	while (!(end = memchr(child->buffer, '\n', child->used))) {
		cr_assert_lt(child->used, sizeof(child->buffer));
		cr_assert(await(child->out), "process %d says nothing",
		    (int)child->pid);
		got = read(child->out, child->buffer + child->used,
		    sizeof(child->buffer) - child->used);
		if (got <= 0)
			return false;
		child->used += (size_t)got;
	}
	length = (size_t)(end - child->buffer);
	cr_assert_lt(length, sizeof(child->line));
	memcpy(child->line, child->buffer, length);
	child->line[length] = '\0';
	child->used -= length + 1;
	memmove(child->buffer, end + 1, child->used);
	return true;
}

void child_expect(struct child *child, const char *text)
{
	do
		cr_assert(child_read(child),
		    "process %d ended before it said '%s'; its last words: "
		    "'%s'",
		    (int)child->pid, text, child->line);
	while (strncmp(child->line, text, strlen(text)) != 0);
}

void child_order(struct child *child, char order)
{
	cr_assert_eq(write(child->in, &order, 1), 1);
}

void child_signal(struct child *child, int number)
{
	int status;

	cr_assert_eq(kill(child->pid, number), 0);
	if (number == SIGSTOP) {
		cr_assert_eq(
		    waitpid(child->pid, &status, WUNTRACED), child->pid);
		cr_assert(WIFSTOPPED(status));
	}
}

int child_wait(struct child *child)
{
	int fd = pidfd_open(child->pid, 0), status;

	cr_assert_geq(fd, 0);
	cr_assert(await(fd), "process %d does not end", (int)child->pid);
	close(fd);
	cr_assert_eq(waitpid(child->pid, &status, 0), child->pid);
	close(child->in);
	close(child->out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
