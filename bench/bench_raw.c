/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-written ring alone, 1:1, compared with one core's copy speed; and
 * the sweep over its geometries, which shows the most that the machine allows.
 */
#include <dfi/dfi.h>
#include <stdlib.h>

#include "../common/complain.h"
#include "bench.h"
#include "compare.h"
#include "values.h"

/* The paper's geometry is the default. */
#define DEFAULT_SEGMENT_SIZE 8192
#define DEFAULT_SEGMENTS 32

#define SWEEP_MIN_SEGMENT (4u << 10)
#define SWEEP_MAX_SEGMENT (64u << 10)
#define SWEEP_MIN_RING (64u << 10)
#define SWEEP_MAX_RING (64u << 20)
#define SWEEP_MAX_SIDES 64

/*
 * The largest of many medians is partly luck, so the best ones are measured
 * again, among themselves.
 */
#define SWEEP_FINALISTS 6

static const struct column columns[] = {
	{ "tuple_size", "tuple[B]", 8, 0, false },
	{ "segment_size", "segment[B]", 10, 0, false },
	{ "segment_count", "segments", 8, 0, false },
	{ "value", "result[GB/s]", 12, 2, false },
	{ "baseline_value", "limit[GB/s]", 11, 2, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "baseline", "limit is", 8, 0, false },
	{ "procs", "procs", 5, 0, true },
	{ "min", "min[GB/s]", 9, 2, true },
	{ "max", "max[GB/s]", 9, 2, true },
	{ "message_rate", "rate[M/s]", 9, 2, true },
	{ "preemptions", "preempted", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

static struct side raw_side(const struct common_options *options,
    enum job_kind job, uint32_t tuple_size, const struct raw_geometry *geometry)
{
	return (struct side){
		.plan = {
			.job = job,
			.api = API_CLAIM,
			.n_sources = 1,
			.n_targets = job == JOB_RAW,
			.n_target_threads = job == JOB_RAW,
			.tuple_size = tuple_size,
			.yields = options->wait != DFI_WAIT_SPIN,
			.geometry = *geometry,
		},
	};
}

static json_t *raw_row(const struct common_options *options,
    const struct side *side, const struct side *copy)
{
	const struct plan *plan = &side->plan;
	struct summary summary = stats_summary(side->values, side->n_values);
	json_t *row = json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:I}",
	    "experiment", "raw", "tuple_size", (int)plan->tuple_size, "procs",
	    (int)options->procs, "segment_size",
	    (int)plan->geometry.segment_size, "segment_count",
	    (int)plan->geometry.segment_count, "wait", wait_name(options->wait),
	    "bytes", (json_int_t)(plan->tuples * plan->tuple_size));

	if (plan->credit_interval)
		json_object_set_new(row, "credit_interval",
		    json_integer(plan->credit_interval));
	report_result(row, "GB/s", &summary, side->n_values, side->verified);
	json_object_set_new(row, "message_rate",
	    report_number(summary.median * 1e3 / plan->tuple_size));
	json_object_set_new(
	    row, "preemptions", json_integer((json_int_t)side->preempted));
	if (copy)
		report_baseline(
		    row, "memcpy", side->values, copy->values, side->n_values);
	else
		report_baseline(row, NULL, side->values, NULL, side->n_values);
	return row;
}

/* Measure rings of one tuple size in turns. */
static bool measure(
    const struct raw_options *options, struct side *sides, uint32_t n_sides)
{
	const struct common_options *common = &options->common;
	struct runner_attr attr = {
		.n_sources = 1,
		.n_target_threads = 1,
		.procs = common->procs,
		.timeout_s = common->timeout_s,
		.placement = &common->placement,
	};
	struct comparison comparison = {
		.options = common,
		.sides = sides,
		.n_sides = n_sides,
		.smaller = "a smaller --segment-size, or fewer --segments",
		.value = value_bandwidth,
	};

	return compare_bandwidths(&comparison, &attr);
}

static bool measure_one(const struct raw_options *options,
    struct report *report, uint32_t tuple_size)
{
	const struct common_options *common = &options->common;
	struct raw_geometry geometry = common->geometry;
	struct side sides[2];

	if (!geometry.segment_size)
		geometry.segment_size = DEFAULT_SEGMENT_SIZE;
	if (!geometry.segment_count)
		geometry.segment_count = DEFAULT_SEGMENTS;
	if (tuple_size > geometry.segment_size) {
		complain("a tuple of %u bytes doesn't fit a segment of %u",
		    tuple_size, geometry.segment_size);
		return false;
	}
	if (options->credit_interval > geometry.segment_count) {
		complain("--credit-interval %u: the ring has %u segments",
		    options->credit_interval, geometry.segment_count);
		return false;
	}
	sides[0] = raw_side(common, JOB_RAW, tuple_size, &geometry);
	sides[1] = raw_side(common, JOB_COPY, tuple_size, &geometry);
	sides[0].plan.credit_interval = options->credit_interval;
	if (!measure(options, sides, 2))
		return false;
	report_row(report, raw_row(common, &sides[0], &sides[1]));
	return true;
}

static uint32_t make_sweep(
    const struct raw_options *options, uint32_t tuple_size, struct side *sides)
{
	struct raw_geometry geometry;
	uint32_t segment, ring, n = 0;

	for (segment = SWEEP_MIN_SEGMENT; segment <= SWEEP_MAX_SEGMENT;
	     segment *= 2) {
		if (tuple_size > segment)
			continue;
		for (ring = SWEEP_MIN_RING; ring <= SWEEP_MAX_RING; ring *= 2) {
			geometry = (struct raw_geometry){
				.segment_size = segment,
				.segment_count = ring / segment,
			};
			sides[n++] = raw_side(
			    &options->common, JOB_RAW, tuple_size, &geometry);
		}
	}
	return n;
}

static double side_median(const struct side *side)
{
	return stats_summary(side->values, side->n_values).median;
}

static int by_median(const void *a, const void *b)
{
	double left = side_median(*(struct side *const *)a);
	double right = side_median(*(struct side *const *)b);

	return left < right ? 1 : left > right ? -1 : 0;
}

/* Measure the best ones again; the new values replace the old ones. */
static bool sweep_finals(const struct raw_options *options,
    struct side **ranking, uint32_t n, const struct side **best)
{
	static struct side finalists[SWEEP_FINALISTS];
	double median, most = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		finalists[i] = raw_side(&options->common, JOB_RAW,
		    ranking[i]->plan.tuple_size, &ranking[i]->plan.geometry);
	if (!measure(options, finalists, n))
		return false;
	for (i = 0; i < n; i++) {
		*ranking[i] = finalists[i];
		median = side_median(ranking[i]);
		if (median > most) {
			most = median;
			*best = ranking[i];
		}
	}
	return true;
}

static bool is_finalist(
    struct side *const *ranking, uint32_t n, const struct side *side)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (ranking[i] == side)
			return true;
	return false;
}

static bool sweep(const struct raw_options *options, struct report *report,
    uint32_t tuple_size)
{
	static struct side sides[SWEEP_MAX_SIDES];
	struct side *ranking[SWEEP_MAX_SIDES];
	uint32_t i, n = make_sweep(options, tuple_size, sides);
	uint32_t n_finalists = n < SWEEP_FINALISTS ? n : SWEEP_FINALISTS;
	const struct side *best = NULL;
	json_t *row;

	if (!n || !measure(options, sides, n))
		return false;
	for (i = 0; i < n; i++)
		ranking[i] = &sides[i];
	qsort(ranking, n, sizeof(ranking[0]), by_median);
	if (!sweep_finals(options, ranking, n_finalists, &best))
		return false;
	for (i = 0; i < n; i++) {
		row = raw_row(&options->common, &sides[i], NULL);
		json_object_set_new(row, "measured_again",
		    json_boolean(is_finalist(ranking, n_finalists, &sides[i])));
		json_object_set_new(
		    row, "best", json_boolean(&sides[i] == best));
		report_row(report, row);
	}
	report_note(report, "best for tuples of %u bytes: %ux%u, %.2f GB/s",
	    tuple_size, best->plan.geometry.segment_size,
	    best->plan.geometry.segment_count, side_median(best));
	return true;
}

int bench_raw(int argc, char **argv)
{
	struct raw_options options;
	struct report report;
	uint32_t i, size;
	bool done = true;
	int status;

	raw_options_parse(argc, argv, &options);
	report_open(&report, options.common.format, "raw", columns, 2);
	for (i = 0; i < options.common.n_tuple_sizes && done; i++) {
		size = options.common.tuple_sizes[i];
		done = options.sweep ? sweep(&options, &report, size)
				     : measure_one(&options, &report, size);
	}
	status = report_close(&report);
	return done ? status : 1;
}
