/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting processes with posix_spawn(), not fork(): contexts don't survive a
 * fork. A node is this program with the same command line and options that say
 * which node it is.
 */
#include "children.h"
#include "platform.h"

#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/wait.h>

extern char **environ;

/* The descriptor of the tables in a node's process. */
#define CHILD_IMAGE_FD 3
#define MAX_EXTRA 8

/* The command line of a node, from that of this process. */
struct command {
	char node[32], registry[512], run[DFI_MAX_FLOW_NAME + 16];
	char image_fd[32];
	char **argv;
};

static int make_command(struct command *command, char **argv,
    const char *registry, const char *run, bool has_image)
{
	size_t argc = 0, n;

	while (argv[argc])
		argc++;
	command->argv = calloc(argc + MAX_EXTRA, sizeof(*command->argv));
	if (!command->argv)
		return complain("no memory");
	for (n = 0; n < argc; n++)
		command->argv[n] = argv[n];
	snprintf(command->run, sizeof(command->run), "--run=%s", run);
	command->argv[n++] = command->node;
	command->argv[n++] = command->run;
	if (registry) {
		snprintf(command->registry, sizeof(command->registry),
		    "--registry=%s", registry);
		command->argv[n++] = command->registry;
	}
	if (has_image) {
		snprintf(command->image_fd, sizeof(command->image_fd),
		    "--image-fd=%d", CHILD_IMAGE_FD);
		command->argv[n++] = command->image_fd;
	}
	return 0;
}

int children_start(struct children *children, const struct options *options,
    char **argv, const char *registry, const char *run, int image_fd)
{
	posix_spawn_file_actions_t actions;
	struct command command;
	uint32_t i;
	int ret, err;

	memset(children, 0, sizeof(*children));
	children->pids = calloc(options->local_nodes, sizeof(*children->pids));
	if (!children->pids)
		return complain("no memory");
	children->first = options->first_node;
	children->n = options->local_nodes;
	if (make_command(&command, argv, registry, run, image_fd >= 0))
		return -1;
	posix_spawn_file_actions_init(&actions);
	/* Also clears close-on-exec, if it is this descriptor already. */
	if (image_fd >= 0)
		posix_spawn_file_actions_adddup2(
		    &actions, image_fd, CHILD_IMAGE_FD);
	for (i = 0, ret = 0; i < children->n && ret == 0; i++) {
		snprintf(command.node, sizeof(command.node), "--node=%" PRIu32,
		    children->first + i);
		err = posix_spawn(&children->pids[i], "/proc/self/exe",
		    &actions, NULL, command.argv, environ);
		if (err) {
			children->pids[i] = 0;
			ret = complain("cannot start node %" PRIu32 ": %s",
			    children->first + i, strerror(err));
		} else {
			children->n_running++;
		}
	}
	posix_spawn_file_actions_destroy(&actions);
	free(command.argv);
	return ret;
}

/* Say how a process ended, unless well, or by our hand. */
static int judge(
    const struct children *children, uint32_t node, pid_t pid, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (children->killed && WIFSIGNALED(status))
		return -1;
	if (WIFSIGNALED(status))
		return complain("node %" PRIu32 " (pid %d) was killed by "
				"signal %d (%s)",
		    node, (int)pid, WTERMSIG(status),
		    strsignal(WTERMSIG(status)));
	return complain("node %" PRIu32 " (pid %d) failed with status %d", node,
	    (int)pid, WEXITSTATUS(status));
}

int children_check(struct children *children)
{
	uint32_t i;
	int status;

	for (i = 0; i < children->n; i++) {
		pid_t pid = children->pids[i];

		if (pid == 0 || waitpid(pid, &status, WNOHANG) != pid)
			continue;
		children->pids[i] = 0;
		children->n_running--;
		if (judge(children, children->first + i, pid, status))
			children->failed = true;
	}
	return children->failed ? -1 : 0;
}

int children_end(struct children *children, uint32_t grace_ms)
{
	static const struct timespec nap = { 0, 2000000 };
	uint64_t deadline = now_ns() + grace_ms * UINT64_C(1000000);
	uint32_t i;
	int ret;

	while ((void)children_check(children), children->n_running > 0) {
		if (!children->killed && now_ns() >= deadline) {
			children->killed = true;
			for (i = 0; i < children->n; i++)
				if (children->pids[i])
					kill(children->pids[i], SIGKILL);
		}
		nanosleep(&nap, NULL);
	}
	ret = children->failed ? -1 : 0;
	free(children->pids);
	memset(children, 0, sizeof(*children));
	return ret;
}
