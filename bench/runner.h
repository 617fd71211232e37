/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent's part of the rounds: start worker processes, hand out plans, wait
 * with a deadline, and collect results from the seats. Functions print an error
 * on stderr where they find it, and then return false.
 */
#ifndef DFI_BENCH_RUNNER_H
#define DFI_BENCH_RUNNER_H

#include <sched.h>
#include "../common/children.h"
#include "board.h"
#include "peer.h"

/* The processors on which the threads of a round run. */
struct placement {
	bool off;      /* anywhere */
	int32_t *cpus; /* for the runner's sources and then its target threads,
			  in turn; NULL: one for each thread of the round, if
			  there are enough, else any */
	uint32_t n_cpus; /* of the list */
};

#define MAX_PROCS MAX_NODES

struct runner_attr {
	uint32_t n_sources;
	uint32_t n_target_threads;
	uint32_t procs;       /* 1: all in one; 2: sources, targets */
	bool nodes;           /* each process has sources and targets: */
	bool crosses;         /* a source's target of its number is in the next
				 one */
	uint64_t data_size;   /* of the board's data area */
	const char *registry; /* NULL: the workers don't use the library */
	uint32_t timeout_s;   /* for each step of a round */
	const struct placement *placement;
	struct peer *peer; /* runs the targets; NULL: this process does */
};

struct runner {
	struct runner_attr attr;
	struct board *board;
	int fd;
	uint32_t round;
	struct children processes;
};

/* The results of a round. */
struct outcome {
	double seconds;     /* from the first start to the last target's end */
	uint64_t tuples;    /* received ones; in a combiner flow, sent ones */
	uint64_t preempted; /* how often a thread lost its processor */
	struct tally tally;
	bool verified; /* all sent tuples came, and nothing else */
};

bool runner_start(const struct runner_attr *attr, struct runner *runner);

/*
 * The steps of a round that another invocation directs: prepare, start, and add
 * up this side's work.
 */
bool runner_prepare(struct runner *runner, const struct plan *plan);
void runner_go(struct runner *runner, bool cancel);
bool runner_finish(struct runner *runner, struct tally *tally);

/* Run one round. The plan's numbers of threads are at most the runner's. */
bool runner_round(
    struct runner *runner, const struct plan *plan, struct outcome *outcome);

void runner_stop(struct runner *runner);

/*
 * List the processors that this process may use, ascending; returns how many.
 */
uint32_t usable_cpus(int32_t *cpus, uint32_t max);

#define MAX_CPUS CPU_SETSIZE

#endif
