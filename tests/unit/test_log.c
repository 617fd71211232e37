/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log on stderr: whole lines in order, and nobody waits for a blocked
 * stderr.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <dfi/context.h>
#include <dfi/error.h>
#include <dfi/registry.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "tests/unit/stop_loop.h"

#define LONG_MS 60000
/* The longest time of a call that is not held up, on a busy machine. */
#define SOON_NS ((int64_t)10 * NS_PER_S)

/* Where stderr was before, and the pipe in its place. */
static int saved, reader, writer;

static void open_pipe(void)
{
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	reader = ends[0];
	writer = ends[1];
	cr_assert_geq(dup2(writer, STDERR_FILENO), 0);
}

static void setup(void)
{
	saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	open_pipe();
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

static void teardown(void)
{
	dup2(saved, STDERR_FILENO);
}

TestSuite(log, .init = setup, .fini = teardown, .timeout = 300);

/* As others do who share the pipe, and do not read it. */
static void fill_pipe(void)
{
	static const char dots[4096] = "fill";
	int flags = fcntl(writer, F_GETFL);

	cr_assert_eq(fcntl(writer, F_SETFL, flags | O_NONBLOCK), 0);
	while (write(writer, dots, sizeof(dots)) > 0)
		;
	while (write(writer, dots, 1) > 0)
		;
	cr_assert_eq(errno, EAGAIN);
	cr_assert_eq(fcntl(writer, F_SETFL, flags), 0);
}

static char text[1 << 20];
static size_t length;

/* Reads until the text contains this. */
static void read_until(const char *end)
{
	struct pollfd in = { .fd = reader, .events = POLLIN };
	int64_t deadline = deadline_in_ms(LONG_MS);
	ssize_t n;

	length = 0;
	do {
		cr_assert_eq(poll(&in, 1, deadline_left_ms(deadline)), 1,
		    "'%s' never came", end);
		n = read(reader, text + length, sizeof(text) - 1 - length);
		cr_assert_gt(n, 0);
		/* The filling of the pipe ends no text. */
		for (; n > 0; n--, length++)
			if (!text[length])
				text[length] = '.';
		text[length] = '\0';
	} while (!strstr(text, end));
}

Test(log, lines_and_what_the_application_writes_come_in_order)
{
	char expected[64];
	const char *at = text;
	int i;

	for (i = 0; i < 50; i++) {
		dfi__log(DFI_LOG_WARN, "line %d", i);
		dprintf(STDERR_FILENO, "mine %d\n", i);
	}
	read_until("mine 49\n");
	for (i = 0; i < 50; i++) {
		snprintf(expected, sizeof(expected),
		    "dfi: warn: line %d\nmine %d\n", i, i);
		cr_assert_eq(
		    strncmp(at, expected, strlen(expected)), 0, "%s", text);
		at += strlen(expected);
	}
}

/* More than any buffer holds. */
#define MANY 5000

static void log_many(void)
{
	int i;

	for (i = 0; i < MANY; i++)
		dfi__log(DFI_LOG_WARN, "line %d %0200d", i, 0);
}

/* The lines of log_many() without a gap, then what was left out. */
static void expect_counted_gap(void)
{
	unsigned long long n_left_out;
	char expected[32];
	const char *at;
	int i;

	read_until("left out here");
	at = strstr(text, "dfi: warn: line 0 ");
	cr_assert_not_null(at);
	for (i = 0;; i++) {
		snprintf(expected, sizeof(expected), "dfi: warn: line %d ", i);
		if (strncmp(at, expected, strlen(expected)) != 0)
			break;
		at = strchr(at, '\n') + 1;
	}
	cr_assert_eq(sscanf(at, "dfi: warn: %llu lines were", &n_left_out), 1,
	    "%.100s", at);
	cr_assert_gt(i, 10);
	cr_assert_eq((unsigned long long)i + n_left_out, MANY, "%d and %llu", i,
	    n_left_out);
}

Test(log, lines_that_a_full_pipe_does_not_take_are_counted)
{
	int64_t start = clock_now_ns();

	fill_pipe();
	log_many();
	cr_assert_lt(clock_now_ns() - start, SOON_NS);
	expect_counted_gap();
	dfi__log(DFI_LOG_WARN, "the next one");
	read_until("dfi: warn: the next one\n");
}

static int log_in_loop(void *arg)
{
	(void)arg;
	log_many();
	return 0;
}

Test(log, a_full_pipe_does_not_hold_a_control_thread_up)
{
	int64_t start = clock_now_ns();
	struct loop *loop;

	fill_pipe();
	cr_assert_eq(dfi__loop_start("loop", &loop), 0);
	cr_assert_eq(
	    dfi__loop_call(loop, log_in_loop, NULL, DEADLINE_NEVER), 0);
	cr_assert_lt(clock_now_ns() - start, SOON_NS);
	expect_counted_gap();
	stop_loop(loop);
}

/* The pipe's other users would notice. */
Test(log, the_file_stays_as_it_is_while_it_takes_nothing)
{
	fill_pipe();
	dfi__log(DFI_LOG_WARN, "a line");
	cr_assert_not(fcntl(writer, F_GETFL) & O_NONBLOCK);
}

Test(log, a_file_that_does_not_block_gets_all_lines)
{
	fill_pipe();
	cr_assert_eq(fcntl(writer, F_SETFL, O_NONBLOCK), 0);
	dfi__log(DFI_LOG_WARN, "a line");
	read_until("dfi: warn: a line\n");
}

Test(log, a_stopped_terminal_holds_nobody_up)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), terminal, i;
	int64_t start = clock_now_ns();
	char name[64];

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 ||
	    ptsname_r(master, name, sizeof(name)))
		cr_skip_test("no pseudo-terminals here");
	terminal = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	cr_assert_geq(terminal, 0);
	reader = master;
	/* As Control-S does. */
	cr_assert_eq(ioctl(terminal, TCXONC, TCOOFF), 0);
	cr_assert_geq(dup2(terminal, STDERR_FILENO), 0);
	for (i = 0; i < 100; i++)
		dfi__log(DFI_LOG_WARN, "line %d", i);
	cr_assert_lt(clock_now_ns() - start, SOON_NS);
	cr_assert_eq(ioctl(terminal, TCXONC, TCOON), 0);
	read_until("dfi: warn: line 99");
}

Test(log, a_broken_pipe_ends_nobody_and_its_lines_are_counted)
{
	close(reader);
	dfi__log(DFI_LOG_WARN, "lost");
	dfi__log(DFI_LOG_WARN, "lost, as well");
	open_pipe();
	dfi__log(DFI_LOG_WARN, "here");
	read_until("dfi: warn: here\n");
	cr_assert_not_null(
	    strstr(text, "dfi: warn: 2 lines were left out"), "%s", text);
}

Test(log, of_a_child_does_not_wait_for_its_parents_stderr)
{
	int status;
	pid_t pid;

	fill_pipe();
	dfi__log(DFI_LOG_WARN, "the parent's");
	open_pipe();
	pid = fork();
	if (!pid) {
		dfi__log(DFI_LOG_WARN, "the child's");
		_exit(0);
	}
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	read_until("dfi: warn: the child's\n");
	cr_assert_null(strstr(text, "the parent's"));
}

/* A connection without our protocol makes the registry log a line. */
static void send_nonsense(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	static const char nonsense[] = "GET / HTTP/1.0\r\n\r\n";
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char byte;

	memcpy(address.sun_path, path, strlen(path));
	cr_assert_eq(
	    connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_gt(send(fd, nonsense, sizeof(nonsense), MSG_NOSIGNAL), 0);
	/* Until it was disconnected. */
	while (recv(fd, &byte, 1, 0) > 0)
		;
	close(fd);
}

Test(log, a_registry_whose_stderr_is_full_serves_on)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_attr open_attr = DFI_ATTR_INIT;
	char directory[] = "/tmp/dfi-log-XXXXXX", listen[64];
	struct dfi_registry *registry;
	struct dfi *dfi;
	int i;

	cr_assert_not_null(mkdtemp(directory));
	snprintf(listen, sizeof(listen), "unix:%s/s", directory);
	attr.listen = listen;
	cr_assert_eq(dfi_registry_start(&attr, &registry), 0);
	fill_pipe();
	for (i = 0; i < 20; i++)
		send_nonsense(listen + strlen("unix:"));
	open_attr.registry = listen;
	cr_assert_eq(dfi_open(&open_attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_registry_stop(registry), 0);
	rmdir(directory);
}
