/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a comparison: checks that there is memory for its rounds. The
 * kernel kills processes that use more than there is.
 */
#include "compare.h"

#include <stdio.h>

#include "../common/memory.h"
#include "worker.h"

/*
 * The memory of a process and of a thread of dfi-bench alone, with a reserve.
 */
#define PROCESS_SIZE (UINT64_C(2) << 20)
#define THREAD_SIZE (UINT64_C(64) << 10)

/* Sides without a given volume are measured before they have one. */
#define MOST_BYTES 1e15

/* The largest plan of a side's rounds. */
static struct plan largest_plan(
    const struct comparison *comparison, const struct side *side)
{
	const struct common_options *options = comparison->options;
	struct plan plan = side->plan;

	if (!plan.tuples)
		compare_set_volume(&plan,
		    options->bytes ? (double)options->bytes : MOST_BYTES);
	plan.check |= options->verify;
	return plan;
}

/* The memory that the threads of a round allocate and its flows reserve. */
static bool round_needs(const struct comparison *comparison,
    const struct side *side, uint64_t *bytes)
{
	struct plan plan = largest_plan(comparison, side);
	const struct job *job = job_of(plan.job);

	*bytes = 0;
	if (compare_uses_flows(&plan) &&
	    !session_needs(comparison->session, &plan, &side->asked, bytes))
		return false;
	if (job->needs)
		*bytes += job->needs(&plan);
	return true;
}

static uint64_t largest_data(const struct comparison *comparison)
{
	uint64_t size, most = 0;
	uint32_t i;

	for (i = 0; i < comparison->n_sides; i++) {
		size = plan_data_size(&comparison->sides[i].plan);
		if (size > most)
			most = size;
	}
	return most;
}

/*
 * Each round's memory is freed before the next round, except the rings that
 * contexts keep for the flows of the next round.
 */
static bool check_memory(
    const struct comparison *comparison, const struct runner_attr *attr)
{
	uint64_t bytes, flows = 0, others = 0;
	char advice[128];
	uint32_t i;

	for (i = 0; i < comparison->n_sides; i++) {
		if (!round_needs(comparison, &comparison->sides[i], &bytes))
			return false;
		if (compare_uses_flows(&comparison->sides[i].plan))
			flows = bytes > flows ? bytes : flows;
		else
			others = bytes > others ? bytes : others;
	}
	bytes = flows + others + attr->data_size + attr->procs * PROCESS_SIZE +
	    (attr->n_sources + attr->n_target_threads) * THREAD_SIZE;
	snprintf(advice, sizeof(advice), "choose %s", comparison->smaller);
	return !memory_check(
	    "the threads, rings and tuples of a round need", bytes, advice);
}

bool compare_start(struct comparison *comparison,
    const struct runner_attr *attr, struct runner *runner)
{
	struct runner_attr sized = *attr;

	sized.data_size = largest_data(comparison);
	comparison->runner = runner;
	return check_memory(comparison, &sized) && runner_start(&sized, runner);
}
