/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The join as the first process describes it to the nodes. Nodes of other
 * machines know only the run's name and their numbers.
 */
#ifndef RADIX_JOIN_TASK_H
#define RADIX_JOIN_TASK_H

#include <stdint.h>
#include "options.h"
#include "relation.h"

/* The tuple of the task flow; members as in struct options. */
struct task {
	uint64_t inner, outer, seed;
	double selectivity, zipf;
	uint32_t nodes, threads, radix_bits;
	uint32_t loopback, verify;
	uint32_t progress;   /* somebody looks at it */
	uint32_t replicates; /* the inner relation */
	uint32_t fixed_bits;
};

/* The task that the first process's command line and this plan make. */
struct task task_of(const struct options *options, const struct plan *plan);

/* Make the options of a node those of the task. 0, or -1 after a complaint. */
int task_take(const struct task *task, struct options *options);

#endif
