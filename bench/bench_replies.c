/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time from a request, which a replicate flow sends to all targets, until
 * each of them has replied over a shuffle flow. Both are latency flows. The
 * baseline is a word in memory that all targets poll, and a word of each for
 * its reply. One row for each tuple size, number of targets and mode.
 */
#include <dfi/dfi.h>

#include "bench.h"
#include "compare.h"
#include "histogram_file.h"
#include "replicate.h"
#include "values.h"

static const struct column columns[] = {
	{ "mode", "mode", 9, 0, false },
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "targets", "targets", 7, 0, false },
	{ "value", "result[ns]", 10, 0, false },
	{ "p99", "99 %[ns]", 8, 0, false },
	{ "baseline_value", "limit[ns]", 9, 0, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "baseline", "limit is", 22, 0, false },
	{ "procs", "procs", 5, 0, true },
	{ "wait", "wait", 8, 0, true },
	{ "iterations", "trips", 11, 0, true },
	{ "min", "min[ns]", 8, 0, true },
	{ "max", "max[ns]", 8, 0, true },
	{ "p999", "99.9 %[ns]", 10, 0, true },
	{ "p9999", "99.99 %[ns]", 11, 0, true },
	{ "naive_ratio", "to naive", 8, 3, true },
	{ "transport", "transport", 9, 0, true },
	{ "device", "device", 8, 0, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

enum {
	SIDE_RAW = N_MODES,
	MAX_SIDES,
};

/* The rows of one tuple size and number of targets. */
struct trial {
	const struct replicate_options *options;
	struct session *session;
	uint32_t tuple_size, n_targets;
	struct side sides[MAX_SIDES]; /* those of the modes first, in order */
	struct histogram trips[MAX_SIDES];
	uint32_t n_sides;
	const struct side *raw, *naive; /* NULL: not measured */
};

/* The median of a round, in ns. */
static double value_trip(const struct side *side, const struct board *board,
    const struct outcome *outcome)
{
	(void)side;
	(void)outcome;
	return histogram_percentile(&board->trips, 0.5) / board->ticks_per_ns;
}

static double percentile(const struct side *side, double fraction)
{
	return histogram_percentile(side->trips, fraction) / side->ticks_per_ns;
}

static struct side *add_side(struct trial *trial, enum job_kind job)
{
	const struct replicate_options *options = trial->options;
	uint32_t i = trial->n_sides++;
	int32_t cpus[MAX_CPUS];
	bool crowded = 1 + trial->n_targets > usable_cpus(cpus, MAX_CPUS);

	trial->sides[i] = (struct side){
		.plan = {
			.job = job,
			.api = API_PUSH,
			.echo = crowded ? ECHO_YIELD : ECHO_TWO_LINES,
			.wait = options->common.wait,
			.n_sources = 1,
			.n_targets = trial->n_targets,
			.n_target_threads = trial->n_targets,
			.tuple_size = trial->tuple_size,
			.tuples = options->iterations,
			.link_latency_ns = options->link_latency_ns,
		},
		.asked = options->common.geometry,
		.trips = &trial->trips[i],
	};
	return &trial->sides[i];
}

static bool make_sides(struct trial *trial)
{
	const struct replicate_options *options = trial->options;
	bool network = false;
	struct side *side;
	uint32_t i;

	for (i = 0; i < options->n_modes; i++) {
		side = add_side(trial, JOB_ECHO_FLOW);
		replicate_plan(&side->plan, options->modes[i]);
		if (options->modes[i] == MODE_NAIVE)
			trial->naive = side;
		if (!session_look_up(trial->session, &side->plan, &side->asked))
			return false;
		network |= session_needs_network(trial->session, &side->plan);
	}
	/* A word in memory is no baseline for a network. */
	if (!options->no_baseline && !network)
		trial->raw = add_side(trial, JOB_ECHO_RAW);
	return true;
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
		.smaller = "fewer --iterations, --targets or --segments",
		.value = value_trip,
	};
	struct runner runner;
	bool done;

	if (!compare_start(&comparison, &attr, &runner))
		return false;
	done = compare_rounds(&comparison);
	runner_stop(&runner);
	return done;
}

static json_t *trial_row(const struct trial *trial, uint32_t number)
{
	const struct replicate_options *options = trial->options;
	const struct side *flow = &trial->sides[number];
	const struct side *raw = trial->raw;
	struct summary summary = stats_summary(flow->values, flow->n_values);
	json_t *row = json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:I}",
	    "experiment", "replicate-latency", "mode",
	    mode_name(options->modes[number]), "tuple_size",
	    (int)trial->tuple_size, "targets", (int)trial->n_targets, "procs",
	    (int)options->common.procs, "wait", wait_name(options->common.wait),
	    "iterations", (json_int_t)options->iterations);

	json_object_set_new(row, "segment_count",
	    json_integer(flow->plan.geometry.segment_count));
	json_object_set_new(row, "link_latency_us",
	    report_number((double)options->link_latency_ns * 1e-3));
	report_result(row, "ns", &summary, flow->n_values,
	    flow->verified && (!raw || raw->verified));
	json_object_set_new(row, "p99", report_number(percentile(flow, 0.99)));
	json_object_set_new(
	    row, "p999", report_number(percentile(flow, 0.999)));
	json_object_set_new(
	    row, "p9999", report_number(percentile(flow, 0.9999)));
	compare_report_travel(row, trial->session, flow);
	report_baseline(row,
	    !raw                               ? NULL
		: raw->plan.echo == ECHO_YIELD ? "yield-words"
					       : "words",
	    flow->values, raw ? raw->values : flow->values, flow->n_values);
	json_object_set_new(row, "naive_ratio",
	    trial->naive ? report_number(stats_ratio(flow->values,
			       trial->naive->values, flow->n_values))
			 : json_null());
	json_object_set_new(
	    row, "preemptions", json_integer((json_int_t)flow->preempted));
	return row;
}

static bool run_trial(const struct replicate_options *options,
    struct session *session, struct report *report, struct histogram_file *file,
    uint32_t tuple_size, uint32_t n_targets)
{
	static struct trial trial;
	uint32_t i;

	trial = (struct trial){
		.options = options,
		.session = session,
		.tuple_size = tuple_size,
		.n_targets = n_targets,
	};
	if (!make_sides(&trial) || !measure(&trial))
		return false;
	for (i = 0; i < options->n_modes; i++) {
		report_row(report, trial_row(&trial, i));
		histogram_file_add(
		    file, mode_name(options->modes[i]), &trial.sides[i]);
	}
	if (trial.raw)
		histogram_file_add(file, "words", trial.raw);
	return true;
}

int bench_replies(
    const struct replicate_options *options, struct session *session)
{
	const struct common_options *common = &options->common;
	struct histogram_file file;
	struct report report;
	bool done = true;
	uint32_t i, j;
	int status;

	if (!histogram_file_open(&file, options->histogram)) {
		session_close(session);
		return 1;
	}
	report_open(&report, common->format, "replicate-latency", columns,
	    1 + replicate_most_targets(options));
	for (i = 0; i < common->n_tuple_sizes && done; i++)
		for (j = 0; j < options->n_target_counts && done; j++)
			done = run_trial(options, session, &report, &file,
			    common->tuple_sizes[i],
			    (uint32_t)options->targets[j]);
	status = report_close(&report);
	session_close(session);
	return histogram_file_close(&file) && done ? status : 1;
}
