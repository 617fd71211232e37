/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `dfi-bench tcp`. */
#include "options.h"

#include "../common/usage.h"
#include "options_impl.h"
#include "values.h"

static error_t parse_tcp(int key, char *arg, struct argp_state *state)
{
	struct tcp_options *options = state->input;

	switch (key) {
	case KEY_MEASURE:
		parse_names(state, "measure", arg, measure_name,
		    options->measures, N_MEASURES, &options->n_measures);
		return 0;
	case KEY_ITERATIONS:
		options->iterations = (uint64_t)parse_number(
		    state, "iterations", arg, 1, 1000000000);
		return 0;
	case ARGP_KEY_END:
		refuse_role(state, &options->common);
		if (options->common.n_tuple_sizes > 1)
			usage_error(state, "--tuple-size: only one here");
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void tcp_options_parse(int argc, char **argv, struct tcp_options *options)
{
	static const struct argp_option table[] = {
		{ "measure", KEY_MEASURE, "LIST", 0,
		    "What to measure: segments (default 8K and 64K), batches "
		    "of tuples, trips; several with commas (default all)",
		    0 },
		{ "iterations", KEY_ITERATIONS, "N", 0,
		    "Round trips of a round (default 5000)", 0 },
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
	static const uint32_t tuple_size = 64;

	*options = (struct tcp_options){
		.common = common_defaults(),
		.measures = { MEASURE_SEGMENTS, MEASURE_BATCHES,
		    MEASURE_TRIPS },
		.n_measures = N_MEASURES,
		.segment_sizes = { 8 << 10, 64 << 10 },
		.n_segment_sizes = 2,
		.iterations = 5000,
	};
	options->common.procs = 2;
	options->common.transport = DFI_TRANSPORT_OFI;
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, &tuple_size, 1);
}
