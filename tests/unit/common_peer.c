/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses common/, for test_common.c:
 *
 * common_peer print N        prints N lines
 * common_peer open           exits with the descriptor that a file gets
 * common_peer complain TEXT  complains
 * common_peer lead HOW ACT   starts children that do ACT and, if that is not
 *                            "wait", one that waits; HOW is spawn or fork
 *
 * ACT is wait, kill (itself), or an exit status. Children print "up" first.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/children.h"
#include "common/complain.h"
#include "common/output.h"

static int print(const char *count)
{
	unsigned long i, n = strtoul(count, NULL, 10);

	for (i = 0; i < n; i++)
		printf("line %lu\n", i);
	return 0;
}

static int act(void *arg)
{
	const char *action = arg;

	puts("up");
	output_flush();
	if (strcmp(action, "wait") == 0)
		for (;;)
			pause();
	if (strcmp(action, "kill") == 0)
		raise(SIGKILL);
	return atoi(action);
}

/* A child: its own arguments come before those of its leader. */
static int be_child(char **argv)
{
	char text[8] = "";

	child_enter();
	if (read(CHILD_FD, text, sizeof(text) - 1) < 0 ||
	    strcmp(text, "passed") != 0 || strcmp(argv[3], "lead") != 0)
		return 99;
	return act(argv[2]);
}

static int start(struct children *children, bool forks, char **argv,
    const char *name, char *action)
{
	char *extra[] = { (char[]){ "child" }, action, NULL };
	int ends[2], ret;

	if (forks)
		return children_fork(children, name, act, action);
	if (pipe2(ends, O_CLOEXEC) || write_all(ends[1], "passed", 6))
		return -1;
	ret = children_spawn(children, name, argv, extra, ends[0]);
	close(ends[0]);
	close(ends[1]);
	return ret;
}

static int lead(char **argv)
{
	struct children children = { .list = NULL };
	bool forks = strcmp(argv[2], "fork") == 0;
	bool waits = strcmp(argv[3], "wait") == 0 || strcmp(argv[3], "0") == 0;

	if (start(&children, forks, argv, "child 0", argv[3]) ||
	    (!waits &&
		start(&children, forks, argv, "child 1", (char[]){ "wait" })))
		return 98;
	return children_end(&children, -1) ? 1 : 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	output_open();
	if (strcmp(what, "child") == 0)
		return be_child(argv);
	if (argc == 4 && strcmp(what, "lead") == 0)
		return lead(argv);
	if (argc == 3 && strcmp(what, "print") == 0)
		return print(argv[2]);
	if (argc == 2 && strcmp(what, "open") == 0)
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (argc == 3 && strcmp(what, "complain") == 0)
		return complain("no '%s'", argv[2]) ? 1 : 0;
	return 97;
}
