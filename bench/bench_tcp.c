/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows over libfabric's provider tcp, in turns with rivals that bring the same
 * tuples over TCP. One row for each measure and rival.
 */
#include <dfi/dfi.h>

#include "bench.h"
#include "compare.h"
#include "rival.h"
#include "values.h"

static const struct column columns[] = {
	{ "measure", "measure", 10, 0, false },
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "segment_size", "segment[B]", 10, 0, false },
	{ "value", "result", 8, 3, false },
	{ "unit", "unit", 4, 0, false },
	{ "baseline_value", "limit", 8, 3, false },
	{ "ratio", "ratio", 7, 3, false },
	{ "baseline", "limit is", 11, 0, false },
	{ "min", "min", 8, 3, true },
	{ "max", "max", 8, 3, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

#define MAX_RIVALS 2

static const struct measure_kind {
	enum job_kind job;
	enum api api;
	enum rival_kind rivals[MAX_RIVALS];
	uint32_t n_rivals;
	const char *unit;
} kinds[N_MEASURES] = {
	[MEASURE_SEGMENTS] = { JOB_FLOW, API_CLAIM,
	    { RIVAL_FABRIC, RIVAL_IPERF3 }, 2, "GB/s" },
	[MEASURE_BATCHES] = { JOB_FLOW, API_BATCH, { RIVAL_SEND, RIVAL_ZEROMQ },
	    2, "GB/s" },
	[MEASURE_TRIPS] = { JOB_ECHO_FLOW, API_PUSH, { RIVAL_PINGPONG }, 1,
	    "us" },
};

/* A measure with one segment size: the flow's side, and those of rivals. */
struct trial {
	const struct tcp_options *options;
	struct session *session;
	enum measure measure;
	struct side sides[1 + MAX_RIVALS];
	uint32_t n_sides;
};

/* The median round trip of a round, in us. */
static double value_trip(const struct side *side, const struct board *board,
    const struct outcome *outcome)
{
	(void)side;
	(void)outcome;
	return histogram_percentile(&board->trips, 0.5) / board->ticks_per_ns *
	    1e-3;
}

static bool make_flow_side(struct trial *trial, uint32_t segment_size)
{
	const struct common_options *common = &trial->options->common;
	const struct measure_kind *kind = &kinds[trial->measure];
	struct side *side = &trial->sides[0];
	int32_t cpus[2];

	*side = (struct side){
		.plan = {
			.job = kind->job,
			.api = kind->api,
			.wait = common->wait,
			.n_sources = 1,
			.n_targets = 1,
			.n_target_threads = 1,
			.tuple_size = common->tuple_sizes[0],
			.batch = 1024,
			.tuples = kind->job == JOB_ECHO_FLOW
			    ? trial->options->iterations
			    : 0,
			.yields = common->wait != DFI_WAIT_SPIN ||
			    usable_cpus(cpus, 2) < 2,
		},
		.asked = {
			.segment_size = segment_size,
			.segment_count = common->geometry.segment_count,
		},
	};
	trial->n_sides = 1;
	return session_look_up(trial->session, &side->plan, &side->asked);
}

/* A rival that is not here has no row. */
static void make_rival_sides(struct trial *trial)
{
	const struct measure_kind *kind = &kinds[trial->measure];
	const struct rival *rival;
	struct side *side;
	uint32_t i;

	for (i = 0; i < kind->n_rivals; i++) {
		rival = rival_of(kind->rivals[i]);
		if (!rival || !rival->version())
			continue;
		side = &trial->sides[trial->n_sides++];
		*side = trial->sides[0];
		side->plan.job = JOB_RIVAL;
		side->plan.rival = kind->rivals[i];
	}
}

static bool measure(struct trial *trial)
{
	const struct common_options *common = &trial->options->common;
	bool trips = trial->measure == MEASURE_TRIPS;
	struct runner_attr attr = {
		.n_sources = 1,
		.n_target_threads = 1,
		.procs = common->procs,
		.registry = trial->session->address,
		.timeout_s = common->timeout_s,
		.placement = &common->placement,
	};
	struct comparison comparison = {
		.session = trial->session,
		.options = common,
		.sides = trial->sides,
		.n_sides = trial->n_sides,
		.smaller = "a smaller --segment-size, or fewer --segments or "
			   "--iterations",
		.value = trips ? value_trip : value_bandwidth,
	};
	struct runner runner;
	bool done;

	if (!trips)
		return compare_bandwidths(&comparison, &attr);
	if (!compare_start(&comparison, &attr, &runner))
		return false;
	done = compare_rounds(&comparison);
	runner_stop(&runner);
	return done;
}

/* other NULL: the flow alone. */
static json_t *trial_row(const struct trial *trial, const struct side *other)
{
	const char *rival = other ? rival_name(other->plan.rival) : NULL;
	const struct measure_kind *kind = &kinds[trial->measure];
	const struct side *flow = &trial->sides[0];
	struct summary summary = stats_summary(flow->values, flow->n_values);
	json_t *row = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "experiment",
	    "tcp", "measure", measure_name(trial->measure), "tuple_size",
	    (int)flow->plan.tuple_size, "segment_size",
	    (int)flow->plan.geometry.segment_size, "segment_count",
	    (int)flow->plan.geometry.segment_count, "procs",
	    (int)trial->options->common.procs);

	json_object_set_new(
	    row, "wait", json_string(wait_name(trial->options->common.wait)));
	report_result(row, kind->unit, &summary, flow->n_values,
	    flow->verified && (!other || other->verified));
	compare_report_travel(row, trial->session, flow);
	report_baseline(row, rival, flow->values,
	    other ? other->values : flow->values, flow->n_values);
	json_object_set_new(row, "rival_version",
	    other ? json_string(rival_of(other->plan.rival)->version())
		  : json_null());
	json_object_set_new(row, "preemptions",
	    json_integer((
		json_int_t)(flow->preempted + (other ? other->preempted : 0))));
	return row;
}

static bool run_trial(const struct tcp_options *options,
    struct session *session, struct report *report, enum measure what,
    uint32_t segment_size)
{
	static struct trial trial;
	uint32_t i;

	trial = (struct trial){
		.options = options,
		.session = session,
		.measure = what,
	};
	if (!make_flow_side(&trial, segment_size))
		return false;
	make_rival_sides(&trial);
	if (!measure(&trial))
		return false;
	if (trial.n_sides == 1)
		report_row(report, trial_row(&trial, NULL));
	for (i = 1; i < trial.n_sides; i++)
		report_row(report, trial_row(&trial, &trial.sides[i]));
	return true;
}

/* Rows of segments have a size each; the others take what the library does. */
static bool run_measure(const struct tcp_options *options,
    struct session *session, struct report *report, enum measure what)
{
	uint32_t asked = options->common.geometry.segment_size, i;
	bool done = true;

	if (asked || what != MEASURE_SEGMENTS)
		return run_trial(options, session, report, what, asked);
	for (i = 0; i < options->n_segment_sizes && done; i++)
		done = run_trial(
		    options, session, report, what, options->segment_sizes[i]);
	return done;
}

static void note_rivals(const struct report *report)
{
	const struct rival *rival;
	uint32_t i;

	for (i = 0; i < N_RIVALS; i++) {
		rival = rival_of(i);
		if (rival && rival->version())
			report_note(
			    report, "%s: %s", rival_name(i), rival->version());
		else
			report_note(
			    report, "%s: not installed, no row", rival_name(i));
	}
}

int bench_tcp(int argc, char **argv)
{
	static struct tcp_options options;
	const struct common_options *common = &options.common;
	struct session session;
	struct report report;
	bool done = true;
	uint32_t i;
	int status;

	tcp_options_parse(argc, argv, &options);
	if (!session_open(common, &session))
		return 1;
	report_open(&report, common->format, "tcp", columns, 2);
	for (i = 0; i < options.n_measures && done; i++)
		done = run_measure(
		    &options, &session, &report, options.measures[i]);
	if (done)
		note_rivals(&report);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
