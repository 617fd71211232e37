/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-turns: runs several programs that move data for long, one at a time, a
 * few milliseconds each, and measures how fast a counter grows meanwhile. On a
 * machine whose speed changes within seconds, longer turns can't show
 * differences of a few per cent; such short turns run on the same machine.
 *
 * A program is stopped by SIGSTOP, with all that it has started. Data that it
 * has on its way then arrives uncounted.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/complain.h"

/* BSD's sysexits.h and argp: the command was used incorrectly. */
#define EXIT_USAGE 64

enum {
	MOST = 8,           /* programs */
	START_MS = 40000,   /* until a program has begun */
	LOOK_MS = 500,      /* the interval in which a counter grows by */
	LEAST_GROWTH = 500, /* at least this, once a program has begun */
	STOP_MS = 3,        /* until all of a program has stopped */
};

struct program {
	const char *name;
	pid_t group;
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Whether this program must end. */
static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = true;
}

static void sleep_ms(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (!stopped && nanosleep(&left, &left) && errno == EINTR)
		;
}

static bool read_counter(const char *path, unsigned long *value)
{
	FILE *file = fopen(path, "re");
	bool done = file && fscanf(file, "%lu", value) == 1;

	if (!done)
		complain("%s: %s", path, file ? "no number" : strerror(errno));
	if (file)
		fclose(file);
	return done;
}

static bool has_ended(const struct program *program)
{
	if (waitpid(program->group, NULL, WNOHANG) == 0)
		return false;
	complain("%s has ended", program->name);
	return true;
}

/* The output of the command is discarded. */
static void exec_command(const char *command)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	setpgid(0, 0);
	if (nothing >= 0 && dup2(nothing, STDOUT_FILENO) >= 0)
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	perror("dfi-turns: /bin/sh");
	_exit(127);
}

static bool run_command(struct program *program, const char *command)
{
	program->group = fork();
	if (program->group < 0) {
		perror("dfi-turns: fork");
		return false;
	}
	if (program->group == 0)
		exec_command(command);
	setpgid(program->group, program->group);
	return true;
}

/* Wait until the program moves data twice in a row. */
static bool await_begin(const struct program *program, const char *path)
{
	double deadline = now_s() + START_MS / 1e3;
	unsigned long before, after;
	int moved = 0;

	if (!read_counter(path, &before))
		return false;
	while (moved < 2) {
		sleep_ms(LOOK_MS);
		if (stopped || !read_counter(path, &after) ||
		    has_ended(program))
			return false;
		moved = after - before > LEAST_GROWTH ? moved + 1 : 0;
		before = after;
		if (now_s() > deadline) {
			complain("%s does not begin", program->name);
			return false;
		}
	}
	return true;
}

struct turns {
	const char *path;
	long slice_ms, settle_ms;
};

static bool take_turn(
    const struct turns *turns, const struct program *program, int round)
{
	unsigned long before, after;
	double begin, end;

	kill(-program->group, SIGCONT);
	sleep_ms(turns->settle_ms);
	begin = now_s();
	if (!read_counter(turns->path, &before))
		return false;
	sleep_ms(turns->slice_ms);
	if (!read_counter(turns->path, &after))
		return false;
	end = now_s();
	kill(-program->group, SIGSTOP);
	sleep_ms(STOP_MS);
	printf("%d %s %.3f\n", round, program->name,
	    (double)(after - before) / (end - begin));
	return !stopped && !has_ended(program);
}

static bool take_turns(const struct turns *turns, struct program *programs,
    char **commands, int n, int rounds)
{
	int round, i, k;

	for (i = 0; i < n; i++) {
		programs[i].name = commands[2 * i];
		if (!run_command(&programs[i], commands[2 * i + 1]) ||
		    !await_begin(&programs[i], turns->path))
			return false;
		kill(-programs[i].group, SIGSTOP);
		sleep_ms(STOP_MS);
	}
	for (round = 0; round < rounds; round++)
		for (k = 0; k < n; k++) {
			i = round % 2 ? n - 1 - k : k;
			if (!take_turn(turns, &programs[i], round))
				return false;
		}
	return true;
}

static bool read_number(const char *text, long *value)
{
	char *end;

	*value = strtol(text, &end, 10);
	return end != text && !*end && *value > 0 && *value < INT_MAX;
}

int main(int argc, char **argv)
{
	struct program programs[MOST] = { { .name = NULL } };
	struct sigaction action = { .sa_handler = on_signal };
	struct turns turns = { .path = argc > 4 ? argv[4] : NULL };
	int i, n = (argc - 5) / 2;
	unsigned long value;
	long rounds;
	bool done;

	if (argc < 7 || argc % 2 == 0 || n > MOST ||
	    !read_number(argv[1], &rounds) ||
	    !read_number(argv[2], &turns.slice_ms) ||
	    !read_number(argv[3], &turns.settle_ms)) {
		fprintf(stderr,
		    "Usage: dfi-turns ROUNDS SLICE_MS SETTLE_MS COUNTER_FILE "
		    "NAME COMMAND [NAME COMMAND]...\n"
		    "Print 'ROUND NAME RATE', what the counter grew by in a "
		    "second of each turn.\n");
		return EXIT_USAGE;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	done = read_counter(turns.path, &value) &&
	    take_turns(&turns, programs, argv + 5, n, (int)rounds);
	for (i = 0; i < n; i++)
		if (programs[i].group > 0) {
			kill(-programs[i].group, SIGKILL);
			waitpid(programs[i].group, NULL, 0);
		}
	/*
	 * Not earlier, as output.h would: the stopped programs would not be
	 * continued.
	 */
	if (fflush(stdout) || ferror(stdout)) {
		complain("cannot write all of the output to standard output: "
			 "%s",
		    strerror(errno));
		done = false;
	}
	return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
