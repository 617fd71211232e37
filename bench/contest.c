/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of flows and rivals, measured in turns. */
#include "contest.h"

#include <dfi/dfi.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"
#include "replicate.h"
#include "rival.h"
#include "values.h"

#define N_GROUPS 1000
#define MAX_PAIRS 8

/* A measure with one size: the flow's side, and those of rivals. */
struct trial {
	const struct contest *contest;
	const struct rivals_options *options;
	struct session *session;
	enum measure measure;
	uint32_t tuple_size;
	struct side sides[1 + MAX_RIVALS];
	uint32_t n_sides;
};

static const struct contest_measure *kind_of(const struct trial *trial)
{
	return &trial->contest->measures[trial->measure];
}

/* The median round trip of a round, in ns. */
static double value_trip(const struct side *side, const struct board *board,
    const struct outcome *outcome)
{
	(void)side;
	(void)outcome;
	return histogram_percentile(&board->trips, 0.5) / board->ticks_per_ns;
}

static double value_trip_us(const struct side *side, const struct board *board,
    const struct outcome *outcome)
{
	return value_trip(side, board, outcome) * 1e-3;
}

/* The ends of a measure, and what they do that one source and target do not. */
static void shape_plan(
    enum measure measure, uint32_t straggler, struct plan *plan)
{
	int32_t cpus[MAX_CPUS];
	uint32_t n_cpus = usable_cpus(cpus, MAX_CPUS);

	plan->n_sources = plan->n_targets = 1;
	switch (measure) {
	case MEASURE_SHUFFLE:
		plan->n_sources = plan->n_targets = 2;
		plan->slow_source = plan->slow_target = straggler;
		break;
	case MEASURE_THREADS:
		plan->paired = 1;
		plan->routing = DFI_ROUTE_DIRECT;
		plan->n_sources = plan->n_targets = n_cpus < 4 ? 1
		    : n_cpus > 2 * MAX_PAIRS                   ? MAX_PAIRS
							       : n_cpus / 2;
		break;
	case MEASURE_REPLICATE:
		replicate_plan(plan, MODE_MULTICAST);
		plan->n_targets = n_cpus < 3         ? 1
		    : n_cpus > REPLICATE_MAX_TARGETS ? REPLICATE_MAX_TARGETS
						     : n_cpus - 1;
		break;
	case MEASURE_COMBINE:
		plan->n_sources = 2;
		plan->n_groups = N_GROUPS;
		plan->combining = DFI_COMBINING_ADAPTIVE;
		break;
	default:
		break;
	}
	plan->n_target_threads = plan->n_targets;
}

static bool make_flow_side(struct trial *trial, uint32_t segment_size)
{
	const struct common_options *common = &trial->options->common;
	const struct contest_measure *kind = kind_of(trial);
	struct side *side = &trial->sides[0];
	int32_t cpus[2];

	*side = (struct side){
		.plan = {
			.job = kind->job,
			.api = kind->api,
			.wait = common->wait,
			.tuple_size = trial->tuple_size,
			/* Reading a clock should cost little beside it. */
			.batch = trial->options->straggler ? 16384 : 1024,
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
	shape_plan(trial->measure, trial->options->straggler, &side->plan);
	trial->n_sides = 1;
	return session_look_up(trial->session, &side->plan, &side->asked);
}

/* Only ranks that work on large blocks can be slow on purpose. */
static bool has_stragglers(enum rival_kind kind)
{
	return kind == RIVAL_OPENMPI_ALLTOALLV || kind == RIVAL_MPICH_ALLTOALLV;
}

/* Whether an end of a round trip looks for a change of the last whole word. */
static bool polls_a_word(enum rival_kind kind)
{
	return kind == RIVAL_OPENMPI_PUT || kind == RIVAL_MPICH_PUT ||
	    kind == RIVAL_UCX_PUT;
}

/* Whether the options choose it, and it can run here. */
static bool takes_part(const struct trial *trial, enum rival_kind kind)
{
	const struct rivals_options *options = trial->options;
	const struct rival *rival = rival_of(kind);
	uint32_t i;

	if (options->straggler && !has_stragglers(kind))
		return false;
	if (trial->measure == MEASURE_TRIPS && trial->tuple_size < 8 &&
	    polls_a_word(kind))
		return false;
	for (i = 0; i < options->n_rivals; i++)
		if (options->rivals[i] == kind)
			break;
	return (i < options->n_rivals || !options->n_rivals) && rival &&
	    rival->version();
}

/* The plan of the flow becomes that of a rival. */
static void set_rival(struct plan *plan, enum rival_kind kind, bool trips)
{
	plan->rival = kind;
	plan->trips = trips;
	plan->job = JOB_RIVAL;
	if (kind == RIVAL_RAW)
		plan->job = trips ? JOB_ECHO_RAW : JOB_RAW;
	if (kind != RIVAL_MEMCPY)
		return;
	plan->job = JOB_COPY;
	plan->n_targets = plan->n_target_threads = 0;
}

/* A rival that is not here has no row. */
static void make_rival_sides(struct trial *trial)
{
	const struct contest_measure *kind = kind_of(trial);
	struct side *side;
	uint32_t i;

	for (i = 0; i < kind->n_rivals; i++) {
		if (!takes_part(trial, kind->rivals[i]))
			continue;
		side = &trial->sides[trial->n_sides++];
		*side = trial->sides[0];
		set_rival(&side->plan, kind->rivals[i],
		    trial->measure == MEASURE_TRIPS);
	}
}

static bool measure(struct trial *trial)
{
	const struct common_options *common = &trial->options->common;
	bool trips = trial->measure == MEASURE_TRIPS;
	struct runner_attr attr = {
		.n_sources = trial->sides[0].plan.n_sources,
		.n_target_threads = trial->sides[0].plan.n_target_threads,
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
		.value = !trips                               ? value_bandwidth
		    : strcmp(kind_of(trial)->unit, "us") == 0 ? value_trip_us
							      : value_trip,
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

/* Whether the rounds of a side were better than those of another one. */
static bool is_better(
    const struct trial *trial, const struct side *side, const struct side *than)
{
	double value = stats_summary(side->values, side->n_values).median;
	double other = stats_summary(than->values, than->n_values).median;

	return trial->measure == MEASURE_TRIPS ? value < other : value > other;
}

/* The best rival that does all of the work and is no loop of ours, or NULL. */
static const struct side *best_rival(const struct trial *trial)
{
	const struct side *best = NULL, *side;
	uint32_t i;

	for (i = 1; i < trial->n_sides; i++) {
		side = &trial->sides[i];
		if (side->plan.rival != RIVAL_RAW &&
		    side->plan.rival != RIVAL_MEMCPY &&
		    (!best || is_better(trial, side, best)))
			best = side;
	}
	return best;
}

static void report_straggler(json_t *row, const struct rivals_options *options)
{
	json_object_set_new(row, "straggler", json_integer(options->straggler));
	if (options->common.bytes)
		json_object_set_new(row, "table_bytes",
		    json_integer((json_int_t)options->common.bytes));
}

/* other NULL: the flow alone. */
static json_t *trial_row(const struct trial *trial, const struct side *other)
{
	const char *rival = other ? rival_name(other->plan.rival) : NULL;
	const struct contest_measure *kind = kind_of(trial);
	const struct side *flow = &trial->sides[0];
	struct summary summary = stats_summary(flow->values, flow->n_values);
	json_t *row = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "experiment",
	    trial->contest->name, "measure", measure_name(trial->measure),
	    "tuple_size", (int)flow->plan.tuple_size, "segment_size",
	    (int)flow->plan.geometry.segment_size, "segment_count",
	    (int)flow->plan.geometry.segment_count, "procs",
	    (int)trial->options->common.procs);

	json_object_set_new(row, "sources", json_integer(flow->plan.n_sources));
	json_object_set_new(row, "targets", json_integer(flow->plan.n_targets));
	json_object_set_new(
	    row, "wait", json_string(wait_name(trial->options->common.wait)));
	if (trial->options->straggler)
		report_straggler(row, trial->options);
	report_result(row, kind->unit, &summary, flow->n_values,
	    flow->verified && (!other || other->verified));
	compare_report_travel(row, trial->session, flow);
	report_baseline(row, rival, flow->values,
	    other ? other->values : flow->values, flow->n_values);
	json_object_set_new(row, "rival_version",
	    other ? json_string(rival_of(other->plan.rival)->version())
		  : json_null());
	json_object_set_new(row, "best_peer",
	    json_string(other && other == best_rival(trial) ? "yes" : "-"));
	json_object_set_new(row, "preemptions",
	    json_integer((
		json_int_t)(flow->preempted + (other ? other->preempted : 0))));
	return row;
}

static bool run_trial(struct trial *trial, struct report *report,
    uint32_t segment_size, uint32_t tuple_size)
{
	uint32_t i;

	trial->tuple_size = tuple_size;
	if (!make_flow_side(trial, segment_size))
		return false;
	make_rival_sides(trial);
	if (!measure(trial))
		return false;
	if (trial->n_sides == 1)
		report_row(report, trial_row(trial, NULL));
	for (i = 1; i < trial->n_sides; i++)
		report_row(report, trial_row(trial, &trial->sides[i]));
	return true;
}

/* Rows of segments have a size each; the others take what the library does. */
static bool run_segment_sizes(
    struct trial *trial, struct report *report, uint32_t tuple_size)
{
	const struct rivals_options *options = trial->options;
	uint32_t asked = options->common.geometry.segment_size, i;
	bool done = true;

	if (asked || trial->measure != MEASURE_SEGMENTS)
		return run_trial(trial, report, asked, tuple_size);
	for (i = 0; i < options->n_segment_sizes && done; i++)
		done = run_trial(
		    trial, report, options->segment_sizes[i], tuple_size);
	return done;
}

static bool run_measure(struct trial *trial, struct report *report)
{
	const struct common_options *common = &trial->options->common;
	bool done = true;
	uint32_t i;

	if (!common->n_tuple_sizes)
		return run_segment_sizes(
		    trial, report, kind_of(trial)->tuple_size);
	for (i = 0; i < common->n_tuple_sizes && done; i++)
		done = run_segment_sizes(trial, report, common->tuple_sizes[i]);
	return done;
}

/* Whether some measure that was asked for has it. */
static bool has_rival(const struct contest *contest,
    const struct rivals_options *options, enum rival_kind kind)
{
	const struct contest_measure *measure;
	uint32_t i, j;

	for (i = 0; i < options->n_measures; i++) {
		measure = &contest->measures[options->measures[i]];
		for (j = 0; j < measure->n_rivals; j++)
			if (measure->rivals[j] == kind)
				return true;
	}
	return false;
}

static void note_rivals(const struct contest *contest,
    const struct rivals_options *options, const struct report *report)
{
	const struct rival *rival;
	uint32_t i;

	for (i = 0; i < N_RIVALS; i++) {
		if (!has_rival(contest, options, i))
			continue;
		rival = rival_of(i);
		if (rival && rival->version())
			report_note(
			    report, "%s: %s", rival_name(i), rival->version());
		else
			report_note(
			    report, "%s: not installed, no row", rival_name(i));
	}
}

int contest_run(
    const struct contest *contest, const struct rivals_options *options)
{
	static struct trial trial;
	struct session session;
	struct report report;
	bool done = true;
	uint32_t i;
	int status;

	if (!session_open(&options->common, &session))
		return 1;
	report_open(&report, options->common.format, contest->name,
	    contest->columns, 2);
	for (i = 0; i < options->n_measures && done; i++) {
		trial = (struct trial){
			.contest = contest,
			.options = options,
			.session = &session,
			.measure = options->measures[i],
		};
		done = run_measure(&trial, &report);
	}
	if (done)
		note_rivals(contest, options, &report);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
