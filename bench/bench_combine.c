/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidth of combiner flows: the sum of an integer for each key, from all
 * sources to one target. Beside it, in turns, a shuffle flow with one source,
 * whose target only reads, and the loop that one would write by hand for tuples
 * that lie in memory. One row for each tuple size and number of groups.
 */
#include <dfi/dfi.h>

#include "bench.h"
#include "compare.h"
#include "values.h"

static const struct column columns[] = {
	{ "groups", "groups", 8, 0 },
	{ "source_combining", "combining", 9, 0 },
	{ "tuple_size", "#bytes", 6, 0 },
	{ "sources", "sources", 7, 0 },
	{ "procs", "procs", 5, 0 },
	{ "segment_size", "segment", 8, 0 },
	{ "segment_count", "count", 6, 0 },
	{ "value", "BW median[GB/s]", 15, 2 },
	{ "min", "BW min[GB/s]", 12, 2 },
	{ "max", "BW peak[GB/s]", 13, 2 },
	{ "message_rate", "MsgRate[Mpps]", 13, 2 },
	{ "sent_share", "sent[B/B]", 9, 3 },
	{ "baseline", "baseline", 13, 0 },
	{ "baseline_value", "BW median[GB/s]", 15, 2 },
	{ "ratio", "ratio", 6, 3 },
	{ "shuffle_value", "shuffle[GB/s]", 13, 2 },
	{ "shuffle_ratio", "ratio", 6, 3 },
	{ "off_ratio", "to off", 6, 3 },
	{ "off_share", "bytes to off", 12, 4 },
	{ "transport", "transport", 9, 0 },
	{ "device", "device", 8, 0 },
	{ "preemptions", "preempted", 9, 0 },
	{ "verified", "verified", 8, 0 },
	{ 0 },
};

enum {
	MAX_SIDES = MAX_COMBININGS + 2, /* and the shuffle flow, and the loop */
};

/* One row in the making. */
struct trial {
	const struct combine_options *options;
	struct session *session;
	uint32_t tuple_size;
	uint64_t n_groups;
	struct side sides[MAX_SIDES]; /* first those of the modes, in order */
	uint32_t n_sides;
	const struct side *off, *shuffle, *fold; /* NULL: not measured */
};

static struct plan make_plan(const struct trial *trial, enum job_kind job)
{
	const struct combine_options *options = trial->options;
	const struct common_options *common = &options->common;
	uint32_t n_sources = job == JOB_COMBINE ? options->n_sources : 1;
	int32_t cpus[MAX_CPUS];

	return (struct plan){
		.job = job,
		.api = API_CLAIM,
		.wait = common->wait,
		.n_sources = n_sources,
		.n_targets = 1,
		.n_target_threads = 1,
		.tuple_size = trial->tuple_size,
		.n_groups = job == JOB_FLOW ? 0 : trial->n_groups,
		.yields = common->wait != DFI_WAIT_SPIN ||
		    1 + n_sources > usable_cpus(cpus, MAX_CPUS),
	};
}

static struct side *add_side(struct trial *trial, enum job_kind job)
{
	struct side *side = &trial->sides[trial->n_sides++];

	*side = (struct side){
		.plan = make_plan(trial, job),
		.asked = trial->options->common.geometry,
	};
	return side;
}

static bool find_geometry(const struct trial *trial, struct side *side)
{
	return session_geometry(
	    trial->session, &side->plan, &side->asked, &side->plan.geometry);
}

static bool make_sides(struct trial *trial)
{
	const struct combine_options *options = trial->options;
	struct side *side;
	uint32_t i;

	for (i = 0; i < options->n_combinings; i++) {
		side = add_side(trial, JOB_COMBINE);
		side->plan.combining = options->combinings[i];
		if (options->combinings[i] == DFI_COMBINING_OFF)
			trial->off = side;
		if (!find_geometry(trial, side))
			return false;
	}
	if (options->no_baseline)
		return true;
	trial->fold = add_side(trial, JOB_FOLD);
	side = add_side(trial, JOB_FLOW);
	trial->shuffle = side;
	return find_geometry(trial, side);
}

static bool measure(struct trial *trial)
{
	const struct common_options *common = &trial->options->common;
	struct runner_attr attr = {
		.n_sources = trial->options->n_sources,
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
		.value = value_bandwidth,
	};

	return compare_bandwidths(&comparison, &attr);
}

static bool all_verified(const struct trial *trial)
{
	uint32_t i;

	for (i = 0; i < trial->n_sides; i++)
		if (!trial->sides[i].verified)
			return false;
	return true;
}

static json_t *median(const struct side *side)
{
	return side
	    ? report_number(stats_summary(side->values, side->n_values).median)
	    : json_null();
}

static json_t *ratio(const struct side *flow, const struct side *other)
{
	return other ? report_number(stats_ratio(
			   flow->values, other->values, flow->n_values))
		     : json_null();
}

/* Received for each byte that was pushed. */
static double share(const struct side *flow)
{
	return (double)flow->received /
	    ((double)flow->plan.tuples * flow->plan.n_sources);
}

static json_t *off_share(const struct side *flow, const struct side *off)
{
	return off ? report_number(share(flow) / share(off)) : json_null();
}

static json_t *trial_row(const struct trial *trial, const struct side *flow)
{
	const struct plan *plan = &flow->plan;
	struct summary summary = stats_summary(flow->values, flow->n_values);
	uint64_t sent = plan->tuples * plan->n_sources * plan->tuple_size;
	uint64_t received = flow->received * plan->tuple_size;
	json_t *row = json_pack("{s:s, s:I, s:s, s:i, s:i, s:i, s:s, s:i, s:i}",
	    "experiment", "combine", "groups", (json_int_t)plan->n_groups,
	    "source_combining", combining_name(plan->combining), "tuple_size",
	    (int)plan->tuple_size, "sources", (int)plan->n_sources, "procs",
	    (int)trial->options->common.procs, "wait",
	    wait_name(trial->options->common.wait), "segment_size",
	    (int)plan->geometry.segment_size, "segment_count",
	    (int)plan->geometry.segment_count);

	json_object_set_new(row, "bytes", json_integer((json_int_t)sent));
	json_object_set_new(
	    row, "target_bytes", json_integer((json_int_t)received));
	json_object_set_new(
	    row, "sent_share", report_number((double)received / (double)sent));
	report_result(
	    row, "GB/s", &summary, flow->n_values, all_verified(trial));
	json_object_set_new(row, "content_checked",
	    json_boolean(trial->options->common.verify));
	json_object_set_new(row, "message_rate",
	    report_number(summary.median * 1e3 / plan->tuple_size));
	compare_report_travel(row, trial->session, flow);
	report_baseline(row, trial->fold ? "fold" : NULL, flow->values,
	    trial->fold ? trial->fold->values : flow->values, flow->n_values);
	json_object_set_new(row, "shuffle_value", median(trial->shuffle));
	json_object_set_new(row, "shuffle_ratio", ratio(flow, trial->shuffle));
	json_object_set_new(row, "off_ratio", ratio(flow, trial->off));
	json_object_set_new(row, "off_share", off_share(flow, trial->off));
	json_object_set_new(
	    row, "preemptions", json_integer((json_int_t)flow->preempted));
	return row;
}

static bool run_trial(const struct combine_options *options,
    struct session *session, struct report *report, uint32_t tuple_size,
    uint64_t n_groups)
{
	static struct trial trial;
	uint32_t i;

	trial = (struct trial){
		.options = options,
		.session = session,
		.tuple_size = tuple_size,
		.n_groups = n_groups,
	};
	if (!make_sides(&trial) || !measure(&trial))
		return false;
	for (i = 0; i < options->n_combinings; i++)
		report_row(report, trial_row(&trial, &trial.sides[i]));
	return true;
}

int bench_combine(int argc, char **argv)
{
	static struct combine_options options;
	const struct common_options *common = &options.common;
	struct session session;
	struct report report;
	bool done = true;
	uint32_t i, j;
	int status;

	combine_options_parse(argc, argv, &options);
	if (!session_open(common, &session))
		return 1;
	report_open(
	    &report, common->format, "combine", columns, options.n_sources + 1);
	for (i = 0; i < common->n_tuple_sizes && done; i++)
		for (j = 0; j < options.n_group_counts && done; j++)
			done = run_trial(&options, &session, &report,
			    common->tuple_sizes[i], options.groups[j]);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
