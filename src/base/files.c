/* SPDX-License-Identifier: Apache-2.0 */
/* See files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include "error.h"
#include "fork.h"
#include "lock.h"

static struct lock lock;
/* The lock protects these. */
static int taken[STDERR_FILENO + 1];
static unsigned n_taken;

_Atomic unsigned long dfi__files_nr_open; /* 0: unknown */

/* Read it early: later there may be no free descriptor. */
static void note_nr_open(void)
{
	char text[32] = "";
	ssize_t got;
	int fd;

	if (atomic_peek(&dfi__files_nr_open))
		return;
	fd = file_up(open("/proc/sys/fs/nr_open", O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	atomic_set(&dfi__files_nr_open, got > 0 ? strtoul(text, NULL, 10) : 0);
}

int dfi__file_move_up(int fd)
{
	int copy, err;

	if (fd < 0)
		return fd;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	close(fd);
	errno = err;
	return copy;
}

/* A child that was forked meanwhile has the descriptors as well. */
static void at_fork(enum fork_phase phase)
{
	if (phase != FORK_CHILD || atomic_peek(&lock.state) == LOCK_FREE)
		return;
	while (n_taken > 0)
		close(taken[--n_taken]);
	atomic_set(&lock.state, LOCK_FREE);
}

static struct fork_hook hook = { .fn = at_fork };

void dfi__files_take_standard(void)
{
	int fd;

	dfi__fork_follow(&hook);
	note_nr_open();
	dfi__lock_take(&lock);
	while ((fd = epoll_create1(EPOLL_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
		taken[n_taken++] = fd;
	if (fd >= 0)
		close(fd);
}

void dfi__files_free_standard(void)
{
	while (n_taken > 0)
		close(taken[--n_taken]);
	lock_release(&lock);
}

/*
 * limit is the process's own limit. fs.nr_open also bounds it, and may have
 * been lowered since.
 */
static int fail_limit(const char *name, unsigned n, unsigned long limit)
{
	unsigned long system = atomic_peek(&dfi__files_nr_open);
	const char *plural = n == 1 ? "" : "s";

	if (system && system < limit)
		return dfi__fail(-EMFILE,
		    "%s needs %u file descriptor%s, but the system lets a "
		    "process have %lu and too few are free: raise the limit "
		    "(sysctl fs.nr_open)",
		    name, n, plural, system);
	if (system == limit)
		return dfi__fail(-EMFILE,
		    "%s needs %u file descriptor%s, but the process may have "
		    "%lu, the most that the system allows, and too few are "
		    "free: raise both limits (sysctl fs.nr_open, then ulimit "
		    "-n)",
		    name, n, plural, limit);
	return dfi__fail(-EMFILE,
	    "%s needs %u file descriptor%s, but the process may have %lu and "
	    "too few are free: raise the limit (ulimit -n)",
	    name, n, plural, limit);
}

int dfi__fail_files(int err, unsigned n, const char *call, const char *who, ...)
{
	struct rlimit limit = { .rlim_cur = 0 };
	const char *plural = n == 1 ? "" : "s";
	char name[256];
	va_list ap;

	va_start(ap, who);
	vsnprintf(name, sizeof(name), who, ap);
	va_end(ap);
	switch (err) {
	case EMFILE:
		getrlimit(RLIMIT_NOFILE, &limit);
		return fail_limit(name, n, (unsigned long)limit.rlim_cur);
	case ENFILE:
		return dfi__fail(-EMFILE,
		    "%s needs %u file descriptor%s, but all that the system "
		    "may have are open: raise the limit (sysctl fs.file-max)",
		    name, n, plural);
	case ENOMEM:
	case ENOBUFS:
		return dfi__fail(-ENOMEM, "%s: %s: out of memory", name, call);
	default:
		return dfi__fail(
		    -EIO, "%s: %s: %s", name, call, strerrordesc_np(err));
	}
}
