/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints outcomes. The figure of a phase is the slowest worker's. Workers don't
 * wait for each other between phases, so the figures need not add up to the
 * total.
 */
#include "report.h"
#include "../../common/complain.h"
#include "../../common/output.h"
#include "platform.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#define GIB ((double)(UINT64_C(1) << 30))

/* Figures derived from the workers' times. */
struct figures {
	double seconds, inner, outer, join, partition;
	double tuples_per_second, gib_per_second;
};

static double seconds(uint64_t ns)
{
	return (double)ns * 1e-9;
}

static double max_of(double a, double b)
{
	return a > b ? a : b;
}

static struct figures figures_of(const struct outcome *outcome)
{
	const struct plan *plan = &outcome->plan;
	double n = (double)(plan->n_tuples[INNER] + plan->n_tuples[OUTER]);
	struct figures f = { .seconds = seconds(outcome->total_ns) };
	const struct worker_times *times;
	uint32_t i;

	for (i = 0; i < plan->n_workers; i++) {
		times = &outcome->workers[i];
		f.inner = max_of(f.inner, seconds(times->inner_ns));
		f.outer = max_of(f.outer, seconds(times->outer_ns));
		f.join = max_of(f.join, seconds(times->join_ns));
		f.partition = max_of(
		    f.partition, seconds(times->inner_ns + times->outer_ns));
	}
	if (f.seconds > 0)
		f.tuples_per_second = n / f.seconds;
	if (f.partition > 0)
		f.gib_per_second = n * (double)sizeof(struct tuple) / GIB /
		    f.partition;
	return f;
}

bool outcome_verified(const struct outcome *outcome)
{
	return outcome->has_expected &&
	    result_equal(&outcome->result, &outcome->expected);
}

bool outcome_wrong(const struct outcome *outcome)
{
	return outcome->has_expected && !outcome_verified(outcome);
}

static json_t *worker_json(const struct worker_times *times)
{
	return json_pack("{s:f, s:f, s:f, s:I}", "inner",
	    seconds(times->inner_ns), "outer", seconds(times->outer_ns),
	    "build_probe", seconds(times->join_ns), "sent_bytes",
	    (json_int_t)times->sent_bytes);
}

static json_t *outcome_json(
    const struct outcome *outcome, const struct options *options)
{
	const struct plan *plan = &outcome->plan;
	struct figures f = figures_of(outcome);
	json_t *workers = json_array(), *json;
	char checksum[32];
	uint32_t i;

	for (i = 0; i < plan->n_workers; i++)
		json_array_append_new(
		    workers, worker_json(&outcome->workers[i]));
	snprintf(checksum, sizeof(checksum), "%016" PRIx64,
	    outcome->result.checksum);
	json = json_pack(
	    "{s:f, s:I, s:s, s:o, s:f, s:f, "
	    "s:{s:f, s:f, s:f, s:f}, s:i, s:i, s:s, s:s, s:I, s:I, "
	    "s:i, s:b, s:o}",
	    "seconds", f.seconds, "matches",
	    (json_int_t)outcome->result.matches, "checksum", checksum,
	    "verified",
	    outcome->has_expected ? json_boolean(outcome_verified(outcome))
				  : json_null(),
	    "tuples_per_second", f.tuples_per_second, "gib_per_second",
	    f.gib_per_second, "phases", "partition", f.partition, "inner",
	    f.inner, "outer", f.outer, "build_probe", f.join, "nodes",
	    (int)options->nodes, "threads", (int)options->threads, "baseline",
	    options->baseline ? "local" : "none", "strategy",
	    options->baseline      ? "none"
		: plan->replicates ? "replicate"
				   : "repartition",
	    "inner", (json_int_t)plan->n_tuples[INNER], "outer",
	    (json_int_t)plan->n_tuples[OUTER], "radix_bits", (int)plan->bits,
	    "pinned", (int)options_pin(options), "workers", workers);
	if (json && options->sum.name)
		json_object_set_new(json, "sum",
		    json_integer((json_int_t)outcome->result.sum.low));
	if (json && options->csv[INNER])
		json_object_set_new(json, "rows_without_key",
		    json_pack("{s:I, s:I}", "inner",
			(json_int_t)outcome->keyless[INNER], "outer",
			(json_int_t)outcome->keyless[OUTER]));
	if (json && !options->csv[INNER])
		json_object_set_new(json, "input",
		    json_pack("{s:f, s:f, s:I}", "selectivity",
			options->selectivity, "zipf", options->zipf, "seed",
			(json_int_t)options->seed));
	return json;
}

static int print_json(
    FILE *out, const struct outcome *outcome, const struct options *options)
{
	json_t *json = outcome_json(outcome, options);
	int ret;

	if (!json)
		return complain("no memory for the report");
	ret = json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	putc('\n', out);
	json_decref(json);
	return ret ? complain("no memory for the report") : 0;
}

static void print_workers(FILE *out, const struct outcome *outcome)
{
	const struct worker_times *times;
	uint32_t i;

	fprintf(out, "\n  %-8s %10s %10s %12s %12s\n", "seconds", "inner",
	    "outer", "build/probe", "sent MiB");
	for (i = 0; i < outcome->plan.n_workers; i++) {
		times = &outcome->workers[i];
		fprintf(out,
		    "  worker %-3" PRIu32 "%8.3f %10.3f %12.3f %12.1f\n", i,
		    seconds(times->inner_ns), seconds(times->outer_ns),
		    seconds(times->join_ns),
		    (double)times->sent_bytes / (1 << 20));
	}
}

static void print_text(
    FILE *out, const struct outcome *outcome, const struct options *options)
{
	const struct plan *plan = &outcome->plan;
	struct figures f = figures_of(outcome);
	char name[1024];

	fprintf(out,
	    "radix join of %" PRIu64 " x %" PRIu64 " tuples of 16 bytes, ",
	    plan->n_tuples[INNER], plan->n_tuples[OUTER]);
	if (options->baseline)
		fprintf(out, "local baseline: %" PRIu32 " threads, no flows",
		    plan->n_workers);
	else
		fprintf(out,
		    "%" PRIu32 " process%s x %" PRIu32 " thread%s over DFI",
		    options->nodes, options->nodes > 1 ? "es" : "",
		    options->threads, options->threads > 1 ? "s" : "");
	fprintf(out, ", %" PRIu32 " radix bits%s\n", plan->bits,
	    options_pin(options) ? ", pinned" : "");
	if (options->csv[INNER])
		fprintf(out,
		    "rows without key: inner %" PRIu64 ", outer %" PRIu64 "\n",
		    outcome->keyless[INNER], outcome->keyless[OUTER]);
	print_workers(out, outcome);
	fprintf(out, "  %-8s %10.3f %10.3f %12.3f\n\n", "slowest", f.inner,
	    f.outer, f.join);
	fprintf(out, "matches   %" PRIu64 "\n", outcome->result.matches);
	if (options->sum.name)
		fprintf(out, "sum       %" PRId64 " (%s:%s)\n",
		    (int64_t)outcome->result.sum.low,
		    options->sum.relation == INNER ? "inner" : "outer",
		    escape_text(name, sizeof(name), options->sum.name));
	fprintf(out, "checksum  %016" PRIx64 "\n", outcome->result.checksum);
	fprintf(out, "verified: %s\n",
	    !outcome->has_expected          ? "not checked"
		: outcome_verified(outcome) ? "true"
					    : "false");
	fprintf(out,
	    "seconds   %.3f: %.1f M tuples/s; partitioning %.2f GiB/s\n",
	    f.seconds, f.tuples_per_second * 1e-6, f.gib_per_second);
}

int report(
    FILE *out, const struct outcome *outcome, const struct options *options)
{
	int ret = 0;

	if (outcome->result.matches > INT64_MAX)
		return complain("there are more matches than can be counted, "
				"%jd",
		    (intmax_t)INT64_MAX);
	if (!sum_fits(&outcome->result.sum))
		return complain("--sum: the sum of column '%s' exceeds 64 bits",
		    options->sum.name);
	if (options->json)
		ret = print_json(out, outcome, options);
	else
		print_text(out, outcome, options);
	output_flush();
	if (fflush(out) || ferror(out))
		ret = complain("cannot write the report: %s", strerror(errno));
	if (outcome_wrong(outcome))
		ret = complain("the result is WRONG: expected %ju matches, "
			       "checksum %016jx, sum %jd",
		    (uintmax_t)outcome->expected.matches,
		    (uintmax_t)outcome->expected.checksum,
		    (intmax_t)outcome->expected.sum.low);
	return ret;
}
