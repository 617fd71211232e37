/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An idle target: the source attaches, sends nothing for a time, then one
 * tuple. The target sums the processor time of its thread and its process until
 * then.
 */
#include <dfi/dfi.h>
#include <errno.h>
#include <stdlib.h>

#include "flow_job.h"
#include "worker.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	    (uint64_t)now.tv_nsec;
}

static int idle_run_source(struct worker *worker)
{
	uint64_t ns = worker->plan->idle_ns;
	struct timespec left = {
		.tv_sec = (time_t)(ns / 1000000000),
		.tv_nsec = (long)(ns % 1000000000),
	};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	return flow_job.run(worker);
}

/* The first tuple's arrival ends the idle time. */
static int idle_run_target(struct worker *worker)
{
	struct seat *seat = worker->seat;
	uint64_t wall = now_ns();
	uint64_t thread = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint64_t process = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	int ret = flow_job.run(worker);

	seat->seen_ns = now_ns() - wall;
	seat->used_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - thread;
	seat->spent_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - process;
	return ret;
}

static int idle_prepare(struct worker *worker)
{
	return flow_job.prepare(worker);
}

static int idle_run(struct worker *worker)
{
	if (worker->seat->role == ROLE_SOURCE)
		return idle_run_source(worker);
	return idle_run_target(worker);
}

static void idle_finish(struct worker *worker)
{
	flow_job.finish(worker);
}

const struct job idle_job = {
	.prepare = idle_prepare,
	.run = idle_run,
	.finish = idle_finish,
};
