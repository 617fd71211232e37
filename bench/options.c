/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of the subcommands, by argp: each has a parser around the common
 * one.
 */
#include "options.h"

#include <string.h>

#include "options_impl.h"
#include "../common/usage.h"
#include "slow.h"
#include "values.h"

static const uint32_t usual_sizes[] = { 16, 64, 256, 1024, 8192 };
static const uint32_t small_size[] = { 64 };

static error_t parse_raw(int key, char *arg, struct argp_state *state)
{
	struct raw_options *options = state->input;

	if (key == ARGP_KEY_END) {
		refuse_role(state, &options->common);
		refuse_transport(state, &options->common,
		    "hand-written rings are in memory");
		if (options->sweep && options->credit_interval)
			usage_error(
			    state, "--sweep, --credit-interval: choose one");
	}
	if (key == KEY_CREDIT_INTERVAL) {
		options->credit_interval = (uint32_t)parse_number(
		    state, "credit-interval", arg, 1, DFI_MAX_SEGMENT_COUNT);
		return 0;
	}
	if (key != KEY_SWEEP)
		return parse_rest(key, state, &options->common);
	options->sweep = true;
	return 0;
}

void raw_options_parse(int argc, char **argv, struct raw_options *options)
{
	static const struct argp_option table[] = {
		{ "sweep", KEY_SWEEP, NULL, 0,
		    "Try segments of 4K to 64K and rings of 64K to 64M", 0 },
		{ "credit-interval", KEY_CREDIT_INTERVAL, "N", 0,
		    "Segments that the consumer gives back at a time, up to "
		    "all of the ring's (default a quarter of them, as a flow's "
		    "target does)",
		    0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_raw,
		.doc = "Measure the hand-written ring alone, beside memcpy.",
		.children = common_children,
	};

	*options = (struct raw_options){ .common = common_defaults() };
	parse_options(&argp, argc, argv, options);
	if (options->sweep)
		default_tuple_sizes(&options->common, small_size, 1);
	default_tuple_sizes(&options->common, usual_sizes, 5);
}

/* Each source of --pairs has a target and a thread for itself. */
static void check_pairs(
    const struct argp_state *state, struct shuffle_options *options)
{
	static const uint32_t apis[] = { API_PUSH, API_CURSOR, API_CLAIM };
	uint32_t i;

	if (options->n_sources > 1 || options->n_targets > 1 ||
	    options->n_target_threads)
		usage_error(state,
		    "--pairs: without --sources, --targets and "
		    "--target-threads");
	options->n_sources = options->n_targets = options->n_pairs;
	options->routing = DFI_ROUTE_DIRECT;
	if (options->n_apis == N_APIS) {
		memcpy(options->apis, apis, sizeof(apis));
		options->n_apis = 3;
	}
	for (i = 0; i < options->n_apis; i++)
		if (options->apis[i] == API_BATCH)
			usage_error(state,
			    "--pairs: not with --api batch, which routes by "
			    "the key");
}

/* As many pairs in each direction, between two processes. */
static void check_both_ways(
    const struct argp_state *state, struct shuffle_options *options)
{
	if (options->common.role != BENCH_BOTH || options->n_nodes)
		usage_error(
		    state, "--bidirectional: without --role and --nodes");
	if (!options->n_pairs)
		options->n_pairs = 2;
	if (options->n_pairs % 2)
		usage_error(state,
		    "--bidirectional: with an even number of --pairs, half of "
		    "them for each direction");
	options->common.procs = 2;
}

/* Sources and targets go round the nodes. */
static void check_nodes(
    const struct argp_state *state, struct shuffle_options *options)
{
	if (options->common.role != BENCH_BOTH || options->common.procs != 1)
		usage_error(state, "--nodes: without --role and --procs");
	if (options->n_sources == 1 && options->n_targets == 1)
		options->n_sources = options->n_targets = options->n_nodes;
	if (options->n_sources < options->n_nodes ||
	    options->n_targets < options->n_nodes || options->n_target_threads)
		usage_error(state,
		    "--nodes %u: with as many --sources and --targets, or "
		    "more, and without --target-threads",
		    options->n_nodes);
	options->common.procs = options->n_nodes;
}

static void check_shuffle(
    const struct argp_state *state, struct shuffle_options *options)
{
	uint32_t i;

	if (options->both_ways)
		check_both_ways(state, options);
	if (options->n_pairs)
		check_pairs(state, options);
	if (options->n_nodes)
		check_nodes(state, options);
	if (options->link_bandwidth)
		check_link(state, options->apis, options->n_apis,
		    options->n_nodes ? options->n_nodes : options->n_targets);
	if (options->link_bandwidth && options->common.role != BENCH_BOTH)
		usage_error(state, "--link-bandwidth: without --role");
	if (options->link_latency_ns && !options->link_bandwidth)
		usage_error(state, "--link-latency: with --link-bandwidth");
	if (options->link_bandwidth &&
	    (options->slow_source || options->slow_target))
		usage_error(state,
		    "--slow-source, --slow-target: without --link-bandwidth");
	if (options->how &&
	    (options->link_bandwidth || options->slow_target ||
		options->common.role != BENCH_BOTH ||
		(options->n_target_threads &&
		    options->n_target_threads < options->n_targets)))
		usage_error(state,
		    "--how: without --link-bandwidth, --slow-target, --role "
		    "and --target-threads");
	if ((options->slow_source || options->slow_target) &&
	    (options->n_apis != 1 || options->apis[0] != API_BATCH))
		usage_error(state,
		    "--slow-source, --slow-target: only with --api batch");
	if (!options->n_target_threads)
		options->n_target_threads = options->n_targets;
	if (options->n_target_threads > options->n_targets)
		usage_error(state,
		    "--target-threads %u: more than --targets %u",
		    options->n_target_threads, options->n_targets);
	for (i = 0; i < options->n_apis; i++) {
		if (options->n_target_threads < options->n_targets &&
		    options->apis[i] != API_BATCH &&
		    options->apis[i] != API_CLAIM)
			usage_error(state,
			    "--target-threads below --targets: only with "
			    "--api batch or claim");
		if (options->raw_copies &&
		    (options->n_targets > 1 ||
			(options->apis[i] != API_PUSH &&
			    options->apis[i] != API_CURSOR)))
			usage_error(state,
			    "--raw-copies: only with --targets 1 and --api "
			    "push or cursor");
		if (options->routing == DFI_ROUTE_DIRECT &&
		    options->apis[i] == API_BATCH)
			usage_error(
			    state, "--routing direct: not with --api batch");
	}
}

static error_t parse_shuffle(int key, char *arg, struct argp_state *state)
{
	struct shuffle_options *options = state->input;

	switch (key) {
	case KEY_SOURCES:
		options->n_sources = (uint32_t)parse_number(
		    state, "sources", arg, 1, DFI_MAX_ENDPOINTS);
		return 0;
	case KEY_TARGETS:
		options->n_targets = (uint32_t)parse_number(
		    state, "targets", arg, 1, DFI_MAX_ENDPOINTS);
		return 0;
	case KEY_PAIRS:
		options->n_pairs = (uint32_t)parse_number(
		    state, "pairs", arg, 1, DFI_MAX_ENDPOINTS);
		return 0;
	case KEY_NODES:
		options->n_nodes = (uint32_t)parse_number(
		    state, "nodes", arg, 1, MAX_PROCS);
		return 0;
	case KEY_LINK_BANDWIDTH:
		options->link_bandwidth = parse_link_bandwidth(state, arg);
		return 0;
	case KEY_BIDIRECTIONAL:
		options->both_ways = true;
		return 0;
	case KEY_LINK_LATENCY:
		options->link_latency_ns = parse_link_latency(state, arg);
		return 0;
	case KEY_SLOW_SOURCE:
		options->slow_source = (uint32_t)parse_number(
		    state, "slow-source", arg, 1, SLOW_MOST);
		return 0;
	case KEY_SLOW_TARGET:
		options->slow_target = (uint32_t)parse_number(
		    state, "slow-target", arg, 1, SLOW_MOST);
		return 0;
	case KEY_TARGET_THREADS:
		options->n_target_threads = (uint32_t)parse_number(
		    state, "target-threads", arg, 1, DFI_MAX_ENDPOINTS);
		return 0;
	case KEY_API:
		parse_names(state, "api", arg, api_name, options->apis, N_APIS,
		    &options->n_apis);
		return 0;
	case KEY_HOW:
		options->how = parse_name(state, "how", arg, how_name, N_HOWS);
		return 0;
	case KEY_ROUTING:
		options->routing = parse_name(
		    state, "routing", arg, routing_name, DFI_ROUTE_DIRECT + 1);
		return 0;
	case KEY_BATCH:
		options->batch = (uint32_t)parse_number(
		    state, "batch", arg, 1, INT32_MAX);
		return 0;
	case KEY_NO_BASELINE:
		options->no_baseline = true;
		return 0;
	case KEY_ONE_TO_ONE:
		options->one_to_one = true;
		return 0;
	case KEY_RAW_GEOMETRY:
		if (!parse_geometry(arg, &options->raw_geometry))
			usage_error(state,
			    "--raw-geometry '%s': not a segment's bytes and a "
			    "number of segments, as 8Kx32",
			    arg);
		return 0;
	case KEY_RAW_COPIES:
		options->raw_copies = true;
		return 0;
	case ARGP_KEY_END:
		check_shuffle(state, options);
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void shuffle_options_parse(
    int argc, char **argv, struct shuffle_options *options)
{
	static const struct argp_option table[] = {
		{ "sources", KEY_SOURCES, "N", 0,
		    "Sources, a thread each, 1 to 4096 (default 1)", 0 },
		{ "targets", KEY_TARGETS, "N", 0,
		    "Targets, 1 to 4096 (default 1)", 0 },
		{ "pairs", KEY_PAIRS, "N", 0,
		    "Sources and targets, where each source sends to the "
		    "target of its number only",
		    0 },
		{ "bidirectional", KEY_BIDIRECTIONAL, NULL, 0,
		    "Pairs of two processes, of which every other one goes the "
		    "other way (default --pairs 2)",
		    0 },
		{ "nodes", KEY_NODES, "N", 0,
		    "Processes, 1 to 64, which each have a part of the sources "
		    "and of the targets (default number of both: N)",
		    0 },
		LINK_OPTION,
		LINK_LATENCY_OPTION,
		{ "slow-source", KEY_SLOW_SOURCE, "N", 0,
		    "Let source 0 take N times as long for its work, 1 to 100. "
		    "Only with --api batch; there is no baseline",
		    0 },
		{ "slow-target", KEY_SLOW_TARGET, "N", 0,
		    "The same for target 0", 0 },
		{ "target-threads", KEY_TARGET_THREADS, "N", 0,
		    "Threads that share the targets; each polls several "
		    "(default: one for each target)",
		    0 },
		{ "api", KEY_API, "LIST", 0,
		    "Calls to measure: push, cursor, batch or claim, several "
		    "with commas (default: all four)",
		    0 },
		HOW_OPTION("consume|fd|group",
		    "Targets wait in the consuming call, as --wait says, or "
		    "take batches until there are none, and then wait in "
		    "poll() on the descriptor of the target (fd) or of a group "
		    "(default consume)"),
		{ "routing", KEY_ROUTING, "hash|round-robin|direct", 0,
		    "Routing of tuples that are pushed one by one (default "
		    "hash)",
		    0 },
		{ "batch", KEY_BATCH, "N", 0,
		    "Tuples of one dfi_source_push_batch() (default 1024)", 0 },
		{ "no-baseline", KEY_NO_BASELINE, NULL, 0,
		    "Measure the flow only", 0 },
		{ "vs-one-to-one", KEY_ONE_TO_ONE, NULL, 0,
		    "Compare with the same flow with one source and one "
		    "target, instead of the hand-written ring",
		    0 },
		{ "raw-geometry", KEY_RAW_GEOMETRY, "SIZExN", 0,
		    "Segments of the hand-written ring, as 8Kx16: size and "
		    "number (default: as the flow's)",
		    0 },
		{ "raw-copies", KEY_RAW_COPIES, NULL, 0,
		    "Make the tuples of the hand-written ring outside of it "
		    "and copy them in, as a push does (default: make them in "
		    "place). Only with one target and --api push or cursor",
		    0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_shuffle,
		.doc = "Measure shuffle flows beside hand-written rings.",
		.children = common_children,
	};

	*options = (struct shuffle_options){
		.common = common_defaults(),
		.n_sources = 1,
		.n_targets = 1,
		.apis = { API_PUSH, API_CURSOR, API_BATCH, API_CLAIM },
		.n_apis = N_APIS,
		.batch = 1024,
	};
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, usual_sizes, 5);
}

static error_t parse_idle(int key, char *arg, struct argp_state *state)
{
	struct idle_options *options = state->input;

	if (key == KEY_HOW) {
		options->how = parse_name(state, "how", arg, how_name, N_HOWS);
		return 0;
	}
	if (key == ARGP_KEY_END)
		refuse_role(state, &options->common);
	return parse_rest(key, state, &options->common);
}

void idle_options_parse(int argc, char **argv, struct idle_options *options)
{
	static const struct argp_option table[] = {
		HOW_OPTION("consume|fd|group",
		    "Wait in a consuming call, as --wait says, or in poll() on "
		    "the descriptor of the target (fd) or of a target group "
		    "(default consume)"),
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_idle,
		.doc =
		    "Measure the processor time of a target that waits for "
		    "--seconds and gets no tuple. The defaults of this command "
		    "are --seconds 5, --repeat 1, --procs 2 and --wait block.",
		.children = common_children,
	};

	*options = (struct idle_options){ .common = common_defaults() };
	options->common.seconds = 5;
	options->common.repeat = 1;
	options->common.procs = 2;
	options->common.wait = DFI_WAIT_BLOCK;
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, small_size, 1);
}

static error_t parse_sequencer(int key, char *arg, struct argp_state *state)
{
	struct sequencer_options *options = state->input;

	switch (key) {
	case KEY_CLIENTS:
		parse_counts(state, "clients", arg,
		    &(struct count_list){ options->clients, 1,
			DFI_MAX_ENDPOINTS, MAX_CLIENT_COUNTS },
		    &options->n_clients);
		return 0;
	case KEY_BATCH:
		options->batch = (uint32_t)parse_number(
		    state, "batch", arg, 1, INT32_MAX);
		return 0;
	case KEY_ITERATIONS:
		options->iterations = (uint64_t)parse_number(
		    state, "iterations", arg, 1, 1000000000);
		return 0;
	case ARGP_KEY_END:
		refuse_role(state, &options->common);
		refuse_transport(state, &options->common,
		    "numbers are taken as DFI_TRANSPORT says");
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void sequencer_options_parse(
    int argc, char **argv, struct sequencer_options *options)
{
	static const struct argp_option table[] = {
		{ "clients", KEY_CLIENTS, "LIST", 0,
		    "Threads that take numbers, 1 to 4096: a list with commas, "
		    "with a result for each (default 1,2,4,8,16)",
		    0 },
		{ "batch", KEY_BATCH, "N", 0,
		    "Numbers that one call takes (default 1)", 0 },
		{ "iterations", KEY_ITERATIONS, "N", 0,
		    "Calls of all threads in a round (default 4000000)", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_sequencer,
		.doc = "Measure how fast threads take numbers of another "
		       "process's sequencer, beside fetch-and-add on a bare "
		       "word. DFI_TRANSPORT says how numbers travel. Options "
		       "of flows have no effect.",
		.children = common_children,
	};

	*options = (struct sequencer_options){
		.common = common_defaults(),
		.clients = { 1, 2, 4, 8, 16 },
		.n_clients = 5,
		.batch = 1,
		.iterations = 4000000,
	};
	parse_options(&argp, argc, argv, options);
}

static error_t parse_setup(int key, char *arg, struct argp_state *state)
{
	struct setup_options *options = state->input;

	switch (key) {
	case KEY_ITERATIONS:
		options->iterations = (uint64_t)parse_number(
		    state, "iterations", arg, 1, 100000000);
		return 0;
	case ARGP_KEY_END:
		refuse_role(state, &options->common);
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void setup_options_parse(int argc, char **argv, struct setup_options *options)
{
	static const struct argp_option table[] = {
		{ "iterations", KEY_ITERATIONS, "N", 0,
		    "Flows, one after another (default 2000)", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_setup,
		.doc = "Measure the time to create a flow, attach a target and "
		       "a source, send the first tuple, close, and remove the "
		       "flow, in one process. --repeat, --procs and other "
		       "options of rounds have no effect.",
		.children = common_children,
	};

	*options = (struct setup_options){
		.common = common_defaults(),
		.iterations = 2000,
	};
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, small_size, 1);
}
