/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One to many, and many to one, by collective calls of MPI.
 *
 * bcast: rank 0 fills a batch, MPI_Bcast brings it to all others.
 *
 * reduce: each rank adds the values of its tuples by key, in an array that has
 * a place for each group, and MPI_Reduce adds the arrays when all is read. So
 * it knows in advance that keys are small numbers, which a flow does not.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "combine_job.h"
#include "mpi_rank.h"
#include "rival.h"

#define BATCH_SIZE ((size_t)64 << 10)

static int open_bcast(struct mpi_rank *rank)
{
	size_t size = rank->plan->tuple_size;

	rank->state = calloc(1, size > BATCH_SIZE ? size : BATCH_SIZE);
	if (!rank->state)
		return worker_fail_errno(
		    rank->number ? &rank->target : &rank->source, "a batch");
	/* The first call makes connections. */
	MPI_Bcast(rank->state, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD);
	return 0;
}

static int run_bcast(struct mpi_rank *rank)
{
	const struct plan *plan = rank->plan;
	struct pattern pattern = pattern_from(source_first_word(0));
	size_t size = plan->tuple_size;
	uint64_t left = plan->tuples, n, batch = BATCH_SIZE / size;
	struct word_sum sum = { 0 };

	for (; left > 0; left -= n) {
		n = batch < 1 ? 1 : batch < left ? batch : left;
		if (rank->number == 0)
			rival_fill(rank->state, n, size, &pattern);
		MPI_Bcast(
		    rank->state, (int)(n * size), MPI_BYTE, 0, MPI_COMM_WORLD);
		if (rank->number)
			rival_sum(rank->state, n, size, &sum);
	}
	if (rank->number)
		rival_done(&rank->target, plan->tuples, word_sum_total(&sum));
	else
		rival_done(
		    &rank->source, plan->tuples, plan_source_sum(plan, 0));
	return 0;
}

static void close_state(struct mpi_rank *rank)
{
	free(rank->state);
}

static int open_reduce(struct mpi_rank *rank)
{
	const struct plan *plan = rank->plan;

	/* Its own sums, the sums of all, and a tuple. */
	rank->state = calloc(
	    1, 2 * plan->n_groups * sizeof(uint64_t) + plan->tuple_size);
	if (!rank->state)
		return worker_fail_errno(&rank->source, "sums");
	MPI_Barrier(MPI_COMM_WORLD);
	return 0;
}

struct adder {
	uint64_t *sums;
	char *tuple;
	uint64_t n, n_groups;
	struct pattern pattern;
};

static force_inline int add_sized(struct adder *adder, size_t size)
{
	struct pattern pattern = adder->pattern;
	uint64_t i, value;

	for (i = 0; i < adder->n; i++) {
		tuple_fill_group(adder->tuple, size, &pattern, adder->n_groups);
		memcpy(&value, adder->tuple + 8, sizeof(value));
		adder->sums[tuple_key(adder->tuple, size)] += value;
	}
	return 0;
}

static int add_all(struct adder *adder, size_t size)
{
	RETURN_BY_SIZE(add_sized, adder, size);
}

static int run_reduce(struct mpi_rank *rank)
{
	const struct plan *plan = rank->plan;
	uint64_t first = source_first_word((uint32_t)rank->number);
	uint64_t *sums = rank->state, *all = sums + plan->n_groups, i, sum = 0;
	struct adder adder = {
		.sums = sums,
		.tuple = (char *)(all + plan->n_groups),
		.n = plan->tuples,
		.n_groups = plan->n_groups,
		.pattern = pattern_from(first),
	};

	(void)add_all(&adder, plan->tuple_size);
	MPI_Reduce(sums, all, (int)plan->n_groups, MPI_UINT64_T, MPI_SUM, 0,
	    MPI_COMM_WORLD);
	rival_done(&rank->source, plan->tuples,
	    plan_value_sum(plan->tuple_size, first, plan->tuples));
	if (rank->number)
		return 0;
	for (i = 0; i < plan->n_groups; i++)
		sum += all[i];
	rival_done(&rank->target, plan->tuples * plan->n_sources, sum);
	return 0;
}

const struct mpi_way mpi_bcast = {
	.name = "bcast",
	.open = open_bcast,
	.run = run_bcast,
	.close = close_state,
};

const struct mpi_way mpi_reduce = {
	.name = "reduce",
	.open = open_reduce,
	.run = run_reduce,
	.close = close_state,
};
