/* SPDX-License-Identifier: Apache-2.0 */
/* The options of round trips. */
#include "options.h"

#include "options_impl.h"
#include "../common/usage.h"
#include "values.h"

#define LATENCY_MAX_WINDOW 4096

/* A ping-pong on one processor that never yields takes a time slice a trip. */
static void check_latency(
    const struct argp_state *state, struct latency_options *options)
{
	options->one_core = options->one_core ||
	    shares_processor(&options->common);
	if (options->one_core && options->common.wait == DFI_WAIT_SPIN)
		usage_error(state,
		    "--wait spin: both ends run on one processor, where each "
		    "uses up its time slice before the other runs: choose "
		    "--wait adaptive or block, or two processors (--pin, "
		    "taskset)");
	if (options->window > 1 && options->link_latency_ns)
		usage_error(state, "--window, --link-latency: choose one");
	if (options->bulk &&
	    (options->window > 1 || options->rate || options->link_latency_ns))
		usage_error(state,
		    "--bulk: without --window, --rate and --link-latency");
	if (options->window > 1 && options->rate)
		usage_error(state, "--window, --rate: choose one");
	if (options->vs_ring &&
	    (options->one_core || options->bulk || options->window > 1))
		usage_error(state,
		    "--vs-ring: without --bulk and --window, and with two "
		    "processors");
	if (options->how == HOW_GROUP)
		usage_error(state, "--how: trips wait in consume or fd");
	if (options->how && (options->bulk || options->common.role))
		usage_error(state, "--how fd: without --bulk and --role");
}

static error_t parse_latency(int key, char *arg, struct argp_state *state)
{
	struct latency_options *options = state->input;

	switch (key) {
	case KEY_ITERATIONS:
		options->iterations = (uint64_t)parse_number(
		    state, "iterations", arg, 1, 100000000);
		return 0;
	case KEY_HISTOGRAM:
		options->histogram = arg;
		return 0;
	case KEY_RATE:
		options->rate = (uint64_t)parse_number(
		    state, "rate", arg, 1, 10000000);
		return 0;
	case KEY_BULK:
		options->bulk = true;
		return 0;
	case KEY_VS_RING:
		options->vs_ring = true;
		return 0;
	case KEY_HOW:
		options->how = parse_name(state, "how", arg, how_name, N_HOWS);
		return 0;
	case KEY_LINK_LATENCY:
		options->link_latency_ns = parse_link_latency(state, arg);
		return 0;
	case KEY_WINDOW:
		options->window = (uint32_t)parse_number(
		    state, "window", arg, 1, LATENCY_MAX_WINDOW);
		return 0;
	case KEY_ONE_CORE:
		options->one_core = true;
		return 0;
	case ARGP_KEY_END:
		check_latency(state, options);
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void latency_options_parse(
    int argc, char **argv, struct latency_options *options)
{
	static const struct argp_option table[] = {
		{ "iterations", KEY_ITERATIONS, "N", 0,
		    "Round trips of a round, 1 to 100000000 (default 200000; "
		    "10000 with --one-core)",
		    0 },
		{ "rate", KEY_RATE, "N", 0,
		    "Requests a second, 1 to 10000000. They are due at fixed "
		    "times, and a round trip lasts from then on, so a slow "
		    "reply delays the next ones (default: each request as soon "
		    "as the reply before has come)",
		    0 },
		{ "window", KEY_WINDOW, "N", 0,
		    "Requests that are on their way together, 1 to 4096 and at "
		    "most a ring's segments; then the rate of replies tells "
		    "more than the times, and there is no baseline (default 1)",
		    0 },
		{ "bulk", KEY_BULK, NULL, 0,
		    "Let the client push bulk data to the server through "
		    "another flow whenever it waits. The baseline is the same "
		    "round trip without",
		    0 },
		{ "vs-ring", KEY_VS_RING, NULL, 0,
		    "Compare with hand-written rings that carry the tuples in "
		    "the same layout, built in place (default: bare cache "
		    "lines)",
		    0 },
		HOW_OPTION("consume|fd",
		    "Wait in the consuming call, as --wait says, or in poll() "
		    "on the descriptor of the target (default consume)"),
		LINK_LATENCY_OPTION,
		{ "histogram", KEY_HISTOGRAM, "FILE", 0,
		    "Write all round trips of all rounds to a file of "
		    "comma-separated values",
		    0 },
		{ "one-core", KEY_ONE_CORE, NULL, 0,
		    "Pin both ends to one processor, where the baseline "
		    "yields. Default if there is only one",
		    0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_latency,
		.doc = "Measure round trips over two latency flows beside a "
		       "bare cache-line ping-pong.",
		.children = common_children,
	};

	*options = (struct latency_options){ .common = common_defaults() };
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, (const uint32_t[]){ 64 }, 1);
	if (!options->iterations)
		options->iterations = options->one_core ? 10000 : 200000;
	if (options->rate)
		options->common.timeout_s += (uint32_t)(options->iterations /
		    options->rate);
}
