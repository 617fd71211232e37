/* SPDX-License-Identifier: Apache-2.0 */
/* The options of run, and of memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/nearest.h"
#include "../common/usage.h"
#include "experiments.h"
#include "options_impl.h"
#include "options.h"
#include "values.h"

/* "8x14,2x4" */
static void parse_nodes(const struct argp_state *state, const char *text,
    struct memory_options *options)
{
	const char *next = text;
	struct node_count *count;
	int used;

	options->n_counts = 0;
	do {
		next += *next == ',';
		count = &options->counts[options->n_counts];
		used = 0;
		if (options->n_counts == MAX_NODE_COUNTS ||
		    sscanf(next, "%4ux%4u%n", &count->nodes, &count->threads,
			&used) != 2 ||
		    (next[used] && next[used] != ',') || !count->nodes ||
		    !count->threads ||
		    count->nodes * count->threads > DFI_MAX_ENDPOINTS)
			usage_error(state,
			    "--nodes '%s': not a list of at most %d pairs of "
			    "nodes and threads, as 2x4,8x14, with at most %d "
			    "threads in all",
			    text, MAX_NODE_COUNTS, DFI_MAX_ENDPOINTS);
		options->n_counts++;
		next += used;
	} while (*next);
}

static error_t parse_memory(int key, char *arg, struct argp_state *state)
{
	struct memory_options *options = state->input;

	if (key == KEY_NODES) {
		parse_nodes(state, arg, options);
		return 0;
	}
	if (key == ARGP_KEY_END)
		refuse_role(state, &options->common);
	return parse_rest(key, state, &options->common);
}

void memory_options_parse(int argc, char **argv, struct memory_options *options)
{
	static const uint32_t size[] = { 64 };
	static const struct argp_option table[] = {
		{ "nodes", KEY_NODES, "LIST", 0,
		    "Nodes and threads of each, as 8x14, several with commas "
		    "(default 2x4,8x4,8x14)",
		    0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_memory,
		.doc = "Show the memory that the rings of a shuffle between "
		       "all threads of all nodes take on each node. Nothing is "
		       "reserved or sent. Options of rounds have no effect.",
		.children = common_children,
	};

	*options = (struct memory_options){
		.common = common_defaults(),
		.counts = { { 2, 4 }, { 8, 4 }, { 8, 14 } },
		.n_counts = 3,
	};
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, size, 1);
}

/* Add the experiment of a name. */
static void choose(const struct argp_state *state, const char *text,
    struct run_options *options)
{
	const struct experiment *experiment = experiment_find(text);
	const char **names;
	uint32_t i;

	if (experiment) {
		options->chosen[options->n_chosen++] = experiment;
		return;
	}
	names = calloc(experiments_count() + 1, sizeof(*names));
	for (i = 0; names && i < experiments_count(); i++)
		names[i] = experiment_at(i)->name;
	usage_error(state,
	    "there is no experiment '%s': the nearest is %s (dfi-bench list "
	    "shows all)",
	    text, names ? nearest_name(text, names) : "unknown");
}

static void check_run(
    const struct argp_state *state, const struct run_options *options)
{
	if (options->all == (options->n_chosen > 0))
		usage_error(state,
		    "name experiments, or choose --all (dfi-bench list shows "
		    "them)");
	if (!options->out)
		usage_error(state, "--out DIR: the folder of results");
}

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
	struct run_options *options = state->input;

	switch (key) {
	case KEY_ALL:
		options->all = true;
		return 0;
	case KEY_OUT:
		options->out = arg;
		return 0;
	case KEY_AGAIN:
		options->again = true;
		return 0;
	case KEY_VERIFY:
		options->rounds.verify = true;
		return 0;
	case KEY_SECONDS:
		parse_seconds(state, "seconds", arg);
		options->rounds.seconds = arg;
		return 0;
	case KEY_REPEAT:
		options->rounds.repeat = (uint32_t)parse_number(
		    state, "repeat", arg, 1, STATS_MAX_VALUES);
		return 0;
	case ARGP_KEY_ARG:
		choose(state, arg, options);
		return 0;
	case ARGP_KEY_END:
		check_run(state, options);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void run_options_parse(int argc, char **argv, struct run_options *options)
{
	static const struct argp_option table[] = {
		{ "all", KEY_ALL, NULL, 0, "Run all experiments", 0 },
		{ "out", KEY_OUT, "DIR", 0,
		    "The folder of the results, made if it is missing. An "
		    "experiment whose results are in it is not run again",
		    0 },
		{ "again", KEY_AGAIN, NULL, 0, "Run finished experiments again",
		    0 },
		{ "repeat", KEY_REPEAT, "N", 0,
		    "Measured rounds, 1 to 1000 (default 5)", 0 },
		{ "seconds", KEY_SECONDS, "S", 0,
		    "Length of a round (default 0.1)", 0 },
		{ "verify", KEY_VERIFY, NULL, 0,
		    "Check order, content and routing of each tuple in an "
		    "additional round",
		    0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_run,
		.args_doc = "NAME... | --all",
		.doc = "Run experiments of dfi-bench list and write a file of "
		       "JSON for each. A run that was stopped goes on.",
	};

	*options = (struct run_options){
		.chosen = calloc((size_t)argc, sizeof(*options->chosen)),
		.rounds = { .seconds = "0.1", .repeat = RUN_REPEAT },
	};
	if (!options->chosen)
		abort();
	parse_options(&argp, argc, argv, options);
}
