/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking numbers from a sequencer, compared with fetch-and-add on a bare word.
 */
#include <dfi/dfi.h>
#include <stdio.h>

#include "../common/complain.h"
#include "bench.h"
#include "compare.h"
#include "values.h"

static const struct column columns[] = {
	{ "clients", "clients", 7, 0, false },
	{ "batch", "batch", 5, 0, false },
	{ "value", "result[M calls/s]", 17, 2, false },
	{ "baseline_value", "limit[M calls/s]", 16, 2, false },
	{ "ratio", "ratio", 7, 3, false },
	{ "baseline", "limit is", 10, 0, false },
	{ "min", "min", 8, 2, true },
	{ "max", "max", 8, 2, true },
	{ "transport", "transport", 9, 0, true },
	{ "device", "device", 8, 0, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

static double value_rate(const struct side *side, const struct board *board,
    const struct outcome *outcome)
{
	(void)side;
	(void)board;
	return (double)outcome->tuples / outcome->seconds * 1e-6;
}

/* Whether the threads together got all ranges from 0, each range once. */
static bool is_dense(const struct plan *plan, const struct board *board)
{
	uint64_t calls = plan->tuples * plan->n_sources, sum = 0, bad = 0;
	uint32_t i;

	for (i = 0; i < plan->n_sources; i++) {
		sum += board->seats[i].sum;
		bad += board->seats[i].bad;
	}
	/* Sums of distinct numbers are compared modulo 2^64. */
	return !bad &&
	    sum ==
	    plan->batch *
		(calls % 2 ? calls * ((calls - 1) / 2)
			   : calls / 2 * (calls - 1));
}

/* Measure a round, with a new sequencer. */
static bool measure_round(
    struct comparison *comparison, struct side *side, bool counts)
{
	struct session *session = comparison->session;
	struct plan *plan = &side->plan;
	struct dfi_sequencer *sequencer = NULL;
	struct outcome outcome;
	bool done;

	if (plan->job == JOB_SEQUENCER) {
		snprintf(plan->flow, sizeof(plan->flow), "numbers-%lu",
		    (unsigned long)session->n_flows++);
		if (dfi_sequencer_create(
			session->dfi, plan->flow, 0, &sequencer) < 0) {
			complain("%s", dfi_errmsg());
			return false;
		}
	}
	done = compare_round(comparison, side, counts, &outcome);
	side->verified = side->verified && done &&
	    is_dense(plan, comparison->runner->board);
	dfi_sequencer_close(sequencer);
	return done;
}

static bool measure(const struct sequencer_options *options,
    struct session *session, struct side sides[2])
{
	const struct common_options *common = &options->common;
	struct runner_attr attr = {
		.n_sources = sides[0].plan.n_sources,
		.procs = 1,
		.registry = session->address,
		.timeout_s = common->timeout_s,
		.placement = &common->placement,
	};
	struct comparison comparison = {
		.session = session,
		.options = common,
		.sides = sides,
		.n_sides = 2,
		.smaller = "fewer --clients",
		.value = value_rate,
	};
	struct runner runner;
	bool done = true;
	uint32_t i;

	if (!compare_start(&comparison, &attr, &runner))
		return false;
	/* The first round of each side warms up. */
	for (i = 0; i < 2 * (common->repeat + 1) && done; i++)
		done = measure_round(&comparison, &sides[i % 2], i > 1);
	runner_stop(&runner);
	return done;
}

static bool add_row(const struct sequencer_options *options,
    struct session *session, struct report *report, uint32_t n_clients)
{
	static struct side sides[2];
	struct summary summary;
	bool over_rdma;
	json_t *row;

	sides[0] = (struct side){
		.plan = {
			.job = JOB_SEQUENCER,
			.n_sources = n_clients,
			.tuple_size = sizeof(uint64_t),
			.tuples = (options->iterations + n_clients - 1) /
			    n_clients,
			.batch = options->batch,
		},
		.verified = true,
	};
	sides[1] = sides[0];
	sides[1].plan.job = JOB_FETCH_ADD;
	if (!measure(options, session, sides))
		return false;
	over_rdma = sides[0].requests > 0; /* one for each number */
	summary = stats_summary(sides[0].values, sides[0].n_values);
	row = json_pack("{s:s, s:i, s:i}", "experiment", "sequencer", "clients",
	    (int)n_clients, "batch", (int)options->batch);
	report_result(row, "M calls/s", &summary, sides[0].n_values,
	    sides[0].verified && sides[1].verified);
	report_baseline(row, "fetch-add", sides[0].values, sides[1].values,
	    sides[0].n_values);
	json_object_set_new(
	    row, "transport", json_string(over_rdma ? "verbs" : "shm"));
	json_object_set_new(
	    row, "device", json_string(over_rdma ? sides[0].device : "-"));
	json_object_set_new(row, "preemptions",
	    json_integer(
		(json_int_t)(sides[0].preempted + sides[1].preempted)));
	report_row(report, row);
	return true;
}

int bench_sequencer(int argc, char **argv)
{
	static struct sequencer_options options;
	struct session session;
	struct report report;
	bool done = true;
	uint32_t i;
	int status;

	sequencer_options_parse(argc, argv, &options);
	if (!session_open(&options.common, &session))
		return 1;
	report_open(&report, options.common.format, "sequencer", columns, 2);
	for (i = 0; i < options.n_clients && done; i++)
		done = add_row(
		    &options, &session, &report, (uint32_t)options.clients[i]);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
