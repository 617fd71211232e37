/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of scale. */
#include "options_impl.h"

#include <string.h>

#include "../common/usage.h"
#include "values.h"

static const char *const axis_names[N_AXES] = {
	[AXIS_SOURCES] = "sources",
	[AXIS_TARGETS] = "targets",
	[AXIS_FLOWS] = "flows",
	[AXIS_DECLARED] = "declared",
};

/* The counts of each axis, if none are given. */
static const uint64_t usual[N_AXES][MAX_COUNTS] = {
	[AXIS_SOURCES] = { 1, 4, 16, 64, 256, 1024 },
	[AXIS_TARGETS] = { 1, 4, 16, 64, 256 },
	[AXIS_FLOWS] = { 1, 4, 16, 64 },
	[AXIS_DECLARED] = { 1, 16, 256, 4096 },
};

const char *axis_name(uint32_t axis)
{
	return axis_names[axis];
}

/* The common options that would change nothing here. */
static void refuse_rounds(
    const struct argp_state *state, const struct common_options *common)
{
	if (common->procs != 2)
		usage_error(state,
		    "--procs 1: scale has a process for the sources and one "
		    "for the targets");
	if (common->n_tuple_sizes &&
	    (common->n_tuple_sizes > 1 || common->tuple_sizes[0] != 64))
		usage_error(state, "--tuple-size: scale sends tuples of 64 B");
	if (common->wait != DFI_WAIT_ADAPTIVE)
		usage_error(state, "--wait: the targets of scale poll");
	if (common->bytes)
		usage_error(state,
		    "--bytes: a round of scale has a length, see --seconds");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct scale_options *options = state->input;

	switch (key) {
	case KEY_OF:
		options->axis = parse_name(state, "of", arg, axis_name, N_AXES);
		return 0;
	case KEY_COUNTS:
		parse_counts(state, "counts", arg,
		    &(struct count_list){
			options->counts, 1, 4096, MAX_COUNTS },
		    &options->n_counts);
		return 0;
	case KEY_ITERATIONS:
		options->iterations = (uint64_t)parse_number(
		    state, "iterations", arg, 1, 100000000);
		return 0;
	case KEY_APART:
		options->apart = true;
		return 0;
	case ARGP_KEY_END:
		refuse_role(state, &options->common);
		refuse_rounds(state, &options->common);
		if (options->apart && options->axis != AXIS_FLOWS)
			usage_error(state, "--apart: only with --of flows");
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void scale_options_parse(int argc, char **argv, struct scale_options *options)
{
	static const uint32_t small_size[] = { 64 };
	static const struct argp_option table[] = {
		{ "of", KEY_OF, "sources|targets|flows|declared", 0,
		    "What is counted: sources of one target, targets of one "
		    "source, flows of one source and one target, or declared "
		    "sources of which one attaches (default sources)",
		    0 },
		{ "counts", KEY_COUNTS, "LIST", 0,
		    "How many, with a result for each, at most 4096", 0 },
		{ "apart", KEY_APART, NULL, 0,
		    "Give each flow's source connections of its own (default: "
		    "sources of all flows share them). Only with --of flows",
		    0 },
		{ "iterations", KEY_ITERATIONS, "N", 0,
		    "Tuples whose way is timed, and empty polls (default 5000)",
		    0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse,
		.doc = "Measure how bandwidth, an empty poll, the way of a "
		       "single tuple, memory and descriptors grow with the "
		       "number of endpoints. One process has all sources and "
		       "one all targets, with a thread each: one sends and "
		       "one polls.",
		.children = common_children,
	};

	*options = (struct scale_options){
		.common = common_defaults(),
		.iterations = 5000,
	};
	options->common.procs = 2;
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, small_size, 1);
	if (options->n_counts)
		return;
	memcpy(options->counts, usual[options->axis], sizeof(options->counts));
	while (options->n_counts < MAX_COUNTS &&
	    options->counts[options->n_counts])
		options->n_counts++;
}
