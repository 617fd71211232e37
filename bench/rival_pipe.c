/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two pipes of 1 MiB, one in each direction. The target makes both, and the
 * source opens them through its /proc.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "rival_bytes.h"

#define PIPE_SIZE (1 << 20)

/* The target makes a pipe; kept is its own end, and theirs the other one. */
static int make_pipe(int kept, int *own, int *theirs)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	/* An ordinary user may have used up what users may have together. */
	(void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE);
	*own = ends[kept];
	*theirs = ends[!kept];
	return 0;
}

static int make_pipes(struct worker *worker, struct rival_bytes *bytes)
{
	struct rival_address address = { .key = (uint64_t)getpid() }, other;
	int there = -1, back = -1, ret;

	if (make_pipe(0, &bytes->in, &there) == 0 &&
	    make_pipe(1, &bytes->out, &back) == 0) {
		address.port = (uint32_t)there;
		address.at = (uint64_t)back;
		rival_publish(worker, &address);
		ret = rival_await(worker, &other);
	} else {
		ret = worker_fail_errno(worker, "a pipe");
	}
	/* So that an end that is gone ends the other one. */
	if (there >= 0)
		close(there);
	if (back >= 0)
		close(back);
	return ret;
}

static int open_end(uint64_t pid, uint64_t fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%lu/fd/%lu", (unsigned long)pid,
	    (unsigned long)fd);
	return open(path, flags | O_CLOEXEC);
}

static int open_pipes(struct worker *worker, struct rival_bytes *bytes)
{
	struct rival_address address;
	int ret = rival_await(worker, &address);

	if (ret)
		return ret;
	bytes->out = open_end(address.key, address.port, O_WRONLY);
	bytes->in = open_end(address.key, address.at, O_RDONLY);
	if (bytes->out < 0 || bytes->in < 0)
		return worker_fail_errno(worker, "the target's pipes");
	rival_publish(worker, &address);
	return 0;
}

static int pipe_prepare(struct worker *worker)
{
	int ret = rival_bytes_prepare(worker);

	if (ret)
		return ret;
	return worker->seat->role == ROLE_SOURCE
	    ? open_pipes(worker, worker->state)
	    : make_pipes(worker, worker->state);
}

static const char *version(void)
{
	return "pipes of 1 MiB";
}

const struct rival rival_pipe = {
	.version = version,
	.job = {
		.prepare = pipe_prepare,
		.run = rival_bytes_run,
		.finish = rival_bytes_finish,
	},
};
