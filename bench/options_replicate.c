/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of replicate flows.
 */
#include "options_impl.h"

#include "../common/usage.h"
#include "values.h"

static void check_replicate(
    const struct argp_state *state, const struct replicate_options *options)
{
	uint32_t i;

	if (options->histogram && !options->latency)
		usage_error(state, "--histogram: only with --latency");
	if (options->link_latency_ns && !options->link_bandwidth &&
	    !options->latency)
		usage_error(state,
		    "--link-latency: with --link-bandwidth or --latency");
	if (options->link_bandwidth && options->latency)
		usage_error(state, "--link-bandwidth: without --latency");
	if (options->link_bandwidth && options->common.role != BENCH_BOTH)
		usage_error(state, "--link-bandwidth: without --role");
	if (options->link_bandwidth)
		check_link(state, options->apis, options->n_apis, 1);
	for (i = 0; i < options->n_apis; i++)
		if (options->raw_copies && options->apis[i] != API_PUSH &&
		    options->apis[i] != API_CURSOR)
			usage_error(state,
			    "--raw-copies: only with --api push or cursor");
}

static error_t parse_replicate(int key, char *arg, struct argp_state *state)
{
	struct replicate_options *options = state->input;

	switch (key) {
	case KEY_MODE:
		parse_names(state, "mode", arg, mode_name, options->modes,
		    N_MODES, &options->n_modes);
		return 0;
	case KEY_TARGETS:
		parse_counts(state, "targets", arg,
		    &(struct count_list){ options->targets, 1,
			REPLICATE_MAX_TARGETS, MAX_TARGET_COUNTS },
		    &options->n_target_counts);
		return 0;
	case KEY_API:
		parse_names(state, "api", arg, api_name, options->apis, N_APIS,
		    &options->n_apis);
		return 0;
	case KEY_BATCH:
		options->batch = (uint32_t)parse_number(
		    state, "batch", arg, 1, INT32_MAX);
		return 0;
	case KEY_NO_BASELINE:
		options->no_baseline = true;
		return 0;
	case KEY_RAW_COPIES:
		options->raw_copies = true;
		return 0;
	case KEY_LINK_BANDWIDTH:
		options->link_bandwidth = parse_link_bandwidth(state, arg);
		return 0;
	case KEY_LINK_LATENCY:
		options->link_latency_ns = parse_link_latency(state, arg);
		return 0;
	case KEY_LATENCY:
		options->latency = true;
		return 0;
	case KEY_HISTOGRAM:
		options->histogram = arg;
		return 0;
	case KEY_ITERATIONS:
		options->iterations = (uint64_t)parse_number(
		    state, "iterations", arg, 1, 100000000);
		return 0;
	case ARGP_KEY_END:
		check_replicate(state, options);
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void replicate_options_parse(
    int argc, char **argv, struct replicate_options *options)
{
	static const uint32_t small_size[] = { 64 };
	static const struct argp_option table[] = {
		{ "mode", KEY_MODE, "LIST", 0,
		    "naive, multicast, or ordered: multicast with one order of "
		    "all segments at all targets; with one source it measures "
		    "only the price of the numbers. Several take turns "
		    "(default naive,multicast)",
		    0 },
		{ "targets", KEY_TARGETS, "LIST", 0,
		    "Targets, 1 to 8, each with a thread: a list with commas, "
		    "with a result for each (default 1,2,4,8)",
		    0 },
		{ "api", KEY_API, "LIST", 0,
		    "Calls to measure: push, cursor, batch or claim, several "
		    "with commas (default: all four)",
		    0 },
		{ "batch", KEY_BATCH, "N", 0,
		    "Tuples of one dfi_source_push_batch() (default 1024)", 0 },
		{ "no-baseline", KEY_NO_BASELINE, NULL, 0,
		    "Measure the flows only", 0 },
		{ "raw-copies", KEY_RAW_COPIES, NULL, 0,
		    "Make the tuples of the hand-written ring outside of it "
		    "and copy them in, as a push does (default: make them in "
		    "place). Only with --api push or cursor",
		    0 },
		LINK_OPTION,
		LINK_LATENCY_OPTION,
		{ "latency", KEY_LATENCY, NULL, 0,
		    "Measure the time from a request to the replies of all "
		    "targets, over latency flows, instead of bandwidth",
		    0 },
		{ "histogram", KEY_HISTOGRAM, "FILE", 0,
		    "With --latency, write all round trips of all rounds to a "
		    "file of "
		    "comma-separated values",
		    0 },
		{ "iterations", KEY_ITERATIONS, "N", 0,
		    "Requests of a round, 1 to 100000000 (default 20000)", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_replicate,
		.doc = "Measure replicate flows of one source. They take turns "
		       "with a hand-written ring that all targets read, and "
		       "with a shuffle flow with one target.",
		.children = common_children,
	};

	*options = (struct replicate_options){
		.common = common_defaults(),
		.modes = { MODE_NAIVE, MODE_MULTICAST },
		.n_modes = 2,
		.targets = { 1, 2, 4, 8 },
		.n_target_counts = 4,
		.apis = { API_PUSH, API_CURSOR, API_BATCH, API_CLAIM },
		.n_apis = N_APIS,
		.batch = 1024,
		.iterations = 20000,
	};
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, small_size, 1);
}
