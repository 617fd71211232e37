/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `dfi-bench tcp` and `dfi-bench peers`. */
#include "options.h"

#include "../common/usage.h"
#include "options_impl.h"
#include "slow.h"
#include "values.h"

/* What both have; measure_name: of the measures of the command. */
static error_t parse_rivals(
    int key, char *arg, struct argp_state *state, const char *(*name)(uint32_t))
{
	struct rivals_options *options = state->input;

	switch (key) {
	case KEY_MEASURE:
		parse_names(state, "measure", arg, name, options->measures,
		    N_MEASURES, &options->n_measures);
		return 0;
	case KEY_ITERATIONS:
		options->iterations = (uint64_t)parse_number(
		    state, "iterations", arg, 1, 1000000000);
		return 0;
	case KEY_PEER:
		parse_names(state, "peer", arg, peer_name, options->rivals,
		    N_RIVALS, &options->n_rivals);
		return 0;
	case ARGP_KEY_END:
		refuse_role(state, &options->common);
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

static error_t parse_tcp(int key, char *arg, struct argp_state *state)
{
	const struct rivals_options *options = state->input;

	if (key == ARGP_KEY_END && options->common.n_tuple_sizes > 1)
		usage_error(state, "--tuple-size: only one here");
	return parse_rivals(key, arg, state, tcp_measure_name);
}

/* Both ends of a node share a processor, as those of a rank do. */
static void place_nodes(
    const struct argp_state *state, struct rivals_options *options)
{
	struct common_options *common = &options->common;

	if (!options->straggler)
		return;
	if (options->n_measures != 1 || options->measures[0] != MEASURE_SHUFFLE)
		usage_error(state, "--straggler: only with --measure shuffle");
	if (common->placement.cpus || common->placement.off)
		return;
	common->placement.n_cpus = usable_cpus(common->cpus, 2);
	common->placement.cpus = common->cpus;
}

static error_t parse_peers(int key, char *arg, struct argp_state *state)
{
	struct rivals_options *options = state->input;

	if (key == ARGP_KEY_END)
		place_nodes(state, options);
	if (key != KEY_STRAGGLER)
		return parse_rivals(key, arg, state, peers_measure_name);
	options->straggler = (uint32_t)parse_number(
	    state, "straggler", arg, 1, SLOW_MOST);
	return 0;
}

#define ITERATIONS                                             \
	{                                                      \
		"iterations", KEY_ITERATIONS, "N", 0,          \
		    "Round trips of a round (default 5000)", 0 \
	}

void tcp_options_parse(int argc, char **argv, struct rivals_options *options)
{
	static const struct argp_option table[] = {
		{ "measure", KEY_MEASURE, "LIST", 0,
		    "What to measure: segments (default 8K and 64K), batches "
		    "of tuples, trips; several with commas (default all)",
		    0 },
		ITERATIONS,
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_tcp,
		.doc = "Measure flows over libfabric's provider tcp between "
		       "two processes on this host, in turns with other ways "
		       "over TCP: a bare loop of libfabric's writes, iperf3, "
		       "send(2), ZeroMQ and fi_pingpong, as far as they are "
		       "installed.",
		.children = common_children,
	};

	*options = (struct rivals_options){
		.common = common_defaults(),
		.measures = { MEASURE_SEGMENTS, MEASURE_BATCHES,
		    MEASURE_TRIPS },
		.n_measures = 3,
		.segment_sizes = { 8 << 10, 64 << 10 },
		.n_segment_sizes = 2,
		.iterations = 5000,
	};
	options->common.procs = 2;
	options->common.transport = DFI_TRANSPORT_OFI;
	parse_options(&argp, argc, argv, options);
}

void peers_options_parse(int argc, char **argv, struct rivals_options *options)
{
	static const struct argp_option table[] = {
		{ "measure", KEY_MEASURE, "LIST", 0,
		    "What to measure: tuples one by one (16 B unless "
		    "--tuple-size says otherwise), batches of them that both "
		    "ends fill and read, trips (64 B), shuffle (batches from "
		    "two sources to two targets by the hash of the key), "
		    "replicate (to a target on each other processor), combine "
		    "(sums by 1000 keys, of two sources), threads (tuples one "
		    "by one between a pair for each two processors); several "
		    "with commas (default the first three)",
		    0 },
		{ "peer", KEY_PEER, "LIST", 0,
		    "Peers to compare with (default all that are installed)",
		    0 },
		{ "straggler", KEY_STRAGGLER, "N", 0,
		    "In shuffle, let node 0 take N times as long for its own "
		    "work, at both of its ends; each node has a processor. "
		    "With 1 no node is slow. Only beside Alltoallv",
		    0 },
		ITERATIONS,
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_peers,
		.doc = "Measure flows between two processes on this host, in "
		       "turns with other ways through memory, as far as they "
		       "are installed (scripts/peers installs them).",
		.children = common_children,
	};

	*options = (struct rivals_options){
		.common = common_defaults(),
		.measures = { MEASURE_TUPLES, MEASURE_BATCHES, MEASURE_TRIPS },
		.n_measures = 3,
		.iterations = 5000,
	};
	options->common.procs = 2;
	options->common.transport = DFI_TRANSPORT_SHM;
	parse_options(&argp, argc, argv, options);
}
