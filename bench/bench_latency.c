/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round trips over two latency flows. The baseline is a bare ping-pong with one
 * cache line for each direction; one with a single line is shown as well. On
 * one processor the ends can't spin, so the baseline there uses sched_yield().
 */
#include <dfi/dfi.h>
#include <stdlib.h>

#include "../common/complain.h"
#include "bench.h"
#include "compare.h"
#include "histogram_file.h"
#include "serve.h"
#include "values.h"

static const struct column columns[] = {
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "wait", "wait", 8, 0, false },
	{ "value", "result[ns]", 10, 0, false },
	{ "p99", "99 %[ns]", 8, 0, false },
	{ "baseline_value", "limit[ns]", 9, 0, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "baseline", "limit is", 20, 0, false },
	{ "message_rate", "trips[M/s]", 10, 3, false },
	{ "window", "window", 6, 0, true },
	{ "bulk_value", "bulk[GB/s]", 10, 2, true },
	{ "procs", "procs", 5, 0, true },
	{ "rate", "rate[1/s]", 9, 0, true },
	{ "iterations", "trips", 11, 0, true },
	{ "min", "min[ns]", 8, 0, true },
	{ "max", "max[ns]", 8, 0, true },
	{ "p999", "99.9 %[ns]", 10, 0, true },
	{ "p9999", "99.99 %[ns]", 11, 0, true },
	{ "one_line_value", "one line[nsec]", 14, 0, true },
	{ "transport", "transport", 9, 0, true },
	{ "device", "device", 8, 0, true },
	{ "notify", "notify", 6, 0, true },
	{ "requests_per_segment", "requests/segment", 16, 3, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

enum {
	SIDE_FLOW = 0,
	SIDE_BASELINE,
	SIDE_ONE_LINE,
	MAX_SIDES,
};

/* The median round trip of a round, in ns. */
static double value_trip(const struct side *side, const struct board *board,
    const struct outcome *outcome)
{
	(void)side;
	(void)outcome;
	return histogram_percentile(&board->trips, 0.5) / board->ticks_per_ns;
}

static struct side echo_side(const struct latency_options *options,
    enum job_kind job, enum echo echo, uint32_t tuple_size)
{
	return (struct side){
		.plan = {
			.job = job,
			.api = API_PUSH,
			.echo = echo,
			.wait = options->common.wait,
			.n_sources = 1,
			.n_targets = 1,
			.n_target_threads = 1,
			.tuple_size = tuple_size,
			.tuples = options->iterations,
			.link_latency_ns = options->link_latency_ns,
			.window = job == JOB_ECHO_FLOW ? options->window : 0,
			.how = options->how,
			.interval_ns = options->rate
			    ? UINT64_C(1000000000) / options->rate
			    : 0,
		},
		.asked = options->common.geometry,
	};
}

static double percentile(const struct side *side, double fraction)
{
	return histogram_percentile(side->trips, fraction) / side->ticks_per_ns;
}

static json_t *latency_row(const struct latency_options *options,
    const struct session *session, const struct side *sides, uint32_t n_sides)
{
	const struct side *flow = &sides[SIDE_FLOW];
	const struct side *base = &sides[SIDE_BASELINE];
	struct summary summary = stats_summary(flow->values, flow->n_values);
	struct summary one_line;
	json_t *row = json_pack("{s:s, s:i, s:i, s:s, s:b, s:I}", "experiment",
	    "latency", "tuple_size", (int)flow->plan.tuple_size, "procs",
	    (int)options->common.procs, "wait", wait_name(options->common.wait),
	    "one_core", options->one_core, "iterations",
	    (json_int_t)options->iterations);

	json_object_set_new(
	    row, "window", json_integer(options->window ? options->window : 1));
	if (options->how)
		json_object_set_new(
		    row, "how", json_string(how_name(options->how)));
	json_object_set_new(row, "bulk_value",
	    options->bulk ? report_number((double)flow->bulk *
				flow->plan.tuple_size / flow->seconds * 1e-9)
			  : json_null());
	json_object_set_new(row, "link_latency_us",
	    report_number((double)options->link_latency_ns * 1e-3));
	json_object_set_new(row, "message_rate",
	    report_number((double)flow->tuples / flow->seconds * 1e-6));
	json_object_set_new(row, "rate",
	    options->rate ? json_integer((json_int_t)options->rate)
			  : json_null());
	json_object_set_new(row, "segment_size",
	    json_integer(flow->plan.geometry.segment_size));
	json_object_set_new(row, "segment_count",
	    json_integer(flow->plan.geometry.segment_count));
	report_result(row, "ns", &summary, flow->n_values, flow->verified);
	json_object_set_new(row, "p99", report_number(percentile(flow, 0.99)));
	json_object_set_new(
	    row, "p999", report_number(percentile(flow, 0.999)));
	json_object_set_new(
	    row, "p9999", report_number(percentile(flow, 0.9999)));
	compare_report_travel(row, session, flow);
	report_baseline(row,
	    n_sides == SIDE_BASELINE ? NULL
		: options->bulk      ? "no-bulk"
		: options->vs_ring   ? "raw"
		: options->one_core  ? "yield-ping-pong"
				     : "ping-pong",
	    flow->values, base->values, flow->n_values);
	json_object_set_new(row, "baseline_p99",
	    n_sides > SIDE_BASELINE ? report_number(percentile(base, 0.99))
				    : json_null());
	json_object_set_new(row, "preemptions",
	    json_integer((json_int_t)(flow->preempted + base->preempted)));
	json_object_set_new(row, "one_line_value", json_null());
	json_object_set_new(row, "one_line_ratio", json_null());
	if (n_sides > SIDE_ONE_LINE) {
		one_line = stats_summary(
		    sides[SIDE_ONE_LINE].values, flow->n_values);
		json_object_set_new(
		    row, "one_line_value", report_number(one_line.median));
		json_object_set_new(row, "one_line_ratio",
		    report_number(stats_ratio(flow->values,
			sides[SIDE_ONE_LINE].values, flow->n_values)));
	}
	return row;
}

static bool measure(const struct latency_options *options,
    struct session *session, struct side *sides, uint32_t n_sides)
{
	const struct common_options *common = &options->common;
	struct placement placement = common->placement;
	int32_t one_cpu;
	struct runner_attr attr = {
		.n_sources = 1,
		.n_target_threads = session->peer ? 0 : 1,
		.peer = session->peer,
		.procs = common->procs,
		.registry = session->address,
		.timeout_s = common->timeout_s,
		.placement = &placement,
	};
	struct comparison comparison = {
		.session = session,
		.options = common,
		.sides = sides,
		.n_sides = n_sides,
		.smaller = "fewer --iterations or --segments",
		.value = value_trip,
	};
	struct runner runner;
	bool done;

	if (options->one_core) {
		if (!placement.cpus && usable_cpus(&one_cpu, 1) == 1)
			placement.cpus = &one_cpu;
		placement.n_cpus = 1;
	}
	if (!compare_start(&comparison, &attr, &runner))
		return false;
	done = compare_rounds(&comparison);
	runner_stop(&runner);
	return done;
}

static bool run_size(const struct latency_options *options,
    struct session *session, struct report *report, struct histogram_file *file,
    uint32_t tuple_size)
{
	const char *const names[] = { "flow",
		options->bulk          ? "no-bulk"
		    : options->vs_ring ? "raw"
				       : "ping-pong",
		"one-line" };
	static struct histogram trips[MAX_SIDES];
	static struct side sides[MAX_SIDES];
	enum echo echo = options->one_core ? ECHO_YIELD
	    : options->vs_ring             ? ECHO_RING
					   : ECHO_TWO_LINES;
	uint32_t n_sides = options->one_core ? SIDE_ONE_LINE : MAX_SIDES, i;
	struct plan *plan = &sides[SIDE_FLOW].plan;

	sides[SIDE_FLOW] = echo_side(options, JOB_ECHO_FLOW, echo, tuple_size);
	sides[SIDE_BASELINE] = echo_side(
	    options, JOB_ECHO_RAW, echo, tuple_size);
	sides[SIDE_ONE_LINE] = echo_side(
	    options, JOB_ECHO_RAW, ECHO_ONE_LINE, tuple_size);
	for (i = 0; i < MAX_SIDES; i++) {
		trips[i] = (struct histogram){ 0 };
		sides[i].trips = &trips[i];
	}
	if (!session_look_up(session, plan, &sides[SIDE_FLOW].asked))
		return false;
	sides[SIDE_BASELINE].plan.geometry = plan->geometry;
	/* More would wait for replies that wait for them. */
	if (options->window > plan->geometry.segment_count) {
		complain("--window %u: the flow's rings have %u segments; "
			 "--segments gives them more",
		    options->window, plan->geometry.segment_count);
		return false;
	}
	/*
	 * A cache line is no baseline for a network, nor for trips that
	 * overlap.
	 */
	if (session_needs_network(session, plan) || options->window > 1)
		n_sides = SIDE_BASELINE;
	if (options->bulk) {
		sides[SIDE_BASELINE].plan = *plan;
		plan->bulk = 1;
		n_sides = SIDE_ONE_LINE;
	}
	if (!measure(options, session, sides, n_sides))
		return false;
	report_row(report, latency_row(options, session, sides, n_sides));
	for (i = 0; i < n_sides; i++)
		histogram_file_add(file, names[i], &sides[i]);
	return true;
}

int bench_latency(int argc, char **argv)
{
	static struct latency_options options;
	const struct common_options *common = &options.common;
	struct session session;
	struct histogram_file file;
	struct report report;
	bool done = true;
	uint32_t i;
	int status;

	latency_options_parse(argc, argv, &options);
	if (!session_open(common, &session))
		return 1;
	if (common->role == BENCH_TARGET)
		return serve(common, &session);
	if (!histogram_file_open(&file, options.histogram)) {
		session_close(&session);
		return 1;
	}
	report_open(&report, common->format, "latency", columns, 2);
	for (i = 0; i < common->n_tuple_sizes && done; i++)
		done = run_size(
		    &options, &session, &report, &file, common->tuple_sizes[i]);
	status = report_close(&report);
	session_close(&session);
	return histogram_file_close(&file) && done ? status : 1;
}
