/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What open membership costs while nobody comes or goes: open flows in turns
 * with closed flows of the same shape. One source, and targets of one thread.
 */
#include <dfi/dfi.h>

#include "bench.h"
#include "compare.h"
#include "open.h"
#include "values.h"

#define BATCH 64 /* tuples */

/* A trip of 140 ns, by a clock of 10 or 20 ns, would have a ratio in steps. */
#define TRIPS_TOGETHER 32

static const struct column columns[] = {
	{ "measure", "measure", 9, 0, false },
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "targets", "targets", 7, 0, false },
	{ "value", "open", 9, 3, false },
	{ "baseline_value", "closed", 9, 3, false },
	{ "unit", "unit", 4, 0, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "min", "min", 9, 3, true },
	{ "max", "max", 9, 3, true },
	{ "procs", "procs", 5, 0, true },
	{ "wait", "wait", 8, 0, true },
	{ "transport", "transport", 9, 0, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

enum {
	SIDE_OPEN = 0,
	SIDE_CLOSED,
	N_SIDES,
};

/* The shape of a measure. */
struct shape {
	enum job_kind job;
	enum api api;
	uint32_t tuple_size; /* if none is asked for */
	uint32_t n_targets;
	uint32_t routing; /* enum dfi_routing, of the open flow */
	bool replicates;
};

static const struct shape shapes[] = {
	[OPEN_PUSH] = { JOB_FLOW, API_PUSH, 16, 1, DFI_ROUTE_ANY, false },
	[OPEN_KEYED] = { JOB_FLOW, API_PUSH, 16, 2, DFI_ROUTE_HASH, false },
	[OPEN_BATCH] = { JOB_FLOW, API_BATCH, 16, 1, DFI_ROUTE_ANY, false },
	[OPEN_CLAIM] = { JOB_FLOW, API_CLAIM, 64, 1, DFI_ROUTE_DIRECT, false },
	[OPEN_REPLICATE] = { JOB_FLOW, API_CLAIM, 64, 2, 0, true },
	[OPEN_TRIPS] = { JOB_ECHO_FLOW, API_PUSH, 64, 1, DFI_ROUTE_ANY, false },
};

/* The state of one row. */
struct trial {
	const struct open_options *options;
	struct session *session;
	uint32_t measure;
	const struct shape *shape;
	struct side sides[N_SIDES];
	struct histogram trips[N_SIDES];
};

static double value_trip(const struct side *side, const struct board *board,
    const struct outcome *outcome)
{
	(void)outcome;
	return histogram_percentile(&board->trips, 0.5) /
	    side->plan.trips_together / board->ticks_per_ns;
}

static bool make_sides(struct trial *trial, uint32_t tuple_size)
{
	const struct common_options *common = &trial->options->common;
	const struct shape *shape = trial->shape;
	struct plan *plan = &trial->sides[SIDE_OPEN].plan;
	uint32_t i;

	*plan = (struct plan){
		.job = shape->job,
		.api = shape->api,
		.wait = common->wait,
		.n_sources = 1,
		.n_targets = shape->n_targets,
		.n_target_threads = 1,
		.tuple_size = tuple_size,
		.batch = BATCH,
		.replicates = shape->replicates,
		.replication = shape->replicates ? DFI_REPLICATION_NAIVE : 0,
	};
	if (shape->job == JOB_ECHO_FLOW) {
		plan->tuples = trial->options->iterations;
		plan->trips_together = plan->tuples < TRIPS_TOGETHER
		    ? (uint32_t)plan->tuples
		    : TRIPS_TOGETHER;
	}
	trial->sides[SIDE_OPEN].asked = common->geometry;
	trial->sides[SIDE_CLOSED] = trial->sides[SIDE_OPEN];
	plan->is_open = true;
	plan->routing = shape->routing;
	for (i = 0; i < N_SIDES; i++) {
		trial->sides[i].trips = &trial->trips[i];
		if (!session_look_up(trial->session, &trial->sides[i].plan,
			&trial->sides[i].asked))
			return false;
	}
	return true;
}

static bool measure(struct trial *trial)
{
	const struct common_options *common = &trial->options->common;
	struct runner_attr attr = {
		.n_sources = 1,
		.n_target_threads = 1,
		.procs = common->procs,
		.registry = trial->session->address,
		.timeout_s = common->timeout_s,
		.placement = &common->placement,
	};
	bool trips = trial->shape->job == JOB_ECHO_FLOW, done;
	struct comparison comparison = {
		.session = trial->session,
		.options = common,
		.sides = trial->sides,
		.n_sides = N_SIDES,
		.smaller = "a smaller --segment-size, or fewer --segments or "
			   "--iterations",
		.value = trips ? value_trip : value_bandwidth,
	};
	struct runner runner;

	if (!trips)
		return compare_bandwidths(&comparison, &attr);
	if (!compare_start(&comparison, &attr, &runner))
		return false;
	done = compare_rounds(&comparison);
	runner_stop(&runner);
	return done;
}

static json_t *trial_row(const struct trial *trial)
{
	const struct common_options *common = &trial->options->common;
	const struct side *side = &trial->sides[SIDE_OPEN];
	const struct side *closed = &trial->sides[SIDE_CLOSED];
	struct summary summary = stats_summary(side->values, side->n_values);
	json_t *row = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:s}",
	    "experiment", "open", "measure", open_measure_name(trial->measure),
	    "tuple_size", (int)side->plan.tuple_size, "sources", 1, "targets",
	    (int)side->plan.n_targets, "procs", (int)common->procs, "wait",
	    wait_name(common->wait));

	json_object_set_new(row, "segment_size",
	    json_integer(side->plan.geometry.segment_size));
	report_result(row, trial->shape->job == JOB_ECHO_FLOW ? "ns" : "GB/s",
	    &summary, side->n_values, side->verified && closed->verified);
	compare_report_travel(row, trial->session, side);
	report_baseline(
	    row, "closed", side->values, closed->values, side->n_values);
	json_object_set_new(row, "preemptions",
	    json_integer((json_int_t)(side->preempted + closed->preempted)));
	return row;
}

static bool run_trial(const struct open_options *options,
    struct session *session, struct report *report, uint32_t measured,
    uint32_t tuple_size)
{
	static struct trial trial;

	trial = (struct trial){
		.options = options,
		.session = session,
		.measure = measured,
		.shape = &shapes[measured],
	};
	if (!make_sides(&trial, tuple_size) || !measure(&trial))
		return false;
	report_row(report, trial_row(&trial));
	return true;
}

static bool run_measure(const struct open_options *options,
    struct session *session, struct report *report, uint32_t measured)
{
	const struct common_options *common = &options->common;
	bool done = true;
	uint32_t i;

	if (!common->n_tuple_sizes)
		return run_trial(options, session, report, measured,
		    shapes[measured].tuple_size);
	for (i = 0; done && i < common->n_tuple_sizes; i++)
		done = run_trial(
		    options, session, report, measured, common->tuple_sizes[i]);
	return done;
}

int bench_open(int argc, char **argv)
{
	static struct open_options options;
	struct session session;
	struct report report;
	bool done = true;
	uint32_t i;
	int status;

	open_options_parse(argc, argv, &options);
	if (!session_open(&options.common, &session))
		return 1;
	report_open(&report, options.common.format, "open", columns, 2);
	for (i = 0; done && i < options.n_measures; i++)
		done = run_measure(
		    &options, &session, &report, options.measures[i]);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
