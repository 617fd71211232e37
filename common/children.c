/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that work for this one; see children.h. Programs that use flows
 * start them by posix_spawn(), as contexts do not survive a fork.
 */
#include "children.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "complain.h"
#include "output.h"

#define LEADER "CHILD_OF" /* environment variable: the leader's process */

/* How long the other children may still report what they see of a failure. */
#define FAILURE_GRACE_MS 500

extern char **environ;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void children_keep_ends(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	sigaction(SIGCHLD, &action, NULL);
}

/* Make room for one more child. */
static struct child *add(struct children *children, const char *name)
{
	struct child *list;

	list = realloc(children->list, (children->n + 1) * sizeof(*list));
	if (!list) {
		complain("no memory for %s", name);
		return NULL;
	}
	children->list = list;
	list += children->n;
	snprintf(list->name, sizeof(list->name), "%s", name);
	list->pid = 0;
	children_keep_ends();
	return list;
}

static void added(struct children *children, struct child *child, pid_t pid)
{
	child->pid = pid;
	children->n++;
	children->n_running++;
}

static size_t length(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

/* Returns the list with the extra strings after its first; free() frees it. */
static char **join_lists(char *const *list, char *const *extra)
{
	size_t n = length(list), n_extra = length(extra);
	size_t first = n > 0 ? 1 : 0;
	char **joined = calloc(n + n_extra + 1, sizeof(*joined));

	if (!joined)
		return NULL;
	if (first)
		joined[0] = list[0];
	if (n_extra)
		memcpy(joined + first, extra, n_extra * sizeof(*joined));
	if (n > 1)
		memcpy(
		    joined + 1 + n_extra, list + 1, (n - 1) * sizeof(*joined));
	return joined;
}

/*
 * /proc/self/exe is this program even after an upgrade has replaced its file.
 * Without /proc, start the file by its name.
 */
static int spawn_self(pid_t *pid, const posix_spawn_file_actions_t *actions,
    char *const *argv, char *const *env)
{
	const char *name = (const char *)getauxval(AT_EXECFN);
	int err = posix_spawn(pid, "/proc/self/exe", actions, NULL, argv, env);

	if (err == ENOENT && name)
		err = posix_spawn(pid, name, actions, NULL, argv, env);
	return err;
}

static int spawn(char *const *argv, char *const *env, int fd, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	int err;

	posix_spawn_file_actions_init(&actions);
	/* This also clears close-on-exec if fd is CHILD_FD already. */
	if (fd >= 0)
		posix_spawn_file_actions_adddup2(&actions, fd, CHILD_FD);
	err = spawn_self(pid, &actions, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

int children_spawn(struct children *children, const char *name,
    char *const *argv, char *const *extra, int fd)
{
	char leader[32], *own[] = { leader, NULL }, **joined, **env;
	struct child *child = add(children, name);
	pid_t pid;
	int err;

	if (!child)
		return -1;
	snprintf(leader, sizeof(leader), LEADER "=%d", (int)getpid());
	joined = join_lists(argv, extra);
	/* Threads of the library may not expect setenv(). */
	env = join_lists(environ, own);
	err = joined && env ? spawn(joined, env, fd, &pid) : ENOMEM;
	free(joined);
	free(env);
	if (err)
		return complain("cannot start %s: %s%s", name, strerror(err),
		    access("/proc/self", F_OK) ? " (/proc is not mounted)"
					       : "");
	added(children, child, pid);
	return 0;
}

/* If the leader has ended already, another process has its number. */
static void end_with(pid_t leader)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != leader)
		_exit(EXIT_FAILURE);
}

void child_enter(void)
{
	const char *leader = getenv(LEADER);

	if (!leader)
		return;
	end_with((pid_t)strtol(leader, NULL, 10));
	unsetenv(LEADER);
}

int children_fork(struct children *children, const char *name,
    int (*run)(void *arg), void *arg)
{
	struct child *child = add(children, name);
	pid_t leader = getpid(), pid;
	int status;

	if (!child)
		return -1;
	/* The child must not print buffered output again. */
	output_flush();
	pid = fork();
	if (pid < 0)
		return complain("cannot start %s: %s", name, strerror(errno));
	if (pid == 0) {
		end_with(leader);
		status = run(arg);
		output_flush();
		_exit(status);
	}
	added(children, child, pid);
	return 0;
}

/* Report how a child ended, unless it ended well or was killed here. */
static int judge(
    const struct children *children, const struct child *child, int status)
{
	int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (children->killed && number == SIGKILL)
		return -1;
	if (number)
		return complain("%s (pid %d) was killed by signal %d (%s)%s",
		    child->name, (int)child->pid, number, strsignal(number),
		    number == SIGKILL
			? ": the kernel does this to processes that take too "
			  "much memory; dmesg tells"
			: "");
	return complain("%s (pid %d) failed with status %d", child->name,
	    (int)child->pid, WEXITSTATUS(status));
}

int children_check(struct children *children)
{
	struct child *child;
	int status, ret;

	for (child = children->list; child < children->list + children->n;
	     child++) {
		if (child->pid == 0)
			continue;
		ret = waitpid(child->pid, &status, WNOHANG);
		if (ret == 0 || (ret < 0 && errno == EINTR))
			continue;
		if (ret < 0)
			complain("%s (pid %d): its end was not seen: %s",
			    child->name, (int)child->pid, strerror(errno));
		if (ret < 0 || judge(children, child, status))
			children->failed = true;
		child->pid = 0;
		children->n_running--;
	}
	return children->failed ? -1 : 0;
}

static void kill_all(struct children *children)
{
	uint32_t i;

	children->killed = true;
	for (i = 0; i < children->n; i++)
		if (children->list[i].pid)
			kill(children->list[i].pid, SIGKILL);
}

int children_end(struct children *children, int32_t grace_ms)
{
	static const struct timespec interval = { .tv_nsec = 2000000 };
	uint64_t begin = now_ms();
	int ret;

	while (children_check(children), children->n_running > 0) {
		if (grace_ms < 0 && children->failed) {
			grace_ms = FAILURE_GRACE_MS;
			begin = now_ms();
		}
		if (grace_ms >= 0 && !children->killed &&
		    now_ms() - begin >= (uint64_t)grace_ms)
			kill_all(children);
		nanosleep(&interval, NULL);
	}
	ret = children->failed || children->killed ? -1 : 0;
	free(children->list);
	*children = (struct children){ .list = NULL };
	return ret;
}
