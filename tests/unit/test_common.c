/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared code of programs: checked standard output, error messages, and child
 * processes, tested with a program that uses them (common_peer.c).
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/usage.h"

#define DEADLINE_MS 60000
#define CLOSED (-1)
#define MAX_SAID 8192

extern char **environ;

struct peer {
	pid_t pid;
	int err; /* what it says on stderr */
};

/* Start the peer with out as its standard output; its input is as ours. */
static void peer_start(struct peer *peer, int out, const char *what,
    const char *first, const char *second)
{
	char *argv[] = { (char *)DFI_COMMON_PEER, (char *)what, (char *)first,
		(char *)second, NULL };
	posix_spawn_file_actions_t actions;
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
	if (out == CLOSED)
		posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO);
	else
		posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	cr_assert_eq(
	    posix_spawn(&peer->pid, argv[0], &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	peer->err = ends[0];
}

static void await(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	cr_assert_eq(poll(&pollfd, 1, DEADLINE_MS), 1, "nothing comes");
}

/* Read to the end, which comes when all writers have ended. */
static size_t read_all(int fd, char *text, size_t size)
{
	char rest[4096];
	size_t used = 0;
	ssize_t n;

	do {
		await(fd);
		n = read(fd, rest, sizeof(rest));
		cr_assert_geq(n, 0);
		if (used + (size_t)n < size)
			memcpy(text + used, rest, (size_t)n);
		used += (size_t)n;
	} while (n > 0);
	close(fd);
	cr_assert_lt(used, size);
	text[used] = '\0';
	return used;
}

/* Its exit status, or 128 + the signal; fills what it said on stderr. */
static int peer_end(struct peer *peer, char text[MAX_SAID])
{
	int status, fd = pidfd_open(peer->pid, 0);

	cr_assert_geq(fd, 0);
	read_all(peer->err, text, MAX_SAID);
	await(fd);
	close(fd);
	cr_assert_eq(waitpid(peer->pid, &status, 0), peer->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(int out, char text[MAX_SAID], const char *what,
    const char *first, const char *second)
{
	struct peer peer;

	peer_start(&peer, out, what, first, second);
	return peer_end(&peer, text);
}

Test(output, loses_nothing_in_a_pipe_that_does_not_block)
{
	static char printed[4 << 20], expected[4 << 20];
	char text[MAX_SAID];
	struct pollfd full;
	struct peer peer;
	size_t size = 0;
	int ends[2], i;

	for (i = 0; i < 100000; i++)
		size += (size_t)sprintf(expected + size, "line %d\n", i);
	cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	peer_start(&peer, ends[1], "print", "100000", NULL);
	full = (struct pollfd){ .fd = ends[1], .events = POLLOUT };
	for (i = 0; poll(&full, 1, 0) > 0; i++) {
		cr_assert_lt(i, DEADLINE_MS);
		cr_assert_eq(poll(NULL, 0, 1), 0);
	}
	close(ends[1]);
	read_all(ends[0], printed, sizeof(printed));
	cr_assert_eq(peer_end(&peer, text), 0, "%s", text);
	cr_assert_str_eq(printed, expected);
}

Test(output, that_does_not_fit_is_reported_and_a_failure)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	char text[MAX_SAID];

	/* One is only written at the end, the other before. */
	cr_assert_eq(run(fd, text, "print", "1", NULL), 1);
	cr_assert(strstr(text, "standard output: No space left"), "%s", text);
	cr_assert_eq(run(fd, text, "print", "100000", NULL), 1);
	cr_assert(strstr(text, "standard output: No space left"), "%s", text);
	close(fd);
}

Test(output, ends_quietly_when_nobody_reads)
{
	void (*const handlers[])(int) = { SIG_DFL, SIG_IGN };
	char text[MAX_SAID];
	int ends[2];
	size_t i;

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	for (i = 0; i < 2; i++) {
		signal(SIGPIPE, handlers[i]);
		cr_assert_eq(
		    run(ends[1], text, "print", "10", NULL), 128 + SIGPIPE);
		cr_assert_str_empty(text);
	}
	close(ends[1]);
}

Test(output, that_is_closed_is_reported_if_there_is_any)
{
	char text[MAX_SAID];

	cr_assert_eq(run(CLOSED, text, "print", "0", NULL), 0);
	cr_assert_str_empty(text);
	cr_assert_eq(run(CLOSED, text, "print", "1", NULL), 1);
	cr_assert(strstr(text, "Bad file descriptor"), "%s", text);
}

Test(output, that_is_closed_is_no_file_of_the_program)
{
	char text[MAX_SAID];

	cr_assert_geq(run(CLOSED, text, "open", NULL, NULL), 3);
}

Test(complain, escapes_what_drives_a_terminal)
{
	static const char *const pairs[][2] = {
		{ "plain 'text' \\n", "plain 'text' \\n" },
		{ "a\nb\tc\r", "a\\nb\\tc\\r" },
		{ "\033[2J\x07\x7f", "\\x1b[2J\\a\\x7f" },
		{ "gr\xc3\xbc\xc3\x9f \xf0\x9f\x8c\x8d",
		    "gr\xc3\xbc\xc3\x9f \xf0\x9f\x8c\x8d" },
		{ "\xc2\x9b"
		  "0m",
		    "\\xc2\\x9b0m" }, /* C1 */
		{ "\x9b"
		  "0m \xfc",
		    "\\x9b0m \\xfc" },                 /* Latin-1 */
		{ "\xc0\x8a", "\\xc0\\x8a" },          /* overlong */
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" }, /* surrogate */
		{ "\xe2\x82", "\\xe2\\x82" },          /* cut */
	};
	char text[64];
	size_t i;

	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		cr_expect_str_eq(
		    escape_text(text, sizeof(text), pairs[i][0]), pairs[i][1]);
}

Test(complain, cuts_long_texts_between_characters)
{
	char text[10];

	cr_expect_str_eq(escape_text(text, 10, "123456789"), "123456789");
	cr_expect_str_eq(escape_text(text, 10, "1234567890"), "123456...");
	cr_expect_str_eq(escape_text(text, 10,
			     "1234\033"
			     "890"),
	    "1234...");
	cr_expect_str_eq(escape_text(text, 4, "12345"), "...");
}

Test(complain, says_one_line_with_the_name_of_the_program)
{
	char text[MAX_SAID], long_text[8192];

	cr_assert_eq(run(STDERR_FILENO, text, "complain", "a\nb", NULL), 1);
	cr_assert_str_eq(text, "common_peer: no 'a\\nb'\n");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	cr_assert_eq(run(STDERR_FILENO, text, "complain", long_text, NULL), 1);
}

static const char *const ways[] = { "spawn", "fork" };

/* A leader of children that do this, under both dispositions of SIGCHLD. */
static void expect_end(const char *action, int status, const char *said)
{
	void (*const handlers[])(int) = { SIG_DFL, SIG_IGN };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char text[MAX_SAID];
	size_t i;

	for (i = 0; i < 4; i++) {
		signal(SIGCHLD, handlers[i / 2]);
		struct peer peer;

		peer_start(&peer, null, "lead", ways[i % 2], action);
		signal(SIGCHLD, SIG_DFL);
		cr_expect_eq(peer_end(&peer, text), status, "%s", text);
		cr_expect(strstr(text, said), "%s: '%s'", ways[i % 2], text);
		cr_expect(status == 0 || strstr(text, "child 0 (pid "));
	}
	close(null);
}

Test(number, is_digits_within_the_limits)
{
	uint64_t value = 0;

	cr_assert(number_read("0", 0, 9, &value));
	cr_assert_eq(value, 0);
	cr_assert(number_read("007", 0, 9, &value));
	cr_assert_eq(value, 7);
	cr_assert(number_read("18446744073709551615", 0, UINT64_MAX, &value));
	cr_assert_eq(value, UINT64_MAX);
}

Test(number, refuses_other_texts_and_leaves_the_value)
{
	static const char *const texts[] = { "", " 1", "1 ", "+1", "-1", "1x",
		"0x1", "1.0", "1e3", "\t1", "2", "10", "-18446744073709551615",
		"18446744073709551616", "36893488147419103233" };
	uint64_t value = 5;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_not(
		    number_read(texts[i], 1, 1, &value), "'%s'", texts[i]);
	for (i = 12; i < 15; i++)
		cr_assert_not(number_read(texts[i], 0, UINT64_MAX, &value),
		    "'%s'", texts[i]);
	cr_assert_eq(value, 5);
}

Test(children, that_end_well_are_waited_for)
{
	expect_end("0", 0, "");
}

Test(children, that_fail_end_those_that_wait)
{
	expect_end("3", 1, ") failed with status 3\n");
}

Test(children, that_are_killed_are_named_with_the_signal)
{
	expect_end("kill", 1, ") was killed by signal 9 (Killed)");
}

Test(children, end_with_their_leader)
{
	char text[MAX_SAID], byte;
	struct peer peer;
	int ends[2];
	size_t i;

	for (i = 0; i < 2; i++) {
		cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
		peer_start(&peer, ends[1], "lead", ways[i], "wait");
		close(ends[1]);
		await(ends[0]);
		cr_assert_eq(read(ends[0], &byte, 1), 1); /* a child is up */
		cr_assert_eq(kill(peer.pid, SIGKILL), 0);
		/* Its output ends when both have. */
		read_all(ends[0], text, sizeof(text));
		cr_assert_eq(peer_end(&peer, text), 128 + SIGKILL);
	}
}
