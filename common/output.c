/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked standard output: stdout becomes a stream with a write function of
 * ours, as stdio's own drops what a non-blocking descriptor does not take.
 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"

#define BUFFER_SIZE 65536

void output_end_quietly(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	raise(SIGPIPE);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	_exit(EXIT_FAILURE); /* not reached */
}

static void fail(void)
{
	if (errno == EPIPE)
		output_end_quietly();
	complain("cannot write all of the output to standard output: %s",
	    strerror(errno));
	/* exit() may be running already. */
	_exit(EXIT_FAILURE);
}

static ssize_t write_out(void *cookie, const char *data, size_t size)
{
	(void)cookie;
	if (write_all(STDOUT_FILENO, data, size))
		fail();
	return (ssize_t)size;
}

void output_flush(void)
{
	if (fflush(stdout))
		fail();
}

/* Some file systems report only on close that there was no room. */
static void finish(void)
{
	output_flush();
	if (close(STDOUT_FILENO) && errno != EINTR)
		fail();
}

/* Use of a standard descriptor that was closed remains an error. */
static void take_closed(int fd)
{
	int got;

	if (fcntl(fd, F_GETFD) >= 0)
		return;
	got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
	if (got >= 0 && got != fd) {
		dup2(got, fd);
		close(got);
	}
}

void output_open(void)
{
	static const cookie_io_functions_t functions = { .write = write_out };
	FILE *checked;
	int fd;

	/* A limit of the file size must cause an error, not a signal. */
	signal(SIGXFSZ, SIG_IGN);
	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		take_closed(fd);
	checked = fopencookie(NULL, "w", functions);
	if (!checked ||
	    setvbuf(checked, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF,
		BUFFER_SIZE) ||
	    atexit(finish)) {
		complain("no memory for standard output");
		_exit(EXIT_FAILURE);
	}
	stdout = checked;
}
