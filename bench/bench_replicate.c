/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidth of replicate flows with one source: naive and multicast in turns,
 * compared with a hand-written ring that all targets read, and with a shuffle
 * flow with one target. Its source has the same work if one copy serves all
 * targets. One row for each tuple size, way in, number of targets and mode.
 */
#include <dfi/dfi.h>

#include "bench.h"
#include "compare.h"
#include "replicate.h"
#include "serve.h"
#include "values.h"

static const struct column columns[] = {
	{ "mode", "mode", 9, 0, false },
	{ "api", "api", 6, 0, false },
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "targets", "targets", 7, 0, false },
	{ "value", "result[GB/s]", 12, 2, false },
	{ "delivered", "delivered[GB/s]", 15, 2, true },
	{ "baseline_value", "limit[GB/s]", 11, 2, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "baseline", "limit is", 21, 0, false },
	{ "procs", "procs", 5, 0, true },
	{ "segment_size", "segment[B]", 10, 0, true },
	{ "segment_count", "segments", 8, 0, true },
	{ "min", "min[GB/s]", 9, 2, true },
	{ "max", "max[GB/s]", 9, 2, true },
	{ "naive_ratio", "to naive", 8, 3, true },
	{ "source_ns", "source CPU[ns/tuple]", 20, 2, true },
	{ "baseline_source_ns", "baseline[ns/tuple]", 18, 2, true },
	{ "one_to_one_source_ns", "one-to-one[ns/tuple]", 20, 2, true },
	{ "source_ratio", "CPU ratio", 9, 3, true },
	{ "copied_bytes", "copied[B/tuple]", 15, 1, true },
	{ "transport", "transport", 9, 0, true },
	{ "device", "device", 8, 0, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

enum {

	MAX_SIDES = N_MODES + 2, /* plus the ring and the shuffle flow */
};

/* The rows of one tuple size, way in, and number of targets. */
struct trial {
	const struct replicate_options *options;
	struct session *session;
	uint32_t tuple_size, n_targets;
	enum api api;
	struct side sides[MAX_SIDES]; /* those of the modes first, in order */
	uint32_t n_sides;
	int naive; /* the side of the naive mode, or -1 */
	const struct side *raw, *one_to_one; /* NULL: not measured */
};

void replicate_plan(struct plan *plan, enum replicate_mode mode)
{
	plan->replicates = 1;
	plan->ordered = mode == MODE_ORDERED;
	plan->replication = mode == MODE_NAIVE ? DFI_REPLICATION_NAIVE
					       : DFI_REPLICATION_MULTICAST;
}

static struct plan flow_plan(const struct trial *trial, uint32_t n_targets)
{
	const struct replicate_options *options = trial->options;
	const struct common_options *common = &options->common;
	int32_t cpus[MAX_CPUS];

	return (struct plan){
		.job = JOB_FLOW,
		.api = trial->api,
		.wait = common->wait,
		.n_sources = 1,
		.n_targets = n_targets,
		.n_target_threads = n_targets,
		.tuple_size = trial->tuple_size,
		.batch = options->link_bandwidth ? link_batch(trial->tuple_size)
						 : options->batch,
		.link_bandwidth = options->link_bandwidth,
		.link_latency_ns = options->link_latency_ns,
		.yields = common->wait != DFI_WAIT_SPIN ||
		    1 + n_targets > usable_cpus(cpus, MAX_CPUS),
	};
}

static struct side *add_side(struct trial *trial, const struct plan *plan)
{
	struct side *side = &trial->sides[trial->n_sides++];

	*side = (struct side){
		.plan = *plan,
		.asked = trial->options->common.geometry,
	};
	return side;
}

static bool add_flow(struct trial *trial, const struct plan *plan)
{
	struct side *side = add_side(trial, plan);

	return session_look_up(trial->session, &side->plan, &side->asked);
}

static bool any_needs_network(const struct trial *trial)
{
	uint32_t i;

	for (i = 0; i < trial->n_sides; i++)
		if (session_needs_network(
			trial->session, &trial->sides[i].plan))
			return true;
	return false;
}

static bool make_sides(struct trial *trial)
{
	const struct replicate_options *options = trial->options;
	struct plan plan;
	uint32_t i;

	trial->naive = -1;
	for (i = 0; i < options->n_modes; i++) {
		plan = flow_plan(trial, trial->n_targets);
		replicate_plan(&plan, options->modes[i]);
		if (options->modes[i] == MODE_NAIVE)
			trial->naive = (int)i;
		if (!add_flow(trial, &plan))
			return false;
	}
	if (options->no_baseline || options->link_bandwidth)
		return true;
	/* A ring in memory is no baseline for a network. */
	if (!any_needs_network(trial)) {
		/* The last mode's geometry: multicast's, by default. */
		plan = trial->sides[trial->n_sides - 1].plan;
		plan.job = JOB_RAW;
		plan.copies = options->raw_copies;
		trial->raw = add_side(trial, &plan);
	}
	plan = flow_plan(trial, 1);
	trial->one_to_one = &trial->sides[trial->n_sides];
	return add_flow(trial, &plan);
}

static bool measure(struct trial *trial)
{
	const struct common_options *common = &trial->options->common;
	struct runner_attr attr = {
		.n_sources = 1,
		.n_target_threads = trial->session->peer ? 0 : trial->n_targets,
		.peer = trial->session->peer,
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
			   "--targets",
		.value = value_bandwidth,
	};

	return compare_bandwidths(&comparison, &attr);
}

static json_t *ratio(
    const double *values, const struct side *other, const double *others)
{
	return other
	    ? report_number(stats_ratio(values, others, other->n_values))
	    : json_null();
}

static json_t *source_ns(const struct side *side)
{
	return side ? report_number(
			  stats_summary(side->source_ns, side->n_values).median)
		    : json_null();
}

/* Add the time and memory traffic of the source for each tuple. */
static void report_source(
    json_t *row, const struct trial *trial, const struct side *flow)
{
	const struct side *one = trial->one_to_one;
	const struct plan *plan = &flow->plan;

	json_object_set_new(row, "source_ns", source_ns(flow));
	json_object_set_new(row, "baseline_source_ns", source_ns(trial->raw));
	json_object_set_new(row, "one_to_one_source_ns", source_ns(one));
	json_object_set_new(row, "source_ratio",
	    ratio(flow->source_ns, one, one ? one->source_ns : NULL));
	json_object_set_new(row, "copied_bytes",
	    report_number((double)flow->copied / (double)plan->tuples));
}

static json_t *trial_row(const struct trial *trial, uint32_t number)
{
	const struct replicate_options *options = trial->options;
	const struct side *flow = &trial->sides[number];
	const struct side *naive = trial->naive >= 0
	    ? &trial->sides[trial->naive]
	    : NULL;
	const struct plan *plan = &flow->plan;
	struct summary summary = stats_summary(flow->values, flow->n_values);
	bool verified = flow->verified &&
	    (!trial->raw || trial->raw->verified) &&
	    (!trial->one_to_one || trial->one_to_one->verified);
	json_t *row = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:i, s:i}",
	    "experiment", "replicate", "mode",
	    mode_name(options->modes[number]), "api", api_name(plan->api),
	    "tuple_size", (int)plan->tuple_size, "targets",
	    (int)plan->n_targets, "procs", (int)options->common.procs, "wait",
	    wait_name(options->common.wait), "segment_size",
	    (int)plan->geometry.segment_size, "segment_count",
	    (int)plan->geometry.segment_count);

	json_object_set_new(row, "bytes",
	    json_integer((json_int_t)(plan->tuples * plan->tuple_size)));
	report_result(row, "GB/s", &summary, flow->n_values, verified);
	json_object_set_new(
	    row, "delivered", report_number(summary.median * plan->n_targets));
	json_object_set_new(
	    row, "content_checked", json_boolean(options->common.verify));
	json_object_set_new(row, "message_rate",
	    report_number(summary.median * 1e3 / plan->tuple_size));
	compare_report_travel(row, trial->session, flow);
	if (plan->link_bandwidth)
		compare_report_link(row, flow);
	else
		report_baseline(row,
		    !trial->raw                  ? NULL
			: plan->api == API_BATCH ? "raw-broadcast-copied"
			: options->raw_copies    ? "raw-broadcast-copied"
						 : "raw-broadcast",
		    flow->values,
		    trial->raw ? trial->raw->values : flow->values,
		    flow->n_values);
	json_object_set_new(row, "naive_ratio",
	    ratio(flow->values, naive, naive ? naive->values : NULL));
	report_source(row, trial, flow);
	json_object_set_new(
	    row, "preemptions", json_integer((json_int_t)flow->preempted));
	return row;
}

static bool run_trial(const struct replicate_options *options,
    struct session *session, struct report *report, uint32_t tuple_size,
    enum api api, uint32_t n_targets)
{
	static struct trial trial;
	uint32_t i;

	trial = (struct trial){
		.options = options,
		.session = session,
		.tuple_size = tuple_size,
		.api = api,
		.n_targets = n_targets,
	};
	if (!make_sides(&trial) || !measure(&trial))
		return false;
	for (i = 0; i < options->n_modes; i++)
		report_row(report, trial_row(&trial, i));
	return true;
}

static bool run_bandwidths(const struct replicate_options *options,
    struct session *session, struct report *report)
{
	const struct common_options *common = &options->common;
	uint32_t i, j, k;

	for (i = 0; i < common->n_tuple_sizes; i++)
		for (j = 0; j < options->n_apis; j++)
			for (k = 0; k < options->n_target_counts; k++)
				if (!run_trial(options, session, report,
					common->tuple_sizes[i],
					options->apis[j],
					(uint32_t)options->targets[k]))
					return false;
	return true;
}

uint32_t replicate_most_targets(const struct replicate_options *options)
{
	uint32_t i, most = 0;

	for (i = 0; i < options->n_target_counts; i++)
		if (options->targets[i] > most)
			most = (uint32_t)options->targets[i];
	return most;
}

int bench_replicate(int argc, char **argv)
{
	static struct replicate_options options;
	const struct common_options *common = &options.common;
	struct session session;
	struct report report;
	bool done;
	int status;

	replicate_options_parse(argc, argv, &options);
	if (!session_open(common, &session))
		return 1;
	if (common->role == BENCH_TARGET)
		return serve(common, &session);
	if (options.latency)
		return bench_replies(&options, &session);
	report_open(&report, common->format, "replicate", columns,
	    1 + replicate_most_targets(&options));
	done = run_bandwidths(&options, &session, &report);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
