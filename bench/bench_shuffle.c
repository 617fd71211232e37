/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidth of shuffle flows, compared with hand-written rings of the same
 * geometry that do the same work, or with the same flow with one source and one
 * target. One row for each tuple size and way in.
 */
#include <dfi/dfi.h>

#include "bench.h"
#include "compare.h"
#include "serve.h"
#include "values.h"

static const struct column columns[] = {
	{ "api", "api", 6, 0, false },
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "sources", "sources", 7, 0, false },
	{ "targets", "targets", 7, 0, false },
	{ "value", "result[GB/s]", 12, 2, false },
	{ "baseline_value", "limit[GB/s]", 11, 2, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "baseline", "limit is", 21, 0, false },
	{ "procs", "procs", 5, 0, true },
	{ "segment_size", "segment[B]", 10, 0, true },
	{ "segment_count", "segments", 8, 0, true },
	{ "min", "min[GB/s]", 9, 2, true },
	{ "max", "max[GB/s]", 9, 2, true },
	{ "message_rate", "rate[M/s]", 9, 2, true },
	{ "source_ns", "source CPU[ns/tuple]", 20, 2, true },
	{ "target_ns", "target CPU[ns/tuple]", 20, 2, true },
	{ "transport", "transport", 9, 0, true },
	{ "device", "device", 8, 0, true },
	{ "notify", "notify", 6, 0, true },
	{ "requests_per_segment", "requests/segment", 16, 3, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

/* The state of one row. */
struct trial {
	const struct shuffle_options *options;
	struct session *session;
	uint32_t tuple_size;
	enum api api;
	struct side sides[2]; /* the flow, and the baseline */
	uint32_t n_sides;
	const char *baseline; /* its name, or NULL */
};

/* Cursors and spans name their target; with several targets they alternate. */
static uint32_t flow_routing(const struct trial *trial)
{
	if (trial->options->n_targets > 1 &&
	    (trial->api == API_CURSOR || trial->api == API_CLAIM))
		return DFI_ROUTE_DIRECT;
	return trial->options->routing;
}

static bool make_flow_side(struct trial *trial)
{
	const struct shuffle_options *options = trial->options;
	const struct common_options *common = &options->common;
	uint32_t threads = options->n_sources + options->n_target_threads;
	int32_t cpus[MAX_CPUS];
	struct side *side = &trial->sides[0];

	*side = (struct side){
		.plan = {
			.job = JOB_FLOW,
			.api = trial->api,
			.routing = flow_routing(trial),
			.paired = options->n_pairs > 0,
			.wait = common->wait,
			.n_sources = options->n_sources,
			.n_targets = options->n_targets,
			.n_target_threads = options->n_target_threads,
			.tuple_size = trial->tuple_size,
			.batch = options->link_bandwidth
			    ? link_batch(trial->tuple_size)
			    : options->batch,
			.n_nodes = options->n_nodes,
			.link_bandwidth = options->link_bandwidth,
			.link_latency_ns = options->link_latency_ns,
			.how = options->how,
			.slow_source = options->slow_source,
			.slow_target = options->slow_target,
			.yields = common->wait != DFI_WAIT_SPIN ||
			    threads > usable_cpus(cpus, MAX_CPUS),
		},
		.asked = common->geometry,
	};
	if (!session_look_up(trial->session, &side->plan, &side->asked))
		return false;
	trial->n_sides = 1;
	return true;
}

static void make_baseline_side(struct trial *trial)
{
	const struct shuffle_options *options = trial->options;
	struct side *side = &trial->sides[1];
	struct plan *plan = &side->plan;

	if (options->no_baseline || options->link_bandwidth)
		return;
	/* The ends of hand-written rings are not slow on purpose. */
	if (options->slow_source || options->slow_target)
		return;
	/* A ring in memory is no baseline for a network. */
	if (!options->one_to_one &&
	    session_needs_network(trial->session, &trial->sides[0].plan))
		return;
	*side = trial->sides[0];
	trial->n_sides = 2;
	if (options->one_to_one) {
		plan->n_sources = 1;
		plan->n_targets = 1;
		plan->n_target_threads = 1;
		trial->baseline = "one-to-one";
		return;
	}
	plan->job = JOB_RAW;
	if (options->raw_geometry.segment_size)
		plan->geometry = options->raw_geometry;
	plan->copies = options->raw_copies;
	trial->baseline = options->raw_copies                ? "raw-copied"
	    : trial->api == API_BATCH                        ? "raw-partition"
	    : trial->api == API_PUSH && plan_lanes(plan) > 1 ? "raw-routed"
							     : "raw";
}

static bool measure(struct trial *trial)
{
	const struct shuffle_options *options = trial->options;
	const struct common_options *common = &options->common;
	struct runner_attr attr = {
		.n_sources = options->n_sources,
		.n_target_threads = trial->session->peer
		    ? 0
		    : options->n_target_threads,
		.peer = trial->session->peer,
		.procs = common->procs,
		.nodes = options->n_nodes > 0 || options->both_ways,
		.crosses = options->both_ways,
		.registry = trial->session->address,
		.timeout_s = common->timeout_s,
		.placement = &common->placement,
	};
	struct comparison comparison = {
		.session = trial->session,
		.options = common,
		.sides = trial->sides,
		.n_sides = trial->n_sides,
		.smaller = "a smaller --segment-size, or fewer --segments, "
			   "--sources or --targets",
		.value = value_bandwidth,
	};

	return compare_bandwidths(&comparison, &attr);
}

static json_t *trial_row(const struct trial *trial)
{
	const struct shuffle_options *options = trial->options;
	const struct side *flow = &trial->sides[0];
	const struct side *other = &trial->sides[1];
	const struct plan *plan = &flow->plan;
	struct summary summary = stats_summary(flow->values, flow->n_values);
	bool verified = flow->verified &&
	    (trial->n_sides < 2 || other->verified);
	json_t *row = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:s}",
	    "experiment", "shuffle", "api", api_name(plan->api), "tuple_size",
	    (int)plan->tuple_size, "sources", (int)plan->n_sources, "targets",
	    (int)plan->n_targets, "target_threads", (int)plan->n_target_threads,
	    "procs", (int)options->common.procs, "routing",
	    routing_name(plan->routing));

	json_object_set_new(row, "paired", json_boolean(plan->paired));
	json_object_set_new(
	    row, "bidirectional", json_boolean(options->both_ways));
	if (options->n_nodes)
		json_object_set_new(
		    row, "nodes", json_integer(options->n_nodes));
	if (options->how)
		json_object_set_new(
		    row, "how", json_string(how_name(options->how)));
	if (options->slow_source)
		json_object_set_new(
		    row, "slow_source", json_integer(options->slow_source));
	if (options->slow_target)
		json_object_set_new(
		    row, "slow_target", json_integer(options->slow_target));
	json_object_set_new(
	    row, "wait", json_string(wait_name(options->common.wait)));
	json_object_set_new(
	    row, "segment_size", json_integer(plan->geometry.segment_size));
	json_object_set_new(
	    row, "segment_count", json_integer(plan->geometry.segment_count));
	json_object_set_new(row, "bytes",
	    json_integer((json_int_t)(plan->tuples * plan->n_sources *
		plan->tuple_size)));
	report_result(row, "GB/s", &summary, flow->n_values, verified);
	json_object_set_new(
	    row, "content_checked", json_boolean(options->common.verify));
	json_object_set_new(row, "message_rate",
	    report_number(summary.median * 1e3 / plan->tuple_size));
	compare_report_cpu(row, flow);
	compare_report_travel(row, trial->session, flow);
	if (plan->link_bandwidth)
		compare_report_link(row, flow);
	else
		report_baseline(row, trial->baseline, flow->values,
		    other->values, flow->n_values);
	json_object_set_new(row, "preemptions",
	    json_integer((json_int_t)(flow->preempted + other->preempted)));
	return row;
}

static bool run_trial(const struct shuffle_options *options,
    struct session *session, struct report *report, uint32_t tuple_size,
    enum api api)
{
	struct trial trial = {
		.options = options,
		.session = session,
		.tuple_size = tuple_size,
		.api = api,
	};

	if (!make_flow_side(&trial))
		return false;
	make_baseline_side(&trial);
	if (!measure(&trial))
		return false;
	report_row(report, trial_row(&trial));
	return true;
}

int bench_shuffle(int argc, char **argv)
{
	static struct shuffle_options options;
	const struct common_options *common = &options.common;
	struct session session;
	struct report report;
	uint32_t i, j;
	bool done = true;
	int status;

	shuffle_options_parse(argc, argv, &options);
	if (!session_open(common, &session))
		return 1;
	if (common->role == BENCH_TARGET)
		return serve(common, &session);
	report_open(&report, common->format, "shuffle", columns,
	    options.n_sources + options.n_target_threads);
	for (i = 0; i < common->n_tuple_sizes && done; i++)
		for (j = 0; j < options.n_apis && done; j++)
			done = run_trial(&options, &session, &report,
			    common->tuple_sizes[i], options.apis[j]);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
