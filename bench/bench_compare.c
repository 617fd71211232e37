/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-bench compare: whether results have become slower. It pairs the rows of
 * two results and judges the ratio of their medians by its confidence interval.
 */
#include <argp.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "../common/complain.h"
#include "../common/usage.h"
#include "bench.h"
#include "interval.h"
#include "pairs.h"
#include "report.h"

enum {
	KEY_JSON = 256,
	KEY_TOLERANCE,
	KEY_ABSOLUTE,
	LEAST_ROUNDS = 5, /* of which an interval says something */
	NAME_WIDTH = 100,
};

struct compare_options {
	const char *paths[2];
	uint32_t n_paths;
	double tolerance;
	bool json, absolute;
};

/* What was found so far. */
struct judgement {
	const struct compare_options *options;
	json_t *rows;
	uint32_t slower, faster, same, unclear, not_judged, missing, wrong;
};

static const char *judge(struct judgement *all, const struct interval *interval)
{
	switch (interval_judge(interval, all->options->tolerance)) {
	case PAIR_SLOWER:
		all->slower++;
		return "slower";
	case PAIR_FASTER:
		all->faster++;
		return "faster";
	case PAIR_SAME:
		all->same++;
		return "same";
	default:
		all->unclear++;
		return "unclear";
	}
}

static void print_row(const json_t *row)
{
	char name[NAME_WIDTH];
	const json_t *low = json_object_get(row, "low");

	puts(escape_text(name, sizeof(name),
	    json_string_value(json_object_get(row, "what"))));
	printf("  %10.5g %10.5g %-9s",
	    json_number_value(json_object_get(row, "old")),
	    json_number_value(json_object_get(row, "new")),
	    json_string_value(json_object_get(row, "unit")));
	if (json_is_real(low))
		printf(" %7.3f  %6.3f to %6.3f  %-8s",
		    json_number_value(json_object_get(row, "speed")),
		    json_number_value(low),
		    json_number_value(json_object_get(row, "high")),
		    json_string_value(json_object_get(row, "beside")));
	else
		printf(" %7s  %16s  %-8s", "-", "-", "-");
	printf("  %s\n", json_string_value(json_object_get(row, "verdict")));
}

static void compare_rows(struct judgement *all, const char *what,
    const json_t *old_row, const json_t *new_row)
{
	static struct rounds_of_row before, after;
	struct interval interval = { 0 };
	const char *verdict;
	bool beside = !all->options->absolute &&
	    pairs_share_baseline(old_row, new_row);
	bool judged;
	json_t *row;

	pairs_rounds(old_row, beside, &before);
	pairs_rounds(new_row, beside, &after);
	judged = before.n >= LEAST_ROUNDS && after.n >= LEAST_ROUNDS;
	if (json_is_false(json_object_get(old_row, "verified")) ||
	    json_is_false(json_object_get(new_row, "verified"))) {
		all->wrong++;
		judged = false;
		verdict = "wrong data";
	} else if (!judged) {
		all->not_judged++;
		verdict = "too few rounds";
	} else {
		interval = interval_of_medians(
		    after.values, after.n, before.values, before.n);
		verdict = judge(all, &interval);
	}
	row = json_pack("{s:s, s:O, s:O, s:O, s:o, s:o, s:o, s:s, s:s}", "what",
	    what, "unit", json_object_get(new_row, "unit"), "old",
	    json_object_get(old_row, "value"), "new",
	    json_object_get(new_row, "value"), "speed",
	    judged ? report_number(interval.ratio) : json_null(), "low",
	    judged ? report_number(interval.low) : json_null(), "high",
	    judged ? report_number(interval.high) : json_null(), "beside",
	    beside ? "baseline" : "itself", "verdict", verdict);
	if (!all->options->json)
		print_row(row);
	json_array_append_new(all->rows, row);
}

static void compare_all(
    struct judgement *all, json_t *old_rows, json_t *new_rows)
{
	json_t *row, *other;
	const char *what;

	if (!all->options->json)
		printf("  %10s %10s %-9s %7s  %-16s  %-8s  %s\n", "old", "new",
		    "unit", "speed", "95 % interval", "beside", "verdict");
	json_object_foreach(old_rows, what, row)
	{
		other = json_object_get(new_rows, what);
		if (other) {
			compare_rows(all, what, row, other);
			continue;
		}
		all->missing++;
		complain("%s has no row of %s", all->options->paths[1], what);
	}
}

static void print_summary(const struct judgement *all)
{
	if (all->options->json) {
		json_t *object = json_pack("{s:s, s:s, s:f, s:O, s:i, s:i}",
		    "old", all->options->paths[0], "new",
		    all->options->paths[1], "tolerance",
		    all->options->tolerance, "rows", all->rows, "slower",
		    (int)all->slower, "missing", (int)all->missing);

		json_dumpf(
		    object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
		putchar('\n');
		json_decref(object);
		return;
	}
	printf("%u slower by more than %g %%, %u faster, %u the same, %u "
	       "unclear, %u with too few rounds\n",
	    all->slower, 100 * all->options->tolerance, all->faster, all->same,
	    all->unclear, all->not_judged);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct compare_options *options = state->input;

	switch (key) {
	case KEY_JSON:
		options->json = true;
		return 0;
	case KEY_ABSOLUTE:
		options->absolute = true;
		return 0;
	case KEY_TOLERANCE:
		options->tolerance =
		    option_real(state, "--tolerance", arg, 0, 99) / 100;
		return 0;
	case ARGP_KEY_ARG:
		if (options->n_paths == 2)
			usage_error(state, "'%s': name two results", arg);
		options->paths[options->n_paths++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (options->n_paths < 2)
			usage_error(state, "name two results: OLD NEW");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int bench_compare(int argc, char **argv)
{
	static const struct argp_option table[] = {
		{ "absolute", KEY_ABSOLUTE, NULL, 0,
		    "Compare results alone, not beside their baselines", 0 },
		{ "json", KEY_JSON, NULL, 0, "Print one JSON object", 0 },
		{ "tolerance", KEY_TOLERANCE, "PERCENT", 0,
		    "How much slower is no change, 0 to 99 (default 2)", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse,
		.args_doc = "OLD NEW",
		.doc = "Tell whether results have become slower. OLD and NEW "
		       "are files that commands wrote with --json, or files "
		       "or folders of dfi-bench run. Each result is taken "
		       "beside its baseline of the same rounds, if both have "
		       "one. The exit status is 1 if a result is slower by "
		       "more than the tolerance with 95 % confidence, has "
		       "wrong data or is missing in NEW.",
	};

	struct compare_options options = { .tolerance = 0.02 };
	struct judgement all = { .options = &options };
	json_t *old_rows, *new_rows;

	if (options_check(&argp, argv))
		return EX_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	old_rows = pairs_load(options.paths[0]);
	new_rows = old_rows ? pairs_load(options.paths[1]) : NULL;
	if (new_rows) {
		all.rows = json_array();
		compare_all(&all, old_rows, new_rows);
		print_summary(&all);
		json_decref(all.rows);
	}
	json_decref(old_rows);
	json_decref(new_rows);
	return !new_rows || all.slower || all.wrong || all.missing;
}
