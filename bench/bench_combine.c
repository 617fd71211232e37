/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidth of combiner flows: the sum of an integer for each key, from all
 * sources to one target. It is compared in turns with a shuffle flow with one
 * source, whose target only reads, and with a hand-written loop over tuples in
 * memory. One row for each tuple size and number of groups.
 */
#include <dfi/dfi.h>

#include "bench.h"
#include "compare.h"
#include "values.h"

static const struct column columns[] = {
	{ "groups", "groups", 8, 0, false },
	{ "source_combining", "combining", 9, 0, false },
	{ "fan_in", "fan-in", 6, 0, false },
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "sources", "sources", 7, 0, true },
	{ "value", "result[GB/s]", 12, 2, false },
	{ "sent_share", "sent[B/B]", 9, 3, false },
	{ "baseline_value", "limit[GB/s]", 11, 2, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "baseline", "limit is", 8, 0, false },
	{ "procs", "procs", 5, 0, true },
	{ "segment_size", "segment[B]", 10, 0, true },
	{ "segment_count", "segments", 8, 0, true },
	{ "min", "min[GB/s]", 9, 2, true },
	{ "max", "max[GB/s]", 9, 2, true },
	{ "message_rate", "rate[M/s]", 9, 2, true },
	{ "shuffle_value", "shuffle[GB/s]", 13, 2, true },
	{ "shuffle_ratio", "ratio", 6, 3, true },
	{ "off_ratio", "to off", 6, 3, true },
	{ "off_share", "bytes to off", 12, 4, true },
	{ "plain_ratio", "to no tree", 10, 3, true },
	{ "plain_share", "bytes to no tree", 16, 4, true },
	{ "transport", "transport", 9, 0, true },
	{ "device", "device", 8, 0, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

enum {
	MAX_MODES = MAX_COMBININGS * MAX_FAN_INS,
	MAX_SIDES = MAX_MODES + 2, /* plus the shuffle flow and the loop */
};

/* The state of one row. */
struct trial {
	const struct combine_options *options;
	struct session *session;
	uint32_t tuple_size;
	uint64_t n_groups;
	struct side sides[MAX_SIDES]; /* those of the modes first, in order */
	uint32_t n_sides, n_modes;
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

/* Add levels to the tree until a target has few inputs. */
static uint32_t count_combiners(uint32_t n, uint32_t fan_in)
{
	uint32_t sum = 0;

	if (!fan_in)
		return 0;
	do {
		n = (n + fan_in - 1) / fan_in;
		sum += n;
	} while (n > fan_in);
	return sum;
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
	return session_look_up(trial->session, &side->plan, &side->asked);
}

/* Add a mode: a way to combine, with or without a tree. */
static bool add_mode(struct trial *trial, uint32_t combining, uint32_t fan_in)
{
	struct side *side = add_side(trial, JOB_COMBINE);
	struct plan *plan = &side->plan;
	int32_t cpus[MAX_CPUS];

	trial->n_modes++;
	plan->combining = combining;
	plan->fan_in = fan_in;
	plan->n_combiners = count_combiners(plan->n_sources, fan_in);
	if (1 + plan->n_sources + plan->n_combiners >
	    usable_cpus(cpus, MAX_CPUS))
		plan->yields = 1;
	if (combining == DFI_COMBINING_OFF && !fan_in)
		trial->off = side;
	return find_geometry(trial, side);
}

static bool make_sides(struct trial *trial)
{
	const struct combine_options *options = trial->options;
	struct side *side;
	uint32_t i, j;

	for (i = 0; i < options->n_combinings; i++)
		for (j = 0; j < options->n_fan_ins; j++)
			if (!add_mode(trial, options->combinings[i],
				(uint32_t)options->fan_ins[j]))
				return false;
	if (options->no_baseline)
		return true;
	trial->fold = add_side(trial, JOB_FOLD);
	side = add_side(trial, JOB_FLOW);
	trial->shuffle = side;
	return find_geometry(trial, side);
}

static uint32_t most_combiners(const struct trial *trial)
{
	uint32_t i, most = 0;

	for (i = 0; i < trial->n_modes; i++)
		if (trial->sides[i].plan.n_combiners > most)
			most = trial->sides[i].plan.n_combiners;
	return most;
}

static bool measure(struct trial *trial)
{
	const struct common_options *common = &trial->options->common;
	struct runner_attr attr = {
		.n_sources = trial->options->n_sources,
		.n_target_threads = 1 + most_combiners(trial),
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
		.smaller = "fewer --groups or --sources, fewer --bytes, or "
			   "--no-baseline",
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

static double sent(const struct side *flow)
{
	const struct plan *plan = &flow->plan;

	return (double)plan->tuples * plan->n_sources * plan->tuple_size;
}

/* The bytes that the target received for each byte that was pushed. */
static double share(const struct side *flow)
{
	return (double)flow->received / sent(flow);
}

static json_t *share_of(const struct side *flow, const struct side *other)
{
	return other ? report_number(share(flow) / share(other)) : json_null();
}

/* The same flow without a tree, or NULL. */
static const struct side *plain(
    const struct trial *trial, const struct side *flow)
{
	const struct plan *plan;
	uint32_t i;

	for (i = 0; i < trial->n_modes; i++) {
		plan = &trial->sides[i].plan;
		if (plan->combining == flow->plan.combining && !plan->fan_in)
			return &trial->sides[i];
	}
	return NULL;
}

static json_t *trial_row(const struct trial *trial, const struct side *flow)
{
	const struct plan *plan = &flow->plan;
	struct summary summary = stats_summary(flow->values, flow->n_values);
	json_t *row = json_pack(
	    "{s:s, s:I, s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:i}",
	    "experiment", "combine", "groups", (json_int_t)plan->n_groups,
	    "source_combining", combining_name(plan->combining), "fan_in",
	    (int)plan->fan_in, "combiners", (int)plan->n_combiners,
	    "tuple_size", (int)plan->tuple_size, "sources",
	    (int)plan->n_sources, "procs", (int)trial->options->common.procs,
	    "wait", wait_name(trial->options->common.wait), "segment_size",
	    (int)plan->geometry.segment_size, "segment_count",
	    (int)plan->geometry.segment_count);

	json_object_set_new(row, "bytes", json_integer((json_int_t)sent(flow)));
	json_object_set_new(
	    row, "target_bytes", json_integer((json_int_t)flow->received));
	json_object_set_new(row, "sent_share", report_number(share(flow)));
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
	json_object_set_new(row, "off_share", share_of(flow, trial->off));
	json_object_set_new(
	    row, "plain_ratio", ratio(flow, plain(trial, flow)));
	json_object_set_new(
	    row, "plain_share", share_of(flow, plain(trial, flow)));
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
	for (i = 0; i < trial.n_modes; i++)
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
