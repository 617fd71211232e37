/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread_create() returns EAGAIN both for missing stack memory and for each
 * limit on threads. This file finds the limit, without malloc(), as no memory
 * may be left.
 */
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "complain.h"

/* Returns this process's use of a resource; 0 if that can't be read. */
static uint64_t bytes_of(const char *field)
{
	char text[4096];
	const char *line;
	ssize_t size;
	int fd;

	fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[size > 0 ? size : 0] = '\0';
	line = strstr(text, field);
	return line ? strtoull(line + strlen(field), NULL, 10) * 1024 : 0;
}

struct limit {
	const char *kind, *option;
	__rlimit_resource_t number;
	const char *field; /* field of proc(5) that counts */
};

static const struct limit limits[] = {
	{ "address space", "-v", RLIMIT_AS, "\nVmSize:" },
	{ "private memory", "-d", RLIMIT_DATA, "\nVmData:" },
};
#define N_LIMITS (sizeof(limits) / sizeof(limits[0]))

/* Tells whether a limit leaves no room for a stack, after a complaint. */
static bool is_short_of(const struct limit *limit, size_t need)
{
	struct rlimit most;
	uint64_t used;

	if (getrlimit(limit->number, &most) || most.rlim_cur == RLIM_INFINITY)
		return false;
	used = bytes_of(limit->field);
	if (used < most.rlim_cur && need <= most.rlim_cur - used)
		return false;
	complain("cannot start a thread: its stack needs %zu bytes of %s, but "
		 "%" PRIu64 " are left of %" PRIu64 ": raise the limit (ulimit "
		 "%s), or have smaller stacks (ulimit -s)",
	    need, limit->kind, used < most.rlim_cur ? most.rlim_cur - used : 0,
	    (uint64_t)most.rlim_cur, limit->option);
	return true;
}

static int complain_short(void)
{
	size_t stack = 0, i;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_getstacksize(&attr, &stack);
	pthread_attr_destroy(&attr);
	for (i = 0; i < N_LIMITS; i++)
		if (is_short_of(&limits[i], stack))
			return -1;
	return complain(
	    "cannot start a thread: there are as many as the user, the "
	    "container or the system may have: raise that limit (ulimit -u, "
	    "pids.max of the control group, or sysctl kernel.threads-max)");
}

int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	int err = pthread_create(thread, NULL, run, arg);

	if (!err)
		return 0;
	if (err == EAGAIN)
		return complain_short();
	return complain("cannot start a thread: %s", strerror(err));
}
