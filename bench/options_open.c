/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of dfi-bench open and pauses. */
#include "open.h"

#include "options_impl.h"
#include "pauses.h"
#include "values.h"

const char *open_measure_name(uint32_t measure)
{
	static const char *const names[] = {
		[OPEN_PUSH] = "push",
		[OPEN_KEYED] = "keyed",
		[OPEN_BATCH] = "batch",
		[OPEN_CLAIM] = "claim",
		[OPEN_REPLICATE] = "replicate",
		[OPEN_TRIPS] = "trips",
	};

	return measure < N_OPEN_MEASURES ? names[measure] : NULL;
}

static error_t parse_open(int key, char *arg, struct argp_state *state)
{
	struct open_options *options = state->input;

	switch (key) {
	case KEY_MEASURE:
		parse_names(state, "measure", arg, open_measure_name,
		    options->measures, N_OPEN_MEASURES, &options->n_measures);
		return 0;
	case KEY_ITERATIONS:
		options->iterations = (uint64_t)parse_number(
		    state, "iterations", arg, 1, 1000000000);
		return 0;
	case ARGP_KEY_END:
		refuse_role(state, &options->common);
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void open_options_parse(int argc, char **argv, struct open_options *options)
{
	static const struct argp_option table[] = {
		{ "measure", KEY_MEASURE, "LIST", 0,
		    "What to measure: tuples one by one to any target (push) "
		    "or by key (keyed, 16 B unless --tuple-size says "
		    "otherwise), batches of them, tuples built in segments "
		    "(claim) or copied to two targets (replicate), trips; "
		    "several with commas (default all)",
		    0 },
		{ "iterations", KEY_ITERATIONS, "N", 0,
		    "Round trips of a round (default 20000)", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_open,
		.doc = "Measure open flows whose members stay, in turns with "
		       "closed flows of the same shape.",
		.children = common_children,
	};

	*options = (struct open_options){
		.common = common_defaults(),
		.measures = { OPEN_PUSH, OPEN_KEYED, OPEN_BATCH, OPEN_CLAIM,
		    OPEN_REPLICATE, OPEN_TRIPS },
		.n_measures = N_OPEN_MEASURES,
		.iterations = 20000,
	};
	options->common.transport = DFI_TRANSPORT_SHM;
	parse_options(&argp, argc, argv, options);
}

static error_t parse_pauses(int key, char *arg, struct argp_state *state)
{
	struct pauses_options *options = state->input;

	(void)arg;
	if (key == ARGP_KEY_END) {
		refuse_role(state, &options->common);
		return 0;
	}
	return parse_rest(key, state, &options->common);
}

void pauses_options_parse(int argc, char **argv, struct pauses_options *options)
{
	static const struct argp argp = {
		.parser = parse_pauses,
		.doc = "Measure how long a pair of an open flow stands still "
		       "while another target, a process, joins, leaves or "
		       "dies, and how long 128 of 256 partitions take to move "
		       "to a target that joins, behind the drain of their old "
		       "owner. --repeat is how often each happens; other "
		       "options of rounds have no effect.",
		.children = common_children,
	};

	*options = (struct pauses_options){ .common = common_defaults() };
	parse_options(&argp, argc, argv, options);
}
