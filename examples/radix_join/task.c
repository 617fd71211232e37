/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts options to a task, and back. A task has nothing about files: the
 * first process shares their rows in memory with the nodes that it starts, and
 * these have its command line.
 */
#include "task.h"
#include "platform.h"

#include <inttypes.h>
#include <unistd.h>

struct task task_of(const struct options *options, const struct plan *plan)
{
	struct task task = {
		.inner = options->n_tuples[INNER],
		.outer = options->n_tuples[OUTER],
		.seed = options->seed,
		.selectivity = options->selectivity,
		.zipf = options->zipf,
		.nodes = options->nodes,
		.threads = options->threads,
		.radix_bits = plan->bits,
		.loopback = options->loopback,
		.verify = options->verify,
		.progress = isatty(STDERR_FILENO) == 1,
		.replicates = plan->replicates,
		.fixed_bits = options->fixed_bits,
	};

	return task;
}

int task_take(const struct task *task, struct options *options)
{
	uint64_t n_workers = (uint64_t)task->nodes * task->threads;

	if (options->node >= task->nodes || n_workers == 0 ||
	    n_workers > DFI_MAX_ENDPOINTS || task->radix_bits == 0 ||
	    task->radix_bits > MAX_RADIX_BITS ||
	    n_workers > UINT64_C(1) << task->radix_bits)
		return complain("node %" PRIu32 ": makes no sense: a join of "
				"%" PRIu32 " nodes x %" PRIu32
				" threads, %" PRIu32 " radix bits",
		    options->node, task->nodes, task->threads,
		    task->radix_bits);
	options->n_tuples[INNER] = task->inner;
	options->n_tuples[OUTER] = task->outer;
	options->seed = task->seed;
	options->selectivity = task->selectivity;
	options->zipf = task->zipf;
	options->nodes = task->nodes;
	options->threads = task->threads;
	options->radix_bits = task->radix_bits;
	options->fixed_bits = task->fixed_bits;
	options->loopback = task->loopback;
	options->verify = task->verify;
	options->progress = task->progress;
	options->strategy = task->replicates ? STRATEGY_REPLICATE
					     : STRATEGY_REPARTITION;
	return 0;
}
