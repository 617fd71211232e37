/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of combiner flows.
 */
#include "options_impl.h"

#include "../common/usage.h"
#include "values.h"

/* The key, and the value. */
#define LEAST_TUPLE 16

static void check_combine(
    const struct argp_state *state, const struct combine_options *options)
{
	const struct common_options *common = &options->common;
	uint32_t i;

	refuse_role(state, common);
	for (i = 0; i < common->n_tuple_sizes; i++)
		if (common->tuple_sizes[i] < LEAST_TUPLE)
			usage_error(state,
			    "--tuple-size %u: a tuple of this command has at "
			    "least %d bytes",
			    common->tuple_sizes[i], LEAST_TUPLE);
	for (i = 0; i < options->n_fan_ins; i++)
		if (options->fan_ins[i] == 1)
			usage_error(state,
			    "--fan-in 1: a combiner has 2 inputs or more; 0: "
			    "no tree");
}

static error_t parse_combine(int key, char *arg, struct argp_state *state)
{
	struct combine_options *options = state->input;

	switch (key) {
	case KEY_SOURCES:
		options->n_sources = (uint32_t)parse_number(
		    state, "sources", arg, 1, DFI_MAX_ENDPOINTS);
		return 0;
	case KEY_GROUPS:
		parse_counts(state, "groups", arg,
		    &(struct count_list){ options->groups, 0,
			COMBINE_MAX_GROUPS, MAX_GROUP_COUNTS },
		    &options->n_group_counts);
		return 0;
	case KEY_COMBINING:
		parse_names(state, "source-combining", arg, combining_name,
		    options->combinings, MAX_COMBININGS,
		    &options->n_combinings);
		return 0;
	case KEY_FAN_IN:
		parse_counts(state, "fan-in", arg,
		    &(struct count_list){
			options->fan_ins, 0, DFI_MAX_ENDPOINTS, MAX_FAN_INS },
		    &options->n_fan_ins);
		return 0;
	case KEY_NO_BASELINE:
		options->no_baseline = true;
		return 0;
	case ARGP_KEY_END:
		check_combine(state, options);
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void combine_options_parse(
    int argc, char **argv, struct combine_options *options)
{
	static const uint32_t usual_size[] = { 16 };
	static const struct argp_option table[] = {
		{ "sources", KEY_SOURCES, "N", 0,
		    "Sources, a thread each, 1 to 4096 (default 8)", 0 },
		{ "groups", KEY_GROUPS, "LIST", 0,
		    "Different keys, evenly spread, up to 100000000: a list "
		    "with commas, with a result for each; 0: one group, "
		    "without a key (default 1,1000,1000000)",
		    0 },
		{ "source-combining", KEY_COMBINING, "LIST", 0,
		    "off, on (as long as it pays) or always: a list with "
		    "commas. They take turns, with a result for each (default "
		    "off,on)",
		    0 },
		{ "fan-in", KEY_FAN_IN, "LIST", 0,
		    "Inputs of each combiner of a tree: a list with commas. "
		    "They take turns, with a result for each; 0: no tree. "
		    "Combiners are threads beside the target (default 0)",
		    0 },
		{ "no-baseline", KEY_NO_BASELINE, NULL, 0,
		    "Measure the flow only", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_combine,
		.doc = "Measure a combiner flow that sums integers by a key. "
		       "It takes turns with a shuffle flow with one source, "
		       "and with a hand-written loop over a hash table like "
		       "the flow's, fed from memory.",
		.children = common_children,
	};

	*options = (struct combine_options){
		.common = common_defaults(),
		.n_sources = 8,
		.groups = { 1, 1000, 1000000 },
		.n_group_counts = 3,
		.combinings = { DFI_COMBINING_OFF, DFI_COMBINING_ADAPTIVE },
		.n_combinings = 2,
		.n_fan_ins = 1,
	};
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, usual_size, 1);
}
